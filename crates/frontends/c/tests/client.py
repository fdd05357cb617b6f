"""A client of the C interface by ctypes: client.py LIBRARY MODELS

Compares outputs with those that onnxruntime computed (the npz files beside the models).
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np


class Array(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int32), ("rank", c_uint32), ("extents", POINTER(c_int64)),
                ("data", c_void_p), ("bytes", c_size_t)]


TYPES = {"float32": 1, "float64": 2, "float16": 3, "int8": 15, "int32": 17, "int64": 18, "uint8": 19, "bool": 23}
NAMES = {code: name for name, code in TYPES.items()}

# The functions before the last that is used, in the order of tenon_functions.
FUNCTIONS = """version status_code status_text status_part status_problem_count status_free blob_get blob_free
task_create task_cancel task_free compile_file compile_bytes package_write package_bytes package_placement
package_load package_free model_load_file model_load_bytes model_name model_input_count model_output_count model_input
model_output model_find_input model_find_output model_metadata model_placement model_free model_run model_execute
model_run_dlpack model_profile outputs_count outputs_get outputs_find outputs_free""".split()


class Table(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("major", c_uint32), ("minor", c_uint32)] + [(name, c_void_p) for name in FUNCTIONS]


library = ctypes.CDLL(sys.argv[1])
library.tenon_api.restype = POINTER(Table)
table = library.tenon_api(1, 0).contents
assert table.size >= ctypes.sizeof(Table)


def function(name, result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)(getattr(table, name))


status_text = function("status_text", c_char_p, c_void_p)


def call(name, *arguments):
    types = [type(argument) if isinstance(argument, ctypes._SimpleCData) else c_void_p for argument in arguments]
    arguments = [ctypes.cast(argument, c_void_p) if kind is c_void_p and argument is not None
                 and not isinstance(argument, c_void_p) else argument for kind, argument in zip(types, arguments)]
    status = function(name, c_void_p, *types)(*arguments)
    if status is not None:
        raise RuntimeError(status_text(status).decode())


def described(name, array):
    extents = (c_int64 * array.ndim)(*array.shape)
    described = Array(name.encode(), TYPES[array.dtype.name], array.ndim, extents, array.ctypes.data, array.nbytes)
    return described, extents


def outputs_of(handle):
    count = c_size_t()
    call("outputs_count", handle, byref(count))
    found = {}
    for at in range(count.value):
        array = Array()
        call("outputs_get", handle, c_size_t(at), byref(array))
        shape = [array.extents[axis] for axis in range(array.rank)]
        memory = ctypes.string_at(array.data, array.bytes)
        found[array.name.decode()] = np.frombuffer(memory, NAMES[array.type]).reshape(shape)
    return found


def run(model, inputs):
    kept = [described(name, np.ascontiguousarray(array)) for name, array in inputs.items()]
    arrays = (Array * len(kept))(*[array for array, _ in kept])
    handle = c_void_p()
    call("model_run", model, arrays, c_size_t(len(kept)), None, byref(handle))
    found = outputs_of(handle)
    call("outputs_free", handle)
    return found


def run_dlpack(model, inputs, count):
    """Executes on tensors that NumPy exports, and reads the outputs as NumPy does."""
    take = ctypes.pythonapi.PyCapsule_GetPointer
    take.restype, take.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, c_char_p]
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    capsules = [array.__dlpack__(max_version=(1, 0)) for array in inputs.values()]
    tensors = (c_void_p * len(capsules))(*[take(capsule, b"dltensor_versioned") for capsule in capsules])
    for capsule in capsules:
        # The library calls the deleter.
        rename(capsule, b"used_dltensor_versioned")
    results = (c_void_p * count)()
    call("model_run_dlpack", model, tensors, c_size_t(len(capsules)), None, results, c_size_t(count))

    class Exported:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    return [np.from_dlpack(Exported(make(pointer, b"dltensor_versioned", None))) for pointer in results]


def check(folder, name, samples):
    package, model = c_void_p(), c_void_p()
    call("compile_file", c_char_p(str(folder / f"{name}.onnx").encode()), None, byref(package))
    call("package_load", package, None, byref(model))
    call("package_free", package)
    for sample in samples:
        with np.load(folder / sample) as arrays:
            inputs = {key[3:]: arrays[key] for key in arrays if key.startswith("in.")}
            expected = {key[4:]: arrays[key] for key in arrays if key.startswith("out.")}
        found = run(model, inputs)
        assert found.keys() == expected.keys(), found.keys()
        for key, array in expected.items():
            assert found[key].shape == array.shape, key
            np.testing.assert_allclose(found[key], array, rtol=1e-3, atol=1e-4, err_msg=f"{name} {key}")
        for other, array in zip(run_dlpack(model, inputs, len(found)), found.values()):
            np.testing.assert_array_equal(other, array)
    call("model_free", model)


models = Path(sys.argv[2])
check(models, "mlp", ["mlp.npz"])
check(models, "mobilenetv2", ["mobilenetv2.npz"])
check(models, "lstm-dynamic", [f"lstm-dynamic.{sample}.npz" for sample in (1, 2, 3)])
try:
    run(c_void_p(), {})
except RuntimeError as error:
    assert "the model is NULL" in str(error), error
else:
    raise AssertionError("a NULL model was accepted")
print("done")
