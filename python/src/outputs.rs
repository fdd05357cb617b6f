//! `tenon.Outputs`: the outputs of one execution.

use crate::error::{OrRaise, exception, invalid};
use crate::tensor::PyTensor;
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::sync::Arc;
use tenon::ModelValue;
use tenon::files::escape_controls;

/// The outputs of one execution: by name, by position, and in order when unpacked.
#[pyclass(frozen, module = "tenon", name = "Outputs", weakref)]
pub struct PyOutputs {
    names: Arc<[String]>,
    values: Vec<OutputValue>,
}

/// The value of an output.
enum OutputValue {
    Tensor(Py<PyTensor>),
    Sequence(Vec<Py<PyTensor>>),
    None,
}

impl OutputValue {
    fn of(py: Python<'_>, value: ModelValue) -> PyResult<Self> {
        let made = |tensor| Py::new(py, PyTensor::of(tensor).or_raise()?);
        Ok(match value {
            ModelValue::Tensor(tensor) => Self::Tensor(made(tensor)?),
            ModelValue::Sequence(tensors) => {
                let tensors: PyResult<Vec<_>> = tensors.into_iter().map(made).collect();
                Self::Sequence(tensors?)
            }
            ModelValue::None => Self::None,
        })
    }

    /// The value as NumPy arrays, or as tensors of Tenon where NumPy is absent.
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Tensor(tensor) => array(tensor.bind(py)),
            Self::Sequence(tensors) => {
                let arrays: PyResult<Vec<_>> = tensors.iter().map(|t| array(t.bind(py))).collect();
                Ok(PyList::new(py, arrays?)?.into_any())
            }
            Self::None => Ok(py.None().into_bound(py)),
        }
    }

    /// The value as tensors of Tenon.
    fn tensor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Tensor(tensor) => Ok(tensor.bind(py).clone().into_any()),
            Self::Sequence(tensors) => Ok(PyList::new(py, tensors)?.into_any()),
            Self::None => Ok(py.None().into_bound(py)),
        }
    }
}

/// A NumPy array over a tensor; the tensor where NumPy is absent.
pub fn array<'py>(tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    match py.import("numpy") {
        Ok(_) => PyTensor::to_numpy(tensor),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyImportError>(py) => {
            Ok(tensor.clone().into_any())
        }
        Err(error) => Err(error),
    }
}

impl PyOutputs {
    /// The outputs of these names.
    pub fn new(py: Python<'_>, names: Arc<[String]>, values: Vec<ModelValue>) -> PyResult<Self> {
        let values = values.into_iter().map(|value| OutputValue::of(py, value));
        Ok(Self {
            names,
            values: values.collect::<PyResult<_>>()?,
        })
    }

    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<&OutputValue> {
        if let Ok(name) = key.cast::<PyString>() {
            return self.named(name.to_str()?).ok_or_else(|| {
                PyKeyError::new_err(format!(
                    "the model has no output '{name}': expected one of {}",
                    self.names.join(", ")
                ))
            });
        }
        let Ok(index) = key.extract::<isize>() else {
            return Err(PyTypeError::new_err(
                "an output has a name (str) or a position (int)",
            ));
        };
        let count = self.values.len();
        let from_end = if index < 0 { count as isize } else { 0 };
        let at = usize::try_from(index.saturating_add(from_end)).ok();
        at.and_then(|at| self.values.get(at))
            .ok_or_else(|| PyIndexError::new_err(format!("the model has {count} outputs")))
    }

    fn named(&self, name: &str) -> Option<&OutputValue> {
        let at = self.names.iter().position(|known| known == name)?;
        self.values.get(at)
    }

    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.values.iter().map(|value| value.array(py)).collect()
    }
}

#[pymethods]
impl PyOutputs {
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.array(key.py())
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        match self.named(name.to_str()?) {
            Some(value) => value.array(name.py()),
            None => Err(PyAttributeError::new_err(format!(
                "there is no output '{name}'"
            ))),
        }
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.named(name).is_some()
    }

    /// The arrays in order, so that `a, b = outputs` unpacks them.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arrays = PyTuple::new(py, self.arrays(py)?)?;
        Ok(arrays.try_iter()?.into_any())
    }

    /// The names in order.
    fn keys(&self) -> Vec<String> {
        self.names.to_vec()
    }

    /// The arrays in order.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.arrays(py)
    }

    /// Names and arrays in order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        Ok(self.names.iter().cloned().zip(self.arrays(py)?).collect())
    }

    /// The array of a name, or `default`.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.named(name) {
            Some(value) => value.array(py).map(Some),
            None => Ok(default),
        }
    }

    /// The output as `tenon.Tensor`, without NumPy.
    fn tensor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.tensor(key.py())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let make = py.import("tenon._tenon")?.getattr("make_outputs")?;
        let values: PyResult<Vec<_>> = self.values.iter().map(|value| value.tensor(py)).collect();
        let arguments = (self.keys(), PyList::new(py, values?)?).into_pyobject(py)?;
        Ok((make, arguments))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::new();
        for (name, value) in self.names.iter().zip(&self.values) {
            let text = match value {
                OutputValue::Tensor(tensor) => tensor.bind(py).get().ty().to_string(),
                OutputValue::Sequence(tensors) => format!("a sequence of {}", tensors.len()),
                OutputValue::None => "None".into(),
            };
            parts.push(format!("{name}: {text}"));
        }
        let text = format!("<tenon.Outputs {}>", parts.join(", "));
        Ok(escape_controls(&text).to_string())
    }
}

/// The outputs of a pickle: names, and tensors, lists of tensors, or `None`.
#[pyfunction]
pub fn make_outputs(names: Vec<String>, values: Vec<Bound<'_, PyAny>>) -> PyResult<PyOutputs> {
    if names.len() != values.len() {
        let error = invalid("the count of outputs is not that of their names");
        let error = error.expected(names.len()).found(values.len());
        return Err(exception(&error));
    }
    let read = |value: Bound<'_, PyAny>| -> PyResult<OutputValue> {
        if value.is_none() {
            return Ok(OutputValue::None);
        }
        if let Ok(tensor) = value.cast::<PyTensor>() {
            return Ok(OutputValue::Tensor(tensor.clone().unbind()));
        }
        let tensors = value
            .try_iter()?
            .map(|item| Ok(item?.cast::<PyTensor>()?.clone().unbind()));
        Ok(OutputValue::Sequence(tensors.collect::<PyResult<_>>()?))
    };
    Ok(PyOutputs {
        names: names.into(),
        values: values.into_iter().map(read).collect::<PyResult<_>>()?,
    })
}
