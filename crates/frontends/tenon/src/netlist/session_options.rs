//! How a netlist is loaded, and how one of its programs runs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use tenon_base::Control;
use tenon_compiler::NumericMode;
use tenon_netlist::Arch;
use tenon_netlist_kernels::MachineLimits;

/// How a netlist is loaded.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Where values are rounded.
    pub mode: NumericMode,
    /// The architecture; `ARCH_NAME` or the netlist's first when `None` (netlist 2.1).
    pub arch: Option<Arch>,
    /// Bounds of its programs, and the longest time that ops wait for the host.
    pub limits: MachineLimits,
    /// Threads that ops run on; all CPUs when `None`.
    pub threads: Option<NonZeroUsize>,
}

impl SessionOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets where values are rounded.
    #[must_use]
    pub fn mode(mut self, mode: NumericMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the architecture.
    #[must_use]
    pub fn arch(mut self, arch: impl Into<Option<Arch>>) -> Self {
        self.arch = arch.into();
        self
    }

    /// Sets the bounds of programs.
    #[must_use]
    pub fn limits(mut self, limits: MachineLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the number of threads that ops run on.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }
}

/// How a program runs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// Values of the program's parameters, with the `$` of their names.
    pub params: BTreeMap<String, i32>,
    /// Cancellation and deadline.
    pub control: Control,
}

impl ProgramOptions {
    /// No parameters, no deadline.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter, with the `$` of its name.
    #[must_use]
    pub fn param(mut self, name: impl Into<String>, value: i32) -> Self {
        self.params.insert(name.into(), value);
        self
    }

    /// Sets several parameters.
    #[must_use]
    pub fn params(mut self, params: impl IntoIterator<Item = (String, i32)>) -> Self {
        self.params.extend(params);
        self
    }

    /// Sets cancellation and deadline.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }
}
