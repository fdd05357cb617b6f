"""What the tools of onnxruntime make of an exported model: optimised, quantised, and in half precision."""

import numpy as np
import onnx
import onnxruntime as ort

KINDS = {"BertModel": "bert", "GPT2LMHeadModel": "gpt2", "T5Model": "bart", "WhisperModel": "bart"}


def base(folder, name, sources):
    """The exported model of this name."""
    for source in sources:
        path = folder / f"{source}-{name}.onnx"
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is not exported")


def variant(source, name, model, path):
    """Writes the variant of a model, and returns its inputs."""
    stored = np.load(model.with_suffix(".npz"))
    inputs = {key[3:]: stored[key] for key in stored.files if key.startswith("in.")}
    VARIANTS[source](name, model, path, inputs)
    return inputs


def optimise(level):
    def write(_name, model, path, _inputs):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    return write


def optimise_transformer(name, model, path, _inputs):
    from onnxruntime.transformers import optimizer

    made = optimizer.optimize_model(str(model), model_type=KINDS[name], num_heads=4, hidden_size=64, opt_level=0)
    made.save_model_to_file(str(path))


def quantise(format_name):
    def write(_name, model, path, inputs):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):
            def __init__(self):
                rng = np.random.default_rng(0)
                self.batches = iter([{key: like(value, rng) for key, value in inputs.items()} for _ in range(4)])

            def get_next(self):
                return next(self.batches, None)

        prepared = path.with_suffix(".prepared")
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        is_qdq = format_name == "QDQ"
        quantize_static(
            str(prepared), str(path), Reader(), quant_format=getattr(QuantFormat, format_name), per_channel=is_qdq,
            weight_type=QuantType.QInt8, activation_type=QuantType.QInt8 if is_qdq else QuantType.QUInt8,
        )  # fmt: skip
        prepared.unlink()

    return write


def like(value, rng):
    return rng.random(value.shape, dtype=np.float32) if value.dtype == np.float32 else value


def quantise_dynamically(_name, model, path, _inputs):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(model), str(path), weight_type=QuantType.QInt8)


def quantise_weights(_name, model, path, _inputs):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantiser = MatMulNBitsQuantizer(onnx.load(model), block_size=32, is_symmetric=True)
    quantiser.process()
    onnx.save(quantiser.model.model, str(path))


def halve(_name, model, path, _inputs):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(model), keep_io_types=True), str(path))


VARIANTS = {
    "optimised": optimise(ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED),
    "layout-optimised": optimise(ort.GraphOptimizationLevel.ORT_ENABLE_ALL),
    "transformers-optimised": optimise_transformer,
    "int8-qdq": quantise("QDQ"),
    "int8-qoperator": quantise("QOperator"),
    "int8-dynamic": quantise_dynamically,
    "int4-weights": quantise_weights,
    "float16": halve,
}
QUANTISED = {"int8-qdq", "int8-qoperator", "int8-dynamic", "int4-weights"}
