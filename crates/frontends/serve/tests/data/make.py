"""Writes the models of the tests beside itself (needs onnx): python make.py"""

from pathlib import Path

import onnx
from onnx import parser

MODELS = {
    # A running sum: the state is added to the input.
    "sum": """(float[N, 2] x, float[N, 2] h, float[N, 1] start) => (float[N, 2] y, float[N, 2] h_next, float[N, 1] first) {
        h_next = Add(x, h)
        y = Neg(h_next)
        first = Neg(start)
    }""",
    "negative": "(float[N, 2] in) => (float[N, 2] out) { out = Neg(in) }",
    "absolute": "(float[N, 2] in) => (float[N, 2] out) { out = Abs(in) }",
    "both": """(float[N, 2] a, float[N, 2] b) => (float[N, 2] sum, float[N, 2] product) {
        sum = Add(a, b)
        product = Mul(a, b)
    }""",
}


def main():
    folder = Path(__file__).parent
    for name, graph in MODELS.items():
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {name} {graph}')
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
