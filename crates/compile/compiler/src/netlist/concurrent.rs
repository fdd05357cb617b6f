//! Consecutive executes on disjoint devices run concurrently, as one temporal epoch
//! (netlist 6.5).

use super::program::{Body, LoweredEpoch, Lowering, execute_attributes, names_attribute};
use super::{Scope, epoch};
use std::collections::{BTreeSet, HashMap};
use tenon_netlist::{Graph, Span};

impl Lowering<'_> {
    /// Whether an epoch runs concurrently with those that are ready: on other devices, with the same
    /// input count, and not on grayskull.
    pub(super) fn is_concurrent(&self, epoch: &LoweredEpoch) -> bool {
        self.ready.iter().all(|(other, _)| {
            other.inputs == epoch.inputs
                && other.devices.is_disjoint(&epoch.devices)
                && !self.scope.is_grayskull()
        })
    }

    /// Emits the epochs that are ready.
    pub(super) fn run_ready(&mut self, body: &mut Body) {
        let ready = std::mem::take(&mut self.ready);
        let Some(&(_, span)) = ready.last() else {
            return;
        };
        let parts: Vec<LoweredEpoch> = ready.into_iter().map(|(epoch, _)| epoch).collect();
        let whole = match &parts[..] {
            [only] => Some(only.clone()),
            _ => self.merge(&parts),
        };
        match whole {
            Some(whole) if parts.len() == 1 || !self.share_queues(&parts) => {
                self.kernel(body, "netlist.execute", span, |kernel| {
                    execute_attributes(kernel, &whole)
                });
            }
            whole => self.concurrent(body, whole.as_ref(), &parts, span),
        }
    }

    /// The epochs merged into one; `None` where their ops form a cycle.
    fn merge(&mut self, parts: &[LoweredEpoch]) -> Option<LoweredEpoch> {
        let names: Vec<String> = parts.iter().flat_map(|part| part.graphs.clone()).collect();
        if let Some(known) = self.merged.get(&names) {
            return known.clone();
        }
        let graphs = graphs_of(self.scope, &names);
        let name = format!("epoch.{}", names.join("+"));
        let merged = epoch::epoch(self.scope, name, &graphs).ok();
        let merged = merged.map(|(function, reads)| LoweredEpoch {
            function: self.module.add(function),
            inputs: parts[0].inputs,
            reads,
            graphs: names.clone(),
            devices: parts
                .iter()
                .flat_map(|part| &part.devices)
                .copied()
                .collect(),
        });
        self.merged.insert(names, merged.clone());
        merged
    }

    /// Whether two epochs access one queue: then one of them may need entries of the other.
    fn share_queues(&self, parts: &[LoweredEpoch]) -> bool {
        let mut accessed = BTreeSet::new();
        let mut queues = parts.iter().flat_map(|part| self.accessed_queues(part));
        queues.any(|queue| !accessed.insert(queue))
    }

    /// The queues and rams that an epoch reads or writes, aliases as the ram that holds the memory.
    fn accessed_queues(&self, part: &LoweredEpoch) -> BTreeSet<String> {
        let graphs = graphs_of(self.scope, &part.graphs);
        let ops = graphs.iter().flat_map(|graph| &graph.ops);
        let written = ops.filter_map(|op| self.scope.filled.get(op.name.value.as_str()));
        let written = written.flatten().map(|queue| queue.name.value.as_str());
        let read = part.reads.iter().map(String::as_str);
        let queues = written.chain(read).map(|name| self.scope.queues[name]);
        queues
            .map(|queue| self.scope.memory_of(queue).to_owned())
            .collect()
    }

    /// Emits epochs that run as one, or in sequence where that would block on an empty queue.
    fn concurrent(
        &mut self,
        body: &mut Body,
        whole: Option<&LoweredEpoch>,
        parts: &[LoweredEpoch],
        span: Span,
    ) {
        self.kernel(body, "netlist.together", span, |mut kernel| {
            kernel = kernel.attribute("whole", tenon_bef::Attribute::I1(whole.is_some()));
            for (index, part) in whole.into_iter().chain(parts).enumerate() {
                kernel = kernel
                    .attribute(format!("inputs{index}"), i64::from(part.inputs))
                    .attribute(format!("reads{index}"), names_attribute(&part.reads))
                    .attribute(format!("graphs{index}"), names_attribute(&part.graphs))
                    // A kernel has its references in the order of their names.
                    .function(format!("epoch{index:05}"), part.function);
            }
            kernel
        });
    }
}

fn graphs_of<'n>(scope: &Scope<'n>, names: &[String]) -> Vec<&'n Graph> {
    let graphs = scope.netlist.graphs.iter();
    let by_name: HashMap<&str, &Graph> = graphs
        .map(|graph| (graph.name.value.as_str(), graph))
        .collect();
    names
        .iter()
        .filter_map(|name| by_name.get(name.as_str()).copied())
        .collect()
}
