"""MobileNetV2 behind Ray Serve. `POST /` takes the bytes of one picture's tensor and gives the bytes of its logits, `POST /json` the same as JSON."""

import os
import sys

import numpy as np
import onnxruntime
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


@serve.deployment(max_ongoing_requests=256)
class Classifier:
    def __init__(self, model: str, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])

    @serve.batch(max_batch_size=int(os.environ.get("BATCH", "8")), batch_wait_timeout_s=float(os.environ.get("WINDOW", "0.01")))
    async def predict(self, images: list[np.ndarray]) -> list[np.ndarray]:
        return list(self.session.run(["output"], {"input": np.stack(images)})[0])

    async def __call__(self, request: Request) -> Response:
        if request.url.path.endswith("/json"):
            given = (await request.json())["inputs"][0]
            image = np.array(given["data"], np.float32).reshape(given["shape"][1:])
            return JSONResponse({"outputs": [{"name": "output", "data": (await self.predict(image)).tolist()}]})
        image = np.frombuffer(await request.body(), np.float32).reshape(3, 224, 224)
        return Response((await self.predict(image)).tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    # Everything on the loopback; the dashboard would be ten more processes.
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Classifier.bind(os.environ["MODEL"], int(os.environ.get("THREADS", "2"))), blocking=True)
