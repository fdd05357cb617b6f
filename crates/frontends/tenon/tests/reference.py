"""Writes models of operators that onnxruntime lacks or treats in another way, and what onnx's reference evaluator
computes; for the batches of Scan, what onnxruntime computes.

usage: reference.py FOLDER

FOLDER/NAME.onnx, and FOLDER/NAME.npz with arrays `in.NAME` and `out.NAME`.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FOLDER = Path(sys.argv[1])
F = TensorProto.FLOAT
TRAINING = "ai.onnx.preview.training"
MICROSOFT = "com.microsoft"
node = helper.make_node
rng = np.random.default_rng(3)


def onnxruntime_run(model, inputs):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def write(name, nodes, inputs, outputs, constants=None, opset=25, evaluate=None):
    kind = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    value = lambda key, array: helper.make_tensor_value_info(key, kind(array), array.shape)
    tensors = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    results = [helper.make_tensor_value_info(key, dtype, None) for key, dtype in outputs]
    body = helper.make_graph(nodes, name, [value(*item) for item in inputs.items()], results, tensors)
    imports = [("", opset), (TRAINING, 1), (MICROSOFT, 1)]
    model = helper.make_model(body, opset_imports=[helper.make_opsetid(*item) for item in imports], ir_version=10)
    onnx.save(model, FOLDER / f"{name}.onnx")
    evaluate = evaluate or (lambda model, inputs: ReferenceEvaluator(model).run(None, inputs))
    arrays = {f"in.{key}": array for key, array in inputs.items()}
    found = zip(outputs, evaluate(model, inputs))
    arrays |= {f"out.{key}": np.asarray(array) for (key, _), array in found}
    np.savez(FOLDER / f"{name}.npz", **arrays)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def optimizers():
    """The first and a later update of two tensors."""
    rate = np.array(0.1, np.float32)
    for step in (0, 3):
        for operator, states, attributes in (
            ("Adagrad", 1, {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01}),
            ("Adam", 2, {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-5, "norm_coefficient": 0.01,
                         "norm_coefficient_post": 0.1}),
            ("Momentum", 1, {"alpha": 0.9, "beta": 0.7, "mode": "standard", "norm_coefficient": 0.01}),
            ("Momentum", 1, {"alpha": 0.9, "beta": 0.7, "mode": "nesterov", "norm_coefficient": 0.01}),
        ):
            shapes = [(3,), (2, 4)]
            inputs = {"r": rate, "t": np.array(step)}
            # The states of Adam's second moment are not negative.
            for kind in range(2 + states):
                for at, shape in enumerate(shapes):
                    inputs[f"{'xgsh'[kind]}{at}"] = np.abs(normal(*shape)) if kind >= 2 else normal(*shape)
            outputs = [f"y{at}" for at in range(len(shapes) * (1 + states))]
            update = node(operator, list(inputs), outputs, domain=TRAINING, **attributes)
            name = f"{operator}-{attributes.get('mode', '')}-{step}"
            write(name, [update], inputs, [(output, F) for output in outputs])


def small_types():
    """Casts to and from types of few bits, and quantisation with them."""
    x = np.concatenate([normal(40) * 4, [0.25, 0.75, -5, 7, -0.0, 3, 6]]).astype(np.float32)
    small = {"i2": TensorProto.INT2, "u2": TensorProto.UINT2, "f4": TensorProto.FLOAT4E2M1}
    for name, dtype in small.items():
        nodes = [node("Cast", ["x"], ["small"], to=dtype), node("Cast", ["small"], ["y"], to=F)]
        write(f"cast-{name}", nodes, {"x": x}, [("y", F)])
        nodes = [
            node("QuantizeLinear", ["x", "scale"], ["small"], output_dtype=dtype, axis=0, block_size=8),
            node("Cast", ["small"], ["q"], to=F),
            node("DequantizeLinear", ["small", "scale"], ["y"], axis=0, block_size=8),
        ]
        scale = np.abs(normal(6)) + 0.1
        write(f"quantize-{name}", nodes, {"x": x, "scale": scale}, [("q", F), ("y", F)])
    values = np.concatenate([np.abs(x), [1e-38, 1e-40, 3e38, 1.5, 6, 12, 1e-45]]).astype(np.float32)
    for mode in ("up", "down", "nearest"):
        for saturate in (0, 1):
            cast = node("Cast", ["x"], ["e"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)
            nodes = [cast, node("Cast", ["e"], ["y"], to=F)]
            write(f"exponents-{mode}-{saturate}", nodes, {"x": values}, [("y", F)])
    # A microscaling format: blocks of four bits with powers of two as scales.
    blocks = normal(3, 64)
    nodes = [
        node("Cast", ["s"], ["scale"], to=TensorProto.FLOAT8E8M0),
        node("QuantizeLinear", ["x", "scale"], ["small"], output_dtype=TensorProto.FLOAT4E2M1, axis=1, block_size=32),
        node("DequantizeLinear", ["small", "scale"], ["y"], axis=1, block_size=32, output_dtype=F),
    ]
    write("microscaling", nodes, {"x": blocks, "s": np.array([[0.3, 0.5], [1, 0.2], [0.9, 2]], np.float32)}, [("y", F)])


def ngrams():
    """N-grams of one to three items, with items left out."""
    pool = [0, 1, 2, 3, 0, 0, 0, 1, 2, 2, 1, 3, 0, 1, 2, 2, 2, 2, 3, 0, 3]
    attributes = dict(ngram_counts=[0, 4, 12], ngram_indexes=[9, 1, 0, 3, 8, 2, 4, 7, 5, 6, 10], pool_int64s=pool)
    x = rng.integers(0, 5, (3, 12))
    for mode in ("TF", "IDF", "TFIDF"):
        for least, most, skips in ((1, 3, 0), (2, 3, 4), (1, 1, 2), (3, 3, 20)):
            count = node("TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=least, max_gram_length=most,
                         max_skip_count=skips, weights=[float(at) / 4 for at in range(11)], **attributes)
            # ONNX's reference takes the weights by column, its text and onnxruntime by n-gram.
            name, outputs = f"ngrams-{mode}-{least}-{most}-{skips}", [("y", F)]
            write(name, [count], {"x": x}, outputs, opset=20, evaluate=onnxruntime_run)
            row = x[0].astype(np.int32)
            write(name + "-row", [count], {"x": row}, outputs, opset=20, evaluate=onnxruntime_run)


def scans():
    """A Scan of operator set 8 over a batch of two, backwards and forwards."""
    info = lambda name: helper.make_tensor_value_info(name, F, [4])
    steps = [node("Add", ["sum", "part"], ["next"]), node("Mul", ["next", "other"], ["product"])]
    body = helper.make_graph(steps, "body", [info("sum"), info("part"), info("other")], [info("next"), info("product")])
    scan = node("Scan", ["", "start", "x", "x"], ["last", "all"], body=body, num_scan_inputs=2, directions=[1, 0])
    inputs = {"start": normal(2, 4), "x": normal(2, 5, 4)}
    write("scan", [scan], inputs, [("last", F), ("all", F)], opset=8, evaluate=onnxruntime_run)


def weights_alone():
    """Products with weights of 4 and 8 bits: MatMulNBits in onnxruntime, and DequantizeLinear by blocks."""
    for bits, block, depth, columns, zeros, rows, bias in (
        (4, 32, 256, 96, None, 1, False),
        (4, 32, 256, 96, "packed", 3, True),
        (4, 64, 256, 100, "float", 5, False),
        (4, 32, 300, 70, "packed", 40, False),
        (4, 16, 16, 33, "packed", 2, True),
        (8, 32, 256, 96, None, 2, False),
        (8, 128, 250, 96, "packed", 33, True),
    ):
        blocks = -(-depth // block)
        constants = {
            "w": rng.integers(0, 256, (columns, blocks, block * bits // 8), dtype=np.uint8),
            "s": (rng.random(columns * blocks) * 0.01 + 0.001).astype(np.float32),
        }
        inputs = ["x", "w", "s"]
        if zeros == "packed":
            constants["z"] = rng.integers(0, 256, columns * -(-blocks * bits // 8), dtype=np.uint8)
        elif zeros == "float":
            constants["z"] = rng.integers(0, 2**bits, columns * blocks).astype(np.float32)
        if bias:
            constants["b"] = normal(columns)
        inputs = ["x", "w", "s", "z" if zeros else "", "", "b" if bias else ""]
        while not inputs[-1]:
            inputs.pop()
        product = node("MatMulNBits", inputs, ["y"], domain=MICROSOFT, K=depth, N=columns, bits=bits, block_size=block)
        name = f"bits-{bits}-{block}-{depth}-{zeros}"
        x = {"x": normal(rows, depth)}
        write(name, [product], x, [("y", F)], constants, opset=21, evaluate=onnxruntime_run)
    for dtype, low, high in ((TensorProto.INT4, -8, 7), (TensorProto.UINT4, 0, 15), (TensorProto.INT8, -128, 127)):
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        constants = {
            "w": rng.integers(low, high + 1, (96, 40)).astype(kind),
            "s": (rng.random((3, 40)) * 0.01 + 0.001).astype(np.float32),
            "z": rng.integers(low, high + 1, (3, 40)).astype(kind),
        }
        steps = [
            node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=32),
            node("MatMul", ["x", "d"], ["y"]),
        ]
        write(f"blocks-{dtype}", steps, {"x": normal(2, 3, 96)}, [("y", F)], constants, opset=21)


optimizers()
small_types()
ngrams()
scans()
weights_alone()
