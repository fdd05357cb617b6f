//! How a package is loaded.

use tenon_backend::BackendId;
use tenon_base::Control;
use tenon_runtime::{Activity, Runtime};

/// How a package is loaded, and what holds for all executions of the model.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tenon::{Control, LoadOptions};
///
/// let deadline = Control::with_deadline(Instant::now() + Duration::from_secs(5));
/// let options = LoadOptions::new().threads(2).control(deadline);
/// # assert_eq!(options.threads, Some(2));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Progress, cancellation and deadline of loading.
    pub control: Control,
    /// The backends and kernels; the built-in ones when `None`.
    pub runtime: Option<Runtime>,
    /// The most threads that one execution uses; all CPUs when `None`.
    pub threads: Option<usize>,
    /// Concurrent executions for which memory is allocated when loading; 1 by default.
    pub in_flight: usize,
    /// The most concurrent executions; further ones wait. The number of CPUs by default. Memory for
    /// those beyond `in_flight` is allocated on first use.
    pub max_in_flight: usize,
    /// The most sets of sizes for which a model with symbolic dimensions stays ready; 64 by default.
    pub instance_count: usize,
    /// The most memory that is kept for large arenas and outputs of these sets together; 1 GiB by default.
    pub instance_bytes: usize,
    /// The most memory of backends that the model may need, in bytes: its workloads and the values of executions, of
    /// which fewer are concurrent then. None by default.
    pub device_memory_limits: Vec<(BackendId, u64)>,
    /// Whether shared libraries that the package contains for its CPU nodes may run in this process.
    /// Off by default, unless `TENON_ALLOW_NATIVE_NODES=1`.
    pub native_nodes: bool,
    /// Whether every execution checks the outputs of nodes for NaN. Off by default, unless
    /// `TENON_CHECK_NAN=1`.
    pub nan_check: bool,
    /// The seed of stochastic rounding in casts to `f16`, `bf16` and the `f8` types; round to
    /// nearest when `None`. Casts on a backend and its arithmetic always round to nearest.
    pub stochastic_rounding: Option<u64>,
    /// Whether the package is compared with its digests: metadata when loading, constants at the
    /// first execution.
    pub check_digests: bool,
    /// The list of running models in which this one appears (`tenon top`); none when `None`.
    pub activity: Option<Activity>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        let options = tenon_runtime::LoadOptions::default();
        Self {
            control: options.control,
            runtime: None,
            threads: options.threads,
            in_flight: options.in_flight,
            max_in_flight: options.max_in_flight,
            instance_count: options.instance_count,
            instance_bytes: options.instance_bytes,
            device_memory_limits: options.device_memory_limits,
            native_nodes: options.native_nodes,
            nan_check: options.nan_check,
            stochastic_rounding: options.stochastic_rounding,
            check_digests: options.check_digests,
            activity: options.activity,
        }
    }
}

impl LoadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets progress, cancellation and deadline of loading.
        control: Control,
        /// Sets the number of concurrent executions for which memory is allocated when loading.
        in_flight: usize,
        /// Sets the most concurrent executions.
        max_in_flight: usize,
        /// Sets the most sets of sizes for which a model with symbolic dimensions stays ready.
        instance_count: usize,
        /// Sets the most memory that is kept for large arenas and outputs of all sets of sizes together.
        instance_bytes: usize,
        /// Sets whether shared libraries of the package may run in this process.
        native_nodes: bool,
        /// Sets whether every execution checks the outputs of nodes for NaN.
        nan_check: bool,
        /// Sets whether the package is compared with its digests.
        check_digests: bool,
    }

    /// Sets the backends and kernels.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the most threads that one execution uses.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Limits the memory of a backend that the model may need, in bytes.
    #[must_use]
    pub fn device_memory_limit(mut self, backend: impl Into<BackendId>, bytes: u64) -> Self {
        self.device_memory_limits.push((backend.into(), bytes));
        self
    }

    /// Rounds stochastically in casts, from this seed.
    #[must_use]
    pub fn stochastic_rounding(mut self, seed: u64) -> Self {
        self.stochastic_rounding = Some(seed);
        self
    }

    /// Sets the list of running models in which this one appears.
    #[must_use]
    pub fn activity(mut self, activity: Activity) -> Self {
        self.activity = Some(activity);
        self
    }

    pub(crate) fn to_runtime(&self) -> tenon_runtime::LoadOptions {
        tenon_runtime::LoadOptions {
            control: self.control.clone(),
            threads: self.threads,
            in_flight: self.in_flight,
            max_in_flight: self.max_in_flight,
            instance_count: self.instance_count,
            instance_bytes: self.instance_bytes,
            device_memory_limits: self.device_memory_limits.clone(),
            native_nodes: self.native_nodes,
            nan_check: self.nan_check,
            stochastic_rounding: self.stochastic_rounding,
            check_digests: self.check_digests,
            activity: self.activity.clone(),
        }
    }
}
