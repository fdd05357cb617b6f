"""Writes ensembles of decision trees, as ONNX and as LightGBM's text, and their inputs.

Usage: python tree_models.py FOLDER

The trees are those of a regression: each grows by random splits of 10,000 random rows of 50 features, to a depth of 6 or 12,
while a node has at least 20 rows (extremely randomized trees: Geurts et al., 2006).
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

ROWS, FEATURES, LEAST = 10_000, 50, 20
TREES, DEPTHS, BATCHES = (100, 1000), (6, 12), (1, 100, 10_000)


class Tree:
    """Nodes in the order in which they are made: feature, threshold and children; a leaf is -1 - its number."""

    def __init__(self, x, depth, random):
        self.features, self.thresholds, self.children, self.values = [], [], [], []
        self.grow(x, np.arange(len(x)), depth, random)

    def grow(self, x, rows, depth, random):
        if depth == 0 or len(rows) < LEAST:
            self.values.append(np.float32(random.standard_normal() / 16))
            return -len(self.values)
        feature = int(random.integers(x.shape[1]))
        column = x[rows, feature]
        low, high = column[random.integers(len(rows), size=2)]
        threshold = np.float32((low + high) / 2)
        node = len(self.features)
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.children.append([0, 0])
        passes = column <= threshold
        for side, part in enumerate((rows[passes], rows[~passes])):
            self.children[node][side] = self.grow(x, part, depth - 1, random)
        return node

    def lightgbm(self, number):
        """The lines of a tree of a LightGBM model."""
        join = lambda values: " ".join(map(repr, map(float, values)))
        ints = lambda values: " ".join(map(str, values))
        sides = list(zip(*self.children))
        count = len(self.features)
        return "\n".join(
            [
                f"Tree={number}",
                f"num_leaves={len(self.values)}",
                "num_cat=0",
                f"split_feature={ints(self.features)}",
                f"split_gain={ints([1] * count)}",
                f"threshold={join(self.thresholds)}",
                f"decision_type={ints([0] * count)}",
                f"left_child={ints(sides[0])}",
                f"right_child={ints(sides[1])}",
                f"leaf_value={join(self.values)}",
                f"leaf_weight={ints([1] * len(self.values))}",
                f"leaf_count={ints([1] * len(self.values))}",
                f"internal_value={ints([0] * count)}",
                f"internal_weight={ints([1] * count)}",
                f"internal_count={ints([1] * count)}",
                "is_linear=0",
                "shrinkage=1",
            ]
        )


def lightgbm(trees):
    """A LightGBM model."""
    texts = [tree.lightgbm(number) + "\n\n\n" for number, tree in enumerate(trees)]
    names = " ".join(f"Column_{feature}" for feature in range(FEATURES))
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={FEATURES - 1}",
        "objective=regression",
        f"feature_names={names}",
        "feature_infos=" + " ".join(["[-10:10]"] * FEATURES),
        "tree_sizes=" + " ".join(str(len(text)) for text in texts),
        "",
        "",
    ]
    return "\n".join(head) + "".join(texts) + "end of trees\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"


def onnx_model(trees, rows):
    """An ONNX model of ai.onnx.ml."""
    nodes = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    targets = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(tree, number, node, feature, value, mode, children):
        row = (tree, number, feature, value, mode, *children)
        for column, element in zip(nodes.values(), row):
            column.append(element)

    for number, tree in enumerate(trees):
        count = len(tree.features)
        position = lambda child: child if child >= 0 else count - 1 - child
        for node in range(count):
            children = [position(child) for child in tree.children[node]]
            add(number, node, node, tree.features[node], float(tree.thresholds[node]), "BRANCH_LEQ", children)
        for leaf, value in enumerate(tree.values):
            add(number, count + leaf, leaf, 0, 0.0, "LEAF", (0, 0))
            for name, element in zip(targets, (number, count + leaf, 0, float(value))):
                targets[name].append(element)
    attributes = {f"nodes_{name}": column for name, column in nodes.items()}
    attributes |= {f"target_{name}": column for name, column in targets.items()}
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, FEATURES])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 1])
    graph = helper.make_graph([node], "trees", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for depth in DEPTHS:
        random = np.random.default_rng(depth)
        x = random.standard_normal((ROWS, FEATURES)).astype(np.float32)
        trees = [Tree(x, depth, random) for _ in range(max(TREES))]
        for count in TREES:
            name = f"trees-{count}-{depth}"
            (folder / f"{name}.txt").write_text(lightgbm(trees[:count]))
            for rows in BATCHES:
                model = onnx_model(trees[:count], rows)
                path = folder / f"{name}-{rows}.onnx"
                onnx.save(model, path)
                session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
                inputs = {"in.x": x[:rows]}
                y = session.run(None, {"x": x[:rows]})[0]
                np.savez(path.with_suffix(".npz"), **inputs, **{"out.y": y})


main()
