"""The examples of the pages run."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy
import onnx
import pytest
import tenon
from conftest import ROOT, make_model, value
from onnx import TensorProto, helper


@pytest.mark.parametrize("page", ["docs/python.md", "README.md", "python/README.md"])
def test_the_examples_run(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    node = helper.make_node("MatMul", ["x", "two"], ["y"])
    ports = [value("x", TensorProto.FLOAT, [1, 3])], [value("y", TensorProto.FLOAT, [1, 3])]
    onnx.save(make_model([node], *ports, {"two": 2 * numpy.eye(3, dtype=numpy.float32)}), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in examples:
        if "import torch" in example and find_spec("torch") is None:
            print(f"skipped: torch is not installed: {page}: {example}")
            continue
        exec(compile(example, page, "exec"), names)


def test_the_page_names_the_whole_interface():
    page = (ROOT / "docs/python.md").read_text()
    words = set(re.findall(r"\w+", page))
    assert not set(tenon.__all__) - words
    for kind in (tenon.Package, tenon.Model, tenon.Bindings, tenon.Session, tenon.Tensor, tenon.Port, tenon.Outputs):
        public = {name for name in vars(kind) if not name.startswith("_")}
        assert not public - words, kind
