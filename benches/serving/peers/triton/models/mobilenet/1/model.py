"""MobileNetV2 behind Triton's Python backend: one run of ONNX Runtime for all requests of a batch."""

import os

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("THREADS", "2"))
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], options, ["CPUExecutionProvider"])

    def execute(self, requests):
        images = [triton.get_input_tensor_by_name(request, "input").as_numpy() for request in requests]
        logits = self.session.run(["output"], {"input": np.concatenate(images)})[0]
        parts = np.split(logits, np.cumsum([len(each) for each in images])[:-1])
        return [triton.InferenceResponse([triton.Tensor("output", part)]) for part in parts]
