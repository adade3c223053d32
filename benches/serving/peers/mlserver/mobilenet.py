"""MobileNetV2 behind MLServer: the smallest runtime around ONNX Runtime."""

import os

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class MobileNet(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("THREADS", "2"))
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], options, ["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        images = NumpyCodec.decode_input(payload.inputs[0])
        logits = self.session.run(["output"], {"input": images})[0]
        output = NumpyCodec.encode_output("output", logits)
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=[output])
