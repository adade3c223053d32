"""A model that returns what it is sent: for trying clients, and for the cost of the protocol alone."""

import triton_python_backend_utils as triton


class TritonPythonModel:
    def execute(self, requests):
        return [
            triton.InferenceResponse([triton.Tensor(given.name().replace("INPUT", "OUTPUT"), given.as_numpy()) for given in request.inputs()])
            for request in requests
        ]
