//! `tenon.Netlist`: the programs of a netlist on arrays.

use crate::arrays;
use crate::call::Call;
use crate::error::{Failure, OrRaise};
use crate::outputs::array;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use tenon::netlist::{
    Job, SessionOptions, Source, check, choose_arch, default_params, read, read_source,
};

/// A netlist that was read and checked.
#[pyclass(frozen, module = "tenon", name = "Netlist", weakref)]
pub struct PyNetlist {
    source: Source,
    programs: Vec<String>,
    params: BTreeMap<String, i32>,
}

impl PyNetlist {
    fn of(source: Source) -> tenon::Result<Self> {
        let found = read(&source);
        found.findings.to_result(&source)?;
        let arch = choose_arch(&found.netlist, None)?;
        check(&found.netlist, arch).to_result(&source)?;
        let programs = found.netlist.programs.iter();
        Ok(Self {
            programs: programs.map(|program| program.name.value.clone()).collect(),
            params: default_params(&found.netlist),
            source,
        })
    }
}

#[pymethods]
impl PyNetlist {
    /// The netlist of a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Self::of(read_source(path)?)).or_raise()
    }

    /// The netlist of a text; messages have `name` in place of a file.
    #[staticmethod]
    #[pyo3(signature = (text, name = "netlist.yaml"))]
    fn parse(py: Python<'_>, text: String, name: &str) -> PyResult<Self> {
        py.detach(|| Self::of(Source::new(name, text))).or_raise()
    }

    /// The programs in the order of the file.
    #[getter]
    fn programs(&self) -> Vec<String> {
        self.programs.clone()
    }

    /// The parameters of the programs, `$` included, with their default values.
    #[getter]
    fn params(&self) -> BTreeMap<String, i32> {
        self.params.clone()
    }

    /// Runs programs on arrays `[n, t, rows, columns]` of host queues and rams; others are generated. Returns the
    /// arrays of output queues and rams by name.
    #[pyo3(signature = (inputs = None, *, programs = None, params = None, seed = 0, loops = 1, threads = None,
        timeout = None, progress = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Option<&Bound<'py, PyDict>>,
        programs: Option<Vec<String>>,
        params: Option<BTreeMap<String, i32>>,
        seed: u64,
        loops: u32,
        threads: Option<NonZeroUsize>,
        timeout: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let call = Call::new(timeout, progress)?;
        let mut job = Job::new()
            .session(SessionOptions::new().threads(threads))
            .programs(programs.unwrap_or_default())
            .params(params.unwrap_or_default())
            .seed(seed)
            .loops(loops);
        for (name, value) in inputs.iter().flat_map(|inputs| inputs.iter()) {
            let tensor = arrays::read(&value, None)?;
            job = job.input(name.extract::<String>()?, tensor);
        }
        let source = &self.source;
        let outputs = call.run(py, move |control| {
            let done = job.control(control.clone()).run(source)?;
            Ok(done.outputs)
        })?;
        let dict = PyDict::new(py);
        for (name, tensor) in outputs {
            let made = PyTensor::of(tensor).map_err(|error| PyErr::from(Failure::from(error)))?;
            dict.set_item(name, array(&Bound::new(py, made)?)?)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let path = self.source.path().display();
        format!("<tenon.Netlist {path}: {} programs>", self.programs.len())
    }
}
