"""`tenon.from_torch` and `torch.compile(backend="tenon")`, compared with PyTorch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
import tenon
from conftest import ROOT
from tenon import _torch

REASON = "torch is not installed: `cargo xtask test --torch` installs it"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("onnxscript", reason=REASON)


@pytest.fixture(autouse=True)
def fresh_compilations():
    torch._dynamo.reset()
    torch.manual_seed(1)


class Layers(torch.nn.Module):
    """Weights, a buffer, a size, a constant and a view."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x, scale=1.5):
        y = torch.relu(self.norm(self.layer(x))) + self.offset * scale
        return y, x.shape[0] * 2, None, x.reshape(-1)


def compiled(module, **options):
    """The module, compiled by Tenon, and the number of graphs that TorchDynamo has passed."""
    graphs = []

    def backend(graph, inputs, **options):
        graphs.append(graph)
        return _torch.backend(graph, inputs, **options)

    return torch.compile(module, backend=backend, **options), graphs


def assert_same(found, expected) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b and type(a) is type(b)


def test_a_module_becomes_a_package(tmp_path):
    module = Layers().eval()
    x = torch.randn(2, 3)
    package = tenon.from_torch(
        module,
        (x,),
        output=tmp_path / "layers.neff",
        dynamic_shapes={"x": {0: "batch"}},
        input_names=["features"],
        backends=["CpuRef"],
    )
    assert [(port.name, port.shape) for port in package.inputs] == [("features", ("batch", 3))]
    assert package.placement.backends == ("CpuRef",)
    for model in (package.load(), tenon.load(tmp_path / "layers.neff")):
        for size in (2, 5):
            x = torch.randn(size, 3)
            outputs = model(features=x)
            y, _, _, flat = module(x)
            torch.testing.assert_close(torch.from_dlpack(outputs.tensor(0)), y.detach())
            torch.testing.assert_close(torch.from_dlpack(outputs.tensor(-1)), flat)
    program = torch.export.export(module.layer, (x,))
    assert tenon.from_torch(program).inputs[0].shape == (5, 3)


def test_compiled_modules_return_what_pytorch_returns():
    module = Layers().eval()
    with torch.no_grad():
        function, graphs = compiled(module, options={"threads": 1, "backends": ["CpuAcc"]})
        for size, scale in ((2, 1.5), (5, 2), (6, 2), (7, 2)):
            x = torch.randn(size, 3)
            assert_same(function(x, scale), module(x, scale))
        # The second shape makes the dimension dynamic.
        assert len(graphs) == 2
        # Not contiguous.
        x = torch.randn(3, 6).T
        assert_same(function(x, 2), module(x, 2))


def test_dynamic_false_compiles_each_shape():
    module = torch.nn.Linear(3, 4).eval()
    with torch.no_grad():
        function, graphs = compiled(module, dynamic=False)
        for size in (2, 5, 2, 5):
            x = torch.randn(size, 3)
            torch.testing.assert_close(function(x), module(x))
    assert len(graphs) == 2


def test_weights_that_change_are_compiled_again():
    first, second = torch.nn.Linear(3, 4).eval(), torch.nn.Linear(3, 4).eval()
    x = torch.randn(2, 3)

    def call(module, x):
        return module(x)

    with torch.no_grad():
        function, _ = compiled(call)
        # TorchDynamo uses one graph for both modules.
        for module in (first, second, first):
            torch.testing.assert_close(function(module, x), module(x))
        first.weight.mul_(2)
        torch.testing.assert_close(function(first, x), first(x))
        second.load_state_dict(first.state_dict())
        torch.testing.assert_close(function(second, x), first(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_element_types(dtype):
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval().to(dtype)
    x = torch.randn(5, 8).to(dtype)
    with torch.inference_mode():
        function, _ = compiled(module)
        y = function(x)
        assert y.dtype == dtype
        # PyTorch rounds intermediate values to the type, a fused operator of Tenon does not.
        tolerance = 2 * torch.finfo(dtype).eps
        torch.testing.assert_close(y, module(x), rtol=tolerance, atol=tolerance)
    (array,) = tenon.from_torch(module, (x,)).load()(x)
    torch.testing.assert_close(torch.tensor(array.astype(float)), y.double(), rtol=1e-2, atol=1e-2)


def test_outputs_are_in_memory_of_tenon():
    module = torch.nn.Linear(3, 4).eval()
    with torch.no_grad():
        function, _ = compiled(module)
        x = torch.randn(2, 3)
        y = function(x)
        address, copy = y.data_ptr(), y.clone()
        # Another execution does not overwrite it.
        function(x + 1)
        assert y.data_ptr() == address and address % 64 == 0 and torch.equal(y, copy)
        y[0, 0] = 7.0
        assert y[0, 0] == 7.0


def test_data_dependent_code_breaks_the_graph():
    def function(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    compiled_function, graphs = compiled(function)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(compiled_function(x), function(x))
    assert len(graphs) == 3


def failure(function, *args) -> tenon.Error:
    """The error of Tenon in the exception of TorchDynamo."""
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        function(*args)
    error = caught.value.inner_exception
    assert isinstance(error, tenon.Error) and str(error) in str(caught.value)
    return error


def test_gradients_are_refused():
    x = torch.randn(2, 3)
    module = torch.nn.Linear(3, 4)
    error = failure(compiled(module)[0], x)
    assert isinstance(error, tenon.Unsupported) and "torch.no_grad()" in str(error)
    module.requires_grad_(False)
    torch.testing.assert_close(compiled(module)[0](x), module(x))
    # An input that requires gradients, in a call that does not record them.
    with torch.no_grad():
        y = compiled(module)[0](x.clone().requires_grad_())
        assert not y.requires_grad
        torch.testing.assert_close(y, module(x))


def test_other_devices_are_refused():
    with pytest.raises(tenon.InvalidArgument, match="expected cpu, found meta") as caught:
        tenon.from_torch(torch.nn.Linear(3, 4), (torch.empty(2, 3, device="meta"),))
    assert (caught.value.expected, caught.value.found) == ("cpu", "meta")
    with torch.no_grad():
        error = failure(compiled(torch.nn.Linear(3, 4, device="meta"))[0], torch.empty(2, 3, device="meta"))
    assert isinstance(error, tenon.InvalidArgument) and "found meta" in str(error)


def test_writes_are_refused():
    training = torch.nn.BatchNorm1d(3)
    with pytest.raises(tenon.Unsupported, match="running_mean.*module.eval"):
        tenon.from_torch(training, (torch.randn(2, 3),))
    with torch.no_grad():
        error = failure(compiled(lambda x: x.add_(1))[0], torch.ones(3))
    assert isinstance(error, tenon.Unsupported) and "writes to inputs" in str(error)


def test_failed_exports_name_the_reason():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(tenon.Unsupported, match="cannot export the module: .*data-dependent") as caught:
        tenon.from_torch(Branch(), (torch.ones(3),))
    assert caught.value.__cause__ is not None and caught.value.problems

    with torch.no_grad():
        function, _ = compiled(lambda x: torch.histc(x, 4))
        error = failure(function, torch.ones(3))
    assert isinstance(error, tenon.Unsupported)
    assert "torch.onnx.export cannot export the module" in str(error) and "histc" in str(error)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ModuleNotFoundError, match="onnxscript is missing: pip install onnxscript"):
        tenon.from_torch(torch.nn.Linear(3, 4), (torch.randn(2, 3),))


def test_the_backend_has_its_name():
    manifest = tomllib.loads((ROOT / "python/pyproject.toml").read_text())
    assert manifest["project"]["entry-points"]["torch_dynamo_backends"] == {"tenon": "tenon._torch:backend"}
    assert "tenon" in torch._dynamo.list_backends()
    module = torch.nn.Linear(3, 4).eval()
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend="tenon")(x), module(x))


@pytest.mark.skipif("TENON_COMMAND" not in os.environ, reason="TENON_COMMAND does not name the program tenon")
def test_the_page_on_serving_goes_from_a_module_to_an_answer(tmp_path, monkeypatch):
    page = (ROOT / "docs/serving.md").read_text()
    section = page.split("## From a PyTorch model to an answer")[1].split("\n## ")[0]
    make, request = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(make, names)
    command = [os.environ["TENON_COMMAND"], *re.search(r"^    tenon (serve .*)$", section, re.MULTILINE)[1].split()]
    with subprocess.Popen([*command, "--http", ":0", "--json"], stdout=subprocess.PIPE, text=True) as server:
        try:
            address = json.loads(server.stdout.readline())["http"]
            exec(request.replace("localhost:8000", address), names)
        finally:
            server.terminate()
    assert server.returncode == 0
    with torch.no_grad():
        expected = names["module"](torch.tensor([names["row"]["data"]]))
    torch.testing.assert_close(torch.tensor([names["scores"]]), expected)
