"""Networks of torchvision and timm with random weights."""

import timm
import torch
import torchvision
from torch_export import GRAPH, TRACE, Tensors, calibrate, export

DETECTORS = ("fasterrcnn", "fcos", "keypointrcnn", "maskrcnn", "retinanet", "ssd")
VIDEOS = {"mc3_18": 112, "r2plus1d_18": 112, "r3d_18": 112, "s3d": 224, "mvit_v2_s": 224, "swin3d_t": 224}
SIZES = {"inception_v3": 299, "efficientnet_b4": 380, "raft_small": 128, "ssd300_vgg16": 300}


def torchvision_model(name, path):
    torch.manual_seed(0)
    detects = name.startswith(DETECTORS)
    segments = name.startswith(("deeplabv3", "fcn", "lraspp"))
    options = {"weights_backbone": None} if detects or segments else {}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = True
    model = torchvision.models.get_model(name, weights=None, **options)
    size = SIZES.get(name, 320 if detects else 224)
    if detects:
        calibrate(model, [[torch.rand(3, size, size) for _ in range(2)]])
        return export(Tensors(model, images=True), {"image": torch.rand(3, size, size)}, path, (TRACE, GRAPH))
    if name in VIDEOS:
        shape = (3, 16, VIDEOS[name], VIDEOS[name])
    else:
        shape = (3, size, size)
    images = 2 if name == "raft_small" else 1
    calibrate(model, [torch.rand(2, *shape) for _ in range(images)])
    inputs = {f"image{index or ''}": torch.rand(1, *shape) for index in range(images)}
    return export(Tensors(model), inputs, path, (TRACE, GRAPH))


def timm_model(name, path):
    torch.manual_seed(0)
    model = timm.create_model(name, exportable=True)
    shape = model.default_cfg["input_size"]
    calibrate(model, [torch.rand(2, *shape)])
    return export(Tensors(model), {"image": torch.rand(1, *shape)}, path, (TRACE, GRAPH))
