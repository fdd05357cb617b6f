"""Exports the model families of tests and benchmarks, with random weights of fixed seeds.

    python export.py small            writes small/NAME.onnx and small/NAME.npz beside this file (committed)
    python export.py full DIR [NAME]  writes the full-size models into DIR (not committed)

Variants with symbolic dimensions (NAME-dynamic) have an .npz for each of several sizes: NAME.1.npz and so on.

The .npz contains `in.NAME` for each input and `out.NAME` for each output, computed by onnxruntime.
Requires torch, torchvision, transformers, onnx, onnxscript and onnxruntime, which CI does not require.
"""

import argparse
import io
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torchvision
import dynamic
import half
from onnx import helper
from torch import nn
from torchvision.models import efficientnet, mobilenet_v2, resnet50
from torchvision.models.resnet import Bottleneck, ResNet
from transformers import BertConfig, BertModel, DynamicCache, GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).parent
OPSET = 17


class SmallResNet(ResNet):
    """A ResNet of bottleneck blocks with an eighth of the width."""

    def __init__(self):
        super().__init__(Bottleneck, [1, 2, 1, 1], num_classes=10)
        self.fc = nn.Linear(64 * Bottleneck.expansion, 10)

    def _make_layer(self, block, planes, blocks, **rest):
        return super()._make_layer(block, planes // 8, blocks, **rest)


class ConvBlock(nn.Sequential):
    """Convolution, batch norm, SiLU."""

    def __init__(self, c_in, c_out, k=1, s=1):
        super().__init__(nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False), nn.BatchNorm2d(c_out), nn.SiLU())


class SplitBlock(nn.Module):
    """A cross-stage partial block: residual bottlenecks on half of the channels, all stages concatenated."""

    def __init__(self, c_in, c_out, n):
        super().__init__()
        self.c = c_out // 2
        self.enter = ConvBlock(c_in, 2 * self.c)
        self.steps = nn.ModuleList(
            nn.Sequential(ConvBlock(self.c, self.c, 3), ConvBlock(self.c, self.c, 3)) for _ in range(n)
        )
        self.leave = ConvBlock((2 + n) * self.c, c_out)

    def forward(self, x):
        parts = list(self.enter(x).split((self.c, self.c), 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    """Spatial pyramid pooling: three successive max pools, concatenated."""

    def __init__(self, c):
        super().__init__()
        self.enter, self.leave = ConvBlock(c, c // 2), ConvBlock(c * 2, c)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = self.enter(x)
        y = self.pool(x)
        z = self.pool(y)
        return self.leave(torch.cat((x, y, z, self.pool(z)), 1))


class Detector(nn.Module):
    """A one-stage detector: three scales, upsampling path, box distributions and class scores."""

    def __init__(self, width, classes, bins=16):
        super().__init__()
        w = width
        self.stem = nn.Sequential(ConvBlock(3, w, 3, 2), ConvBlock(w, 2 * w, 3, 2), SplitBlock(2 * w, 2 * w, 1))
        self.down3 = nn.Sequential(ConvBlock(2 * w, 4 * w, 3, 2), SplitBlock(4 * w, 4 * w, 2))
        self.down4 = nn.Sequential(ConvBlock(4 * w, 8 * w, 3, 2), SplitBlock(8 * w, 8 * w, 2))
        self.down5 = nn.Sequential(ConvBlock(8 * w, 8 * w, 3, 2), SplitBlock(8 * w, 8 * w, 1), PyramidPool(8 * w))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.mix4, self.mix3 = SplitBlock(16 * w, 8 * w, 1), SplitBlock(12 * w, 4 * w, 1)
        self.bins, self.classes = bins, classes
        self.heads = nn.ModuleList(
            nn.Sequential(ConvBlock(c, c, 3), nn.Conv2d(c, 4 * bins + classes, 1)) for c in (4 * w, 8 * w, 8 * w)
        )
        self.register_buffer("ramp", torch.arange(bins, dtype=torch.float32))

    def forward(self, x):
        p3 = self.down3(self.stem(x))
        p4 = self.down4(p3)
        p5 = self.down5(p4)
        p4 = self.mix4(torch.cat((self.up(p5), p4), 1))
        p3 = self.mix3(torch.cat((self.up(p4), p3), 1))
        boxes, scores = [], []
        for head, feature, stride in zip(self.heads, (p3, p4, p5), (8, 16, 32)):
            y = head(feature).flatten(2)
            box, score = y.split((4 * self.bins, self.classes), 1)
            h, w = feature.shape[2:]
            ys, xs = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) + 0.5 for n in (h, w)), indexing="ij")
            centre = torch.stack((xs.flatten(), ys.flatten()))[None]
            sides = box.view(-1, 4, self.bins, h * w).transpose(1, 2).softmax(1)
            sides = (sides * self.ramp.view(1, -1, 1, 1)).sum(1)
            low, high = centre - sides[:, :2], centre + sides[:, 2:]
            boxes.append(torch.cat(((low + high) / 2, high - low), 1) * stride)
            scores.append(score.sigmoid())
        return torch.cat((torch.cat(boxes, 2), torch.cat(scores, 2)), 1)


class Encoder(nn.Module):
    """BERT: token ids and mask in, hidden states out."""

    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, input_ids, attention_mask):
        out = self.bert(input_ids=input_ids, attention_mask=attention_mask)
        return out.last_hidden_state, out.pooler_output


class CachedDecoder(nn.Module):
    """GPT-2: one step with a key-value cache, which the outputs extend."""

    def __init__(self, config):
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(config)

    def forward(self, input_ids, position_ids, past):
        cache = DynamicCache(ddp_cache_data=[(past[i, 0], past[i, 1]) for i in range(past.shape[0])])
        out = self.gpt2(input_ids=input_ids, position_ids=position_ids, past_key_values=cache, use_cache=True)
        present = torch.stack([torch.stack((l.keys, l.values)) for l in out.past_key_values.layers])
        return out.logits, present


class Tagger(nn.Module):
    """A two-layer LSTM over a sequence, with a class per step."""

    def __init__(self, features, hidden, classes):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.out(y).softmax(-1)


class Mlp(nn.Sequential):
    """784-256-128-10."""

    def __init__(self):
        super().__init__(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


class ManyNodes(nn.Module):
    """A graph of 2,000 small nodes: the cost of a node that computes hardly anything."""

    def forward(self, x):
        values = [x]
        for index in range(1000):
            # Each pair depends on the last value and on an earlier one.
            values.append(torch.tanh(values[-1] + values[index * 7 // 11]))
        return values[-1]


def image(size, batch=1):
    return {"image": torch.rand(batch, 3, size, size)}


def tokens(vocabulary, length, batch=1):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[:, length * 3 // 4 :] = 0
    return {"input_ids": torch.randint(vocabulary, (batch, length)), "attention_mask": mask}


def step(config, past, new=1):
    head = config.n_embd // config.n_head
    return {
        "input_ids": torch.randint(config.vocab_size, (1, new)),
        "position_ids": torch.arange(past, past + new)[None],
        "past": torch.randn(config.n_layer, 2, 1, config.n_head, past, head) * 0.5,
    }


def small_efficientnet():
    settings, _ = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.4)
    return efficientnet.EfficientNet(settings, dropout=0.2, last_channel=64, num_classes=10)


SMALL_BERT = BertConfig(
    vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
    max_position_embeddings=32,
)  # fmt: skip
SMALL_GPT2 = GPT2Config(vocab_size=200, n_positions=32, n_embd=64, n_layer=2, n_head=4)

# name: (model, inputs, outputs) for each size; each entry is evaluated after the seed is set.
FAMILIES = {
    "resnet50": {
        "small": lambda: (SmallResNet(), image(64), ["logits"]),
        "full": lambda: (resnet50(), image(224), ["logits"]),
    },
    "mobilenetv2": {
        "small": lambda: (mobilenet_v2(width_mult=0.1, num_classes=10), image(64), ["logits"]),
        "full": lambda: (mobilenet_v2(), image(224), ["logits"]),
    },
    "efficientnet-b0": {
        "small": lambda: (small_efficientnet(), image(64), ["logits"]),
        "full": lambda: (efficientnet.efficientnet_b0(), image(224), ["logits"]),
    },
    "detector": {
        "small": lambda: (Detector(4, 3), image(64), ["detections"]),
        "full": lambda: (Detector(16, 80), image(640), ["detections"]),
    },
    "bert": {
        "small": lambda: (Encoder(SMALL_BERT), tokens(200, 16), ["hidden", "pooled"]),
        "full": lambda: (Encoder(BertConfig()), tokens(30522, 128), ["hidden", "pooled"]),
    },
    "gpt2": {
        "small": lambda: (CachedDecoder(SMALL_GPT2), step(SMALL_GPT2, 7), ["logits", "present"]),
        "full": lambda: (CachedDecoder(GPT2Config()), step(GPT2Config(), 127), ["logits", "present"]),
    },
    "gpt2-prefill": {
        "full": lambda: (CachedDecoder(GPT2Config()), step(GPT2Config(), 1, 64), ["logits", "present"]),
    },
    "nodes-2000": {
        "full": lambda: (ManyNodes(), {"x": torch.randn(1, 16)}, ["y"]),
    },
    "lstm": {
        "small": lambda: (Tagger(12, 24, 5), {"x": torch.randn(1, 9, 12)}, ["classes"]),
        "full": lambda: (Tagger(128, 512, 50), {"x": torch.randn(1, 64, 128)}, ["classes"]),
    },
    "mlp": {
        "small": lambda: (nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4)), {"x": torch.randn(1, 20)}, ["y"]),
        "full": lambda: (Mlp(), {"x": torch.randn(1, 784)}, ["y"]),
    },
}  # fmt: skip
# Copies in half precision. Those of full size are made where they are named.
HALF = {f"{name}-f16": name for name in FAMILIES}
SMALL_HALF = ["mobilenetv2-f16", "bert-f16"]
# Variants with symbolic dimensions: the family, the names of dimensions, and inputs of several sizes.
DYNAMIC = {
    "detector-dynamic": (
        "detector",
        {"image": {0: "batch", 2: "height", 3: "width"}},
        lambda: [image(64), {"image": torch.rand(2, 3, 96, 64)}, {"image": torch.rand(1, 3, 32, 160)}],
    ),
    "bert-dynamic": (
        "bert",
        {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")},
        lambda: [tokens(200, 16), tokens(200, 5, 2), tokens(200, 1), tokens(200, 32, 3)],
    ),
    "gpt2-dynamic": (
        "gpt2",
        {"input_ids": {1: "new"}, "position_ids": {1: "new"}, "past": {4: "past"}},
        lambda: [step(SMALL_GPT2, 7), step(SMALL_GPT2, 0, 5), step(SMALL_GPT2, 12, 3), step(SMALL_GPT2, 31)],
    ),
    "lstm-dynamic": (
        "lstm",
        {"x": {1: "time"}},
        lambda: [{"x": torch.randn(1, n, 12)} for n in (9, 1, 30)],
    ),
}  # fmt: skip


def calibrate(model, inputs):
    """Sets the statistics of batch norms from random images, so that activations keep their scale."""
    if any(isinstance(m, nn.BatchNorm2d) for m in model.modules()):
        model.train()
        shape = inputs["image"].shape
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
        with torch.no_grad():
            for _ in range(2):
                model(torch.rand(4, *shape[1:]))
    return model.eval()


def export(name, size, path, axes=None):
    torch.manual_seed(0)
    model, inputs, outputs = FAMILIES[name][size]()
    model = calibrate(model, inputs)
    with torch.no_grad():
        torch.onnx.export(
            model, tuple(inputs.values()), str(path), input_names=list(inputs), output_names=outputs,
            opset_version=OPSET, dynamo=False, do_constant_folding=True, dynamic_axes=axes,
        )  # fmt: skip
    onnx.checker.check_model(str(path))
    return {key: value.numpy() for key, value in inputs.items()}


def quantise(source, path, inputs):
    """Post-training quantisation to QDQ form: int8 weights per channel, int8 activations."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            rng = np.random.default_rng(0)
            self.batches = iter(
                [{k: rng.random(v.shape, dtype=np.float32) for k, v in inputs.items()} for _ in range(4)]
            )

        def get_next(self):
            return next(self.batches, None)

    quantize_static(
        str(source), str(path), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
        weight_type=QuantType.QInt8, activation_type=QuantType.QInt8,
    )  # fmt: skip


def quantise_dynamically(source, path, _):
    """int8 weights per channel; rows are quantised when the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(source), str(path), per_channel=True, weight_type=QuantType.QInt8)


def quantise_weights(source, path, _):
    """Weights of matmuls of 4 bits, with a scale for each block of 32."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = ONNXModel(onnx.load(source))
    # The quantiser leaves Gemm as it is.
    model.replace_gemm_with_matmul()
    quantiser = MatMulNBitsQuantizer(model.model, block_size=32, is_symmetric=True)
    quantiser.process()
    onnx.save(quantiser.model.model, path)


# The family, and how its model is quantised.
QUANTISED = {
    "resnet50-int8": ("resnet50", quantise),
    "bert-int8": ("bert", quantise_dynamically),
    "gpt2-int4": ("gpt2", quantise_weights),
}


def reference(path, inputs):
    """The outputs of onnxruntime without graph optimisations, which would change the arithmetic."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def save(file, inputs, outputs):
    arrays = {f"in.{k}": v for k, v in inputs.items()} | {f"out.{k}": v for k, v in outputs.items()}
    np.savez(file, **arrays)


def export_dynamic(name, folder):
    """A variant of a family with symbolic dimensions."""
    family, axes, samples = DYNAMIC[name]
    path = folder / f"{name}.onnx"
    export(family, "small", path, axes)
    torch.manual_seed(1)
    save_samples(name, folder, samples())


def export_model(name, size, folder):
    """A model of dynamic.py."""
    torch.manual_seed(0)
    made = dynamic.MODELS[name][size]()
    path = folder / f"{name}.onnx"
    if isinstance(made.model, list):
        onnx.save(join_rates(*(to_onnx(model, made, ["input", "state"]) for model in made.model)), path)
    else:
        onnx.save(to_onnx(made.model, made, list(made.samples[0])), path)
    onnx.checker.check_model(str(path))
    save_samples(name, folder, made.samples)


def to_onnx(model, made, names):
    file = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            model.eval(), tuple(made.samples[0][name] for name in names), file, input_names=names,
            output_names=made.outputs, opset_version=OPSET, dynamo=False, do_constant_folding=True,
            dynamic_axes=made.axes,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def join_rates(fast, slow):
    """One model with the networks of two sampling rates as the branches of an If."""

    def branch(model, prefix):
        # The inputs are values of the graph around the branch.
        body = onnx.compose.add_prefix_graph(model.graph, prefix, rename_inputs=False)
        del body.input[:]
        return body

    then, other = branch(fast, "fast."), branch(slow, "slow.")
    rate = onnx.numpy_helper.from_array(np.array(16000), "rate")
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is_fast"]),
        helper.make_node("If", ["is_fast"], ["output", "stateN"], then_branch=then, else_branch=other),
    ]
    inputs = [*fast.graph.input, helper.make_tensor_value_info("sr", onnx.TensorProto.INT64, [])]
    graph = helper.make_graph(nodes, "vad", inputs, fast.graph.output, [rate])
    return helper.make_model(graph, opset_imports=fast.opset_import, ir_version=fast.ir_version)


def export_half(name, size, path):
    """A copy of a family's model in half precision; an existing model of the family is not made again."""
    source, arrays = path.with_name(f"{name}.onnx"), path.with_name(f"{name}.npz")
    if source.exists() and arrays.exists():
        loaded = np.load(arrays)
        inputs = {key.removeprefix("in."): loaded[key] for key in loaded if key.startswith("in.")}
    else:
        inputs = export(name, size, source)
    onnx.save(half.half(onnx.load(source)), path)
    return half.half_arrays(inputs)


def save_samples(name, folder, samples):
    """NAME.1.npz, NAME.2.npz and so on, for each set of sizes."""
    path = folder / f"{name}.onnx"
    print(f"{name}: {path.stat().st_size / 1e3:.0f} kB")
    for number, inputs in enumerate(samples, 1):
        inputs = {key: value.numpy() for key, value in inputs.items()}
        outputs = reference(path, inputs)
        save(folder / f"{name}.{number}.npz", inputs, outputs)
        shapes = [f"{k} {v.shape}" for k, v in (inputs | outputs).items()]
        print(f"{name}.{number}: " + ", ".join(shapes[:8]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("size", choices=["small", "full"])
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "small")
    parser.add_argument("names", nargs="*", help="which models; all by default")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, onnxruntime {ort.__version__}")
    all_names = [name for name, sizes in FAMILIES.items() if arguments.size in sizes]
    if arguments.size == "small":
        all_names += DYNAMIC
    all_names += [name for name, sizes in dynamic.MODELS.items() if arguments.size in sizes]
    made = SMALL_HALF if arguments.size == "small" else []
    names = arguments.names or [*all_names, *QUANTISED, *made]
    for name in names:
        if name in DYNAMIC and arguments.size == "small":
            export_dynamic(name, arguments.folder)
            continue
        if name in dynamic.MODELS:
            export_model(name, arguments.size, arguments.folder)
            continue
        path = arguments.folder / f"{name}.onnx"
        if name in QUANTISED:
            family, quantiser = QUANTISED[name]
            source = arguments.folder / f"{family}.onnx"
            inputs = export(family, arguments.size, source)
            quantiser(source, path, inputs)
        elif name in HALF:
            inputs = export_half(HALF[name], arguments.size, path)
        else:
            inputs = export(name, arguments.size, path)
        outputs = reference(path, inputs)
        save(arguments.folder / f"{name}.npz", inputs, outputs)
        shapes = ", ".join(f"{k} {v.shape} |max| {np.abs(v).max():.3g}" for k, v in outputs.items())
        print(f"{name}: {path.stat().st_size / 1e3:.0f} kB; {shapes}")


if __name__ == "__main__":
    sys.exit(main())
