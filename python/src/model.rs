//! `tenon.Model`: a loaded package.

use crate::arrays;
use crate::bindings::PyBindings;
use crate::call::Call;
use crate::error::{Failure, OrRaise, class_name, invalid};
use crate::fork::Executions;
use crate::inputs::{Inputs, call_inputs, read_inputs, tensors};
use crate::outputs::{OutputPort, PyOutputs, array, names, output_ports};
use crate::package::{PyPackage, open};
use crate::port::{PyPort, ports};
use crate::session::PySession;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use tenon::files::escape_controls;
use tenon::inspect::PlacementReport;
use tenon::profile::Recording;
use tenon::tap::Taps;
use tenon::tensor::{Buffer, BufferMut};
use tenon::{
    Control, Error, ErrorKind, LoadOptions, Model, ModelValue, Pattern, Result, RunOptions,
    Signature, Tensor, TensorType,
};

/// How a model was loaded; pickled with it.
#[derive(Clone, Default)]
pub struct LoadSettings {
    pub threads: Option<usize>,
    pub max_in_flight: Option<usize>,
    pub nan_check: bool,
    pub check_digests: bool,
    pub native_nodes: bool,
}

impl LoadSettings {
    /// The options of the loader.
    pub fn options(&self, control: &Control) -> LoadOptions {
        let mut options = LoadOptions::new()
            .control(control.clone())
            .threads(self.threads)
            .check_digests(self.check_digests);
        // The defaults of these may come from the environment.
        if self.nan_check {
            options = options.nan_check(true);
        }
        if self.native_nodes {
            options = options.native_nodes(true);
        }
        match self.max_in_flight {
            Some(count) => options.max_in_flight(count),
            None => options,
        }
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("threads", self.threads)?;
        dict.set_item("max_in_flight", self.max_in_flight)?;
        dict.set_item("nan_check", self.nan_check)?;
        dict.set_item("check_digests", self.check_digests)?;
        dict.set_item("native_nodes", self.native_nodes)?;
        Ok(dict)
    }
}

/// Where a model came from; pickled in its place.
pub enum ModelSource {
    /// The absolute path of its file.
    File(PathBuf),
    /// The bytes of the package.
    Bytes(Buffer),
}

/// A loaded package, ready to run on any number of threads.
#[pyclass(frozen, module = "tenon", name = "Model", weakref)]
pub struct PyModel {
    /// `None` when the model is closed.
    model: RwLock<Option<Model>>,
    source: ModelSource,
    settings: Arc<LoadSettings>,
    executions: Arc<Executions>,
}

impl PyModel {
    /// A loaded model.
    pub fn new(model: Model, source: ModelSource, settings: Arc<LoadSettings>) -> Self {
        Self {
            model: RwLock::new(Some(model)),
            source,
            settings,
            executions: Executions::new(),
        }
    }

    fn model(&self) -> Result<Model> {
        let model = self.model.read().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(|| {
            Error::new(ErrorKind::Closed, "the model is closed").help("load it again")
        })
    }
}

/// Executes a model on these inputs.
fn execute(model: &Model, inputs: &Inputs, control: &Control) -> Result<Vec<ModelValue>> {
    let options = RunOptions::new().control(control.clone());
    let mut ports = model.inputs().iter().chain(model.outputs());
    if ports.all(|port| port.kind.is_tensor()) {
        let outputs = model.run_with(&tensors(inputs)?, options)?;
        return Ok(outputs.into_iter().map(ModelValue::from).collect());
    }
    let values: Vec<(&str, &ModelValue)> = inputs
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    model.run_values(&values, options)
}

/// The model of the sizes of these inputs, for what needs fixed sizes.
fn fixed(model: &Model, inputs: &[(&str, &Tensor)]) -> Result<Model> {
    if model.symbols().is_empty() {
        return Ok(model.clone());
    }
    let types: Vec<(&str, &TensorType)> = inputs.iter().map(|(name, x)| (*name, x.ty())).collect();
    model.at_inputs(&types, &[])
}

/// `tenon.Placement` of a report.
pub fn placement_report<'py>(
    py: Python<'py>,
    report: &PlacementReport,
) -> PyResult<Bound<'py, PyAny>> {
    let nodes: Vec<serde_json::Value> = report
        .nodes
        .iter()
        .map(|node| {
            let refusals = node.refusals.iter().map(|refusal| {
                serde_json::json!({"backend": refusal.backend, "reason": refusal.reason, "text": refusal.text})
            });
            serde_json::json!({
                "node": node.node, "operator": node.operator, "backend": node.backend,
                "weights": node.weights, "read": node.read, "written": node.written, "refusals": refusals.collect::<Vec<_>>(),
            })
        })
        .collect();
    let traffic = &report.traffic;
    let json = serde_json::json!({
        "backends": report.backends, "nodes": nodes, "notes": report.notes,
        "traffic": {"moved": traffic.moved, "least": traffic.least, "fused": traffic.fused},
    });
    report_of(py, "Placement", &json)
}

/// An object of a class of `tenon/_reports.py`, from JSON.
pub fn report_of<'py>(
    py: Python<'py>,
    class: &str,
    json: &serde_json::Value,
) -> PyResult<Bound<'py, PyAny>> {
    let reports = py.import("tenon._reports")?;
    let class = reports.getattr(class)?;
    class.call_method1("from_json", (json.to_string(),))
}

#[pymethods]
impl PyModel {
    /// The model's name.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.model().or_raise()?.name().to_owned())
    }

    /// The inputs in order.
    #[getter]
    fn inputs(&self) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.model().or_raise()?.inputs()))
    }

    /// The outputs in order.
    #[getter]
    fn outputs(&self) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.model().or_raise()?.outputs()))
    }

    /// The symbolic dimensions: smallest and greatest size by name.
    #[getter]
    fn symbols(&self) -> PyResult<BTreeMap<String, (u64, u64)>> {
        let model = self.model().or_raise()?;
        let symbols = model.symbols().iter();
        Ok(symbols
            .map(|(_, symbol)| (symbol.name.to_string(), (symbol.min, symbol.max)))
            .collect())
    }

    /// The model's metadata.
    #[getter]
    fn metadata(&self) -> PyResult<BTreeMap<String, String>> {
        Ok(self.model().or_raise()?.metadata().clone())
    }

    /// The backend of each node, and why other backends refused it.
    #[getter]
    fn placement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        placement_report(py, self.model().or_raise()?.placement())
    }

    /// The states that the package declares: output names to input names.
    #[getter]
    fn states(&self) -> PyResult<BTreeMap<String, String>> {
        let pairs = self.model().or_raise()?.state_pairs().into_iter();
        Ok(pairs.map(|pair| (pair.output, pair.input)).collect())
    }

    /// Whether the model is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.model().is_err()
    }

    /// Frees the model when its last execution, binding and session has ended. Later calls raise `Closed`.
    fn close(&self, py: Python<'_>) {
        let model = self
            .model
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        py.detach(|| drop(model));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// Executes on arrays in the order of the inputs, or by name, or in one dictionary.
    #[pyo3(signature = (*arrays, **named))]
    fn __call__(
        &self,
        py: Python<'_>,
        arrays: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOutputs> {
        let model = self.model().or_raise()?;
        let inputs = call_inputs(model.inputs(), arrays, named)?;
        self.execute(py, &model, inputs, None)
    }

    /// Executes on arrays by name or in order. `out` has arrays that receive outputs.
    #[pyo3(signature = (inputs, *, timeout = None, out = None))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        out: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOutputs> {
        let model = self.model().or_raise()?;
        let inputs = read_inputs(model.inputs(), inputs)?;
        let Some(out) = out else {
            return self.execute(py, &model, inputs, timeout);
        };
        let ports = output_ports(model.outputs());
        for name in out.keys() {
            let name: String = name.extract()?;
            if !ports.iter().any(|port| port.name == name) {
                let error = invalid(format!("the model has no output '{name}'"));
                return Err(Failure::from(error.expected(names(&ports))).into());
            }
        }
        let values = self.values(py, &model, inputs, timeout)?;
        for (OutputPort { name, .. }, value) in ports.iter().zip(&values) {
            if let (Some(array), ModelValue::Tensor(tensor)) = (out.get_item(name)?, value) {
                arrays::write(name, &array, tensor)?;
            }
        }
        PyOutputs::new(py, ports, values)
    }

    /// Executes on a thread of the queue of the process; returns a `concurrent.futures.Future` of the outputs.
    #[pyo3(signature = (inputs, *, timeout = None))]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.model().or_raise()?;
        let inputs = read_inputs(model.inputs(), inputs)?;
        let running = self.executions.begin().or_raise()?;
        crate::submit::submit(py, &model, inputs, timeout, running)
    }

    /// Memory for inputs and outputs that executions use in place. A model with symbolic dimensions needs their sizes.
    #[pyo3(signature = (**dims))]
    fn bind(&self, py: Python<'_>, dims: Option<BTreeMap<String, u64>>) -> PyResult<PyBindings> {
        let model = self.model().or_raise()?;
        let dims = dims.unwrap_or_default();
        let sizes: Vec<(&str, u64)> = dims
            .iter()
            .map(|(name, size)| (name.as_str(), *size))
            .collect();
        let model = match sizes.is_empty() && model.symbols().is_empty() {
            true => model,
            false => py.detach(|| model.at(&sizes)).or_raise()?,
        };
        PyBindings::new(py, model, self.executions.clone())
    }

    /// A session, which keeps states between executions: those of the package, or these outputs to inputs.
    #[pyo3(signature = (states = None))]
    fn session(&self, states: Option<&Bound<'_, PyAny>>) -> PyResult<PySession> {
        let model = self.model().or_raise()?;
        let session = match states {
            Some(states) => model.session_with(&crate::compile::state_pairs(states)?),
            None => model.session(),
        };
        Ok(PySession::new(session.or_raise()?, self.executions.clone()))
    }

    /// Times of the kernels over some executions, and a trace of one more. `ceiling` measures the machine's peaks
    /// first, which takes some tenths of a second.
    #[pyo3(signature = (inputs, runs = 10, *, ceiling = false, timeout = None))]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        runs: usize,
        ceiling: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.model().or_raise()?;
        let inputs = read_inputs(model.inputs(), inputs)?;
        let call = Call::new(timeout, None)?;
        let running = self.executions.begin().or_raise()?;
        let json = call.run(py, move |control| {
            let (inputs, _running) = (tensors(&inputs)?, running);
            profile(&fixed(&model, &inputs)?, &inputs, runs, ceiling, control)
        })?;
        report_of(py, "Profile", &json)
    }

    /// The intermediate values whose name, or the name of whose node, matches a pattern (`*`, `?`), by name.
    #[pyo3(signature = (inputs, values = "*", *, timeout = None))]
    fn tap<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        values: &str,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let model = self.model().or_raise()?;
        let inputs = read_inputs(model.inputs(), inputs)?;
        let call = Call::new(timeout, None)?;
        let running = self.executions.begin().or_raise()?;
        let pattern = Pattern::new(values);
        let found = call.run(py, move |control| {
            let taps = Taps::new(vec![pattern]);
            let _running = running;
            let options = RunOptions::new().control(control.clone()).tap(&taps);
            model.run_with(&tensors(&inputs)?, options)?;
            taps.tensors()
        })?;
        let dict = PyDict::new(py);
        for (name, tensor) in found {
            let tensor = Bound::new(py, PyTensor::of(tensor).or_raise()?)?;
            dict.set_item(name, array(&tensor)?)?;
        }
        Ok(dict)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        self.model().or_raise()?;
        let again = py.import("tenon._models")?.getattr("load_again")?;
        let source = match &self.source {
            ModelSource::File(path) => path.as_os_str().into_pyobject(py)?.into_any(),
            ModelSource::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        };
        let options = self.settings.to_dict(py)?;
        Ok((again, (source, options).into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        match self.model() {
            Ok(model) => {
                let list = |ports: &[Signature]| {
                    let ports: Vec<String> = ports
                        .iter()
                        .map(|port| format!("{}: {port}", port.name))
                        .collect();
                    ports.join(", ")
                };
                let (inputs, outputs) = (list(model.inputs()), list(model.outputs()));
                let text = format!("<tenon.Model {:?} ({inputs}) -> ({outputs})>", model.name());
                escape_controls(&text).to_string()
            }
            Err(_) => "<tenon.Model, closed>".into(),
        }
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let html = slf.py().import("tenon._html")?;
        html.call_method1("model", (slf,))
    }
}

impl PyModel {
    fn values(
        &self,
        py: Python<'_>,
        model: &Model,
        inputs: Inputs,
        timeout: Option<f64>,
    ) -> PyResult<Vec<ModelValue>> {
        let call = Call::new(timeout, None)?;
        let _running = self.executions.begin().or_raise()?;
        // The inputs are dropped here, attached to Python: buffers are released at once.
        call.run(py, |control| execute(model, &inputs, control))
    }

    fn execute(
        &self,
        py: Python<'_>,
        model: &Model,
        inputs: Inputs,
        timeout: Option<f64>,
    ) -> PyResult<PyOutputs> {
        let values = self.values(py, model, inputs, timeout)?;
        PyOutputs::new(py, output_ports(model.outputs()), values)
    }
}

/// A profile and a trace, as JSON.
fn profile(
    model: &Model,
    inputs: &[(&str, &Tensor)],
    runs: usize,
    measure: bool,
    control: &Control,
) -> Result<serde_json::Value> {
    use tenon::machine::{Ceiling, threads};
    let mut profile = model.profile();
    for _ in 0..runs.max(1) {
        let options = RunOptions::new().control(control.clone());
        model.run_with(inputs, options.profile(&mut profile))?;
    }
    let recording = Recording::new();
    model.run_with(
        inputs,
        RunOptions::new().control(control.clone()).trace(&recording),
    )?;
    let ceiling = measure.then(|| Ceiling::measure(threads()));
    let mut report = tenon::profile::json(&profile, ceiling.as_ref());
    report["trace"] = recording.json("tenon").into();
    Ok(report)
}

/// Loads a package from a file, from bytes, or from `tenon.Package`.
#[pyfunction]
#[pyo3(signature = (package, *, threads = None, max_in_flight = None, nan_check = false,
    check_digests = false, native_nodes = false, timeout = None, progress = None))]
pub fn load(
    py: Python<'_>,
    package: &Bound<'_, PyAny>,
    threads: Option<usize>,
    max_in_flight: Option<usize>,
    nan_check: bool,
    check_digests: bool,
    native_nodes: bool,
    timeout: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyModel> {
    let call = Call::new(timeout, progress)?;
    let settings = LoadSettings {
        threads,
        max_in_flight,
        nan_check,
        check_digests,
        native_nodes,
    };
    if let Ok(package) = package.cast::<PyPackage>() {
        return package.get().load_with(py, settings, call);
    }
    let settings = Arc::new(settings);
    let used = settings.clone();
    if let Ok(bytes) = package.cast::<PyBytes>() {
        let bytes = BufferMut::copy_of(bytes.as_bytes()).or_raise()?.freeze();
        let source = ModelSource::Bytes(bytes.clone());
        let model = call.run(py, move |control| {
            Model::from_package(&open(bytes, control)?, &used.options(control))
        })?;
        return Ok(PyModel::new(model, source, settings));
    }
    let Ok(path) = package.extract::<PathBuf>() else {
        let error = invalid("this is no package").expected("a path, bytes or tenon.Package");
        return Err(Failure::from(error.found(class_name(package))).into());
    };
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let is_onnx = path
        .extension()
        .is_some_and(|extension| extension == "onnx");
    let model = call.run(py, move |control| {
        let loaded = Model::load_with(&path, &used.options(control));
        loaded.map_err(|error| match error.kind() {
            ErrorKind::InvalidPackage | ErrorKind::UnsupportedVersion if is_onnx => {
                error.help("an ONNX model is compiled first: tenon.compile(path).load()")
            }
            _ => error,
        })
    })?;
    Ok(PyModel::new(model, ModelSource::File(absolute), settings))
}
