//! Profiles: the time of executions by kernel.

use crate::backend_counters::{CounterSession, ModelCounters};
use crate::core_node::CoreNode;
use crate::cpu_node::CpuNode;
use crate::lifecycle::ModelLifecycle;
use crate::walker::Node;
use crate::{CounterProfile, Tap};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tenon_base::Result;
use tenon_base::trace::TraceSink;
use tenon_executor::{BoundFunction, Label, Observer};
use tenon_kernels::Memory;
use tenon_neff::NodeCost;

/// The time of each kernel of a model, summed over executions. Profiling does not allocate, unless
/// a backend has counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Every kernel, in the program's order.
    pub kernels: Vec<KernelProfile>,
    /// The number of executions.
    pub executions: u64,
    /// The elapsed time of the executions, including time between kernels.
    pub elapsed: Duration,
    /// The counters of the backends that the model runs on.
    pub counters: Vec<CounterProfile>,
    /// Backends whose counters cannot be read, each with the error.
    pub unreadable_counters: Vec<(String, String)>,
}

/// The time of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelProfile {
    /// The kernel's name, such as `tenon.workload`.
    pub kernel: String,
    /// The graph node that it executes.
    pub node: String,
    /// The operator; empty for data movement.
    pub operator: String,
    /// The backend, `dma`, or `cpu node`.
    pub backend: String,
    /// Bytes written in one execution.
    pub bytes: u64,
    /// Bytes read in one execution, by the cost table of the package; 0 if absent.
    pub read: u64,
    /// Arithmetic operations of one execution, by the cost table of the package; a multiply-add is
    /// two.
    pub flops: u64,
    /// The time, summed over executions.
    pub time: Duration,
}

impl Profile {
    /// A profile of the kernels of `nodes` and the counters of their backends, all times zero.
    pub(crate) fn of(nodes: Vec<Node<'_>>, counters: &ModelCounters) -> Self {
        let kernel = |kernel: &str, label: Label<'_>, cost: Option<&NodeCost>| KernelProfile {
            kernel: kernel.to_owned(),
            node: label.node.to_owned(),
            operator: label.operator.to_owned(),
            backend: label.backend.to_owned(),
            bytes: label.bytes,
            read: cost.map_or(0, |cost| cost.read),
            flops: cost.map_or(0, |cost| cost.flops),
            time: Duration::ZERO,
        };
        let mut kernels = Vec::new();
        for node in nodes {
            match node {
                Node::Cpu(cpu) => kernels.push(kernel("tenon.cpu_node", cpu.label(), None)),
                Node::Core(core) => {
                    let costs = core.member.costs.iter();
                    let costs: HashMap<&str, &NodeCost> =
                        costs.map(|cost| (cost.node.as_str(), cost)).collect();
                    let rows = core.main().kernels();
                    kernels.extend(
                        rows.map(|(name, label)| {
                            kernel(name, label, costs.get(label.node).copied())
                        }),
                    );
                }
            }
        }
        let (counters, unreadable_counters) = counters.rows();
        Self {
            kernels,
            counters,
            unreadable_counters,
            ..Self::default()
        }
    }

    /// The total time of all kernels.
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
    /// The backend.
    pub backend: &'a str,
    /// The number of kernels.
    pub kernels: usize,
    /// The total time.
    pub time: Duration,
}

/// Observes one execution for a profile, a trace sink and a tap.
pub(crate) struct ExecutionObserver<'a> {
    pub profile: Option<&'a mut Profile>,
    pub trace: Option<&'a dyn TraceSink>,
    pub tap: Option<&'a dyn Tap>,
    counting: CounterSession,
    lifecycle: &'a ModelLifecycle,
    /// Rows of the profile that belong to nodes before the one that executes.
    rows: usize,
}

impl<'a> ExecutionObserver<'a> {
    /// An observer for those that are present; `None` if all are absent.
    pub fn new(
        profile: Option<&'a mut Profile>,
        trace: Option<&'a dyn TraceSink>,
        tap: Option<&'a dyn Tap>,
        lifecycle: &'a ModelLifecycle,
    ) -> Option<Self> {
        let counts = profile.is_some() || trace.is_some();
        (counts || tap.is_some()).then(|| Self {
            profile,
            trace,
            tap,
            counting: if counts {
                lifecycle.counters().start_counting()
            } else {
                CounterSession::default()
            },
            lifecycle,
            rows: 0,
        })
    }

    /// Records the whole execution, which started at `started`.
    pub fn executed(&mut self, model: &str, started: Instant) {
        let ended = Instant::now();
        if let Some(profile) = &mut self.profile {
            profile.executions += 1;
            profile.elapsed += ended - started;
            self.counting.finish(profile);
        }
        if let Some(trace) = self.trace {
            trace.scope("execute", model, started, ended, 0);
            for (name, value) in self.lifecycle.runtime_counters().named() {
                trace.counter(name, ended, value);
            }
        }
    }

    /// Records a kernel or CPU node that started at `started`, in row `rows + index`.
    fn ran(
        &mut self,
        index: usize,
        name: &str,
        category: &'static str,
        started: Instant,
        label: &Label<'_>,
        shapes: impl FnOnce() -> String,
    ) {
        let now = Instant::now();
        let rows = self.profile.as_mut().map(|profile| &mut profile.kernels);
        if let Some(row) = rows.and_then(|rows| rows.get_mut(self.rows + index)) {
            row.time += now - started;
        }
        if let Some(trace) = self.trace {
            let (bytes, shapes) = (label.bytes, shapes());
            trace.scope_with(category, name, started, now, bytes, &label.texts(&shapes));
        }
    }

    /// Records a CPU node, and advances to the rows of the next node.
    pub fn cpu_node(&mut self, node: &CpuNode, started: Instant) {
        let label = node.label();
        self.ran(0, label.node, "cpu node", started, &label, || node.shapes());
        self.rows += 1;
    }
}

/// The name of a kernel in traces.
fn shown<'k>(kernel: &'k str, label: &Label<'k>) -> &'k str {
    match label.node {
        "" => kernel,
        node => node,
    }
}

/// A sink of the thread pool's loop scopes, which names them after the running kernel.
pub(crate) struct LoopTrace<'w> {
    trace: &'w dyn TraceSink,
    main: &'w BoundFunction,
    /// The position of the running kernel.
    kernel: AtomicUsize,
}

impl<'w> LoopTrace<'w> {
    pub fn new(trace: &'w dyn TraceSink, main: &'w BoundFunction) -> Self {
        let kernel = AtomicUsize::new(0);
        Self {
            trace,
            main,
            kernel,
        }
    }
}

impl TraceSink for LoopTrace<'_> {
    fn scope(&self, category: &'static str, _: &str, start: Instant, end: Instant, bytes: u64) {
        if let Some((kernel, label)) = self.main.kernel(self.kernel.load(Ordering::Relaxed)) {
            let name = shown(kernel, &label);
            self.trace
                .scope_with(category, name, start, end, bytes, &label.texts(""));
        }
    }
}

/// The trace counter of arena bytes with live values.
const ALIVE: &str = "arena bytes alive";

/// Observes the kernels of one subgraph.
pub(crate) struct NodeObserver<'w, 'a> {
    watch: &'w mut ExecutionObserver<'a>,
    core: &'w CoreNode,
    main: &'w BoundFunction,
    memory: &'w Memory,
    loops: Option<&'w LoopTrace<'w>>,
    began: Instant,
    started: Instant,
}

impl<'w, 'a> NodeObserver<'w, 'a> {
    pub fn new(
        watch: &'w mut ExecutionObserver<'a>,
        core: &'w CoreNode,
        memory: &'w Memory,
        loops: Option<&'w LoopTrace<'w>>,
    ) -> Self {
        let now = Instant::now();
        Self {
            watch,
            core,
            main: core.main(),
            memory,
            loops,
            began: now,
            started: now,
        }
    }

    /// Reports the inputs of the subgraph to a tap, before it starts.
    pub fn begin(&self) -> Result<()> {
        match self.watch.tap {
            Some(tap) => self.core.outputs_by_kernel.report_inputs(self.memory, tap),
            None => Ok(()),
        }
    }

    /// Records the subgraph, and advances to the rows of the next node.
    pub fn finish(self) {
        self.watch.rows += self.main.len();
        if let Some(trace) = self.watch.trace {
            let now = Instant::now();
            trace.scope("function", &self.core.name, self.began, now, 0);
            trace.counter(ALIVE, now, 0);
        }
    }
}

impl Observer for NodeObserver<'_, '_> {
    fn start(&mut self, index: usize) {
        if let Some(loops) = self.loops {
            loops.kernel.store(index, Ordering::Relaxed);
        }
        self.started = Instant::now();
    }

    fn end(&mut self, index: usize) -> Result<()> {
        let Some((kernel, label)) = self.main.kernel(index) else {
            return Ok(());
        };
        let name = shown(kernel, &label);
        let category = match (label.node, label.backend) {
            ("", _) => "kernel",
            (_, "dma") => "dma",
            _ => "kernel",
        };
        self.watch
            .ran(index, name, category, self.started, &label, || {
                self.main.shapes(index)
            });
        if let Some(trace) = self.watch.trace {
            trace.counter(ALIVE, self.started, self.core.alive(index));
            let now = Instant::now();
            self.watch.counting.trace(label.backend, now, trace);
        }
        match self.watch.tap {
            Some(tap) => self
                .core
                .outputs_by_kernel
                .report(index, label.node, self.memory, tap),
            None => Ok(()),
        }
    }
}
