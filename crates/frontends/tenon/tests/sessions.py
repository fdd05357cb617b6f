"""Runs models with state in onnxruntime, feeding outputs to inputs.

usage: sessions.py DECODER.onnx FOLDER

Writes FOLDER/decoder.npz (the prompt, the tokens and the last logits of greedy decoding), FOLDER/recurrent.onnx and
FOLDER/recurrent.npz (chunks of a sequence, and the outputs).
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


decoder()
recurrent()
