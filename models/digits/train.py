"""Trains the digits model and writes digits.onnx and seven.png beside this file.

Requires numpy, scikit-learn (for its digits data set) and onnx. Deterministic: the same versions produce
the same model. Usage: python train.py [--test-images FILE.npz]
With --test-images it writes the test set instead: images (n, 1, 8, 8) in 0..1, labels (n,).
"""

import argparse
import struct
import zlib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
EPOCHS = 60
BATCH = 64


def split():
    """The data set in a fixed shuffled order: two thirds for training, one third for testing."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    order = np.random.default_rng(0).permutation(len(images))
    third = len(images) // 3
    unseen, seen = order[:third], order[third:]
    return images[seen], digits.target[seen], images[unseen], digits.target[unseen]


def patches(x):
    """im2col: 3 x 3 neighbourhoods with zero padding: (n, c, h, w) -> (n, h, w, c * 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


class Conv:
    """A 3 x 3 convolution with padding 1."""

    def __init__(self, rng, c_in, c_out):
        self.w = rng.normal(0, np.sqrt(2 / (9 * c_in)), (c_out, c_in, 3, 3)).astype(np.float32)
        self.b = np.zeros(c_out, np.float32)

    def forward(self, x):
        self.shape, self.cols = x.shape, patches(x)
        y = self.cols @ self.w.reshape(len(self.w), -1).T + self.b
        return y.transpose(0, 3, 1, 2)

    def backward(self, dy):
        dy = dy.transpose(0, 2, 3, 1)
        flat = dy.reshape(-1, dy.shape[-1])
        self.dw = (flat.T @ self.cols.reshape(len(flat), -1)).reshape(self.w.shape)
        self.db = flat.sum(0)
        n, c, h, w = self.shape
        dcols = (dy @ self.w.reshape(len(self.w), -1)).reshape(n, h, w, c, 3, 3)
        dx = np.zeros((n, c, h + 2, w + 2), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, :, i : i + h, j : j + w] += dcols[..., i, j].transpose(0, 3, 1, 2)
        return dx[:, :, 1:-1, 1:-1]


class Dense:
    """A fully connected layer: matrix product and bias."""

    def __init__(self, rng, n_in, n_out):
        self.w = rng.normal(0, np.sqrt(2 / n_in), (n_in, n_out)).astype(np.float32)
        self.b = np.zeros(n_out, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, dy):
        self.dw, self.db = self.x.T @ dy, dy.sum(0)
        return dy @ self.w.T


class Relu:
    def forward(self, x):
        self.keep = x > 0
        return x * self.keep

    def backward(self, dy):
        return dy * self.keep


class MaxPool:
    """Max pooling, 2 x 2 with stride 2."""

    def forward(self, x):
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max((3, 5))
        self.mask = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, dy):
        dx = self.mask * dy[:, :, :, None, :, None]
        n, c, h, _, w, _ = dx.shape
        return dx.reshape(n, c, h * 2, w * 2)


class Flatten:
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy):
        return dy.reshape(self.shape)


def shifted(images, rng):
    """Augmentation: each image shifted by at most one pixel in each direction."""
    out = np.zeros_like(images)
    for image, target in zip(images, out):
        dy, dx = rng.integers(-1, 2, 2)
        target[0] = np.roll(np.pad(image[0], 1), (dy, dx), (0, 1))[1:-1, 1:-1]
    return out


def train():
    images, labels, unseen, unseen_labels = split()
    rng = np.random.default_rng(1)
    layers = [
        Conv(rng, 1, 16), Relu(), Conv(rng, 16, 32), Relu(), MaxPool(),
        Conv(rng, 32, 32), Relu(), MaxPool(), Flatten(),
        Dense(rng, 32 * 2 * 2, 64), Relu(), Dense(rng, 64, 10),
    ]  # fmt: skip
    learned = [layer for layer in layers if isinstance(layer, (Conv, Dense))]
    moments = [[np.zeros_like(p) for p in (l.w, l.w, l.b, l.b)] for l in learned]

    def forward(x):
        for layer in layers:
            x = layer.forward(x)
        return x

    step = 0
    for epoch in range(EPOCHS):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(images))
        batch_images = shifted(images, rng)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            logits = forward(batch_images[chosen])
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(chosen)), labels[chosen]] -= 1
            grad = p / len(chosen)
            for layer in reversed(layers):
                grad = layer.backward(grad)
            step += 1
            for layer, (mw, vw, mb, vb) in zip(learned, moments):  # Adam
                for value, g, m, v in ((layer.w, layer.dw, mw, vw), (layer.b, layer.db, mb, vb)):
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    value -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    accuracy = (forward(unseen).argmax(1) == unseen_labels).mean()
    print(f"accuracy on the {len(unseen)} unseen images, by NumPy: {accuracy:.2%}")
    return learned


def write_onnx(learned, path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    c1, c2, c3, d1, d2 = learned
    initialisers = []
    for name, layer in zip(("conv1", "conv2", "conv3", "dense1", "dense2"), learned):
        initialisers.append(numpy_helper.from_array(layer.w, f"{name}.weight"))
        initialisers.append(numpy_helper.from_array(layer.b, f"{name}.bias"))

    def conv(name, x, y):
        return helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [y], name,
                                kernel_shape=[3, 3], pads=[1, 1, 1, 1])  # fmt: skip

    def simple(op, name, x, y, **attributes):
        return helper.make_node(op, [x], [y], name, **attributes)

    def dense(name, x, y):
        return helper.make_node("Gemm", [x, f"{name}.weight", f"{name}.bias"], [y], name)

    nodes = [
        conv("conv1", "image", "c1"), simple("Relu", "relu1", "c1", "r1"),
        conv("conv2", "r1", "c2"), simple("Relu", "relu2", "c2", "r2"),
        simple("MaxPool", "pool1", "r2", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        conv("conv3", "p1", "c3"), simple("Relu", "relu3", "c3", "r3"),
        simple("MaxPool", "pool2", "r3", "p2", kernel_shape=[2, 2], strides=[2, 2]),
        simple("Flatten", "flatten", "p2", "f"),
        dense("dense1", "f", "h"), simple("Relu", "relu4", "h", "r4"), dense("dense2", "r4", "logits"),
        simple("Softmax", "softmax", "logits", "probabilities", axis=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        initialisers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {
        "tenon.labels": "\n".join("zero one two three four five six seven eight nine".split()),
        "tenon.image.mean": "0",
        "tenon.image.scale": repr(1 / 255),
        "tenon.image.channels": "gray",
        "tenon.image.layout": "nchw",
    })  # fmt: skip
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def write_png(pixels, path):
    """An 8-bit gray PNG of a (height, width) array."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test-images", type=Path, help="only write the unseen third to this .npz")
    arguments = parser.parse_args()
    _, _, unseen, labels = split()
    if arguments.test_images:
        np.savez(arguments.test_images, images=unseen, labels=labels.astype(np.int64))
        return
    write_onnx(train(), HERE / "digits.onnx")
    seven = unseen[np.flatnonzero(labels == 7)[0], 0]
    write_png(np.round(seven * 255).repeat(16, 0).repeat(16, 1), HERE / "seven.png")


if __name__ == "__main__":
    main()
