"""Runs models with state in onnxruntime, feeding outputs to inputs.

usage: sessions.py DECODER.onnx FOLDER

Writes FOLDER/decoder.npz (the prompt, the tokens and the last logits of greedy decoding), FOLDER/recurrent.onnx and
FOLDER/recurrent.npz (chunks of a sequence, and the outputs), FOLDER/cache.onnx and FOLDER/cache.npz (chunks of tokens,
the logits, and the cache after each chunk).
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DECODER, FOLDER = sys.argv[1], Path(sys.argv[2])
STEPS = 12


def decoder():
    session = onnxruntime.InferenceSession(DECODER)
    inputs = {value.name: value for value in session.get_inputs()}
    layers, two, batch, heads, _, width = inputs["past"].shape
    prompt = np.array([[5, 117, 42, 8, 199]], np.int64)
    tokens, past = prompt, np.zeros((layers, two, batch, heads, 0, width), np.float32)
    made = []
    for _ in range(STEPS):
        begin = past.shape[4]
        positions = np.arange(begin, begin + tokens.shape[1], dtype=np.int64)[None]
        logits, past = session.run(
            ["logits", "present"], {"input_ids": tokens, "position_ids": positions, "past": past}
        )
        made.append(int(logits[0, -1].argmax()))
        tokens = np.array([[made[-1]]], np.int64)
    np.savez(FOLDER / "decoder.npz", prompt=prompt, tokens=np.array([made], np.int64), logits=logits, past=past)


def recurrent():
    rng = np.random.default_rng(3)
    hidden, width = 6, 4
    weights = {
        "w": rng.standard_normal((1, 4 * hidden, width)).astype(np.float32),
        "r": rng.standard_normal((1, 4 * hidden, hidden)).astype(np.float32),
    }
    value = helper.make_tensor_value_info
    state = (1, 1, hidden)
    lstm = helper.make_node("LSTM", ["x", "w", "r", "", "", "h0", "c0"], ["y", "hn", "cn"], hidden_size=hidden)
    graph = helper.make_graph(
        [lstm],
        "recurrent",
        [
            value("x", TensorProto.FLOAT, ("time", 1, width)),
            value("h0", TensorProto.FLOAT, state),
            value("c0", TensorProto.FLOAT, state),
        ],
        [
            value("y", TensorProto.FLOAT, ("time", 1, 1, hidden)),
            value("hn", TensorProto.FLOAT, state),
            value("cn", TensorProto.FLOAT, state),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, FOLDER / "recurrent.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    h, c = np.zeros(state, np.float32), np.zeros(state, np.float32)
    arrays = {}
    for index, time in enumerate((3, 1, 5, 1)):
        x = rng.standard_normal((time, 1, width)).astype(np.float32)
        y, h, c = session.run(["y", "hn", "cn"], {"x": x, "h0": h, "c0": c})
        arrays |= {f"x{index}": x, f"y{index}": y}
    np.savez(FOLDER / "recurrent.npz", **arrays)



CHUNKS = ([5, 17, 2, 9], [3], [11], [0, 30, 7], [29], [4])


def cache():
    """A decoder of two layers with a cache for keys and for values of each, as exporters write it."""
    rng = np.random.default_rng(8)
    vocabulary, heads, width = 32, 3, 8
    features = heads * width
    nodes, weights, inputs, outputs = [], {}, [], []

    def weight(name, *shape):
        weights[name] = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        return name

    def emit(operator, operands, output, **attributes):
        nodes.append(helper.make_node(operator, operands, [output], name=output + ".node", **attributes))
        return output

    value = helper.make_tensor_value_info
    weights["split"] = np.array([1, -1, heads, width], np.int64)
    weights["joined"] = np.array([1, -1, features], np.int64)
    weights["scale"] = np.array(width**-0.5, np.float32)
    inputs.append(value("input_ids", TensorProto.INT64, (1, "new")))
    x = emit("Gather", [weight("embedding", vocabulary, features), "input_ids"], "embedded")
    for layer in range(2):
        p = f"l{layer}."
        split = {}
        for part in "qkv":
            projected = emit("MatMul", [x, weight(p + "w" + part, features, features)], p + part)
            reshaped = emit("Reshape", [projected, "split"], p + part + ".split")
            split[part] = emit("Transpose", [reshaped], p + part + ".heads", perm=[0, 2, 1, 3])
        for part, name in (("k", "key"), ("v", "value")):
            past, present = f"past_key_values.{layer}.{name}", f"present.{layer}.{name}"
            inputs.append(value(past, TensorProto.FLOAT, (1, heads, "past", width)))
            split[part] = emit("Concat", [past, split[part]], present, axis=-2)
            outputs.append(value(present, TensorProto.FLOAT, (1, heads, "past + new", width)))
        keys = emit("Transpose", [split["k"]], p + "keys", perm=[0, 1, 3, 2])
        scores = emit("Mul", [emit("MatMul", [split["q"], keys], p + "products"), "scale"], p + "scores")
        weighted = emit("MatMul", [emit("Softmax", [scores], p + "softmax", axis=-1), split["v"]], p + "weighted")
        merged = emit("Transpose", [weighted], p + "merged", perm=[0, 2, 1, 3])
        attended = emit("Reshape", [merged, "joined"], p + "attended")
        projected = emit("MatMul", [attended, weight(p + "wo", features, features)], p + "projected")
        x = emit("Add", [x, projected], p + "x")
    emit("MatMul", [x, weight("head", features, vocabulary)], "logits")
    outputs.insert(0, value("logits", TensorProto.FLOAT, (1, "new", vocabulary)))
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "cache", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, FOLDER / "cache.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    state = {i.name: np.zeros((1, heads, 0, width), np.float32) for i in session.get_inputs()[1:]}
    arrays = {}
    for index, tokens in enumerate(CHUNKS):
        tokens = np.array([tokens], np.int64)
        made = dict(zip(names, session.run(names, {"input_ids": tokens, **state})))
        state = {name.replace("present", "past_key_values"): made[name] for name in names[1:]}
        arrays |= {f"tokens{index}": tokens, f"logits{index}": made["logits"]}
        arrays[f"key{index}"] = made["present.1.key"]
    np.savez(FOLDER / "cache.npz", **arrays)


decoder()
recurrent()
cache()
