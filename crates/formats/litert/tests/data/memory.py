"""Operators on bits, updates of parts, and operands that are computed."""

import numpy as np
from builders import add, floats, rng, simple
from litert import Model


def cases():
    angles()
    bits()
    updates()
    fake_quantisation()
    computed_bounds()
    calls()
    table()


def angles():
    y = np.array([0.5, -0.5, 2.0, -2.0, 0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 1.0, -1.0, np.inf, -np.inf, np.inf, 3.0], np.float32)
    x = np.array([1.0, 1.0, -1.5, -1.5, 1.0, 1.0, -1.0, -1.0, 0.0, 0.0, -0.0, -0.0, np.inf, np.inf, -np.inf, -np.inf],
                 np.float32)
    simple("atan2", "ATAN2", [y, x], [(y.shape, "float32")])
    zeros = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    simple("atan2_zeros", "ATAN2", [zeros, zeros[[0, 0, 1, 1]]], [(zeros.shape, "float32")])


def bits():
    g = rng()
    for dtype in ["int8", "uint8", "int16", "int32", "uint32"]:
        info = np.iinfo(dtype)
        a, b = (g.integers(info.min, info.max, (2, 5), dtype=dtype) for _ in range(2))
        if dtype in ["int8", "int32", "uint32"]:
            simple(f"bitwise_xor_{dtype}", "BITWISE_XOR", [a, b], [(a.shape, dtype)], None, 0)
        amount = np.array([[0, 1, 3, 7, 40], [2, 5, 100, 6, 4]], dtype)
        simple(f"right_shift_{dtype}", "RIGHT_SHIFT", [a, amount], [(a.shape, dtype)], None, 0)
    simple("right_shift_negative", "RIGHT_SHIFT", [np.array([5, -5], np.int32), np.array([-3, -1], np.int32)],
           [((2,), "int32")], None, 0)
    x = floats(2, 3)
    simple("bitcast", "BITCAST", [x], [((2, 3), "int32")], None, 0)
    simple("bitcast_narrow", "BITCAST", [x], [((2, 3, 4), "uint8")], None, 0)
    simple("bitcast_half", "BITCAST", [x], [((2, 3, 2), "int16")], None, 0)
    parts = np.ascontiguousarray(floats(2, 3)).view(np.uint8).reshape(2, 3, 4)
    simple("bitcast_wide", "BITCAST", [parts], [((2, 3), "float32")], None, 0)


def updates():
    whole = floats(2, 5, 6)
    for name, shape, start in [
        ("cache", (2, 2, 6), (0, 2, 0)), ("end", (2, 2, 6), (0, 4, 0)), ("below", (2, 2, 6), (0, -1, 0)),
        ("first", (1, 5, 6), (1, 0, 0)), ("inside", (1, 2, 3), (1, 2, 2)), ("rows", (1, 3, 6), (0, 1, 0)),
        ("whole", (2, 5, 6), (0, 1, 2)),
    ]:
        simple("dynamic_update_slice_" + name, "DYNAMIC_UPDATE_SLICE",
               [whole, -floats(*shape), np.array(start, np.int32)], [(whole.shape, "float32")])
    simple("dynamic_update_slice_i64", "DYNAMIC_UPDATE_SLICE",
           [whole, -floats(2, 1, 6), np.array([0, 3, 0], np.int64)], [(whole.shape, "float32")])


def fake_quantisation():
    x = floats(4, 6, low=-4, high=4)
    for name, low, high, bits in [("all", -1.9, 2.1, 8), ("few", -2.0, 1.0, 4), ("positive", 0.0, 3.0, 8)]:
        simple("fake_quant_" + name, "FAKE_QUANT", [x], [(x.shape, "float32")], "FakeQuantOptions", min=low, max=high,
               numBits=bits)
    # The interpreter refuses narrow ranges. The step is 0.25, and zero is the middle.
    model = Model()
    graph = model.graph()
    a, y = graph.input("x", x.shape), graph.output("y", x.shape)
    graph.op("FAKE_QUANT", [a], [y], "FakeQuantOptions", min=-1.75, max=1.75, numBits=4, narrowRange=True)
    add("fake_quant_narrow", model, [x],
        outputs=lambda _, inputs: [np.clip(np.floor(4 * inputs[0] + 0.5) / 4, -1.75, 1.75).astype(np.float32)])


def computed_bounds():
    """The operands after the first are inputs, so that they are known only when the model runs."""
    x = floats(3, 4, 5)
    i32 = lambda *values: np.array(values, np.int32)  # noqa: E731
    pads = np.array([[0, 1], [2, 1], [0, 0]], np.int32)
    simple("pad_computed", "PAD", [x, pads], [((4, 7, 5), "float32")], "PadOptions")
    simple("padv2_computed", "PADV2", [x, pads, np.array(1.5, np.float32)], [((4, 7, 5), "float32")], "PadV2Options")
    simple("slice_computed", "SLICE", [x, i32(1, 0, 2), i32(2, -1, 2)], [((2, 4, 2), "float32")], "SliceOptions")
    for name, begin, end, shape, masks in [
        ("plain", (1, 0, 0), (3, 4, 5), (2, 2, 5), {}),
        ("masks", (1, 1, 2), (2, 3, 4), (2, 1, 5), dict(beginMask=4, endMask=5)),
        ("shrink", (1, 0, -1), (2, 4, 0), (2,), dict(shrinkAxisMask=5)),
    ]:
        model = Model()
        graph = model.graph()
        a, b, e = graph.input("x", x.shape), graph.input("begin", (3,), "int32"), graph.input("end", (3,), "int32")
        steps = graph.constant("steps", i32(1, 2, 1))
        y = graph.output("y", shape)
        graph.op("STRIDED_SLICE", [a, b, e, steps], [y], "StridedSliceOptions", **masks)
        add(f"strided_slice_computed_{name}", model, [x, i32(*begin), i32(*end)])


def calls():
    x = floats(2, 3)
    model = Model()
    graph = model.graph()
    a, y = graph.input("x", x.shape), graph.output("y", x.shape)
    graph.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    graph.op("ADD", [a, a], [y], "AddOptions")
    model.graph("initial")
    add("call_once", model, [x])
    model = Model()
    graph = model.graph()
    a, y = graph.input("x", x.shape), graph.output("y", x.shape)
    between = graph.tensor("between", x.shape)
    graph.op("CALL", [a], [between], "CallOptions", subgraph=1)
    graph.op("CALL", [between], [y], "CallOptions", subgraph=1)
    body = model.graph("body")
    b, r = body.input("a", x.shape), body.output("r", x.shape)
    body.op("MUL", [b, body.constant("k", np.float32(3))], [r], "MulOptions")
    # The interpreter does not have the operator.
    add("call", model, [x], outputs=lambda _, inputs: [9 * inputs[0]])


def table():
    """Rows of i8 with a scale for the table, and with a scale for each row, as real values."""
    rows = rng().integers(-127, 128, (5, 4)).astype(np.int8)
    positions = np.array([3, 0, 4, 3], np.int32)
    for name, scale in [("table", np.float32(0.02)), ("rows", np.array([0.01, 0.02, 0.03, 0.04, 0.05], np.float32))]:
        model = Model()
        graph = model.graph()
        a = graph.input("x", positions.shape, "int32")
        w = graph.constant("w", rows, scale=scale, axis=0)
        y = graph.output("y", (4, 4))
        graph.op("EMBEDDING_LOOKUP", [a, w], [y], None, 4)
        add(f"embedding_lookup_i8_{name}", model, [positions])
