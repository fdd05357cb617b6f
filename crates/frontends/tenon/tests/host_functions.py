"""Writes models with sizes that depend on data, branches and loops, and what onnxruntime computes.

usage: host_functions.py FOLDER COUNT SEED

FOLDER/NAME.onnx, and FOLDER/NAME.K.npz with arrays `in.NAME` and `out.NAME`: written models, then COUNT random ones.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER, COUNT, SEED = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
onnxruntime.set_default_logger_severity(3)
F, I, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
node = helper.make_node


def graph(name, nodes, inputs, outputs, constants=None):
    value = helper.make_tensor_value_info
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
    # A type instead of a data type: a sequence.
    info = lambda v: value(*v) if isinstance(v[1], int) else helper.make_value_info(*v)
    return helper.make_graph(nodes, name, [info(v) for v in inputs], [info(v) for v in outputs], tensors)


def write(name, body, samples, opset=18):
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, FOLDER / f"{name}.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    for index, inputs in enumerate(samples):
        results = session.run(None, inputs)
        arrays = {f"in.{key}": array for key, array in inputs.items()}
        arrays |= {f"out.{key}": array for key, array in zip(names, results)}
        np.savez(FOLDER / f"{name}.{index}.npz", **arrays)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def counts(rng):
    """Operators whose results have as many elements as their data say."""
    some = [(3, 5), (1, 1), (30, 20)]
    nodes = [
        node("Greater", ["x", "zero"], ["m"]),
        node("NonZero", ["m"], ["nz"]),
        node("Transpose", ["nz"], ["index"], perm=[1, 0]),
        node("GatherND", ["x", "index"], ["v"]),
        node("Unsqueeze", ["v", "one"], ["column"]),
        node("MatMul", ["column", "w"], ["y"]),
        node("Shape", ["nz"], ["s"]),
    ]
    constants = {"zero": np.float32(0), "one": np.array([1]), "w": normal(rng, 1, 4)}
    outputs = [("y", F, None), ("index", I, None), ("s", I, None)]
    body = graph("nonzero", nodes, [("x", F, ["a", "b"])], outputs, constants)
    write("nonzero", body, [{"x": normal(rng, *shape)} for shape in some] + [{"x": -np.ones((4, 2), np.float32)}])

    nodes = [
        node("Sigmoid", ["raw"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "threshold"], ["selected"]),
        node("Slice", ["selected", "zero", "twenty", "zero"], ["top"]),
        node("Gather", ["top", "two"], ["index"], axis=1),
        node("Squeeze", ["boxes", "zero"], ["flat"]),
        node("Gather", ["flat", "index"], ["y"]),
    ]
    constants = {
        "most": np.array([10]),
        "iou": np.array([0.5], np.float32),
        "threshold": np.array([0.4], np.float32),
        "zero": np.array([0]),
        "twenty": np.array([20]),
        "two": np.array(2),
    }
    inputs = [("boxes", F, [1, 50, 4]), ("raw", F, [1, 3, 50])]
    body = graph("suppression", nodes, inputs, [("y", F, None), ("selected", I, None)], constants)
    boxes = [np.sort(rng.random((1, 50, 4)), -1).astype(np.float32) for _ in range(3)]
    write("suppression", body, [{"boxes": box, "raw": normal(rng, 1, 3, 50)} for box in boxes])

    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Unique", ["r"], ["u", "first", "inverse", "c"]),
        node("Exp", ["u"], ["e"]),
        node("Gather", ["e", "inverse"], ["y"]),
    ]
    body = graph("unique", nodes, [("x", F, ["n"])], [("y", F, None), ("u", F, None), ("c", I, None)])
    write("unique", body, [{"x": np.round(normal(rng, n) * 2)} for n in (1, 5, 50)])

    nodes = [
        node("Greater", ["x", "zero"], ["m"]),
        node("Compress", ["x", "m"], ["p"], axis=0),
        node("Less", ["p", "one"], ["few"]),
        node("NonZero", ["few"], ["nz"]),
        node("Squeeze", ["nz", "axis"], ["i"]),
        node("Gather", ["p", "i"], ["q"]),
        node("Sqrt", ["q"], ["y"]),
    ]
    constants = {"zero": np.float32(0), "one": np.float32(1), "axis": np.array([0])}
    body = graph("compress", nodes, [("x", F, ["n"])], [("y", F, None), ("p", F, None)], constants)
    write("compress", body, [{"x": normal(rng, n) * 2} for n in (3, 20, 100)] + [{"x": -np.ones(4, np.float32)}])


def sizes(rng):
    """Operands that decide shapes and that are computed from data."""
    nodes = [
        node("ReduceMax", ["k"], ["most"], keepdims=1),
        node("TopK", ["x", "most"], ["v", "i"], axis=1),
        node("Softmax", ["v"], ["y"], axis=1),
    ]
    body = graph("topk", nodes, [("x", F, ["n", 40]), ("k", I, [3])], [("y", F, None), ("i", I, None)])
    pairs = [(2, 5), (7, 40), (1, 2)]
    write("topk", body, [{"x": normal(rng, n, 40), "k": np.array([1, k, 2])} for n, k in pairs])

    nodes = [
        node("ReduceMax", ["r"], ["most"], keepdims=1),
        node("Tile", ["x", "most"], ["t"]),
        node("Slice", ["t", "zero", "most"], ["part"]),
        node("Add", ["part", "one"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.float32(1)}
    body = graph("tile", nodes, [("x", F, [6]), ("r", I, ["n"])], [("y", F, None), ("t", F, None)], constants)
    write("tile", body, [{"x": normal(rng, 6), "r": np.array(r)} for r in ([1], [2, 3], [5, 1, 1])])

    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Range", ["zero", "s", "one"], ["r"]),
        node("Mul", ["r", "r"], ["square"]),
        node("Cast", ["square"], ["y"], to=F),
    ]
    constants = {"zero": np.array(0), "one": np.array(1)}
    body = graph("range", nodes, [("x", I, ["n"])], [("y", F, None)], constants)
    write("range", body, [{"x": np.array(x)} for x in ([3], [1, 2, 3], [0, 0])])

    # The length of a slice from an index that may be negative has no rule.
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "zero", "one"], ["n"]),
        node("Sub", ["n", "five"], ["start"]),
        node("Slice", ["x", "start", "end"], ["part"]),
        node("Exp", ["part"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "five": np.array([5]), "end": np.array([2**62])}
    body = graph("norule", nodes, [("x", F, ["n", 2])], [("y", F, None)], constants)
    write("norule", body, [{"x": normal(rng, n, 2)} for n in (1, 3, 8)])


def scans(rng):
    """Scans over a symbolic dimension, forwards and backwards."""
    for name, direction in (("scan", 0), ("scan_backwards", 1)):
        nodes = [
            node("Mul", ["a", "half"], ["part"]),
            node("Add", ["part", "row"], ["next"]),
            node("ReduceSum", ["next"], ["sum"], keepdims=0),
        ]
        step = graph(
            "step", nodes, [("a", F, [3]), ("row", F, [3])], [("next", F, [3]), ("sum", F, [])], {"half": np.float32(0.5)}
        )
        scan = node(
            "Scan",
            ["start", "x"],
            ["last", "sums"],
            body=step,
            num_scan_inputs=1,
            scan_input_directions=[direction],
            scan_output_directions=[direction],
        )
        nodes = [scan, node("Exp", ["sums"], ["y"])]
        outputs = [("last", F, None), ("y", F, None)]
        body = graph(name, nodes, [("x", F, ["n", 3])], outputs, {"start": np.ones(3, np.float32)})
        write(name, body, [{"x": normal(rng, n, 3)} for n in (1, 3, 8)])


class Random:
    """A random graph of values of four columns; values of one class have equally many rows."""

    def __init__(self, rng):
        self.rng = rng
        self.names = 0
        self.constants = {
            "zero": np.float32(0),
            "quarter": np.float32(0.25),
            "w": normal(rng, 4, 4) / 2,
            "axis0": np.array([0]),
            "axis1": np.array([1]),
            "three": np.array(3),
            "one": np.array(1),
            "two": np.array([2]),
            "half": np.float32(0.5),
        }

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def one(self, values):
        return values[self.rng.integers(len(values))]

    def nodes(self, values, count, depth):
        """`count` nodes that read `values`, pairs of name and class, which gets their results."""
        nodes = []

        def add(operator, inputs, rows=None, **attributes):
            out = self.name()
            nodes.append(node(operator, inputs, [out], **attributes))
            if rows is not None:
                values.append((out, rows))
            return out

        for _ in range(count):
            x, rows = self.one(values)
            kind = self.rng.integers(10 if depth > 0 else 8)
            if kind == 0:
                add(self.one(["Tanh", "Relu", "Abs", "Neg", "Sigmoid"]), [x], rows)
            elif kind == 1:
                add("Tanh", [add("MatMul", [x, "w"])], rows)
            elif kind == 2:
                others = [name for name, other in values if other == rows]
                add(self.one(["Add", "Sub", "Max"]), [x, self.one(others)], rows)
            elif kind == 3:
                other, _ = self.one(values)
                both = add("Concat", [x, other], axis=0)
                # At most some rows, so that sizes do not explode.
                add("Slice", [both, "axis0", "limit", "axis0"], self.name())
            elif kind == 4:
                sums = add("ReduceSum", [x, "axis1"], keepdims=0)
                add("Compress", [x, add("Greater", [sums, "zero"])], self.name(), axis=0)
            elif kind == 5:
                sums = add("ReduceSum", [x, "axis1"], keepdims=0)
                found = add("NonZero", [add("Less", [sums, "quarter"])])
                add("Gather", [x, add("Squeeze", [found, "axis0"])], self.name(), axis=0)
            elif kind == 6:
                mean = add("ReduceSum", [x, "axis0"], keepdims=1)
                other, rows = self.one(values)
                add("Add", [other, add("Tanh", [mean])], rows)
            elif kind == 7:
                add("Slice", [x, "axis0", "two", "axis0"], self.name())
            elif kind == 8:
                self.branch(values, nodes, depth)
            else:
                self.loop(values, nodes, depth)
        return nodes

    def scalar(self, values, nodes):
        total, mean = self.name(), self.name()
        nodes.append(node("ReduceSum", [self.one(values)[0]], [total], keepdims=0))
        nodes.append(node("Tanh", [total], [mean]))
        return mean

    def body(self, values, depth, results):
        """A list of nodes and the names of `results` values of it."""
        inner = list(values)
        nodes = self.nodes(inner, int(self.rng.integers(1, 4)), depth - 1)
        outputs = []
        for _ in range(results):
            out = self.name()
            nodes.append(node("Identity", [self.one(inner)[0]], [out]))
            outputs.append(out)
        return nodes, outputs

    def branch(self, values, nodes, depth):
        condition, out = self.name(), self.name()
        nodes.append(node("Greater", [self.scalar(values, nodes), "zero"], [condition]))
        bodies = {}
        for name in ("then_branch", "else_branch"):
            inner, outputs = self.body(values, depth, 1)
            bodies[name] = graph(name, inner, [], [(outputs[0], F, None)])
        nodes.append(node("If", [condition], [out], **bodies))
        values.append((out, self.name()))

    def loop(self, values, nodes, depth):
        step, keep, state, after = self.name(), self.name(), self.name(), self.name()
        start, _ = self.one(values)
        inner = [*values, (state, state)]
        body, (out,) = self.body(inner, depth, 1)
        row = self.name()
        body.append(node("ReduceSum", [out, "axis0"], [row], keepdims=0))
        low = self.name()
        body.append(node("Less", [self.scalar(inner, body), "half"], [low]))
        body.append(node("And", [keep, low], [after]))
        inputs = [(step, I, []), (keep, B, []), (state, F, None)]
        outputs = [(after, B, []), (out, F, None), (row, F, None)]
        # At least once: onnxruntime stacks no results without the extents of one.
        rest, limit = self.name(), self.name()
        nodes.append(node("Mod", ["count", "three"], [rest]))
        nodes.append(node("Add", [rest, "one"], [limit]))
        last, rows = self.name(), self.name()
        body = graph("body", body, inputs, outputs)
        nodes.append(node("Loop", [limit, "", start], [last, rows], body=body))
        values.append((last, self.name()))
        values.append((rows, self.name()))

    def write(self, name):
        self.constants["limit"] = np.array([9])
        values = [("x", "n"), ("y", "n")]
        nodes = self.nodes(values, 8, 2)
        outputs = []
        for value, _ in values[2:][-4:]:
            outputs.append(self.name())
            nodes.append(node("Identity", [value], [outputs[-1]]))
        inputs = [("x", F, ["n", 4]), ("y", F, ["n", 4]), ("count", I, [])]
        body = graph(name, nodes, inputs, [(out, F, None) for out in outputs], self.constants)
        rng = self.rng
        samples = [
            {"x": normal(rng, n, 4), "y": normal(rng, n, 4), "count": np.array(count)}
            for n, count in ((1, 0), (3, 1), (7, 2), (12, 5))
        ]
        write(name, body, samples)


def sequences(rng):
    """Sequences that a loop fills, with run-time positions, from branches, and of SequenceMap."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))
    body = [
        node("Add", ["step", "one"], ["end"]),
        node("Unsqueeze", ["end", "zero"], ["ends"]),
        node("Slice", ["x", "zero", "ends", "zero"], ["rows"]),
        node("SequenceInsert", ["state", "rows"], ["after"]),
        node("Identity", ["keep"], ["kept"]),
    ]
    body = graph("body", body, [("step", I, []), ("keep", B, []), ("state", sequence)],
                 [("kept", B, []), ("after", sequence)])
    nodes = [
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["count", "", "empty"], ["filled"], body=body),
        node("ConcatFromSequence", ["filled"], ["all"], axis=0),
        node("MatMul", ["all", "w"], ["y"]),
        node("SequenceLength", ["filled"], ["length"]),
        node("SequenceAt", ["filled", "last"], ["tail"]),
    ]
    constants = {"one": 1, "zero": np.array([0]), "last": -1, "w": normal(rng, 3, 4)}
    inputs = [("x", F, ["n", 3]), ("count", I, [])]
    outputs = [("y", F, None), ("length", I, []), ("tail", F, None)]
    samples = [{"x": normal(rng, n, 3), "count": np.array(count)} for n, count in ((5, 1), (5, 3), (9, 70))]
    write("sequence_loop", graph("sequence_loop", nodes, inputs, outputs, constants), samples)

    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["parts"], axis=0),
        node("SequenceAt", ["parts", "at"], ["one_part"]),
        node("SequenceErase", ["parts", "at"], ["fewer"]),
        node("SequenceInsert", ["fewer", "one_part", "to"], ["moved"]),
        node("ConcatFromSequence", ["moved"], ["y"], axis=0),
        node("SequenceLength", ["fewer"], ["length"]),
    ]
    inputs = [("x", F, ["n", 3]), ("sizes", I, ["k"]), ("at", I, []), ("to", I, [])]
    outputs = [("y", F, None), ("length", I, []), ("one_part", F, None)]
    samples = [{"x": normal(rng, 6, 3), "sizes": np.array(sizes), "at": np.array(at), "to": np.array(to)}
               for sizes, at, to in (([1, 2, 3], 0, 2), ([3, 1, 2], -1, 0), ([5, 1], 1, -1))]
    write("sequence_positions", graph("sequence_positions", nodes, inputs, outputs), samples)

    split = lambda parts: [node("SplitToSequence", ["x"], ["parts"], axis=parts, keepdims=parts),
                           node("SequenceInsert", ["parts", "v"], ["more"])]
    then = graph("then", split(0), [], [("more", sequence)])
    other = graph("other", [node("SequenceConstruct", ["v", "v"], ["pair"])], [], [("pair", sequence)])
    mapped = graph("mapped", [node("Add", ["a", "b"], ["sum"]), node("ReduceSum", ["sum"], ["total"], keepdims=0)],
                   [("a", F, ["m"]), ("b", F, ["m"])], [("sum", F, ["m"]), ("total", F, [])])
    nodes = [
        node("If", ["c"], ["chosen"], then_branch=then, else_branch=other),
        node("SequenceMap", ["chosen", "v"], ["sums", "totals"], body=mapped),
        node("ConcatFromSequence", ["sums"], ["y"], axis=0, new_axis=1),
        node("ConcatFromSequence", ["totals"], ["t"], axis=0, new_axis=1),
    ]
    inputs = [("x", F, ["n", 3]), ("v", F, [3]), ("c", B, [])]
    outputs = [("y", F, None), ("t", F, None)]
    samples = [{"x": normal(rng, 4, 3), "v": normal(rng, 3), "c": np.array(c)} for c in (True, False)]
    write("sequence_map", graph("sequence_map", nodes, inputs, outputs), samples)

    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0),
        node("SequenceAt", ["parts", "one"], ["b"]),
        node("SequenceErase", ["parts", "one"], ["ac"]),
        node("ConcatFromSequence", ["ac"], ["y"], axis=-1, new_axis=1),
        node("SequenceLength", ["ac"], ["length"]),
        node("Optional", ["b"], ["maybe"]),
        node("OptionalHasElement", ["maybe"], ["has"]),
        node("OptionalGetElement", ["maybe"], ["z"]),
    ]
    outputs = [("y", F, None), ("length", I, []), ("has", B, []), ("z", F, None)]
    body = graph("sequence_static", nodes, [("x", F, ["n", 3])], outputs, {"one": 1})
    write("sequence_static", body, [{"x": normal(rng, n, 3)} for n in (1, 5)])


def ports():
    """A model whose inputs and outputs are sequences and optional values."""
    tensor = helper.make_tensor_type_proto(F, ["n", 3])
    sequence, maybe = helper.make_sequence_type_proto(tensor), helper.make_optional_type_proto(tensor)
    nodes = [node("SequenceInsert", ["s", "v"], ["longer"]), node("OptionalHasElement", ["o"], ["has"]),
             node("Identity", ["o"], ["same"])]
    body = graph("ports", nodes, [("s", sequence), ("v", F, ["m", 3]), ("o", maybe)],
                 [("longer", sequence), ("has", B, []), ("same", maybe)])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, FOLDER / "ports.onnx")


def strings(rng):
    """Operators on strings between inputs and outputs that are none."""
    words = np.array(["one", "Two", "three", "one two", "7.5", ""], dtype=object)
    nodes = [
        node("Gather", ["words", "i"], ["some"]),
        node("Equal", ["some", "word"], ["equal"]),
        node("RegexFullMatch", ["some"], ["match"], pattern="[a-z]+( [a-z]+)?"),
        node("StringSplit", ["some"], ["parts", "lengths"]),
        node("Cast", ["x"], ["text"], to=S),
        node("StringConcat", ["text", "digit"], ["longer"]),
        node("Cast", ["longer"], ["y"], to=F),
        node("Cast", ["i"], ["ints"], to=S),
        node("Cast", ["ints"], ["j"], to=I),
        node("StringNormalizer", ["some"], ["lower"], case_change_action="LOWER", stopwords=["two"], locale="C"),
        node("Equal", ["lower", "word"], ["kept"]),
        node("TfIdfVectorizer", ["some"], ["counts"], mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
             ngram_counts=[0, 3], ngram_indexes=[2, 0, 1, 3, 4], pool_strings=["one", "three", "", "one", "Two", "one two", "one"],
             weights=[0.5, 2.0, 1.0, 4.0, 0.25]),
    ]
    constants = {"words": words, "word": np.array("one", dtype=object), "digit": np.array(["5"], dtype=object)}
    inputs = [("i", I, ["n"]), ("x", F, ["m"])]
    outputs = [("equal", B, None), ("match", B, None), ("lengths", I, None), ("y", F, None), ("j", I, None), ("kept", B, None),
               ("counts", F, None)]
    body = graph("strings", nodes, inputs, outputs, constants)
    x = np.array([0.5, -1.25, 100.5, 0.0625], np.float32)
    write("strings", body, [{"i": np.array(i), "x": x} for i in ([0, 1, 2], [3, 3, 0, 1, 4], [0, 5, 2])], opset=20)


def observed(rng):
    """A loop that returns what its body computes in each iteration, and an operator on its result."""
    body = [
        node("MatMul", ["state", "w"], ["h"], "project"),
        node("Sin", ["h"], ["t"], "wave"),
        node("ReduceSum", ["t", "axis"], ["row"], "total", keepdims=0),
        node("Identity", ["keep"], ["kept"], "keep"),
    ]
    body = graph("body", body, [("step", I, []), ("keep", B, []), ("state", F, ["n", 4])],
                 [("kept", B, []), ("t", F, ["n", 4]), ("row", F, [4])])
    nodes = [
        node("Loop", ["count", "", "x"], ["last", "rows"], "loop", body=body),
        node("Greater", ["last", "zero"], ["mask"], "compare"),
        node("NonZero", ["mask"], ["where"], "find"),
    ]
    constants = {"w": normal(rng, 4, 4), "axis": np.array([0]), "zero": np.float32(0)}
    inputs = [("x", F, ["n", 4]), ("count", I, [])]
    outputs = [("last", F, ["n", 4]), ("rows", F, None), ("where", I, None)]
    samples = [{"x": normal(rng, n, 4), "count": np.array(count)} for n, count in ((3, 1), (5, 4))]
    write("observed", graph("observed", nodes, inputs, outputs, constants), samples)


def growing(rng):
    """Loops whose states and sizes change in each step: a size of the step before would be wrong."""
    loop = lambda body, results: node("Loop", ["count", "", *results[0]], results[1], body=body)
    head = [("step", I, []), ("keep", B, [])]

    # A state that doubles or grows by a row, and nodes on its size, before and after it changes.
    body = [
        node("Identity", ["keep"], ["kept"]),
        node("Shape", ["t"], ["s"]),
        node("Gather", ["s", "at0"], ["n"]),
        node("Transpose", ["t"], ["turned"], perm=[1, 0]),
        node("MatMul", ["t", "turned"], ["square"]),
        node("Softmax", ["square"], ["weights"], axis=1),
        node("MatMul", ["weights", "t"], ["mixed"]),
        node("Range", ["zero", "n", "one"], ["places"]),
        node("Cast", ["places"], ["order"], to=F),
        node("Unsqueeze", ["order", "at1"], ["column"]),
        node("Add", ["mixed", "column"], ["shifted"]),
        node("Tanh", ["shifted"], ["bounded"]),
        node("ReduceMean", ["bounded"], ["row"], axes=[0], keepdims=1),
        node("Mod", ["step", "two"], ["odd"]),
        node("Equal", ["odd", "zero"], ["doubles"]),
        node("If", ["doubles"], ["more"],
             then_branch=graph("then", [node("Neg", ["bounded"], ["all"])], [], [("all", F, None)]),
             else_branch=graph("else", [node("Exp", ["row"], ["one_row"])], [], [("one_row", F, None)])),
        node("Concat", ["bounded", "more"], ["longer"], axis=0),
        node("Shape", ["longer"], ["after"]),
        node("ConstantOfShape", ["after"], ["filled"], value=helper.make_tensor("v", F, [1], [0.5])),
        node("Mul", ["longer", "filled"], ["next"]),
        node("ReduceSum", ["next", "at0"], ["sums"], keepdims=0),
    ]
    body = graph("body", body, [*head, ("t", F, None)], [("kept", B, []), ("next", F, None), ("sums", F, None)])
    constants = {"at0": np.array([0]), "at1": np.array([1]), "zero": np.array(0), "one": np.array(1), "two": np.array(2)}
    scalar = node("Squeeze", ["n", "at0"], ["length"])
    body.node.insert(3, scalar)
    for part in body.node:
        if part.op_type == "Range":
            part.input[1] = "length"
    nodes = [loop(body, (["x"], ["last", "rows"])), node("Relu", ["last"], ["y"])]
    inputs = [("x", F, ["n", 3]), ("count", I, [])]
    whole = graph("growing", nodes, inputs, [("y", F, None), ("rows", F, None)], constants)
    pairs = [(1, 1), (3, 5), (2, 8), (7, 2)]
    write("growing", whole, [{"x": normal(rng, n, 3), "count": np.array(k)} for n, k in pairs], opset=17)

    # Counts and elements that are known in the middle of the body, and only in one branch.
    compress = lambda of, out: [
        node("ReduceSum", [of, "at1"], [f"{out}.sums"], keepdims=0),
        node("Greater", [f"{out}.sums", "floor"], [f"{out}.mask"]),
        node("Compress", [of, f"{out}.mask"], [out], axis=0),
    ]
    body = [
        node("Identity", ["keep"], ["kept"]),
        node("Sin", ["t"], ["wave"]),
        *compress("wave", "some"),
        node("Shape", ["some"], ["s"]),
        node("Slice", ["s", "at0", "at1"], ["n"]),
        node("Add", ["n", "two"], ["wider"]),
        node("Slice", ["x", "at0", "wider", "at0"], ["head"]),
        node("Concat", ["some", "head"], ["both"], axis=0),
        node("Unsqueeze", ["step", "at0"], ["steps"]),
        node("Tile", ["both", "repeats"], ["tiled"]),
        node("ReduceMax", ["tiled"], ["greatest"], axes=[0], keepdims=1),
        node("Less", ["steps", "two"], ["early"]),
        node("Squeeze", ["early", "at0"], ["is_early"]),
        node("If", ["is_early"], ["chosen"],
             then_branch=graph("then", [*compress("both", "few"), node("Abs", ["few"], ["f"])], [], [("f", F, None)]),
             else_branch=graph("else", [node("Cos", ["both"], ["g"])], [], [("g", F, None)])),
        node("Concat", ["chosen", "greatest"], ["next"], axis=0),
        node("ReduceSum", ["next", "at0"], ["sums"], keepdims=0),
    ]
    repeats = [node("Add", ["steps", "at1"], ["high"]), node("Concat", ["high", "at1"], ["repeats"], axis=0)]
    position = next(index for index, part in enumerate(body) if part.op_type == "Tile")
    body[position:position] = repeats
    body = graph("body", body, [*head, ("t", F, None)], [("kept", B, []), ("next", F, None), ("sums", F, None)])
    constants = {"at0": np.array([0]), "at1": np.array([1]), "two": np.array([2]), "floor": np.float32(0.1)}
    nodes = [loop(body, (["x"], ["last", "rows"])), node("Exp", ["last"], ["y"])]
    whole = graph("recounted", nodes, inputs, [("y", F, None), ("rows", F, None)], constants)
    pairs = [(4, 1), (9, 6), (1, 4), (20, 3)]
    write("recounted", whole, [{"x": 2 * normal(rng, n, 3), "count": np.array(k)} for n, k in pairs], opset=17)

    # A triangle: the inner loop makes as many steps as the state of the outer one has rows.
    inner = [
        node("Identity", ["on"], ["on_still"]),
        node("Gather", ["u", "at0"], ["first"]),
        node("Sub", ["u", "first"], ["less"]),
        node("Concat", ["less", "first"], ["u_next"], axis=0),
        node("ReduceMean", ["u_next"], ["mean"], axes=[0], keepdims=0),
    ]
    inner = graph("inner", inner, [("i", I, []), ("on", B, []), ("u", F, None)],
                  [("on_still", B, []), ("u_next", F, None), ("mean", F, None)])
    body = [
        node("Identity", ["keep"], ["kept"]),
        node("Shape", ["t"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Loop", ["n", "", "t"], ["u_last", "means"], body=inner),
        node("Slice", ["u_last", "at1", "end", "at0"], ["rest"]),
        node("Concat", ["rest", "means"], ["joined"], axis=0),
        node("Slice", ["joined", "at0", "limit", "at0"], ["next"]),
        node("ReduceSum", ["joined", "at0"], ["sums"], keepdims=0),
    ]
    body = graph("body", body, [*head, ("t", F, None)], [("kept", B, []), ("next", F, None), ("sums", F, None)])
    constants = {"at0": np.array([0]), "at1": np.array([1]), "zero": np.array(0), "end": np.array([2**62]),
                 "limit": np.array([6])}
    nodes = [loop(body, (["x"], ["last", "rows"])), node("Tanh", ["last"], ["y"])]
    whole = graph("nested_growth", nodes, inputs, [("y", F, None), ("rows", F, None)], constants)
    pairs = [(1, 1), (2, 4), (5, 3)]
    write("nested_growth", whole, [{"x": normal(rng, n, 3), "count": np.array(k)} for n, k in pairs], opset=17)


def many_symbols(rng):
    """More symbols than there are primes, large primes or multiples of 32 among the examples of sizes."""
    for count in (13, 25, 80):
        names = [f"x{index}" for index in range(count)]
        nodes, parts, heads = [], [], []
        for index, name in enumerate(names):
            other = names[(index + 1) % count]
            nodes += [
                node("Tanh", [name], [f"{name}.t"]),
                node("Transpose", [f"{name}.t"], [f"{name}.turned"], perm=[1, 0]),
                node("MatMul", [other, f"{name}.turned"], [f"{name}.square"]),
                node("ReduceMax", [f"{name}.square"], [f"{name}.most"], axes=[1], keepdims=1),
                node("Add", [other, f"{name}.most"], [f"{name}.part"]),
                node("Slice", [f"{name}.part", "at0", "limit", "at0"], [f"{name}.head"]),
            ]
            parts.append(f"{name}.part")
            heads.append(f"{name}.head")
        nodes += [
            node("Concat", parts, ["all"], axis=0),
            node("Relu", ["all"], ["y"]),
            node("Concat", heads, ["firsts"], axis=0),
            node("Shape", ["all"], ["sizes"]),
            node("Greater", ["firsts", "half"], ["mask"]),
            node("NonZero", ["mask"], ["where"]),
        ]
        constants = {"at0": np.array([0]), "limit": np.array([4]), "half": np.float32(0.5)}
        inputs = [(name, F, [f"d{index}", 3]) for index, name in enumerate(names)]
        outputs = [("y", F, None), ("firsts", F, None), ("sizes", I, None), ("where", I, None)]
        body = graph(f"symbols{count}", nodes, inputs, outputs, constants)
        samples = [{name: normal(rng, int(rng.integers(1, most)), 3) for name in names} for most in (2, 9, 40)]
        write(f"symbols{count}", body, samples, opset=17)

    # As many sizes that depend on data.
    nodes, parts = [], []
    for index in range(30):
        nodes += [
            node("Greater", ["sums", f"floor{index}"], [f"mask{index}"]),
            node("Compress", ["x", f"mask{index}"], [f"some{index}"], axis=0),
            node("Shape", [f"some{index}"], [f"shape{index}"]),
            node("ConstantOfShape", [f"shape{index}"], [f"zeros{index}"]),
            node("Add", [f"some{index}", f"zeros{index}"], [f"part{index}"]),
        ]
        parts.append(f"part{index}")
    nodes = [node("ReduceSum", ["x", "at1"], ["sums"], keepdims=0), *nodes, node("Concat", parts, ["all"], axis=0),
             node("Exp", ["all"], ["y"])]
    constants = {"at1": np.array([1])} | {f"floor{index}": np.float32(index / 8 - 2) for index in range(30)}
    body = graph("many_counts", nodes, [("x", F, ["n", 3])], [("y", F, None)], constants)
    write("many_counts", body, [{"x": normal(rng, n, 3)} for n in (1, 6, 50)], opset=17)


counts(np.random.default_rng(SEED))
growing(np.random.default_rng(SEED))
many_symbols(np.random.default_rng(SEED))
observed(np.random.default_rng(SEED))
sequences(np.random.default_rng(SEED))
strings(np.random.default_rng(SEED))
ports()
sizes(np.random.default_rng(SEED))
scans(np.random.default_rng(SEED))
for number in range(COUNT):
    Random(np.random.default_rng([SEED, number])).write(f"random{number}")
