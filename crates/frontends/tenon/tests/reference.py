"""Writes models of operators that onnxruntime lacks or treats in another way, and what onnx's reference evaluator
computes; for the batches of Scan, operators without a node test of ONNX and operators of com.microsoft, what onnxruntime
computes. Models whose names start with f16- or bf16- are of f32, and are compiled at that precision.

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
LAYOUT = "com.microsoft.nchwc"
node = helper.make_node
rng = np.random.default_rng(3)


def onnxruntime_run(model, inputs):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def run_node(step, inputs, outputs):
    """What onnxruntime computes for a node."""
    value = lambda key, array: helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    results = [helper.make_tensor_value_info(key, dtype, None) for key, dtype in outputs]
    body = helper.make_graph([step], "node", [value(*item) for item in inputs.items()], results)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return onnxruntime_run(helper.make_model(body, opset_imports=imports, ir_version=10), inputs)


def write(name, nodes, inputs, outputs, constants=None, opset=25, evaluate=None, shapes=None):
    kind = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    value = lambda key, array: helper.make_tensor_value_info(key, kind(array), array.shape)
    tensors = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    results = [helper.make_tensor_value_info(key, dtype, (shapes or {}).get(key)) for key, dtype in outputs]
    body = helper.make_graph(nodes, name, [value(*item) for item in inputs.items()], results, tensors)
    imports = [("", opset), (TRAINING, 1), (MICROSOFT, 1), (LAYOUT, 1)]
    model = helper.make_model(body, opset_imports=[helper.make_opsetid(*item) for item in imports], ir_version=10)
    onnx.save(model, FOLDER / f"{name}.onnx")
    evaluate = evaluate or (lambda model, inputs: ReferenceEvaluator(model).run(None, inputs))
    arrays = {f"in.{key}": array for key, array in inputs.items()}
    found = zip(outputs, evaluate(model, inputs))
    arrays |= {f"out.{key}": np.asarray(array) for (key, _), array in found}
    np.savez(FOLDER / f"{name}.npz", **arrays)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def no_rows():
    """A product with packed weights of rows that are chosen when the model runs: none."""
    node = helper.make_node
    nodes = [node("Greater", ["c", "zero"], ["chosen"]), node("NonZero", ["chosen"], ["positions"]),
             node("Squeeze", ["positions", "axes"], ["rows"]), node("Gather", ["x", "rows"], ["some"]),
             node("MatMul", ["some", "w"], ["y"])]
    inputs = {"c": np.full(4, -1, np.float32), "x": normal(4, 8)}
    constants = {"zero": np.array(0, np.float32), "axes": np.array([0]), "w": normal(8, 16)}
    write("no-rows", nodes, inputs, [("y", F)], constants)


def many_counts():
    """Sizes that depend on data, of fixed inputs: as many as a detector has classes, two that must be
    equal, and one of which the parts are known."""
    node = helper.make_node
    inputs = {f"c{nth}": (rng.random(3) < 0.5).astype(np.float32) for nth in range(91)}
    nodes = [node("NonZero", [name], [f"p{name}"]) for name in inputs]
    nodes.append(node("Concat", [f"p{name}" for name in inputs], ["y"], axis=1))
    write("sum-of-counts", nodes, inputs, [("y", TensorProto.INT64)])
    inputs = {"a": np.array([1, 0, 2], np.float32), "b": np.array([0, 5, 7, 0], np.float32)}
    nodes = [node("NonZero", [name], [f"p{name}"]) for name in inputs]
    nodes.append(node("Concat", ["pa", "pb"], ["y"], axis=0))
    write("equal-counts", nodes, inputs, [("y", TensorProto.INT64)])
    nodes = [node("NonZero", ["a"], ["p"]), node("Transpose", ["p"], ["rows"], perm=[1, 0]),
             node("Split", ["rows", "sizes"], ["first", "rest"], axis=-2), node("Concat", ["rest", "first"], ["y"], axis=0)]
    write("known-count", nodes, {"a": inputs["b"]}, [("y", TensorProto.INT64)], {"sizes": np.array([1, 1])})


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


def quantised_rows():
    """Rows of tables with blocks of quantised integers, in onnxruntime."""
    def gather(name, data, scales, zeros, indices, **attributes):
        constants = {"w": data, "s": scales} | ({} if zeros is None else {"z": zeros})
        operands = ["w", "i", "s"] + ["z"] * (zeros is not None)
        step = node("GatherBlockQuantized", operands, ["y"], domain=MICROSOFT, **attributes)
        inputs = {"i": np.array(indices, np.int64)}
        write(name, [step], inputs, [("y", F)], constants, opset=21, evaluate=onnxruntime_run)

    for bits, columns, has_zeros in ((2, 48, True), (4, 80, True), (4, 64, False), (8, 72, True), (8, 64, False)):
        blocks = -(-columns // 16)
        data = rng.integers(0, 256, (9, columns * bits // 8), dtype=np.uint8)
        zeros = rng.integers(0, 256, (9, -(-blocks * bits // 8)), dtype=np.uint8) if has_zeros else None
        gather(f"rows-{bits}-{columns}", data, normal(9, blocks), zeros, [[0, 8, -1], [3, 3, -9]], bits=bits, block_size=16)
    for dtype, low, high in ((TensorProto.INT4, -8, 7), (TensorProto.UINT4, 0, 15)):
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        for quantize_axis, gather_axis in ((1, 0), (0, 1), (1, 2), (2, 1), (1, 1), (-1, -3)):
            shape = [3, 33, 5]
            data = rng.integers(low, high + 1, shape).astype(kind)
            shape[quantize_axis] = -(-shape[quantize_axis] // 16)
            zeros = rng.integers(low, high + 1, shape).astype(kind)
            axes = {"quantize_axis": quantize_axis, "gather_axis": gather_axis, "block_size": 16}
            gather(f"rows-{dtype}-{quantize_axis}-{gather_axis}", data, normal(*shape), zeros, [[2, 0], [-1, 1]], **axes)


def quantised_recurrent():
    """An LSTM whose activations onnxruntime quantises, and Tenon does not."""
    steps, batch, features, hidden = 7, 2, 6, 10
    for at, (kind, each_gate, direction, attributes) in enumerate((
        (np.int8, False, "forward", {}),
        (np.uint8, False, "reverse", {"clip": 1.5}),
        (np.int8, True, "bidirectional", {"input_forget": 1}),
        (np.int8, False, "bidirectional", {}),
    )):
        directions = 2 if direction == "bidirectional" else 1
        constants = {"b": normal(directions, 8 * hidden) * np.float32(0.1)}
        for name, depth in (("w", features), ("r", hidden)):
            count = [directions, 4 * hidden] if each_gate else [directions]
            constants[name] = halved(bytes_of(kind, directions, depth, 4 * hidden))
            constants[f"{name}s"] = (rng.random(count) * 0.002 + 0.003).astype(np.float32)
            constants[f"{name}z"] = np.full(count, 128 if kind == np.uint8 else 0, kind)
        inputs = {"x": normal(steps, batch, features)}
        operands = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
        if at == 3:
            inputs |= {"h": normal(2, batch, hidden) * np.float32(0.3), "c": normal(2, batch, hidden)}
            inputs["n"] = np.array([7, 4], np.int32)
            constants["p"] = normal(2, 3 * hidden) * np.float32(0.2)
            operands[4:8] = ["n", "h", "c", "p"]
        outputs = ["y", "yh", "yc"]
        step = node("DynamicQuantizeLSTM", operands, outputs, domain=MICROSOFT, hidden_size=hidden, direction=direction,
                    **attributes)
        results = [(name, F) for name in outputs]
        write(f"lstm-{at}", [step], inputs, results, constants, opset=21, evaluate=onnxruntime_run)


def coupled_gates():
    """LSTM with one gate for input and forgetting, which ONNX's reference evaluator lacks, in onnxruntime."""
    constants = {"w": normal(1, 24, 4), "r": normal(1, 24, 6), "p": normal(1, 18)}
    step = node("LSTM", ["x", "w", "r", "", "", "", "", "p"], ["y"], hidden_size=6, input_forget=1)
    write("coupled-gates", [step], {"x": normal(5, 2, 4)}, [("y", F)], constants, opset=21, evaluate=onnxruntime_run)


def bytes_of(kind, *shape):
    """Random elements of the whole range of a type of 8 bits."""
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max + 1, shape).astype(kind)


def halved(weights):
    """Weights of half the range: with AVX2 alone onnxruntime adds two products in 16 bits, and saturates."""
    middle = 128 if weights.dtype == np.uint8 else 0
    return ((weights.astype(np.int32) - middle) // 2 + middle).astype(weights.dtype)


def parameters(kind, scale, zero, name):
    return {f"{name}_scale": np.array(scale, np.float32), f"{name}_zero": np.array(zero, kind)}


def weights(kind, zeros, axis, *shape):
    """Weights with one scale, or one for each channel of an axis; symmetric without zeros."""
    channels = [] if axis is None else [shape[axis]]
    zero = rng.integers(-3, 4, channels) if zeros else np.zeros(channels)
    middle = 128 if kind == np.uint8 else 0
    return {"w": bytes_of(kind, *shape), "w_scale": np.float32(rng.random(channels) * 0.004 + 0.002),
            "w_zero": np.asarray(zero + middle, kind)}


def quantised_convolutions():
    """QLinearConv, and the same in QDQ form with and without an activation."""
    for at, (channels, filters, kernel, group, kind, w_kind, axis, zeros) in enumerate((
        (8, 24, 3, 1, np.uint8, np.int8, 0, False),
        (16, 20, 1, 1, np.int8, np.int8, 0, False),
        (16, 32, 3, 2, np.uint8, np.int8, None, False),
        (12, 12, 3, 12, np.uint8, np.int8, 0, False),
        (5, 7, 3, 1, np.uint8, np.uint8, None, True),
        (64, 48, 1, 1, np.int8, np.int8, None, True),
    )):
        attributes = {"group": group, "pads": [kernel // 2] * 4, "strides": [1 + at % 2] * 2}
        depth = channels // group * kernel**2
        constants = weights(w_kind, zeros, axis, filters, channels // group, kernel, kernel)
        constants |= parameters(kind, 0.02, 3, "x") | parameters(kind, 0.006 * depth**0.5, 5, "y")
        constants["b"] = rng.integers(-2000, 2000, filters).astype(np.int32)
        x = {"x": bytes_of(kind, 2, channels, 11, 9)}
        names = [f"{name}{part}" for name in "xw" for part in ("", "_scale", "_zero")]
        output = [("y", helper.np_dtype_to_tensor_dtype(np.dtype(kind)))]
        step = node("QLinearConv", [*names, "y_scale", "y_zero", "b"], ["y"], **attributes)
        write(f"qlinear-conv-{at}", [step], x, output, constants, opset=21)
        scale = np.float32(constants["x_scale"] * constants["w_scale"])
        constants |= {"b_scale": np.broadcast_to(scale, [filters]).copy()}
        steps = [
            node("DequantizeLinear", names[:3], ["dx"]),
            node("DequantizeLinear", names[3:], ["dw"], axis=0),
            node("DequantizeLinear", ["b", "b_scale"], ["db"], axis=0),
            node("Conv", ["dx", "dw", "db"], ["c"], **attributes),
            node("Relu", ["c"], ["r"]),
            node("QuantizeLinear", ["r" if at % 2 else "c", "y_scale", "y_zero"], ["y"]),
        ]
        write(f"qdq-conv-{at}", steps, x, output, constants, opset=21)
        # A residual, of the quantized result or of the result itself.
        x["z"] = bytes_of(kind, *ReferenceEvaluator(onnx.load(FOLDER / f"qdq-conv-{at}.onnx")).run(None, x)[0].shape)
        constants |= parameters(kind, 0.03, 6, "z") | parameters(kind, 0.008 * depth**0.5, 4, "t")
        for name, source in (("residual", "dy"), ("residual-of-sums", "c")):
            added = steps[:4] + [
                node("QuantizeLinear", ["c", "y_scale", "y_zero"], ["q"]),
                node("DequantizeLinear", ["q", "y_scale", "y_zero"], ["dy"]),
                node("DequantizeLinear", ["z", "z_scale", "z_zero"], ["dz"]),
                node("Add", [source, "dz"] if at % 2 else ["dz", source], ["a"]),
                node("Relu", ["a"], ["ra"]),
                node("QuantizeLinear", ["ra" if at % 2 else "a", "t_scale", "t_zero"], ["t"]),
            ]
            if source == "c":
                del added[4:6]
            write(f"qdq-{name}-{at}", added, x, [("t", output[0][1])], constants, opset=21)


def quantised_products():
    """QLinearMatMul, MatMul and Gemm in QDQ form, with and without a quantised result, and products of integers."""
    for at, (rows, depth, columns, kind, w_kind, axis, zeros) in enumerate((
        (1, 96, 50, np.uint8, np.int8, 1, False),
        (7, 130, 33, np.int8, np.int8, None, False),
        (40, 64, 48, np.uint8, np.uint8, None, True),
        (3, 300, 17, np.uint8, np.int8, None, True),
    )):
        constants = weights(w_kind, zeros, axis, depth, columns)
        constants |= parameters(kind, 0.02, 3, "x") | parameters(kind, 0.006 * depth**0.5, 5, "y")
        x = {"x": bytes_of(kind, rows, depth)}
        names = [f"{name}{part}" for name in "xw" for part in ("", "_scale", "_zero")]
        output = [("y", helper.np_dtype_to_tensor_dtype(np.dtype(kind)))]
        step = node("QLinearMatMul", [*names, "y_scale", "y_zero"], ["y"])
        write(f"qlinear-matmul-{at}", [step], x, output, constants, opset=21)
        steps = [
            node("DequantizeLinear", names[:3], ["dx"]),
            node("DequantizeLinear", names[3:], ["dw"], axis=1),
            node("MatMul", ["dx", "dw"], ["m"]),
        ]
        write(f"qdq-matmul-{at}", steps, x, [("m", F)], constants, opset=21)
        constants["b"] = normal(columns)
        steps[2] = node("Gemm", ["dx", "dw", "b"], ["m"])
        steps.append(node("QuantizeLinear", ["m", "y_scale", "y_zero"], ["y"]))
        write(f"qdq-gemm-{at}", steps, x, output, constants, opset=21)
        zero = ["x_zero", "w_zero"] if axis is None else ["x_zero"]
        step = node("MatMulInteger", ["x", "w", *zero], ["y"])
        write(f"integers-{at}", [step], x, [("y", TensorProto.INT32)], constants, opset=21)
        # Quantised when the model runs.
        steps = [
            node("DynamicQuantizeLinear", ["f"], ["q", "q_scale", "q_zero"]),
            node("MatMulInteger", ["q", "w", "q_zero", *zero[1:]], ["i"]),
            node("Cast", ["i"], ["c"], to=F),
            node("Mul", ["q_scale", "w_scale"], ["s"]),
            node("Mul", ["c", "s"], ["y"]),
        ]
        write(f"dynamic-{at}", steps, {"f": normal(rows, depth)}, [("y", F)], constants, opset=21)
        # The same as operators of com.microsoft, with a zero point of each column where there is a scale of each.
        for operator, inputs, operands in (
            ("DynamicQuantizeMatMul", {"f": normal(rows, depth)}, ["f", "w", "w_scale", "w_zero", "b"][: 3 + at % 3]),
            ("MatMulIntegerToFloat", x, ["x", "w", "x_scale", "w_scale", "x_zero", "w_zero", "b"][: 7 - at % 4]),
        ):
            used = {name: constants[name] for name in operands[1:]}
            used["w"] = halved(used["w"])
            if axis is not None and "w_zero" in used:
                used["w_zero"] = rng.integers(-3, 4, columns).astype(w_kind)
            step = node(operator, operands, ["y"], domain=MICROSOFT)
            write(f"{operator}-{at}", [step], inputs, [("y", F)], used, opset=21, evaluate=onnxruntime_run)
    constants = {"w": bytes_of(np.int8, 9, 4, 3, 3), "x_zero": np.array(7, np.uint8)}
    step = node("ConvInteger", ["x", "w", "x_zero"], ["y"], pads=[1, 1, 1, 1])
    write("integers-conv", [step], {"x": bytes_of(np.uint8, 2, 4, 8, 7)}, [("y", TensorProto.INT32)], constants)


def contributed(name, operator, inputs, outputs, constants=None, shapes=None, **attributes):
    """A node of com.microsoft. Inputs and constants in the order of the operator's inputs, None for one that is omitted. Outputs
    without a name are omitted, those without a type are not compared."""
    operands = inputs | (constants or {})
    step = node(operator, [key if array is not None else "" for key, array in operands.items()],
                [key for key, _ in outputs], domain=MICROSOFT, **attributes)
    given = {key: array for key, array in inputs.items() if array is not None}
    used = {key: array for key, array in (constants or {}).items() if array is not None}
    write(f"{operator}-{name}", [step], given, [item for item in outputs if all(item)], used, 21, onnxruntime_run, shapes)


def fused_attention():
    """MultiHeadAttention, Attention and RotaryEmbedding of com.microsoft."""
    i32 = lambda *rows: np.array(rows, np.int32)
    batch, steps, keys, heads, size = 2, 3, 5, 2, 4
    y = [("y", F)]
    q, k, v = normal(batch, steps, heads * size), normal(batch, keys, heads * size), normal(batch, keys, heads * size)
    masks = {"lengths": i32(2, 4), "keys": i32([1, 1, 0, 1, 0], [0, 1, 1, 1, 1]),
             "each": rng.integers(0, 2, (batch, steps, keys)).astype(np.int32) | np.eye(steps, keys, dtype=np.int32)}
    for mask in (None, *masks):
        for bias in (None, normal(3 * heads * size)):
            for addend in (None, normal(1, heads, steps, keys)):
                inputs = {"q": q, "k": k, "v": v, "b": bias, "mask": masks.get(mask), "addend": addend}
                case = f"{mask}-{bias is not None}-{addend is not None}"
                contributed(case, "MultiHeadAttention", inputs, y, num_heads=heads)
    wide = normal(batch, keys, heads * 6)
    contributed("values", "MultiHeadAttention", {"q": q, "k": k, "v": wide}, y, num_heads=heads, scale=0.3)
    split = lambda array: array.reshape(batch, keys, heads, -1).transpose(0, 2, 1, 3).copy()
    contributed("heads", "MultiHeadAttention", {"q": q, "k": split(k), "v": split(v)}, y, num_heads=heads)
    past = {"past_k": normal(batch, heads, 3, size), "past_v": normal(batch, heads, 3, size)}
    for causal in (0, 1):
        new = {"q": q, "k": k[:, :steps], "v": v[:, :steps], "b": None, "mask": None, "addend": None} | past
        contributed(f"past-{causal}", "MultiHeadAttention", new, [("y", F), ("present_k", F), ("present_v", F)],
                    num_heads=heads, unidirectional=causal)
    x, depth = normal(batch, keys, 6), heads * size
    for mask in (None, "lengths", "keys"):
        for causal in (0, 1):
            constants = {"w": normal(6, 3 * depth), "b": normal(3 * depth)}
            inputs = {"x": x} | constants | {"mask": masks.get(mask)}
            contributed(f"{mask}-{causal}", "Attention", inputs, y, num_heads=heads, unidirectional=causal)
    inputs = {"x": x, "w": normal(6, 2 * depth + 12), "b": normal(2 * depth + 12)}
    contributed("sizes", "Attention", inputs, y, num_heads=heads, qkv_hidden_sizes=[depth, depth, 12], scale=0.2)
    inputs = {"x": x, "w": normal(6, 3 * depth), "b": normal(3 * depth), "mask": i32(6, 8), "past": normal(2, batch, heads, 3, size)}
    contributed("past", "Attention", inputs, [("y", F), ("present", F)], num_heads=heads)
    # onnxruntime has the packed forms for GPUs only: it gets the parts.
    parts = dict(q=q, k=k[:, :steps], v=v[:, :steps])
    heads_of = lambda *names: np.stack([parts[name].reshape(batch, steps, heads, size) for name in names], 3)
    for name, packed in (("packed", {"q": heads_of("q", "k", "v")}), ("packed-keys", {"q": q, "kv": heads_of("k", "v")})):
        step = node("MultiHeadAttention", list(packed), ["y"], domain=MICROSOFT, num_heads=heads)
        whole = node("MultiHeadAttention", list(parts), ["y"], domain=MICROSOFT, num_heads=heads)
        write(f"MultiHeadAttention-{name}", [step], packed, y, opset=21, evaluate=lambda *_: run_node(whole, parts, y))
    constants = {"w": bytes_of(np.int8, 6, 3 * depth), "b": normal(3 * depth), "x_scale": np.float32(0.02),
                 "w_scale": np.float32(rng.random(3 * depth) / 50), "mask": None, "x_zero": np.uint8(120),
                 "w_zero": np.zeros(3 * depth, np.int8)}
    inputs = {"x": bytes_of(np.uint8, batch, keys, 6)}
    contributed("rows", "QAttention", inputs, y, constants, num_heads=heads)
    angles = normal(9, size // 2)
    caches = {"cos": np.cos(angles), "sin": np.sin(angles)}
    positions = rng.integers(0, 9, (batch, steps))
    for interleaved in (0, 1):
        inputs = {"x": q, "positions": positions}
        contributed(f"rows-{interleaved}", "RotaryEmbedding", inputs, y, caches, num_heads=heads, interleaved=interleaved)
        inputs = {"x": normal(batch, heads, steps, size), "positions": np.array([2], np.int64)}
        contributed(f"first-{interleaved}", "RotaryEmbedding", inputs, y, caches, interleaved=interleaved)
    grouped_attention(caches)


def grouped_attention(caches):
    """GroupQueryAttention of com.microsoft: 4 heads of queries, 2 of keys and values."""
    # onnxruntime rotates heads of a multiple of 16 features alone.
    batch, steps, size, heads = 2, 3, 16, dict(num_heads=4, kv_num_heads=2)
    wide = {name: np.concatenate([table] * 4, 1).astype(np.float32) for name, table in caches.items()}
    none = {"past_k": None, "past_v": None}
    outputs = [("y", F), ("present_k", F), ("present_v", F)]
    for name, past, given in (
        ("first", 0, {}),
        ("packed", 0, {}),
        ("past", 5, dict(scale=0.3)),
        ("window", 5, dict(local_window_size=3)),
        ("softcap", 0, dict(softcap=2.0)),
        ("rotary", 0, dict(do_rotary=1)),
        ("rotary-past", 5, dict(do_rotary=1, rotary_interleaved=1)),
        ("rotary-packed", 5, dict(do_rotary=1)),
    ):
        # onnxruntime computes one token after the first ones.
        new = 1 if past else steps
        q, k, v = (normal(batch, new, count * size) for count in (4, 2, 2))
        inputs = {"q": q, "k": k, "v": v}
        if "packed" in name:
            inputs = {"q": np.concatenate([q, k, v], 2), "k": None, "v": None}
        inputs |= {f"past_{part}": normal(batch, 2, past, size) for part in "kv"} if past else none
        total = past + new
        inputs |= {"lengths": np.full(batch, total - 1, np.int32), "total": np.array(total, np.int32)}
        tables = wide if "do_rotary" in given else {}
        contributed(name, "GroupQueryAttention", inputs, outputs, tables, **heads, **given)
    # Caches of 8 tokens, which is the declared length of past and present.
    for name, used, new, given in (
        ("cache-first", [0, 0], 3, dict(do_rotary=1)),
        ("cache-padding", [0, -1], 3, {}),
        ("cache-next", [5, 2], 1, dict(do_rotary=1)),
        ("cache-window", [6, 3], 1, dict(local_window_size=3, scale=0.3)),
        ("cache-full", [7, 7], 1, dict(softcap=2.0)),
    ):
        inputs = {key: normal(batch, new, count * size) for key, count in (("q", 4), ("k", 2), ("v", 2))}
        in_use = np.array(used)[:, None, None, None] > np.arange(8)[:, None]
        inputs |= {f"past_{part}": np.where(in_use, normal(batch, 2, 8, size), 0).astype(np.float32) for part in "kv"}
        total = np.array(used, np.int32) + new
        inputs |= {"lengths": total - 1, "total": np.array(total.max(), np.int32)}
        tables = wide if "do_rotary" in given else {}
        shapes = {"present_k": [batch, 2, 8, size], "present_v": [batch, 2, 8, size]}
        # Rows of padding have no meaning.
        results = [("y", None), *outputs[1:]] if name == "cache-padding" else outputs
        contributed(name, "GroupQueryAttention", inputs, results, tables, shapes=shapes, **heads, **given)


def pools():
    """Operators without a node test of ONNX."""
    image, regions = normal(2, 3, 6, 7), np.float32([[0, 0, 0, 5, 5], [1, 1, 2, 6, 4], [0, 2, 1, 3, 3]])
    for name, step, inputs in (
        ("GlobalLpPool", node("GlobalLpPool", ["x"], ["y"], p=2), {"x": image}),
        ("GlobalLpPool-p3", node("GlobalLpPool", ["x"], ["y"], p=3), {"x": normal(2, 3, 4, 5, 2)}),
        ("MaxRoiPool", node("MaxRoiPool", ["x", "regions"], ["y"], pooled_shape=[2, 3]), {"x": image, "regions": regions}),
        ("MaxRoiPool-scale", node("MaxRoiPool", ["x", "regions"], ["y"], pooled_shape=[2, 2], spatial_scale=0.7),
         {"x": image, "regions": regions}),
    ):
        write(name, [step], inputs, [("y", F)], opset=21, evaluate=onnxruntime_run)


def contributed_operators():
    """Other operators of com.microsoft."""
    words, segments = rng.integers(0, 7, (2, 4)).astype(np.int32), rng.integers(0, 2, (2, 4)).astype(np.int32)
    tables = {"w": normal(7, 8), "p": normal(5, 8), "s": normal(2, 8), "gamma": normal(8), "beta": normal(8)}
    mask, positions = rng.integers(0, 2, (2, 4)).astype(np.int32), rng.integers(0, 5, (2, 4)).astype(np.int32)
    outputs = [("y", F), ("count", TensorProto.INT32), ("sum", F)]
    plain = tables | {"s": None}
    for name, given, last, results in (
        ("words", {"words": words, "segments": None} | plain, {}, outputs[:2]),
        ("mask", {"words": words, "segments": segments} | tables, {"mask": mask}, outputs[:2]),
        ("positions", {"words": words, "segments": segments} | tables, {"mask": None, "positions": positions}, outputs),
    ):
        contributed(name, "EmbedLayerNormalization", given | last, results, epsilon=1e-5)
    tables = {name: bytes_of(np.uint8, *table.shape) for name, table in tables.items()}
    scales = {f"{name}_scale": np.float32(rng.random() / 50) for name in tables}
    zeros = {f"{name}_zero": np.uint8(rng.integers(100, 140)) for name in tables}
    constants = tables | {"mask": None} | scales | zeros
    given = {"words": words, "segments": segments}
    contributed("tables", "QEmbedLayerNormalization", given, [("y", F), ("count", TensorProto.INT32)], constants)
    outputs = [("y", F), ("at", TensorProto.INT64), ("counts", TensorProto.INT64)]
    contributed("floats", "Unique", {"x": np.float32([3, 1, 3, 2, 1])}, outputs)
    image = bytes_of(np.int8, 2, 7, 6, 5)
    contributed("image", "NhwcMaxPool", {"x": image}, [("y", TensorProto.INT8)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def quantised_elements():
    """Conversions, and elementwise operators, pools and movement between quantised tensors."""
    steps = [node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])]
    write("dynamic-parameters", steps, {"x": normal(5, 33)}, [("y", TensorProto.UINT8), ("s", F), ("z", TensorProto.UINT8)])
    for kind in (np.uint8, np.int8):
        code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        each = {"scale": np.float32(rng.random(6) * 0.05 + 0.01), "zero": bytes_of(kind, 6)}
        steps = [node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
                 node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1)]
        write(f"channels-{code}", steps, {"x": normal(3, 6, 7)}, [("q", code), ("y", F)], each)
        constants = parameters(kind, 0.031, 4, "a") | parameters(kind, 0.017, 9, "b") | parameters(kind, 0.05, 2, "y")
        inputs = {"a": bytes_of(kind, 2, 8, 6, 5), "b": bytes_of(kind, 2, 8, 6, 5)}
        before = [node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"d{name}"]) for name in "ab"]
        after = node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["y"])
        for name, step in (
            ("add", node("Add", ["da", "db"], ["r"])),
            ("mul", node("Mul", ["da", "db"], ["r"])),
            ("sigmoid", node("Sigmoid", ["da"], ["r"])),
            ("leaky", node("LeakyRelu", ["da"], ["r"], alpha=0.1)),
            ("concat", node("Concat", ["da", "db"], ["r"], axis=1)),
            ("average", node("AveragePool", ["da"], ["r"], kernel_shape=[2, 2])),
            ("global", node("GlobalAveragePool", ["da"], ["r"])),
            ("softmax", node("Softmax", ["da"], ["r"], axis=1)),
            ("max", node("MaxPool", ["da"], ["r"], kernel_shape=[3, 3], strides=[2, 2])),
            ("transpose", node("Transpose", ["da"], ["r"], perm=[0, 2, 3, 1])),
        ):
            read = [name for name in "ab" if f"d{name}" in step.input]
            steps = [step for step in before if step.input[0] in read] + [step, after]
            write(f"qdq-{name}-{code}", steps, {name: inputs[name] for name in read}, [("y", code)], constants, opset=21)


def halves():
    """Products and convolutions of f16, whose sums the evaluator rounds at each step."""
    H = TensorProto.FLOAT16
    half = lambda *shape: (normal(*shape) / 4).astype(np.float16)
    steps = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
    write("half-matmul", steps, {"x": half(5, 40)}, [("y", H)], {"w": half(40, 24), "b": half(24)}, opset=21)
    step = node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    write("half-conv", [step], {"x": half(1, 4, 9, 8)}, [("y", H)], {"w": half(20, 4, 3, 3), "b": half(20)}, opset=21)


def precisions():
    """Products and recurrent layers of f32, which are compiled at the precision of their name; results have a magnitude of about 1."""
    ids = rng.integers(0, 2048, 7)
    for precision in ["f16", "bf16"]:
        save = lambda name, *rest: write(f"{precision}-{name}", *rest, opset=21)
        product = node("MatMul", ["x", "w"], ["y"])
        save("matmul", [product], {"x": normal(30, 41)}, [("y", F)], {"w": normal(41, 24) / 6})
        constants = {"w": normal(300, 512) / 22, "c": normal(300)}
        step = node("Gemm", ["x", "w", "c"], ["y"], transB=1)
        save("gemm", [step], {"x": normal(1, 512)}, [("y", F)], constants)
        constants = {"table": normal(2048, 32), "w": normal(32, 20) / 6}
        steps = [node("Gather", ["table", "ids"], ["x"]), product]
        save("embedding", steps, {"ids": ids}, [("y", F)], constants)
        for channels, groups in [(3, 1), (13, 1), (16, 1), (8, 2)]:
            shape = 32, channels // groups, 3, 3
            constants = {"w": normal(*shape) / np.float32(np.sqrt(np.prod(shape[1:]))), "b": normal(32)}
            conv = node("Conv", ["x", "w", "b"], ["z"], pads=[1, 1, 1, 1], strides=[1, 2], group=groups)
            inputs = {"x": normal(1, channels, 9, 8)}
            save(f"conv-{channels}-{groups}", [conv, node("Relu", ["z"], ["y"])], inputs, [("y", F)], constants)
        for operator, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
            rows = 24 * gates
            constants = {"w": normal(1, rows, 41) / 6, "r": normal(1, rows, 24) / 5, "b": normal(1, 2 * rows) / 4}
            step = node(operator, ["x", "w", "r", "b"], ["y", "h"], hidden_size=24)
            save(operator.lower(), [step], {"x": normal(6, 3, 41)}, [("y", F), ("h", F)], constants)


def contributed_elements():
    """Fused activations, products and normalisations of com.microsoft, and operators on quantised tensors."""
    y, x, bias = [("y", F)], normal(2, 3, 8), normal(8)
    for operator, constants in (("BiasGelu", {"b": bias}), ("FastGelu", {"b": bias}), ("Gelu", {}), ("QuickGelu", {})):
        contributed("floats", operator, {"x": x}, y, constants)
    contributed("upper", "Trilu", {"x": x}, y)
    contributed("swapped", "FusedMatMul", {"a": x}, y, {"b": normal(2, 5, 8)}, transB=1, alpha=0.5)
    contributed("leaky", "FusedGemm", {"a": normal(3, 8)}, y, {"b": normal(8, 4), "c": normal(4)},
                activation="LeakyRelu", activation_alpha=0.1)
    constants = {"w": normal(4, 3, 3, 3), "b": normal(4)}
    contributed("relu", "FusedConv", {"x": normal(1, 3, 6, 5)}, y, constants, activation="Relu", pads=[1, 1, 1, 1])
    contributed("clip", "FusedConv", {"x": normal(1, 3, 6, 5)}, y, constants, activation="Clip", activation_params=[-0.5, 0.75])
    constants = {"gamma": bias, "beta": normal(8), "b": normal(8)}
    outputs = [("y", F), ("", F), ("", F), ("sum", F)]
    contributed("bias", "SkipLayerNormalization", {"x": x, "skip": normal(2, 3, 8)}, outputs, constants, epsilon=1e-5)
    contributed("plain", "SkipSimplifiedLayerNormalization", {"x": x, "skip": normal(2, 3, 8)}, y, {"gamma": bias}, epsilon=1e-5)
    u8, image = [("y", TensorProto.UINT8)], bytes_of(np.uint8, 1, 4, 6, 5)
    a, b, c = (parameters(np.uint8, scale, zero, name) for scale, zero, name in ((0.03, 120, "a"), (0.02, 99, "b"), (0.05, 128, "y")))
    for operator in ("QLinearAdd", "QLinearMul"):
        contributed("both", operator, {"a": image} | a | {"b": bytes_of(np.uint8, 1, 4, 6, 5)} | b | c, u8)
    constants = c | {"a": image} | a | {"b": bytes_of(np.uint8, 1, 2, 6, 5)} | b
    contributed("channels", "QLinearConcat", {}, u8, constants, axis=1)
    for operator, attributes in (("QLinearAveragePool", {"kernel_shape": [2, 2]}), ("QLinearGlobalAveragePool", {}),
                                 ("QLinearLeakyRelu", {"alpha": 0.2}), ("QLinearSigmoid", {})):
        contributed("image", operator, {"a": image}, u8, a | parameters(np.uint8, 0.02, 60, "y"), **attributes)
    contributed("rows", "QLinearSoftmax", {"a": bytes_of(np.uint8, 3, 9)}, u8, a | parameters(np.uint8, 1 / 256, 0, "y"), opset=13)
    constants = a | {"w": halved(bytes_of(np.uint8, 8, 5))} | b | {"c": rng.integers(-900, 900, 5).astype(np.int32)} | parameters(np.uint8, 0.2, 128, "y")
    contributed("rows", "QGemm", {"a": bytes_of(np.uint8, 3, 8)}, u8, constants)
    contributed("rows", "QuantizeLinear", {"x": normal(3, 8)}, u8, parameters(np.uint8, 0.02, 99, "b"))
    contributed("rows", "DequantizeLinear", {"a": image}, y, a)
    batch = normal(2, 3, 4, 4) + 3 * np.eye(4, dtype=np.float32)
    contributed("batch", "Inverse", {"x": batch}, y)
    contributed("doubles", "Inverse", {"x": batch[0].astype(np.float64)}, [("y", TensorProto.DOUBLE)])


def optimised(name):
    """The model as onnxruntime's optimiser writes it with everything for this CPU."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(FOLDER / f"{name}.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), options)
    operators = {step.op_type for step in onnx.load(FOLDER / f"{name}.onnx").graph.node if "nchwc" in step.domain}
    assert operators >= {"Conv", "ReorderOutput"}, operators


def blocks_of_channels():
    """Convolutions in onnxruntime's layout, with 20 and with 32 channels, and in blocks of 8, which this CPU may not use."""
    for channels in (20, 32):
        constants = {"w0": normal(channels, 3, 3, 3), "b0": normal(channels), "w1": normal(channels, 1, 3, 3),
                     "w2": normal(channels, channels, 1, 1), "b2": normal(channels), "w3": normal(24, 2 * channels, 3, 3),
                     "w4": normal(8, 24, 1, 1)}
        # Sums keep the scale of their terms.
        constants = {key: value / np.sqrt(np.prod(value.shape[1:], dtype=np.float32)) for key, value in constants.items()}
        constants["scales"] = np.array([1, 1, 2, 2], np.float32)
        nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]), node("Relu", ["c0"], ["r0"]),
                 node("MaxPool", ["r0"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("Conv", ["p", "w1"], ["c1"], pads=[1, 1, 1, 1], group=channels),
                 node("Conv", ["c1", "w2", "b2"], ["c2"]), node("Add", ["c2", "p"], ["sum"]), node("Relu", ["sum"], ["r2"]),
                 node("AveragePool", ["r2"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                 node("Concat", ["r2", "a"], ["both"], axis=1), node("Conv", ["both", "w3"], ["c3"]),
                 node("Resize", ["c3", "", "scales"], ["large"], mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor"),
                 node("Conv", ["large", "w4"], ["y"]), node("GlobalAveragePool", ["c3"], ["z"])]
        name = f"nchwc-{channels}-channels"
        write(name, nodes, {"x": normal(1, 3, 12, 14)}, [("y", F), ("z", F)], constants, 21, onnxruntime_run)
        optimised(name)
    weights, image = normal(24, 3, 3, 3), normal(1, 3, 6, 7)
    blocked = weights.reshape(3, 8, 3, 3, 3).transpose(0, 2, 3, 4, 1).reshape(weights.shape)
    plain = onnxruntime_run(helper.make_model(helper.make_graph(
        [node("Conv", ["x", "w"], ["c"]), node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2])], "plain",
        [helper.make_tensor_value_info("x", F, image.shape)], [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(weights, "w")]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": image})
    nodes = [node("Conv", ["x", "w"], ["c"], domain=LAYOUT), node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], domain=LAYOUT),
             node("ReorderOutput", ["p"], ["y"], channels=24, domain=LAYOUT)]
    write("nchwc-blocks-of-8", nodes, {"x": image}, [("y", F)], {"w": blocked}, 21, lambda *_: plain)


no_rows()
many_counts()
optimizers()
small_types()
ngrams()
scans()
weights_alone()
quantised_rows()
quantised_convolutions()
quantised_products()
quantised_elements()
coupled_gates()
quantised_recurrent()
halves()
precisions()
fused_attention()
pools()
contributed_operators()
contributed_elements()
blocks_of_channels()
