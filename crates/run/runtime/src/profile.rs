//! Profiles: the time of executions by kernel.

use crate::backend_counters::{CounterSession, ModelCounters};
use crate::core_node::CoreNode;
use crate::cpu_node::CpuNode;
use crate::lifecycle::ModelLifecycle;
use crate::walker::Node;
use crate::{CounterProfile, Tap, TapParts, TapValue};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tenon_backend::WorkloadPart;
use tenon_base::trace::TraceSink;
use tenon_base::{Error, Result};
use tenon_executor::{Label, Observer};
use tenon_kernels::Memory;
use tenon_tensor::Tensor;

/// The time of each kernel of a model, summed over executions. Profiling does not allocate, unless
/// a backend has counters or workloads with parts, or sizes or control flow decide the kernels: then a kernel is added
/// when it first runs. The stream of a backend that works asynchronously is finished after each workload with parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Every kernel, in the program's order; of a model with sizes that are not fixed, or with a host function, those
    /// that ran. Kernels of one node, kernel name and backend are one entry there.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelProfile {
    /// The kernel's name, such as `tenon.workload`.
    pub kernel: String,
    /// The graph node that it executes.
    pub node: String,
    /// The operator; empty for data movement.
    pub operator: String,
    /// The backend, `dma`, or `cpu node`.
    pub backend: String,
    /// Bytes written in one execution; the mean where executions differ.
    pub bytes: u64,
    /// Bytes read in one execution, by the cost table of the package; 0 if absent, as it is for sizes that are not
    /// fixed.
    pub read: u64,
    /// Arithmetic operations of one execution, by the cost table of the package; a multiply-add is
    /// two.
    pub flops: u64,
    /// The time, summed over executions.
    pub time: Duration,
    /// The number of runs in all executions; several in one execution in a loop.
    pub runs: u64,
    /// Bytes written, read, and arithmetic operations, summed over executions.
    pub sums: [u64; 3],
    /// The parts of the workload, if its backend times them.
    pub parts: Vec<PartProfile>,
}

/// The time of a part of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartProfile {
    /// Its name.
    pub name: String,
    /// The nodes of the model that it computes, as far as they are known.
    pub nodes: Vec<String>,
    /// The time by the backend's clock, summed over executions.
    pub time: Duration,
}

impl KernelProfile {
    /// A kernel that has not run. `costs` are bytes written, read, and arithmetic operations.
    fn new(kernel: &str, label: &Label<'_>, [bytes, read, flops]: [u64; 3]) -> Self {
        Self {
            kernel: kernel.to_owned(),
            node: label.node.to_owned(),
            operator: label.operator.to_owned(),
            backend: label.backend.to_owned(),
            bytes,
            read,
            flops,
            time: Duration::ZERO,
            runs: 0,
            sums: [0; 3],
            parts: Vec::new(),
        }
    }

    /// Whether it is the entry of a kernel.
    fn is_of(&self, kernel: &str, label: &Label<'_>) -> bool {
        self.node == label.node && self.kernel == kernel && self.backend == label.backend
    }

    /// Adds the times of the parts in one run. An entry of several kernels may have the parts of each.
    fn add_parts(&mut self, parts: &[WorkloadPart], nanoseconds: &[u64]) {
        for (index, (part, &nanoseconds)) in parts.iter().zip(nanoseconds).enumerate() {
            let is_known = |known: &PartProfile| known.name == part.name;
            let found = match self.parts.get(index).is_some_and(is_known) {
                true => Some(index),
                false => self.parts.iter().position(is_known),
            };
            let found = found.unwrap_or_else(|| {
                self.parts.push(PartProfile {
                    name: part.name.clone(),
                    nodes: part.nodes.clone(),
                    time: Duration::ZERO,
                });
                self.parts.len() - 1
            });
            let time = &mut self.parts[found].time;
            *time = time.saturating_add(Duration::from_nanos(nanoseconds));
        }
    }

    fn add(&mut self, time: Duration, costs: [u64; 3]) {
        self.time += time;
        self.runs += 1;
        for (sum, cost) in self.sums.iter_mut().zip(costs) {
            *sum = sum.saturating_add(cost);
        }
    }
}

impl Profile {
    /// A profile of the kernels of `nodes` and the counters of their backends, all times zero.
    pub(crate) fn of(nodes: Vec<Node<'_>>, counters: &ModelCounters) -> Self {
        let mut kernels = Vec::new();
        for node in nodes {
            match node {
                Node::Cpu(cpu) => {
                    let label = cpu.label();
                    kernels.push(KernelProfile::new(CPU_NODE, &label, [label.bytes, 0, 0]));
                }
                Node::Core(core) => {
                    let rows = core.kernels().enumerate();
                    kernels.extend(rows.map(|(index, (name, label))| {
                        let [read, flops] = core.costs(index);
                        KernelProfile::new(name, &label, [label.bytes, read, flops])
                    }));
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

/// The subgraph of the values of a host function.
const HOST: &str = "host";

/// The kernel name of CPU nodes.
const CPU_NODE: &str = "tenon.cpu_node";

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
    /// The entry of the profile after that of the last kernel.
    next: usize,
    /// The number of runs of each subgraph, and of each node of a host function, for a tap.
    runs: HashMap<String, u64>,
    /// Whether a tap has ended the execution.
    is_ended: bool,
    /// Its error, in a host function, whose results are other errors.
    error: Option<Error>,
}

/// A kernel that has run.
pub(crate) struct RanKernel<'k> {
    pub name: &'k str,
    pub label: Label<'k>,
    pub category: &'static str,
    pub started: Instant,
    /// Bytes read, and arithmetic operations.
    pub costs: [u64; 2],
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
            next: 0,
            runs: HashMap::new(),
            is_ended: false,
            error: None,
        })
    }

    /// Records the whole execution, which started at `started`.
    pub fn executed(&mut self, model: &str, started: Instant) {
        let ended = Instant::now();
        if let Some(profile) = &mut self.profile {
            profile.executions += 1;
            profile.elapsed += ended - started;
            let executions = profile.executions;
            for kernel in profile.kernels.iter_mut().filter(|kernel| kernel.runs > 0) {
                [kernel.bytes, kernel.read, kernel.flops] = kernel.sums.map(|sum| sum / executions);
            }
            self.counting.finish(profile);
        }
        if let Some(trace) = self.trace {
            trace.scope("execute", model, started, ended, 0);
            for (name, value) in self.lifecycle.runtime_counters().named() {
                trace.counter(name, ended, value);
            }
        }
    }

    /// The number of earlier runs of a subgraph or of a node of a host function; counts this one.
    pub fn count_run(&mut self, name: &str) -> u64 {
        match self.runs.get_mut(name) {
            Some(runs) => {
                *runs += 1;
                *runs
            }
            None => {
                self.runs.insert(name.to_owned(), 0);
                0
            }
        }
    }

    /// Notes whether a tap ends the execution.
    fn tapped(&mut self, result: Result<()>) -> Result<()> {
        self.is_ended |= result.is_err();
        result
    }

    /// Whether a tap has ended the execution.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Keeps the error of the tap that ended the execution of a host function.
    pub fn keep_error(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// The error of the tap that ended the execution of a host function.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Records a kernel or CPU node.
    pub fn ran(&mut self, kernel: &RanKernel<'_>, shapes: impl FnOnce() -> String) {
        let now = Instant::now();
        let RanKernel { name, label, .. } = kernel;
        let [read, flops] = kernel.costs;
        let costs = [label.bytes, read, flops];
        if let Some(profile) = &mut self.profile {
            let rows = &mut profile.kernels;
            let is_next = rows
                .get(self.next)
                .is_some_and(|row| row.is_of(name, label));
            let found = match is_next {
                true => self.next,
                false => rows
                    .iter()
                    .position(|row| row.is_of(name, label))
                    .unwrap_or_else(|| {
                        rows.push(KernelProfile::new(name, label, costs));
                        rows.len() - 1
                    }),
            };
            rows[found].add(now - kernel.started, costs);
            self.next = found + 1;
        }
        if let Some(trace) = self.trace {
            let (name, shapes) = (shown(name, label), shapes());
            let texts = label.texts(&shapes);
            trace.scope_with(
                kernel.category,
                name,
                kernel.started,
                now,
                label.bytes,
                &texts,
            );
        }
    }

    /// Records the parts of the workload that has just run, which ended at `ended`.
    fn ran_parts(&mut self, ended: Instant, parts: &[WorkloadPart], nanoseconds: &[u64]) {
        let row = self.next.checked_sub(1);
        if let (Some(profile), Some(row)) = (&mut self.profile, row)
            && let Some(row) = profile.kernels.get_mut(row)
        {
            row.add_parts(parts, nanoseconds);
        }
        if let Some(trace) = self.trace {
            // Their times are known, their moments are not: one after the other until the workload ended.
            let mut end = ended;
            for (part, &nanoseconds) in parts.iter().zip(nanoseconds).rev() {
                let time = Duration::from_nanos(nanoseconds);
                let Some(start) = end.checked_sub(time) else {
                    return;
                };
                let nodes = part.nodes.join(", ");
                trace.scope_with("part", &part.name, start, end, 0, &[("nodes", &nodes)]);
                end = start;
            }
        }
    }

    /// Reports a value of a host function to the tap.
    pub fn host_value(&mut self, node: &str, run: u64, value: &str, tensor: &Tensor) -> Result<()> {
        let Some(tap) = self.tap.filter(|tap| tap.selects(node)) else {
            return Ok(());
        };
        let reported = tap.on_value(TapValue {
            subgraph: HOST,
            run,
            node,
            value,
            ty: Some(tensor.ty()),
            bytes: tensor.bytes(),
        });
        self.tapped(reported)
    }

    /// Records a CPU node.
    pub fn cpu_node(&mut self, node: &CpuNode, started: Instant) {
        let ran = RanKernel {
            name: CPU_NODE,
            label: node.label(),
            category: "cpu node",
            started,
            costs: [0; 2],
        };
        self.ran(&ran, || node.shapes());
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
    core: &'w CoreNode,
    /// The position of the running kernel.
    kernel: AtomicUsize,
}

impl<'w> LoopTrace<'w> {
    pub fn new(trace: &'w dyn TraceSink, core: &'w CoreNode) -> Self {
        let kernel = AtomicUsize::new(0);
        Self {
            trace,
            core,
            kernel,
        }
    }
}

impl TraceSink for LoopTrace<'_> {
    fn scope(&self, category: &'static str, _: &str, start: Instant, end: Instant, bytes: u64) {
        if let Some((kernel, label)) = self.core.kernel(self.kernel.load(Ordering::Relaxed)) {
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
    memory: &'w Memory,
    loops: Option<&'w LoopTrace<'w>>,
    began: Instant,
    started: Instant,
    /// Earlier runs of the subgraph in this execution.
    run: u64,
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
            memory,
            loops,
            began: now,
            started: now,
            run: 0,
        }
    }

    /// Reports the subgraph and its inputs to a tap, before it starts.
    pub fn begin(&mut self) -> Result<()> {
        let Some(tap) = self.watch.tap else {
            return Ok(());
        };
        self.run = self.watch.count_run(self.core.name());
        let outputs = self.core.kernel_outputs();
        let reported = outputs.report_start(self.run, self.memory, tap);
        self.watch.tapped(reported)
    }

    /// Records the subgraph.
    pub fn finish(self) {
        if let Some(trace) = self.watch.trace {
            let now = Instant::now();
            trace.scope("function", self.core.name(), self.began, now, 0);
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
        let Some((kernel, label)) = self.core.kernel(index) else {
            return Ok(());
        };
        let category = match (label.node, label.backend) {
            ("", _) => "kernel",
            (_, "dma") => "dma",
            _ => "kernel",
        };
        let ran = RanKernel {
            name: kernel,
            label,
            category,
            started: self.started,
            costs: self.core.costs(index),
        };
        let ended = Instant::now();
        self.watch.ran(&ran, || self.core.shapes(index));
        let reported = self.memory.take_parts(|parts, nanoseconds| {
            self.watch.ran_parts(ended, parts, nanoseconds);
            let Some(tap) = self.watch.tap.filter(|tap| tap.selects(label.node)) else {
                return Ok(());
            };
            tap.on_parts(TapParts {
                subgraph: self.core.name(),
                run: self.run,
                node: label.node,
                parts,
                nanoseconds,
            })
        });
        if let Some(reported) = reported {
            self.watch.tapped(reported)?;
        }
        if let Some(trace) = self.watch.trace {
            trace.counter(ALIVE, self.started, self.core.alive(index));
            let now = Instant::now();
            self.watch.counting.trace(label.backend, now, trace);
        }
        match self.watch.tap {
            Some(tap) => {
                let node = (label.node, self.run);
                let outputs = self.core.kernel_outputs();
                let reported = outputs.report(index, node, self.memory, tap);
                self.watch.tapped(reported)
            }
            None => Ok(()),
        }
    }
}
