"""Sparse constants, each with other levels, made dense by DENSIFY or read by an operator."""

import numpy as np
from ai_edge_litert import schema_py_generated as s
from builders import add, floats, rng
from litert import Model

DENSE, CSR = s.DimensionType.DENSE, s.DimensionType.SPARSE_CSR
WIDTHS = {np.uint8: s.SparseIndexVector.Uint8Vector, np.uint16: s.SparseIndexVector.Uint16Vector,
          np.int32: s.SparseIndexVector.Int32Vector}


def integers(values, dtype):
    table = {np.uint8: s.Uint8VectorT, np.uint16: s.Uint16VectorT, np.int32: s.Int32VectorT}[dtype]()
    table.values = np.array(values, dtype)
    return WIDTHS[dtype], table


def encode(data, order, formats, blocked, width):
    """The stored values and the parameters; `blocked` has pairs of a dimension and its block size."""
    rank, sizes = data.ndim, dict(blocked)
    outer = [extent // sizes.get(axis, 1) for axis, extent in enumerate(data.shape)]
    shape = [part for axis in range(rank) for part in (outer[axis], sizes.get(axis, 1))]
    places = [2 * axis if axis < rank else 2 * blocked[axis - rank][0] + 1 for axis in order]
    parts = data.reshape(shape)
    unused = [axis for axis in range(parts.ndim) if axis not in places]
    parts = parts.transpose(places + unused).reshape([shape[place] for place in places])
    nodes, metadata = [()], []
    for level, form in enumerate(formats):
        entry = s.DimensionMetadataT()
        entry.format = form
        extent = parts.shape[level]
        if form == DENSE:
            entry.denseSize = extent
            nodes = [node + (at,) for node in nodes for at in range(extent)]
        else:
            segments, indices, below = [0], [], []
            for node in nodes:
                found = [at for at in range(extent) if np.any(parts[node + (at,)])]
                below += [node + (at,) for at in found]
                indices += found
                segments.append(len(indices))
            entry.arraySegmentsType, entry.arraySegments = integers(segments, width)
            entry.arrayIndicesType, entry.arrayIndices = integers(indices, width)
            nodes = below
        metadata.append(entry)
    parameters = s.SparsityParametersT()
    parameters.traversalOrder, parameters.dimMetadata = list(order), metadata
    parameters.blockMap = [axis for axis, _ in blocked] or None
    return np.array([parts[node] for node in nodes], data.dtype), parameters


def constant(graph, name, data, parameters):
    values, sparsity = encode(data, *parameters)
    index = graph.tensor(name, data.shape, str(data.dtype), values)
    graph.table.tensors[index].sparsity = sparsity
    return index


def cases():
    g = rng()
    matrix = floats(4, 8) * (g.random((4, 8)) > 0.7)
    matrix[2] = 0
    blocks = floats(8, 8) * np.kron(g.random((4, 4)) > 0.6, np.ones((2, 2)))
    volume = floats(3, 4, 5) * (g.random((3, 4, 5)) > 0.8)
    for name, data, *parameters in [
        ("rows", matrix, (0, 1), (DENSE, CSR), (), np.uint8),
        ("columns", matrix, (1, 0), (DENSE, CSR), (), np.uint16),
        ("both", matrix, (0, 1), (CSR, CSR), (), np.int32),
        ("none", matrix, (0, 1), (DENSE, DENSE), (), np.int32),
        ("blocks", blocks, (0, 1, 2, 3), (DENSE, CSR, DENSE, DENSE), ((0, 2), (1, 2)), np.uint8),
        ("row_blocks", matrix, (0, 1, 2), (DENSE, CSR, DENSE), ((1, 4),), np.int32),
        ("volume", volume, (0, 1, 2), (CSR, CSR, CSR), (), np.uint16),
    ]:
        for dtype in [np.float32, np.int8]:
            data = data.astype(np.float32)
            values = data if dtype == np.float32 else np.round(40 * data).astype(np.int8)
            scale = {} if dtype == np.float32 else {"scale": 0.025, "zero": 0}
            model = Model()
            graph = model.graph()
            x = graph.input("x", data.shape)
            w = constant(graph, "w", values, parameters)
            dense = graph.tensor("dense", data.shape, values.dtype.name, **scale)
            if scale:
                graph.table.tensors[w].quantization = graph.table.tensors[dense].quantization
            graph.op("DENSIFY", [w], [dense], "DensifyOptions")
            real = dense
            if scale:
                real = graph.tensor("real", data.shape)
                graph.op("DEQUANTIZE", [dense], [real], "DequantizeOptions", 2)
            y = graph.output("y", data.shape)
            graph.op("ADD", [x, real], [y], "AddOptions")
            add(f"densify_{name}_{'f32' if dtype == np.float32 else 'i8'}", model, [floats(*data.shape)])
    weights = (floats(4, 8) * (g.random((4, 8)) > 0.6)).astype(np.float32)
    model = Model()
    graph = model.graph()
    x = graph.input("x", (3, 8))
    w = constant(graph, "w", weights, ((0, 1), (DENSE, CSR), (), np.uint8))
    y = graph.output("y", (3, 4))
    graph.op("FULLY_CONNECTED", [x, w, graph.constant("b", floats(4))], [y], "FullyConnectedOptions", 8)
    add("fully_connected_sparse", model, [floats(3, 8)])
