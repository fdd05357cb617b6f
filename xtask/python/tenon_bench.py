"""Measures executions on bound tensors through the package tenon, the fields of `tenon bench --json` on stdout.

Usage: python tenon_bench.py MODEL.neff MODEL.npz THREADS SECONDS
"""

import tenon
import timing

package, inputs, threads, seconds = timing.arguments()
model = None


def load():
    global model
    model = tenon.load(package, threads=threads)


def bind():
    bindings = model.bind()
    for key, value in inputs.items():
        bindings.inputs[key].numpy()[...] = value
    return bindings.run


timing.report(load, lambda: model.run(inputs), bind, threads, seconds)
