"""Models whose sizes are known only when they run, as exporters write them: decoders with a cache of a tensor a layer,
torchvision's detectors, a voice activity detector with a state, a speech encoder and its decoder.

`MODELS[NAME][size]()` returns an `Export`; `small` models are committed in small/.
"""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn
from torchvision.models import mobilenet_v3_large
from torchvision.models.detection import FasterRCNN, MaskRCNN, RetinaNet, anchor_utils, ssdlite
from torchvision.models.detection.backbone_utils import BackboneWithFPN, _mobilenet_extractor
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from transformers import (
    BertConfig, BertModel, DynamicCache, EncoderDecoderCache, GPT2Config, GPT2LMHeadModel, WhisperConfig,
    WhisperForConditionalGeneration,
)  # fmt: skip


@dataclass
class Export:
    """A model, the inputs of each sample, the names of its outputs and of its symbolic dimensions."""

    model: nn.Module
    samples: list
    outputs: list
    axes: dict = field(default_factory=dict)


def normal(*shape):
    return torch.randn(*shape) * 0.5


class Decoder(nn.Module):
    """GPT-2 with a growing cache: an input and an output for the keys and for the values of each layer."""

    def __init__(self, config):
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(config)

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache(ddp_cache_data=list(zip(past[::2], past[1::2])))
        out = self.gpt2(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache,
            use_cache=True,
        )  # fmt: skip
        return out.logits, *(part for layer in out.past_key_values.layers for part in (layer.keys, layer.values))


def decoder(config, sizes):
    """`sizes` are pairs of new and past tokens."""
    parts = [f"{layer}.{part}" for layer in range(config.n_layer) for part in ("key", "value")]
    head = config.n_embd // config.n_head

    def sample(new, past):
        inputs = {
            "input_ids": torch.randint(config.vocab_size, (1, new)),
            "attention_mask": torch.ones(1, past + new, dtype=torch.int64),
            "position_ids": torch.arange(past, past + new)[None],
        }
        return inputs | {f"past_key_values.{part}": normal(1, config.n_head, past, head) for part in parts}

    axes = {"input_ids": {1: "new"}, "position_ids": {1: "new"}, "attention_mask": {1: "past + new"}}
    axes |= {f"past_key_values.{part}": {2: "past"} for part in parts}
    axes |= {"logits": {1: "new"}} | {f"present.{part}": {2: "past + new"} for part in parts}
    outputs = ["logits", *(f"present.{part}" for part in parts)]
    return Export(Decoder(config), [sample(*pair) for pair in sizes], outputs, axes)


class Encoder(nn.Module):
    """BERT: token ids and mask in, hidden states out."""

    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, input_ids, attention_mask):
        out = self.bert(input_ids=input_ids, attention_mask=attention_mask)
        return out.last_hidden_state, out.pooler_output


def encoder(config, sizes):
    def sample(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[:, (length * 3 + 3) // 4 :] = 0
        return {"input_ids": torch.randint(config.vocab_size, (batch, length)), "attention_mask": mask}

    axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
    return Export(Encoder(config), [sample(*pair) for pair in sizes], ["hidden", "pooled"], axes)


class ManyNodes(nn.Module):
    """A graph of 1,000 small nodes."""

    def forward(self, x):
        values = [x]
        for index in range(500):
            # Each pair depends on the last value and on an earlier one.
            values.append(torch.tanh(values[-1] + values[index * 7 // 11]))
        return values[-1]


def many_nodes():
    return Export(ManyNodes(), [{"x": torch.randn(1, n)} for n in (16, 1, 200)], ["y"], {"x": {1: "n"}})


class Detector(nn.Module):
    """A detector of torchvision for one image: boxes, labels, scores, and masks if it has them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        found = self.model([image])[0]
        return tuple(found[key] for key in ("boxes", "labels", "scores", "masks") if key in found)


class SmallBackbone(nn.Sequential):
    """Three stages of strided convolutions."""

    def __init__(self, width):
        stages = ((3, width, 4), (width, width, 2), (width, 2 * width, 2))
        super().__init__(*(nn.Sequential(nn.Conv2d(a, b, 3, s, 1), nn.ReLU()) for a, b, s in stages))


def pyramid(size, channels):
    """A backbone of three scales with a feature pyramid."""
    if size == "full":
        return _mobilenet_extractor(mobilenet_v3_large(), True, 6, returned_layers=[3, 4, 5])
    layers = {str(index): str(index) for index in range(3)}
    return BackboneWithFPN(SmallBackbone(channels), layers, [channels, channels, 2 * channels], channels)


def spread(module, gain):
    """Larger weights in the last layers of random heads: scores and boxes that differ between positions."""
    with torch.no_grad():
        module.weight.normal_(0, gain / module.weight[0].numel() ** 0.5)
        if module.bias is not None:
            module.bias.normal_(0, 0.1)


def keep_scale(module):
    """Weights of convolutions that keep the scale of activations: those of torchvision's heads make them vanish."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)


def two_stage(kind, size):
    """Faster R-CNN or Mask R-CNN."""
    channels, classes, hidden = (256, 91, 1024) if size == "full" else (12, 5, 24)
    backbone = pyramid(size, channels)
    low = 32 if size == "full" else 8
    anchors = anchor_utils.AnchorGenerator(tuple((low * 2**level,) for level in range(4)), ((0.5, 1.0, 2.0),) * 4)
    rest = {}
    if kind is MaskRCNN:
        rest["mask_head"] = MaskRCNNHeads(channels, (channels,) * (4 if size == "full" else 1), 1)
        rest["mask_predictor"] = MaskRCNNPredictor(channels, channels, classes)
    model = kind(
        backbone, rpn_anchor_generator=anchors, box_head=TwoMLPHead(channels * 49, hidden),
        box_predictor=FastRCNNPredictor(hidden, classes), **detector_sizes(size), rpn_pre_nms_top_n_test=200,
        rpn_post_nms_top_n_test=100, box_score_thresh=0.2, box_detections_per_img=30 if size == "full" else 8, **rest,
    )  # fmt: skip
    keep_scale(model.rpn.head.conv)
    spread(model.rpn.head.cls_logits, 2)
    spread(model.rpn.head.bbox_pred, 0.5)
    spread(model.roi_heads.box_predictor.cls_score, 30)
    spread(model.roi_heads.box_predictor.bbox_pred, 5)
    return model


def retinanet(size):
    channels, classes = (256, 91) if size == "full" else (12, 5)
    backbone = pyramid(size, channels)
    low = 32 if size == "full" else 8
    anchors = anchor_utils.AnchorGenerator(
        tuple((low * 2**level, int(low * 2**level * 1.4)) for level in range(4)), ((0.5, 1.0, 2.0),) * 4
    )
    model = RetinaNet(
        backbone, classes, anchor_generator=anchors, **detector_sizes(size), topk_candidates=200, detections_per_img=50,
        score_thresh=0.3,
    )  # fmt: skip
    keep_scale(model.head)
    # More would give scores that round to 1, and ties between them no order.
    spread(model.head.classification_head.cls_logits, 1 if size == "full" else 3)
    spread(model.head.regression_head.bbox_reg, 0.5)
    return model


class SmallScales(nn.Module):
    """Three scales of features."""

    def __init__(self, width):
        super().__init__()
        self.stages = SmallBackbone(width)

    def forward(self, x):
        scales = {}
        for index, stage in enumerate(self.stages):
            scales[str(index)] = x = stage(x)
        return scales


def ssd(size):
    if size == "full":
        model = ssdlite.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, score_thresh=0.2)
    else:
        anchors = anchor_utils.DefaultBoxGenerator([[2, 3]] * 3, min_ratio=20, max_ratio=90)
        head = ssdlite.SSDLiteHead([16, 16, 32], anchors.num_anchors_per_location(), 5, nn.BatchNorm2d)
        rest = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "score_thresh": 0.3, "topk_candidates": 50}
        model = ssdlite.SSD(SmallScales(16), anchors, (64, 64), 5, head=head, **rest)
    for scores, boxes in zip(model.head.classification_head.module_list, model.head.regression_head.module_list):
        spread(scores[1], 5)
        spread(boxes[1], 2)
    return model


def detector_sizes(size):
    low, high = (320, 640) if size == "full" else (64, 128)
    return {"min_size": low, "max_size": high}


def calibrate(model, size):
    """Sets the statistics of batch norms from random images, so that activations keep their scale."""
    model.eval()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in norms:
        module.train()
        module.momentum = None
    with torch.no_grad():
        model([torch.rand(3, *size) for _ in range(4)])
    model.eval()


def detector(make, size):
    sizes = {"full": [(320, 427), (480, 360), (256, 256)], "small": [(64, 80), (100, 60), (48, 48)]}[size]
    model = make(size)
    calibrate(model, sizes[0])
    images = [torch.rand(3, *pair) for pair in sizes]
    outputs = ["boxes", "labels", "scores"]
    if isinstance(model, MaskRCNN):
        outputs.append("masks")
    return Export(Detector(model), [{"image": image} for image in images], outputs, {"image": {1: "height", 2: "width"}})


class VoiceActivity(nn.Module):
    """A voice activity detector for one sampling rate: a short-time Fourier transform by convolution, an encoder, a
    recurrent cell whose state is an input and an output, and a probability."""

    def __init__(self, width, window):
        super().__init__()
        bins = window // 2 + 1
        self.pad, self.bins = window // 4, bins
        phase = 2 * torch.pi * torch.arange(bins)[:, None] * torch.arange(window) / window
        shape = torch.hann_window(window)
        basis = torch.cat((phase.cos() * shape, -phase.sin() * shape))[:, None]
        self.register_buffer("basis", basis)
        self.stride = window // 2
        channels = (bins, width, width // 2, width // 2, width)
        self.encoder = nn.ModuleList(
            nn.Conv1d(a, b, 3, s, 1) for a, b, s in zip(channels, channels[1:], (1, 2, 2, 1))
        )
        self.cell = nn.LSTM(width, width)
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x, state):
        x = nn.functional.pad(x[:, None], (0, self.pad), mode="reflect")
        parts = nn.functional.conv1d(x, self.basis, stride=self.stride)
        x = (parts[:, : self.bins] ** 2 + parts[:, self.bins :] ** 2).sqrt()
        for layer in self.encoder:
            x = layer(x).relu()
        y, (h, c) = self.cell(x.permute(2, 0, 1), (state[:1], state[1:]))
        y = self.out(y.permute(1, 2, 0).relu()).sigmoid().mean(2)
        return y, torch.cat((h, c))


def voice_activity(width, window):
    """The networks of both sampling rates; export.py joins them with an If on the sampling rate."""
    models = [VoiceActivity(width, window), VoiceActivity(width, window // 2)]

    def sample(batch, length, rate):
        return {"input": normal(batch, length), "state": normal(2, batch, width), "sr": torch.tensor(rate)}

    base = 9 * window // 4
    samples = [sample(1, base, 16000), sample(1, base // 2, 8000), sample(3, base, 16000), sample(2, 5 * window, 8000)]
    axes = {"input": {0: "batch", 1: "samples"}, "state": {1: "batch"}}
    return Export(models, samples, ["output", "stateN"], axes)


class SpeechEncoder(nn.Module):
    """Whisper's encoder, and the keys and values of the decoder's attention to it."""

    def __init__(self, model):
        super().__init__()
        self.whisper = model

    def forward(self, input_features):
        hidden = self.whisper.model.encoder(input_features).last_hidden_state
        parts = [hidden]
        for layer in self.whisper.model.decoder.layers:
            attention = layer.encoder_attn
            shape = (hidden.shape[0], -1, attention.num_heads, attention.head_dim)
            parts += [project(hidden).view(shape).transpose(1, 2) for project in (attention.k_proj, attention.v_proj)]
        return tuple(parts)


class SpeechDecoder(nn.Module):
    """Whisper's decoder: a cache that grows, and the keys and values of the encoder's states."""

    def __init__(self, model):
        super().__init__()
        self.whisper = model

    def forward(self, input_ids, *past):
        parts = [past[at : at + 4] for at in range(0, len(past), 4)]
        own = DynamicCache(ddp_cache_data=[part[:2] for part in parts])
        cross = DynamicCache(ddp_cache_data=[part[2:] for part in parts])
        cache = EncoderDecoderCache(own, cross)
        out = self.whisper(
            decoder_input_ids=input_ids, encoder_outputs=(torch.zeros(1, 1, self.whisper.config.d_model),),
            past_key_values=cache, use_cache=True,
        )  # fmt: skip
        layers = out.past_key_values.self_attention_cache.layers
        return out.logits, *(part for layer in layers for part in (layer.keys, layer.values))


def speech_encoder(config):
    frames = 2 * config.max_source_positions
    samples = [{"input_features": torch.randn(batch, config.num_mel_bins, frames)} for batch in (1, 2)]
    parts = [f"present.{layer}.encoder.{part}" for layer in range(config.decoder_layers) for part in ("key", "value")]
    model = SpeechEncoder(WhisperForConditionalGeneration(config))
    return Export(model, samples, ["last_hidden_state", *parts], {"input_features": {0: "batch"}})


def speech_decoder(config, sizes):
    """`sizes` are a batch, new tokens, past tokens, and positions of the encoder."""
    heads = config.decoder_attention_heads
    width = config.d_model // heads
    layers = range(config.decoder_layers)

    def sample(batch, new, past, positions):
        inputs = {"input_ids": torch.randint(config.vocab_size, (batch, new))}
        for layer in layers:
            for source, length in (("decoder", past), ("encoder", positions)):
                for part in ("key", "value"):
                    inputs[f"past_key_values.{layer}.{source}.{part}"] = normal(batch, heads, length, width)
        return inputs

    samples = [sample(*size) for size in sizes]
    axes = {"input_ids": {0: "batch", 1: "new"}}
    for name in list(samples[0])[1:]:
        axes[name] = {0: "batch", 2: "past" if ".decoder." in name else "positions"}
    outputs = [f"present.{layer}.decoder.{part}" for layer in layers for part in ("key", "value")]
    model = SpeechDecoder(WhisperForConditionalGeneration(config))
    return Export(model, samples, ["logits", *outputs], axes)


def whisper(size):
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    if size == "full":
        return WhisperConfig(
            vocab_size=10_000, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
            decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_source_positions=500, **tokens,
        )  # fmt: skip
    return WhisperConfig(
        vocab_size=200, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=24,
        max_target_positions=64, **tokens,
    )  # fmt: skip


SMALL_GPT2 = GPT2Config(vocab_size=200, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)

# name: (family, small or full): what returns the export; evaluated after the seed is set.
MODELS = {
    "gpt2-dynamic": {"full": lambda: decoder(GPT2Config(), [(1, 127), (32, 0), (5, 40), (1, 300)])},
    "gpt2-cache": {"small": lambda: decoder(SMALL_GPT2, [(1, 7), (5, 0), (3, 12), (1, 40)])},
    "bert-dynamic": {"full": lambda: encoder(BertConfig(), [(1, 128), (2, 17), (3, 64), (1, 1)])},
    "nodes-dynamic": {"full": many_nodes},
    "ssd": {size: partial(detector, ssd, size) for size in ("small", "full")},
    "retinanet": {size: partial(detector, retinanet, size) for size in ("small", "full")},
    "faster-rcnn": {size: partial(detector, partial(two_stage, FasterRCNN), size) for size in ("small", "full")},
    "mask-rcnn": {size: partial(detector, partial(two_stage, MaskRCNN), size) for size in ("small", "full")},
    "vad": {"small": lambda: voice_activity(16, 64), "full": lambda: voice_activity(128, 256)},
    "speech-encoder": {size: lambda size=size: speech_encoder(whisper(size)) for size in ("small", "full")},
    "speech-decoder": {
        "small": lambda: speech_decoder(whisper("small"), [(1, 1, 6, 24), (2, 4, 0, 24), (1, 1, 30, 9)]),
        "full": lambda: speech_decoder(whisper("full"), [(1, 1, 20, 500), (1, 4, 0, 500), (2, 1, 60, 100)]),
    },
}
