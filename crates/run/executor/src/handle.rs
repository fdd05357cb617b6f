//! Handles by which callers and kernels execute the functions of a program.

use crate::function::BoundFunction;
use crate::program::Inner;
use crate::{Request, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{FunctionId, FunctionKind, Name};

/// A function of a program, of any kind. Clones are cheap and keep the program alive.
#[derive(Clone)]
pub struct FunctionHandle {
    pub(crate) program: Arc<Inner>,
    pub(crate) id: FunctionId,
}

impl FunctionHandle {
    /// The name; empty for a region.
    pub fn name(&self) -> &str {
        self.function().name()
    }

    /// The kind: how it executes.
    pub fn kind(&self) -> FunctionKind {
        self.function().kind()
    }

    /// The printed types of the arguments.
    pub fn argument_types(&self) -> &[Name] {
        self.function().argument_types()
    }

    /// The printed types of the results.
    pub fn result_types(&self) -> &[Name] {
        self.function().result_types()
    }

    /// Binds the kernels if they are not bound yet.
    ///
    /// # Errors
    /// All problems of the function: malformed bytes, calls that do not match a kernel's signature.
    pub fn bind(&self) -> Result<()> {
        self.function().bind()
    }

    /// Executes the function and returns its results. Arguments and results may be pending; the
    /// call never blocks. Errors become results; those of kernels are also reported to the host's
    /// diagnostic handler.
    pub fn execute(&self, request: &Request, arguments: Vec<Value>) -> Vec<Value> {
        let function = self.function();
        if let Err(error) = function.check_count(arguments.len()) {
            return vec![Value::error(error); function.result_types().len()];
        }
        match function.kind() {
            FunctionKind::Async => function.start(&self.program, request, arguments),
            FunctionKind::Sync | FunctionKind::Native => self.execute_here(request, arguments),
        }
    }

    /// Runs a synchronous or native function to completion on this thread. The arguments must be
    /// available.
    ///
    /// # Errors
    /// The first error of a kernel, not reported to the host; an asynchronous function.
    pub fn execute_sync(&self, request: &Request, arguments: Vec<Value>) -> Result<Vec<Value>> {
        self.function().run_once(request, arguments)
    }

    /// Executes a synchronous function when its arguments are available.
    fn execute_here(&self, request: &Request, mut arguments: Vec<Value>) -> Vec<Value> {
        let function = self.function();
        let results = function.result_types().len();
        let mut waits_for = None;
        for argument in &mut arguments {
            *argument = std::mem::take(argument).resolved();
            if let Value::Pending(value) = argument {
                waits_for = Some(value.clone());
            }
        }
        if let Some(value) = waits_for {
            let (values, promises): (Vec<_>, Vec<_>) = (0..results)
                .map(|_| {
                    let (value, promise) = crate::pending();
                    (Value::Pending(value), promise)
                })
                .unzip();
            let (handle, request) = (self.clone(), request.clone());
            value.when_available(move |_| {
                let values = handle.execute_here(&request, arguments);
                promises
                    .into_iter()
                    .zip(values)
                    .for_each(|(promise, value)| promise.set(value));
            });
            return values;
        }
        let error = arguments
            .iter()
            .rev()
            .find(|value| matches!(value, Value::Error(_)));
        if let Some(error) = error {
            return vec![error.clone(); results];
        }
        function
            .run_once(request, arguments)
            .unwrap_or_else(|error| {
                let error = match function.kind() {
                    FunctionKind::Sync => function.report(request, error),
                    _ => Value::error(error),
                };
                vec![error; results]
            })
    }

    pub(crate) fn function(&self) -> &BoundFunction {
        &self.program.functions[self.id.0 as usize]
    }
}

/// Calls `then` once all of `values` are available.
pub fn when_all_available(values: &[Value], then: impl FnOnce() + Send + 'static) {
    let pending: Vec<_> = values
        .iter()
        .filter_map(|value| match value {
            Value::Pending(value) if !value.is_available() => Some(value),
            _ => None,
        })
        .collect();
    if pending.is_empty() {
        return then();
    }
    let left = Arc::new(Mutex::new((pending.len(), Some(then))));
    for value in pending {
        let left = left.clone();
        value.when_available(move |_| {
            let then = {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                left.0 -= 1;
                if left.0 == 0 { left.1.take() } else { None }
            };
            if let Some(then) = then {
                then();
            }
        });
    }
}

/// The error of a call with a wrong number of arguments.
pub(crate) fn wrong_count(name: &str, expected: usize, found: usize) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("wrong number of arguments of @{name}"),
    )
    .expected(expected)
    .found(found)
}
