"""mlserver with onnxruntime as its runtime. Arguments: the folder of models, a port, and a free folder for the settings."""

import asyncio
import os
import sys
from pathlib import Path

import onnxruntime
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    async def load(self) -> bool:
        path = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = {it.name: NumpyCodec.decode_input(it) for it in payload.inputs}
        names = [output.name for output in self.session.get_outputs()]
        outputs = [NumpyCodec.encode_output(name, value) for name, value in zip(names, self.session.run(names, inputs))]
        return InferenceResponse(model_name=self.name, outputs=outputs)


async def serve(models, port, folder):
    # In the process of the server: with workers each request is copied to another one.
    settings = Settings(host="127.0.0.1", http_port=port, grpc_port=port + 1, metrics_port=port + 2, parallel_workers=0,
                        debug=False, metrics_dir=folder)
    server = MLServer(settings)
    all_settings = [
        ModelSettings(name=path.stem, implementation=OnnxModel, parameters={"uri": str(path)})
        for path in sorted(Path(models).glob("*.onnx"))
    ]
    await server.start(all_settings)


def main():
    _, models, port, folder = sys.argv
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
    asyncio.run(serve(models, int(port), folder))


if __name__ == "__main__":
    main()
