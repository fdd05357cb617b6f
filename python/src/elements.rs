//! Scalars, strings and nested lists of Python as tensors, and back.

use crate::error::{Failure, class_name, invalid};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt, PyList, PyString, PyTuple};
use tenon::tensor::{BufferMut, Packing, convert};
use tenon::{DataType, Error, Tensor, TensorType};

/// The greatest depth of nested lists.
const MAX_DEPTH: usize = 64;

/// The tensor of a value or of nested lists, of type `dtype` or that of Python's values.
pub fn read(value: &Bound<'_, PyAny>, dtype: Option<DataType>) -> Result<Tensor, Failure> {
    let mut list = Flat::default();
    list.add(value, 0)?;
    let dtype = dtype.unwrap_or_else(|| list.data_type());
    let ty = TensorType::new(dtype, list.shape.clone())?;
    if list.values.len() != ty.elements() {
        return Err(uneven().into());
    }
    list.tensor(ty)
}

/// The values of nested lists in row-major order.
#[derive(Default)]
struct Flat<'py> {
    /// The extents so far; complete after the first value.
    shape: Vec<usize>,
    /// The depth of values; `None` before the first one.
    depth: Option<usize>,
    values: Vec<Bound<'py, PyAny>>,
}

fn uneven() -> Error {
    invalid("the lists are not of equal lengths and depths").help("pad the rows, or use one list")
}

impl<'py> Flat<'py> {
    fn add(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> Result<(), Failure> {
        let items: Vec<Bound<'py, PyAny>> = if let Ok(list) = value.cast::<PyList>() {
            list.iter().collect()
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            tuple.iter().collect()
        } else {
            if *self.depth.get_or_insert(depth) != depth || self.shape.len() != depth {
                return Err(uneven().into());
            }
            self.values.push(value.clone());
            return Ok(());
        };
        if depth == MAX_DEPTH {
            let error = invalid("the lists are nested too deeply");
            return Err(error
                .expected(format_args!("at most {MAX_DEPTH} levels"))
                .into());
        }
        match self.shape.get(depth) {
            Some(&extent) if extent != items.len() => return Err(uneven().into()),
            Some(_) => {}
            None if self.depth.is_some() => return Err(uneven().into()),
            None => self.shape.push(items.len()),
        }
        items.iter().try_for_each(|item| self.add(item, depth + 1))
    }

    /// The type of Python's values.
    fn data_type(&self) -> DataType {
        let all = |is: fn(&Bound<'py, PyAny>) -> bool| self.values.iter().all(is);
        let any = |is: fn(&Bound<'py, PyAny>) -> bool| self.values.iter().any(is);
        if self.values.is_empty() {
            DataType::F32
        } else if any(|value| value.is_instance_of::<PyString>()) {
            DataType::String
        } else if all(|value| value.is_instance_of::<PyBool>()) {
            DataType::Bool
        } else if all(|value| value.is_instance_of::<PyInt>()) {
            DataType::I64
        } else if any(|value| value.is_instance_of::<PyComplex>()) {
            DataType::C64
        } else {
            DataType::F32
        }
    }

    fn tensor(&self, ty: TensorType) -> Result<Tensor, Failure> {
        let dtype = ty.dtype();
        match dtype {
            DataType::String => {
                let strings: Result<Vec<String>, Failure> =
                    self.values.iter().map(string).collect();
                return Ok(Tensor::from_strings(ty.shape().clone(), &strings?)?);
            }
            DataType::Bool => {
                let read = |value: &Bound<'py, PyAny>| match value.cast::<PyBool>() {
                    Ok(value) => Ok(value.is_true()),
                    Err(_) => Err(not_a(dtype, value)),
                };
                let values: Result<Vec<bool>, Failure> = self.values.iter().map(read).collect();
                return Ok(Tensor::from_bools(ty.shape().clone(), &values?)?);
            }
            _ => {}
        }
        if let Some(packing) = Packing::of(dtype).filter(|_| !dtype.is_float()) {
            let mut packed = BufferMut::zeroed(ty.bytes())?;
            let mask = (1 << dtype.bits()) - 1;
            for (at, value) in self.values.iter().enumerate() {
                packing.set(&mut packed, at, integer(value, dtype)? as u8 & mask);
            }
            return Ok(Tensor::new(ty, packed.freeze())?);
        }
        let size = dtype.bits() / 8;
        if dtype.is_integer() {
            let mut bytes = BufferMut::zeroed(ty.bytes())?;
            for (value, bytes) in self.values.iter().zip(bytes.chunks_exact_mut(size)) {
                bytes.copy_from_slice(&integer(value, dtype)?.to_le_bytes()[..size]);
            }
            return Ok(Tensor::new(ty, bytes.freeze())?);
        }
        if matches!(dtype, DataType::C64 | DataType::C128) {
            let parts: Result<Vec<_>, Failure> = self.values.iter().map(complex).collect();
            let parts: Vec<f64> = parts?.into_iter().flatten().collect();
            let mut bytes = BufferMut::zeroed(ty.bytes())?;
            for (part, bytes) in parts.iter().zip(bytes.chunks_exact_mut(size / 2)) {
                match dtype {
                    DataType::C64 => bytes.copy_from_slice(&(*part as f32).to_le_bytes()),
                    _ => bytes.copy_from_slice(&part.to_le_bytes()),
                }
            }
            return Ok(Tensor::new(ty, bytes.freeze())?);
        }
        let values: Result<Vec<f64>, Failure> = self
            .values
            .iter()
            .map(|value| float(value, dtype))
            .collect();
        let exact = Tensor::from_slice(ty.shape().clone(), &values?)?;
        Ok(convert(&exact, dtype)?)
    }
}

/// The strings of a flat list.
pub fn strings(list: &Bound<'_, PyAny>) -> Result<Vec<String>, Failure> {
    let items = list.try_iter()?;
    items.map(|item| string(&item?)).collect()
}

fn string(value: &Bound<'_, PyAny>) -> Result<String, Failure> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.to_owned()),
        Err(_) => Err(not_a(DataType::String, value)),
    }
}

fn not_a(dtype: DataType, value: &Bound<'_, PyAny>) -> Failure {
    let error = invalid("a value of the list is of another type");
    let expected = match dtype {
        DataType::String => "str".to_owned(),
        dtype => format!("a value of type {dtype}"),
    };
    Failure::from(error.expected(expected).found(class_name(value)))
}

fn integer(value: &Bound<'_, PyAny>, dtype: DataType) -> Result<i128, Failure> {
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyFloat>() {
        return Err(not_a(dtype, value));
    }
    let is_signed = dtype.name().starts_with('i');
    let bits = dtype.bits() as u32;
    let (min, max) = match is_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let Ok(index) = value.call_method0("__index__") else {
        return Err(not_a(dtype, value));
    };
    let number = index.extract::<i128>().ok();
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| {
            let error = invalid(format!("a value of the list does not fit {dtype}"));
            error
                .expected(format_args!("{min} to {max}"))
                .found(value)
                .into()
        })
}

fn float(value: &Bound<'_, PyAny>, dtype: DataType) -> Result<f64, Failure> {
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() {
        return Err(not_a(dtype, value));
    }
    value.extract::<f64>().map_err(|_| not_a(dtype, value))
}

fn complex(value: &Bound<'_, PyAny>) -> Result<[f64; 2], Failure> {
    match value.cast::<PyComplex>() {
        Ok(value) => Ok([value.real(), value.imag()]),
        Err(_) => Ok([float(value, DataType::C128)?, 0.0]),
    }
}

/// The elements of a tensor in row-major order, as scalars of Python.
pub fn to_list<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyList>> {
    use crate::error::OrRaise;
    let dtype = tensor.dtype();
    let count = tensor.ty().elements();
    if let Some(packing) = Packing::of(dtype).filter(|_| !dtype.is_float()) {
        let value = |at| packing.value(tensor.bytes(), at) as i64;
        return PyList::new(py, (0..count).map(value));
    }
    if dtype == DataType::Bool {
        return PyList::new(py, tensor.bytes().iter().map(|&byte| byte != 0));
    }
    if dtype == DataType::U64 {
        let values = tensor.bytes().as_chunks::<8>().0.iter();
        return PyList::new(py, values.map(|&bytes| u64::from_le_bytes(bytes)));
    }
    if let Some(values) = tensor.to_i64s() {
        return PyList::new(py, values);
    }
    if matches!(dtype, DataType::C64 | DataType::C128) {
        let reals: Vec<f64> = match dtype {
            DataType::C64 => {
                let values = tensor.bytes().as_chunks::<4>().0.iter();
                values
                    .map(|&bytes| f32::from_le_bytes(bytes).into())
                    .collect()
            }
            _ => {
                let values = tensor.bytes().as_chunks::<8>().0.iter();
                values.map(|&bytes| f64::from_le_bytes(bytes)).collect()
            }
        };
        let pairs = reals.as_chunks::<2>().0.iter();
        let values = pairs.map(|&[real, imaginary]| PyComplex::from_doubles(py, real, imaginary));
        return PyList::new(py, values.collect::<Vec<_>>());
    }
    let exact = convert(tensor, DataType::F64).or_raise()?;
    let values = exact.bytes().as_chunks::<8>().0.iter();
    PyList::new(py, values.map(|&bytes| f64::from_le_bytes(bytes)))
}
