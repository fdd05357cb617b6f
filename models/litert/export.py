"""Writes the models of ../litert.txt with TensorFlow's converter.

    pip install -r requirements.txt
    python export.py DIR [NETWORK...]    all models, or those of these networks

Writes DIR/NETWORK-FORM.tflite, or .failed with the reason. Weights are random with a fixed seed.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from networks import NETWORKS, WORDS, frozen

LIST = Path(__file__).parent.parent / "litert.txt"


def listed():
    lines = LIST.read_text().splitlines()
    return [tuple(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def model_of(network):
    return network if isinstance(network, tf.keras.Model) else network.heads


def settled(network):
    """The network with the statistics of random images in its batch normalizations, so that activations keep their scale."""
    model = model_of(network)
    normalizations = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    if normalizations:
        for layer in normalizations:
            layer.momentum = 0.0
        images = np.random.default_rng(4).uniform(-1, 1, (16, *model.inputs[0].shape[1:]))
        model(images.astype(np.float32), training=True)
    return network


def samples(model):
    (value,), random = model.inputs, np.random.default_rng(3)
    shape = (1, *value.shape[1:])
    for _ in range(20):
        is_text = value.dtype == "int32"
        yield [random.integers(0, WORDS, shape).astype(np.int32) if is_text
               else random.uniform(-1, 1, shape).astype(np.float32)]


def converter_of(network, folder):
    """Functions that become one operator are kept by files alone."""
    if isinstance(network, tf.keras.Model):
        return tf.lite.TFLiteConverter.from_concrete_functions([frozen(network)])
    tf.saved_model.save(network, folder, signatures=network.signature())
    return tf.lite.TFLiteConverter.from_saved_model(folder)


def converted(network, form, folder):
    converter = converter_of(network, folder)
    converter.allow_custom_ops = True
    if form != "f32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "f16":
        converter.target_spec.supported_types = [tf.float16]
    if form in ["int8", "int16"]:
        converter.representative_dataset = lambda: samples(model_of(network))
    if form == "int16":
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    return converter.convert()


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    networks = {}
    for name, form in listed():
        path = folder / f"{name}-{form}.tflite"
        failed = path.with_suffix(".failed")
        if sys.argv[2:] and name not in sys.argv[2:] or path.exists():
            continue
        failed.unlink(missing_ok=True)
        print("exporting", name, form, flush=True)
        try:
            if name not in networks:
                tf.keras.utils.set_random_seed(5)
                networks = {name: settled(NETWORKS[name]())}
            with tempfile.TemporaryDirectory() as temporary:
                path.write_bytes(converted(networks[name], form, temporary))
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            failed.write_text(text.splitlines()[0][:500] + "\n")


if __name__ == "__main__":
    main()
