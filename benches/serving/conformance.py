"""Tries every call of tritonclient, over HTTP and gRPC, against a server of the Open Inference Protocol.

    conformance.py --http HOST:PORT --grpc HOST:PORT --model NAME --identity NAME [--bodies FOLDER] [--require EXTENSION,...]

NAME of --model takes one FP32 tensor. NAME of --identity has several inputs of many types and returns each as the output of the same place
(`identity.py` writes such a model); -1 in its shapes may be any number. --bodies is a folder written by `bodies.py`: with it, numbers are compared too.
An extension that the server lists in its metadata must work; one it does not list must be refused properly; --require names those that must be listed.
One line a check: `ok`, `FAIL` or `skip`, its name, and what was seen. Leaves with 1 if any check failed.
"""

import argparse
import asyncio
import pathlib
import queue
import sys
import time

import grpc
import numpy as np
import tritonclient.grpc as tgrpc
import tritonclient.grpc.aio as tgrpc_aio
import tritonclient.http as thttp
import tritonclient.http.aio as thttp_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

TYPES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES".split()
# Where a tensor of each type goes in a gRPC message that does not carry raw bytes. FP16 has no such place.
CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(["INT8", "INT16", "INT32"], "int_contents"),
    **dict.fromkeys(["UINT8", "UINT16", "UINT32"], "uint_contents"),
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}

# What each kind of failure may answer: HTTP status, gRPC code.
BAD = {"400", "422", "INVALID_ARGUMENT"}
UNKNOWN = {"404", "NOT_FOUND"}
NOT_LOADED = UNKNOWN | {"400", "503", "UNAVAILABLE"}
NOT_OFFERED = {"404", "405", "501", "UNIMPLEMENTED"}
SWITCHED_OFF = NOT_OFFERED | {"401", "403", "503", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNAVAILABLE", "FAILED_PRECONDITION"}
TOO_LATE = {"408", "429", "503", "504", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}

failed = 0


def say(verdict, name, detail=""):
    global failed
    failed += verdict == "FAIL"
    print(f"{verdict} {name}: {' '.join(str(detail).split())[:200]}", flush=True)


class Skip(Exception):
    """A check that cannot be made here; its text says why."""


def check(name, call):
    """Runs a check: it fails with whatever it raises, and is fine with what it returns."""
    try:
        say("ok", name, call())
    except Skip as why:
        say("skip", name, why)
    except InferenceServerException as error:
        say("FAIL", name, f"{status(error)} {error.message()}")
    except Exception as error:  # a check that falls over is a failed one
        say("FAIL", name, f"{type(error).__name__}: {error}")


def status(error):
    return (error.status() or "made by the client").removeprefix("StatusCode.")


def refusal(call, allowed):
    """The refusal that a call must meet, as text."""
    try:
        given = call()
    except InferenceServerException as error:
        code, text = status(error), str(error.message())
        assert "while decoding the response" not in text, f"{code}: the body is not an error of the protocol: {text}"
        assert code in allowed, f"refused with {code}, not one of {sorted(allowed)}: {text}"
        assert text.strip(), f"{code} without a text"
        return f"{code} {text}"
    except grpc.RpcError as error:
        assert error.code().name in allowed, f"refused with {error.code().name}: {error.details()}"
        return f"{error.code().name} {error.details()}"
    raise AssertionError(f"not refused: {str(given)[:120]}")


def same(given, wanted, tolerance=0.0):
    assert given is not None, "no such output"
    assert given.shape == wanted.shape, f"shape {given.shape}, not {wanted.shape}"
    if tolerance:
        worst = float(np.abs(given - wanted).max())
        assert worst <= tolerance, f"differs by {worst}"
        return f"differs by at most {worst:.2g}"
    assert given.dtype == wanted.dtype or wanted.dtype == np.object_, f"type {given.dtype}, not {wanted.dtype}"
    if wanted.dtype == np.object_:  # text in JSON comes back as text
        given = np.array([each.encode() if isinstance(each, str) else each for each in given.ravel()], np.object_).reshape(given.shape)
    assert given.tolist() == wanted.tolist(), f"{given.ravel()[:4]} is not {wanted.ravel()[:4]}"
    return f"{wanted.dtype} {list(wanted.shape)}"


def sample(datatype, shape):
    """Values of a type with its extremes among them."""
    kind = np.dtype(triton_to_np_dtype(datatype)) if datatype != "BYTES" else None
    count = int(np.prod(shape))
    if datatype == "BYTES":
        values = [b"", "grüße".encode(), b"x" * 300, b"plain"]
    elif datatype == "BOOL":
        values = [True, False, True]
    elif kind.kind in "iu":
        values = [np.iinfo(kind).max, np.iinfo(kind).min, 0, 7]
    else:
        values = [0.5, -1.25, 0.0, np.finfo(kind).max, np.finfo(kind).tiny]
    filled = [values[index % len(values)] for index in range(count)]
    return np.array(filled, np.object_ if datatype == "BYTES" else kind).reshape(shape)


class Patient(tgrpc.InferenceServerClient):
    """The client with an end to its patience: by itself it waits for ever on a server that lost a request."""

    def infer(self, *arguments, client_timeout=60, **named):
        return super().infer(*arguments, client_timeout=client_timeout, **named)


class Wire:
    """One of the two protocols, so that most checks are written once."""

    def __init__(self, name, module, client):
        self.name, self.module, self.client = name, module, client

    def json(self, call, *arguments, **named):
        """An answer of the client as plain data, whichever the protocol."""
        return call(*arguments, **named) if self.name == "http" else call(*arguments, as_json=True, **named)

    def input(self, name, data, datatype, **named):
        return self.module.InferInput(name, list(data.shape), datatype).set_data_from_numpy(data, **named)

    def bytes_of(self, given, change):
        """The same input with its bytes changed behind the client's back."""
        if self.name == "http":
            given._raw_data = change(given._raw_data)
            given._parameters["binary_data_size"] = len(given._raw_data)
        else:
            given._raw_content = change(given._raw_content)
        return given


class Model:
    """What the metadata say of a model, and inputs that fit it."""

    def __init__(self, wire, name):
        meta = wire.json(wire.client.get_model_metadata, name)
        self.name = name
        self.inputs = [self.tensor(entry) for entry in meta["inputs"]]
        self.outputs = [self.tensor(entry) for entry in meta["outputs"]]

    @staticmethod
    def tensor(entry):
        return entry["name"], entry["datatype"], [int(side) for side in entry.get("shape", [])]

    def samples(self, batch=2):
        return [sample(datatype, [batch if side < 0 else side for side in shape]) for _, datatype, shape in self.inputs]


def health_and_metadata(wire, options):
    client, name = wire.client, wire.name
    check(f"{name} server live", lambda: expect(client.is_server_live()))
    check(f"{name} server ready", lambda: expect(client.is_server_ready()))
    for model in (options.model, options.identity):
        check(f"{name} model ready {model}", lambda: expect(client.is_model_ready(model)))
    check(f"{name} unknown model is not ready", lambda: not_ready(client, "no_such_model"))
    check(f"{name} unknown version is not ready", lambda: not_ready(client, options.model, "987654"))

    def server():
        meta = wire.json(client.get_server_metadata)
        assert isinstance(meta["name"], str) and meta["name"] and isinstance(meta["version"], str), meta
        listed = meta.get("extensions", [])
        assert all(isinstance(entry, str) for entry in listed), meta
        missing = options.require - set(listed)
        assert not missing, f"not listed: {sorted(missing)}"
        return meta

    check(f"{name} server metadata", server)
    versions = []

    def model(which):
        meta = wire.json(client.get_model_metadata, which)
        assert meta["name"] == which, meta
        assert isinstance(meta["platform"], str), "no platform"
        for entry in meta["inputs"] + meta["outputs"]:
            assert entry["name"] and entry["datatype"] in TYPES + ["BF16"], entry
            assert all(int(side) >= -1 for side in entry.get("shape", [])), entry
        versions[:] = meta.get("versions", [])
        return f"{len(meta['inputs'])} in, {len(meta['outputs'])} out, versions {versions}"

    check(f"{name} model metadata {options.identity}", lambda: model(options.identity))
    check(f"{name} model metadata {options.model}", lambda: model(options.model))

    def by_version():
        if not versions:
            raise Skip("the model lists no versions")
        assert client.is_model_ready(options.model, versions[-1]), "not ready by its version"
        return wire.json(client.get_model_metadata, options.model, versions[-1])["name"]

    check(f"{name} model metadata by version", by_version)
    check(f"{name} metadata of an unknown model", lambda: refusal(lambda: client.get_model_metadata("no_such_model"), UNKNOWN))
    check(f"{name} metadata of an unknown version", lambda: refusal(lambda: client.get_model_metadata(options.model, "987654"), UNKNOWN | BAD))
    if name == "http":
        check("http a name with odd characters", lambda: refusal(lambda: client.get_model_metadata("../../etc/passwd %00?x=1#y"), UNKNOWN | BAD))
        check("http query parameters are ignored", lambda: expect(client.is_server_live(query_params={"a": 1, "b": ["c", "d"]})))
        check("http other headers are ignored", lambda: expect(client.is_server_live(headers={"X-Own": "1"})))


def expect(truth):
    assert truth, "the answer was no"
    return truth


def not_ready(client, *which):
    try:
        assert not client.is_model_ready(*which), "said to be ready"
        return "no"
    except InferenceServerException as error:
        assert status(error) in NOT_LOADED | BAD, f"{status(error)} {error.message()}"
        return f"{status(error)} {error.message()}"


def listed(wire, extension):
    return extension in wire.json(wire.client.get_server_metadata).get("extensions", [])


def configuration(wire, options):
    def read():
        if not listed(wire, "model_configuration"):
            return "not listed: " + refusal(lambda: wire.client.get_model_config(options.model), NOT_OFFERED)
        config = wire.json(wire.client.get_model_config, options.model)
        config = config.get("config", config)
        assert config["name"] == options.model, config
        for entry in config["input"] + config["output"]:
            assert entry["data_type"].startswith("TYPE_") and entry["dims"], entry
        return f"max_batch_size {config.get('max_batch_size', 0)}, {config['input']}"

    check(f"{wire.name} model config", read)
    check(f"{wire.name} config of an unknown model", lambda: refusal(lambda: wire.client.get_model_config("no_such_model"), UNKNOWN | NOT_OFFERED))


def inference(wire, options):
    client, name = wire.client, wire.name
    model = Model(wire, options.model)
    (input_name, datatype, shape), (output_name, *_) = model.inputs[0], model.outputs[0]
    golden = None
    if options.bodies:
        image = np.fromfile(options.bodies / "raw_1.bin", np.float32).reshape([1] + shape[1:])
        golden = np.load(options.bodies / "logits.npy")
    else:
        image = np.linspace(-1, 1, int(np.prod(shape[1:])), dtype=np.float32).reshape([1] + shape[1:])

    def given(data=image, **named):
        return wire.input(input_name, data, datatype, **named)

    def logits(result, rows=1):
        output = result.as_numpy(output_name)
        if golden is None:
            assert output.shape[0] == rows and np.isfinite(output).all(), output.shape
            return list(output.shape)
        return same(output, np.repeat(golden, rows, axis=0), 5e-3)

    check(f"{name} infer", lambda: logits(client.infer(options.model, [given()])))
    for rows in (2, 5):
        check(f"{name} infer {rows} at once", lambda: logits(client.infer(options.model, [given(np.repeat(image, rows, axis=0))]), rows))
    if name == "http":
        for sent in (False, True):
            for back in (False, True):
                check(
                    f"http infer, input {'binary' if sent else 'JSON'}, output {'binary' if back else 'JSON'}",
                    lambda: logits(client.infer(options.model, [given(binary_data=sent)], outputs=[thttp.InferRequestedOutput(output_name, binary_data=back)])),
                )
        for request in (None, "gzip", "deflate"):
            for response in (None, "gzip", "deflate"):
                if request or response:
                    check(
                        f"http request {request or 'plain'}, response {response or 'plain'}",
                        lambda: logits(client.infer(options.model, [given()], request_compression_algorithm=request, response_compression_algorithm=response)),
                    )
        check("http async_infer", lambda: logits(client.async_infer(options.model, [given()]).get_result(timeout=60)))
        check("http 8 async_infer", lambda: [logits(each.get_result(timeout=60)) for each in [client.async_infer(options.model, [given()]) for _ in range(8)]][-1])
        check("http asyncio client", lambda: asyncio.run(http_asyncio(options, given(), logits)))
    else:
        for algorithm in ("gzip", "deflate"):
            check(f"grpc {algorithm}", lambda: logits(client.infer(options.model, [given()], compression_algorithm=algorithm)))
        check("grpc client_timeout that suffices", lambda: logits(client.infer(options.model, [given()], client_timeout=60)))
        check("grpc client_timeout of 50 µs", lambda: refusal(lambda: client.infer(options.model, [given()], client_timeout=5e-5), {"DEADLINE_EXCEEDED"}))
        check("grpc client_timeout of 2 ms", lambda: late(lambda: client.infer(options.model, [given()], client_timeout=2e-3)))
        check("grpc works after a timeout", lambda: logits(client.infer(options.model, [given()])))
        check("grpc async_infer", lambda: logits(later(client, options.model, [given()])))
        check("grpc async_infer cancelled", lambda: cancelled(client, options.model, [given()]))
        check("grpc asyncio client", lambda: asyncio.run(grpc_asyncio(options, given(), logits)))
        check("grpc infer with typed contents", lambda: contents_of_model(client, options.model, input_name, output_name, image, golden))

    def identified(identifier):
        response = client.infer(options.model, [given()], request_id=identifier).get_response()
        back = response["id"] if name == "http" else response.id
        assert back == identifier, f"came back as {back!r}"
        model_name = response["model_name"] if name == "http" else response.model_name
        assert model_name == options.model, model_name
        return back

    check(f"{name} request id", lambda: identified("my request 42"))
    check(f"{name} request id of odd characters", lambda: identified('"quoted" \\ grüße \u2603'))

    def anonymous():
        response = client.infer(options.model, [given()]).get_response()
        back = response.get("id", "") if name == "http" else response.id
        return f"came back as {back!r}"

    check(f"{name} no request id", anonymous)
    check(f"{name} priority", lambda: logits(client.infer(options.model, [given()], priority=1)))
    check(f"{name} timeout that suffices", lambda: logits(client.infer(options.model, [given()], timeout=60_000_000)))
    check(f"{name} timeout of 1 µs", lambda: late(lambda: client.infer(options.model, [given()], timeout=1)))
    own = {"text": "x", "number": 3, "truth": True}
    check(f"{name} own parameters", lambda: logits(client.infer(options.model, [given()], parameters=own)))
    check(f"{name} all outputs by default", lambda: names_are(client.infer(options.model, [given()]), [entry[0] for entry in model.outputs]))

    def by_version():
        versions = wire.json(client.get_model_metadata, options.model).get("versions", [])
        if not versions:
            raise Skip("the model lists no versions")
        return logits(client.infer(options.model, [given()], model_version=versions[-1]))

    check(f"{name} infer by version", by_version)

    def classes():
        wanted = wire.module.InferRequestedOutput(output_name, class_count=3)
        if not listed(wire, "classification"):
            return "not listed: " + refusal(lambda: client.infer(options.model, [given()], outputs=[wanted]), BAD | NOT_OFFERED)
        top = client.infer(options.model, [given()], outputs=[wanted]).as_numpy(output_name)
        assert top.shape == (1, 3), top.shape
        values = [float(entry.split(b":")[0]) for entry in top[0]]
        assert values == sorted(values, reverse=True), top
        assert golden is None or int(top[0][0].split(b":")[1]) == int(golden.argmax()), top
        return top.tolist()

    check(f"{name} classification", classes)

    def refused(what, call, allowed=BAD):
        check(f"{name} refuses {what}", lambda: refusal(call, allowed))

    wide = np.repeat(image, 2, axis=-1)
    refused("an unknown model", lambda: client.infer("no_such_model", [given()]), UNKNOWN)
    refused("an unknown version", lambda: client.infer(options.model, [given()], model_version="987654"), UNKNOWN | BAD)
    refused("a wrong input name", lambda: client.infer(options.model, [wire.input("no_such_input", image, datatype)]))
    refused("a wrong dimension", lambda: client.infer(options.model, [given(wide)]))
    refused("a wrong rank", lambda: client.infer(options.model, [given(image[0])]))
    refused("a tensor of no rows", lambda: client.infer(options.model, [given(image[:0])]))
    refused("a wrong type", lambda: client.infer(options.model, [wire.input(input_name, image.astype(np.float64), "FP64")]))
    refused("a wrong type of the same size", lambda: client.infer(options.model, [wire.input(input_name, image.astype(np.int32), "INT32")]))
    refused("text for numbers", lambda: client.infer(options.model, [wire.input(input_name, np.array([b"x"], np.object_), "BYTES")]))
    refused("a type that does not exist", lambda: client.infer(options.model, [renamed(wire, given(), "FP13")]))
    refused("too few bytes", lambda: client.infer(options.model, [wire.bytes_of(given(), lambda data: data[:-4])]))
    refused("one byte too few", lambda: client.infer(options.model, [wire.bytes_of(given(), lambda data: data[:-1])]))
    refused("too many bytes", lambda: client.infer(options.model, [wire.bytes_of(given(), lambda data: data + bytes(4))]))
    refused("no bytes", lambda: client.infer(options.model, [wire.bytes_of(given(), lambda data: b"")]))
    refused("no inputs", lambda: client.infer(options.model, []))
    refused("the same input twice", lambda: client.infer(options.model, [given(), given()]))
    refused("one input too many", lambda: client.infer(options.model, [given(), wire.input("more", image, datatype)]))
    refused("an unknown output", lambda: client.infer(options.model, [given()], outputs=[wire.module.InferRequestedOutput("no_such_output")]))
    twice = [wire.module.InferRequestedOutput(output_name)] * 2
    check(f"{name} the same output twice", lambda: refused_or_once(client, options.model, given(), twice))
    check(f"{name} still works", lambda: logits(client.infer(options.model, [given()])))


def refused_or_once(client, model, given, twice):
    """Triton refuses a doubled output; an answer that has it once harms nobody."""
    try:
        return names_are(client.infer(model, [given], outputs=twice), None)
    except InferenceServerException as error:
        assert status(error) in BAD, f"{status(error)} {error.message()}"
        return f"{status(error)} {error.message()}"


def renamed(wire, given, datatype):
    if wire.name == "http":
        given._datatype = datatype
    else:
        given._input.datatype = datatype
    return given


def late(call):
    """A time that may or may not suffice: either answer is fine, another failure is not."""
    try:
        call()
        return "answered in time"
    except InferenceServerException as error:
        assert status(error) in TOO_LATE, f"{status(error)} {error.message()}"
        return f"{status(error)} {error.message()}"


def names_are(result, wanted):
    response = result.get_response()
    names = [entry["name"] for entry in response["outputs"]] if isinstance(response, dict) else [entry.name for entry in response.outputs]
    assert wanted is None or sorted(names) == sorted(wanted), f"{names}, not {wanted}"
    assert len(names) == len(set(names)), f"{names}: one twice"
    return names


def later(client, model, inputs):
    answers = queue.Queue()
    client.async_infer(model, inputs, callback=lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=60)
    if error is not None:
        raise error
    return result


def cancelled(client, model, inputs):
    answers = queue.Queue()
    context = client.async_infer(model, inputs, callback=lambda result, error: answers.put((result, error)))
    context.cancel()
    _, error = answers.get(timeout=60)
    if error is None:
        return "answered before it was cancelled"
    assert status(error) == "CANCELLED", f"{status(error)} {error.message()}"
    return "CANCELLED"


async def http_asyncio(options, given, logits):
    async with thttp_aio.InferenceServerClient(options.http) as client:
        assert await client.is_server_live() and await client.is_model_ready(options.model)
        return [logits(each) for each in await asyncio.gather(*[client.infer(options.model, [given]) for _ in range(4)])][-1]


async def grpc_asyncio(options, given, logits):
    async with tgrpc_aio.InferenceServerClient(options.grpc) as client:
        assert await client.is_server_live() and await client.is_model_ready(options.model)
        return [logits(each) for each in await asyncio.gather(*[client.infer(options.model, [given], client_timeout=60) for _ in range(4)])][-1]


def stub_of(options):
    size = 256 << 20
    channel = grpc.insecure_channel(options.grpc, [("grpc.max_send_message_length", size), ("grpc.max_receive_message_length", size)])
    return channel, service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(model, tensors, raw=()):
    """A request with typed contents: (name, type, array) each; raw adds raw bytes behind them."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, datatype, data in tensors:
        entry = request.inputs.add(name=name, datatype=datatype, shape=list(data.shape))
        getattr(entry.contents, CONTENTS[datatype]).extend(data.ravel().tolist())
    request.raw_input_contents.extend(raw)
    return request


def contents_of_model(client, model, input_name, output_name, image, golden):
    response = client._client_stub.ModelInfer(message(model, [(input_name, "FP32", image)]), timeout=60)
    output = tgrpc.InferResult(response).as_numpy(output_name)
    assert output is not None and output.size, "no raw output"
    return "answered" if golden is None else same(output, golden, 5e-3)


def types(wire, options):
    """Every type there and back, and what cannot be said in JSON."""
    client, name = wire.client, wire.name
    model = Model(wire, options.identity)
    if not model.inputs or len(model.inputs) != len(model.outputs):
        say("skip", f"{name} types", f"{options.identity} lists {len(model.inputs)} inputs and {len(model.outputs)} outputs")
        return
    samples = model.samples()
    named = {"binary_data": True} if name == "http" else {}

    def inputs(changed=None, **how):
        return [wire.input(entry[0], data, entry[1], **(how if index == changed and how else named)) for index, (entry, data) in enumerate(zip(model.inputs, samples))]

    def back(index, given, wanted=None):
        result = client.infer(options.identity, given, outputs=wanted)
        return same(result.as_numpy(model.outputs[index][0]), samples[index])

    for index, (_, datatype, _) in enumerate(model.inputs):
        output = model.outputs[index][0]
        if name == "grpc":
            check(f"grpc {datatype}", lambda: back(index, inputs()))
            continue
        for sent in (True, False):
            for binary in (True, False):
                what = f"http {datatype}, input {'binary' if sent else 'JSON'}, output {'binary' if binary else 'JSON'}"
                wanted = [thttp.InferRequestedOutput(output, binary_data=binary)]
                if datatype == "FP16" and not (sent and binary):
                    # The client refuses to send it, Triton to answer it; a server that can answer is no worse.
                    check(what, lambda: half_by_json(lambda: back(index, inputs(index, binary_data=sent), wanted)))
                else:
                    check(what, lambda: back(index, inputs(index, binary_data=sent), wanted))
    for datatype in TYPES:
        if datatype not in [entry[1] for entry in model.inputs]:
            first = model.inputs[0][0]
            wrong = [wire.input(first, sample(datatype, [2]), datatype, **named)] + inputs()[1:]
            check(f"{name} {datatype}, which no input has, is refused", lambda: refusal(lambda: client.infer(options.identity, wrong), BAD))

    def all_at_once():
        result = client.infer(options.identity, inputs())
        names_are(result, [entry[0] for entry in model.outputs])
        for entry, data in zip(model.outputs, samples):
            same(result.as_numpy(entry[0]), data)
        return f"{len(samples)} outputs"

    check(f"{name} all types at once", all_at_once)

    def subset(which):
        wanted = [wire.module.InferRequestedOutput(model.outputs[index][0]) for index in which]
        result = client.infer(options.identity, inputs(), outputs=wanted)
        for index in which:
            same(result.as_numpy(model.outputs[index][0]), samples[index])
        return names_are(result, [model.outputs[index][0] for index in which])

    last = len(model.outputs) - 1
    check(f"{name} one output of several", lambda: subset([last]))
    check(f"{name} two outputs in another order", lambda: subset([last, 0]))
    check(f"{name} inputs in another order", lambda: same(client.infer(options.identity, inputs()[::-1]).as_numpy(model.outputs[0][0]), samples[0]))
    check(f"{name} a missing input is refused", lambda: refusal(lambda: client.infer(options.identity, inputs()[1:]), BAD))
    if name == "http":
        mixed = [index for index, entry in enumerate(model.inputs) if entry[1] != "FP16"]

        def mixture():
            given = [wire.input(entry[0], data, entry[1], binary_data=index not in mixed or index % 2 == 0) for index, (entry, data) in enumerate(zip(model.inputs, samples))]
            wanted = [thttp.InferRequestedOutput(model.outputs[index][0], binary_data=index % 2 == 1) for index in mixed]
            result = client.infer(options.identity, given, outputs=wanted)
            for index in mixed:
                same(result.as_numpy(model.outputs[index][0]), samples[index])
            return f"{len(mixed)} outputs"

        check("http JSON and binary mixed in one request", mixture)
    else:
        channel, stub = stub_of(options)
        whole = [(entry[0], entry[1], data) for entry, data in zip(model.inputs, samples) if entry[1] in CONTENTS]
        if len(whole) == len(model.inputs):

            def typed():
                result = tgrpc.InferResult(stub.ModelInfer(message(options.identity, whole), timeout=60))
                for entry, data in zip(model.outputs, samples):
                    same(result.as_numpy(entry[0]), data)
                return f"{len(whole)} inputs"

            check("grpc typed contents of all types", typed)
        else:
            say("skip", "grpc typed contents of all types", "the model has an FP16 input, which has no typed form")
        plain = [(entry[0], entry[1], data) for entry, data in zip(model.inputs, samples) if entry[1] not in ("FP16", "BYTES")]
        both = message(options.identity, plain, [data.tobytes() for _, _, data in plain])
        check("grpc refuses raw and typed contents together", lambda: refusal(lambda: stub.ModelInfer(both, timeout=60), BAD))
        (name_of, _, sides), *_ = Model(wire, options.model).inputs
        short = message(options.model, [(name_of, "FP32", np.zeros([1] + sides[1:], np.float32))])
        short.inputs[0].shape[0] = 2
        check("grpc refuses typed contents that are too short", lambda: refusal(lambda: stub.ModelInfer(short, timeout=60), BAD))
        bare = service_pb2.ModelInferRequest(model_name=options.identity)
        bare.inputs.add(name=plain[0][0], datatype=plain[0][1], shape=[2])
        check("grpc refuses an input without any contents", lambda: refusal(lambda: stub.ModelInfer(bare, timeout=60), BAD))
        surplus = service_pb2.ModelInferRequest(model_name=options.model, raw_input_contents=[b"", b""])
        check("grpc refuses raw contents without inputs", lambda: refusal(lambda: stub.ModelInfer(surplus, timeout=60), BAD))
        channel.close()


def half_by_json(call):
    try:
        return call()
    except InferenceServerException as error:
        assert status(error) in BAD | {"501", "made by the client"}, f"{status(error)} {error.message()}"
        return f"refused: {status(error)} {error.message()}"


def statistics(wire, options):
    client, name = wire.client, wire.name

    def of_model():
        return wire.json(client.get_inference_statistics, options.model)["model_stats"][0]

    def read():
        if not listed(wire, "statistics"):
            return "not listed: " + refusal(lambda: client.get_inference_statistics(options.model), NOT_OFFERED)
        model = Model(wire, options.model)
        entry, before = model.inputs[0], of_model()
        data = np.zeros([3] + entry[2][1:], np.float32)
        client.infer(options.model, [wire.input(entry[0], data, entry[1])])
        for _ in range(20):  # a server may count just after it answers
            after = of_model()
            if int(after.get("inference_count", 0)) > int(before.get("inference_count", 0)):
                break
            time.sleep(0.1)
        assert after["name"] == options.model, after
        for key in "success fail queue compute_input compute_infer compute_output".split():
            assert key in after["inference_stats"] or name == "grpc", f"no {key}"

        def grew(path):
            old, new = before, after
            for step in path.split("."):
                old, new = (old or {}).get(step, 0), new[step]
            return int(new) - int(old or 0)

        assert grew("inference_count") == 3, f"inference_count grew by {grew('inference_count')}, not 3"
        assert grew("execution_count") >= 1, "execution_count stayed"
        assert grew("inference_stats.success.count") == 1, "success.count did not grow by one"
        assert grew("inference_stats.success.ns") > 0 and grew("inference_stats.compute_infer.ns") > 0, "no time passed"
        assert abs(int(after["last_inference"]) / 1000 - time.time()) < 600, f"last_inference {after['last_inference']} is not now in ms"
        assert after["batch_stats"], "no batch_stats"
        return f"{after['inference_count']} inferences in {after['execution_count']} executions"

    check(f"{name} statistics", read)
    if listed(wire, "statistics"):
        every = {options.model, options.identity}
        check(f"{name} statistics of all models", lambda: expect(every <= {entry["name"] for entry in wire.json(client.get_inference_statistics)["model_stats"]}))
        check(f"{name} statistics of an unknown model", lambda: refusal(lambda: client.get_inference_statistics("no_such_model"), UNKNOWN | BAD))


def repository(wire, options):
    client, name = wire.client, wire.name

    def index():
        try:
            found = wire.json(client.get_model_repository_index)
        except InferenceServerException as error:
            assert not listed(wire, "model_repository") and status(error) in NOT_OFFERED, f"{status(error)} {error.message()}"
            return f"not listed: {status(error)} {error.message()}"
        found = found if name == "http" else found.get("models", [])
        states = {entry["name"]: entry.get("state") for entry in found}
        for model in (options.model, options.identity):
            assert states.get(model) == "READY", states
        return states

    def reload():
        model = Model(wire, options.identity)
        try:
            client.unload_model(options.identity)
        except InferenceServerException as error:
            assert status(error) in SWITCHED_OFF, f"{status(error)} {error.message()}"
            raise Skip(f"switched off: {status(error)} {error.message()}") from None
        try:
            for _ in range(100):
                gone = not_ready_now(client, options.identity)
                if gone:
                    break
                time.sleep(0.1)
            assert gone, "still ready ten seconds after it was unloaded"
            given = [wire.input(entry[0], data, entry[1]) for entry, data in zip(model.inputs, model.samples())]
            text = refusal(lambda: client.infer(options.identity, given), NOT_LOADED)
        finally:
            client.load_model(options.identity)
        assert client.is_model_ready(options.identity), "not ready after it was loaded"
        client.infer(options.identity, given)
        return f"while it was gone: {text}"

    def unknown():
        return refusal(lambda: client.load_model("no_such_model"), UNKNOWN | BAD | SWITCHED_OFF | {"500", "INTERNAL"})

    def forget():
        try:
            client.unload_model("no_such_model")
            return "taken as done, as Triton does"
        except InferenceServerException as error:
            assert status(error) in UNKNOWN | BAD | SWITCHED_OFF, f"{status(error)} {error.message()}"
            return f"{status(error)} {error.message()}"

    check(f"{name} repository index", index)
    check(f"{name} unload and load", reload)
    check(f"{name} load of an unknown model", unknown)
    check(f"{name} unload of an unknown model", forget)
    check(f"{name} load over a loaded model", lambda: reloaded(client, options))


def reloaded(client, options):
    try:
        client.load_model(options.identity)
    except InferenceServerException as error:
        assert status(error) in SWITCHED_OFF, f"{status(error)} {error.message()}"
        raise Skip(f"switched off: {status(error)} {error.message()}") from None
    return expect(client.is_model_ready(options.identity))


def not_ready_now(client, model):
    try:
        return not client.is_model_ready(model)
    except InferenceServerException:
        return True


def unsupported(wire, options):
    """Calls of extensions that few servers have: they work if they are listed, and are refused properly if not."""
    client, name = wire.client, wire.name

    def either(what, extension, call, instead=None):
        def run():
            if not listed(wire, extension):
                return refusal(call, NOT_OFFERED)
            if instead:
                return refusal(call, instead)
            call()
            return "works"

        check(f"{name} {what}", run)

    either("get_trace_settings", "trace", client.get_trace_settings)
    either("get_trace_settings of a model", "trace", lambda: client.get_trace_settings(options.model))
    either("update_trace_settings", "trace", lambda: client.update_trace_settings(settings={"trace_rate": "1000"}))
    either("get_log_settings", "logging", client.get_log_settings)
    either("update_log_settings", "logging", lambda: client.update_log_settings({"log_verbose_level": 0}))
    either("get_system_shared_memory_status", "system_shared_memory", client.get_system_shared_memory_status)
    either("register_system_shared_memory", "system_shared_memory", lambda: client.register_system_shared_memory("region", "/no_such_key", 64), BAD | UNKNOWN | {"500", "INTERNAL"})
    either("unregister_system_shared_memory", "system_shared_memory", client.unregister_system_shared_memory)
    either("get_cuda_shared_memory_status", "cuda_shared_memory", client.get_cuda_shared_memory_status)
    either("register_cuda_shared_memory", "cuda_shared_memory", lambda: client.register_cuda_shared_memory("region", b"aGFuZGxl", 0, 64), BAD)
    either("unregister_cuda_shared_memory", "cuda_shared_memory", client.unregister_cuda_shared_memory)
    model = Model(wire, options.model)
    shared = wire.module.InferInput(model.inputs[0][0], [1] + model.inputs[0][2][1:], "FP32")
    shared.set_shared_memory("region", 64)
    check(f"{name} infer from shared memory is refused", lambda: refusal(lambda: client.infer(options.model, [shared]), BAD | UNKNOWN | NOT_OFFERED))
    if name == "grpc":
        check("grpc stream", lambda: stream(client, options, model))


def stream(client, options, model):
    """A stream either answers each request in order, or ends with UNIMPLEMENTED."""
    entry = model.inputs[0]
    data = np.zeros([1] + entry[2][1:], np.float32)
    # First without the client's own thread: that waits for ever if an answer is no message of the protocol.
    request = service_pb2.ModelInferRequest(model_name=options.model, id="1", raw_input_contents=[data.tobytes()])
    request.inputs.add(name=entry[0], datatype=entry[1], shape=list(data.shape))
    channel, stub = stub_of(options)
    try:
        first = list(stub.ModelStreamInfer(iter([request]), timeout=30))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, f"{error.code().name} {error.details()}"
        return f"refused: {error.code().name} {error.details()}"
    finally:
        channel.close()
    assert len(first) == 1 and first[0].infer_response.id == "1" and not first[0].error_message, f"{len(first)} answers: {first[0].error_message}"
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)), stream_timeout=60)
    try:
        for number in "123":
            client.async_stream_infer(options.model, [tgrpc.InferInput(entry[0], list(data.shape), entry[1]).set_data_from_numpy(data)], request_id=number)
        for number in "123":
            result, error = answers.get(timeout=60)
            if error is not None:
                raise error
            assert result.get_response().id == number, f"answer {number} is of request {result.get_response().id}"
        return "three answers in order"
    finally:
        client.stop_stream(cancel_requests=True)


def grpc_only(options):
    channel, _ = stub_of(options)
    raw = channel.unary_unary("/grpc.health.v1.Health/Check")

    def healthy():
        try:
            answer = raw(b"", timeout=10)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                raise Skip("no grpc.health.v1.Health: it is not part of the protocol") from None
            raise
        assert answer == b"\x08\x01", f"{answer!r} is not SERVING"
        return "SERVING"

    check("grpc health service", healthy)
    unknown = channel.unary_unary("/inference.GRPCInferenceService/NoSuchCall")
    check("grpc an unknown call", lambda: refusal(lambda: unknown(b"", timeout=10), {"UNIMPLEMENTED"}))
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    check("grpc a message of noise", lambda: refusal(lambda: infer(b"\xff\xff\xff\xff\xff", timeout=10), {"INTERNAL", "INVALID_ARGUMENT", "UNKNOWN"}))
    check("grpc an empty message", lambda: refusal(lambda: infer(b"", timeout=10), UNKNOWN | BAD))
    channel.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", metavar="HOST:PORT")
    parser.add_argument("--grpc", metavar="HOST:PORT")
    parser.add_argument("--model", required=True)
    parser.add_argument("--identity", required=True)
    parser.add_argument("--bodies", type=pathlib.Path)
    parser.add_argument("--require", type=lambda text: set(filter(None, text.split(","))), default=set())
    options = parser.parse_args()
    wires = []
    if options.http:
        wires.append(Wire("http", thttp, thttp.InferenceServerClient(options.http, concurrency=8, network_timeout=120, connection_timeout=10)))
    if options.grpc:
        wires.append(Wire("grpc", tgrpc, Patient(options.grpc)))
    for wire in wires:
        for part in (health_and_metadata, configuration, inference, types, statistics, unsupported, repository):
            try:
                part(wire, options)
            except Exception as error:  # what a whole part needs is missing
                say("FAIL", f"{wire.name} {part.__name__}", f"{type(error).__name__}: {error}")
    if options.grpc:
        grpc_only(options)
    print(f"{failed} failed" if failed else "all passed")
    for wire in wires:
        wire.client.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
