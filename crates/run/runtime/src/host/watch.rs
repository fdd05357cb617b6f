//! The observer of an execution, for the kernels of its host function: they are bound without it, and all run on the
//! thread of the execution.

#![allow(
    unsafe_code,
    reason = "the observer of a thread's execution of a host function"
)]

use crate::profile::{ExecutionObserver, RanKernel};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, Kernel, KernelDef, Label, Site};
use tenon_kernels::{HostTensor, value_names};
use tenon_tensor::Tensor;

/// The observer behind a pointer; its lifetimes are those of the [`with_watch`] that runs.
type Pointer = NonNull<RefCell<&'static mut ExecutionObserver<'static>>>;

thread_local! {
    static CURRENT: Cell<Option<Pointer>> = const { Cell::new(None) };
}

/// Restores the previous observer.
struct Restore(Option<Pointer>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Runs `work` with `watch` as the observer of this thread, or without one.
pub(super) fn with_watch<R>(
    watch: Option<&mut ExecutionObserver<'_>>,
    work: impl FnOnce() -> R,
) -> R {
    let cell = watch.map(RefCell::new);
    let pointer = cell.as_ref().map(|cell| NonNull::from(cell).cast());
    let _restore = Restore(CURRENT.replace(pointer));
    work()
}

/// Calls `with` with the observer of this thread; `None` without one, and while it is used already.
pub(super) fn with_current<R>(with: impl FnOnce(Option<&mut ExecutionObserver<'_>>) -> R) -> R {
    // SAFETY: the pointer is current on this thread, so the `with_watch` that has the cell has not returned, and the
    // cell is of this thread alone. The cast changed lifetimes only, and `with` holds for any: no reference with a
    // lifetime of the cast outlives the call.
    let cell = CURRENT.get().map(|cell| unsafe { cell.as_ref() });
    let mut watch = cell.and_then(|cell| cell.try_borrow_mut().ok());
    with(watch.as_mut().map(|watch| &mut ***watch))
}

/// Calls `work` with the observer; an error of its tap ends the execution.
pub(super) fn observed<R>(
    frame: &Frame<'_>,
    work: impl FnOnce(Option<&mut ExecutionObserver<'_>>) -> Result<R>,
) -> Result<R> {
    with_current(|mut watch| {
        let done = work(watch.as_deref_mut());
        match (done, watch.filter(|watch| watch.is_ended())) {
            (Err(error), Some(watch)) => {
                watch.keep_error(error);
                frame.request().cancel();
                Err(Error::new(
                    ErrorKind::Cancelled,
                    "a tap ended the execution",
                ))
            }
            (done, _) => done,
        }
    })
}

/// The kernel with observation of its runs.
pub(super) fn observable(kernel: KernelDef) -> KernelDef {
    let name = kernel.name().to_owned();
    kernel.wrapped(move |site, kernel| {
        Box::new(ObservedKernel {
            kernel,
            name: name.clone(),
            values: values(site),
        })
    })
}

/// The names of a kernel's results; none in packages of older versions.
fn values(site: &Site<'_>) -> Vec<String> {
    let names = value_names(site.attributes());
    names.into_iter().map(str::to_owned).collect()
}

struct ObservedKernel {
    kernel: Box<dyn Kernel>,
    name: String,
    values: Vec<String>,
}

impl ObservedKernel {
    /// Reports a run that started at `started`.
    fn report(
        &self,
        frame: &Frame<'_>,
        watch: &mut ExecutionObserver<'_>,
        started: Instant,
    ) -> Result<()> {
        let results =
            (0..frame.results()).filter_map(|index| Some((index, tensor(frame.result(index))?)));
        let label = self.kernel.label();
        let ran = RanKernel {
            name: &self.name,
            label: Label {
                operator: match label.operator {
                    "" => &self.name,
                    operator => operator,
                },
                backend: "host",
                bytes: results
                    .clone()
                    .map(|(_, tensor)| tensor.bytes().len() as u64)
                    .sum(),
                ..label
            },
            category: "host",
            started,
            costs: [0; 2],
        };
        watch.ran(&ran, || shapes(frame));
        if label.node.is_empty() || watch.tap.is_none() {
            return Ok(());
        }
        let run = watch.count_run(label.node);
        for (index, tensor) in results {
            let value = self.values.get(index).map_or(label.node, String::as_str);
            watch.host_value(label.node, run, value, tensor)?;
        }
        Ok(())
    }
}

impl Kernel for ObservedKernel {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let started = with_current(|watch| watch.map(|_| Instant::now()));
        self.kernel.run(frame)?;
        let Some(started) = started else {
            return Ok(());
        };
        observed(frame, |watch| match watch {
            Some(watch) => self.report(frame, watch, started),
            None => Ok(()),
        })
    }

    fn finish_binding(&mut self) -> Result<()> {
        self.kernel.finish_binding()
    }

    fn label(&self) -> Label<'_> {
        self.kernel.label()
    }

    fn shapes(&self) -> String {
        self.kernel.shapes()
    }
}

fn tensor(value: &tenon_executor::Value) -> Option<&Tensor> {
    value.downcast::<HostTensor>().map(|tensor| &tensor.0)
}

/// The types of the tensors that a kernel has read and written.
fn shapes(frame: &Frame<'_>) -> String {
    let list = |values: &mut dyn Iterator<Item = &tenon_executor::Value>| {
        let types = values.filter_map(|value| Some(tensor(value)?.ty().to_string()));
        types.collect::<Vec<_>>().join(" ")
    };
    let read = list(&mut (0..frame.operands()).map(|index| frame.operand(index)));
    let written = list(&mut (0..frame.results()).map(|index| frame.result(index)));
    format!("{read} -> {written}")
}
