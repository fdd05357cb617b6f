"""Measures a compiler of tree ensembles on one model, the fields of `tenon bench --json` on stdout.

Usage: python tree_bench.py MODEL.onnx MODEL.npz THREADS SECONDS treelite|lleaves

The model is the file of LightGBM beside MODEL.onnx. What is compiled stays beside it.
"""

import contextlib
import os
import pathlib
import sys

import numpy as np
import timing

# Fewer rows are computed on one thread: starting another one takes longer.
PARALLEL_ROWS = 1000

model, inputs, threads, seconds = timing.arguments()
path = pathlib.Path(model)
text = path.with_name(path.stem.rpartition("-")[0] + ".txt")
x = inputs["x"]
threads = threads if len(x) >= PARALLEL_ROWS else 1
run = None


@contextlib.contextmanager
def messages_on_stderr():
    """What compiled code writes to stdout, it writes to stderr."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def load_lleaves():
    global run
    import lleaves

    compiled = lleaves.Model(model_file=str(text))
    compiled.compile(cache=str(text.with_suffix(".lleaves")))
    elements = x.astype(np.float64)
    run = lambda: compiled.predict(elements, n_jobs=threads)


def load_treelite():
    global run
    import tl2cgen
    import treelite

    library = text.with_suffix(".so")
    if not library.exists():
        trees = treelite.frontend.load_lightgbm_model(str(text))
        params = {"parallel_comp": 16}
        with messages_on_stderr():
            tl2cgen.export_lib(trees, toolchain="gcc", libpath=str(library), params=params, nthread=2)
    predictor = tl2cgen.Predictor(str(library), nthread=threads)
    elements = tl2cgen.DMatrix(x.astype(np.float64), dtype="float64")
    run = lambda: predictor.predict(elements)


load = {"lleaves": load_lleaves, "treelite": load_treelite}[sys.argv[5]]
timing.report(load, lambda: run(), lambda: run, threads, seconds)
