"""Runs a model of the zoo in ONNX Runtime each time a line comes in, and prints its milliseconds. To the line `memory` it answers with
the memory that it had before it read the model, and with the most that it ever had, in KiB.

    python benches/peers/onnxruntime_zoo.py DATA MODEL ID THREADS FOLDER

DATA has zoo.json and the golden inputs, as `scripts/zoo` leaves them; MODEL is the file. The inputs are written into FOLDER first, as
NAME.npy with the number of the input for a name, so that others run on the same.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime
from safetensors.numpy import load_file


def golden_inputs(data, entry):
    golden = load_file(data / entry["golden"]["file"])
    for name, how in entry["feed"]["inputs"].items():
        if (whole := golden.get(f"in.{name}")) is None:
            whole = golden[f"in.{name}.base"]
            for axis, times in enumerate(how["repeat"]):
                whole = np.repeat(whole, times, axis)
        yield name, whole


def memory(field):
    """A field of what Linux says about this process: VmRSS is its memory, VmHWM the most that it had."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def forget_peak():
    """From now on the most that it had is counted anew."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def main(data, file, wanted, threads, folder):
    data, folder = pathlib.Path(data), pathlib.Path(folder)
    (entry,) = (one for one in json.loads((data / "zoo.json").read_text()) if one["id"] == wanted)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    given = dict(golden_inputs(data, entry))
    forget_peak()
    before = memory("VmRSS")
    model = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs = {port.name: given[port.name] for port in model.get_inputs()}
    for number, value in enumerate(inputs.values()):
        np.save(folder / f"{number}.npy", np.asarray(value, order="C"))
    model.run(None, inputs)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(before, memory("VmHWM"), flush=True)
            continue
        start = time.perf_counter()
        model.run(None, inputs)
        print(f"{(time.perf_counter() - start) * 1e3:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
