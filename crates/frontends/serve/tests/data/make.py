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
    # A running sum, to which the id of the sequence is added.
    "numbered": """(int32[N, 1] x, int32[N, 1] h, int32[N, 1] ready, string[N, 1] id)
        => (int32[N, 1] y, int32[N, 1] h_next) {
        taken = Mul(x, ready)
        h_next = Add(taken, h)
        number = Cast<to = 6>(id)
        y = Add(h_next, number)
    }""",
    "texts": "(string[N, 2] in) => (string[N, 2] out) { out = Identity(in) }",
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
