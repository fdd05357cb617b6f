//! Where the time of executions goes, kernel by kernel.

use std::time::{Duration, Instant};
use tenon_base::trace::TraceSink;
use tenon_executor::{BoundFunction, Observer};

/// The time that each kernel of a model took, summed over executions. Filling it allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Every kernel, in the program's order.
    pub kernels: Vec<KernelProfile>,
    /// How many executions it sums.
    pub executions: u64,
    /// From the start to the end of those executions, what happens between kernels included.
    pub elapsed: Duration,
}

/// The time of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelProfile {
    /// The kernel's name, such as `tenon.workload`.
    pub kernel: String,
    /// The graph node that it executes.
    pub node: String,
    /// The operator that it applies; empty for data movement.
    pub operator: String,
    /// Who computes: a backend's name, or `dma`.
    pub backend: String,
    /// Bytes that it writes in one execution.
    pub bytes: u64,
    /// Its time, summed over executions.
    pub time: Duration,
}

impl Profile {
    /// The kernels of `function`, without times yet.
    pub(crate) fn of(function: &BoundFunction) -> Self {
        let kernel = |(kernel, label): (&str, tenon_executor::Label<'_>)| KernelProfile {
            kernel: kernel.to_owned(),
            node: label.node.to_owned(),
            operator: label.operator.to_owned(),
            backend: label.backend.to_owned(),
            bytes: label.bytes,
            time: Duration::ZERO,
        };
        Self {
            kernels: function.kernels().map(kernel).collect(),
            ..Self::default()
        }
    }

    /// The time of all kernels together.
    pub fn total(&self) -> Duration {
        self.kernels.iter().map(|kernel| kernel.time).sum()
    }

    /// Bytes that all kernels write in one execution.
    pub fn bytes(&self) -> u64 {
        self.kernels
            .iter()
            .fold(0, |sum, kernel| sum.saturating_add(kernel.bytes))
    }

    /// Time and number of kernels by operator and backend, the longest first.
    pub fn by_operator(&self) -> Vec<OperatorProfile<'_>> {
        let mut all: Vec<OperatorProfile<'_>> = Vec::new();
        for kernel in &self.kernels {
            let (operator, backend) = (kernel.operator.as_str(), kernel.backend.as_str());
            let known = all
                .iter_mut()
                .find(|row| (row.operator, row.backend) == (operator, backend));
            match known {
                Some(row) => {
                    row.kernels += 1;
                    row.time += kernel.time;
                }
                None => all.push(OperatorProfile {
                    operator,
                    backend,
                    kernels: 1,
                    time: kernel.time,
                }),
            }
        }
        all.sort_by_key(|row| std::cmp::Reverse(row.time));
        all
    }
}

/// The time of all kernels of one operator on one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorProfile<'a> {
    /// The operator; empty for data movement.
    pub operator: &'a str,
    /// Who computes it.
    pub backend: &'a str,
    /// How many kernels apply it.
    pub kernels: usize,
    /// Their time.
    pub time: Duration,
}

/// Listens to one execution for a profile and a trace sink.
pub(crate) struct Watch<'a> {
    pub main: &'a BoundFunction,
    pub profile: Option<&'a mut Profile>,
    pub trace: Option<&'a dyn TraceSink>,
    pub started: Instant,
}

impl Observer for Watch<'_> {
    fn start(&mut self, _: usize) {
        self.started = Instant::now();
    }

    fn end(&mut self, index: usize) {
        let now = Instant::now();
        if let Some(row) = self
            .profile
            .as_mut()
            .and_then(|profile| profile.kernels.get_mut(index))
        {
            row.time += now - self.started;
        }
        if let (Some(trace), Some((kernel, label))) = (self.trace, self.main.kernel(index)) {
            let name = if label.node.is_empty() {
                kernel
            } else {
                label.node
            };
            trace.scope("kernel", name, self.started, now, label.bytes);
        }
    }
}
