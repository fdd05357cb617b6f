//! `tenon.Package`: a compiled model in memory.

use crate::call::Call;
use crate::model::{LoadSettings, ModelSource, PyModel, placement_report};
use crate::port::{PyPort, ports};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tenon::neff::Limits;
use tenon::tensor::{Buffer, BufferMut};
use tenon::{Control, LoadOptions, Model, Package, Result, neff};

/// A package that a compilation made, in memory.
#[pyclass(frozen, module = "tenon", name = "Package", weakref)]
pub struct PyPackage {
    package: Package,
    /// The bytes of the file, made when they are first used.
    bytes: OnceLock<Buffer>,
    /// The loaded package, for its ports and metadata.
    model: OnceLock<Model>,
}

impl PyPackage {
    /// The package.
    pub fn new(package: Package) -> Self {
        Self {
            // The timeout of compiling has no effect on what comes later.
            package: package.control(Control::new()),
            bytes: OnceLock::new(),
            model: OnceLock::new(),
        }
    }

    /// The package as compiled.
    pub fn package(&self) -> &Package {
        &self.package
    }

    fn bytes(&self, control: &Control) -> Result<Buffer> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes.clone());
        }
        let package = self.package.clone().control(control.clone());
        let made = BufferMut::copy_of(&package.to_bytes()?)?.freeze();
        Ok(self.bytes.get_or_init(|| made).clone())
    }

    fn model(&self, py: Python<'_>) -> PyResult<&Model> {
        if self.model.get().is_none() {
            return Call::new(None, None)?.run(py, |control| {
                let opened = open(self.bytes(control)?, control)?;
                let options = LoadOptions::new().control(control.clone());
                let loaded = Model::from_package(&opened, &options)?;
                Ok(self.model.get_or_init(|| loaded))
            });
        }
        let missing =
            || crate::error::exception(&crate::error::invalid("the package is not loaded"));
        self.model.get().ok_or_else(missing)
    }

    /// Loads the package.
    pub fn load_with(
        &self,
        py: Python<'_>,
        settings: LoadSettings,
        call: Call,
    ) -> PyResult<PyModel> {
        let settings = Arc::new(settings);
        let used = settings.clone();
        let (bytes, model) = call.run(py, move |control| {
            let bytes = self.bytes(control)?;
            let opened = open(bytes.clone(), control)?;
            let model = Model::from_package(&opened, &used.options(control))?;
            Ok((bytes, model))
        })?;
        Ok(PyModel::new(model, ModelSource::Bytes(bytes), settings))
    }
}

/// Opens the bytes of a package.
pub fn open(bytes: Buffer, control: &Control) -> Result<neff::Package> {
    neff::Package::from_buffer(bytes, &Limits::default(), control)
}

#[pymethods]
impl PyPackage {
    /// The inputs in order.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.model(py)?.inputs()))
    }

    /// The outputs in order.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.model(py)?.outputs()))
    }

    /// The metadata of the model.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        Ok(self.model(py)?.metadata().clone())
    }

    /// The size of the file in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        let bytes = Call::new(None, None)?.run(py, |control| self.bytes(control))?;
        Ok(bytes.len())
    }

    /// The backend of each node, and why other backends refused it.
    #[getter]
    fn placement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        placement_report(py, self.package.placement_report())
    }

    /// Writes the file, under a temporary name first: `path` is replaced as a whole or not at all.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Call::new(None, None)?.run(py, |control| {
            let package = self.package.clone().control(control.clone());
            package.write(path)
        })
    }

    /// Loads the package without a file.
    #[pyo3(signature = (*, threads = None, max_in_flight = None, nan_check = false,
        check_digests = false, native_nodes = false, timeout = None, progress = None))]
    fn load(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        max_in_flight: Option<usize>,
        nan_check: bool,
        check_digests: bool,
        native_nodes: bool,
        timeout: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<PyModel> {
        let settings = LoadSettings {
            threads,
            max_in_flight,
            nan_check,
            check_digests,
            native_nodes,
        };
        self.load_with(py, settings, Call::new(timeout, progress)?)
    }

    /// The optimised graph as text.
    fn graph_text(&self) -> String {
        self.package.graph_text()
    }

    /// The host program as text.
    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        Call::new(None, None)?.run(py, |control| {
            tenon::inspect::program_text(&open(self.bytes(control)?, control)?)
        })
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = Call::new(None, None)?.run(py, |control| self.bytes(control))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let model = self.model(py)?;
        let name = model.name();
        let nodes = self.package.placement_report().nodes.len();
        let bytes = self.nbytes(py)?;
        Ok(format!(
            "<tenon.Package {name:?}: {nodes} nodes, {bytes} bytes>"
        ))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let html = slf.py().import("tenon._html")?;
        html.call_method1("package", (slf,))
    }
}
