"""A model that returns what it is sent: for trying clients, and for the cost of the protocol alone."""

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Identity(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(
                name=given.name.replace("INPUT", "OUTPUT"),
                shape=given.shape,
                datatype=given.datatype,
                data=given.data,
                parameters=given.parameters,
            )
            for given in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
