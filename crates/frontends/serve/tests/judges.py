"""Checks a server with kserve's clients. Arguments: the addresses of REST and gRPC, and a folder with image.npy, images of
shape [4, 1, 8, 8], and scores.npy, what the model `digits` returns for them."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


def request(image, is_binary):
    tensor = InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image, binary_data=is_binary)
    return InferRequest(model_name="digits", infer_inputs=[tensor])


def check(answer, scores):
    found = answer.outputs[0].as_numpy()
    assert found.shape == scores.shape, found.shape
    np.testing.assert_allclose(found, scores, atol=1e-3)


async def rest(address, image, scores):
    url = f"http://{address}"
    async with InferenceRESTClient(RESTConfig(protocol="v2", retries=1)) as client:
        assert await client.is_server_live(url) and await client.is_server_ready(url)
        assert await client.is_model_ready(url, "digits")
        for is_binary in [False, True]:
            check(await client.infer(url, request(image, is_binary), model_name="digits"), scores)
        try:
            await client.infer(url, request(image, False), model_name="unknown")
        except Exception as error:
            assert "404" in str(error), error
        else:
            raise AssertionError("an unknown model")


async def grpc(address, image, scores):
    async with InferenceGRPCClient(address, retries=2) as client:
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("digits")
        check(await client.infer(request(image, True)), scores)
        check(await client.infer(request(image, False)), scores)


def main():
    _, rest_address, grpc_address, folder = sys.argv
    image, scores = np.load(f"{folder}/image.npy"), np.load(f"{folder}/scores.npy")
    asyncio.run(rest(rest_address, image, scores))
    asyncio.run(grpc(grpc_address, image, scores))
    print("done")


if __name__ == "__main__":
    main()
