//! `Model.submit`: an execution on a thread of a queue, with a `concurrent.futures.Future` of its outputs.

use crate::call::deadline;
use crate::error::{Failure, exception};
use crate::fork::Running;
use crate::inputs::{Inputs, tensors};
use crate::outputs::{OutputPort, PyOutputs, output_ports};
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tenon::{AsyncOptions, Control, Model, ModelValue, Outputs, RunFuture, RunQueue, Tensor};

/// Executions that may wait.
const CAPACITY: usize = 1024;

/// The queue of the process. Threads that are attached to Python lock it, so that no other one holds it at a fork.
static QUEUE: Mutex<Option<Arc<RunQueue>>> = Mutex::new(None);

fn queue() -> Arc<RunQueue> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    let start = || Arc::new(RunQueue::new(tenon::machine::threads(), CAPACITY));
    queue.get_or_insert_with(start).clone()
}

/// Leaves the queue of the parent, whose threads the child of a fork does not have.
pub fn after_fork() {
    let queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner).take();
    // One of the lost threads may hold its lock, which is never released then.
    std::mem::forget(queue);
}

/// The handle that cancels an execution.
#[pyclass(frozen)]
pub struct Cancellation(Control);

#[pymethods]
impl Cancellation {
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// An execution whose result the future of Python receives.
struct PendingRun {
    execution: Mutex<Option<RunFuture>>,
    future: Py<PyAny>,
    ports: Arc<[OutputPort]>,
    _running: Running,
}

impl Wake for PendingRun {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

impl PendingRun {
    /// Passes the result on if the execution has ended; otherwise its end wakes this value.
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut execution = self
            .execution
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(running) = execution.as_mut() else {
            return;
        };
        let polled = Pin::new(running).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(result) = polled {
            let ended = execution.take();
            drop(execution);
            drop(ended);
            // At the end of the interpreter the result is dropped.
            Python::try_attach(|py| self.finish(py, result));
        }
    }

    fn finish(&self, py: Python<'_>, result: tenon::Result<Outputs>) {
        let done = match result {
            Ok(outputs) => {
                let values = outputs.into_iter().map(ModelValue::from).collect();
                PyOutputs::new(py, self.ports.clone(), values)
            }
            Err(error) => Err(exception(&error)),
        };
        let finish = |done: PyResult<PyOutputs>| match done {
            Ok(outputs) => self
                .future
                .call_method1(py, "finish", (Some(outputs), py.None())),
            Err(error) => self.future.call_method1(py, "finish", (py.None(), error)),
        };
        if let Err(error) = finish(done) {
            error.write_unraisable(py, Some(self.future.bind(py)));
        }
    }
}

/// Queues an execution.
pub fn submit<'py>(
    py: Python<'py>,
    model: &Model,
    inputs: Inputs,
    timeout: Option<f64>,
    running: Running,
) -> PyResult<Bound<'py, PyAny>> {
    let control = match deadline(timeout)? {
        Some(deadline) => Control::with_deadline(deadline),
        None => Control::new(),
    };
    let cancellation = Cancellation(control.clone());
    let class = py.import("tenon._models")?.getattr("RunFuture")?;
    let future = class.call1((cancellation,))?;
    let owned: Vec<(String, Tensor)> = tensors(&inputs)
        .map_err(|error| PyErr::from(Failure::from(error)))?
        .into_iter()
        .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
        .collect();
    let execution = queue().run(model, owned, AsyncOptions::new().control(control));
    let pending = Arc::new(PendingRun {
        execution: Mutex::new(Some(execution)),
        future: future.clone().unbind(),
        ports: output_ports(model.outputs()),
        _running: running,
    });
    py.detach(|| pending.poll());
    Ok(future)
}
