"""Recurrent networks: of f32, with weights of f32 or i8, and of integers."""

import numpy as np
from ai_edge_litert import schema_py_generated as s
from builders import ACT, add, floats, quantised, rng
from litert import Model

BATCH, TIME, INPUTS, CELLS, OUTPUTS = 2, 4, 3, 5, 4


class Operands:
    """Random constants of a graph."""

    def __init__(self, graph):
        self.graph, self.random, self.count = graph, rng(), 0

    def part(self, *shape, low=-0.7, high=0.7):
        self.count += 1
        return self.graph.constant(f"w{self.count}", self.random.uniform(low, high, shape).astype(np.float32))

    def parts(self, count, *shape, **more):
        return [self.part(*shape, **more) for _ in range(count)]


def lstm_operands(p, inputs=INPUTS, coupled=False, peephole=False, projection=False, projection_bias=False):
    """The inputs 1 to 17."""
    outputs = OUTPUTS if projection else CELLS
    first = [-1] if coupled else []
    gates = 3 if coupled else 4
    ids = first + p.parts(gates, CELLS, inputs) + first + p.parts(gates, CELLS, outputs)
    ids += first + p.parts(gates - 1, CELLS) if peephole else [-1, -1, -1]
    ids += first + p.parts(gates, CELLS)
    ids += [p.part(OUTPUTS, CELLS) if projection else -1, p.part(OUTPUTS) if projection_bias else -1]
    return ids, outputs


def states(graph, outputs, names=("h", "c")):
    return [graph.tensor(name, (BATCH, extent), variable=True) for name, extent in zip(names, [outputs, CELLS])]


def cases():
    lstm_sequences()
    lstm_steps()
    basic_step()
    bidirectional_lstms()
    simple_networks()
    features()
    byte_weights()
    integers()


FORMS = {
    "plain": {}, "coupled": dict(coupled=True), "peephole": dict(peephole=True),
    "projection": dict(projection=True), "projection_bias": dict(projection=True, projection_bias=True),
    "coupled_peephole": dict(coupled=True, peephole=True),
}


def lstm_sequences():
    for time_major in [False, True]:
        lstm_sequence("time" if time_major else "batch", {}, time_major=time_major)
    for name, form in FORMS.items():
        if form:
            lstm_sequence(name, form)
    lstm_sequence("clip", dict(projection=True), cell_clip=0.2, proj_clip=0.1)
    lstm_sequence("relu", {}, activation=ACT.RELU)
    lstm_sequence("norm", {}, norm=True)
    lstm_sequence("norm_all", dict(coupled=True, peephole=True, projection=True), norm=True, cell_clip=0.5)


def lstm_sequence(name, form, time_major=False, norm=False, cell_clip=0.0, proj_clip=0.0, activation=ACT.TANH):
    model = Model()
    graph = model.graph()
    p = Operands(graph)
    shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
    x = graph.input("x", shape)
    ids, outputs = lstm_operands(p, **form)
    ids = [x] + ids + states(graph, outputs)
    if norm:
        ids += normalization(p, form)
    y = graph.output("y", (*shape[:2], outputs))
    graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ids, [y], "UnidirectionalSequenceLSTMOptions",
             fusedActivationFunction=activation, timeMajor=time_major, cellClip=cell_clip, projClip=proj_clip)
    add(f"lstm_{name}", model, [floats(*shape)])


def normalization(p, form):
    if form.get("coupled"):
        return [-1] + p.parts(3, CELLS, low=0.5, high=1.5)
    return p.parts(4, CELLS, low=0.5, high=1.5)


def lstm_steps():
    for name, form in FORMS.items():
        lstm_step(name, form)
    lstm_step("clip", dict(projection=True), cell_clip=0.2, proj_clip=0.1)
    lstm_step("norm", dict(peephole=True), norm=True)


def lstm_step(name, form, norm=False, cell_clip=0.0, proj_clip=0.0):
    model = Model()
    graph = model.graph()
    p = Operands(graph)
    x = graph.input("x", (BATCH, INPUTS))
    ids, outputs = lstm_operands(p, **form)
    ids = [x] + ids + states(graph, outputs)
    if norm:
        ids += normalization(p, form)
    y = graph.output("y", (BATCH, outputs))
    graph.op("LSTM", ids, [y], "LSTMOptions", fusedActivationFunction=ACT.TANH, cellClip=cell_clip, projClip=proj_clip)
    add(f"lstm_step_{name}", model, [floats(BATCH, INPUTS)])


def basic_step():
    for name in ["variables", "inputs"]:
        model = Model()
        graph = model.graph()
        p = Operands(graph)
        x = graph.input("x", (BATCH, INPUTS))
        if name == "inputs":
            h, c = graph.input("h", (BATCH, CELLS)), graph.input("c", (BATCH, CELLS))
        else:
            h, c = states(graph, CELLS)
        ids = [x, h, p.part(4 * CELLS, INPUTS + CELLS), p.part(4 * CELLS), c]
        outs = [graph.output("y", (BATCH, CELLS)), graph.output("state", (BATCH, CELLS)),
                graph.tensor("joined", (BATCH, INPUTS + CELLS)), graph.tensor("gates", (BATCH, 4 * CELLS))]
        graph.op("LSTM", ids, outs, "LSTMOptions", fusedActivationFunction=ACT.TANH, kernelType=s.LSTMKernelType.BASIC)
        more = [floats(BATCH, CELLS), -floats(BATCH, CELLS)] if name == "inputs" else []
        add(f"lstm_basic_{name}", model, [floats(BATCH, INPUTS)] + more)


def bidirectional_lstms():
    bidirectional_lstm("separate")
    bidirectional_lstm("merged", merge=True)
    # With joined outputs the interpreter does not write those of the second batch.
    bidirectional_lstm("batch", time_major=False)
    bidirectional_lstm("projection", dict(projection=True, peephole=True), merge=True)
    bidirectional_lstm("coupled", dict(coupled=True), cell_clip=0.3)
    bidirectional_lstm("stacked", auxiliary=1)
    bidirectional_lstm("auxiliary", merge=True, auxiliary=2)


def bidirectional_lstm(name, form=None, merge=False, time_major=True, auxiliary=0, cell_clip=0.0):
    form = form or {}
    model = Model()
    graph = model.graph()
    p = Operands(graph)
    shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
    ids, values = [graph.input("x", shape)], [floats(*shape)]
    for _ in range(2):
        more, outputs = lstm_operands(p, **form)
        ids += more
    ids += states(graph, outputs, ("fh", "fc")) + states(graph, outputs, ("bh", "bc"))
    if auxiliary:
        ids.append(graph.input("aux", shape))
        values.append(-floats(*shape)[::-1].copy())
    ids += p.parts(8, CELLS, INPUTS) if auxiliary == 2 else [-1] * (8 if auxiliary else 9)
    wide = outputs * 2 if merge else outputs
    outs = [graph.output("y", (*shape[:2], wide))]
    if not merge:
        outs.append(graph.output("z", (*shape[:2], outputs)))
    graph.op("BIDIRECTIONAL_SEQUENCE_LSTM", ids, outs, "BidirectionalSequenceLSTMOptions", cellClip=cell_clip,
             fusedActivationFunction=ACT.TANH, mergeOutputs=merge, timeMajor=time_major)
    add(f"bidirectional_lstm_{name}", model, values)


def simple_networks():
    for name, activation in [("tanh", ACT.TANH), ("relu", ACT.RELU), ("relu6", ACT.RELU6),
                             ("relu_n1_to_1", ACT.RELU_N1_TO_1), ("none", ACT.NONE)]:
        model = Model()
        graph = model.graph()
        p = Operands(graph)
        ids = [graph.input("x", (BATCH, INPUTS)), p.part(CELLS, INPUTS), p.part(CELLS, CELLS), p.part(CELLS),
               graph.tensor("h", (BATCH, CELLS), variable=True)]
        graph.op("RNN", ids, [graph.output("y", (BATCH, CELLS))], "RNNOptions", fusedActivationFunction=activation)
        add(f"rnn_{name}", model, [5 * floats(BATCH, INPUTS)])
        for time_major in [False, True]:
            model = Model()
            graph = model.graph()
            p = Operands(graph)
            shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
            ids = [graph.input("x", shape), p.part(CELLS, INPUTS), p.part(CELLS, CELLS), p.part(CELLS),
                   graph.tensor("h", (BATCH, CELLS), variable=True)]
            graph.op("UNIDIRECTIONAL_SEQUENCE_RNN", ids, [graph.output("y", (*shape[:2], CELLS))], "SequenceRNNOptions",
                     fusedActivationFunction=activation, timeMajor=time_major)
            add(f"sequence_rnn_{name}_{'time' if time_major else 'batch'}", model, [5 * floats(*shape)])
    for name, merge, time_major, auxiliary in [("separate", False, False, 0), ("merged", True, True, 0),
                                               ("stacked", False, True, 1), ("auxiliary", True, False, 2)]:
        bidirectional_rnn(name, merge, time_major, auxiliary)


def bidirectional_rnn(name, merge, time_major, auxiliary):
    model = Model()
    graph = model.graph()
    p = Operands(graph)
    shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
    ids, values = [graph.input("x", shape)], [floats(*shape)]
    for direction in "fb":
        ids += [p.part(CELLS, INPUTS), p.part(CELLS, CELLS), p.part(CELLS),
                graph.tensor(direction, (BATCH, CELLS), variable=True)]
    if auxiliary:
        ids.append(graph.input("aux", shape))
        values.append(-floats(*shape)[::-1].copy())
    ids += p.parts(2, CELLS, INPUTS) if auxiliary == 2 else [-1] * (2 if auxiliary else 3)
    outs = [graph.output("y", (*shape[:2], CELLS * (2 if merge else 1)))]
    if not merge:
        outs.append(graph.output("z", (*shape[:2], CELLS)))
    graph.op("BIDIRECTIONAL_SEQUENCE_RNN", ids, outs, "BidirectionalSequenceRNNOptions", mergeOutputs=merge,
             timeMajor=time_major, fusedActivationFunction=ACT.TANH)
    add(f"bidirectional_rnn_{name}", model, values)


def features():
    for name, rank, activation, has_bias in [("one", 1, ACT.NONE, True), ("two", 2, ACT.RELU, True),
                                             ("plain", 2, ACT.NONE, False)]:
        units, steps = 4, 6
        model = Model()
        graph = model.graph()
        p = Operands(graph)
        ids = [graph.input("x", (BATCH, INPUTS)), p.part(units * rank, INPUTS), p.part(units * rank, steps),
               p.part(units) if has_bias else -1, graph.tensor("state", (BATCH, units * rank * steps), variable=True)]
        graph.op("SVDF", ids, [graph.output("y", (BATCH, units))], "SVDFOptions", rank=rank,
                 fusedActivationFunction=activation)
        add(f"svdf_{name}", model, [floats(BATCH, INPUTS)])


class ByteOperands(Operands):
    """Matrices of i8 with one scale; the interpreter quantises what they are multiplied with."""

    def part(self, *shape, low=-0.7, high=0.7):
        if len(shape) == 1:
            return super().part(*shape, low=low, high=high)
        self.count += 1
        weights = self.random.integers(-127, 128, shape).astype(np.int8)
        return self.graph.constant(f"w{self.count}", weights, scale=np.float32(0.7 / 127), zero=0)


def byte_weights():
    model = Model()
    graph = model.graph()
    p = ByteOperands(graph)
    ids, outputs = lstm_operands(p)
    ids = [graph.input("x", (BATCH, TIME, INPUTS))] + ids + states(graph, outputs)
    graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ids, [graph.output("y", (BATCH, TIME, CELLS))],
             "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=ACT.TANH)
    add("lstm_weights_i8", model, [floats(BATCH, TIME, INPUTS)], 0.02)
    model = Model()
    graph = model.graph()
    p = ByteOperands(graph)
    ids = [graph.input("x", (BATCH, TIME, INPUTS)), p.part(CELLS, INPUTS), p.part(CELLS, CELLS), p.part(CELLS),
           graph.tensor("h", (BATCH, CELLS), variable=True)]
    graph.op("UNIDIRECTIONAL_SEQUENCE_RNN", ids, [graph.output("y", (BATCH, TIME, CELLS))], "SequenceRNNOptions",
             fusedActivationFunction=ACT.TANH)
    add("sequence_rnn_weights_i8", model, [floats(BATCH, TIME, INPUTS)], 0.02)
    model = Model()
    graph = model.graph()
    p = ByteOperands(graph)
    ids = [graph.input("x", (BATCH, INPUTS)), p.part(8, INPUTS), p.part(8, 6), p.part(4),
           graph.tensor("state", (BATCH, 8 * 6), variable=True)]
    graph.op("SVDF", ids, [graph.output("y", (BATCH, 4))], "SVDFOptions", rank=2)
    add("svdf_weights_i8", model, [floats(BATCH, INPUTS)], 0.02)


class IntegerOperands(Operands):
    """Weights of i8, peepholes of i16 and biases of i32, as networks of integers have them."""

    def part(self, *shape, low=-0.7, high=0.7):
        self.count += 1
        name = f"w{self.count}"
        if len(shape) == 2:
            return self.graph.constant(name, self.random.integers(-127, 128, shape).astype(np.int8),
                                       scale=np.float32(0.7 / 127), zero=0)
        scale = np.float32(0.02 * 0.7 / 127)
        bias = np.round(self.random.uniform(low, high, shape) / scale).astype(np.int32)
        return self.graph.constant(name, bias, scale=scale, zero=0)


def integers():
    """Networks of i8: the interpreter rounds the states and gates of each step to i8 and i16, so that outputs differ by steps."""
    for name, time_major in [("time", True), ("batch", False)]:
        model = Model()
        graph = model.graph()
        p = IntegerOperands(graph)
        shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
        hidden = dict(scale=np.float32(1 / 128), zero=0)
        ids = [graph.input("x", shape, "int8", scale=np.float32(0.02), zero=3)] + lstm_operands(p)[0]
        ids += [graph.tensor("h", (BATCH, CELLS), "int8", variable=True, **hidden),
                graph.tensor("c", (BATCH, CELLS), "int16", variable=True, scale=np.float32(2**-11), zero=0)]
        graph.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ids, [graph.output("y", (*shape[:2], CELLS), "int8", **hidden)],
                 "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=ACT.TANH, timeMajor=time_major)
        # Of these the last one is read, and none is used without projection and normalization.
        parts = [graph.tensor(f"gate{nth}", (0,), "int16", scale=np.float32(2**-12), zero=0) for nth in range(4)]
        parts.append(graph.tensor("hidden", (0,), "int8", **hidden))
        graph.table.operators[-1].intermediates = parts
        add(f"lstm_i8_{name}", model, [quantised(floats(*shape), 0.02, 3, "int8")], 2.0)
    for name, rank in [("one", 1), ("two", 2)]:
        units, steps = 4, 6
        model = Model()
        graph = model.graph()
        random = rng()
        weights = random.integers(-127, 128, (units * rank, INPUTS)).astype(np.int8)
        of_time = random.integers(-20000, 20000, (units * rank, steps)).astype(np.int16)
        bias = random.integers(-20000, 20000, units).astype(np.int32)
        scales = [np.float32(value) for value in (0.02, 0.5 / 127, 2**-11, 0.7 / 20000)]
        ids = [graph.input("x", (BATCH, INPUTS), "int8", scale=scales[0], zero=3),
               graph.constant("w", weights, scale=scales[1], zero=0), graph.constant("t", of_time, scale=scales[3], zero=0),
               graph.constant("b", bias, scale=scales[2] * scales[3], zero=0),
               graph.tensor("state", (BATCH, units * rank * steps), "int16", variable=True, scale=scales[2], zero=0)]
        # The interpreter takes its RELU from the least integer.
        y = graph.output("y", (BATCH, units), "int8", scale=np.float32(0.01), zero=-128)
        graph.op("SVDF", ids, [y], "SVDFOptions", rank=rank, fusedActivationFunction=ACT.RELU)
        add(f"svdf_i8_{name}", model, [quantised(floats(BATCH, INPUTS), 0.02, 3, "int8")], 1.0)
