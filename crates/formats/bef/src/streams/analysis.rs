//! Assignment of kernels to streams in two passes (bef 2.5).
//!
//! The forward pass schedules each kernel under the operand with the highest cost from the root;
//! the backward pass, from the leaves, joins the stream of the costliest child, merges cheap
//! siblings, and lets expensive ones start a stream.

use super::options::{COST_ATTRIBUTE, StreamOptions};
use crate::{Attribute, Function, Kernel, RegisterId};
use std::collections::BTreeSet;

/// The chain type: an operand of this type is an ordering dependency without a value.
const CHAIN: &str = "!tfrt.chain";

/// A stream during merging.
#[derive(Debug, Default)]
struct Stream {
    cost: i64,
    holds_return: bool,
    merged: Option<usize>,
    /// The op under which it forks from another stream.
    parent: Option<usize>,
    /// Streams with which it shares values, other than the stream it forks from.
    side_streams: BTreeSet<usize>,
}

/// Ops are the kernels, then the return, then the root.
pub(crate) struct Analysis {
    options: StreamOptions,
    threshold: i64,
    automatic: bool,
    costs: Vec<i64>,
    costs_from_root: Vec<i64>,
    scheduled_users: Vec<Vec<usize>>,
    side_uses: Vec<BTreeSet<usize>>,
    streams: Vec<Stream>,
    op_streams: Vec<usize>,
}

impl Analysis {
    /// Assigns every op of `function` to a stream.
    pub(crate) fn of(function: &Function, options: StreamOptions) -> Self {
        let mut this = Self::forward(function, options);
        this.backward();
        for op in 0..this.op_streams.len() {
            this.op_streams[op] = this.resolve(this.op_streams[op]);
        }
        this
    }

    /// The stream of an op.
    pub(crate) fn stream_of(&self, op: usize) -> usize {
        self.op_streams[op]
    }

    /// Total cost of the ops of a stream.
    pub(crate) fn cost(&self, stream: usize) -> i64 {
        self.streams[stream].cost
    }

    /// The op under which a stream forks; `None` for the root's stream.
    pub(crate) fn parent_op(&self, stream: usize) -> Option<usize> {
        self.streams[stream].parent
    }

    /// The op of the start of the function.
    pub(crate) fn root(&self) -> usize {
        self.costs.len() - 1
    }

    /// The forward pass, from the first kernel to the return: finds the parent of every op.
    fn forward(function: &Function, options: StreamOptions) -> Self {
        let result = function.kernels.len();
        let root = result + 1;
        let automatic = options.cost_threshold <= 0;
        let mut costs: Vec<i64> = function
            .kernels
            .iter()
            .map(|kernel| kernel_cost(kernel, options.cost_threshold))
            .collect();
        costs.extend([1, 1]);
        let mut this = Self {
            options,
            threshold: options.cost_threshold,
            automatic,
            costs_from_root: costs.clone(),
            costs,
            scheduled_users: vec![Vec::new(); root + 1],
            side_uses: vec![BTreeSet::new(); root + 1],
            streams: Vec::new(),
            op_streams: vec![0; root + 1],
        };
        let mut definers = vec![root; function.registers.len()];
        for (op, kernel) in function.kernels.iter().enumerate() {
            this.schedule(op, &kernel.operands, &definers, function);
            for register in &kernel.results {
                if let Some(definer) = definers.get_mut(register.0 as usize) {
                    *definer = op;
                }
            }
        }
        this.schedule(result, &function.results, &definers, function);
        if automatic {
            let longest = this.costs_from_root[..root].iter().copied().max();
            this.threshold = longest.unwrap_or(1).max(1);
        }
        this
    }

    fn schedule(
        &mut self,
        op: usize,
        operands: &[RegisterId],
        definers: &[usize],
        function: &Function,
    ) {
        let root = self.root();
        let mut parent = None;
        for register in operands {
            let Some(definer) = definers.get(register.0 as usize).copied() else {
                continue;
            };
            let ready_later =
                |parent: usize| self.costs_from_root[definer] > self.costs_from_root[parent];
            if parent.is_none_or(ready_later) {
                parent = Some(definer);
            }
            let chain = function.registers[register.0 as usize] == CHAIN;
            if self.options.merge_inter_dependent && !chain {
                self.side_uses[definer].insert(op);
            }
        }
        let parent = parent.unwrap_or(root);
        self.side_uses[parent].remove(&op);
        self.costs_from_root[op] = self.costs[op].saturating_add(self.costs_from_root[parent]);
        self.scheduled_users[parent].push(op);
    }

    /// The backward pass, from the return to the root: joins and merges streams.
    fn backward(&mut self) {
        let result = self.costs.len() - 2;
        let order = std::iter::once(result)
            .chain((0..result).rev())
            .chain([result + 1]);
        for op in order {
            let stream = self.stream_for(op, op == result);
            self.join(op, stream);
        }
    }

    /// Assigns `op` to `stream`, which from now on shares the values that other ops use of `op`.
    fn join(&mut self, op: usize, stream: usize) {
        self.op_streams[op] = stream;
        let cost = self.costs[op];
        self.streams[stream].cost = self.streams[stream].cost.saturating_add(cost);
        self.streams[stream].parent = None;
        for user in std::mem::take(&mut self.side_uses[op]) {
            let side = self.resolve(self.op_streams[user]);
            if side != stream {
                self.streams[stream].side_streams.insert(side);
                self.streams[side].side_streams.insert(stream);
            }
        }
    }

    fn stream_for(&mut self, op: usize, is_return: bool) -> usize {
        if self.scheduled_users[op].is_empty() {
            self.streams.push(Stream {
                holds_return: is_return,
                ..Stream::default()
            });
            return self.streams.len() - 1;
        }
        let mut children: Vec<usize> = self.scheduled_users[op]
            .iter()
            .map(|user| self.op_streams[*user])
            .collect();
        for child in &children {
            self.streams[*child].parent = Some(op);
        }
        if self.options.merge_inter_dependent && children.len() > 1 {
            children = self.merge_inter_dependent(op, children);
        }
        self.choose(op, &children)
    }

    /// Merges cheap children into groups and returns the child that `op` joins: that of the return,
    /// else the costliest.
    fn choose(&mut self, op: usize, children: &[usize]) -> usize {
        let mut group: Option<usize> = None;
        let mut costliest: Option<(usize, i64)> = None;
        let mut with_return = None;
        for child in children.iter().copied() {
            let candidate = if self.is_above(op, child, None) {
                child
            } else {
                match group {
                    Some(group) if !self.is_above(op, group, Some(child)) => {
                        self.merge(child, group);
                        group
                    }
                    _ => *group.insert(child),
                }
            };
            let cost = self.streams[candidate].cost;
            if costliest.is_none_or(|(_, most)| cost > most) {
                costliest = Some((candidate, cost));
            }
            if self.streams[candidate].holds_return {
                with_return = Some(candidate);
            }
        }
        let chosen = with_return
            .or(costliest.map(|(stream, _)| stream))
            .unwrap_or(0);
        if let Some(last) = group
            && !self.automatic
            && last != chosen
            && !self.is_above(op, last, None)
        {
            self.merge(last, chosen);
        }
        chosen
    }

    /// Whether the cost of a stream, with that of `other` merged into it, reaches the threshold.
    fn is_above(&self, op: usize, stream: usize, other: Option<usize>) -> bool {
        let cost = self.streams[stream].cost;
        if !self.automatic {
            return cost >= self.threshold;
        }
        let other = other.map_or(0, |other| self.streams[other].cost);
        self.costs_from_root[op]
            .saturating_add(cost)
            .saturating_add(other)
            >= self.threshold
    }

    /// Merges into each child the cheap siblings that share values with it, in the order of their
    /// ids, until it reaches the threshold.
    fn merge_inter_dependent(&mut self, op: usize, children: Vec<usize>) -> Vec<usize> {
        let siblings: BTreeSet<usize> = children.iter().copied().collect();
        for child in children.iter().copied() {
            if self.streams[child].merged.is_some() {
                continue;
            }
            let sides: Vec<usize> = (self.streams[child].side_streams.iter().copied()).collect();
            let linked: BTreeSet<usize> =
                (sides.into_iter()).map(|side| self.resolve(side)).collect();
            let linked: Vec<usize> = (linked.into_iter())
                .filter(|side| *side != child && siblings.contains(side))
                .filter(|side| self.streams[*side].cost < self.threshold)
                .collect();
            for side in linked {
                self.merge(side, child);
                if self.is_above(op, child, None) {
                    break;
                }
            }
        }
        children
            .into_iter()
            .filter(|child| self.streams[*child].merged.is_none())
            .collect()
    }

    fn merge(&mut self, from: usize, into: usize) {
        let mut merged = std::mem::take(&mut self.streams[from]);
        self.streams[from].merged = Some(into);
        let into_stream = &mut self.streams[into];
        into_stream.cost = into_stream.cost.saturating_add(merged.cost);
        into_stream.holds_return |= merged.holds_return;
        // The smaller set is merged into the larger one (small-to-large merging).
        if merged.side_streams.len() > into_stream.side_streams.len() {
            std::mem::swap(&mut merged.side_streams, &mut into_stream.side_streams);
        }
        into_stream.side_streams.extend(merged.side_streams);
        into_stream.side_streams.remove(&from);
        into_stream.side_streams.remove(&into);
    }

    /// The stream that a stream was merged into: find with path halving, as in a union-find
    /// structure.
    fn resolve(&mut self, mut stream: usize) -> usize {
        while let Some(into) = self.streams[stream].merged {
            if let Some(further) = self.streams[into].merged {
                self.streams[stream].merged = Some(further);
            }
            stream = into;
        }
        stream
    }
}

fn kernel_cost(kernel: &Kernel, threshold: i64) -> i64 {
    if kernel.name == "tfrt.merge.chains" {
        return 1;
    }
    match kernel.attribute(COST_ATTRIBUTE).and_then(Attribute::as_i64) {
        Some(cost) => cost,
        None => threshold.max(1),
    }
}
