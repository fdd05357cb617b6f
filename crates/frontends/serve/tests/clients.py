"""Checks a server with Triton's clients. Arguments: `infer`, `cancel` or `tls`, the addresses of REST and gRPC, and the
folder of expected arrays.

The folder has image.npy, images of shape [4, 1, 8, 8], and scores.npy, what the model `digits` returns for them; for
`tls` authority.pem, client.pem and client-key.pem too.
"""

import json
import queue
import sys
import threading
import urllib.request
from pathlib import Path

import grpc as python_grpc
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf import text_format
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc
from tritonclient.grpc import model_config_pb2, service_pb2
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
    for packing in ("gzip", "deflate"):
        result = client.infer("digits", inputs(triton_grpc, images), compression_algorithm=packing)
        np.testing.assert_allclose(result.as_numpy("scores"), scores, rtol=1e-4, atol=1e-4)
    large = np.zeros((20_000, 1, 8, 8), np.float32)  # 5 MB: more than the default limit of a message
    result = client.infer("digits", inputs(triton_grpc, large))
    assert result.as_numpy("scores").shape == (20_000, 10)
    client.close()


def stream(address, images, scores):
    """A stream of requests, one of which is for a model that does not exist."""
    client = triton_grpc.InferenceServerClient(address)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), compression_algorithm="gzip")
    count = 100
    for at in range(count):
        client.async_stream_infer("digits", inputs(triton_grpc, images[: 1 + at % 4]), request_id=str(at))
    client.async_stream_infer("none", inputs(triton_grpc, images), request_id="none")
    missing = {str(at) for at in range(count)}
    errors = []
    for _ in range(count + 1):
        result, error = answers.get(timeout=60)
        if error is not None:
            errors.append(error.message())
            continue
        identifier = result.get_response().id
        missing.remove(identifier)
        rows = 1 + int(identifier) % 4
        np.testing.assert_allclose(result.as_numpy("scores"), scores[:rows], rtol=1e-4, atol=1e-4)
    assert not missing and len(errors) == 1 and "no model" in errors[0], (missing, errors)
    client.stop_stream()
    client.close()


def compiled_definitions(folder):
    """The descriptors of the server are those of its definitions."""
    definitions = Path(__file__).parent.parent / "proto"
    names = sorted(path.name for path in definitions.glob("*.proto"))
    found = Path(folder) / "descriptors.bin"
    assert protoc.main(["", f"-I{definitions}", f"--descriptor_set_out={found}", *names]) == 0
    assert found.read_bytes() == (definitions / found.name).read_bytes(), "proto/inference.proto says how they are made"


def reflect(address):
    """The definitions that the server has are those of tritonclient, as far as they go."""
    with python_grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "grpc.health.v1.Health" in database.get_services()
        service = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService")
    known_methods = service_pb2.DESCRIPTOR.services_by_name[service.name].methods_by_name
    for method in service.methods:
        known = known_methods[method.name]
        assert method.input_type.full_name == known.input_type.full_name, method.name
        assert method.output_type.full_name == known.output_type.full_name, method.name
        assert method.client_streaming == known.client_streaming, method.name
        assert method.server_streaming == known.server_streaming, method.name
    triton = {**model_config_pb2.DESCRIPTOR.message_types_by_name, **service_pb2.DESCRIPTOR.message_types_by_name}
    for name, message in service.file.message_types_by_name.items():
        compare(message, triton[name])
    for name, enumeration in service.file.enum_types_by_name.items():
        known = model_config_pb2.DESCRIPTOR.enum_types_by_name[name].values_by_name
        assert {value.name: value.number for value in enumeration.values} == {
            value.name: value.number for value in known.values()
        }, name


def compare(message, known):
    for field in message.fields:
        other = known.fields_by_name[field.name]
        place = f"{message.full_name}.{field.name}"
        assert (field.number, field.type, field.is_repeated) == (other.number, other.type, other.is_repeated), place
        if field.message_type is not None:
            assert field.message_type.full_name == other.message_type.full_name, place
    for nested in message.nested_types:
        compare(nested, known.nested_types_by_name[nested.name])


def tls(http_address, grpc_address, folder, images, scores):
    """Encrypted connections of a client with a certificate, and the refusal of one without."""
    authority, certificate, key = (f"{folder}/{name}.pem" for name in ("authority", "client", "client-key"))
    localhost = [address.replace("127.0.0.1", "localhost") for address in (http_address, grpc_address)]
    options = {"ca_certs": authority, "certfile": certificate, "keyfile": key}
    client = triton_http.InferenceServerClient(localhost[0], ssl=True, ssl_options=options)
    infer(client, triton_http, images, scores)
    client.close()
    files = {"root_certificates": authority, "certificate_chain": certificate, "private_key": key}
    client = triton_grpc.InferenceServerClient(localhost[1], ssl=True, **files)
    infer(client, triton_grpc, images, scores)
    client.close()
    client = triton_grpc.InferenceServerClient(localhost[1], ssl=True, root_certificates=authority)
    refused(lambda: client.is_server_live(), "UNAVAILABLE", "")
    client.close()


def upload(http_address, grpc_address, folder, images, scores):
    """Models that both clients send, with the token of administrators."""
    package = Path(folder, "new.neff").read_bytes()
    token = "Bearer 0123456789abcdef"
    # Metadata of gRPC has names in lower case.
    for triton, address, header in (
        (triton_http, http_address, {"Authorization": token}),
        (triton_grpc, grpc_address, {"authorization": token}),
    ):
        client = triton.InferenceServerClient(address)
        name = f"new-{triton.__name__.split('.')[-1]}"
        files = {"file:7/model.neff": package}
        configuration = json.dumps({"backend": "tenon", "max_batch_size": 32})
        client.load_model(name, headers=header, config=configuration, files=files)
        result = client.infer(name, inputs(triton, images), model_version="7")
        np.testing.assert_allclose(result.as_numpy("scores"), scores, atol=1e-3)
        files = {"file:8/model.neff": b"none"}
        refused(
            lambda: client.load_model(name, headers=header, config=configuration, files=files),
            "400" if triton is triton_http else "INVALID_ARGUMENT",
            "version 8",
        )
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


def configurations():
    """The configurations of the tests are Triton's."""
    files = sorted(Path(__file__).parent.glob("data/configs/*.pbtxt"))
    assert len(files) == 4, files
    for file in files:
        config = text_format.Parse(file.read_text(), model_config_pb2.ModelConfig())
        assert config.WhichOneof("scheduling_choice"), file


def main():
    action, http_address, grpc_address, folder = sys.argv[1:]
    images = np.load(f"{folder}/image.npy")
    scores = np.load(f"{folder}/scores.npy")
    if action == "cancel":
        cancel(grpc_address, images)
    elif action == "upload":
        upload(http_address, grpc_address, folder, images, scores)
    elif action == "tls":
        tls(http_address, grpc_address, folder, images, scores)
    else:
        http(http_address, images, scores)
        grpc(grpc_address, images, scores)
        stream(grpc_address, images, scores)
        reflect(grpc_address)
        compiled_definitions(folder)
        configurations()
    print("done")


if __name__ == "__main__":
    main()
