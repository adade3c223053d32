"""Writes the request bodies of one photo, as tritonclient itself makes them, and the answers to expect.

    bodies.py MODELS_FOLDER OUT_FOLDER [MODEL_NAME] [PHOTO]

MODELS_FOLDER holds photos/crop224/PHOTO.png and golden/PHOTO.logits.npy. Each body NAME comes with NAME.headers (one a line).
"""

import json
import pathlib
import sys

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from PIL import Image
from tritonclient.grpc._utils import _get_inference_request

MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def tensor(path):
    """A photo of 224x224 as the model wants it: 1x3x224x224, normalised."""
    pixels = np.asarray(Image.open(path).convert("RGB"), np.float32) / 255
    return np.ascontiguousarray(((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)[None], np.float32)


def http_body(images, binary_input, binary_output):
    given = http.InferInput("input", images.shape, "FP32").set_data_from_numpy(images, binary_data=binary_input)
    wanted = http.InferRequestedOutput("output", binary_data=binary_output)
    return http.InferenceServerClient.generate_request_body([given], outputs=[wanted])


def grpc_message(model, images):
    given = grpc.InferInput("input", images.shape, "FP32").set_data_from_numpy(images)
    wanted = [grpc.InferRequestedOutput("output")]
    return _get_inference_request(model, [given], "", "", wanted, 0, False, False, 0, None, None)


def main():
    models, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    model = sys.argv[3] if len(sys.argv) > 3 else "mobilenet"
    photo = sys.argv[4] if len(sys.argv) > 4 else "red_panda"
    out.mkdir(parents=True, exist_ok=True)
    one = tensor(models / "photos" / "crop224" / f"{photo}.png")
    logits = np.load(models / "golden" / f"{photo}.logits.npy").reshape(1, 1000).astype(np.float32)

    def write(name, body, headers):
        (out / name).write_bytes(body)
        (out / f"{name}.headers").write_text("".join(f"{key}: {value}\n" for key, value in headers.items()))

    for count in (1, 5, 8):
        images = np.repeat(one, count, axis=0)
        body, _ = http_body(images, False, False)
        write(f"infer_json_{count}.json", body, {"Content-Type": "application/json"})
        body, length = http_body(images, True, True)
        write(f"infer_binary_{count}.bin", body, {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": length})
        message = grpc_message(model, images).SerializeToString()
        write(f"infer_grpc_{count}.pb", message, {"Content-Type": "application/grpc"})
        # A message on the wire has five bytes before it: not compressed, and its length.
        write(f"infer_grpc_{count}.frame", b"\0" + len(message).to_bytes(4, "big") + message, {"Content-Type": "application/grpc", "TE": "trailers"})
    write("raw_1.bin", one.tobytes(), {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": 0})
    write("bentoml_1.json", json.dumps({"images": one.tolist()}).encode(), {"Content-Type": "application/json"})
    np.save(out / "logits.npy", logits)
    (out / "expected.json").write_text(json.dumps({"photo": photo, "class": int(logits.argmax()), "logits": logits[0].tolist()}))


main()
