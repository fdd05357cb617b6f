"""The custom operators that pool volumes. The interpreter of the Python package lacks them: NumPy computes the outputs."""

import itertools

import numpy as np
from builders import add, floats, quantised
from flatbuffers import flexbuffers
from litert import Model


def cases():
    x = floats(2, 5, 6, 4, 3)
    for name, operator, size, strides, padding in [
        ("average_pool_3d", "AveragePool3D", (2, 3, 2), (2, 2, 1), "VALID"),
        ("average_pool_3d_same", "AveragePool3D", (3, 2, 3), (2, 1, 2), "SAME"),
        ("max_pool_3d", "MaxPool3D", (2, 3, 2), (1, 2, 2), "VALID"),
        ("max_pool_3d_same", "MaxPool3D", (3, 2, 3), (2, 1, 2), "SAME"),
    ]:
        for dtype in ("float32", "int8"):
            scale = dict(scale=0.02, zero=3) if dtype == "int8" else {}
            value = quantised(x, 0.02, 3, dtype) if scale else x
            expected = pooled(value, operator, size, strides, padding)
            model = Model()
            graph = model.graph()
            graph.op("CUSTOM", [graph.input("x", x.shape, dtype, **scale)], [graph.output("y", expected.shape, dtype, **scale)],
                     custom=operator, custom_options=options(size, strides, padding))
            tolerance = 1.0 if scale and operator == "AveragePool3D" else 1e-5
            add(f"{name}_{dtype}", model, [value], tolerance, lambda *_, expected=expected: [expected])


def options(size, strides, padding):
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("data_format")
        builder.String("NDHWC")
        builder.Key("padding")
        builder.String(padding)
        for name, values in (("ksize", size), ("strides", strides)):
            builder.Key(name)
            builder.TypedVectorFromElements([1, *values, 1])
    return bytes(builder.Finish())


def pooled(x, operator, size, strides, padding):
    """Padding, where there is any, is not an element of a window; it is larger at the end."""
    extents = x.shape[1:4]
    if padding == "SAME":
        counts = [-(-extent // stride) for extent, stride in zip(extents, strides)]
    else:
        counts = [(extent - window) // stride + 1 for extent, window, stride in zip(extents, size, strides)]
    before = [max((count - 1) * stride + window - extent, 0) // 2
              for count, stride, window, extent in zip(counts, strides, size, extents)]
    result = np.zeros((x.shape[0], *counts, x.shape[4]))
    for at in itertools.product(*map(range, counts)):
        first = [nth * stride - pad for nth, stride, pad in zip(at, strides, before)]
        window = tuple(slice(max(start, 0), start + length) for start, length in zip(first, size))
        elements = x[(slice(None), *window)].astype(np.float64)
        result[(slice(None), *at)] = (elements.mean if operator == "AveragePool3D" else elements.max)(axis=(1, 2, 3))
    return (np.round(result) if x.dtype == np.int8 else result).astype(x.dtype)
