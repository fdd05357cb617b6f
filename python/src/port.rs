//! `tenon.Port`: an input or output of a model.

use crate::outputs::key_objects;
use crate::types;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tenon::files::escape_controls;
use tenon::{Dimension, Signature};

/// An input or output of a model: name, data type, dimensions.
#[pyclass(frozen, module = "tenon", name = "Port", eq)]
#[derive(PartialEq)]
pub struct PyPort(Signature);

/// The ports of signatures.
pub fn ports(signatures: &[Signature]) -> Vec<PyPort> {
    signatures.iter().cloned().map(PyPort).collect()
}

#[pymethods]
impl PyPort {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// `tensor`, `sequence`, `optional` or `optional-sequence`.
    #[getter]
    fn kind(&self) -> String {
        self.0.kind.to_string()
    }

    /// The data type by its name in Tenon: `f32`, `bf16`, `i64`, `bool`, `string`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.ty.dtype().name()
    }

    /// The dimensions: an `int` of each fixed one, the symbol or expression of each symbolic one as a `str`.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let extent = |dimension: &Dimension| -> PyResult<Bound<'py, PyAny>> {
            Ok(match dimension {
                Dimension::Fixed(size) => size.into_pyobject(py)?.into_any(),
                Dimension::Symbolic { expression, .. } => PyString::new(py, expression).into_any(),
            })
        };
        let extents: PyResult<Vec<_>> = self.0.shape.iter().map(extent).collect();
        PyTuple::new(py, extents?)
    }

    /// The keys of the columns of a map: all `str` or all `int`; `None` for other values.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(keys) = &self.0.keys else {
            return Ok(None);
        };
        PyTuple::new(py, key_objects(py, keys)?).map(Some)
    }

    /// The type of NumPy or `ml_dtypes` with the same elements; needs the package.
    #[getter]
    fn numpy_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import("numpy")?;
        let dtype = self.0.ty.dtype();
        let element = match (types::numpy_name(dtype), types::ml_name(dtype)) {
            (Some(name), _) => return numpy.call_method1("dtype", (name,)),
            (None, Some(name)) => py.import("ml_dtypes")?.getattr(name)?,
            (None, None) => return numpy.call_method1("dtype", ("object",)),
        };
        numpy.call_method1("dtype", (element,))
    }

    fn __repr__(&self) -> String {
        escape_controls(&format!("<tenon.Port {:?}: {}>", self.0.name, self.0)).to_string()
    }

    fn __str__(&self) -> String {
        escape_controls(&format!("{}: {}", self.0.name, self.0)).to_string()
    }
}
