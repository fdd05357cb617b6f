"""Writes LiteRT models through the published schema's Python package, and runs them with LiteRT's interpreter."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {
    "float32": s.TensorType.FLOAT32, "float16": s.TensorType.FLOAT16, "int8": s.TensorType.INT8,
    "uint8": s.TensorType.UINT8, "int16": s.TensorType.INT16, "int32": s.TensorType.INT32,
    "int64": s.TensorType.INT64, "bool": s.TensorType.BOOL, "uint32": s.TensorType.UINT32,
}


class Graph:
    """A subgraph under construction."""

    def __init__(self, model, name):
        self.model = model
        self.table = s.SubGraphT()
        self.table.name = name
        self.table.tensors, self.table.operators = [], []
        self.table.inputs, self.table.outputs = [], []

    def tensor(self, name, shape, dtype="float32", data=None, scale=None, zero=None, axis=0, signature=None,
               variable=False):
        tensor = s.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), TYPES[dtype]
        tensor.hasRank = True
        tensor.buffer = 0 if data is None else self.model.buffer(np.asarray(data).tobytes())
        tensor.isVariable = variable
        if signature is not None:
            tensor.shapeSignature = list(signature)
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            parameters = s.QuantizationParametersT()
            parameters.scale = list(scales)
            zeros = 0 if zero is None else zero
            parameters.zeroPoint = [int(z) for z in np.broadcast_to(zeros, scales.shape)]
            parameters.quantizedDimension = axis
            tensor.quantization = parameters
        self.table.tensors.append(tensor)
        return len(self.table.tensors) - 1

    def input(self, name, shape, dtype="float32", **more):
        index = self.tensor(name, shape, dtype, **more)
        self.table.inputs.append(index)
        return index

    def constant(self, name, data, **more):
        data = np.asarray(data)
        return self.tensor(name, data.shape, str(data.dtype), data, **more)

    def output(self, name, shape, dtype="float32", **more):
        index = self.tensor(name, shape, dtype, **more)
        self.table.outputs.append(index)
        return index

    def op(self, code, inputs, outputs, options=None, version=1, custom=None, custom_options=None, **fields):
        """One operator; options is the name of its table, fields are those of the table; those of a custom one are bytes."""
        operator = s.OperatorT()
        operator.opcodeIndex = self.model.code(code, version, custom)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options is not None:
            operator.builtinOptionsType = getattr(s.BuiltinOptions, options)
            table = getattr(s, options + "T")()
            for name, value in fields.items():
                assert hasattr(table, name), name
                setattr(table, name, value)
            operator.builtinOptions = table
        if custom_options is not None:
            operator.customOptions = list(custom_options)
        self.table.operators.append(operator)


class Model:
    def __init__(self):
        self.table = s.ModelT()
        self.table.version, self.table.description = 3, "test"
        self.table.buffers, self.table.operatorCodes, self.table.subgraphs = [s.BufferT()], [], []
        self.codes = {}

    def buffer(self, data):
        buffer = s.BufferT()
        buffer.data = list(data)
        self.table.buffers.append(buffer)
        return len(self.table.buffers) - 1

    def code(self, name, version, custom):
        key = (name, version, custom)
        if key not in self.codes:
            code = s.OperatorCodeT()
            value = getattr(s.BuiltinOperator, name)
            code.builtinCode, code.deprecatedBuiltinCode, code.version = value, min(value, 127), version
            code.customCode = custom
            self.codes[key] = len(self.table.operatorCodes)
            self.table.operatorCodes.append(code)
        return self.codes[key]

    def graph(self, name="main"):
        graph = Graph(self, name)
        self.table.subgraphs.append(graph.table)
        return graph

    def signature(self, key, subgraph, inputs, outputs):
        def maps(pairs):
            result = []
            for name, index in pairs.items():
                entry = s.TensorMapT()
                entry.name, entry.tensorIndex = name, index
                result.append(entry)
            return result
        definition = s.SignatureDefT()
        definition.signatureKey, definition.subgraphIndex = key, subgraph
        definition.inputs, definition.outputs = maps(inputs), maps(outputs)
        if self.table.signatureDefs is None:
            self.table.signatureDefs = []
        self.table.signatureDefs.append(definition)

    def bytes(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.table.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def run(model, inputs):
    """The outputs of the interpreter, without delegates."""
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, inputs):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
