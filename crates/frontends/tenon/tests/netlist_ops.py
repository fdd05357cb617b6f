"""Inputs and expected outputs of the netlist in netlists.rs, by NumPy: python netlist_ops.py IN OUT"""

import math
import sys

import numpy as np

random = np.random.default_rng(7)
shape = (2, 2, 64, 128)  # entries, t, rows, columns
p = random.uniform(0.01, 2, shape).astype(np.float32)
q = random.uniform(-1, 1, shape).astype(np.float32)
np.savez(sys.argv[1], p=p, q=q)

x, y = p.astype(np.float64), q.astype(np.float64)
inner = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def tile_of(values, rows, columns):
    """The values in the corners of zero tiles."""
    out = np.zeros((*values.shape[:2], rows, columns))
    out[..., : values.shape[2], : values.shape[3]] = values
    return out


outputs = {
    "u_exp": np.exp(x),
    "u_log": np.log(x),
    "u_sqrt": np.sqrt(x),
    "u_reciprocal": 1 / x,
    "u_sigmoid": 1 / (1 + np.exp(-x)),
    "u_tanh": np.tanh(x),
    "u_sine": np.sin(x),
    "u_cosine": np.cos(x),
    "u_abs": np.abs(x),
    "u_square": x * x,
    "u_gelu": 0.5 * x * (1 + inner),
    "u_gelu_derivative": 0.5 * (1 + inner) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "u_lrelu": np.where(x > 0, x, 0.01 * x),
    "u_nop": x,
    "u_power": y**3,
    "b_add": x + y,
    "b_subtract": x - y,
    "b_multiply": x * y,
    "b_maximum": np.maximum(x, y),
    "relu_max": np.where(y >= 0.25, 0.25, np.maximum(y, 0)),
    "relu_min": np.where(y >= 0.25, y, 0),
    "product": x @ y.swapaxes(2, 3),
    "max_c": tile_of(y.max(axis=3, keepdims=True), 64, 32),
    "max_r": tile_of(y.max(axis=2, keepdims=True), 32, 128),
    "hslice": y.reshape(2, 2, 64, 2, 64).swapaxes(2, 3).reshape(2, 4, 64, 64),
    "hstack": y.swapaxes(1, 2).reshape(2, 1, 64, 256),
    "turned": y.swapaxes(2, 3),
    # One core, ublocks row by row: two rows of four ublocks each, taken in turns.
    "splice": np.concatenate(
        [np.concatenate([half, other], axis=3) for half, other in [(x[:, :, :32], y[:, :, :32])]]
        + [np.concatenate([x[:, :, 32:], y[:, :, 32:]], axis=3)],
        axis=2,
    ),
}
np.savez(sys.argv[2], **{f"o_{name}": value.astype(np.float32) for name, value in outputs.items()})
