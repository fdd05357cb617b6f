//! `tenon.Outputs`: the outputs of one execution.

use crate::error::{OrRaise, exception, invalid};
use crate::tensor::PyTensor;
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::sync::Arc;
use tenon::files::escape_controls;
use tenon::tensor::convert;
use tenon::{DataType, MapKey, MapKeys, ModelValue, Signature, Tensor};

/// The outputs of one execution: by name, by position, and in order when unpacked.
#[pyclass(frozen, module = "tenon", name = "Outputs", weakref)]
pub struct PyOutputs {
    ports: Arc<[OutputPort]>,
    values: Vec<OutputValue>,
}

/// The name of an output, and the keys of a map.
pub struct OutputPort {
    pub name: String,
    keys: Option<Arc<MapKeys>>,
}

/// The names and keys of outputs.
pub fn output_ports(outputs: &[Signature]) -> Arc<[OutputPort]> {
    let port = |output: &Signature| OutputPort {
        name: output.name.clone(),
        keys: output.keys.clone(),
    };
    outputs.iter().map(port).collect()
}

/// The names, for messages.
pub fn names(ports: &[OutputPort]) -> String {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    names.join(", ")
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

    /// The value as NumPy arrays, or as tensors of Tenon where NumPy is absent; a map of keys as dictionaries.
    fn array<'py>(&self, py: Python<'py>, port: &OutputPort) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Tensor(tensor) => match &port.keys {
                Some(keys) => dictionaries(py, &tensor.get().tensor().or_raise()?, keys),
                None => array(tensor.bind(py)),
            },
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

/// A dictionary for each row of a tensor.
fn dictionaries<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    keys: &MapKeys,
) -> PyResult<Bound<'py, PyAny>> {
    if tensor.shape().last() != Some(&keys.len()) {
        let error = invalid("a map does not have a column for each key");
        return Err(exception(&error.expected(keys.len()).found(tensor.ty())));
    }
    let (names, values) = (key_objects(py, keys)?, elements(py, tensor)?);
    let rows = PyList::empty(py);
    for row in values.chunks(names.len().max(1)) {
        let map = PyDict::new(py);
        for (name, value) in names.iter().zip(row) {
            map.set_item(name, value)?;
        }
        rows.append(map)?;
    }
    Ok(rows.into_any())
}

/// The keys of a map as values of Python.
pub fn key_objects<'py>(py: Python<'py>, keys: &MapKeys) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let object = |key: MapKey<'_>| match key {
        MapKey::String(text) => Ok(PyString::new(py, text).into_any()),
        MapKey::Int(number) => Ok(number.into_pyobject(py)?.into_any()),
    };
    keys.iter().map(object).collect()
}

/// The elements as values of Python.
fn elements<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Some(strings) = tensor.strings() {
        return Ok(strings
            .map(|text| PyString::new(py, text).into_any())
            .collect());
    }
    if let Some(ints) = tensor.to_i64s() {
        return ints
            .iter()
            .map(|int| Ok(int.into_pyobject(py)?.into_any()))
            .collect();
    }
    let wide = convert(tensor, DataType::F64).or_raise()?;
    let floats = wide.as_slice::<f64>().unwrap_or_default().iter();
    floats
        .map(|float| Ok(float.into_pyobject(py)?.into_any()))
        .collect()
}

impl PyOutputs {
    /// The values of these outputs.
    pub fn new(
        py: Python<'_>,
        ports: Arc<[OutputPort]>,
        values: Vec<ModelValue>,
    ) -> PyResult<Self> {
        let values = values.into_iter().map(|value| OutputValue::of(py, value));
        Ok(Self {
            ports,
            values: values.collect::<PyResult<_>>()?,
        })
    }

    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<(&OutputPort, &OutputValue)> {
        if let Ok(name) = key.cast::<PyString>() {
            return self.named(name.to_str()?).ok_or_else(|| {
                PyKeyError::new_err(format!(
                    "the model has no output '{name}': expected one of {}",
                    names(&self.ports)
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
        at.and_then(|at| Some((self.ports.get(at)?, self.values.get(at)?)))
            .ok_or_else(|| PyIndexError::new_err(format!("the model has {count} outputs")))
    }

    fn named(&self, name: &str) -> Option<(&OutputPort, &OutputValue)> {
        let mut outputs = self.ports.iter().zip(&self.values);
        outputs.find(|(port, _)| port.name == name)
    }

    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let outputs = self.ports.iter().zip(&self.values);
        outputs.map(|(port, value)| value.array(py, port)).collect()
    }
}

#[pymethods]
impl PyOutputs {
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (port, value) = self.find(key)?;
        value.array(key.py(), port)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        match self.named(name.to_str()?) {
            Some((port, value)) => value.array(name.py(), port),
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
        self.ports.iter().map(|port| port.name.clone()).collect()
    }

    /// The arrays in order.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.arrays(py)
    }

    /// Names and arrays in order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        Ok(self.keys().into_iter().zip(self.arrays(py)?).collect())
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
            Some((port, value)) => value.array(py, port).map(Some),
            None => Ok(default),
        }
    }

    /// The output as `tenon.Tensor`, without NumPy.
    fn tensor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.1.tensor(key.py())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let make = py.import("tenon._tenon")?.getattr("make_outputs")?;
        let values: PyResult<Vec<_>> = self.values.iter().map(|value| value.tensor(py)).collect();
        let maps = self
            .ports
            .iter()
            .map(|port| Some(port.keys.as_ref()?.to_string()));
        let maps: Vec<Option<String>> = maps.collect();
        let arguments = (self.keys(), PyList::new(py, values?)?, maps).into_pyobject(py)?;
        Ok((make, arguments))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::new();
        for (OutputPort { name, keys }, value) in self.ports.iter().zip(&self.values) {
            let text = match value {
                OutputValue::Tensor(tensor) if keys.is_some() => {
                    format!("maps as {}", tensor.bind(py).get().ty())
                }
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

/// The outputs of a pickle: names; tensors, lists of tensors, or `None`; and the keys of maps as text.
#[pyfunction]
pub fn make_outputs(
    names: Vec<String>,
    values: Vec<Bound<'_, PyAny>>,
    maps: Vec<Option<String>>,
) -> PyResult<PyOutputs> {
    if names.len() != values.len() || names.len() != maps.len() {
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
    let port = |(name, keys): (String, Option<String>)| -> PyResult<OutputPort> {
        let keys = keys
            .map(|keys| MapKeys::parse(&keys))
            .transpose()
            .or_raise()?;
        Ok(OutputPort {
            name,
            keys: keys.map(Arc::new),
        })
    };
    let ports: PyResult<Vec<OutputPort>> = names.into_iter().zip(maps).map(port).collect();
    Ok(PyOutputs {
        ports: ports?.into(),
        values: values.into_iter().map(read).collect::<PyResult<_>>()?,
    })
}
