"""Writes descriptors with their sources and with the results of NumPy and ml_dtypes.

Usage: numpy_movements.py FOLDER. FOLDER/cases.txt has a line for each case:

    NAME OPERATION TO_ACCESS FROM_ACCESS... [OPTION=VALUE]...

where an access is DTYPE:OFFSET:SIZES:STEPS with commas in lists. The bytes of source i are
FOLDER/NAME.i.bin, those of the target afterwards FOLDER/NAME.to.bin; before, they are all 0xee.
"""

import itertools
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

warnings.filterwarnings("ignore")

FLOATS = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {f"{k}{b}": np.dtype(f"{n}{b}") for k, n in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)}
TYPES = FLOATS | INTEGERS
rng = np.random.default_rng(11)


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.lines = []

    def add(self, operation, to, expected, sources, options=()):
        """`to` is an access text, `sources` are pairs of an access text and bytes."""
        name = f"c{len(self.lines)}"
        for index, (_, data) in enumerate(sources):
            (self.folder / f"{name}.{index}.bin").write_bytes(data)
        (self.folder / f"{name}.to.bin").write_bytes(expected)
        texts = [name, operation, to, *(text for text, _ in sources), *options]
        self.lines.append(" ".join(texts))


def access(dtype, offset, sizes, steps):
    return f"{dtype}:{offset}:{','.join(map(str, sizes))}:{','.join(map(str, steps))}"


def packed(name, count):
    return access(name, 0, [count * np.dtype(TYPES[name]).itemsize], [1])


def elements(name, count):
    if name in INTEGERS:
        info = np.iinfo(INTEGERS[name])
        wide = rng.integers(info.min, info.max, count, INTEGERS[name], endpoint=True)
        return np.where(rng.random(count) < 0.5, wide, rng.integers(0, 100, count).astype(INTEGERS[name]))
    values = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)).astype(np.float32)
    special = rng.choice([np.nan, np.inf, -np.inf, 1.0, 3e38], count).astype(np.float32)
    values = np.where(rng.random(count) < 0.02, special, values).astype(TYPES[name])
    # The order of -0 and +0 is unspecified.
    return np.where(values.astype(np.float32) == 0, np.ones(count, TYPES[name]), values)


def from_f32(values, name):
    """Integers truncate and saturate, NaN becomes 0: the cases that NumPy leaves undefined."""
    if name in FLOATS:
        return values.astype(FLOATS[name])
    info = np.iinfo(INTEGERS[name])
    exact = [0 if np.isnan(v) else (info.max if v > 0 else info.min) if np.isinf(v) else int(v) for v in values]
    return np.array([min(max(v, info.min), info.max) for v in exact], INTEGERS[name])


def fold(operation, sources, names, to, constant, scales):
    whole = all(name in INTEGERS for name in [*names, to])
    if whole and operation != "fma" and not isinstance(constant, np.float32):
        columns = [[int(v) for v in source] for source in sources]
        if constant is not None:
            columns.append([int(constant)] * len(columns[0]))
        fold = {"add": sum, "min": min, "max": max}[operation]
        bits = INTEGERS[to].itemsize * 8
        low = [fold(column) % (1 << bits) for column in zip(*columns)]
        return np.array(low, f"uint{bits}").view(INTEGERS[to])
    steps = {"add": np.add, "fma": np.add, "min": np.minimum, "max": np.maximum}
    total = None if constant is None else np.full(len(sources[0]), constant, np.float32)
    for source, scale in zip(sources, scales):
        source = source.astype(np.float32)
        if operation == "fma":
            source = source * np.float32(scale)
        total = source if total is None else steps[operation](total, source)
    return from_f32(total, to)


def folds(cases):
    count = 300
    plans = [(o, [n] * 3, t) for o in ("add", "min", "max", "fma") for n in TYPES for t in {n, "f32", "i16"}]
    plans += [(o, list(rng.choice(list(TYPES), 16)), "bf16") for o in ("add", "min", "max", "fma")]
    plans += [("max", ["u64", "i8"], "i64"), ("min", ["u64", "i8"], "u64"), ("add", ["u64", "i64"], "u64")]
    for operation, names, to in plans:
        sources = [elements(name, count) for name in names]
        scales = [round(float(s), 3) for s in rng.standard_normal(len(names))]
        constant, options = None, []
        if operation in ("min", "max"):
            kind = rng.integers(0, 4)
            constant = [None, np.float32(1.5), np.int32(-3), np.uint32(200)][kind]
            if constant is not None:
                options = [f"constant={['', 'f32', 'i32', 'u32'][kind]}:{constant}"]
        if operation == "fma":
            options = [f"scales={','.join(map(str, scales))}"]
        expected = fold(operation, sources, names, to, constant, scales).tobytes()
        pairs = [(packed(name, count), source.tobytes()) for name, source in zip(names, sources)]
        cases.add(operation, packed(to, count), expected, pairs, options)


def casts(cases):
    """Casts of matrix columns into rows with gaps, from each type to each type."""
    for name, to in itertools.product(TYPES, TYPES):
        if name == to:
            continue
        values = elements(name, 63).reshape(9, 7)
        if name in INTEGERS and to in INTEGERS:
            converted = values.astype(INTEGERS[to])
        else:
            converted = from_f32(values.astype(np.float32).ravel(), to).reshape(9, 7)
        size, wide = values.itemsize, np.dtype(TYPES[to]).itemsize
        target = np.full((7, 9 * wide + 3), 0xEE, np.uint8)
        target[:, : 9 * wide] = np.ascontiguousarray(converted.T).view(np.uint8).reshape(7, -1)
        source = access(name, 0, [size, 9, 7], [1, 7 * size, size])
        into = access(to, 0, [wide, 9, 7], [1, wide, 9 * wide + 3])
        cases.add("cast", into, target.tobytes(), [(source, values.tobytes())])


def strided(data, offset, sizes, steps):
    """The bytes of an access pattern, innermost first, as a view."""
    return as_strided(data[offset:], sizes[::-1], steps[::-1])


def copies(cases):
    for _ in range(60):
        rank = rng.integers(1, 5)
        sizes = [int(s) for s in rng.integers(1, 6, rank)]
        steps = [int(s) for s in rng.integers(-30, 30, rank)]
        offset = sum((size - 1) * -min(step, 0) for size, step in zip(sizes, steps))
        data = rng.integers(0, 256, 600, np.uint8)
        volume = int(np.prod(sizes))
        target = np.full(volume * 2 + 5, 0xEE, np.uint8)
        strided(target, 3, [volume], [2])[...] = strided(data, offset, sizes, steps).ravel()
        source = access("u8", offset, sizes, steps)
        cases.add("copy", access("u8", 3, [volume], [2]), target.tobytes(), [(source, data.tobytes())])


def transposes(cases):
    for element in (1, 2, 3, 4, 6, 8, 12, 16, 40):
        for _ in range(4):
            a, b, c, d = (int(s) for s in rng.integers(1, 9, 4))
            data = rng.integers(0, 256, (a, c, b, d * element), np.uint8)
            result = data.reshape(a, c, b, d, element).transpose(3, 1, 2, 0, 4)
            sizes = [element * d, b, c, a]
            steps = [1, element * d, element * d * b, element * d * b * c]
            source = access("u8", 0, sizes, steps)
            to = access("u8", 0, [a * b * c * d * element], [1])
            options = [f"shape={a},{b},{c},{d}", f"element={element}"]
            cases.add("transpose", to, result.tobytes(), [(source, data.tobytes())], options)


def main():
    cases = Cases(Path(sys.argv[1]))
    for family in (folds, casts, copies, transposes):
        family(cases)
    (cases.folder / "cases.txt").write_text("\n".join(cases.lines) + "\n")


main()
