//! How one execution runs.

use crate::Priority;
use tenon_base::Control;
use tenon_base::trace::TraceSink;
use tenon_runtime::{ExecuteOptions, Profile, Tap};

/// How one execution runs. By default it has no deadline, cannot be cancelled and records nothing.
///
/// ```
/// use tenon::{Control, RunOptions};
///
/// let control = Control::new();
/// let options = RunOptions::new().control(control.clone());
/// // Any thread may now call control.cancel().
/// # assert!(options.control.is_some());
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Cancellation and deadline.
    pub control: Option<Control>,
    /// Adds the times of this execution; made by [`Model::profile`](crate::Model::profile).
    pub profile: Option<&'a mut Profile>,
    /// Receives a scope for each kernel and for the whole.
    pub trace: Option<&'a dyn TraceSink>,
    /// Receives the outputs of nodes.
    pub tap: Option<&'a dyn Tap>,
}

impl<'a> RunOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets cancellation and deadline.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Adds the times of this execution to a profile.
    #[must_use]
    pub fn profile(mut self, profile: &'a mut Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets the receiver of scopes.
    #[must_use]
    pub fn trace(mut self, trace: &'a dyn TraceSink) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets the receiver of the outputs of nodes.
    #[must_use]
    pub fn tap(mut self, tap: &'a dyn Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Calls `execute` with the options of the runtime.
    pub(crate) fn with_runtime<R>(self, execute: impl FnOnce(ExecuteOptions<'_>) -> R) -> R {
        execute(ExecuteOptions {
            control: self.control.as_ref(),
            profile: self.profile,
            trace: self.trace,
            tap: self.tap,
            ..ExecuteOptions::default()
        })
    }
}

/// How an asynchronous execution runs: [`Model::run_async_with`](crate::Model::run_async_with).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AsyncOptions {
    /// The order among waiting executions.
    pub priority: Priority,
    /// Cancellation and deadline. Dropping the future cancels its execution, not this control.
    pub control: Control,
}

impl AsyncOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the order among waiting executions.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets cancellation and deadline.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }
}
