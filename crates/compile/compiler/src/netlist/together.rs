//! Executes that follow each other on devices of their own run as one temporal epoch (facts 6.5,
//! 10.4): their ops beside each other, input by input.

use super::program::{Body, LoweredEpoch, Lowering, executing, names_attribute};
use super::{Scope, epoch};
use std::collections::{BTreeSet, HashMap};
use tenon_netlist::{Graph, Span};

impl Lowering<'_> {
    /// Whether an epoch runs beside those that are ready: on other devices, as many inputs, and
    /// not on grayskull.
    pub(super) fn joins(&self, epoch: &LoweredEpoch) -> bool {
        self.ready.iter().all(|(other, _)| {
            other.inputs == epoch.inputs
                && other.devices.is_disjoint(&epoch.devices)
                && !self.scope.is_grayskull()
        })
    }

    /// Has the epochs that are ready run.
    pub(super) fn run_ready(&mut self, body: &mut Body) {
        let ready = std::mem::take(&mut self.ready);
        let Some(&(_, span)) = ready.last() else {
            return;
        };
        let parts: Vec<LoweredEpoch> = ready.into_iter().map(|(epoch, _)| epoch).collect();
        let whole = match &parts[..] {
            [only] => Some(only.clone()),
            _ => self.whole(&parts),
        };
        match whole {
            Some(whole) if parts.len() == 1 || !self.share(&parts) => {
                self.kernel(body, "netlist.execute", span, |kernel| {
                    executing(kernel, &whole)
                });
            }
            whole => self.together(body, whole.as_ref(), &parts, span),
        }
    }

    /// The epoch of all graphs of several; none where their ops would wait for each other.
    fn whole(&mut self, parts: &[LoweredEpoch]) -> Option<LoweredEpoch> {
        let names: Vec<String> = parts.iter().flat_map(|part| part.graphs.clone()).collect();
        if let Some(known) = self.together.get(&names) {
            return known.clone();
        }
        let graphs = graphs_of(self.scope, &names);
        let name = format!("epoch.{}", names.join("+"));
        let made = epoch::epoch(self.scope, name, &graphs).ok();
        let made = made.map(|(function, reads)| LoweredEpoch {
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
        self.together.insert(names, made.clone());
        made
    }

    /// Whether two of them touch one queue: then the one may starve without the other.
    fn share(&self, parts: &[LoweredEpoch]) -> bool {
        let mut touched = BTreeSet::new();
        let mut queues = parts.iter().flat_map(|part| self.touched(part));
        queues.any(|queue| !touched.insert(queue))
    }

    /// The queues and rams that an epoch reads or writes; of those that share memory the one that
    /// holds it.
    fn touched(&self, part: &LoweredEpoch) -> BTreeSet<String> {
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

    /// All at once, and where that starves one after the other.
    fn together(
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
                    // References stand in the order of their names.
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
