"""Checks a server with Triton's clients. Arguments: `infer` or `cancel`, the addresses of REST and gRPC, and the folder
of expected arrays.

The folder has image.npy, images of shape [4, 1, 8, 8], and scores.npy, what the model `digits` returns for them.
"""

import sys
import threading
import urllib.request

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException


def inputs(module, image, binary=True):
    tensor = module.InferInput("image", list(image.shape), "FP32")
    if module is triton_http:
        tensor.set_data_from_numpy(image, binary_data=binary)
    else:
        tensor.set_data_from_numpy(image)
    return [tensor]


def refused(call, status, part):
    try:
        call()
    except InferenceServerException as error:
        assert status in str(error.status()), (error.status(), status)
        assert part in error.message(), error.message()
    else:
        raise AssertionError(f"accepted, expected {status}")


def describe(client, is_grpc):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("digits") and client.is_model_ready("digits", "1")
    if is_grpc:
        server = client.get_server_metadata(as_json=True)
        model = client.get_model_metadata("digits", as_json=True)
        config = client.get_model_config("digits", as_json=True)["config"]
        index = client.get_model_repository_index(as_json=True)["models"]
    else:
        server = client.get_server_metadata()
        model = client.get_model_metadata("digits")
        config = client.get_model_config("digits")
        index = client.get_model_repository_index()
    assert server["name"] == "tenon" and "binary_tensor_data" in server["extensions"], server
    assert [int(extent) for extent in model["inputs"][0]["shape"]] == [-1, 1, 8, 8], model
    assert model["outputs"][0]["datatype"] == "FP32", model
    assert config["max_batch_size"] == 32, config
    assert config["input"][0]["data_type"] == "TYPE_FP32", config
    assert [int(extent) for extent in config["output"][0]["dims"]] == [10], config
    assert [row["state"] for row in index if row["name"] == "digits"] == ["READY"], index


def infer(client, module, images, scores):
    for rows in (1, 3, 4):
        result = client.infer("digits", inputs(module, images[:rows]), request_id="q")
        np.testing.assert_allclose(result.as_numpy("scores"), scores[:rows], rtol=1e-4, atol=1e-4)
        response = result.get_response()
        identifier = response["id"] if isinstance(response, dict) else response.id
        assert identifier == "q"
    output = module.InferRequestedOutput("scores", class_count=2)
    result = client.infer("digits", inputs(module, images), outputs=[output], priority=1, timeout=10_000_000)
    found = [[int(text.split(b":")[1]) for text in row] for row in result.as_numpy("scores")]
    assert found == np.argsort(-scores, axis=1)[:, :2].tolist(), found


def http(address, images, scores):
    client = triton_http.InferenceServerClient(address, concurrency=4)
    describe(client, False)
    infer(client, triton_http, images, scores)
    for packing in ("gzip", "deflate"):
        result = client.infer("digits", inputs(triton_http, images), request_compression_algorithm=packing)
        np.testing.assert_allclose(result.as_numpy("scores"), scores, rtol=1e-4, atol=1e-4)
    output = triton_http.InferRequestedOutput("scores", binary_data=False)
    result = client.infer("digits", inputs(triton_http, images, binary=False), outputs=[output])
    np.testing.assert_allclose(result.as_numpy("scores"), scores, rtol=1e-4, atol=1e-4)
    pending = [client.async_infer("digits", inputs(triton_http, images[:1])) for _ in range(20)]
    for request in pending:
        np.testing.assert_allclose(request.get_result().as_numpy("scores"), scores[:1], rtol=1e-4, atol=1e-4)
    refused(lambda: client.infer("none", inputs(triton_http, images)), "404", "no model")
    refused(lambda: client.infer("digits", inputs(triton_http, images[:, :, :4])), "400", "shape")
    refused(lambda: client.load_model("digits"), "403", "--admin-token-file")
    statistics = client.get_inference_statistics("digits")["model_stats"][0]
    # 4 + 2 + 1 requests, 20 at once.
    assert statistics["inference_stats"]["success"]["count"] == 27, statistics
    client.close()


def grpc(address, images, scores):
    client = triton_grpc.InferenceServerClient(address)
    describe(client, True)
    before = client.get_inference_statistics("digits", as_json=True)["model_stats"][0]
    infer(client, triton_grpc, images, scores)
    after = client.get_inference_statistics("digits", as_json=True)["model_stats"][0]
    counts = [int(stats["inference_stats"]["success"]["count"]) for stats in (before, after)]
    assert counts[1] - counts[0] == 4, counts
    refused(lambda: client.infer("none", inputs(triton_grpc, images)), "NOT_FOUND", "no model")
    refused(lambda: client.infer("digits", inputs(triton_grpc, images[:, :, :4])), "INVALID_ARGUMENT", "shape")
    refused(lambda: client.unload_model("digits"), "PERMISSION_DENIED", "--admin-token-file")
    refused(lambda: client.get_trace_settings(), "UNIMPLEMENTED", "TraceSetting")
    large = np.zeros((20_000, 1, 8, 8), np.float32)  # 5 MB: more than the default limit of a message
    result = client.infer("digits", inputs(triton_grpc, large))
    assert result.as_numpy("scores").shape == (20_000, 10)
    client.close()


def cancel(address, images):
    """A call that is cancelled, then one whose deadline passes; the server waits for more rows."""
    client = triton_grpc.InferenceServerClient(address)
    ended = threading.Event()
    call = client.async_infer("digits", inputs(triton_grpc, images), lambda result, error: ended.set())
    depth = 'tenon_queue_depth{model="digits",version="1"} 1'
    while depth not in urllib.request.urlopen(f"http://{address}/metrics").read().decode():
        pass
    call.cancel()
    assert ended.wait(10)
    refused(lambda: client.infer("digits", inputs(triton_grpc, images), client_timeout=0.1), "DEADLINE_EXCEEDED", "")
    refused(lambda: client.infer("digits", inputs(triton_grpc, images), timeout=50_000), "DEADLINE_EXCEEDED", "deadline")
    client.close()


def main():
    action, http_address, grpc_address, folder = sys.argv[1:]
    images = np.load(f"{folder}/image.npy")
    scores = np.load(f"{folder}/scores.npy")
    if action == "cancel":
        cancel(grpc_address, images)
    else:
        http(http_address, images, scores)
        grpc(grpc_address, images, scores)
    print("done")


if __name__ == "__main__":
    main()
