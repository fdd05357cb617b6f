//! Arrays of Python as tensors.
//!
//! In this order: a `tenon.Tensor`; the buffer protocol; DLPack; NumPy arrays of types that neither has (`ml_dtypes`,
//! strings); scalars, strings and nested lists; `__array__`. The first two and DLPack share the memory where elements
//! are contiguous and in the machine's byte order, and copy them otherwise. No element is converted to another type.

use crate::error::{Failure, class_name, invalid};
use crate::tensor::PyTensor;
use crate::{dlpack, elements, memory, types};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple, PyType,
};
use tenon::tensor::{BufferMut, Packing};
use tenon::{DataType, Error, Signature, Tensor, TensorType};

/// The tensor of an array, list or scalar. Lists and scalars get the type `dtype`, or that of Python's values:
/// `i64`, `f32`, `bool`, `c64`, `string`.
pub fn read(value: &Bound<'_, PyAny>, dtype: Option<DataType>) -> Result<Tensor, Failure> {
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return Ok(tensor.get().tensor()?);
    }
    if is_plain(value) {
        return elements::read(value, dtype);
    }
    match PyUntypedBuffer::get(value) {
        Ok(buffer) => return from_buffer(value, buffer),
        Err(error) if !may_have_other_form(&error, value.py()) => return Err(error.into()),
        Err(_) => {}
    }
    let mut refusal = None;
    // A class has the methods of its instances.
    let is_class = value.is_instance_of::<PyType>();
    if !is_class && value.hasattr("__dlpack__")? {
        match dlpack::read(value) {
            Ok(tensor) => return Ok(tensor),
            Err(Failure::Raised(error)) if may_have_other_form(&error, value.py()) => {
                refusal = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(tensor) = from_numpy(value)? {
        return Ok(tensor);
    }
    if let Some(error) = refusal {
        return Err(error.into());
    }
    if !is_class && value.hasattr("__array__")? {
        let array = value.call_method0("__array__")?;
        if !array.is(value) && PyUntypedBuffer::get(&array).is_ok() {
            return read(&array, dtype);
        }
    }
    let error = invalid("the value is no array");
    let error = error.expected("an array (buffer protocol or DLPack), a list or a number");
    Err(error.found(class_name(value)).into())
}

/// Whether a value is a number, a string or a list of Python.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_instance_of::<PyBool>()
        || value.is_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyComplex>()
}

/// Whether an exception of one protocol says nothing about the others.
fn may_have_other_form(error: &PyErr, py: Python<'_>) -> bool {
    error.is_instance_of::<PyBufferError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
}

/// The tensor of a buffer.
fn from_buffer(value: &Bound<'_, PyAny>, buffer: PyUntypedBuffer) -> Result<Tensor, Failure> {
    let format = buffer.format();
    let Some((dtype, is_reversed)) = types::of_format(format, buffer.item_size()) else {
        if let Some(tensor) = from_numpy(value)? {
            return Ok(tensor);
        }
        let error = invalid("the array's elements are of no type of Tenon");
        return Err(error.found(format.to_string_lossy()).into());
    };
    let ty = TensorType::new(dtype, memory::shape(&buffer))?;
    if ty.bytes() != buffer.len_bytes() {
        let error = invalid("the buffer's length is not that of its shape");
        let error = error.expected(format_args!("{} bytes", ty.bytes()));
        return Err(error.found(buffer.len_bytes()).into());
    }
    let view = match is_reversed || buffer.suboffsets().is_some() {
        true => None,
        false => memory::share(&ty, buffer),
    };
    if let Some(shared) = view {
        return Ok(shared?);
    }
    let bytes = PyMemoryView::from(value)?.call_method0("tobytes")?;
    let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?;
    let mut copy = BufferMut::copy_of(bytes.as_bytes())?;
    if is_reversed {
        let number = types::number_bytes(dtype);
        copy.chunks_exact_mut(number).for_each(<[u8]>::reverse);
    }
    Ok(Tensor::new(ty, copy.freeze())?)
}

/// The tensor of a NumPy array whose type has neither a buffer format nor a DLPack code: of `ml_dtypes`, or strings.
fn from_numpy(value: &Bound<'_, PyAny>) -> Result<Option<Tensor>, Failure> {
    let py = value.py();
    let is_array = |value: &Bound<'_, PyAny>| -> PyResult<bool> {
        // NumPy need not be there: a value of its class can only exist if it was imported.
        let modules = py.import("sys")?.getattr("modules")?;
        let numpy = modules.call_method1("get", ("numpy",))?;
        if numpy.is_none() {
            return Ok(false);
        }
        let classes = (numpy.getattr("ndarray")?, numpy.getattr("generic")?);
        value.is_instance(&classes.into_pyobject(py)?.into_any())
    };
    if !is_array(value)? {
        return Ok(None);
    }
    let dtype = value.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    let shape: Vec<usize> = value.getattr("shape")?.extract()?;
    let name: String = dtype.getattr("name")?.extract()?;
    if let Some(dtype) = types::of_ml_name(&name) {
        let ty = TensorType::new(dtype, shape)?;
        // Copies arrays that are not contiguous.
        let bytes = value.call_method0("tobytes")?;
        let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
        let bytes = match Packing::of(dtype) {
            Some(packing) => packed(&ty, packing, bytes)?,
            None => BufferMut::copy_of(bytes)?,
        };
        return Ok(Some(Tensor::new(ty, bytes.freeze())?));
    }
    if matches!(kind.as_str(), "b" | "i" | "u" | "f" | "c") && !value.hasattr("__dlpack__")? {
        // A scalar, whose buffer has no shape.
        let array = py.import("numpy")?.call_method1("asarray", (value,))?;
        return Ok(Some(dlpack::read(&array)?));
    }
    if matches!(kind.as_str(), "U" | "T" | "O" | "S") {
        let flat = value.call_method0("ravel")?.call_method0("tolist")?;
        let strings = elements::strings(&flat)?;
        return Ok(Some(Tensor::from_strings(shape, &strings)?));
    }
    let error = invalid("the array's elements are of no type of Tenon");
    Err(error.found(name).into())
}

/// Elements of less than a byte from bytes with one each.
fn packed(ty: &TensorType, packing: Packing, bytes: &[u8]) -> Result<BufferMut, Failure> {
    let mut packed = BufferMut::zeroed(ty.bytes())?;
    let mask = (1 << ty.dtype().bits()) - 1;
    for (at, &byte) in bytes.iter().enumerate().take(ty.elements()) {
        packing.set(&mut packed, at, byte & mask);
    }
    Ok(packed)
}

/// Reads the array of an input.
pub fn read_input(value: &Bound<'_, PyAny>, input: &Signature) -> Result<Tensor, Failure> {
    let expected = input.ty.dtype();
    let what = || format!("input '{}'", input.name);
    let tensor = read(value, Some(expected)).map_err(|failure| match failure {
        Failure::Unsuitable(error) => {
            let text = format!("{}: {}", what(), error.message());
            let mut named = Error::new(error.kind(), text);
            if let Some(expected) = error.expected_text() {
                named = named.expected(expected);
            }
            if let Some(found) = error.found_text() {
                named = named.found(found);
            }
            Failure::Unsuitable(match error.help_text() {
                Some(help) => named.help(help),
                None => named,
            })
        }
        raised => raised,
    })?;
    if tensor.dtype() != expected {
        let error = wrong_type(&what(), value, expected, tensor.ty());
        return Err(error.expected(input).into());
    }
    Ok(tensor)
}

/// The error of an array of another type, with the conversion to write.
pub fn wrong_type(
    what: &str,
    value: &Bound<'_, PyAny>,
    expected: DataType,
    found: &TensorType,
) -> Error {
    let error = invalid(format!("{what} has elements of another type"));
    let error = error.expected(expected).found(found);
    let class = class_name(value);
    let library = class.split('.').next().unwrap_or("");
    let numpy = |name: &str| match types::numpy_name(expected) {
        Some(name) => format!("numpy.{name}"),
        None => format!("ml_dtypes.{name}"),
    };
    let name = types::numpy_name(expected).or(types::ml_name(expected));
    let Some(name) = name else {
        return error.help("pass a list of str");
    };
    error.help(match library {
        "torch" => format!("convert it with .to(torch.{name})"),
        "jax" | "jaxlib" => format!("convert it with .astype(jax.numpy.{name})"),
        "tenon" => format!("convert it with .numpy().astype({})", numpy(name)),
        "numpy" => format!("convert it with .astype({})", numpy(name)),
        _ => format!("convert it with numpy.asarray(x).astype({})", numpy(name)),
    })
}

/// Writes a tensor into an array of the caller.
pub fn write(name: &str, value: &Bound<'_, PyAny>, tensor: &Tensor) -> Result<(), Failure> {
    let what = format!("the array for output '{name}'");
    let unsuitable = |text: &str| {
        let error = invalid(format!("{what} {text}"));
        error.expected("a writable contiguous array in this machine's byte order")
    };
    let buffer = PyUntypedBuffer::get(value)
        .map_err(|_| unsuitable("has no buffer").found(class_name(value)))?;
    let found = types::of_format(buffer.format(), buffer.item_size());
    let Some((dtype, false)) = found else {
        return Err(unsuitable("has elements of another type or byte order").into());
    };
    let ty = TensorType::new(dtype, memory::shape(&buffer))?;
    if ty != *tensor.ty() {
        let error = invalid(format!("{what} is of another type"));
        return Err(error.expected(tensor.ty()).found(ty).into());
    }
    match memory::write_into(&buffer, tensor.bytes()) {
        true => Ok(()),
        false => Err(unsuitable("is not writable or not contiguous").into()),
    }
}
