//! Memory traffic: the bytes that an execution reads and writes, and the intermediate tensors that fusion keeps from memory.

use crate::place::{Placement, Target};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Cost, Graph, Node, ValueId};

/// Pairs of values: the elements of the first are in the second, in any order. The pairs of nodes that rules have removed
/// since are among them.
#[derive(Debug, Default)]
pub(crate) struct Containment(Vec<(ValueId, ValueId)>);

impl Containment {
    /// Adds those of a view or a movement of elements.
    pub fn add(&mut self, node: &Node) {
        let input = node.inputs.first().copied().flatten();
        let output = node.outputs.first().copied().flatten();
        match (node.op.name, node.op.class) {
            ("Concat", _) => {
                for input in node.inputs.iter().flatten() {
                    self.0.extend(output.map(|output| (*input, output)));
                }
            }
            ("Pad", _) => self.0.extend(input.zip(output)),
            ("Slice" | "Split", _) => {
                for output in node.outputs.iter().flatten() {
                    self.0.extend(input.map(|input| (*output, input)));
                }
            }
            ("Transpose" | "Expand" | "Tile" | "DepthToSpace" | "SpaceToDepth", _)
            | (_, OperatorClass::View) => {
                if let (Some(input), Some(output)) = (input, output) {
                    self.add_equal(input, output);
                }
            }
            _ => {}
        }
    }

    /// Adds two values with the same elements.
    pub fn add_equal(&mut self, a: ValueId, b: ValueId) {
        self.0.extend([(a, b), (b, a)]);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Removes the pairs from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// For each value whether its elements are in one of those that `is_stored` has.
    fn close(&self, mut is_stored: Vec<bool>) -> Vec<bool> {
        let mut parts: Vec<Vec<ValueId>> = vec![Vec::new(); is_stored.len()];
        for (part, whole) in &self.0 {
            if let Some(parts) = parts.get_mut(whole.index()) {
                parts.push(*part);
            }
        }
        let all = 0..is_stored.len();
        let mut stack: Vec<usize> = all.filter(|&index| is_stored[index]).collect();
        while let Some(whole) = stack.pop() {
            for part in &parts[whole] {
                if let Some(stored) = is_stored.get_mut(part.index())
                    && !std::mem::replace(stored, true)
                {
                    stack.push(part.index());
                }
            }
        }
        is_stored
    }
}

/// The intermediate tensors of a graph with one node for each operator of the model, and their names.
pub(crate) struct Intermediates(Vec<(ValueId, String)>);

impl Intermediates {
    /// The results that nodes compute when the model runs, but for outputs and views.
    pub fn of(graph: &Graph) -> Self {
        let known = |value: &tenon_graph::Value| value.constant.is_some() || value.sizes.is_some();
        let mut is_known: Vec<bool> = graph.values.iter().map(known).collect();
        let mut found = Vec::new();
        for node in &graph.nodes {
            let mut inputs = node.inputs.iter().flatten().peekable();
            // Of constants alone, as dequantized weights are.
            let of_known = inputs.peek().is_some() && inputs.all(|input| is_known[input.index()]);
            for &output in node.outputs.iter().flatten() {
                is_known[output.index()] |= of_known;
                let is_intermediate = !is_known[output.index()]
                    && node.op.class != OperatorClass::View
                    && !graph.outputs.contains(&output);
                if is_intermediate {
                    found.push((output, graph.value(output).name.clone()));
                }
            }
        }
        Self(found)
    }

    /// The names of those whose elements are in no value of the optimised graph.
    pub fn without_buffer(self, graph: &Graph, contained: &Containment) -> Vec<String> {
        let mut is_stored = vec![false; graph.values.len()];
        let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
        for value in outputs.flatten().chain(&graph.inputs) {
            is_stored[value.index()] = true;
        }
        for (index, value) in graph.values.iter().enumerate() {
            is_stored[index] |= value.constant.is_some() || value.sizes.is_some();
        }
        let is_stored = contained.close(is_stored);
        let fused = self.0.into_iter().filter(|(id, _)| !is_stored[id.index()]);
        fused.map(|(_, name)| name).collect()
    }
}

/// Sets the costs of the nodes, and the bytes of an execution, of a graph without symbols.
pub(crate) fn measure(graph: &Graph, placement: &mut Placement) {
    if !graph.symbols.is_empty() {
        return;
    }
    // For each value the one that holds its bytes: views share those of their operand.
    let mut source: Vec<usize> = (0..graph.values.len()).collect();
    let mut read = vec![0u64; graph.values.len()];
    let mut is_written = vec![false; graph.values.len()];
    let mut moved = 0u64;
    for (node, placed) in graph.nodes.iter().zip(&mut placement.nodes) {
        if placed.target == Target::View {
            let input = node.inputs.first().copied().flatten();
            let output = node.outputs.first().copied().flatten();
            if let (Some(input), Some(output)) = (input, output) {
                source[output.index()] = source[input.index()];
            }
            continue;
        }
        let cost = Cost::of(graph, node);
        placed.cost = Some(cost);
        moved = moved.saturating_add(cost.read).saturating_add(cost.written);
        for (input, bytes) in node.inputs.iter().zip(Cost::reads(graph, node)) {
            if let Some(input) = input {
                let read = &mut read[source[input.index()]];
                *read = read.saturating_add(bytes);
            }
        }
        for output in node.outputs.iter().flatten() {
            is_written[output.index()] = true;
        }
    }
    let bytes = |index: usize| {
        let ty = graph.values[index].ty.as_ref();
        ty.map_or(0, |ty| ty.bytes() as u64)
    };
    let all = 0..graph.values.len();
    let from_outside = all.filter(|&index| !is_written[index] && source[index] == index);
    let least_read = from_outside.map(|index| bytes(index).min(read[index]));
    let mut outputs: Vec<usize> = graph.outputs.iter().map(|id| source[id.index()]).collect();
    outputs.sort_unstable();
    outputs.dedup();
    outputs.retain(|&index| is_written[index]);
    let least_written = outputs.into_iter().map(bytes);
    let least = least_read.chain(least_written).fold(0, u64::saturating_add);
    placement.traffic.moved = Some(moved);
    placement.traffic.least = Some(least);
}
