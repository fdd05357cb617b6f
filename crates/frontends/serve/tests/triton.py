"""Checks what Triton's own client examples expect of a server. Arguments: the addresses of REST and gRPC.

The server is named "triton", allows model control and shared memory, and has the models of tests/clients.rs: `both` (sum and
product of two rows), `texts` (identity of strings), `numbered` (running sums, to which the id of the sequence is added), `image` and
the ensemble `named` (the negative of an image of two pixels, with labels).
"""

import queue
import sys
import uuid

import grpc as python_grpc
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, serialized_byte_size


def refused(call, *parts):
    try:
        call()
    except InferenceServerException as error:
        for part in parts:
            assert part in f"{error.status()} {error.message()}", (part, error.status(), error.message())
    else:
        raise AssertionError(f"accepted, expected {parts}")


def tensor(module, name, array, datatype):
    found = module.InferInput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array)
    return found


def describe(client, module):
    options = {"as_json": True} if module is triton_grpc else {}
    server = client.get_server_metadata(**options)
    assert server["name"] == "triton" and "system_shared_memory" in server["extensions"], server
    metadata = client.get_model_metadata("image", **options)
    assert [int(extent) for extent in metadata["inputs"][0]["shape"]] == [-1, 1, 2, 1], metadata
    assert [int(extent) for extent in metadata["outputs"][0]["shape"]] == [-1, 2], metadata
    for name, rows, order in (("image", 4, "FORMAT_NHWC"), ("named", 3, "FORMAT_NHWC"), ("both", 8, "FORMAT_NONE")):
        config = client.get_model_config(name, **options)
        config = config.get("config", config)
        assert config["max_batch_size"] == rows, config
        # The JSON of Protocol Buffers leaves out defaults, that of REST does not.
        found = config["input"][0].get("format", "FORMAT_NONE" if options else None)
        assert found == order, config
    status = "NOT_FOUND" if options else "404"
    image = [tensor(module, "in", np.zeros((1, 1, 2, 1), np.float32), "FP32")]
    for call in (
        lambda: client.get_model_metadata("absent"),
        lambda: client.get_model_config("absent"),
        lambda: client.get_inference_statistics("absent"),
        lambda: client.infer("absent", image),
    ):
        refused(call, status, "Request for unknown model")
    text = "failed to get model version from specified version string 'latest'"
    refused(lambda: client.infer("image", image, model_version="latest"), "INVALID_ARGUMENT" if options else "400", text)


def classify(client, module):
    image = np.array([[[[1.0], [-2.5]]]], np.float32)
    for model in ("image", "named"):
        output = "out" if model == "image" else "result"
        requested = module.InferRequestedOutput(output, class_count=2)
        answer = client.infer(model, [tensor(module, "in", image, "FP32")], outputs=[requested])
        assert answer.as_numpy(output).tolist() == [[b"2.5:1:right", b"-1:0:left"]], answer.as_numpy(output)


def texts(client, module):
    given = np.array([["one", ""], ["été", "4"]], dtype=object)
    answer = client.infer("texts", [tensor(module, "in", given, "BYTES")]).as_numpy("out")
    assert [[text.decode() for text in row] for row in answer] == given.tolist(), answer


def inputs(module, value):
    return [tensor(module, "x", np.array([[value]], np.int32), "INT32")]


def sequences(client, module):
    """The sums of sequences whose ids are a number, and its digits."""
    values = [11, 7, -5, 3]
    for sequence in (1000, "1002"):
        total = 0
        for at, value in enumerate(values):
            place = {"sequence_start": at == 0, "sequence_end": at == len(values) - 1}
            answer = client.infer("numbered", inputs(module, value), sequence_id=sequence, **place)
            total += value
            assert answer.as_numpy("y").tolist() == [[total + int(sequence)]]
        refused(lambda: client.infer("numbered", inputs(module, 1), sequence_id=sequence), "sequence_start")


def stream(address):
    """All requests of several sequences are sent before an answer is read: the answers are in their order."""
    client = triton_grpc.InferenceServerClient(address)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    values = [11, 7, 5, 3, 2, 0, 1]
    sent = []
    for sequence in (1000, 1001, "1002", 1000):
        total = int(sequence)
        for at, value in enumerate(values):
            total += value
            identifier = f"{sequence}_{len(sent)}"
            place = {"sequence_start": at == 0, "sequence_end": at == len(values) - 1}
            client.async_stream_infer(
                "numbered", inputs(triton_grpc, value), request_id=identifier, sequence_id=sequence, **place
            )
            sent.append((identifier, total))
    # The model makes a number of the id.
    client.async_stream_infer("numbered", inputs(triton_grpc, 1), sequence_id=str(uuid.uuid4()), sequence_start=True)
    for identifier, total in sent:
        result, error = answers.get(timeout=60)
        assert error is None, error
        assert result.get_response().id == identifier, (result.get_response().id, identifier)
        assert result.as_numpy("y").tolist() == [[total]], identifier
    _, error = answers.get(timeout=60)
    assert error is not None
    client.stop_stream()
    client.close()


def contents(address):
    """A request with contents and raw contents of an input."""
    with python_grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="both")
        for name in ("a", "b"):
            given = request.inputs.add(name=name, datatype="FP32", shape=[1, 2])
            given.contents.fp32_contents[:] = [1, 2]
        assert len(stub.ModelInfer(request).outputs) == 2
        request.raw_input_contents.extend([b"\0" * 8])
        try:
            stub.ModelInfer(request)
        except python_grpc.RpcError as error:
            text = "contents field must not be specified when using raw_input_contents for 'a' for model 'both'"
            assert error.code() == python_grpc.StatusCode.INVALID_ARGUMENT and text in error.details(), error
        else:
            raise AssertionError("both contents are accepted")


def control(client, module):
    options = {"as_json": True} if module is triton_grpc else {}
    index = client.get_model_repository_index(**options)
    index = index if isinstance(index, list) else index["models"]
    assert sorted(row["name"] for row in index) == ["both", "image", "named", "numbered", "texts"], index
    client.load_model("both")
    refused(lambda: client.load_model("both", config='"parameters": {{"max_batch_size": "16"}}'), "failed to load 'both'")
    client.load_model("both", config='{"max_batch_size": "16"}')
    config = client.get_model_config("both", **options)
    assert config.get("config", config)["max_batch_size"] == 16, config
    client.unload_model("both")
    assert not client.is_model_ready("both")
    refused(lambda: client.load_model("both", config="{}", files={"file:" + "A" * 256: b"a"}), "Invalid file path")
    refused(lambda: client.load_model("absent"), "failed to load 'absent'")
    client.load_model("both")
    assert client.is_model_ready("both")


def memory(client, module):
    """Inputs and outputs in shared memory, alone and beside others."""
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    a, b = np.array([[1, 2]], np.float32), np.array([[3, 4]], np.float32)
    handle = shm.create_shared_memory_region("floats", "/tenon_test_floats", 64)
    try:
        shm.set_shared_memory_region(handle, [a, b])
        client.register_system_shared_memory("floats", "/tenon_test_floats", 64)
        again = "shared memory region 'floats' already in manager"
        refused(lambda: client.register_system_shared_memory("floats", "/tenon_test_floats", 64), again)
        refused(lambda: client.register_system_shared_memory("other", "/tenon_test_floats", 65), "Invalid offset + byte size")
        refused(lambda: client.register_system_shared_memory("other", "/tenon_test_none", 1), "/tenon_test_none")
        # An input, and an output, in the message, the others in the region.
        first = module.InferInput("a", [1, 2], "FP32")
        first.set_shared_memory("floats", 8)
        second = module.InferInput("b", [1, 2], "FP32")
        second.set_shared_memory("floats", 8, offset=8)
        total, product = module.InferRequestedOutput("sum"), module.InferRequestedOutput("product")
        total.set_shared_memory("floats", 8, offset=16)
        for given in (second, tensor(module, "b", b, "FP32")):
            answer = client.infer("both", [first, given], outputs=[total, product])
            found = answer.get_output("sum")
            shape = found["shape"] if module is triton_http else found.shape
            assert shm.get_contents_as_numpy(handle, np.float32, shape, offset=16).tolist() == [[4, 6]]
            assert answer.as_numpy("product").tolist() == [[3, 8]]
        product.set_shared_memory("floats", 8, offset=24)
        client.infer("both", [first, second], outputs=[total, product])
        assert shm.get_contents_as_numpy(handle, np.float32, [1, 2], offset=24).tolist() == [[3, 8]]
        # What does not fit is refused, and nothing is written.
        shm.set_shared_memory_region(handle, [np.zeros((1, 4), np.float32)], offset=16)
        product.set_shared_memory("floats", 7, offset=24)
        refused(lambda: client.infer("both", [first, second], outputs=[total, product]), "8 bytes", "7", "'product'")
        assert not shm.get_contents_as_numpy(handle, np.float32, [1, 4], offset=16).any()
        first.set_shared_memory("floats", 8, offset=60)
        refused(lambda: client.infer("both", [first, second]), "Invalid offset + byte size for shared memory region: 'floats'")
        first.set_shared_memory("floats", 12, offset=8)
        refused(lambda: client.infer("both", [first, second]), "8 bytes, found 12")
        first.set_shared_memory("absent", 8)
        refused(lambda: client.infer("both", [first, second]), "Unable to find shared memory region: 'absent'")
        strings(client, module)
        options = {"as_json": True} if module is triton_grpc else {}
        status = client.get_system_shared_memory_status(**options)
        rows = {row["name"]: row for row in status} if module is triton_http else status["regions"]
        assert int(rows["floats"]["byte_size"]) == 64 and rows["floats"]["key"] == "/tenon_test_floats", rows
        refused(lambda: client.get_system_shared_memory_status("absent"), "Unable to find system shared memory region: 'absent'")
        client.unregister_system_shared_memory("absent")
        client.unregister_system_shared_memory("floats")
        status = client.get_system_shared_memory_status(**options)
        assert status in ([], {}), status
        refused(
            lambda: client.register_cuda_shared_memory("floats", b"aGFuZGxl", 0, 64),
            "501" if module is triton_http else "UNIMPLEMENTED",
        )
        assert client.get_cuda_shared_memory_status(**options) in ([], {})
    finally:
        shm.destroy_shared_memory_region(handle)


def strings(client, module):
    given = serialize_byte_tensor(np.array([["one", "été"]], dtype=object))
    size = serialized_byte_size(given)
    handle = shm.create_shared_memory_region("strings", "/tenon_test_strings", 2 * size)
    try:
        shm.set_shared_memory_region(handle, [given])
        client.register_system_shared_memory("strings", "/tenon_test_strings", 2 * size)
        first = module.InferInput("in", [1, 2], "BYTES")
        first.set_shared_memory("strings", size)
        output = module.InferRequestedOutput("out")
        output.set_shared_memory("strings", size, offset=size)
        client.infer("texts", [first], outputs=[output])
        found = shm.get_contents_as_numpy(handle, np.object_, [1, 2], offset=size)
        assert [text.decode() for text in found[0]] == ["one", "été"], found
        client.unregister_system_shared_memory("strings")
    finally:
        shm.destroy_shared_memory_region(handle)


def main():
    http_address, grpc_address = sys.argv[1:]
    for module, address in ((triton_http, http_address), (triton_grpc, grpc_address)):
        client = module.InferenceServerClient(address)
        for check in (describe, classify, texts, sequences, control, memory):
            check(client, module)
        client.close()
    stream(grpc_address)
    contents(grpc_address)
    print("done")


if __name__ == "__main__":
    main()
