"""Exports the models of ../zoo.txt, each in a process that is stopped after some minutes.

    python export.py DIR [SOURCE-NAME...]    all models, or these

Writes DIR/SOURCE-NAME.onnx and .npz, or .failed with the reason. What exists is left. The .npz has `in.NAME` for every input
(`map.NAME` for a map, as JSON), and as `base` the file that a quantised model was made of. Weights are random with a fixed seed.
Variants (optimised, quantised) are made of the exported model that they name, which is exported as well.
"""

import argparse
import json
import multiprocessing
import os
import re
import sys
import traceback
import warnings
from pathlib import Path

import classical
import language
import numpy as np
import tools
import vision

LIST = Path(__file__).parent.parent / "zoo.txt"
MAX_SECONDS = 600
SOURCES = {
    "torchvision": vision.torchvision_model,
    "timm": vision.timm_model,
    "transformers": language.model,
    "scikit-learn": classical.scikit_learn_model,
    "xgboost": classical.boosted_model,
    "lightgbm": classical.boosted_model,
}


def listed():
    lines = LIST.read_text().splitlines()
    return [tuple(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def with_bases(stems, models):
    """These models, and those that variants among them are made of."""
    variants = {name for source, name in models if source not in SOURCES and f"{source}-{name}" in stems}
    return {*stems, *(f"{source}-{name}" for source, name in models if source in SOURCES and name in variants)}


def export(folder, source, name):
    path = folder / f"{source}-{name}.onnx"
    part = path.with_suffix(".part")
    base = None if source in SOURCES else tools.base(folder, name, SOURCES)
    inputs = tools.variant(source, name, base, part) if base else SOURCES[source](name, part)
    arrays = {f"map.{key}": json.dumps(value) for key, value in inputs.items() if isinstance(value, dict)}
    arrays.update({f"in.{key}": value for key, value in inputs.items() if not isinstance(value, dict)})
    if source in tools.QUANTISED:
        arrays["base"] = base.name
    np.savez(path.with_suffix(".npz"), **arrays)
    part.rename(path)


def attempt(folder, source, name):
    """The export in this process; a failure leaves a file."""
    log = os.open(folder / "export.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    warnings.simplefilter("ignore")
    try:
        export(folder, source, name)
    except BaseException as error:
        traceback.print_exc()
        # Without the colours of terminals.
        text = re.sub(r"\x1b\[[0-9;]*m", "", f"{type(error).__name__}: {error}")
        reason = text.strip().splitlines()
        (folder / f"{source}-{name}.failed").write_text(reason[0][:700] + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    processes = multiprocessing.get_context("fork")
    models = listed()
    chosen = with_bases(options.names, models)
    for source, name in models:
        stem = f"{source}-{name}"
        files = [options.folder / f"{stem}.{ending}" for ending in ("onnx", "failed", "part")]
        if options.names and stem not in chosen:
            continue
        if any(file.exists() for file in files[:2]):
            continue
        print(f"exporting {stem}", file=sys.stderr, flush=True)
        for file in files:
            file.unlink(missing_ok=True)
        process = processes.Process(target=attempt, args=(options.folder, source, name))
        process.start()
        process.join(MAX_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            files[1].write_text(f"stopped after {MAX_SECONDS} s\n")
        elif not files[0].exists() and not files[1].exists():
            files[1].write_text(f"the process ended with {process.exitcode}\n")
        files[2].unlink(missing_ok=True)


if __name__ == "__main__":
    main()
