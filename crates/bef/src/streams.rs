//! Streams: which kernels run one after the other on a thread (facts 2.5).
//!
//! A kernel is scheduled under the operand that is ready last; going back from the leaves, the
//! costliest child's stream is joined, cheap siblings are merged and expensive ones start a stream.

use crate::{Attribute, Function, Kernel};
use std::collections::BTreeSet;

/// How streams are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// The cost from which a stream is worth a thread; 0 or less takes the cost of the longest
    /// path (`tfrt.cost_threshold`).
    pub cost_threshold: i64,
    /// Whether streams that wait for each other are merged (`tfrt.merge_inter_dependent_streams`).
    pub merge_inter_dependent: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            cost_threshold: -1,
            merge_inter_dependent: false,
        }
    }
}

/// The streams of a function's kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// The stream that starts the function; it holds the return, too.
    pub root: u32,
    /// The stream of every kernel, in block order.
    pub kernels: Vec<u32>,
    /// The stream of `tfrt.return`.
    pub result: u32,
    /// The cost of every stream; 0 for those merged into others.
    pub costs: Vec<i64>,
}

/// The attribute that says what a kernel costs. It is for the compiler only and not written.
pub(crate) const COST_ATTRIBUTE: &str = "_tfrt_cost";

/// The chain type: an operand of this type orders, but no value crosses streams with it.
const CHAIN: &str = "!tfrt.chain";

/// Assigns streams to the kernels of `function`.
pub fn assign_streams(function: &Function, options: StreamOptions) -> Streams {
    let mut analysis = Analysis::forward(function, options);
    analysis.backward();
    let streams = analysis.resolved();
    let resolved: Vec<u32> = analysis
        .op_streams
        .iter()
        .map(|stream| streams[*stream] as u32)
        .collect();
    let root = resolved.last().copied().unwrap_or(0);
    Streams {
        root,
        result: resolved
            .get(function.kernels.len())
            .copied()
            .unwrap_or(root),
        kernels: resolved[..function.kernels.len()].to_vec(),
        costs: analysis.streams.iter().map(|stream| stream.cost).collect(),
    }
}

#[derive(Debug, Default)]
struct Stream {
    cost: i64,
    holds_return: bool,
    merged: Option<usize>,
    /// Kernels of other parents that use values of this stream.
    side_uses: BTreeSet<usize>,
}

/// Ops are the kernels, then the return, then the root.
struct Analysis {
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
    fn root(&self) -> usize {
        self.costs.len() - 1
    }

    /// Finds every op's parent, from the first kernel to the return.
    fn forward(function: &Function, options: StreamOptions) -> Self {
        let result = function.kernels.len();
        let root = result + 1;
        let automatic = options.cost_threshold <= 0;
        let mut costs: Vec<i64> = function
            .kernels
            .iter()
            .map(|k| kernel_cost(k, options.cost_threshold))
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
        let mut makers = vec![root; function.registers.len()];
        for (op, kernel) in function.kernels.iter().enumerate() {
            this.schedule(op, &kernel.operands, &makers, function);
            for register in &kernel.results {
                if let Some(maker) = makers.get_mut(register.0 as usize) {
                    *maker = op;
                }
            }
        }
        this.schedule(result, &function.results, &makers, function);
        if automatic {
            let longest = this.costs_from_root[..root].iter().copied().max();
            this.threshold = longest.unwrap_or(1).max(1);
        }
        this
    }

    fn schedule(
        &mut self,
        op: usize,
        operands: &[crate::RegisterId],
        makers: &[usize],
        function: &Function,
    ) {
        let root = self.root();
        let mut parent = None;
        for register in operands {
            let Some(maker) = makers.get(register.0 as usize).copied() else {
                continue;
            };
            let ready_later =
                |parent: usize| self.costs_from_root[maker] > self.costs_from_root[parent];
            if parent.is_none_or(ready_later) {
                parent = Some(maker);
            }
            let chain = function.registers[register.0 as usize] == CHAIN;
            if self.options.merge_inter_dependent && !chain {
                self.side_uses[maker].insert(op);
            }
        }
        let parent = parent.unwrap_or(root);
        self.side_uses[parent].remove(&op);
        self.costs_from_root[op] = self.costs[op].saturating_add(self.costs_from_root[parent]);
        self.scheduled_users[parent].push(op);
    }

    /// Joins and merges streams, from the return to the root.
    fn backward(&mut self) {
        let result = self.costs.len() - 2;
        let order = std::iter::once(result)
            .chain((0..result).rev())
            .chain([result + 1]);
        for op in order {
            let stream = self.stream_for(op, op == result);
            let costs = self.costs[op];
            self.op_streams[op] = stream;
            self.streams[stream].cost = self.streams[stream].cost.saturating_add(costs);
            if self.options.merge_inter_dependent {
                let side_uses = std::mem::take(&mut self.side_uses[op]);
                self.streams[stream].side_uses.extend(side_uses);
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
        if self.options.merge_inter_dependent && children.len() > 1 {
            children = self.merge_inter_dependent(op, children);
        }
        self.choose(op, &children)
    }

    /// Merges cheap children into groups, and answers the one that `op` joins.
    fn choose(&mut self, op: usize, children: &[usize]) -> usize {
        let mut group: Option<usize> = None;
        let mut costliest: Option<usize> = None;
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
            if costliest.is_none_or(|best| self.streams[candidate].cost > self.streams[best].cost) {
                costliest = Some(candidate);
            }
            if self.streams[candidate].holds_return {
                with_return = Some(candidate);
            }
        }
        let chosen = with_return.or(costliest).unwrap_or(0);
        if let Some(last) = group
            && !self.automatic
            && last != chosen
            && !self.is_above(op, last, None)
        {
            self.merge(last, chosen);
        }
        chosen
    }

    /// Whether a stream (and one that would be merged into it) is worth a thread.
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

    /// Merges children whose values the others wait for, while they are cheap.
    fn merge_inter_dependent(&mut self, op: usize, children: Vec<usize>) -> Vec<usize> {
        let siblings: BTreeSet<usize> = children.iter().copied().collect();
        for child in children.iter().copied() {
            if self.streams[child].merged.is_some() {
                continue;
            }
            let candidates: Vec<usize> = self.streams[child].side_uses.iter().copied().collect();
            for user in candidates {
                if self.is_above(op, child, None) {
                    break;
                }
                let side = self.resolve(self.op_streams[user]);
                let cheap = self.streams[side].cost < self.threshold;
                if side != child && cheap && siblings.contains(&side) {
                    self.merge(side, child);
                }
            }
        }
        children
            .into_iter()
            .filter(|child| self.streams[*child].merged.is_none())
            .collect()
    }

    fn merge(&mut self, from: usize, into: usize) {
        let merged = std::mem::take(&mut self.streams[from]);
        self.streams[from].merged = Some(into);
        let into = &mut self.streams[into];
        into.cost = into.cost.saturating_add(merged.cost);
        into.holds_return |= merged.holds_return;
        into.side_uses.extend(merged.side_uses);
    }

    /// The stream each stream ended up in.
    fn resolved(&self) -> Vec<usize> {
        let mut resolved: Vec<Option<usize>> = vec![None; self.streams.len()];
        for start in 0..self.streams.len() {
            let mut path = Vec::new();
            let mut stream = start;
            let end = loop {
                match (resolved[stream], self.streams[stream].merged) {
                    (Some(end), _) => break end,
                    (None, None) => break stream,
                    (None, Some(into)) => path.push(std::mem::replace(&mut stream, into)),
                }
            };
            path.into_iter()
                .chain([start])
                .for_each(|stream| resolved[stream] = Some(end));
        }
        resolved.into_iter().flatten().collect()
    }

    fn resolve(&self, mut stream: usize) -> usize {
        while let Some(into) = self.streams[stream].merged {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FunctionBuilder, FunctionKind, RegisterId};

    /// A kernel of `cost` (0: none said) that makes a value.
    fn kernel(
        function: &mut FunctionBuilder,
        operands: &[RegisterId],
        cost: i64,
        r#type: &str,
    ) -> RegisterId {
        let kernel = function.kernel("k").operands(operands.iter().copied());
        match cost {
            0 => kernel.result(r#type),
            cost => kernel.attribute(COST_ATTRIBUTE, cost).result(r#type),
        }
    }

    fn function() -> FunctionBuilder {
        FunctionBuilder::new("f", FunctionKind::Async)
    }

    fn options(cost_threshold: i64, merge_inter_dependent: bool) -> StreamOptions {
        StreamOptions {
            cost_threshold,
            merge_inter_dependent,
        }
    }

    #[test]
    fn a_chain_is_one_stream() {
        let mut f = function();
        let mut value = kernel(&mut f, &[], 0, "i32");
        for _ in 0..3 {
            value = kernel(&mut f, &[value], 0, "i32");
        }
        let streams = assign_streams(&f.returns([value]), StreamOptions::default());
        assert_eq!(streams.kernels, [0; 4]);
        assert_eq!((streams.root, streams.result), (0, 0));
        assert_eq!(streams.costs, [6], "four kernels, the return and the root");
    }

    #[test]
    fn the_root_is_where_the_return_is() {
        // a and b start together; the return is scheduled under a, the first of equals.
        let mut f = function();
        let a = kernel(&mut f, &[], 0, "i32");
        let b = kernel(&mut f, &[], 0, "i32");
        let streams = assign_streams(&f.returns([a, b]), StreamOptions::default());
        assert_eq!(streams.kernels, [0, 1]);
        assert_eq!((streams.root, streams.result), (0, 0));
        assert_eq!(streams.costs, [3, 1]);
    }

    #[test]
    fn the_return_follows_the_costliest_operand() {
        let mut f = function();
        let cheap = kernel(&mut f, &[], 1, "i32");
        let dear = kernel(&mut f, &[], 9, "i32");
        let streams = assign_streams(&f.returns([cheap, dear]), StreamOptions::default());
        assert_eq!(streams.kernels, [1, 0]);
        assert_eq!(streams.root, 0);
    }

    #[test]
    fn cheap_siblings_share_a_stream_and_join_the_chosen_one() {
        let three = |threshold| {
            let mut f = function();
            for cost in [2, 2, 2] {
                kernel(&mut f, &[], cost, "i32");
            }
            assign_streams(&f.returns([]), options(threshold, false))
        };
        // Of the backward walk: the return is stream 0, then 1, 2, 3 from the last kernel. The
        // children of the root are the kernels, then the return.
        // Threshold 4: 3 and 2 are merged and worth a thread; 1 starts a group, the return joins
        // it, and the root follows the return.
        assert_eq!(three(4).kernels, [3, 3, 1]);
        assert_eq!(three(4).root, 1);
        // Threshold 100: all are merged, the root with them.
        assert_eq!(three(100).kernels, [3; 3]);
        assert_eq!(three(100).root, 3);
        assert_eq!(three(100).costs, [0, 0, 0, 8]);
        // Threshold 1: each is worth a thread.
        assert_eq!(three(1).kernels, [3, 2, 1]);
        assert_eq!(three(1).root, 0);
    }

    #[test]
    fn streams_that_wait_for_each_other_are_merged_on_request() {
        // a, b and c hang on the root; d hangs on c but also uses a. a and b together are worth
        // a thread, so nothing but d connects a and c.
        let diamond = |r#type: &str, merge| {
            let mut f = function();
            let a = kernel(&mut f, &[], 2, r#type);
            kernel(&mut f, &[], 5, "i32");
            let c = kernel(&mut f, &[], 2, "i32");
            let d = kernel(&mut f, &[c, a], 1, "i32");
            assign_streams(&f.returns([d]), options(6, merge))
        };
        let apart = diamond("i32", false);
        assert_ne!(apart.kernels[0], apart.kernels[2]);
        let together = diamond("i32", true);
        assert_eq!(together.kernels[0], together.kernels[2]);
        // A chain carries no value, so it is no reason to merge.
        assert_eq!(diamond(CHAIN, true).kernels, diamond(CHAIN, false).kernels);
    }

    #[test]
    fn long_functions_take_linear_time() {
        let mut f = function();
        let start = kernel(&mut f, &[], 0, "i32");
        let mut last = start;
        for _ in 0..50_000 {
            last = kernel(&mut f, &[last, start], 0, "i32");
            kernel(&mut f, &[start], 0, "i32");
        }
        let streams = assign_streams(&f.returns([last]), options(-1, true));
        assert_eq!(streams.kernels.len(), 100_001);
    }
}
