"""The parts of which the models of make.py are built, and the list of them."""

import numpy as np
from ai_edge_litert import schema_py_generated as s
from litert import Model, run

ACT = s.ActivationFunctionType
SAME, VALID = s.Padding.SAME, s.Padding.VALID
CASES = {}


def rng():
    return np.random.default_rng(7)


def floats(*shape, low=-2.0, high=2.0):
    return rng().uniform(low, high, shape).astype(np.float32)


def add(name, model, inputs, tolerance=1e-5, outputs=run):
    """A case; `outputs` computes the expected ones, where not by the interpreter alone."""
    assert name not in CASES, name
    CASES[name] = (model.bytes(), [np.asarray(x) for x in inputs], tolerance, outputs)


def simple(name, code, inputs, outputs, options=None, tolerance=1e-5, version=1, constants=(), **fields):
    """One operator on float or integer inputs; outputs are pairs of shape and type; constants follow the inputs."""
    model = Model()
    graph = model.graph()
    ids = [graph.input(f"x{i}", x.shape, str(x.dtype)) for i, x in enumerate(inputs)]
    ids += [graph.constant(f"c{i}", c) for i, c in enumerate(constants)]
    outs = [graph.output(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(outputs)]
    graph.op(code, ids, outs, options, version, **fields)
    add(name, model, inputs, tolerance)


def quantised(x, scale, zero, dtype):
    info = np.iinfo(dtype)
    return np.clip(np.round(x / scale) + zero, info.min, info.max).astype(dtype)


def q_simple(name, code, inputs, out_shapes, out_q, options=None, version=2, constants=(), dtype="int8",
             in_q=(0.02, 3), tolerance=1.0, **fields):
    """The same on quantised inputs; constants are as given, or tuples (data, scale, zero)."""
    model = Model()
    graph = model.graph()
    scale, zero = in_q
    values = [quantised(x, scale, zero, dtype) for x in inputs]
    ids = [graph.input(f"x{i}", v.shape, dtype, scale=scale, zero=zero) for i, v in enumerate(values)]
    for i, c in enumerate(constants):
        if isinstance(c, tuple):
            ids.append(graph.constant(f"c{i}", c[0], scale=c[1], zero=c[2]))
        else:
            ids.append(graph.constant(f"c{i}", c))
    outs = []
    for i, shape in enumerate(out_shapes):
        out_scale, out_zero = out_q
        outs.append(graph.output(f"y{i}", shape, dtype, scale=out_scale, zero=out_zero))
    graph.op(code, ids, outs, options, version, **fields)
    add(name, model, values, tolerance)
