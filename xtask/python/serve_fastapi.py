"""A server of the Open Inference Protocol as applications write it: FastAPI, uvicorn and onnxruntime. Arguments: the folder of
models, and a port."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import ORJSONResponse

TYPES = {"FP32": np.float32, "INT64": np.int64}
NAMES = {np.dtype(value): name for name, value in TYPES.items()}

app = FastAPI(default_response_class=ORJSONResponse)
sessions = {}


@app.get("/v2/health/ready")
def ready():
    return {"ready": True}


@app.post("/v2/models/{model}/infer")
async def infer(model: str, request: Request):
    import orjson

    body = orjson.loads(await request.body())
    inputs = {it["name"]: np.array(it["data"], TYPES[it["datatype"]]).reshape(it["shape"]) for it in body["inputs"]}
    session = sessions[model]
    names = [output.name for output in session.get_outputs()]
    outputs = [{"name": name, "shape": list(value.shape), "datatype": NAMES[value.dtype], "data": value.ravel().tolist()}
               for name, value in zip(names, session.run(names, inputs))]
    return ORJSONResponse({"model_name": model, "outputs": outputs})


def main():
    for path in Path(sys.argv[1]).glob("*.onnx"):
        sessions[path.stem] = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
