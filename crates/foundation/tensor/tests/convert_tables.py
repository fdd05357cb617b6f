"""Writes the conversions of every 8-bit and 16-bit value, and of many wider values, by NumPy and
ml_dtypes.

Usage: convert_tables.py FOLDER. The values of each source type are written to FOLDER/FROM.bin, their
conversions to FOLDER/FROM-TO.bin.
"""

import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np

warnings.filterwarnings("ignore")

FLOATS = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
INTEGERS = {
    f"{kind}{bits}": np.dtype(f"{name}{bits}")
    for kind, name in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}


def wide_floats(rng):
    """Random bits, values of moderate magnitude, and the neighbours of values with few mantissa bits,
    which are the ties of narrower types."""
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)
    moderate = (rng.standard_normal(100_000) * 2.0 ** rng.integers(-30, 30, 100_000)).astype(np.float32)
    ties = (moderate.view(np.uint32) & 0xFFF80000).view(np.float32)
    near = np.concatenate([np.nextafter(ties, np.float32(s)) for s in (-np.inf, np.inf)])
    return np.concatenate([bits.view(np.float32), moderate, ties, near])


def to_integer(values, dtype):
    """Truncated towards zero, saturating, NaN to 0: NumPy leaves overflow and NaN undefined."""
    info = np.iinfo(dtype)
    values = np.trunc(values.astype(np.float32).astype(np.float64))
    low, high = values <= float(info.min), values >= float(info.max)
    inside = np.where(low | high | np.isnan(values), 0.0, values).astype(dtype)
    return np.where(low, info.min, np.where(high, info.max, inside)).astype(dtype)


def convert(name, values, to):
    if to == "bool":
        return (values.astype(np.float32) if name in FLOATS else values) != 0
    if to in INTEGERS:
        if name in FLOATS:
            return to_integer(values, INTEGERS[to])
        return values.astype(INTEGERS[to])
    # Every 8-bit and 16-bit value is exact in binary32, so that the conversion rounds once.
    return values.astype(np.float32).astype(FLOATS[to])


def main():
    folder = Path(sys.argv[1])
    sources = {}
    for name, dtype in (FLOATS | INTEGERS).items():
        bits = np.dtype(dtype).itemsize * 8
        if bits <= 16:
            sources[name] = np.arange(1 << bits, dtype=f"uint{bits}").view(dtype)
    sources["f32"] = wide_floats(np.random.default_rng(7))
    for name, values in sources.items():
        values.tofile(folder / f"{name}.bin")
        for to in [*FLOATS, *INTEGERS, "bool"]:
            if to != name:
                convert(name, values, to).tofile(folder / f"{name}-{to}.bin")


main()
