"""Writes the conversions of every value of up to 16 bits, and of many wider values, by NumPy and
ml_dtypes, and the roundings of ONNX's Cast to f8e8m0fnu.

Usage: convert_tables.py FOLDER. The values of each source type are written to FOLDER/FROM.bin, their
conversions to FOLDER/FROM-TO.bin, the roundings of FOLDER/f32.bin to FOLDER/onnx-MODE-SATURATE.bin.
"""

import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx.numpy_helper import to_float8e8m0

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
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}
INTEGERS = {
    f"{kind}{bits}": np.dtype(f"{name}{bits}")
    for kind, name in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
} | {name: np.dtype(getattr(ml_dtypes, text))
     for name, text in (("i2", "int2"), ("u2", "uint2"), ("i4", "int4"), ("u4", "uint4"))}
# Bits of the types that NumPy stores in whole bytes, and Tenon several in a byte.
PACKED = {"f4e2m1fn": 4, "i2": 2, "u2": 2, "i4": 4, "u4": 4}


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
    info = ml_dtypes.iinfo(dtype)
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
        return values.astype(np.int64).astype(INTEGERS[to])
    # Every value of up to 16 bits is exact in binary32, so that the conversion rounds once.
    values = values.astype(np.float32)
    if name.endswith("uz"):
        # The one NaN has no sign, which decides the zero that it becomes in f4e2m1fn.
        values[np.isnan(values)] = np.nan
    converted = values.astype(FLOATS[to])
    if to == "f8e8m0fnu":
        # ml_dtypes rounds values up that are nearer to its smallest value than to the next.
        smallest = np.float32(2.0**-127)
        near = (values > smallest) & (values < np.float32(1.5) * smallest)
        converted[near] = smallest
    return converted


def stored(name, values):
    """The bytes of the elements."""
    if name not in PACKED:
        return values.tobytes()
    codes = values.view(np.uint8).reshape(-1, 8 // PACKED[name]) & ((1 << PACKED[name]) - 1)
    shifts = np.arange(codes.shape[1], dtype=np.uint8) * np.uint8(PACKED[name])
    return np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8).tobytes()


def main():
    folder = Path(sys.argv[1])
    sources = {}
    for name, dtype in (FLOATS | INTEGERS).items():
        bits = PACKED.get(name, np.dtype(dtype).itemsize * 8)
        if bits <= 16:
            # Codes of a packed type are sign-extended in ml_dtypes.
            codes = np.arange(1 << bits, dtype=f"uint{max(bits, 8)}")
            sources[name] = codes.astype(dtype) if name in INTEGERS else codes.view(dtype)
    floats = wide_floats(np.random.default_rng(7))
    sources["f32"] = floats[: len(floats) // 4 * 4]
    for mode in ("up", "down", "nearest"):
        for saturate in (False, True):
            codes = to_float8e8m0(sources["f32"], saturate, mode)
            codes.tofile(folder / f"onnx-{mode}-{int(saturate)}.bin")
    for name, values in sources.items():
        (folder / f"{name}.bin").write_bytes(stored(name, values))
        for to in [*FLOATS, *INTEGERS, "bool"]:
            if to != name:
                converted = stored(to, convert(name, values, to))
                (folder / f"{name}-{to}.bin").write_bytes(converted)


main()
