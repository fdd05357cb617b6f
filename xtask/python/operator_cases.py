"""Writes one model of one node for each case of the operator sweep (`cargo xtask bench --ops`).

Usage: python operator_cases.py FOLDER [TEXT...]

For each case whose name contains one of the texts, FOLDER/NAME.onnx and FOLDER/NAME.npz, with `in.NAME`
for every input and `out.NAME` for every output as computed by onnxruntime. Prints the names.
Shapes are those of common models.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)
F32, F16, F64 = np.float32, np.float16, np.float64
U8, I32, I64, BOOL = np.uint8, np.int32, np.int64, np.bool_


class Const:
    """An input that is an initializer."""

    def __init__(self, array):
        self.array = array


def rand(*shape, t=F32, low=-1.0, high=1.0):
    """Random elements, uniform in low..high."""
    if t == BOOL:
        return RANDOM.random(shape) < 0.5
    if np.issubdtype(t, np.integer):
        return RANDOM.integers(int(low), int(high), shape).astype(t)
    return RANDOM.uniform(low, high, shape).astype(F32).astype(t)


def const(*shape, **kinds):
    return Const(rand(*shape, **kinds))


def ints(*values):
    return scalar(values)


def scalar(value, t=I64):
    return Const(np.array(value, t))


def index(*shape, high):
    return rand(*shape, t=I64, low=0, high=high)


CASES = []


def case(name, op, *inputs, outputs=1, opset=21, **attributes):
    """A case of one node; an input of None is omitted."""
    CASES.append((name, op, inputs, outputs, opset, attributes))


# Convolutions
case("conv1d-k3", "Conv", rand(1, 256, 1000), const(256, 256, 3), const(256), pads=[1, 1])
case("conv1d-k80-s4", "Conv", rand(1, 1, 16000), const(128, 1, 80), const(128), strides=[4])
case("conv1d-dilated", "Conv", rand(1, 64, 4000), const(64, 64, 3), const(64), pads=[8, 8], dilations=[8])
case("conv1d-depthwise-k31", "Conv", rand(1, 256, 500), const(256, 1, 31), const(256), pads=[15, 15], group=256)
case("conv2d-3x3", "Conv", rand(1, 64, 56, 56), const(64, 64, 3, 3), const(64), pads=[1, 1, 1, 1])
case("conv2d-3x3-s2", "Conv", rand(1, 128, 56, 56), const(128, 128, 3, 3), const(128), pads=[1, 1, 1, 1], strides=[2, 2])
case("conv2d-1x1", "Conv", rand(1, 256, 28, 28), const(512, 256, 1, 1), const(512))
case("conv2d-7x7-s2", "Conv", rand(1, 3, 224, 224), const(64, 3, 7, 7), const(64), pads=[3, 3, 3, 3], strides=[2, 2])
case("conv2d-asymmetric-pads", "Conv", rand(1, 64, 56, 56), const(64, 64, 3, 3), const(64), pads=[0, 0, 1, 1])
case("conv2d-depthwise-3x3", "Conv", rand(1, 144, 56, 56), const(144, 1, 3, 3), const(144), pads=[1, 1, 1, 1], group=144)
case("conv2d-depthwise-7x7", "Conv", rand(1, 192, 56, 56), const(192, 1, 7, 7), const(192), pads=[3, 3, 3, 3], group=192)
case("conv2d-depthwise-31x31", "Conv", rand(1, 64, 28, 28), const(64, 1, 31, 31), const(64), pads=[15, 15, 15, 15], group=64)
case("conv2d-group32", "Conv", rand(1, 128, 56, 56), const(128, 4, 3, 3), const(128), pads=[1, 1, 1, 1], group=32)
case("conv2d-group8", "Conv", rand(1, 256, 28, 28), const(256, 32, 3, 3), const(256), pads=[1, 1, 1, 1], group=8)
case("conv2d-dynamic-weights", "Conv", rand(1, 64, 28, 28), rand(64, 64, 3, 3), rand(64), pads=[1, 1, 1, 1])
case("conv2d-f16", "Conv", rand(1, 64, 28, 28, t=F16), const(64, 64, 3, 3, t=F16), const(64, t=F16), pads=[1, 1, 1, 1])
case("conv3d-3x3x3", "Conv", rand(1, 32, 8, 28, 28), const(32, 32, 3, 3, 3), const(32), pads=[1] * 6)
case("convtranspose1d-s8", "ConvTranspose", rand(1, 128, 100), const(128, 64, 16), const(64), strides=[8], pads=[4, 4])
case("convtranspose2d-k4-s2", "ConvTranspose", rand(1, 128, 28, 28), const(128, 64, 4, 4), const(64), strides=[2, 2], pads=[1, 1, 1, 1])
case("convtranspose2d-k2-s2", "ConvTranspose", rand(1, 128, 28, 28), const(128, 64, 2, 2), const(64), strides=[2, 2])
case("convtranspose2d-group", "ConvTranspose", rand(1, 64, 28, 28), const(64, 1, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1], group=64)
case("convtranspose3d-k2-s2", "ConvTranspose", rand(1, 32, 8, 14, 14), const(32, 16, 2, 2, 2), const(16), strides=[2, 2, 2])

# Matrix products
case("matmul-512", "MatMul", rand(512, 512), const(512, 512))
case("matmul-dynamic", "MatMul", rand(128, 768), rand(768, 768))
case("matmul-batched", "MatMul", rand(12, 128, 64), rand(12, 64, 128))
case("matmul-broadcast", "MatMul", rand(8, 64, 256), rand(256, 64))
case("matmul-vector", "MatMul", rand(1, 2048), const(2048, 2048))
case("matmul-f16", "MatMul", rand(128, 512, t=F16), const(512, 512, t=F16))
case("matmul-f64", "MatMul", rand(128, 256, t=F64), rand(256, 256, t=F64))
case("matmul-i32", "MatMul", rand(64, 256, t=I32, low=-9, high=9), rand(256, 128, t=I32, low=-9, high=9))
case("gemm", "Gemm", rand(64, 512), const(1000, 512), const(1000), transB=1)
case("gemm-transposed", "Gemm", rand(512, 64), rand(1000, 512), rand(64, 1), transA=1, transB=1, alpha=0.5, beta=2.0)
case("matmulinteger", "MatMulInteger", rand(128, 512, t=U8, low=0, high=255), const(512, 512, t=U8, low=0, high=255))
case("einsum-attention", "Einsum", rand(1, 12, 128, 64), rand(1, 12, 128, 64), equation="bhqd,bhkd->bhqk")
case("einsum-outer", "Einsum", rand(32, 64, 25), rand(25, 64), equation="bcv,vw->bcw")
case("einsum-transposed", "Einsum", rand(256, 256), rand(256, 256), equation="ij,kj->ik")

# Pools
case("maxpool-3x3-s2", "MaxPool", rand(1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("maxpool-2x2-indices", "MaxPool", rand(1, 64, 56, 56), outputs=2, kernel_shape=[2, 2], strides=[2, 2])
case("maxpool1d", "MaxPool", rand(1, 256, 2000), kernel_shape=[3], strides=[2])
case("maxpool3d", "MaxPool", rand(1, 32, 16, 28, 28), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
case("maxpool-u8", "MaxPool", rand(1, 64, 56, 56, t=U8, low=0, high=255), kernel_shape=[2, 2], strides=[2, 2])
case("averagepool-3x3", "AveragePool", rand(1, 128, 56, 56), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
case("averagepool3d", "AveragePool", rand(1, 32, 16, 28, 28), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
case("averagepool-ceil", "AveragePool", rand(1, 64, 57, 57), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
case("lppool", "LpPool", rand(1, 64, 56, 56), kernel_shape=[3, 3], strides=[2, 2], p=2)
case("globalaveragepool", "GlobalAveragePool", rand(8, 1280, 7, 7))
case("globalmaxpool", "GlobalMaxPool", rand(8, 512, 14, 14))
case("globallppool", "GlobalLpPool", rand(8, 512, 14, 14), p=2)

# Normalizations
case("instancenorm", "InstanceNormalization", rand(1, 64, 128, 128), const(64), const(64))
case("groupnorm", "GroupNormalization", rand(1, 320, 64, 64), const(320), const(320), num_groups=32)
case("layernorm", "LayerNormalization", rand(1, 128, 768), const(768), const(768))
case("layernorm-f16", "LayerNormalization", rand(1, 128, 768, t=F16), const(768, t=F16), const(768, t=F16))
case("rmsnorm", "RMSNormalization", rand(1, 128, 1024), const(1024), opset=23)
case("lpnorm", "LpNormalization", rand(256, 1024), axis=1, p=2)
case("lrn", "LRN", rand(1, 96, 27, 27), size=5, alpha=1e-4, beta=0.75)
case("mvn", "MeanVarianceNormalization", rand(4, 32, 56, 56), axes=[0, 2, 3])
case("batchnorm", "BatchNormalization", rand(1, 64, 56, 56), const(64), const(64), const(64), Const(rand(64, low=0.5, high=1.0)))

# Recurrent networks
for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    for direction, count in (("forward", 1), ("bidirectional", 2)):
        size = 128
        case(
            f"{kind.lower()}-{direction}", kind, rand(50, 1, 64),
            Const(rand(count, gates * size, 64) / 8), Const(rand(count, gates * size, size) / 8), Const(rand(count, 2 * gates * size) / 8),
            outputs=2, hidden_size=size, direction=direction,
        )
case(
    "gru-lengths", "GRU", rand(50, 4, 64), Const(rand(1, 384, 64) / 8), Const(rand(1, 384, 128) / 8), Const(rand(1, 768) / 8),
    Const(np.array([50, 30, 20, 7], I32)), outputs=2, hidden_size=128, linear_before_reset=1,
)

# Attention
case("attention-encoder", "Attention", rand(1, 12, 128, 64), rand(1, 12, 128, 64), rand(1, 12, 128, 64), opset=23)
case("attention-mask", "Attention", rand(1, 12, 128, 64), rand(1, 12, 128, 64), rand(1, 12, 128, 64), rand(1, 1, 128, 128), opset=23)
case("attention-causal-gqa", "Attention", rand(1, 16, 64, 64), rand(1, 4, 64, 64), rand(1, 4, 64, 64), opset=23, is_causal=1)
case("attention-past", "Attention", rand(1, 12, 1, 64), rand(1, 12, 1, 64), rand(1, 12, 1, 64), None, rand(1, 12, 511, 64), rand(1, 12, 511, 64), opset=23, outputs=3)
case("attention-3d", "Attention", rand(1, 128, 768), rand(1, 128, 768), rand(1, 128, 768), opset=23, q_num_heads=12, kv_num_heads=12)
case("rotaryembedding", "RotaryEmbedding", rand(1, 16, 128, 64), const(128, 32), const(128, 32), index(1, 128, high=128), opset=23)
case("rotaryembedding-interleaved", "RotaryEmbedding", rand(1, 16, 128, 64), const(128, 32), const(128, 32), index(1, 128, high=128), opset=23, interleaved=1)

# Signals
case("dft", "DFT", rand(16, 1024, 1), opset=17, axis=1)
case("dft-odd", "DFT", rand(8, 1000, 2), opset=17, axis=1)
case("stft", "STFT", rand(1, 16000, 1), scalar(160), Const(rand(400)), scalar(400), opset=17)

# Elementwise operators of one operand
BIG = (1, 64, 56, 56)
for op, low, high in (
    ("Abs", -1, 1), ("Neg", -1, 1), ("Sign", -1, 1), ("Reciprocal", 0.5, 2), ("Sqrt", 0, 4), ("Exp", -4, 4), ("Log", 0.1, 9),
    ("Ceil", -9, 9), ("Floor", -9, 9), ("Round", -9, 9), ("Erf", -3, 3), ("Sin", -9, 9), ("Cos", -9, 9), ("Tan", -1, 1),
    ("Asin", -1, 1), ("Acos", -1, 1), ("Atan", -3, 3), ("Sinh", -3, 3), ("Cosh", -3, 3), ("Asinh", -3, 3), ("Acosh", 1, 9),
    ("Atanh", -0.9, 0.9), ("Tanh", -3, 3), ("Sigmoid", -6, 6), ("Relu", -1, 1), ("LeakyRelu", -1, 1), ("Elu", -2, 2),
    ("Celu", -2, 2), ("Selu", -2, 2), ("ThresholdedRelu", -2, 2), ("HardSigmoid", -4, 4), ("HardSwish", -4, 4), ("Mish", -4, 4),
    ("Softplus", -4, 4), ("Softsign", -4, 4), ("Shrink", -2, 2), ("Gelu", -3, 3), ("IsNaN", -1, 1), ("IsInf", -1, 1),
):
    case(op.lower(), op, rand(*BIG, low=low, high=high), opset=22)
case("clip", "Clip", rand(*BIG), scalar(-0.5, F32), scalar(0.5, F32))
case("tanh-f16", "Tanh", rand(*BIG, t=F16))
case("relu-f16", "Relu", rand(*BIG, t=F16))
case("abs-i32", "Abs", rand(*BIG, t=I32, low=-99, high=99))
case("not", "Not", rand(*BIG, t=BOOL))

# Elementwise operators of several operands
for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
    case(op.lower(), op, rand(*BIG, low=0.5, high=2), rand(*BIG, low=0.5, high=2))
for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    case(op.lower(), op, rand(*BIG), rand(*BIG))
for op in ("And", "Or", "Xor"):
    case(op.lower(), op, rand(*BIG, t=BOOL), rand(*BIG, t=BOOL))
case("add-channel", "Add", rand(*BIG), rand(1, 64, 1, 1))
case("mul-row", "Mul", rand(128, 3072), rand(3072))
case("mul-outer", "Mul", rand(512, 1), rand(1, 512))
case("add-i64", "Add", rand(*BIG, t=I64, low=-99, high=99), rand(*BIG, t=I64, low=-99, high=99))
case("div-i32", "Div", rand(*BIG, t=I32, low=-99, high=99), rand(*BIG, t=I32, low=1, high=99))
case("mul-f64", "Mul", rand(*BIG, t=F64), rand(*BIG, t=F64))
case("add-f16", "Add", rand(*BIG, t=F16), rand(*BIG, t=F16))
case("mod-i64", "Mod", rand(*BIG, t=I64, low=-99, high=99), rand(*BIG, t=I64, low=1, high=99))
case("fmod", "Mod", rand(*BIG, low=-9, high=9), rand(*BIG, low=1, high=2), fmod=1)
case("pow-scalar", "Pow", rand(*BIG, low=0.1, high=2), scalar(0.75, F32))
case("prelu", "PRelu", rand(*BIG), const(64, 1, 1))
case("sum-3", "Sum", rand(*BIG), rand(*BIG), rand(*BIG))
case("mean-3", "Mean", rand(*BIG), rand(*BIG), rand(*BIG))
case("max-3", "Max", rand(*BIG), rand(*BIG), rand(*BIG))
case("where", "Where", rand(*BIG, t=BOOL), rand(*BIG), rand(*BIG))
case("where-mask", "Where", rand(1, 1, 128, 128, t=BOOL), rand(1, 12, 128, 128), scalar(-1e9, F32))
case("bitwiseand", "BitwiseAnd", rand(*BIG, t=I32, low=-99, high=99), rand(*BIG, t=I32, low=-99, high=99))
case("bitshift", "BitShift", rand(*BIG, t=U8, low=0, high=99), rand(*BIG, t=U8, low=0, high=7), direction="LEFT")
case("cast-f32-f16", "Cast", rand(*BIG), to=TensorProto.FLOAT16)
case("cast-f16-f32", "Cast", rand(*BIG, t=F16), to=TensorProto.FLOAT)
case("cast-i64-f32", "Cast", rand(*BIG, t=I64, low=-99, high=99), to=TensorProto.FLOAT)
case("cast-bool-f32", "Cast", rand(*BIG, t=BOOL), to=TensorProto.FLOAT)

# Reductions and scans
for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"):
    case(f"{op.lower()}-last", op, rand(64, 64, 256, low=0.5, high=1), ints(2), keepdims=0)
case("reducesum-middle", "ReduceSum", rand(64, 64, 256), ints(1))
case("reducesum-first", "ReduceSum", rand(256, 4096), ints(0))
case("reducemean-image", "ReduceMean", rand(1, 128, 56, 56), ints(2, 3))
case("reducemax-middle", "ReduceMax", rand(64, 64, 256), ints(1))
case("reducesum-i64", "ReduceSum", rand(64, 64, 64, t=I64, low=-9, high=9), ints(2))
case("argmax-last", "ArgMax", rand(64, 4096), axis=1)
case("argmax-middle", "ArgMax", rand(8, 21, 64, 64), axis=1)
case("argmin", "ArgMin", rand(64, 4096), axis=1)
case("cumsum", "CumSum", rand(64, 4096), scalar(1))
case("cumsum-first", "CumSum", rand(256, 1024), scalar(0))
case("softmax", "Softmax", rand(12, 128, 128))
case("softmax-middle", "Softmax", rand(8, 64, 28, 28), axis=1)
case("logsoftmax", "LogSoftmax", rand(64, 1000))
case("hardmax", "Hardmax", rand(64, 1000))

# Gather, scatter, selection
case("gather-rows", "Gather", Const(rand(30000, 256)), index(1, 512, high=30000))
case("gather-inner", "Gather", rand(256, 1024), index(256, high=1024), axis=1)
case("gather-i64", "Gather", rand(1000, 256, t=I64, low=0, high=9), index(512, high=1000))
case("gatherelements", "GatherElements", rand(256, 1024), index(256, 512, high=1024), axis=1)
case("gathernd", "GatherND", rand(64, 128, 64), np.stack([index(2000, high=64), index(2000, high=128)], 1))
case("scatterelements", "ScatterElements", rand(256, 512), index(256, 128, high=512), rand(256, 128), axis=1)
case("scatterelements-add", "ScatterElements", rand(256, 512), index(256, 128, high=512), rand(256, 128), axis=1, reduction="add")
case("scatternd", "ScatterND", rand(1024, 256), index(512, 1, high=1024), rand(512, 256))
case("scatternd-add", "ScatterND", rand(1024, 256), index(512, 1, high=1024), rand(512, 256), reduction="add")
case("onehot", "OneHot", index(512, high=1000), scalar(1000), Const(np.array([0, 1], F32)))
case("trilu", "Trilu", rand(8, 256, 256))
case("compress", "Compress", rand(512, 256), Const(RANDOM.random(512) < 0.5), axis=0)
case("topk-vocabulary", "TopK", rand(16, 32000), ints(5), outputs=2)
case("topk-boxes", "TopK", rand(1, 8400), ints(300), outputs=2)
case("topk-inner", "TopK", rand(16, 64, 128), ints(8), outputs=2, axis=1)
case("reversesequence", "ReverseSequence", rand(128, 16, 64), rand(16, t=I64, low=1, high=128))
case("eyelike", "EyeLike", rand(512, 512))

# Movement
case("transpose-nchw-nhwc", "Transpose", rand(*BIG), perm=[0, 2, 3, 1])
case("transpose-heads", "Transpose", rand(1, 128, 12, 64), perm=[0, 2, 1, 3])
case("transpose-matrix", "Transpose", rand(512, 768), perm=[1, 0])
case("concat-channels", "Concat", rand(1, 64, 56, 56), rand(1, 64, 56, 56), axis=1)
case("slice", "Slice", rand(1, 64, 112, 112), ints(1, 1), ints(111, 111), ints(2, 3))
case("slice-step", "Slice", rand(1, 64, 112, 112), ints(0, 0), ints(112, 112), ints(2, 3), ints(2, 2))
case("split", "Split", rand(1, 128, 56, 56), outputs=2, axis=1, num_outputs=2)
case("pad-constant", "Pad", rand(*BIG), ints(0, 0, 1, 1, 0, 0, 1, 1))
case("pad-reflect", "Pad", rand(*BIG), ints(0, 0, 3, 3, 0, 0, 3, 3), mode="reflect")
case("tile", "Tile", rand(1, 64, 28, 28), ints(1, 1, 2, 2))
case("expand", "Expand", rand(1, 64, 1, 1), ints(1, 64, 56, 56))
case("depthtospace", "DepthToSpace", rand(1, 64, 56, 56), blocksize=2)
case("spacetodepth", "SpaceToDepth", rand(1, 16, 112, 112), blocksize=2)

# Images
for mode in ("nearest", "linear", "cubic"):
    case(f"resize-{mode}", "Resize", rand(1, 32, 56, 56), None, Const(np.array([1, 1, 2, 2], F32)), mode=mode)
case("resize-down-antialias", "Resize", rand(1, 3, 224, 224), None, Const(np.array([1, 1, 0.5, 0.5], F32)), mode="linear", antialias=1)
case("gridsample", "GridSample", rand(1, 32, 64, 64), rand(1, 64, 64, 2), opset=22)
case("gridsample-nearest", "GridSample", rand(1, 32, 64, 64), rand(1, 64, 64, 2), opset=22, mode="nearest")
case(
    "roialign", "RoiAlign", rand(1, 64, 50, 50), np.stack([rand(50, low=0, high=20), rand(50, low=0, high=20), rand(50, low=25, high=49), rand(50, low=25, high=49)], 1),
    np.zeros(50, I64), output_height=7, output_width=7, sampling_ratio=2,
)
case("col2im", "Col2Im", rand(1, 64 * 9, 784), ints(28, 28), ints(3, 3), pads=[1, 1, 1, 1])
case("centercroppad", "CenterCropPad", rand(1, 16, 128, 128), ints(112, 112), axes=[2, 3])

# Quantization
case("quantizelinear", "QuantizeLinear", rand(*BIG), scalar(0.01, F32), scalar(128, U8))
case("dequantizelinear", "DequantizeLinear", rand(*BIG, t=U8, low=0, high=255), scalar(0.01, F32), scalar(128, U8))
case("dynamicquantizelinear", "DynamicQuantizeLinear", rand(*BIG), outputs=3)


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def write(folder, name, op, inputs, outputs, opset, attributes):
    names, values, initializers, arrays = [], [], [], {}
    for position, item in enumerate(inputs):
        key = f"x{position}"
        if item is None:
            names.append("")
            continue
        names.append(key)
        array = item.array if isinstance(item, Const) else item
        if isinstance(item, Const):
            initializers.append(numpy_helper.from_array(np.array(array, order="C"), key))
        else:
            values.append(value_info(key, array))
            arrays[key] = array
    while names and not names[-1]:
        names.pop()
    results = [f"y{position}" for position in range(outputs)]
    node = helper.make_node(op, names, results, name=name, **attributes)
    graph = helper.make_graph([node], name, values, [helper.make_empty_tensor_value_info(r) for r in results], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, arrays)
    # Shapes that inference left open are those of the run.
    for position, array in enumerate(found):
        model.graph.output[position].CopyFrom(value_info(results[position], array))
    onnx.save(model, folder / f"{name}.onnx")
    stored = {f"in.{key}": array for key, array in arrays.items()}
    stored |= {f"out.{key}": array for key, array in zip(results, found)}
    np.savez(folder / f"{name}.npz", **stored)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    texts = sys.argv[2:]
    for name, *rest in CASES:
        if texts and not any(text in name for text in texts):
            continue
        try:
            write(folder, name, *rest)
        except Exception as error:
            sys.exit(f"{name}: {error}")
        print(name)


main()
