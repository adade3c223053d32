"""Runs an ONNX model in ONNX Runtime each time a line comes in, and prints its milliseconds.

    python benches/peers/onnxruntime_model.py MODEL [BATCH [THREADS]] [--profile]

One image and two threads unless told otherwise. The input is the same noise each time. With --profile, runs the model
fifty times instead, and prints where the time goes.
"""

import argparse
import collections
import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np
import onnxruntime

# The first runs are slower, and have no place in a mean.
WARM_UPS = 5
PROFILE_RUNS = 50
PROFILE_ROWS = 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("batch", type=int, nargs="?", default=1)
    parser.add_argument("threads", type=int, nargs="?", default=2)
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


def session(args, profile_prefix=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    return onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])


def feed(model, batch):
    """Noise for the model's one input. The first axis is the batch; any other that is open counts as one."""
    (value,) = model.get_inputs()
    shape = [batch] + [extent if isinstance(extent, int) else 1 for extent in value.shape[1:]]
    return {value.name: np.random.default_rng(1).standard_normal(shape, dtype=np.float32)}


def answer(args):
    """A line out for each line in, as the other peers do it."""
    model = session(args)
    inputs = feed(model, args.batch)
    model.run(None, inputs)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model.run(None, inputs)
        print(f"{(time.perf_counter() - start) * 1e3:.4f}", flush=True)


def kernel_times(trace):
    """Mean milliseconds of each node per run, with its operator, from ONNX Runtime's list of events; the slowest first."""
    times, operators = collections.defaultdict(list), {}
    for event in trace:
        name, suffix = event["name"], "_kernel_time"
        if event.get("cat") == "Node" and name.endswith(suffix):
            node = name.removesuffix(suffix)
            times[node].append(event["dur"] / 1e3)
            operators[node] = event["args"]["op_name"]
    rows = [(node, operators[node], statistics.mean(runs[WARM_UPS:])) for node, runs in times.items()]
    return sorted(rows, key=lambda row: row[2], reverse=True)


def profile(args):
    """A table of the slowest nodes, as they are after ONNX Runtime has fused and reordered them."""
    with tempfile.TemporaryDirectory() as folder:
        model = session(args, os.path.join(folder, "profile"))
        inputs = feed(model, args.batch)
        for _ in range(WARM_UPS + PROFILE_RUNS):
            model.run(None, inputs)
        with open(model.end_profiling(), encoding="utf-8") as file:
            rows = kernel_times(json.load(file))
    total = sum(ms for _, _, ms in rows)
    print(f"{'ms':>9}{'share':>8}  {'operator':<22}node")
    for node, operator, ms in rows[:PROFILE_ROWS]:
        print(f"{ms:>9.4f}{ms / total:>8.1%}  {operator:<22}{node}")
    rest = sum(ms for _, _, ms in rows[PROFILE_ROWS:])
    print(f"{rest:>9.4f}{rest / total:>8.1%}  {len(rows[PROFILE_ROWS:])} more")
    print(f"{total:>9.4f}{1:>8.1%}  all {len(rows)} nodes, mean of {PROFILE_RUNS} runs")


if __name__ == "__main__":
    chosen = arguments()
    profile(chosen) if chosen.profile else answer(chosen)
