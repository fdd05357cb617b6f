//! Bound kernels, and the frame in which they run.

use crate::function::{BoundFunction, FunctionBody, KernelInfo};
use crate::slots::View;
use crate::{FromValue, FunctionHandle, Host, Opaque, Reporter, Request, Value};
use std::any::{Any, type_name};
use std::sync::Arc;
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_bef::KernelLocation;

/// A kernel bound to its attributes and services; shared by concurrent executions.
pub trait Kernel: Send + Sync {
    /// Runs once: reads the operands and sets every result. An error becomes the value of all
    /// results that were not set.
    fn run(&self, frame: &mut Frame<'_>) -> Result<()>;

    /// Called once, in the order of the function, when all its kernels are bound: for decisions
    /// that depend on earlier kernels, since kernels are bound in parallel.
    fn finish_binding(&mut self) -> Result<()> {
        Ok(())
    }

    /// The label in profiles, besides the kernel's name.
    fn label(&self) -> Label<'_> {
        Label::default()
    }

    /// Types of the operand and result tensors for traces, such as `f32[1, 8] f32[8, 4] -> f32[1,
    /// 4]`; empty if they are unknown before the kernel runs.
    fn shapes(&self) -> String {
        String::new()
    }
}

/// The label of a kernel in profiles and traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Label<'a> {
    /// The graph node that it executes.
    pub node: &'a str,
    /// The operator that it applies.
    pub operator: &'a str,
    /// The backend that executes it.
    pub backend: &'a str,
    /// The number of bytes that it writes.
    pub bytes: u64,
}

impl Label<'_> {
    /// The label as key-value pairs of a trace, with the shapes.
    pub fn texts<'t>(&'t self, shapes: &'t str) -> [(&'static str, &'t str); 3] {
        [
            ("operator", self.operator),
            ("backend", self.backend),
            ("shapes", shapes),
        ]
    }
}

/// One run of one kernel: its operands and results, and the execution that it is part of.
pub struct Frame<'a> {
    pub(crate) view: View<'a>,
    pub(crate) call: &'a Call<'a>,
    /// Position of the kernel in its function.
    pub(crate) kernel: usize,
}

/// The context that the kernels of one execution share.
pub(crate) struct Call<'a> {
    pub function: &'a BoundFunction,
    pub body: &'a FunctionBody,
    pub context: &'a dyn Any,
    pub control: &'a Control,
    /// `None` for a function that runs outside a request.
    pub request: Option<&'a Request>,
    /// The sink of kernel scopes.
    pub trace: Option<&'a dyn TraceSink>,
}

/// Runs a kernel, traced if there is a sink.
#[inline]
pub(crate) fn run_kernel(kernel: &dyn Kernel, frame: &mut Frame<'_>) -> Result<()> {
    match frame.call.trace {
        None => kernel.run(frame),
        Some(trace) => run_traced(kernel, frame, trace),
    }
}

#[cold]
fn run_traced(kernel: &dyn Kernel, frame: &mut Frame<'_>, trace: &dyn TraceSink) -> Result<()> {
    let start = Instant::now();
    let done = kernel.run(frame);
    let label = kernel.label();
    let name = match label.node {
        "" => &*frame.detail().name,
        node => node,
    };
    let end = Instant::now();
    let shapes = kernel.shapes();
    let texts = label.texts(&shapes);
    trace.scope_with("kernel", name, start, end, label.bytes, &texts);
    done
}

impl<'a> Frame<'a> {
    /// Number of operands, those of a variadic kernel included.
    pub fn operands(&self) -> usize {
        self.view.operands()
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        self.view.results()
    }

    /// An operand; empty for an index out of range.
    #[inline]
    pub fn operand(&self, index: usize) -> &Value {
        const EMPTY: &Value = &Value::Empty;
        self.view.operand(index).unwrap_or(EMPTY)
    }

    /// An operand as a `T`.
    #[inline]
    pub fn read<T: FromValue>(&self, index: usize) -> Result<T> {
        let operand = self.operand(index);
        T::from_value(operand).ok_or_else(|| wrong_type(index, T::TYPE, operand))
    }

    /// An operand of an [`Opaque`] type.
    #[inline]
    pub fn object<T: Opaque>(&self, index: usize) -> Result<&T> {
        let operand = self.operand(index);
        operand
            .downcast()
            .ok_or_else(|| wrong_type(index, T::TYPE, operand))
    }

    /// A result that is set; empty otherwise, and for an index out of range.
    pub fn result(&self, index: usize) -> &Value {
        const EMPTY: &Value = &Value::Empty;
        self.view.result(index).unwrap_or(EMPTY)
    }

    /// Sets a result; an index out of range is ignored. An error set here, rather than returned, is
    /// not reported as a diagnostic.
    #[inline(always)]
    pub fn set(&mut self, index: usize, value: Value) {
        if let Some(vacant) = self.view.vacant(index) {
            vacant.fill(value);
        }
    }

    /// Sets all results to `value`.
    pub fn set_all(&mut self, value: &Value) {
        for index in 0..self.results() {
            self.set(index, value.clone());
        }
    }

    /// The context that the caller passed to this execution, such as its memory.
    pub fn context<T: 'static>(&self) -> Result<&'a T> {
        self.call.context.downcast_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("the execution does not have {}", type_name::<T>()),
            )
        })
    }

    /// Cancellation and deadline, for long-running kernels.
    pub fn control(&self) -> &Control {
        self.call.control
    }

    /// The request of this execution.
    pub fn request(&self) -> &Request {
        match self.call.request {
            Some(request) => request,
            None => Request::outside(),
        }
    }

    /// The host of this execution.
    pub fn host(&self) -> &Host {
        self.request().host()
    }

    /// A function that the kernel refers to: those of attributes in the order of their names, then
    /// regions.
    pub fn function(&self, index: usize) -> Result<FunctionHandle> {
        let function = self.detail().functions.get(index);
        let handle = function.and_then(|&id| self.call.function.callee(id));
        handle.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidProgram,
                format!("the kernel refers to no function {index}"),
            )
        })
    }

    /// The number of functions that the kernel refers to.
    pub fn functions(&self) -> usize {
        self.detail().functions.len()
    }

    /// The kernel's location in the source.
    pub fn location(&self) -> &KernelLocation {
        &self.detail().location
    }

    /// A number that is unique to this kernel in its program.
    pub fn kernel_id(&self) -> u64 {
        u64::from(self.call.function.head.id.0) << 32 | self.kernel as u64
    }

    /// A reporter for errors that occur after this kernel has returned.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(
            self.host().clone(),
            self.location().clone(),
            self.detail().name.clone(),
        )
    }

    /// Name and location of the kernel, for messages.
    pub(crate) fn detail(&self) -> &KernelInfo {
        &self.call.body.details[self.kernel]
    }
}

#[cold]
pub(crate) fn wrong_type(index: usize, expected: &str, found: &Value) -> Error {
    match found {
        Value::Error(error) => return copy(error),
        Value::Pending(_) => {
            let text = format!("operand {index} of a kernel in a synchronous function is pending");
            return Error::new(ErrorKind::Unsupported, text);
        }
        _ => {}
    }
    Error::new(
        ErrorKind::InvalidProgram,
        format!("wrong type of operand {index}"),
    )
    .expected(expected)
    .found(format_args!("{found:?}"))
}

/// A copy of the error: kind, message and location.
pub(crate) fn copy(error: &Arc<Error>) -> Error {
    Error::new(error.kind(), error.message()).at(error.location().clone())
}
