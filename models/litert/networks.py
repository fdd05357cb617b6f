"""Small networks of Keras with random weights: each function returns a model or a module, and the shapes of its inputs."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

layers = tf.keras.layers
IMAGE = (96, 96, 3)
CLASSES = 10
TOKENS, WORDS, WIDTH = 24, 200, 64


def frozen(network):
    """The function of a batch of one, with its variables as constants."""
    inputs = [tf.TensorSpec((1, *value.shape[1:]), value.dtype) for value in network.inputs]
    function = tf.function(lambda *values: network(*values, training=False)).get_concrete_function(*inputs)
    return convert_variables_to_constants_v2(function, lower_control_flow=False)


def mobilenet_v2():
    return tf.keras.applications.MobileNetV2(weights=None, input_shape=IMAGE, alpha=0.35, classes=CLASSES)


def mobilenet_v3():
    return tf.keras.applications.MobileNetV3Small(
        weights=None, input_shape=IMAGE, alpha=0.75, classes=CLASSES, include_preprocessing=False)


def convolution(x, filters, size, stride=1, depthwise=False, activation=True):
    if depthwise:
        x = layers.DepthwiseConv2D(size, stride, "same", use_bias=False)(x)
    else:
        x = layers.Conv2D(filters, size, stride, "same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU(6.0)(x) if activation else x


def efficientnet_lite():
    """MBConv blocks without squeeze and excitation, with ReLU6."""
    x = image = tf.keras.Input(IMAGE)
    x = convolution(x, 16, 3, 2)
    for expansion, filters, count, stride, size in [(1, 8, 1, 1, 3), (6, 16, 2, 2, 3), (6, 24, 2, 2, 5), (6, 40, 2, 2, 3)]:
        for index in range(count):
            before, stride = x, stride if index == 0 else 1
            x = convolution(x, expansion * x.shape[-1], 1) if expansion > 1 else x
            x = convolution(x, None, size, stride, depthwise=True)
            x = convolution(x, filters, 1, activation=False)
            if index > 0:
                x = layers.Add()([before, x])
    x = layers.GlobalAveragePooling2D()(convolution(x, 64, 1))
    return tf.keras.Model(image, layers.Dense(CLASSES)(x))


def resnet():
    x = image = tf.keras.Input(IMAGE)
    x = layers.MaxPooling2D(3, 2, "same")(convolution(x, 16, 7, 2))
    for filters, stride in [(16, 1), (32, 2), (64, 2)]:
        before = x
        x = convolution(x, filters, 3, stride)
        x = convolution(x, filters, 3, activation=False)
        if stride > 1:
            before = convolution(before, filters, 1, stride, activation=False)
        x = layers.ReLU()(layers.Add()([before, x]))
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(image, layers.Softmax()(layers.Dense(CLASSES)(x)))


def unet():
    x = image = tf.keras.Input(IMAGE)
    kept = []
    for filters in [8, 16]:
        x = convolution(x, filters, 3)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = convolution(x, 32, 3)
    for filters, before in zip([16, 8], reversed(kept)):
        if filters == 16:
            x = layers.Conv2DTranspose(filters, 2, 2, "same")(x)
        else:
            x = layers.UpSampling2D(interpolation="bilinear")(x)
        x = convolution(layers.Concatenate()([x, before]), filters, 3)
    return tf.keras.Model(image, layers.Conv2D(1, 1, activation="sigmoid")(x))


def bert():
    tokens = tf.keras.Input((TOKENS,), dtype="int32")
    positions = layers.Embedding(TOKENS, WIDTH)(tf.range(TOKENS))
    x = layers.LayerNormalization()(layers.Embedding(WORDS, WIDTH)(tokens) + positions)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, WIDTH // 4)(x, x))
        y = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(x))
        x = layers.LayerNormalization()(x + y)
    return tf.keras.Model(tokens, [x, layers.Dense(WIDTH, activation="tanh")(x[:, 0])])


def sequence(make):
    def build():
        x = rows = tf.keras.Input((20, 12))
        x = layers.Dense(8)(make(x))
        return tf.keras.Model(rows, x)

    return build


class Detector(tf.Module):
    """A backbone, the heads of SSD, and the operator that the converter writes for a function with this signature."""

    def __init__(self, by_class):
        super().__init__()
        backbone = tf.keras.applications.MobileNetV2(weights=None, input_shape=IMAGE, alpha=0.35, include_top=False)
        self.backbone, self.each, boxes, scores = backbone, 3, [], []
        for name in ["block_13_expand_relu", "out_relu"]:
            features = backbone.get_layer(name).output
            boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(4 * self.each, 3, padding="same")(features)))
            columns = (CLASSES + 1) * self.each
            head = layers.Conv2D(columns, 3, padding="same", kernel_initializer=tf.keras.initializers.RandomNormal(stddev=0.02))
            scores.append(layers.Reshape((-1, CLASSES + 1))(head(features)))
        outputs = [layers.Concatenate(1)(boxes), tf.keras.activations.sigmoid(layers.Concatenate(1)(scores))]
        self.heads = tf.keras.Model(backbone.input, outputs)
        count = sum(part.shape[1] for part in boxes)
        random = np.random.default_rng(1)
        anchors = np.concatenate([random.uniform(0.1, 0.9, (count, 2)), random.uniform(0.1, 0.4, (count, 2))], 1)
        self.anchors = anchors.astype(np.float32)
        attributes = dict(max_detections="i: 10", max_classes_per_detection="i: 1", num_classes=f"i: {CLASSES}",
                          use_regular_nms=f"b: {str(by_class).lower()}", nms_score_threshold="f: 0.3",
                          nms_iou_threshold="f: 0.6", y_scale="f: 10.0", x_scale="f: 10.0", h_scale="f: 5.0",
                          w_scale="f: 5.0")
        signature = 'name: "TFLite_Detection_PostProcess" '
        signature += " ".join(f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attributes.items())

        @tf.function(experimental_implements=signature)
        def detections(boxes, scores, anchors):  # noqa: ARG001
            return tuple(tf.constant(0.0, tf.float32, name=name) for name in ["boxes", "classes", "scores", "count"])

        self.detections = detections

    def signature(self):
        """The function of an image, with the variables as constants but the detections as one function."""
        heads, spec = frozen(self.heads), tf.TensorSpec((1, *IMAGE), tf.float32)

        @tf.function(input_signature=[spec])
        def detect(image):
            boxes, scores = heads(image)
            return self.detections(boxes, scores, tf.constant(self.anchors))

        return detect


NETWORKS = {
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet_lite": efficientnet_lite,
    "resnet": resnet,
    "unet": unet,
    "ssd": lambda: Detector(by_class=False),
    "ssd_heads": lambda: Detector(by_class=False).heads,
    "ssd_regular": lambda: Detector(by_class=True),
    "bert": bert,
    "lstm": sequence(lambda x: layers.LSTM(16)(layers.LSTM(24, return_sequences=True)(x))),
    "bidirectional_lstm": sequence(layers.Bidirectional(layers.LSTM(16, return_sequences=True))),
    "gru": sequence(layers.GRU(16, return_sequences=True)),
}
