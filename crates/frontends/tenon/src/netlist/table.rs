//! Times and arithmetic of ops and graphs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::trace::TraceSink;
use tenon_bef::Module;
use tenon_netlist::{AttributeKey, Graph, Netlist, Op, OpKind};
use tenon_netlist_kernels::GRAPH_SCOPE;

/// Runs and total time by name.
type Times = Mutex<HashMap<String, (u64, Duration)>>;

/// Times of ops, with the kernels around them, of graphs and of programs.
#[derive(Debug, Default)]
pub(super) struct OpTimes {
    ops: Times,
    graphs: Times,
    programs: Mutex<Duration>,
}

impl TraceSink for OpTimes {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, _: u64) {
        let times = match category {
            // Kernels without an op have the name of the kernel.
            "kernel" if !name.starts_with("netlist.") => &self.ops,
            GRAPH_SCOPE => &self.graphs,
            _ => return,
        };
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        let took = end.saturating_duration_since(start);
        match times.get_mut(name) {
            Some((runs, time)) => {
                *runs += 1;
                *time += took;
            }
            None => {
                times.insert(name.to_owned(), (1, took));
            }
        }
    }
}

/// One row of the table of ops.
#[derive(Debug, Clone, PartialEq)]
pub struct OpRow {
    /// Its graph.
    pub graph: String,
    /// The op.
    pub op: String,
    /// Its type.
    pub kind: OpKind,
    /// Number of runs.
    pub runs: u64,
    /// Total time on all threads.
    pub time: Duration,
    /// Arithmetic of one input: two for each multiply-add of a matmul, one for each element of other ops;
    /// 0 where it depends on the data.
    pub flops: u64,
}

impl OpTimes {
    /// The ops of a netlist that have run, in its order; `module` is the executed Module.
    pub(super) fn rows(&self, netlist: &Netlist, module: &Module) -> Vec<OpRow> {
        let of_op = kernels_of_ops(module);
        let times = self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |(graph, op): (&Graph, &Op)| {
            let &(kernels, time) = times.get(&op.name.value)?;
            let each = of_op.get(&*op.name.value).copied().unwrap_or(1);
            Some(OpRow {
                graph: graph.name.value.clone(),
                op: op.name.value.clone(),
                kind: op.kind.value,
                runs: kernels / each,
                time,
                flops: flops(op),
            })
        };
        netlist.ops().filter_map(row).collect()
    }

    /// Adds the time of a program, or of a graph without one.
    pub(super) fn ran(&self, took: Duration) {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        *programs += took;
    }

    /// The total time of programs.
    pub(super) fn programs(&self) -> Duration {
        *self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of executions of a graph, and their total time.
    pub(super) fn graph(&self, name: &str) -> (u64, Duration) {
        let times = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(name).copied().unwrap_or_default()
    }
}

/// The number of kernels of each op whose times are measured: those that write tensors.
fn kernels_of_ops(module: &Module) -> HashMap<&str, u64> {
    let mut kernels = HashMap::new();
    for kernel in module
        .functions
        .iter()
        .flat_map(|function| &function.kernels)
    {
        let timed = !matches!(
            &*kernel.name,
            "netlist.read" | "netlist.push" | "netlist.sum" | "netlist.keep"
        );
        if let Some(node) = kernel.attribute("node").and_then(|node| node.as_str())
            && timed
        {
            *kernels.entry(node).or_insert(0) += 1;
        }
    }
    kernels
}

/// Arithmetic of one input of an op.
pub(super) fn flops(op: &Op) -> u64 {
    let [height, width] = op.blocking.tile().map(u64::from);
    let sizes = [
        u64::from(op.blocking.t.value),
        op.blocking.rows(),
        op.blocking.columns(),
        height,
        width,
    ];
    let elements = sizes
        .iter()
        .fold(1u64, |all, &size| all.saturating_mul(size));
    let count = |key| u64::try_from(op.attributes.integer(key)).unwrap_or(0);
    match op.kind.value {
        OpKind::Matmul if op.attributes.is(AttributeKey::Identity) => 0,
        OpKind::Matmul | OpKind::Depthwise => {
            let depth = count(AttributeKey::MK).saturating_mul(count(AttributeKey::UKt)) * 32;
            let groups = if op.attributes.is(AttributeKey::Accumulate) {
                count(AttributeKey::Z).max(1)
            } else {
                1
            };
            elements.saturating_mul(2 * depth).saturating_mul(groups)
        }
        kind if kind.is_copy() => 0,
        _ => elements,
    }
}
