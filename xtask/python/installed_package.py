"""Uses the installed package tenon, without the packages that it works with.

Usage: python -X dev -W error installed_package.py MODEL.onnx README.md

MODEL.onnx is the digits model. Without NumPy the model runs on lists; with NumPy the Python examples of README.md run in the
current folder, in which their model.onnx is.
"""

import importlib.util
import re
import sys
import tempfile
from pathlib import Path


def run_model(model: str) -> None:
    import tenon

    assert "numpy" not in sys.modules
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.neff"
        tenon.compile(model, path)
        with tenon.load(path) as loaded:
            image = [[[[0.5] * 8] * 8]]
            (probabilities,) = loaded(image)
            assert isinstance(probabilities, tenon.Tensor), type(probabilities)
            assert abs(sum(probabilities.tolist()[0]) - 1) < 1e-5
            assert loaded.submit([image]).result(60)[0].tolist() == probabilities.tolist()
            try:
                loaded([0.5])
            except tenon.InvalidArgument as error:
                assert "f32[1, 1, 8, 8]" in str(error)
            else:
                raise AssertionError("a wrong shape was accepted")


def run_examples(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", Path(page).read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)


if importlib.util.find_spec("numpy") is None:
    run_model(sys.argv[1])
else:
    run_examples(sys.argv[2])
