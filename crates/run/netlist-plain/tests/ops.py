"""Computes the cases of ops.rs with NumPy: prints a line per case, its name and its floats in hexadecimal.

Tensors are [t, rows, columns] of elements; `generate` is the same sequence as in ops.rs.
"""
import math
import sys

import numpy as np

T = 32


def generate(shape, seed, low=-1.0, high=1.0):
    count = int(np.prod(shape))
    index = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 97)) % np.uint64(2**32)
    unit = (index.astype(np.float64) / 2**32).astype(np.float32)
    return (unit * np.float32(high - low) + np.float32(low)).reshape(shape)


def show(name, array):
    print(name, np.ascontiguousarray(array, dtype="<f4").tobytes().hex())


x = generate((2, 64, 32), 1, -3, 3).astype(np.float64)
positive = generate((2, 64, 32), 2, 0.01, 9).astype(np.float64)
root = math.sqrt(2 / math.pi)
inner = np.tanh(root * (x + 0.044715 * x**3))
show("exp", np.exp(x))
show("log", np.log(positive))
show("sqrt", np.sqrt(positive))
show("reciprocal", 1 / positive)
show("sigmoid", 1 / (1 + np.exp(-x)))
show("tanh", np.tanh(x))
show("sine", np.sin(x))
show("cosine", np.cos(x))
show("abs", np.abs(x))
show("square", x * x)
show("gelu", 0.5 * x * (1 + inner))
show("gelu_derivative", 0.5 * (1 + inner) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
show("lrelu", np.where(x > 0, x, 0.1 * x))
show("power", x**3)

a, b = generate((2, 64, 96), 3), generate((2, 96, 32), 4)
product = np.einsum("zik,zkj->zij", a.astype(np.float64), b.astype(np.float64))
bias = generate((2, 64, 32), 5)
show("matmul", product)
rows = np.repeat(bias.reshape(2, 2, T, 32)[:, :, :1], T, axis=2).reshape(2, 64, 32)
show("bias", product + rows)
show("accumulate", product.sum(axis=0, keepdims=True))

# in0 has C * m_k columns, block b of column c is at c + C b; in1 has m_k rows of tiles.
wide, narrow = generate((1, 32, 4 * T), 6), generate((1, 2 * T, 2 * T), 7)
deep = np.zeros((1, 32, 2 * T))
for c in range(2):
    for block in range(2):
        left = wide[0, :, (c + 2 * block) * T : (c + 2 * block + 1) * T].astype(np.float64)
        deep[0, :, c * T : (c + 1) * T] += left @ narrow[0, block * T : (block + 1) * T, c * T : (c + 1) * T]
show("depthwise", deep)

r = generate((4, 64, 96), 8)
first = np.zeros((4, 64, T))
first[:, :, 0] = r.max(axis=2)
show("reduce c", first)
top = np.zeros((4, T, 96))
top[:, 0, :] = r.max(axis=1)
show("reduce r", top)
corner = np.zeros((4, T, T))
corner[:, 0, 0] = r.max(axis=(1, 2))
show("reduce rc", corner)
show("reduce z", r.reshape(2, 2, 64, 96).max(axis=1))

scale = generate((2, 64, 32), 9, 5, 40)
half = np.float32(0.5)
pre = (x.astype(np.float32) * scale + half).astype(np.float32)
show("quantization", np.clip(np.sign(pre) * np.floor(np.abs(pre) + half), -127, 127))
show("dequantization", (x.astype(np.float32) - half) * scale)

v = generate((1, 32, 128), 10)
order = np.argsort(-v.reshape(1, 32, 2, 64), axis=3, kind="stable")[..., :8]
best = np.zeros((1, 32, 2, T))
best[..., :8] = np.take_along_axis(v.reshape(1, 32, 2, 64), order, axis=3)
show("topk", best.reshape(1, 32, 2 * T))
indices = np.zeros((1, 32, 2, T))
indices[..., :8] = order + np.arange(2).reshape(1, 1, 2, 1) * 64
show("argmax", indices.reshape(1, 32, 2 * T))

# Slices 1 to 2 of every 3 of the first, then slice 0 of every 1 of the second.
s0, s1 = generate((6, 32, 32), 11), generate((2, 32, 32), 12)
show("splice", np.stack([s0[1], s0[2], s1[0], s0[4], s0[5], s1[1]]))
sys.exit(0)
