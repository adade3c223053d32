"""MobileNetV2 behind BentoML, with its adaptive batching.

`Classifier` takes JSON at `/predict`: {"images": [[[[...]]]]}. `Raw` stands in front of it, as BentoML composes services,
and takes the bytes of one picture's tensor at `/raw`, giving back the bytes of its logits.
"""

import os
from typing import Annotated

import aiohttp
import bentoml
import numpy as np
import onnxruntime
from bentoml.validators import DType
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Classifier:
    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("THREADS", "2"))
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], options, ["CPUExecutionProvider"])

    @bentoml.api(batchable=True, max_batch_size=int(os.environ.get("BATCH", "8")))
    def predict(self, images: Annotated[np.ndarray, DType("float32")]) -> np.ndarray:
        return self.session.run(["output"], {"input": images})[0]


async def raw(request: Request) -> Response:
    images = np.frombuffer(await request.body(), np.float32).reshape(-1, 3, 224, 224)
    classifier = bentoml.get_current_service().classifier.to_async
    try:
        logits = await classifier.predict(images=images)
    except aiohttp.ClientConnectionError:
        # Its services lose connections to each other under load (BentoML's issue 4971): a second try is what users do.
        logits = await classifier.predict(images=images)
    return Response(logits.tobytes(), media_type="application/octet-stream")


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
@bentoml.asgi_app(Starlette(routes=[Route("/raw", raw, methods=["POST"])]))
class Raw:
    classifier = bentoml.depends(Classifier)
