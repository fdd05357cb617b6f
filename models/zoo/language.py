"""Small configurations of the architectures of transformers, with random weights."""

import torch
import transformers
from torch_export import GRAPH, TRACE, Tensors, export

# Small values of the fields that most configurations have.
SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embedding_size": 64, "num_hidden_layers": 2, "n_layer": 2,
    "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4,
    "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "d_ff": 128, "ffn_dim": 128, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "n_inner": 128, "vocab_size": 1000, "max_position_embeddings": 128, "d_kv": 16, "hidden_dim": 128,
}  # fmt: skip

# Other fields, and corrections of those.
FIELDS = {
    "BigBirdModel": {"attention_type": "original_full"},
    "CanineModel": {"max_position_embeddings": 256, "local_transformer_stride": 32},
    "CodeGenForCausalLM": {"rotary_dim": 8},
    "FalconForCausalLM": {"num_kv_heads": 1, "alibi": False, "head_dim": None},
    "FunnelModel": {"num_hidden_layers": None, "block_sizes": [1, 1, 1], "d_inner": 128, "d_head": 16},
    "GPTJForCausalLM": {"rotary_dim": 8},
    "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]]},
    "HubertModel": {"vocab_size": 32},
    "LongformerModel": {"attention_window": 16},
    "LukeModel": {"entity_vocab_size": 100, "entity_emb_size": 32},
    "MobileBertModel": {"intra_bottleneck_size": 32, "hidden_size": 64, "true_hidden_size": 32},
    "NystromformerModel": {"num_landmarks": 16, "segment_means_seq_len": 16},
    "PerceiverModel": {"d_latents": 64, "num_latents": 16, "num_blocks": 1, "num_self_attends_per_block": 2, "d_model": 64},
    "ReformerModel": {
        "attn_layers": ["local", "lsh"], "attention_head_size": 16, "axial_pos_embds": True, "axial_pos_shape": [4, 4],
        "axial_pos_embds_dim": [32, 32], "hidden_size": 64, "feed_forward_size": 128, "local_attn_chunk_length": 8,
        "lsh_attn_chunk_length": 8, "num_buckets": 2, "vocab_size": 1000, "hash_seed": 0,
    },
    "RemBertModel": {"input_embedding_size": 32, "output_embedding_size": 64},
    "TapasModel": {"type_vocab_sizes": [3, 256, 256, 2, 256, 256, 10]},
    "ViTMAEModel": {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 4, "decoder_intermediate_size": 64},
    "Wav2Vec2Model": {"vocab_size": 32},
    "XLNetModel": {"d_inner": 128, "max_position_embeddings": None},
    "DetrForObjectDetection": {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "num_queries": 10},
    "DPTForDepthEstimation": {
        "image_size": 64, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [16, 16, 32, 32], "fusion_hidden_size": 32,
        "is_hybrid": False,
    },
    "YolosForObjectDetection": {"image_size": [64, 96], "num_detection_tokens": 10},
    "DeiTModel": {"image_size": 64},
    "SegformerForSemanticSegmentation": {
        "num_hidden_layers": 4, "num_attention_heads": (1, 2, 4, 4), "hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1],
    },
    "WhisperModel": {"max_source_positions": 50, "max_target_positions": 64, "num_mel_bins": 20},
}  # fmt: skip

IMAGES = {
    "DeiTModel": (64, 64), "DetrForObjectDetection": (128, 128), "DPTForDepthEstimation": (64, 64),
    "SegformerForSemanticSegmentation": (64, 64), "ViTMAEModel": (224, 224), "YolosForObjectDetection": (64, 96),
}  # fmt: skip
ENCODER_DECODERS = {
    "BlenderbotSmallModel", "M2M100Model", "MarianModel", "BartModel", "MT5Model", "PegasusModel", "T5Model",
}  # fmt: skip
# Models that are exported with one batch and one length.
FIXED = {"CanineModel", "FunnelModel", "LongformerModel", "NystromformerModel", "PerceiverModel", "ReformerModel", "TapasModel"}
BATCH, LENGTH = 2, 16


def configuration(kind, name):
    if name == "CLIPModel":
        text = {key: SMALL[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")}
        vision = {**text, "image_size": 64, "patch_size": 16}
        vision.pop("vocab_size")
        ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
        return kind(text_config={**text, **ends}, vision_config=vision, projection_dim=32)
    default = kind()
    fields = {key: value for key, value in SMALL.items() if isinstance(getattr(default, key, None), (int, type(None))) and hasattr(default, key)}
    if name in IMAGES:
        fields.pop("vocab_size", None)
    # A name and its older one are one field.
    names = getattr(kind, "attribute_map", {})
    fields = {names.get(key, key): value for key, value in fields.items()}
    fields.update(FIELDS.get(name, {}))
    # None keeps the default.
    fields = {key: value for key, value in fields.items() if value is not None}
    tokens = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id", "sep_token_id")
    if name != "CanineModel":
        fields.update({key: 1 for key in tokens if isinstance(getattr(default, key, None), int) and getattr(default, key) >= 1000})
    if name == "WhisperModel":
        fields.update(suppress_tokens=None, begin_suppress_tokens=None)
    if hasattr(default, "use_cache"):
        fields["use_cache"] = False
    made = kind(**fields)
    made.use_cache = False
    return made


def model(name, path):
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    settings = configuration(kind.config_class, name)
    model = kind(settings).eval()
    # The loop over experts; the others are operators of PyTorch that no exporter knows.
    model.config._experts_implementation = "eager"
    ids = torch.randint(3, min(getattr(settings, "vocab_size", 900) or 900, 900), (BATCH, LENGTH))
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    axes = {}
    if name == "CLIPModel":
        inputs = {"input_ids": ids, "pixel_values": torch.rand(1, 3, 64, 64), "attention_mask": mask}
    elif name in IMAGES:
        inputs = {"pixel_values": torch.rand(1, 3, *IMAGES[name])}
        if name == "ViTMAEModel":
            inputs["noise"] = torch.rand(1, (224 // settings.patch_size) ** 2)
        elif name == "DetrForObjectDetection":
            inputs["pixel_mask"] = torch.ones(1, *IMAGES[name], dtype=torch.long)
    elif name in ("HubertModel", "Wav2Vec2Model"):
        inputs = {"input_values": torch.rand(1, 4000)}
    elif name == "WhisperModel":
        inputs = {"input_features": torch.rand(1, 20, 100), "decoder_input_ids": ids[:1]}
    elif name == "PerceiverModel":
        inputs = {"inputs": torch.rand(1, LENGTH, settings.d_model)}
    else:
        inputs = {"input_ids": ids, "attention_mask": mask}
        if name in ENCODER_DECODERS:
            inputs["decoder_input_ids"] = ids[:, :7].clone()
        elif name == "FNetModel":
            inputs.pop("attention_mask")
        elif name == "TapasModel":
            inputs["token_type_ids"] = torch.zeros(BATCH, LENGTH, 7, dtype=torch.long)
        if name not in FIXED:
            axes = {key: {0: "batch", 1: "length" if key != "decoder_input_ids" else "target"} for key in inputs}
    return export(Tensors(model, list(inputs)), inputs, path, (GRAPH, TRACE), axes)
