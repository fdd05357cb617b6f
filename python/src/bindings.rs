//! `tenon.Bindings`: memory for inputs and outputs that executions use in place.

#![allow(unsafe_code, reason = "outputs in memory that Python reads")]

use crate::call::Call;
use crate::error::{Failure, OrRaise, invalid};
use crate::fork::Executions;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};
use tenon::{Error, ErrorKind, Model, Result, RunOptions, Signature};

/// Tensors that stay bound to the inputs and outputs of a model. An execution copies and allocates nothing.
#[pyclass(frozen, module = "tenon", name = "Bindings", weakref)]
pub struct PyBindings {
    model: Model,
    executions: Arc<Executions>,
    inputs: Mutex<Vec<Py<PyTensor>>>,
    outputs: Vec<Py<PyTensor>>,
    /// Held by the thread that executes.
    execution: Mutex<()>,
}

/// One zeroed tensor for each port.
fn tensors(py: Python<'_>, ports: &[Signature]) -> PyResult<Vec<Py<PyTensor>>> {
    let made = ports.iter().map(|port| {
        if !port.kind.is_tensor() || port.is_symbolic() || port.ty.dtype().bits() == 0 {
            let error = invalid(format!("'{}' has no memory of a fixed size", port.name));
            let error = error
                .found(port)
                .help("use Model.run, or give bind() the sizes");
            return Err(Failure::from(error).into());
        }
        Py::new(py, PyTensor::zeroed(port.ty.clone()).or_raise()?)
    });
    made.collect()
}

impl PyBindings {
    /// Zeroed memory for the inputs and outputs of a model of fixed sizes.
    pub fn new(py: Python<'_>, model: Model, executions: Arc<Executions>) -> PyResult<Self> {
        Ok(Self {
            inputs: Mutex::new(tensors(py, model.inputs())?),
            outputs: tensors(py, model.outputs())?,
            model,
            executions,
            execution: Mutex::new(()),
        })
    }

    fn dict<'py>(
        py: Python<'py>,
        ports: &[Signature],
        tensors: &[Py<PyTensor>],
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (port, tensor) in ports.iter().zip(tensors) {
            dict.set_item(&port.name, tensor)?;
        }
        Ok(dict)
    }
}

/// Executes on the memory of tensors.
fn execute(
    model: &Model,
    inputs: &[Py<PyTensor>],
    outputs: &[Py<PyTensor>],
    options: RunOptions<'_>,
) -> Result<()> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|input| input.get().memory().buffer())
        .collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
    let memory = outputs.iter().map(|output| output.get().memory());
    // SAFETY: the outputs are tensors of these bindings alone, distinct from each other and from the inputs
    // (`set_input`), and the caller holds the lock of executions.
    let mut outputs: Vec<&mut [u8]> = memory.map(|memory| unsafe { memory.bytes_mut() }).collect();
    model.execute_with(&inputs, &mut outputs, options)
}

#[pymethods]
impl PyBindings {
    /// The tensors of the inputs, by name. Writing their elements sets the inputs of the next execution.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        Self::dict(py, self.model.inputs(), &inputs)
    }

    /// The tensors of the outputs, by name. Each execution overwrites their elements.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Self::dict(py, self.model.outputs(), &self.outputs)
    }

    /// Binds another tensor of Tenon to an input.
    fn set_input(&self, name: &str, tensor: &Bound<'_, PyTensor>) -> PyResult<()> {
        let ports = self.model.inputs();
        let Some(at) = ports.iter().position(|port| port.name == name) else {
            let error = invalid(format!("the model has no input '{name}'"));
            return Err(Failure::from(error).into());
        };
        let (expected, found) = (&ports[at].ty, tensor.get().ty());
        if expected != found {
            let error = invalid(format!("input '{name}' is of another type"));
            return Err(Failure::from(error.expected(expected).found(found)).into());
        }
        let start = tensor.get().memory().start();
        if self
            .outputs
            .iter()
            .any(|output| output.get().memory().start() == start)
        {
            let error = invalid(format!("input '{name}' would be the memory of an output"));
            return Err(Failure::from(error.help("bind a copy of it")).into());
        }
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs[at] = tensor.clone().unbind();
        Ok(())
    }

    /// Executes on the bound tensors.
    #[pyo3(signature = (*, timeout = None))]
    fn run(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let Ok(_execution) = self.execution.try_lock() else {
            let text = "another thread executes these bindings";
            let error = Error::new(ErrorKind::InvalidArgument, text);
            return Err(Failure::from(error.help("each thread needs its own Model.bind()")).into());
        };
        let inputs: Vec<Py<PyTensor>> = {
            let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
            inputs.iter().map(|input| input.clone_ref(py)).collect()
        };
        let call = Call::new(timeout, None)?;
        let _running = self.executions.begin().or_raise()?;
        let (model, outputs) = (&self.model, &self.outputs);
        let done = call.run(py, |control| {
            execute(
                model,
                &inputs,
                outputs,
                RunOptions::new().control(control.clone()),
            )
        });
        drop(inputs);
        done
    }

    fn __repr__(&self) -> String {
        format!("<tenon.Bindings of {:?}>", self.model.name())
    }
}
