"""Trains a small transformer on the digits set and writes transformer.onnx beside this file.

The eight rows of an image are its tokens. Requires numpy, scikit-learn (for its data set), torch, onnx and onnxscript.
Usage: python train_transformer.py
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from train import split

HERE = Path(__file__).parent
WIDTH, HEADS, LAYERS = 64, 4, 2
EPOCHS, BATCH = 150, 64


class Layer(nn.Module):
    """Self-attention and a feed-forward network, each behind a normalisation and beside a residual."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.before_attention(x)
        q, k, v = (part(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = (q @ k.transpose(2, 3)) * (WIDTH // HEADS) ** -0.5
        y = scores.softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.before_feed(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.position = nn.Parameter(torch.randn(8, WIDTH) * 0.1)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, image):
        x = self.layers(self.embed(image.flatten(1, 2)) + self.position)
        return self.head(self.norm(x).mean(1))


def shifted(rng, images):
    """Each image moved by up to one pixel in each direction."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.empty_like(images)
    for at, (row, column) in enumerate(rng.integers(0, 3, (len(images), 2))):
        moved[at] = padded[at, :, row : row + 8, column : column + 8]
    return moved


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    images, labels, unseen, expected = split()
    model = Transformer()
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            x = torch.from_numpy(shifted(rng, images[batch]))
            loss = nn.functional.cross_entropy(model(x), torch.from_numpy(labels[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = (model(torch.from_numpy(unseen)).argmax(1).numpy() == expected).mean()
    print(f"{right:.1%} of {len(expected)} unseen images")
    path = HERE / "transformer.onnx"
    batch = torch.export.Dim("batch", min=1)
    torch.onnx.export(
        model,
        (torch.from_numpy(unseen[:2]),),
        path,
        input_names=["image"],
        output_names=["scores"],
        dynamic_shapes=({0: batch},),
        opset_version=18,
        dynamo=True,
        external_data=False,
    )
    # Without the exporter's notes, which name files of the machine.
    file = onnx.load(path)
    del file.metadata_props[:]
    for node in file.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in [*file.graph.value_info, *file.graph.input, *file.graph.output, *file.graph.initializer]:
        del value.metadata_props[:]
    onnx.save(file, path)


if __name__ == "__main__":
    main()
