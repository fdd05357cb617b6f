//! `tenon.Session`: a model with states.

use crate::call::Call;
use crate::error::{Failure, OrRaise};
use crate::fork::Executions;
use crate::inputs::{Inputs, call_inputs, read_inputs, tensors};

use crate::outputs::{PyOutputs, array, output_ports};
use crate::port::{PyPort, ports};
use crate::tensor::PyTensor;
use crate::{arrays, error};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use tenon::tensor::BufferMut;
use tenon::{ModelValue, RunOptions, Session, Signature, Tensor};

/// A model whose states are kept between executions.
#[pyclass(frozen, module = "tenon", name = "Session", weakref)]
pub struct PySession {
    session: Mutex<Session>,
    executions: Arc<Executions>,
}

impl PySession {
    /// A session of a model.
    pub fn new(session: Session, executions: Arc<Executions>) -> Self {
        Self {
            session: Mutex::new(session),
            executions,
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Session>, Failure> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let error = error::invalid("another thread uses the session");
                Err(error
                    .help("each thread needs its own session: Session.fork()")
                    .into())
            }
        }
    }
}

impl PySession {
    fn execute(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        read: impl FnOnce(&[Signature]) -> PyResult<Inputs>,
    ) -> PyResult<PyOutputs> {
        let mut session = self.lock()?;
        let inputs = read(session.inputs())?;
        let call = Call::new(timeout, None)?;
        let _running = self.executions.begin().or_raise()?;
        let ports = output_ports(session.outputs());
        let executed = &mut *session;
        let outputs = call.run(py, |control| {
            let options = RunOptions::new().control(control.clone());
            executed.run_with(&tensors(&inputs)?, options)
        })?;
        PyOutputs::new(
            py,
            ports,
            outputs.into_iter().map(ModelValue::from).collect(),
        )
    }
}

#[pymethods]
impl PySession {
    /// The inputs that are not states.
    #[getter]
    fn inputs(&self) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.lock()?.inputs()))
    }

    /// The outputs that are not states.
    #[getter]
    fn outputs(&self) -> PyResult<Vec<PyPort>> {
        Ok(ports(self.lock()?.outputs()))
    }

    /// The states: output names to input names.
    #[getter]
    fn states(&self) -> PyResult<BTreeMap<String, String>> {
        let pairs = self.lock()?.states().into_iter();
        Ok(pairs.map(|pair| (pair.output, pair.input)).collect())
    }

    /// The number of steps in the states that grow; `None` if no state grows or their extents differ.
    #[getter]
    fn steps(&self) -> PyResult<Option<usize>> {
        Ok(self.lock()?.steps())
    }

    /// Executes on arrays by name or in order: all inputs that are not states.
    #[pyo3(signature = (inputs, *, timeout = None))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<PyOutputs> {
        self.execute(py, timeout, |signatures| read_inputs(signatures, inputs))
    }

    /// Executes on arrays in the order of the inputs, or by name, or in one dictionary.
    #[pyo3(signature = (*arrays, **named))]
    fn __call__(
        &self,
        py: Python<'_>,
        arrays: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOutputs> {
        self.execute(py, None, |signatures| {
            call_inputs(signatures, arrays, named)
        })
    }

    /// A session that continues from here by itself.
    fn fork(&self) -> PyResult<Self> {
        Ok(Self::new(self.lock()?.fork(), self.executions.clone()))
    }

    /// Forgets all states.
    fn reset(&self) -> PyResult<()> {
        self.lock()?.reset();
        Ok(())
    }

    /// A copy of the value of a state, by the name of its output or input; `None` before the first execution.
    fn value<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(value) = self.lock()?.value(name).or_raise()? else {
            return Ok(None);
        };
        let tensor = Bound::new(py, PyTensor::of(copied(&value).or_raise()?).or_raise()?)?;
        array(&tensor).map(Some)
    }

    /// Sets the value of a state, by the name of its output or input, to a copy of an array.
    fn set_value(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = arrays::read(value, None)?;
        self.lock()?
            .set_value(name, copied(&value).or_raise()?)
            .or_raise()
    }

    /// Goes back to the first `steps` steps of the states that grow.
    fn truncate(&self, steps: usize) -> PyResult<()> {
        self.lock()?.truncate(steps).or_raise()
    }

    fn __repr__(&self) -> String {
        match self.lock() {
            Ok(session) => format!("<tenon.Session, {} states>", session.states().len()),
            Err(_) => "<tenon.Session>".into(),
        }
    }
}

fn copied(tensor: &Tensor) -> tenon::Result<Tensor> {
    let bytes = BufferMut::copy_of(tensor.bytes())?;
    Tensor::new(tensor.ty().clone(), bytes.freeze())
}
