"""Non-maximum suppression, alone and in the last operator of detectors."""

import numpy as np
from builders import add, floats, rng, simple
from flatbuffers import flexbuffers
from litert import Model, run


def cases():
    suppression()
    post_process()


def boxes(count):
    """Corners y, x; many of them overlap. Coordinates are multiples of 1/8 and so are scores distinct."""
    g = rng()
    low = g.integers(0, 40, (count, 2)) / 8
    size = g.integers(8, 24, (count, 2)) / 8
    scores = g.permutation(count) / count
    return np.concatenate([low, low + size], 1).astype(np.float32), scores.astype(np.float32)


def suppression():
    corners, scores = boxes(30)
    corners[3] = corners[3][[2, 3, 0, 1]]
    for name, most, overlap, least in [("all", 12, 0.4, -1.0), ("few", 4, 0.5, 0.3), ("none", 3, 0.5, 2.0),
                                       ("same", 12, 1.0, 0.0)]:
        constants = [np.array(most, np.int32), np.array(overlap, np.float32), np.array(least, np.float32)]
        simple("nms_v4_" + name, "NON_MAX_SUPPRESSION_V4", [corners, scores], [((most,), "int32"), ((), "int32")],
               "NonMaxSuppressionV4Options", constants=constants)
        simple("nms_v5_" + name, "NON_MAX_SUPPRESSION_V5", [corners, scores],
               [((most,), "int32"), ((most,), "float32"), ((), "int32")], "NonMaxSuppressionV5Options",
               constants=constants + [np.array(0.0, np.float32)])


def options(**values):
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            builder.Key(name)
            {bool: builder.Bool, int: builder.Int, float: builder.Float}[type(value)](value)
    return bytes(builder.Finish())


def post_process():
    count, classes = 24, 3
    corners, _ = boxes(count)
    centers, sizes = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    anchors = np.concatenate([centers, sizes], 1)
    codes = floats(1, count, 4, low=-0.4, high=0.4)
    scores = rng().permutation(count * (classes + 1)).reshape(1, count, -1).astype(np.float32) / (count * (classes + 1))
    common = dict(num_classes=classes, y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0)
    for name, background, detections, each, more in [
        ("fast", True, 10, 1, dict(nms_score_threshold=0.6, nms_iou_threshold=0.5)),
        ("fast_padded", True, 10, 2, dict(nms_score_threshold=0.88, nms_iou_threshold=0.3)),
        ("fast_many_classes", False, 3, 5, dict(nms_score_threshold=0.1, nms_iou_threshold=0.3)),
        ("fast_none", True, 3, 1, dict(nms_score_threshold=1.5, nms_iou_threshold=0.3)),
        ("fast_full", True, 4, 1, dict(nms_score_threshold=0.1, nms_iou_threshold=0.6)),
        ("fast_classes", False, 5, 2, dict(nms_score_threshold=0.1, nms_iou_threshold=0.6)),
        ("regular", True, 10, 1, dict(nms_score_threshold=0.8, nms_iou_threshold=0.5, use_regular_nms=True,
                                      detections_per_class=4)),
        ("regular_padded", False, 10, 2, dict(nms_score_threshold=0.9, nms_iou_threshold=0.3, use_regular_nms=True)),
        ("regular_none", False, 4, 1, dict(nms_score_threshold=1.5, nms_iou_threshold=0.3, use_regular_nms=True)),
        ("regular_full", False, 6, 1, dict(nms_score_threshold=0.1, nms_iou_threshold=0.4, use_regular_nms=True)),
    ]:
        model = Model()
        graph = model.graph()
        value = scores if background else scores[..., 1:].copy()
        ids = [graph.input("boxes", codes.shape), graph.input("scores", value.shape), graph.constant("anchors", anchors)]
        rows = detections * each
        outs = [graph.output("y", (1, rows, 4)), graph.output("classes", (1, rows)), graph.output("best", (1, rows)),
                graph.output("count", (1,))]
        for index in outs if name in ["fast", "regular"] else []:
            # As TensorFlow's converter writes them.
            graph.table.tensors[index].shape = []
        graph.op("CUSTOM", ids, outs, custom="TFLite_Detection_PostProcess",
                 custom_options=options(max_detections=detections, max_classes_per_detection=each, **common, **more))
        written = min(each, classes) if "regular" not in name else None
        add("detection_" + name, model, [codes, value],
            outputs=lambda model, inputs, each=each, written=written: defined(run(model, inputs), each, written))


def defined(outputs, each, written):
    """The outputs with zeros where the interpreter leaves memory as it is: after the last detection, and after the `written`
    classes of each; with suppression by class (`written` is None) after the maximum number of detections."""
    rows = outputs[1].shape[1]
    if written is None:
        is_defined = np.arange(rows) < rows // each
    else:
        is_defined = (np.arange(rows) // each < outputs[3][0]) & (np.arange(rows) % each < written)
    boxes = np.where(is_defined[:, None], outputs[0], np.float32(0))
    classes, scores = (np.where(is_defined, outputs[index], np.float32(0)) for index in [1, 2])
    return [boxes, classes, scores, outputs[3]]
