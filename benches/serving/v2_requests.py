"""Sends requests written from the Open Inference Protocol over plain HTTP and checks status, headers and fields of each answer.

    v2_requests.py HOST:PORT MODEL IDENTITY

MODEL takes one FP32 tensor; IDENTITY has inputs and outputs INPUT_TYPE and OUTPUT_TYPE and returns what it is sent (see `identity.py`).
No client library stands between: what is on the wire is what is written here. One line a request; leaves with 1 if any failed.
"""

import gzip
import http.client
import json
import math
import sys
import urllib.parse
import zlib

JSON = {"Content-Type": "application/json"}
SIZES = {"BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "FP16": 2, "FP32": 4, "FP64": 8}
failed = 0


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        length = self.headers.get("Inference-Header-Content-Length")
        return json.loads(self.body[: int(length)] if length else self.body)


class Server:
    def __init__(self, address):
        self.address = address
        self.line = None

    def send(self, method, path, body=b"", headers=None):
        """One request over a connection that is kept while the server keeps it."""
        for attempt in (1, 2):
            if self.line is None:
                self.line = http.client.HTTPConnection(self.address, timeout=60)
            try:
                self.line.request(method, path, body, headers or {})
                answer = Answer(self.line.getresponse())
                if answer.headers.get("Connection", "").lower() == "close":
                    self.close()
                return answer
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()
                if attempt == 2:
                    raise

    def close(self):
        if self.line:
            self.line.close()
        self.line = None


def say(verdict, name, detail):
    global failed
    failed += verdict == "FAIL"
    print(f"{verdict} {name}: {' '.join(str(detail).split())[:180]}", flush=True)


def check(name, call):
    try:
        say("ok", name, call())
    except Exception as error:  # whatever goes wrong is a failed check
        say("FAIL", name, f"{type(error).__name__}: {error}")


def error_of(answer, *statuses):
    """The text of an error as the protocol has it: a JSON object with `error`, and nothing but a status other than 200."""
    assert answer.status in statuses, f"{answer.status}, not {statuses}: {answer.body[:100]!r}"
    value = json.loads(answer.body)
    assert isinstance(value, dict) and isinstance(value.get("error"), str) and value["error"], f"no error text: {answer.body[:100]!r}"
    assert answer.headers.get("Content-Encoding") in (None, "identity"), "an error must not be compressed"
    return f"{answer.status} {value['error']}"


def ok(answer):
    assert answer.status == 200, f"{answer.status}: {answer.body[:160]!r}"
    return answer


def main():
    server, model, identity = Server(sys.argv[1]), sys.argv[2], sys.argv[3]
    quoted = urllib.parse.quote(model, safe="")

    def get(path):
        return server.send("GET", path)

    def post(path, body, headers=JSON):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return server.send("POST", path, body, headers)

    # Health and metadata.
    for path in ("/v2/health/live", "/v2/health/ready", f"/v2/models/{quoted}/ready"):
        check(f"GET {path}", lambda: ok(get(path)).status)

    def server_metadata():
        value = ok(get("/v2")).json()
        assert isinstance(value["name"], str) and isinstance(value["version"], str) and isinstance(value["extensions"], list), value
        return value["extensions"]

    check("GET /v2", server_metadata)
    meta = ok(get(f"/v2/models/{quoted}")).json()

    def model_metadata(path):
        value = ok(get(path)).json()
        assert value["name"] == model and isinstance(value["platform"], str), value
        for entry in value["inputs"] + value["outputs"]:
            assert isinstance(entry["name"], str) and isinstance(entry["datatype"], str) and all(isinstance(side, int) for side in entry["shape"]), entry
        return value["inputs"]

    check("GET model metadata", lambda: model_metadata(f"/v2/models/{quoted}"))
    for version in meta.get("versions", [])[-1:]:
        check("GET model metadata by version", lambda: model_metadata(f"/v2/models/{quoted}/versions/{version}"))
        check("GET model ready by version", lambda: ok(get(f"/v2/models/{quoted}/versions/{version}/ready")).status)
    for path in ("/v2/nothing", "/v3", "/v2/models/no_such_model", "/v2/models/no_such_model/versions/1", f"/v2/models/{quoted}/versions/987654", f"/v2/models/{quoted}/nothing"):
        check(f"GET {path} is not there", lambda: error_of(get(path), 404, 400))
    for path in ("/v2/models/..%2f..%2fetc%2fpasswd", "/v2/models/%00", "/v2/models/%ff%fe", "/v2/models/" + "x" * 2000):
        check(f"GET {path[:40]} is not there", lambda: error_of(get(path), 404, 400, 414))
    check("POST to metadata is not allowed", lambda: error_of(post("/v2", {}), 405, 404, 400))
    check("GET of infer is not allowed", lambda: error_of(get(f"/v2/models/{quoted}/infer"), 405, 404))
    check("DELETE of a model is not allowed", lambda: error_of(server.send("DELETE", f"/v2/models/{quoted}"), 405, 404))

    # Inference in JSON.
    fixed = {entry["name"]: entry for entry in ok(get(f"/v2/models/{identity}")).json()["inputs"]}
    infer = f"/v2/models/{identity}/infer"

    def tensor(name, data=None):
        """An input of the identity model with two rows: counting numbers, or what is given."""
        datatype = fixed[name]["datatype"]
        shape = [2 if side < 0 else side for side in fixed[name]["shape"]]
        if data is None:
            count = math.prod(shape)
            data = [index % 2 == 0 for index in range(count)] if datatype == "BOOL" else [str(index) for index in range(count)] if datatype == "BYTES" else list(range(count))
        return {"name": name, "shape": shape, "datatype": datatype, "data": data}

    def binary(name):
        """The same input as bytes, and the bytes."""
        value = tensor(name)
        size = math.prod(value["shape"])
        raw = b"".join(len(text).to_bytes(4, "little") + text.encode() for text in value.pop("data")) if value["datatype"] == "BYTES" else bytes(size * SIZES[value["datatype"]])
        value.pop("data", None)
        return {**value, "parameters": {"binary_data_size": len(raw)}}, raw

    # FP16 has no form in JSON: if the model has such an input it goes as bytes in every request.
    halves = [name for name in fixed if fixed[name]["datatype"] == "FP16"]

    def request(changed=None, **more):
        """A whole request for the identity model: its inputs in JSON, each that is named in `changed` replaced (None leaves it out)."""
        changed = changed or {}
        inputs, tail = [], b""
        for name in fixed:
            if name in changed:
                inputs += [changed[name]] if changed[name] is not None else []
            elif name in halves:
                entry, raw = binary(name)
                inputs.append(entry)
                tail += raw
            else:
                inputs.append(tensor(name))
        value = {"inputs": inputs, "outputs": [{"name": name.replace("INPUT", "OUTPUT")} for name in fixed if name not in halves], **more}
        return {key: each for key, each in value.items() if each is not None}, tail

    def ask(value, tail=b"", headers=None):
        head = json.dumps(value).encode()
        return post(infer, head + tail, {**(JSON if not tail else {"Inference-Header-Content-Length": str(len(head))}), **(headers or {})})

    def output(answer, name):
        return next(entry for entry in answer.json()["outputs"] if entry["name"] == name)

    one = next(name for name in fixed if fixed[name]["datatype"] == "FP32")
    out = one.replace("INPUT", "OUTPUT")

    def plain():
        answer = ok(ask(*request(id="42")))
        value = answer.json()
        assert value["model_name"] == identity and value["id"] == "42", value
        assert answer.headers["Content-Type"].startswith("application/json"), answer.headers["Content-Type"]
        assert "Inference-Header-Content-Length" not in answer.headers, "a header for bytes that are not there"
        for name in fixed:
            if name in halves:
                continue
            entry, given = output(answer, name.replace("INPUT", "OUTPUT")), tensor(name)
            assert entry["shape"] == given["shape"] and entry["datatype"] == given["datatype"], entry
            assert entry["data"] == given["data"], f"{name}: {entry['data']}"
        return f"{len(value['outputs'])} outputs"

    check("infer in JSON", plain)

    def nested():
        flat = tensor(one)["data"]
        width = len(flat) // 2
        answer = ok(ask(*request({one: tensor(one, [flat[:width], flat[width:]])})))
        assert output(answer, out)["data"] == flat, output(answer, out)
        return "same as flat"

    check("nested data is the same as flat", nested)
    check("integers for floats", lambda: output(ok(ask(*request())), out)["data"][:3])
    check("floats with exponents", lambda: close(output(ok(ask(*request({one: tensor(one, [1e-3, -2.5e4, 0.1, 1.0] * (math.prod(tensor(one)["shape"]) // 4))}))), out)["data"][:3], [1e-3, -2.5e4, 0.1]))
    check("an unknown member is ignored", lambda: ok(ask(*request(model_name="x", extra={"a": [1]}))).status)
    check("empty parameters", lambda: ok(ask(*request(parameters={}))).status)
    check("own parameters", lambda: ok(ask(*request(parameters={"text": "x", "number": 1, "truth": True}))).status)
    check("an empty id", lambda: ok(ask(*request(id=""))).status)
    check("an id of other characters", lambda: expect_equal(ok(ask(*request(id="a\"\\\n☃")) ).json()["id"], "a\"\\\n☃"))
    check("no outputs member", lambda: no_outputs(ok(ask(*request(outputs=None, parameters={"binary_data_output": True}))), len(fixed)))
    check("an empty list of outputs", lambda: no_outputs(ok(ask(*request(outputs=[], parameters={"binary_data_output": True}))), len(fixed)))
    check("one output", lambda: no_outputs(ok(ask(*request(outputs=[{"name": out}]))), 1))
    check("white space and order of members", lambda: ok(spaced(post, infer, *request())).status)

    # What is refused.
    def bad(name, value, *statuses, tail=b"", headers=None):
        check(f"refuses {name}", lambda: error_of(ask(value, tail, headers), *(statuses or (400,))))

    def bad_body(name, body, headers=JSON, *statuses):
        check(f"refuses {name}", lambda: error_of(post(infer, body, headers), *(statuses or (400,))))

    def changed(what, **fields):
        value, tail = request({one: {key: each for key, each in {**tensor(one), **fields}.items() if each is not None}})
        bad(what, value, tail=tail)

    bad_body("an empty body", b"")
    bad_body("half a JSON object", b'{"inputs": [{"na')
    bad_body("a JSON array", b"[]")
    bad_body("a JSON number", b"1")
    bad_body("bytes that are no text", b"\xff\xfe\xfd{}")
    bad_body("text after the object", json.dumps(request()[0]).encode() + b" {}")
    bad_body("deep nesting", b'{"inputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    bad("no inputs member", {})
    bad("inputs that are an object", {"inputs": {}})
    bad("inputs that are numbers", {"inputs": [1, 2]})
    bad("no inputs", {"inputs": []})
    bad("an id that is a number", request(id=5)[0], tail=request()[1])
    changed("an input without a name", name=None)
    changed("an input without a shape", shape=None)
    changed("an input without a type", datatype=None)
    changed("an input without data", data=None)
    changed("an unknown name", name="no_such_input")
    changed("an unknown type", datatype="FP13")
    changed("a type in small letters", datatype="fp32")
    changed("another type", datatype="INT32")
    changed("a shape that is a number", shape=8)
    changed("a negative dimension", shape=[-1] + tensor(one)["shape"][1:])
    changed("a dimension with a fraction", shape=[2.5] + tensor(one)["shape"][1:])
    changed("a dimension as text", shape=["2"] + tensor(one)["shape"][1:])
    changed("a shape of 2^64", shape=[2**64, 4])
    changed("another rank", shape=tensor(one)["shape"] + [1])
    changed("data that are a number", data=5)
    changed("data that are text", data="1, 2, 3")
    changed("data with text among numbers", data=["x"] * math.prod(tensor(one)["shape"]))
    changed("data with null", data=[None] * math.prod(tensor(one)["shape"]))
    changed("too few elements", data=tensor(one)["data"][:-1])
    value, tail = request({one: {**tensor(one), "data": tensor(one)["data"] + [1]}})
    bad("too many elements", value, 400, 500, tail=tail)  # Triton answers 500 to this one
    whole = next((name for name in fixed if fixed[name]["datatype"] == "INT32"), None)
    if whole:
        value, tail = request({whole: tensor(whole, [0.5] * math.prod(tensor(whole)["shape"]))})
        bad("fractions for integers", value, tail=tail)
    value, tail = request({one: None})
    bad("a missing input", value, tail=tail)
    value, tail = request()
    value["inputs"].append(tensor(one))
    bad("the same input twice", value, tail=tail)
    value, tail = request(outputs=[{"name": "no_such_output"}])
    bad("an unknown output", value, tail=tail)
    bad("outputs that are text", request(outputs="all")[0], tail=tail)
    bad("an output without a name", request(outputs=[{}])[0], tail=tail)
    bad("a priority that is text", request(parameters={"priority": "high"})[0], tail=tail)
    bad("a timeout that is text", request(parameters={"timeout": "soon"})[0], tail=tail)
    check("refuses an unknown model", lambda: error_of(post("/v2/models/no_such_model/infer", request()[0]), 404, 400))
    check("refuses an unknown version", lambda: error_of(post(f"/v2/models/{identity}/versions/987654/infer", request()[0]), 404, 400))

    # The binary tensor extension.
    def as_bytes(names):
        inputs, tail = [], b""
        for name in fixed:
            if name in names or name in halves:
                entry, raw = binary(name)
                inputs.append(entry)
                tail += raw
            else:
                inputs.append(tensor(name))
        return inputs, tail

    inputs, tail = as_bytes(list(fixed))
    wanted = [{"name": name.replace("INPUT", "OUTPUT"), "parameters": {"binary_data": True}} for name in fixed]

    def all_binary(value, headers=None):
        answer = ok(ask(value, tail, headers))
        assert answer.headers["Content-Type"] == "application/octet-stream", answer.headers["Content-Type"]
        back = answer.json()
        assert all("data" not in entry for entry in back["outputs"]), "data and bytes together"
        sizes = [entry["parameters"]["binary_data_size"] for entry in back["outputs"]]
        length = int(answer.headers["Inference-Header-Content-Length"])
        assert length + sum(sizes) == len(answer.body), f"{length} + {sum(sizes)} is not {len(answer.body)}"
        by_name, start = {}, length
        for entry, size in zip(back["outputs"], sizes):
            by_name[entry["name"]] = answer.body[start : start + size]
            start += size
        for name in fixed:
            assert by_name[name.replace("INPUT", "OUTPUT")] == binary(name)[1], name
        return f"{length} bytes of JSON, {sum(sizes)} bytes of tensors"

    check("binary inputs and outputs", lambda: all_binary({"inputs": inputs, "outputs": wanted}))
    check("binary by binary_data_output", lambda: all_binary({"inputs": inputs, "parameters": {"binary_data_output": True}}))
    check("binary without a content type", lambda: all_binary({"inputs": inputs, "outputs": wanted}, {}))
    check("binary with a content type of JSON", lambda: all_binary({"inputs": inputs, "outputs": wanted}, JSON))

    def header(value):
        head = json.dumps({"inputs": inputs, "outputs": wanted}).encode()
        return post(infer, head + tail, {"Inference-Header-Content-Length": value(len(head))})

    for name, value in {
        "a header length of text": lambda _: "many",
        "a negative header length": lambda _: "-1",
        "a header length of 10^30": lambda _: "1" + "0" * 30,
        "a header length past the body": lambda size: str(size + len(tail) + 1),
        "a header length one too short": lambda size: str(size - 1),
        "a header length one too long": lambda size: str(size + 1),
    }.items():
        check(f"refuses {name}", lambda: error_of(header(value), 400))
    spoiled = json.loads(json.dumps(inputs))
    bad("bytes that are missing", {"inputs": inputs, "outputs": wanted}, tail=tail[:-1])
    bad("bytes that are left over", {"inputs": inputs, "outputs": wanted}, tail=tail + b"x")
    spoiled[0]["parameters"]["binary_data_size"] = 10**18
    bad("a size of 10^18 bytes", {"inputs": spoiled}, tail=tail)
    spoiled[0]["parameters"]["binary_data_size"] = -1
    bad("a size of -1 bytes", {"inputs": spoiled}, tail=tail)
    spoiled[0]["parameters"]["binary_data_size"] = "8"
    bad("a size as text", {"inputs": spoiled}, tail=tail)
    spoiled = json.loads(json.dumps(inputs))
    spoiled[0]["data"] = tensor(spoiled[0]["name"])["data"]
    bad("data and bytes together", {"inputs": spoiled}, tail=tail)
    if any(entry["datatype"] == "BYTES" for entry in inputs):
        text = next(name for name in fixed if fixed[name]["datatype"] == "BYTES")
        entry, raw = binary(text)
        broken = (10**6).to_bytes(4, "little") + raw[4:]
        bad("text whose length passes its end", {"inputs": [entry if each["name"] == text else each for each in inputs]}, tail=tail.replace(raw, broken))

    # A body of nothing but the tensor: a header length of 0.
    sides = [1 if side < 0 else side for side in meta["inputs"][0]["shape"]]

    def raw_body():
        answer = ok(post(f"/v2/models/{quoted}/infer", bytes(4 * math.prod(sides)), {"Inference-Header-Content-Length": "0"}))
        entry = answer.json()["outputs"][0]
        assert entry["parameters"]["binary_data_size"] == 4 * math.prod(entry["shape"]), entry
        return entry["shape"]

    check("a body of raw bytes only", raw_body)
    check("refuses raw bytes of a wrong size", lambda: error_of(post(f"/v2/models/{quoted}/infer", bytes(4 * math.prod(sides) - 4), {"Inference-Header-Content-Length": "0"}), 400))
    if len(fixed) > 1:
        check("refuses raw bytes for several inputs", lambda: error_of(post(infer, bytes(64), {"Inference-Header-Content-Length": "0"}), 400))

    # Compression.
    head = json.dumps({"inputs": inputs, "outputs": wanted}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    for name, press in {"gzip": gzip.compress, "deflate": zlib.compress}.items():
        check(f"a request in {name}", lambda: ok(post(infer, press(head + tail), {**length, "Content-Encoding": name})).status)
        check(f"refuses a request in broken {name}", lambda: error_of(post(infer, press(head + tail)[:-60], {**length, "Content-Encoding": name}), 400))
        check(f"refuses a request that is not {name}", lambda: error_of(post(infer, head + tail, {**length, "Content-Encoding": name}), 400))
    check("a request in identity", lambda: ok(post(infer, head + tail, {**length, "Content-Encoding": "identity"})).status)
    check("refuses a request in br", lambda: error_of(post(infer, head + tail, {**length, "Content-Encoding": "br"}), 415, 501, 400))

    def compressed(accepted, wanted_encoding):
        answer = ok(ask({"inputs": inputs, "parameters": {"binary_data_output": True}}, tail, {"Accept-Encoding": accepted}))
        encoding = answer.headers.get("Content-Encoding")
        assert encoding in wanted_encoding, f"{encoding}, not {wanted_encoding}"
        answer.body = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(encoding, bytes)(answer.body)
        sizes = sum(entry["parameters"]["binary_data_size"] for entry in answer.json()["outputs"])
        assert int(answer.headers["Inference-Header-Content-Length"]) + sizes == len(answer.body), "the header must count bytes before compression"
        return encoding

    check("an answer in gzip", lambda: compressed("gzip", ["gzip"]))
    check("an answer in deflate", lambda: compressed("deflate", ["deflate"]))
    check("an answer in what is preferred", lambda: compressed("gzip;q=0.2, deflate;q=0.8", ["deflate"]))
    check("an answer in nothing that is refused", lambda: compressed("gzip;q=0, deflate;q=0", [None, "identity"]))
    check("an answer in no unknown form", lambda: compressed("br, zstd", [None, "identity"]))

    # The repository.
    def index():
        answer = server.send("POST", "/v2/repository/index", b"")
        if answer.status in (404, 501):
            return "not offered: " + error_of(answer, 404, 501)
        listed = {entry["name"] for entry in ok(answer).json()}
        assert {model, identity} <= listed, listed
        ready = {entry["name"] for entry in ok(post("/v2/repository/index", {"ready": True})).json()}
        assert ready <= listed and model in ready, ready
        return sorted(listed)

    check("repository index", index)
    check("refuses an index that is not JSON", lambda: error_of(post("/v2/repository/index", b"{"), 400, 404, 501))
    check("still works", plain)
    # Last, because there are servers whose model this ends.
    changed("a shape whose product overflows", shape=[2**62, 4])
    check("works after that", plain)
    server.close()
    print(f"{failed} failed" if failed else "all passed")
    sys.exit(1 if failed else 0)


def close(given, wanted):
    assert all(abs(a - b) <= 1e-6 * max(1, abs(b)) for a, b in zip(given, wanted)), f"{given}, not {wanted}"
    return given


def expect_equal(given, wanted):
    assert given == wanted, f"{given!r}, not {wanted!r}"
    return repr(given)


def no_outputs(answer, count):
    names = [entry["name"] for entry in answer.json()["outputs"]]
    assert len(names) == count, f"{names}, not {count}"
    return f"{len(names)} outputs"


def spaced(post, path, value, tail):
    text = json.dumps({key: value[key] for key in reversed(list(value))}, indent=3).replace("\n", "\r\n\t").encode()
    return post(path, text + tail, {"Inference-Header-Content-Length": str(len(text))} if tail else JSON)


if __name__ == "__main__":
    main()
