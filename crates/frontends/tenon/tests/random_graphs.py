"""Writes random models over symbolic sizes, with branches and loops, and what onnxruntime computes for several sizes.

usage: random_graphs.py FOLDER COUNT SEED

FOLDER/randomK.onnx, and FOLDER/randomK.N.npz with arrays `in.NAME` and `out.NAME`. The graph of a number and a seed is
always the same.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SIZES = [1, 2, 3, 4, 5, 7, 8, 13, 32, 33]
SAMPLES = 4
# Values with more elements, or of higher rank, are not operands.
MOST_ELEMENTS, MOST_DIMENSIONS = 40_000, 4
END = 2**62


class Dimension:
    """A size: its name, and its value in each sample; None where it depends on data."""

    def __init__(self, name, sizes):
        self.name, self.sizes = name, sizes

    def __eq__(self, other):
        return self.name == other.name

    def is_fixed(self):
        return self.name.isdigit()

    def __mul__(self, other):
        if self.sizes is None or other.sizes is None:
            return unknown()
        return derived("*", [self, other], [a * b for a, b in zip(self.sizes, other.sizes)])


def fixed(size):
    return Dimension(str(size), [size] * SAMPLES)


def derived(operator, operands, sizes):
    """A result of arithmetic on sizes."""
    if all(operand.is_fixed() for operand in operands):
        return fixed(sizes[0])
    return Dimension(f"({operator.join(sorted(operand.name for operand in operands))})", sizes)


def unknown(sizes=None, counter=[0]):
    """A size that equals no other."""
    counter[0] += 1
    return Dimension(f"?{counter[0]}", sizes)


class Value:
    """A tensor of f32: its name and dimensions."""

    def __init__(self, name, shape):
        self.name, self.shape = name, list(shape)

    def rank(self):
        return len(self.shape)

    def is_known(self):
        return all(dimension.sizes is not None for dimension in self.shape)

    def is_usable(self):
        if self.rank() > MOST_DIMENSIONS:
            return False
        sizes = [dimension.sizes or [8] * SAMPLES for dimension in self.shape]
        products = [int(np.prod(sample)) for sample in zip(*sizes)] or [1]
        return max(products) <= MOST_ELEMENTS and min(products) > 0


class Impossible(Exception):
    """The chosen operator has no operands."""


class Random:
    def __init__(self, rng):
        self.rng = rng
        self.count = 0
        self.constants = {}

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def chance(self, part):
        return self.rng.random() < part

    def one(self, items):
        items = list(items)
        if not items:
            raise Impossible
        return items[self.rng.integers(len(items))]

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def constant(self, array):
        name = self.name()
        self.constants[name] = np.asarray(array)
        return name

    def weights(self, *shape):
        return self.constant(self.rng.standard_normal(shape).astype(np.float32))

    def add(self, nodes, operator, inputs, **attributes):
        name = self.name()
        nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    # Parts of graphs that are not of f32.

    def extent(self, nodes, value, axis):
        """A list of one size."""
        shape = self.add(nodes, "Shape", [value.name])
        if self.chance(0.5):
            return self.add(nodes, "Slice", [shape, self.constant([axis]), self.constant([axis + 1])])
        return self.add(nodes, "Gather", [shape, self.constant([axis])], axis=0)

    def scalar(self, nodes, value):
        """A bounded number that depends on all elements; a small part of their sum, which is exact in few digits."""
        total = self.add(nodes, "ReduceSum", [value.name], keepdims=0)
        return self.add(nodes, "Sin", [self.add(nodes, "Mul", [total, self.constant(np.float32(0.01))])])

    def mask(self, nodes, value):
        threshold = self.constant(np.float32(self.rng.normal() / 2))
        return self.add(nodes, self.one(["Greater", "Less"]), [value.name, threshold])

    # Operators: each returns its result, or several.

    def unary(self, nodes, values):
        x = self.one(values)
        operator = self.one(["Tanh", "Relu", "Abs", "Neg", "Sigmoid", "Erf", "Sin", "Identity", "Softplus", "HardSwish"])
        return Value(self.add(nodes, operator, [x.name]), x.shape)

    def binary(self, nodes, values):
        x = self.one(values)
        operator = self.one(["Add", "Sub", "Mul", "Max", "Min"])
        ones = lambda y: all(d == own or d == fixed(1) for d, own in zip(reversed(y.shape), reversed(x.shape)))
        fits = [y for y in values if y.rank() <= x.rank() and ones(y)]
        if self.chance(0.3) and x.rank() and x.shape[-1].is_fixed():
            other = self.weights(x.shape[-1].sizes[0])
        elif self.chance(0.2):
            other = self.weights()
        else:
            other = self.one(fits).name
        pair = [x.name, other] if self.chance(0.7) else [other, x.name]
        return Value(self.add(nodes, operator, pair), x.shape)

    def scaled(self, nodes, values):
        """A quotient by a size, as of a mean."""
        x = self.one(value for value in values if value.rank() and value.is_known())
        axis = self.number(0, x.rank() - 1)
        size = self.add(nodes, "Cast", [self.extent(nodes, x, axis)], to=F)
        return Value(self.add(nodes, "Div", [x.name, size]), x.shape)

    def product(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 2)
        *outer, rows, columns = x.shape
        if columns.is_fixed() and self.chance(0.6):
            width = self.number(1, 6)
            y = self.add(nodes, "MatMul", [x.name, self.weights(columns.sizes[0], width)])
            return Value(self.add(nodes, "Tanh", [y]), [*outer, rows, fixed(width)])
        others = [y for y in values if y.rank() == 2 and columns in y.shape]
        y = self.one(others)
        other, name = y.shape[1], y.name
        if y.shape[0] != columns:
            other, name = y.shape[0], self.add(nodes, "Transpose", [y.name], perm=[1, 0])
        product = self.add(nodes, "MatMul", [x.name, name])
        return Value(self.add(nodes, "Sin", [product]), [*outer, rows, other])

    def transpose(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 2)
        order = [int(axis) for axis in self.rng.permutation(x.rank())]
        return Value(self.add(nodes, "Transpose", [x.name], perm=order), [x.shape[axis] for axis in order])

    def reshape(self, nodes, values):
        """Joins two dimensions, by a constant or a computed shape, or splits a fixed one."""
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        axis = self.number(0, x.rank() - 1)
        size = x.shape[axis].sizes[0]
        if x.shape[axis].is_fixed() and size % 2 == 0 and self.chance(0.6):
            half = [fixed(2), fixed(size // 2)] if self.chance(0.5) else [fixed(size // 2), fixed(2)]
            shape = [*x.shape[:axis], *half, *x.shape[axis + 1 :]]
        else:
            x = self.one(value for value in values if value.rank() >= 2 and value.is_known())
            axis = self.number(0, x.rank() - 2)
            shape = [*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]]
        open_at = self.number(0, len(shape) - 1)
        if self.chance(0.4) or any(not size.is_fixed() and size not in x.shape for at, size in enumerate(shape) if at != open_at):
            open_at = next((at for at, size in enumerate(shape) if size not in x.shape and not size.is_fixed()), open_at)
        parts = []
        for at, size in enumerate(shape):
            if at == open_at:
                parts.append(self.constant([-1]))
            elif size.is_fixed():
                parts.append(self.constant([size.sizes[0]]))
            elif size in x.shape:
                parts.append(self.extent(nodes, x, x.shape.index(size)))
            else:
                raise Impossible
        target = self.add(nodes, "Concat", parts, axis=0)
        return Value(self.add(nodes, "Reshape", [x.name, target]), shape)

    def view(self, nodes, values):
        x = self.one(values)
        ones = [axis for axis, size in enumerate(x.shape) if size == fixed(1)]
        if ones and self.chance(0.5):
            axis = self.one(ones)
            name = self.add(nodes, "Squeeze", [x.name, self.constant([axis])])
            return Value(name, x.shape[:axis] + x.shape[axis + 1 :])
        axis = self.number(0, x.rank())
        name = self.add(nodes, "Unsqueeze", [x.name, self.constant([axis])])
        return Value(name, [*x.shape[:axis], fixed(1), *x.shape[axis:]])

    def concat(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1)
        axis = self.number(0, x.rank() - 1)
        rest = lambda y: y.shape[:axis] + y.shape[axis + 1 :]
        others = [y for y in values if y.rank() == x.rank() and rest(y) == rest(x)]
        parts = [x] + [self.one(others) for _ in range(self.number(1, 2))]
        sizes = [part.shape[axis] for part in parts]
        total = unknown()
        if all(size.sizes is not None for size in sizes):
            total = derived("+", sizes, [sum(sample) for sample in zip(*(size.sizes for size in sizes))])
        name = self.add(nodes, "Concat", [part.name for part in parts], axis=axis)
        return Value(name, [*x.shape[:axis], total, *x.shape[axis + 1 :]])

    def slice(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1)
        axis = self.number(0, x.rank() - 1)
        kind = self.number(0, 4)
        start, end, step = 0, END, 1
        if kind == 0:
            end = self.one([1, 2, 4, 40])
        elif kind == 1:
            start = self.one([-1, -2, -4])
        elif kind == 2:
            step = 2
        elif kind == 3:
            start, end, step = -1, -END, -1
        size = x.shape[axis].sizes
        if kind == 4:
            if size is None:
                raise Impossible
            # The first half, or all but one, of a size that is computed.
            extent = self.extent(nodes, x, axis)
            if self.chance(0.5):
                more = self.add(nodes, "Add", [extent, self.constant([1])])
                stop = self.add(nodes, "Div", [more, self.constant([2])])
                found = unknown([(one + 1) // 2 for one in size])
            else:
                less = self.add(nodes, "Sub", [extent, self.constant([1])])
                stop = self.add(nodes, "Max", [less, self.constant([1])])
                found = unknown([max(one - 1, 1) for one in size])
            operands = [self.constant([0]), stop, self.constant([axis])]
        else:
            operands = [self.constant([number]) for number in (start, end, axis, step)]
            found = unknown()
            if size is not None:
                found = unknown([len(range(one)[start:end:step]) for one in size])
            if kind == 3:
                found = x.shape[axis]
        if found.sizes is not None and len(set(found.sizes)) == 1 and x.shape[axis].is_fixed():
            found = fixed(found.sizes[0])
        name = self.add(nodes, "Slice", [x.name, *operands])
        return Value(name, [*x.shape[:axis], found, *x.shape[axis + 1 :]])

    def gather(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        axis = self.number(0, x.rank() - 1)
        index = self.one([0, -1, [0], [-1, 0, 0]])
        shape = [] if isinstance(index, int) else [fixed(len(index))]
        name = self.add(nodes, "Gather", [x.name, self.constant(np.array(index, np.int64))], axis=axis)
        return Value(name, [*x.shape[:axis], *shape, *x.shape[axis + 1 :]])

    def reduce(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1)
        axes = sorted(int(axis) for axis in self.rng.permutation(x.rank())[: self.number(1, x.rank())])
        sums = ["ReduceSum", "ReduceL1", "ReduceSumSquare"]
        operator = self.one(sums + ["ReduceMean", "ReduceMax", "ReduceMin"] if x.is_known() else sums)
        keep = self.chance(0.5)
        name = self.add(nodes, operator, [x.name, self.constant(axes)], keepdims=int(keep))
        shape = [fixed(1) if axis in axes else size for axis, size in enumerate(x.shape)]
        if not keep:
            shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return Value(self.add(nodes, "Tanh", [name]), shape)

    def softmax(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        operator = self.one(["Softmax", "LogSoftmax"])
        return Value(self.add(nodes, operator, [x.name], axis=self.number(0, x.rank() - 1)), x.shape)

    def normalization(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 2 and value.shape[-1].is_fixed())
        width = x.shape[-1].sizes[0]
        name = self.add(nodes, "LayerNormalization", [x.name, self.weights(width), self.weights(width)], epsilon=0.1)
        return Value(name, x.shape)

    def cumulate(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1)
        axis = self.constant(np.array(self.number(0, x.rank() - 1)))
        name = self.add(nodes, "CumSum", [x.name, axis], exclusive=self.number(0, 1), reverse=self.number(0, 1))
        return Value(self.add(nodes, "Sin", [name]), x.shape)

    def pad(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        axis = self.number(0, x.rank() - 1)
        pads = np.zeros((2, x.rank()), np.int64)
        pads[:, axis] = [self.number(0, 2), self.number(0, 2)]
        more = int(pads.sum())
        size = x.shape[axis]
        sizes = [one + more for one in size.sizes]
        name = self.add(nodes, "Pad", [x.name, self.constant(pads.flatten())])
        return Value(name, [*x.shape[:axis], derived("+", [size, fixed(more)], sizes), *x.shape[axis + 1 :]])

    def window(self, nodes, values):
        """A convolution or a pooling over the last dimension."""
        x = self.one(value for value in values if value.rank() == 3 and value.is_known() and value.shape[1].is_fixed())
        batch, channels, length = x.shape
        stride = self.number(1, 3)
        window = {"kernel_shape": [3], "strides": [stride], "pads": [1, 1]}
        sizes = [(one - 1) // stride + 1 for one in length.sizes]
        out = length if stride == 1 else unknown(sizes) if not length.is_fixed() else fixed(sizes[0])
        if self.chance(0.5):
            count = self.number(1, 5)
            name = self.add(nodes, "Conv", [x.name, self.weights(count, channels.sizes[0], 3)], **window)
            return Value(self.add(nodes, "Sigmoid", [name]), [batch, fixed(count), out])
        operator = self.one(["MaxPool", "AveragePool"])
        return Value(self.add(nodes, operator, [x.name], **window), [batch, channels, out])

    def expand(self, nodes, values):
        """A dimension of 1 to a size of another value, or a repeated one."""
        x = self.one(value for value in values if fixed(1) in value.shape)
        axis = self.one(axis for axis, size in enumerate(x.shape) if size == fixed(1))
        y = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        at = self.number(0, y.rank() - 1)
        parts = [self.extent(nodes, y, at) if each == axis else self.constant([1]) for each in range(x.rank())]
        operator = self.one(["Expand", "Tile"])
        name = self.add(nodes, operator, [x.name, self.add(nodes, "Concat", parts, axis=0)])
        return Value(name, [*x.shape[:axis], y.shape[at], *x.shape[axis + 1 :]])

    def places(self, nodes, values):
        """The positions along a dimension, added to each element."""
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        size = self.add(nodes, "Squeeze", [self.extent(nodes, x, x.rank() - 1), self.constant([0])])
        places = self.add(nodes, "Range", [self.constant(np.array(0)), size, self.constant(np.array(1))])
        floats = self.add(nodes, "Cast", [places], to=F)
        return Value(self.add(nodes, "Sin", [self.add(nodes, "Add", [x.name, floats])]), x.shape)

    def where(self, nodes, values):
        x = self.one(values)
        y = self.one(value for value in values if value.shape == x.shape)
        return Value(self.add(nodes, "Where", [self.mask(nodes, x), x.name, y.name]), x.shape)

    def filled(self, nodes, values):
        x = self.one(value for value in values if value.is_known())
        shape = self.add(nodes, "Shape", [x.name])
        value = helper.make_tensor("value", F, [1], [0.25])
        return Value(self.add(nodes, "ConstantOfShape", [shape], value=value), x.shape)

    def halves(self, nodes, values):
        x = self.one(value for value in values if any(size.is_fixed() and size.sizes[0] > 1 for size in value.shape))
        axis = self.one(axis for axis, size in enumerate(x.shape) if size.is_fixed() and size.sizes[0] > 1)
        size = x.shape[axis].sizes[0]
        first = self.number(1, size - 1)
        names = [self.name(), self.name()]
        nodes.append(helper.make_node("Split", [x.name, self.constant([first, size - first])], names, axis=axis))
        shapes = [[*x.shape[:axis], fixed(part), *x.shape[axis + 1 :]] for part in (first, size - first)]
        return [Value(name, shape) for name, shape in zip(names, shapes)]

    def top(self, nodes, values):
        x = self.one(value for value in values if value.rank() >= 1 and value.is_known())
        axis = self.number(0, x.rank() - 1)
        limit = self.constant([3])
        count = self.add(nodes, "Min", [self.extent(nodes, x, axis), limit])
        sizes = [min(one, 3) for one in x.shape[axis].sizes]
        out = fixed(sizes[0]) if x.shape[axis].is_fixed() else unknown(sizes)
        names = [self.name(), self.name()]
        nodes.append(helper.make_node("TopK", [x.name, count], names, axis=axis, largest=self.number(0, 1)))
        return Value(names[0], [*x.shape[:axis], out, *x.shape[axis + 1 :]])

    def chosen(self, nodes, values):
        """Rows for which a condition on data is true."""
        x = self.one(value for value in values if value.rank() >= 1)
        sums = x.name
        if x.rank() > 1:
            sums = self.add(nodes, "ReduceSum", [x.name, self.constant(list(range(1, x.rank())))], keepdims=0)
        mask = self.mask(nodes, Value(sums, x.shape[:1]))
        shape = [unknown(), *x.shape[1:]]
        if self.chance(0.5):
            return Value(self.add(nodes, "Compress", [x.name, mask], axis=0), shape)
        found = self.add(nodes, "NonZero", [mask])
        if self.chance(0.5):
            rows = self.add(nodes, "Squeeze", [found, self.constant([0])])
            return Value(self.add(nodes, "Gather", [x.name, rows], axis=0), shape)
        indices = self.add(nodes, "Transpose", [found], perm=[1, 0])
        return Value(self.add(nodes, "GatherND", [x.name, indices]), shape)

    OPERATORS = [
        unary, unary, unary, binary, binary, binary, binary, scaled, product, product, transpose, reshape, view, concat,
        slice, gather, reduce, softmax, normalization, cumulate, pad, window, expand, places, where, filled, halves, top,
        chosen,
    ]  # fmt: skip

    def nodes(self, values, count, depth):
        """`count` nodes that read `values`, which gets their results."""
        nodes = []
        while count > 0:
            if depth > 0 and self.chance(0.12):
                (self.branch if self.chance(0.5) else self.loop)(nodes, values, depth)
                count -= 1
                continue
            operator, before = self.one(self.OPERATORS), len(nodes)
            # Of later values more often.
            near = values if self.chance(0.4) else values[-6:]
            try:
                found = operator(self, nodes, near)
            except Impossible:
                del nodes[before:]
                continue
            found = found if isinstance(found, list) else [found]
            if not all(value.is_usable() for value in found):
                del nodes[before:]
                continue
            values.extend(found)
            count -= 1
        return nodes

    def branch(self, nodes, values, depth):
        """An If: branches with results of one rank."""
        condition = self.add(nodes, "Greater", [self.scalar(nodes, self.one(values)), self.constant(np.float32(0))])
        bodies, results = [], []
        for _ in range(2):
            inner = list(values)
            body = self.nodes(inner, self.number(1, 4), depth - 1)
            results.append(inner)
            bodies.append(body)
        then = results[0][-1]
        other = self.one([value for value in results[1] if value.rank() == then.rank()] or [then])
        if other is then:
            results[1], bodies[1] = results[0], []
            then = other = self.one(values)
            bodies[0] = []
        outputs = []
        for body, value in zip(bodies, (then, other)):
            outputs.append(self.add(body, "Identity", [value.name]))
        make = lambda body, name: helper.make_graph(body, "branch", [], [helper.make_tensor_value_info(name, F, None)])
        name = self.name()
        then_branch, else_branch = (make(body, out) for body, out in zip(bodies, outputs))
        nodes.append(helper.make_node("If", [condition], [name], then_branch=then_branch, else_branch=else_branch))
        values.append(Value(name, [a if a == b else unknown() for a, b in zip(then.shape, other.shape)]))

    def loop(self, nodes, values, depth):
        """A Loop with a state of which a dimension may grow, and a stacked result."""
        start = self.one(values)
        step, keep, state = self.name(), self.name(), self.name()
        grows = start.rank() > 0 and self.chance(0.5)
        axis = self.number(0, start.rank() - 1) if grows else 0
        shape = [unknown() if grows and at == axis else size for at, size in enumerate(start.shape)]
        inner = [*values, Value(state, shape)]
        body = self.nodes(inner, self.number(1, 4), depth - 1)
        current = Value(state, shape)
        if grows:
            # A row more, of a bounded number.
            row = self.add(body, "ReduceSum", [state, self.constant([axis])], keepdims=1)
            both = self.add(body, "Concat", [state, self.add(body, "Sin", [row])], axis=axis)
            operands = [self.constant([number]) for number in (0, 12, axis)]
            following = self.add(body, "Slice", [both, *operands])
        else:
            same = [value for value in inner if value.shape == shape]
            following = self.add(body, "Tanh", [self.one(same).name])
        result = self.scalar(body, self.one([value for value in inner[len(values) :]] or [current]))
        kept = self.add(body, "Less", [result, self.constant(np.float32(self.one([0.5, 0.9, 2.0])))])
        still = self.add(body, "And", [keep, kept])
        info = helper.make_tensor_value_info
        inputs = [info(step, I, []), info(keep, B, []), info(state, F, None)]
        outputs = [info(still, B, []), info(following, F, None), info(result, F, None)]
        graph = helper.make_graph(body, "body", inputs, outputs)
        names = [self.name(), self.name()]
        limit = "steps" if self.chance(0.5) else self.constant(np.array(self.number(1, 3)))
        nodes.append(helper.make_node("Loop", [limit, "", start.name], names, body=graph))
        values.append(Value(names[0], shape))
        values.append(Value(names[1], [unknown()]))

    def model(self, name):
        """A model, and the inputs of each sample."""
        symbols = [Dimension(symbol, [self.one(SIZES) for _ in range(SAMPLES)]) for symbol in "abc"]
        for symbol in symbols:
            symbol.sizes[0] = 1 if self.chance(0.2) else symbol.sizes[0]
        inputs = []
        for number in range(3):
            rank = self.number(1, 3)
            shape = [self.one(symbols) if self.chance(0.6) else fixed(self.number(1, 6)) for _ in range(rank)]
            inputs.append(Value(f"x{number}", shape))
        values = list(inputs)
        nodes = self.nodes(values, self.number(6, 16), 2)
        outputs = []
        for value in values[len(inputs) :][-4:]:
            outputs.append(self.add(nodes, "Identity", [value.name]))
        info = helper.make_tensor_value_info
        extents = lambda value: [size.sizes[0] if size.is_fixed() else size.name for size in value.shape]
        ports = [info(value.name, F, extents(value)) for value in inputs] + [info("steps", I, [])]
        results = [info(output, F, None) for output in outputs]
        tensors = [numpy_helper.from_array(array, key) for key, array in self.constants.items()]
        graph = helper.make_graph(nodes, name, ports, results, tensors)
        samples = []
        for at in range(SAMPLES):
            shapes = {value.name: [size.sizes[at] for size in value.shape] for value in inputs}
            arrays = {key: self.rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
            samples.append(arrays | {"steps": np.array(self.number(1, 4))})
        opsets = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), samples


def main():
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for number in range(count):
        name = f"random{number}"
        model, samples = Random(np.random.default_rng([seed, number])).model(name)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        names = [output.name for output in session.get_outputs()]
        onnx.save(model, folder / f"{name}.onnx")
        for index, inputs in enumerate(samples):
            results = session.run(None, inputs)
            arrays = {f"in.{key}": array for key, array in inputs.items()}
            arrays |= {f"out.{key}": array for key, array in zip(names, results)}
            np.savez(folder / f"{name}.{index}.npz", **arrays)


if __name__ == "__main__":
    main()
