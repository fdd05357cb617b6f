//! `tenon.Tensor`: memory of Tenon as an array of Python.

#![allow(unsafe_code, reason = "the buffer protocol")]

use crate::error::{Failure, OrRaise, invalid};
use crate::{arrays, dlpack, types};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::ffi::c_int;
use std::sync::Arc;
use tenon::tensor::{BufferMut, DataType, Packing, SharedMemory};
use tenon::{Tensor, TensorType};

/// An array in memory of Tenon, aligned to 64 bytes.
#[pyclass(frozen, module = "tenon", name = "Tensor", weakref)]
pub struct PyTensor {
    ty: TensorType,
    memory: Arc<SharedMemory>,
}

/// Extents and strides of a view of the buffer protocol.
struct ViewLayout {
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

impl PyTensor {
    /// The array of an output.
    pub fn of(tensor: Tensor) -> tenon::Result<Self> {
        let ty = tensor.ty().clone();
        let buffer = tensor.buffer().clone();
        drop(tensor);
        Ok(Self {
            ty,
            memory: SharedMemory::of_buffer(buffer)?,
        })
    }

    /// An array of zeros.
    pub fn zeroed(ty: TensorType) -> tenon::Result<Self> {
        Ok(Self {
            memory: SharedMemory::zeroed(ty.bytes())?,
            ty,
        })
    }

    /// The type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    /// The tensor, which shares the memory.
    pub fn tensor(&self) -> tenon::Result<Tensor> {
        Tensor::new(self.ty.clone(), self.memory.buffer())
    }

    /// The bytes of the elements, as an array of one dimension.
    fn as_bytes(&self) -> tenon::Result<Self> {
        Ok(Self {
            ty: TensorType::new(DataType::U8, [self.memory.len()])?,
            memory: self.memory.clone(),
        })
    }

    /// Elements of less than a byte, one in each byte.
    fn unpacked(&self, packing: Packing) -> tenon::Result<Self> {
        let packed = self.memory.copied()?;
        let mut bytes = BufferMut::zeroed(self.ty.elements())?;
        match self.ty.dtype() {
            DataType::F4E2M1Fn => {
                for (at, byte) in bytes.iter_mut().enumerate() {
                    *byte = packing.code(&packed, at);
                }
            }
            _ => packing.unpack(&packed, 0, &mut bytes),
        }
        let ty = TensorType::new(DataType::U8, self.ty.shape().clone())?;
        Self::of(Tensor::new(ty, bytes.freeze())?)
    }

    /// The strings, in row-major order.
    fn strings(&self) -> tenon::Result<Vec<String>> {
        let tensor = self.tensor()?;
        let strings = tensor.strings().map(|all| all.map(str::to_owned).collect());
        Ok(strings.unwrap_or_default())
    }

    /// A NumPy array over the memory; a copy of elements below a byte, and of strings.
    pub fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let numpy = py.import("numpy")?;
        let dtype = this.ty.dtype();
        if types::format(dtype).is_some() {
            return numpy.call_method1("asarray", (slf,));
        }
        let shape = PyTuple::new(py, this.ty.shape().iter())?;
        if dtype == DataType::String {
            let strings = PyList::new(py, this.strings().or_raise()?)?;
            let options = PyDict::new(py);
            options.set_item("dtype", "object")?;
            let array = numpy.call_method("array", (strings,), Some(&options))?;
            return array.call_method1("reshape", (shape,));
        }
        let name = types::ml_name(dtype).unwrap_or("");
        let element = py
            .import("ml_dtypes")
            .and_then(|module| module.getattr(name));
        let element = element.map_err(|error| {
            let text =
                format!("NumPy has no type {dtype}: the package ml_dtypes adds ml_dtypes.{name}");
            let missing = pyo3::exceptions::PyImportError::new_err(text);
            missing.set_cause(py, Some(error));
            missing
        })?;
        let bytes = match Packing::of(dtype) {
            Some(packing) => this.unpacked(packing),
            None => this.as_bytes(),
        };
        let bytes = numpy.call_method1("asarray", (bytes.or_raise()?,))?;
        let flat = bytes.call_method1("reshape", (-1,))?;
        let elements = flat.call_method1("view", (element,))?;
        elements.call_method1("reshape", (shape,))
    }
}

#[pymethods]
impl PyTensor {
    /// The data type by its name in Tenon: `f32`, `bf16`, `i64`, `bool`, `string`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.ty.dtype().name()
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.ty.shape().iter())
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.len()
    }

    /// A NumPy array over the same memory. Elements below a byte and strings are copied.
    #[pyo3(name = "numpy")]
    fn numpy_array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_numpy(slf)
    }

    /// The elements as nested lists.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let flat = match this.ty.dtype() {
            DataType::String => PyList::new(py, this.strings().or_raise()?)?.into_any(),
            _ => crate::elements::to_list(py, &this.tensor().or_raise()?)?.into_any(),
        };
        nested(flat, this.ty.shape())
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = Self::to_numpy(slf)?;
        let array = match dtype {
            Some(dtype) => {
                let options = PyDict::new(slf.py());
                options.set_item("copy", false)?;
                array.call_method("astype", (dtype,), Some(&options))?
            }
            None => array,
        };
        match copy {
            Some(true) => array.call_method0("copy"),
            _ => Ok(array),
        }
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("memory of the host has no stream"));
        }
        if dl_device.is_some_and(|device| device != (1, 0)) {
            return Err(PyBufferError::new_err(
                "the memory is in device (1, 0), the host",
            ));
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if copy == Some(true) {
            let copy = SharedMemory::of_buffer(self.memory.copied().or_raise()?.freeze());
            return dlpack::export(py, &self.ty, &copy.or_raise()?, is_versioned);
        }
        dlpack::export(py, &self.ty, &self.memory, is_versioned)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.ty.shape().first().copied();
        first.ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("a tensor of rank 0 has no length")
        })
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let make = py.import("tenon._tenon")?.getattr("tensor")?;
        let list = match this.ty.dtype() {
            DataType::String => PyList::new(py, this.strings().or_raise()?)?.into_any(),
            _ => {
                let bytes = this.memory.copied().or_raise()?;
                pyo3::types::PyBytes::new(py, &bytes).into_any()
            }
        };
        let shape = PyTuple::new(py, this.ty.shape().iter())?;
        let arguments = (list, this.dtype(), shape).into_pyobject(py)?;
        Ok((make, arguments))
    }

    fn __repr__(&self) -> String {
        format!("<tenon.Tensor {}>", self.ty)
    }

    /// # Safety
    /// Python calls it with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let dtype = this.ty.dtype();
        let format = types::format(dtype).ok_or_else(|| {
            PyBufferError::new_err(format!(
                "the buffer protocol has no format of {dtype}; Tensor.numpy() and DLPack have"
            ))
        })?;
        let size = dtype.bits() / 8;
        let signed = |values: &[usize], scale: usize| -> Vec<ffi::Py_ssize_t> {
            let all = values.iter();
            all.map(|&value| (value * scale) as ffi::Py_ssize_t)
                .collect()
        };
        let mut layout = Box::new(ViewLayout {
            shape: signed(this.ty.shape(), 1),
            strides: signed(&this.ty.shape().strides(), size),
        });
        let has = |flag: c_int| flags & flag == flag;
        // SAFETY: Python passes a view to fill (requirement). The memory lives as long as `obj`, a reference to this
        // object; the lists and the layout live until `__releasebuffer__` frees the layout; the format is static.
        unsafe {
            (*view).buf = this.memory.start().cast();
            (*view).len = this.memory.len() as ffi::Py_ssize_t;
            (*view).readonly = 0;
            (*view).itemsize = size as ffi::Py_ssize_t;
            (*view).format = match has(ffi::PyBUF_FORMAT) {
                true => format.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = layout.shape.len() as c_int;
            (*view).shape = match has(ffi::PyBUF_ND) {
                true => layout.shape.as_mut_ptr(),
                false => std::ptr::null_mut(),
            };
            (*view).strides = match has(ffi::PyBUF_STRIDES) {
                true => layout.strides.as_mut_ptr(),
                false => std::ptr::null_mut(),
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = Box::into_raw(layout).cast();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    /// # Safety
    /// Python calls it once with a view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` made the layout, and Python releases each view once (requirement).
        drop(unsafe { Box::from_raw((*view).internal.cast::<ViewLayout>()) });
    }
}

/// A flat list as nested lists of a shape.
fn nested<'py>(flat: Bound<'py, PyAny>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let py = flat.py();
    if shape.is_empty() {
        return flat.get_item(0);
    }
    let mut level: Vec<Bound<'py, PyAny>> = flat.try_iter()?.collect::<PyResult<_>>()?;
    for (at, &extent) in shape.iter().enumerate().skip(1).rev() {
        let rows = shape[..at].iter().product();
        let row = |row: usize| PyList::new(py, &level[row * extent..(row + 1) * extent]);
        let lists: PyResult<Vec<_>> = (0..rows).map(|at| Ok(row(at)?.into_any())).collect();
        level = lists?;
    }
    Ok(PyList::new(py, level)?.into_any())
}

/// The data type of a name.
pub fn data_type(name: &str) -> Result<DataType, Failure> {
    Ok(name.parse::<DataType>()?)
}

/// An array of zeros, aligned to 64 bytes.
#[pyfunction]
#[pyo3(signature = (shape, dtype = "f32"))]
pub fn empty(shape: Vec<usize>, dtype: &str) -> Result<PyTensor, Failure> {
    let ty = TensorType::new(data_type(dtype)?, shape)?;
    if ty.dtype() == DataType::String {
        let error = invalid("strings have no memory of a fixed size");
        return Err(error.help("pass a list of str as the input").into());
    }
    Ok(PyTensor::zeroed(ty)?)
}

/// A copy of an array, list or number; of `bytes` with a type and a shape.
#[pyfunction]
#[pyo3(signature = (value, dtype = None, shape = None))]
pub fn tensor(
    value: &Bound<'_, PyAny>,
    dtype: Option<&str>,
    shape: Option<Vec<usize>>,
) -> Result<PyTensor, Failure> {
    let dtype = dtype.map(data_type).transpose()?;
    let is_raw = value.is_instance_of::<pyo3::types::PyBytes>() && dtype.is_some();
    let tensor = match (dtype, &shape, is_raw) {
        (Some(dtype), Some(shape), true) => {
            let bytes = value.cast::<pyo3::types::PyBytes>().map_err(PyErr::from)?;
            let ty = TensorType::new(dtype, shape.clone())?;
            Tensor::new(ty, BufferMut::copy_of(bytes.as_bytes())?.freeze())?
        }
        _ => {
            let tensor = arrays::read(value, dtype)?;
            match &shape {
                Some(shape) => tensor.reshaped(shape.clone())?,
                None => tensor,
            }
        }
    };
    if let Some(dtype) = dtype
        && tensor.dtype() != dtype
    {
        return Err(arrays::wrong_type("the array", value, dtype, tensor.ty()).into());
    }
    Ok(PyTensor::of(tensor)?)
}
