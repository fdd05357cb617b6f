"""The models of make.py, one function for each family of operators."""

import detection
import memory
import numpy as np
import recurrent
import sparse
import volumes
from ai_edge_litert import schema_py_generated as s
from builders import ACT, CASES, SAME, VALID, add, floats, q_simple, quantised, rng, simple
from litert import Model, run


def elementwise():
    x = floats(2, 3, 4)
    positive = floats(2, 3, 4, low=0.1, high=3.0)
    for code, options, value in [
        ("ABS", "AbsOptions", x), ("NEG", "NegOptions", x), ("EXP", "ExpOptions", x), ("LOG", None, positive),
        ("SQRT", None, positive), ("RSQRT", None, positive), ("SQUARE", "SquareOptions", x), ("SIN", None, x),
        ("COS", "CosOptions", x), ("FLOOR", None, x), ("CEIL", None, x), ("SIGN", "SignOptions", x),
        ("LOGISTIC", None, x), ("TANH", None, x), ("RELU", None, x), ("RELU6", None, 4 * x),
        ("RELU_N1_TO_1", None, x), ("RELU_0_TO_1", None, x), ("ELU", None, x),
        ("HARD_SWISH", "HardSwishOptions", 3 * x), ("ZEROS_LIKE", "ZerosLikeOptions", x),
    ]:
        simple(code.lower(), code, [value], [(value.shape, "float32")], options)
    halves = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, -0.6]], np.float32)
    simple("round", "ROUND", [halves], [(halves.shape, "float32")])
    simple("abs_i32", "ABS", [np.array([-3, 4, 0], np.int32)], [((3,), "int32")], "AbsOptions")
    simple("leaky_relu", "LEAKY_RELU", [x], [(x.shape, "float32")], "LeakyReluOptions", alpha=0.3)
    for name, value in [("gelu", False), ("gelu_tanh", True)]:
        simple(name, "GELU", [x], [(x.shape, "float32")], "GeluOptions", 1e-4, approximate=value)
    image = floats(1, 2, 3, 4)
    simple("prelu", "PRELU", [image], [(image.shape, "float32")], None, constants=[floats(1, 1, 4)])
    flags = np.array([True, False, True])
    simple("logical_not", "LOGICAL_NOT", [flags], [((3,), "bool")], "LogicalNotOptions")


def binary():
    x, y = floats(2, 3, 4), floats(2, 3, 4, low=0.5, high=2.5)[::-1].copy()
    row = floats(4, low=0.5)
    for code, options in [
        ("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions"),
        ("MINIMUM", "MaximumMinimumOptions"), ("MAXIMUM", "MaximumMinimumOptions"),
        ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions"), ("FLOOR_DIV", "FloorDivOptions"),
        ("FLOOR_MOD", "FloorModOptions"),
    ]:
        simple(code.lower(), code, [x, y], [(x.shape, "float32")], options)
        simple(code.lower() + "_row", code, [x, row], [(x.shape, "float32")], options)
    simple("pow", "POW", [y, x], [(x.shape, "float32")], "PowOptions")
    for name, act in [("relu", ACT.RELU), ("relu6", ACT.RELU6), ("relu_n1_to_1", ACT.RELU_N1_TO_1)]:
        simple("add_" + name, "ADD", [4 * x, y], [(x.shape, "float32")], "AddOptions", fusedActivationFunction=act)
        simple("mul_" + name, "MUL", [4 * x, y], [(x.shape, "float32")], "MulOptions", fusedActivationFunction=act)
    a = np.array([[-7, 7, -8], [5, 6, -1]], np.int32)
    b = np.array([[2, -2, 3], [5, 4, -3]], np.int32)
    for code, options in [("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions"), ("ADD", "AddOptions"),
                          ("MUL", "MulOptions"), ("SUB", "SubOptions"), ("DIV", "DivOptions"),
                          ("MAXIMUM", "MaximumMinimumOptions")]:
        simple(code.lower() + "_i32", code, [a, b], [(a.shape, "int32")], options)
    simple("add_n", "ADD_N", [x, y, x], [(x.shape, "float32")], "AddNOptions")
    for code, options in [("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("GREATER", "GreaterOptions"),
                          ("GREATER_EQUAL", "GreaterEqualOptions"), ("LESS", "LessOptions"),
                          ("LESS_EQUAL", "LessEqualOptions")]:
        z = x.copy()
        z[0] = y[0]
        simple(code.lower(), code, [z, y], [(x.shape, "bool")], options)
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    simple("logical_and", "LOGICAL_AND", [p, q], [((4,), "bool")], "LogicalAndOptions")
    simple("logical_or", "LOGICAL_OR", [p, q], [((4,), "bool")], "LogicalOrOptions")
    signs = floats(3, 4)
    simple("floor_mod_signs", "FLOOR_MOD", [signs, -signs[::-1] + 0.1], [((3, 4), "float32")], "FloorModOptions")


def quantised_elementwise():
    x, y = floats(2, 3, 4), floats(2, 3, 4)[::-1].copy()
    for code, options in [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")]:
        q_simple(code.lower() + "_i8", code, [x, y], [x.shape], (0.03, -5), options)
        q_simple(code.lower() + "_u8", code, [x, y], [x.shape], (0.03, 120), options, dtype="uint8", in_q=(0.02, 130))
    q_simple("add_i8_relu6", "ADD", [x, y], [x.shape], (6 / 255, -128), "AddOptions",
             fusedActivationFunction=ACT.RELU6)
    q_simple("add_i8_relu", "ADD", [x, y], [x.shape], (0.03, -5), "AddOptions", fusedActivationFunction=ACT.RELU)
    q_simple("logistic_i8", "LOGISTIC", [x], [x.shape], (1 / 256, -128))
    q_simple("tanh_i8", "TANH", [x], [x.shape], (1 / 128, 0))
    q_simple("relu_i8", "RELU", [x], [x.shape], (0.02, 3))
    q_simple("leaky_relu_i8", "LEAKY_RELU", [x], [x.shape], (0.02, 3), "LeakyReluOptions", alpha=0.3)
    q_simple("hard_swish_i8", "HARD_SWISH", [x], [x.shape], (0.02, -10), "HardSwishOptions", version=1)
    q_simple("softmax_i8", "SOFTMAX", [x], [x.shape], (1 / 256, -128), "SoftmaxOptions", beta=1.0)
    q_simple("maximum_i8", "MAXIMUM", [x, y], [x.shape], (0.02, 3), "MaximumMinimumOptions")
    add_quantize_cases(x)


def add_quantize_cases(x):
    for dtype, zero in [("int8", 3), ("uint8", 120), ("int16", 0)]:
        model = Model()
        graph = model.graph()
        a = graph.input("x", x.shape)
        b = graph.output("y", x.shape, dtype, scale=0.02, zero=zero)
        graph.op("QUANTIZE", [a], [b], "QuantizeOptions", 1)
        add(f"quantize_{dtype}", model, [x], 0)
        model = Model()
        graph = model.graph()
        a = graph.input("x", x.shape, dtype, scale=0.02, zero=zero)
        b = graph.output("y", x.shape)
        graph.op("DEQUANTIZE", [a], [b], "DequantizeOptions", 2)
        add(f"dequantize_{dtype}", model, [quantised(x, 0.02, zero, dtype)])
    model = Model()
    graph = model.graph()
    a = graph.input("x", x.shape, "int8", scale=0.02, zero=3)
    b = graph.output("y", x.shape, "uint8", scale=0.02, zero=131)
    graph.op("QUANTIZE", [a], [b], "QuantizeOptions", 2)
    add("requantize", model, [quantised(x, 0.02, 3, "int8")], 1)
    model = Model()
    graph = model.graph()
    a = graph.input("x", x.shape)
    w = graph.constant("w", floats(4).astype(np.float16))
    real = graph.tensor("w32", (4,))
    b = graph.output("y", x.shape)
    graph.op("DEQUANTIZE", [w], [real], "DequantizeOptions", 2)
    graph.op("MUL", [a, real], [b], "MulOptions")
    add("weights_f16", model, [x])


def convolution():
    x = floats(1, 7, 6, 4)
    w, b = floats(5, 3, 2, 4, low=-1, high=1), floats(5)
    for name, pad, stride, dilation, shape in [
        ("same", SAME, (1, 1), (1, 1), (1, 7, 6, 5)), ("valid", VALID, (1, 1), (1, 1), (1, 5, 5, 5)),
        ("stride", SAME, (2, 3), (1, 1), (1, 4, 2, 5)), ("dilated", SAME, (1, 1), (2, 1), (1, 7, 6, 5)),
    ]:
        fields = dict(padding=pad, strideH=stride[0], strideW=stride[1], dilationHFactor=dilation[0],
                      dilationWFactor=dilation[1])
        simple("conv_2d_" + name, "CONV_2D", [x], [(shape, "float32")], "Conv2DOptions", constants=[w, b], **fields)
    simple("conv_2d_relu6", "CONV_2D", [x], [((1, 5, 5, 5), "float32")], "Conv2DOptions", constants=[w, b],
           padding=VALID, strideH=1, strideW=1, fusedActivationFunction=ACT.RELU6)
    simple("conv_2d_dynamic_weights", "CONV_2D", [x, w], [((1, 5, 5, 5), "float32")], "Conv2DOptions",
           constants=[b], padding=VALID, strideH=1, strideW=1)
    grouped = floats(6, 3, 3, 2, low=-1, high=1)
    simple("conv_2d_grouped", "CONV_2D", [x], [((1, 7, 6, 6), "float32")], "Conv2DOptions", version=6,
           constants=[grouped, floats(6)], padding=SAME, strideH=1, strideW=1)
    d = floats(1, 3, 3, 8, low=-1, high=1)
    for name, pad, stride, shape in [("same", SAME, 1, (1, 7, 6, 8)), ("stride", SAME, 2, (1, 4, 3, 8)),
                                     ("valid", VALID, 1, (1, 5, 4, 8))]:
        simple("depthwise_" + name, "DEPTHWISE_CONV_2D", [x], [(shape, "float32")], "DepthwiseConv2DOptions",
               constants=[d, floats(8)], padding=pad, strideH=stride, strideW=stride, depthMultiplier=2,
               fusedActivationFunction=ACT.RELU)
    t = floats(3, 3, 3, 4, low=-1, high=1)
    for name, pad, stride, size in [("same", SAME, 2, (1, 14, 12, 3)), ("valid", VALID, 2, (1, 15, 13, 3)),
                                    ("odd", SAME, 2, (1, 13, 11, 3)), ("one", SAME, 1, (1, 7, 6, 3))]:
        model = Model()
        graph = model.graph()
        shape = graph.constant("shape", np.array(size, np.int32))
        weights = graph.constant("w", t)
        image = graph.input("x", x.shape)
        bias = graph.constant("b", floats(3))
        y = graph.output("y", size)
        graph.op("TRANSPOSE_CONV", [shape, weights, image, bias], [y], "TransposeConvOptions", 3, padding=pad,
                 strideH=stride, strideW=stride)
        add("transpose_conv_" + name, model, [x])
    volume, kernel = floats(1, 4, 5, 4, 2), floats(2, 3, 2, 2, 3)
    simple("conv_3d", "CONV_3D", [volume], [((1, 2, 5, 2, 3), "float32")], "Conv3DOptions",
           constants=[kernel, floats(3)], padding=SAME, strideD=2, strideH=1, strideW=2)


def quantised_products():
    x = floats(1, 7, 6, 4)
    in_q, out_q = (0.02, 3), (0.05, -4)
    w = rng().integers(-127, 128, (5, 3, 3, 4)).astype(np.int8)
    scales = np.array([0.004, 0.005, 0.006, 0.007, 0.008], np.float32)
    bias = rng().integers(-2000, 2000, 5).astype(np.int32)

    def quantised_op(name, code, x, weights, scales, axis, bias, shape, options, dtype="int8", in_q=in_q, out_q=out_q,
                     version=3, w_zero=0, **fields):
        model = Model()
        graph = model.graph()
        value = quantised(x, *in_q, dtype)
        a = graph.input("x", x.shape, dtype, scale=in_q[0], zero=in_q[1])
        b = graph.constant("w", weights, scale=scales, zero=w_zero, axis=axis)
        c = graph.constant("b", bias, scale=np.float32(in_q[0]) * np.atleast_1d(scales), axis=0)
        y = graph.output("y", shape, dtype, scale=out_q[0], zero=out_q[1])
        graph.op(code, [a, b, c], [y], options, version, **fields)
        add(name, model, [value], 1)

    conv = dict(padding=SAME, strideH=1, strideW=1)
    quantised_op("conv_2d_i8_channels", "CONV_2D", x, w, scales, 0, bias, (1, 7, 6, 5), "Conv2DOptions", **conv)
    quantised_op("conv_2d_i8_relu6", "CONV_2D", x, w, scales, 0, bias, (1, 7, 6, 5), "Conv2DOptions",
                 out_q=(6 / 255, -128), fusedActivationFunction=ACT.RELU6, **conv)
    quantised_op("conv_2d_u8", "CONV_2D", x, (w.astype(np.int32) + 128).astype(np.uint8), np.float32(0.005), 0, bias,
                 (1, 7, 6, 5), "Conv2DOptions", "uint8", (0.02, 130), (0.05, 120), w_zero=128, **conv)
    quantised_op("conv_2d_i16", "CONV_2D", x, w, scales, 0, bias.astype(np.int64), (1, 7, 6, 5), "Conv2DOptions",
                 "int16", (0.0001, 0), (0.0005, 0), version=4, **conv)
    d = rng().integers(-127, 128, (1, 3, 3, 4)).astype(np.int8)
    quantised_op("depthwise_i8_channels", "DEPTHWISE_CONV_2D", x, d, scales[:4], 3, bias[:4], (1, 4, 3, 4),
                 "DepthwiseConv2DOptions", padding=SAME, strideH=2, strideW=2, depthMultiplier=1)
    rows = floats(3, 8)
    f = rng().integers(-127, 128, (5, 8)).astype(np.int8)
    quantised_op("fully_connected_i8", "FULLY_CONNECTED", rows, f, np.float32(0.005), 0, bias, (3, 5),
                 "FullyConnectedOptions", version=4)
    quantised_op("fully_connected_i8_image", "FULLY_CONNECTED", floats(3, 2, 2, 2), f, np.float32(0.005), 0, bias,
                 (3, 5), "FullyConnectedOptions", version=4)


def products():
    x, w, b = floats(3, 8), floats(5, 8), floats(5)
    simple("fully_connected", "FULLY_CONNECTED", [x], [((3, 5), "float32")], "FullyConnectedOptions",
           constants=[w, b])
    simple("fully_connected_relu", "FULLY_CONNECTED", [x], [((3, 5), "float32")], "FullyConnectedOptions",
           constants=[w], fusedActivationFunction=ACT.RELU)
    image = floats(3, 2, 2, 2)
    simple("fully_connected_image", "FULLY_CONNECTED", [image], [((3, 5), "float32")], "FullyConnectedOptions",
           constants=[w, b])
    deep = floats(2, 3, 8)
    simple("fully_connected_dims", "FULLY_CONNECTED", [deep], [((2, 3, 5), "float32")], "FullyConnectedOptions",
           version=5, constants=[w, b], keepNumDims=True)
    a, c = floats(2, 3, 4), floats(2, 4, 5)
    simple("batch_matmul", "BATCH_MATMUL", [a, c], [((2, 3, 5), "float32")], "BatchMatMulOptions")
    simple("batch_matmul_adjoint", "BATCH_MATMUL", [a.transpose(0, 2, 1).copy(), c.transpose(0, 2, 1).copy()],
           [((2, 3, 5), "float32")], "BatchMatMulOptions", adjX=True, adjY=True)


def pooling():
    x = floats(1, 7, 6, 4)
    for code in ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"]:
        for name, pad, shape in [("same", SAME, (1, 4, 3, 4)), ("valid", VALID, (1, 3, 2, 4))]:
            simple(f"{code.lower()}_{name}", code, [x], [(shape, "float32")], "Pool2DOptions", padding=pad, strideH=2,
                   strideW=2, filterHeight=3, filterWidth=3)
    for code in ["AVERAGE_POOL_2D", "MAX_POOL_2D"]:
        q_simple(code.lower() + "_i8", code, [x], [(1, 4, 3, 4)], (0.02, 3), "Pool2DOptions", padding=SAME, strideH=2,
                 strideW=2, filterHeight=3, filterWidth=3)


def normalization():
    x = floats(1, 3, 2, 6)
    simple("softmax", "SOFTMAX", [x], [(x.shape, "float32")], "SoftmaxOptions", beta=1.0)
    simple("softmax_beta", "SOFTMAX", [x], [(x.shape, "float32")], "SoftmaxOptions", beta=0.5)
    simple("log_softmax", "LOG_SOFTMAX", [x], [(x.shape, "float32")], "LogSoftmaxOptions")
    simple("l2_normalization", "L2_NORMALIZATION", [x], [(x.shape, "float32")], "L2NormOptions")
    simple("local_response_normalization", "LOCAL_RESPONSE_NORMALIZATION", [x], [(x.shape, "float32")],
           "LocalResponseNormalizationOptions", radius=2, bias=1.5, alpha=0.3, beta=0.75)


def reduction():
    x = floats(2, 3, 4, 5)
    axes = np.array([1, 2], np.int32)
    for code in ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"]:
        simple(code.lower(), code, [x], [((2, 5), "float32")], "ReducerOptions", constants=[axes])
        simple(code.lower() + "_keep", code, [x], [((2, 1, 1, 5), "float32")], "ReducerOptions", constants=[axes],
               keepDims=True)
    flags = rng().random((3, 4)) > 0.6
    for code in ["REDUCE_ANY", "REDUCE_ALL"]:
        simple(code.lower(), code, [flags], [((3,), "bool")], "ReducerOptions", constants=[np.array([1], np.int32)])
    q_simple("mean_i8", "MEAN", [x], [(2, 5)], (0.01, 2), "ReducerOptions", constants=[axes])
    q_simple("reduce_max_i8", "REDUCE_MAX", [x], [(2, 5)], (0.02, 3), "ReducerOptions", constants=[axes])
    for code, options in [("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")]:
        simple(code.lower(), code, [x], [((2, 3, 4), "int32")], options, constants=[np.array(-1, np.int32)],
               outputType=s.TensorType.INT32)
        simple(code.lower() + "_i64", code, [x], [((2, 4, 5), "int64")], options, constants=[np.array(1, np.int32)],
               outputType=s.TensorType.INT64)
    for exclusive, reverse in [(False, False), (True, False), (False, True), (True, True)]:
        simple(f"cumsum_{int(exclusive)}{int(reverse)}", "CUMSUM", [x], [(x.shape, "float32")], "CumsumOptions",
               constants=[np.array(2, np.int32)], exclusive=exclusive, reverse=reverse)


def movement():
    x = floats(2, 3, 4)
    i32 = lambda *values: np.array(values, np.int32)  # noqa: E731
    f32 = lambda *shape: (shape, "float32")  # noqa: E731
    simple("reshape", "RESHAPE", [x], [f32(6, 4)], "ReshapeOptions", constants=[i32(6, -1)], newShape=[6, -1])
    simple("reshape_option", "RESHAPE", [x], [f32(4, 6)], "ReshapeOptions", newShape=[4, 6])
    simple("transpose", "TRANSPOSE", [x], [f32(4, 2, 3)], "TransposeOptions", constants=[i32(2, 0, 1)])
    one = floats(1, 3, 1, 4)
    simple("squeeze", "SQUEEZE", [one], [f32(3, 4)], "SqueezeOptions", squeezeDims=[0, 2])
    simple("squeeze_all", "SQUEEZE", [one], [f32(3, 4)], "SqueezeOptions")
    simple("expand_dims", "EXPAND_DIMS", [x], [f32(2, 3, 1, 4)], "ExpandDimsOptions", constants=[i32(-2)])
    simple("concatenation", "CONCATENATION", [x, 2 * x], [f32(2, 6, 4)], "ConcatenationOptions", axis=1)
    simple("concatenation_last", "CONCATENATION", [x, 2 * x], [f32(2, 3, 8)], "ConcatenationOptions", axis=-1)
    simple("split_v", "SPLIT_V", [x], [f32(2, 3, 1), f32(2, 3, 3)], "SplitVOptions",
           constants=[i32(1, -1), np.array(2, np.int32)], numSplits=2)
    model = Model()
    graph = model.graph()
    axis = graph.constant("axis", np.array(2, np.int32))
    a = graph.input("x", x.shape)
    parts = [graph.output(f"y{i}", (2, 3, 2)) for i in range(2)]
    graph.op("SPLIT", [axis, a], parts, "SplitOptions", numSplits=2)
    add("split", model, [x])
    simple("slice", "SLICE", [x], [f32(1, 2, 3)], "SliceOptions", constants=[i32(1, 0, 1), i32(1, 2, -1)])
    simple("pad", "PAD", [x], [f32(3, 6, 4)], "PadOptions", constants=[np.array([[0, 1], [2, 1], [0, 0]], np.int32)])
    simple("padv2", "PADV2", [x], [f32(3, 6, 4)], "PadV2Options",
           constants=[np.array([[0, 1], [2, 1], [0, 0]], np.int32), np.array(1.5, np.float32)])
    for name, mode in [("reflect", s.MirrorPadMode.REFLECT), ("symmetric", s.MirrorPadMode.SYMMETRIC)]:
        simple("mirror_pad_" + name, "MIRROR_PAD", [x], [f32(2, 6, 7)], "MirrorPadOptions",
               constants=[np.array([[0, 0], [2, 1], [1, 2]], np.int32)], mode=mode)
    simple("pack", "PACK", [x, 2 * x], [f32(2, 2, 3, 4)], "PackOptions", valuesCount=2, axis=1)
    simple("unpack", "UNPACK", [x], [f32(2, 4)] * 3, "UnpackOptions", num=3, axis=1)
    simple("tile", "TILE", [x], [f32(4, 3, 8)], "TileOptions", constants=[i32(2, 1, 2)])
    row = floats(1, 4)
    simple("broadcast_to", "BROADCAST_TO", [row], [f32(2, 3, 4)], "BroadcastToOptions", version=2, constants=[i32(2, 3, 4)])
    simple("reverse_v2", "REVERSE_V2", [x], [f32(2, 3, 4)], "ReverseV2Options", constants=[i32(1)])
    simple("reverse_sequence", "REVERSE_SEQUENCE", [x], [f32(2, 3, 4)], "ReverseSequenceOptions",
           constants=[i32(2, 3)], seqDim=1, batchDim=0)
    q_simple("pad_i8", "PAD", [x], [(3, 6, 4)], (0.02, 3), "PadOptions",
             constants=[np.array([[0, 1], [2, 1], [0, 0]], np.int32)], tolerance=0)
    q_simple("concatenation_i8", "CONCATENATION", [x, 0.5 * x], [(2, 6, 4)], (0.02, 3), "ConcatenationOptions", axis=1,
             tolerance=0)
    q_simple("reshape_i8", "RESHAPE", [x], [(6, 4)], (0.02, 3), "ReshapeOptions", version=1,
             constants=[i32(6, 4)], tolerance=0)
    shape_cases(i32)
    strided_slices(i32)


def shape_cases(i32):
    x = floats(2, 3, 4)
    simple("shape", "SHAPE", [x], [((3,), "int32")], "ShapeOptions", outType=s.TensorType.INT32)
    simple("rank", "RANK", [x], [((), "int32")], "RankOptions")
    model = Model()
    graph = model.graph()
    dims = graph.constant("dims", i32(2, 3))
    value = graph.input("value", ())
    y = graph.output("y", (2, 3))
    graph.op("FILL", [dims, value], [y], "FillOptions")
    add("fill", model, [np.array(2.5, np.float32)])
    model = Model()
    graph = model.graph()
    bounds = [graph.constant(f"b{i}", np.array(v, np.int32)) for i, v in enumerate([2, 11, 3])]
    x0 = graph.input("x", (3,), "int32")
    between = graph.tensor("r", (3,), "int32")
    y = graph.output("y", (3,), "int32")
    graph.op("RANGE", bounds, [between], "RangeOptions")
    graph.op("ADD", [between, x0], [y], "AddOptions")
    add("range", model, [i32(1, 2, 3)], 0)
    simple("broadcast_args", "BROADCAST_ARGS", [i32(2, 1, 4), i32(3, 1)], [((3,), "int32")], None, 0)


def strided_slices(i32):
    x = floats(3, 4, 5)
    for name, begin, end, steps, shape, masks in [
        ("plain", (0, 1, 0), (3, 4, 5), (2, 1, 2), (2, 3, 3), {}),
        ("masks", (1, 1, 1), (2, 2, 3), (1, 1, 1), (3, 1, 4), dict(beginMask=1, endMask=5)),
        ("shrink", (1, 0, -1), (2, 4, 0), (1, 1, 1), (4,), dict(shrinkAxisMask=5)),
        ("reverse", (0, 3, 0), (3, 0, 5), (1, -1, 1), (3, 4, 5), dict(beginMask=2, endMask=2)),
    ]:
        simple("strided_slice_" + name, "STRIDED_SLICE", [x], [(shape, "float32")], "StridedSliceOptions",
               constants=[i32(*begin), i32(*end), i32(*steps)], **masks)
    simple("strided_slice_ellipsis", "STRIDED_SLICE", [x], [((3, 4, 2), "float32")], "StridedSliceOptions",
           constants=[i32(0, 1), i32(0, 3), i32(1, 1)], ellipsisMask=1)
    simple("strided_slice_new", "STRIDED_SLICE", [x], [((3, 1, 4, 5), "float32")], "StridedSliceOptions",
           constants=[i32(0, 0, 0), i32(3, 0, 4), i32(1, 1, 1)], newAxisMask=2)


def gathers():
    x = floats(3, 4, 5)
    i32 = lambda *values: np.array(values, np.int32)  # noqa: E731
    f32 = lambda *shape: (shape, "float32")  # noqa: E731
    simple("gather", "GATHER", [x, i32(2, 0)], [f32(3, 2, 5)], "GatherOptions", axis=1)
    positions = np.array([[1, 0], [3, 2], [0, 0]], np.int32)
    simple("gather_batch", "GATHER", [x, positions], [f32(3, 2, 5)], "GatherOptions", axis=1, batchDims=1, version=5)
    simple("gather_nd", "GATHER_ND", [x, np.array([[0, 1], [2, 3]], np.int32)], [f32(2, 5)], "GatherNdOptions")
    model = Model()
    graph = model.graph()
    positions = graph.constant("i", np.array([[1], [3], [1]], np.int32))
    updates = graph.input("x", (3, 2))
    shape = graph.constant("shape", i32(5, 2))
    y = graph.output("y", (5, 2))
    graph.op("SCATTER_ND", [positions, updates, shape], [y], "ScatterNdOptions")
    add("scatter_nd", model, [floats(3, 2)])
    simple("embedding_lookup", "EMBEDDING_LOOKUP", [i32(2, 0, 1)], [f32(3, 4)], constants=[floats(3, 4)])
    for name, axis, shape in [("last", -1, (4, 5)), ("first", 0, (5, 4))]:
        simple("one_hot_" + name, "ONE_HOT", [i32(1, 4, -1, 7)], [(shape, "float32")], "OneHotOptions",
               constants=[np.array(5, np.int32), np.array(2.0, np.float32), np.array(-1.0, np.float32)], axis=axis)
    condition = rng().random((3, 4, 5)) > 0.5
    simple("select", "SELECT", [condition, x, -x], [(x.shape, "float32")], "SelectOptions")
    simple("select_rows", "SELECT", [condition[:, 0, 0].copy(), x, -x], [(x.shape, "float32")], "SelectOptions")
    simple("select_v2", "SELECT_V2", [condition[0].copy(), x, floats(5)], [(x.shape, "float32")], "SelectV2Options")
    simple("where", "WHERE", [condition], [((int(condition.sum()), 3), "int64")], "WhereOptions", 0)
    simple("topk_v2", "TOPK_V2", [x], [f32(3, 4, 2), ((3, 4, 2), "int32")], "TopKV2Options",
           constants=[np.array(2, np.int32)])
    simple("cast_i32", "CAST", [3 * x], [(x.shape, "int32")], "CastOptions", 0, inDataType=s.TensorType.FLOAT32,
           outDataType=s.TensorType.INT32)
    simple("cast_bool", "CAST", [condition], [(x.shape, "float32")], "CastOptions", inDataType=s.TensorType.BOOL,
           outDataType=s.TensorType.FLOAT32)


def images():
    x = floats(2, 4, 6, 3)
    size = np.array([7, 9], np.int32)
    for name, align, half in [("asymmetric", False, False), ("align", True, False), ("half", False, True)]:
        fields = dict(alignCorners=align, halfPixelCenters=half)
        for code, options in [("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                              ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")]:
            simple(f"{code.lower()}_{name}", code, [x], [((2, 7, 9, 3), "float32")], options, version=3,
                   constants=[size], **fields)
    q_simple("resize_bilinear_i8", "RESIZE_BILINEAR", [x], [(2, 7, 9, 3)], (0.02, 3), "ResizeBilinearOptions",
             version=3, constants=[size], halfPixelCenters=True)
    simple("space_to_depth", "SPACE_TO_DEPTH", [x], [((2, 2, 3, 12), "float32")], "SpaceToDepthOptions", blockSize=2)
    deep = floats(2, 2, 3, 12)
    simple("depth_to_space", "DEPTH_TO_SPACE", [deep], [((2, 4, 6, 3), "float32")], "DepthToSpaceOptions", blockSize=2)
    simple("space_to_batch_nd", "SPACE_TO_BATCH_ND", [x], [((8, 3, 4, 3), "float32")], "SpaceToBatchNDOptions",
           constants=[np.array([2, 2], np.int32), np.array([[1, 1], [0, 2]], np.int32)])
    batched = floats(8, 3, 4, 3)
    simple("batch_to_space_nd", "BATCH_TO_SPACE_ND", [batched], [((2, 5, 6, 3), "float32")], "BatchToSpaceNDOptions",
           constants=[np.array([2, 2], np.int32), np.array([[1, 0], [0, 2]], np.int32)])
    q_simple("space_to_batch_nd_i8", "SPACE_TO_BATCH_ND", [x], [(8, 3, 4, 3)], (0.02, 3), "SpaceToBatchNDOptions",
             constants=[np.array([2, 2], np.int32), np.array([[1, 1], [0, 2]], np.int32)], tolerance=0)


def control():
    x = floats(2, 3)
    for flag in [True, False]:
        model = Model()
        graph = model.graph()
        c, a = graph.input("c", (), "bool"), graph.input("x", x.shape)
        y = graph.output("y", x.shape)
        graph.op("IF", [c, a], [y], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
        for name, code, options in [("then", "ADD", "AddOptions"), ("else", "MUL", "MulOptions")]:
            body = model.graph(name)
            b = body.input("a", x.shape)
            r = body.output("r", x.shape)
            body.op(code, [b, body.constant("k", np.float32(3))], [r], options)
        add(f"if_{str(flag).lower()}", model, [np.array(flag), x])
    model = Model()
    graph = model.graph()
    i, a = graph.input("i", (), "int32"), graph.input("x", x.shape)
    j, y = graph.output("j", (), "int32"), graph.output("y", x.shape)
    graph.op("WHILE", [i, a], [j, y], "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    cond = model.graph("cond")
    ci, _ = cond.input("i", (), "int32"), cond.input("x", x.shape)
    more = cond.output("more", (), "bool")
    cond.op("LESS", [ci, cond.constant("n", np.int32(5))], [more], "LessOptions")
    body = model.graph("body")
    bi, bx = body.input("i", (), "int32"), body.input("x", x.shape)
    ni, nx = body.output("i1", (), "int32"), body.output("x1", x.shape)
    body.op("ADD", [bi, body.constant("one", np.int32(1))], [ni], "AddOptions")
    body.op("MUL", [bx, body.constant("k", np.float32(1.5))], [nx], "MulOptions")
    add("while", model, [np.array(2, np.int32), x])


def networks():
    """Several operators, with signatures, a symbolic batch, and an integer network of the form of MobileNet."""
    x = floats(2, 3)
    model = Model()
    for index, (name, code, options) in enumerate([("double", "ADD", "AddOptions"), ("square", "MUL", "MulOptions")]):
        graph = model.graph(name)
        a = graph.input(f"serving_{name}_x:0", (1, 3), signature=(-1, 3))
        y = graph.output(f"StatefulPartitionedCall_{name}:0", (1, 3), signature=(-1, 3))
        graph.op(code, [a, a], [y], options)
        model.signature(name, index, {"x": a}, {"y": y})
    add("signatures", model, [x])
    outside_data(floats(2, 3))
    image = floats(1, 8, 8, 3)
    model = Model()
    graph = model.graph()
    g = rng()
    weights = lambda *shape: g.integers(-127, 128, shape).astype(np.int8)  # noqa: E731
    bias = lambda n: g.integers(-500, 500, n).astype(np.int32)  # noqa: E731
    a = graph.input("image", image.shape, "int8", scale=0.02, zero=-1)

    def layer(x, code, w, n, shape, x_scale, options, name, axis, scale=0.05, zero=-128, **fields):
        scales = g.uniform(0.002, 0.006, n).astype(np.float32)
        wt = graph.constant(name + "/w", w, scale=scales, axis=axis)
        b = graph.constant(name + "/b", bias(n), scale=np.float32(x_scale) * scales)
        y = graph.tensor(name, shape, "int8", scale=scale, zero=zero)
        graph.op(code, [x, wt, b], [y], options, 3, padding=SAME, fusedActivationFunction=ACT.RELU6, **fields)
        return y

    six = 6 / 255
    c1 = layer(a, "CONV_2D", weights(8, 3, 3, 3), 8, (1, 4, 4, 8), 0.02, "Conv2DOptions", "conv", 0, six, strideH=2,
               strideW=2)
    d1 = layer(c1, "DEPTHWISE_CONV_2D", weights(1, 3, 3, 8), 8, (1, 4, 4, 8), six, "DepthwiseConv2DOptions", "dw", 3,
               six, strideH=1, strideW=1, depthMultiplier=1)
    p1 = layer(d1, "CONV_2D", weights(8, 1, 1, 8), 8, (1, 4, 4, 8), six, "Conv2DOptions", "pw", 0, six, strideH=1,
               strideW=1)
    sum_ = graph.tensor("sum", (1, 4, 4, 8), "int8", scale=0.05, zero=-100)
    graph.op("ADD", [p1, c1], [sum_], "AddOptions", 2)
    mean = graph.tensor("mean", (1, 8), "int8", scale=0.04, zero=-100)
    graph.op("MEAN", [sum_, graph.constant("axes", np.array([1, 2], np.int32))], [mean], "ReducerOptions", 2)
    scales = np.float32(0.004)
    logits = graph.tensor("logits", (1, 10), "int8", scale=0.1, zero=0)
    graph.op("FULLY_CONNECTED", [mean, graph.constant("fc/w", weights(10, 8), scale=scales),
                                 graph.constant("fc/b", bias(10), scale=np.float32(0.04) * scales)],
             [logits], "FullyConnectedOptions", 4)
    y = graph.output("probabilities", (1, 10), "int8", scale=1 / 256, zero=-128)
    graph.op("SOFTMAX", [logits], [y], "SoftmaxOptions", 2, beta=1.0)
    add("mobilenet_i8", model, [quantised(image, 0.02, -1, "int8")], 4)


def outside_data(x):
    """Weights behind the flatbuffer, as in models above 2 GB; and weights of i8 with activations of f32."""
    model = Model()
    graph = model.graph()
    w = floats(4, 3)
    a, b = graph.input("x", x.shape), graph.constant("w", w)
    y = graph.output("y", (2, 4))
    graph.op("FULLY_CONNECTED", [a, b], [y], "FullyConnectedOptions")
    buffer = model.table.buffers[-1]
    buffer.data, buffer.offset, buffer.size = None, 16, w.nbytes
    buffer.offset = -(-len(model.bytes()) // 16) * 16
    data = model.bytes()
    data = data.ljust(buffer.offset, b"\0") + w.tobytes()
    CASES["weights_outside"] = (data, [x], 1e-5, run)
    model = Model()
    graph = model.graph()
    w = rng().integers(-127, 128, (4, 3)).astype(np.int8)
    a, b = graph.input("x", x.shape), graph.constant("w", w, scale=np.float32(0.01))
    y = graph.output("y", (2, 4))
    graph.op("FULLY_CONNECTED", [a, b], [y], "FullyConnectedOptions", 3)
    add("fully_connected_weights_i8", model, [x], 0.02)


def all_cases():
    for family in [elementwise, binary, quantised_elementwise, convolution, quantised_products, products, pooling,
                   normalization, reduction, movement, gathers, images, control, networks, detection.cases,
                   memory.cases, recurrent.cases, sparse.cases, volumes.cases]:
        family()
    return CASES
