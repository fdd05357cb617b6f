//! The description of one run of a netlist's programs.

use super::SessionOptions;
use std::collections::BTreeMap;
use tenon_base::Control;
use tenon_tensor::Tensor;

/// One run of a netlist's programs: options of the session, parameters and arrays.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Job {
    /// How the netlist is loaded.
    pub session: SessionOptions,
    /// Programs in this order; all in the order of the file when empty.
    pub programs: Vec<String>,
    /// Parameters, `$` included; others have their defaults.
    pub params: BTreeMap<String, i32>,
    /// Arrays `[n, t, rows, columns]` of host queues and of rams, by name; others are generated. A
    /// name without a device sets the queues of that name on all devices.
    pub inputs: BTreeMap<String, Tensor>,
    /// The seed of generated arrays.
    pub seed: u64,
    /// How often all programs are run; 0 counts as 1.
    pub loops: u32,
    /// Whether rams that ops fill start with random values instead of zeros.
    pub init_rams: bool,
    /// Whether outputs are rounded to the format of their queue.
    pub readback: bool,
    /// Progress, cancellation and deadline.
    pub control: Control,
}

impl Job {
    /// All programs once, on generated inputs.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how the netlist is loaded.
        session: SessionOptions,
        /// Sets the seed of generated arrays.
        seed: u64,
        /// Sets how often all programs are run.
        loops: u32,
        /// Sets whether rams that ops fill start with random values.
        init_rams: bool,
        /// Sets whether outputs are rounded to the format of their queue.
        readback: bool,
        /// Sets progress, cancellation and deadline.
        control: Control,
    }

    /// Sets the programs to run, in order.
    #[must_use]
    pub fn programs<S: Into<String>>(mut self, programs: impl IntoIterator<Item = S>) -> Self {
        self.programs = programs.into_iter().map(Into::into).collect();
        self
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

    /// Sets the array of a queue or ram.
    #[must_use]
    pub fn input(mut self, queue: impl Into<String>, array: Tensor) -> Self {
        self.inputs.insert(queue.into(), array);
        self
    }

    /// Sets the arrays of several queues and rams.
    #[must_use]
    pub fn inputs(mut self, arrays: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        self.inputs.extend(arrays);
        self
    }
}
