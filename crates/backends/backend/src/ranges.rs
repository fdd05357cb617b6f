//! Sizes of a node's operands that are known only when the model runs.

use tenon_graph::{Graph, Node, Value, ValueId};

/// The capability of a backend whose queries and plans take ranges of sizes; its value is true.
pub const DYNAMIC_SHAPES: &str = "DynamicShapes";

/// The sizes that a dimension may have, both bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentRange {
    /// The smallest.
    pub min: u64,
    /// The greatest; `u64::MAX` if it is not known.
    pub max: u64,
}

/// An operand that differs from the example in some executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperandRanges {
    /// The range of each dimension; one size for a fixed one.
    pub extents: Vec<ExtentRange>,
    /// Whether its elements are known only as an example: sizes, which are constants in an execution.
    pub elements_vary: bool,
}

/// The operands of a node that is offered for any sizes in their ranges. Its types, and its constants as far as
/// elements vary, are then examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRanges {
    /// The ranges of the inputs; `None` for an absent input, and for one that is the same in all executions.
    pub inputs: Vec<Option<OperandRanges>>,
    /// The ranges of the outputs, likewise.
    pub outputs: Vec<Option<OperandRanges>>,
}

impl NodeRanges {
    /// The ranges of a node of `graph`; `None` if all its sizes are fixed.
    pub fn of(graph: &Graph, node: &Node) -> Option<Self> {
        if graph.symbols.is_empty() {
            return None;
        }
        let operands = |ids: &[Option<ValueId>]| -> Vec<Option<OperandRanges>> {
            let operand = |id: &Option<ValueId>| operand(graph, graph.value((*id)?));
            ids.iter().map(operand).collect()
        };
        let ranges = Self {
            inputs: operands(&node.inputs),
            outputs: operands(&node.outputs),
        };
        let mut all = ranges.inputs.iter().chain(&ranges.outputs);
        all.any(Option::is_some).then_some(ranges)
    }
}

/// The ranges of a value; `None` if it is the same in all executions.
fn operand(graph: &Graph, value: &Value) -> Option<OperandRanges> {
    let sizes = value.sizes.as_ref().filter(|_| value.constant.is_none());
    let elements = sizes.map_or(&[][..], |sizes| &sizes.elements);
    let elements_vary = elements.iter().any(|element| element.constant().is_none());
    let symbolic = value.extents.iter().flatten();
    let is_fixed = symbolic.clone().all(|extent| extent.constant().is_some());
    if is_fixed && !elements_vary {
        return None;
    }
    let extents = match &value.extents {
        Some(extents) => extents
            .iter()
            .map(|extent| {
                let range = graph.symbols.range(extent);
                let bound = |bound: Option<i128>, none| {
                    bound.map_or(none, |bound| {
                        u64::try_from(bound.max(0)).unwrap_or(u64::MAX)
                    })
                };
                ExtentRange {
                    min: bound(range.min, 0),
                    max: bound(range.max, u64::MAX),
                }
            })
            .collect(),
        None => fixed(value.ty.as_ref()?.shape()),
    };
    Some(OperandRanges {
        extents,
        elements_vary,
    })
}

fn fixed(shape: &[usize]) -> Vec<ExtentRange> {
    let extents = shape.iter().map(|&extent| extent as u64);
    extents
        .map(|extent| ExtentRange {
            min: extent,
            max: extent,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::size::SizeExpr;

    #[test]
    fn ranges_follow_from_those_of_the_symbols() {
        let text = "graph \"g\" (%x: f32[7, 4], %w: f32[4, 2]) -> (%y) {\n%y = MatMul(%x, %w)\n%z = Relu(%w)\n}";
        let mut graph: Graph = text.parse().unwrap();
        graph.infer_types().unwrap();
        assert_eq!(NodeRanges::of(&graph, &graph.nodes[0]), None);
        let rows = graph.symbols.add("rows", 2..=64).unwrap();
        graph.example_sizes.push(7);
        let fixed = |size: i64| SizeExpr::from(size);
        let doubled = SizeExpr::from(rows).times(&fixed(2)).unwrap();
        let [x, y] = [graph.nodes[0].inputs[0], graph.nodes[0].outputs[0]].map(Option::unwrap);
        graph.value_mut(x).extents = Some(vec![SizeExpr::from(rows), fixed(4)]);
        graph.value_mut(y).extents = Some(vec![doubled, fixed(2)]);
        let ranges = NodeRanges::of(&graph, &graph.nodes[0]).unwrap();
        let range = |min, max| ExtentRange { min, max };
        let operand = |extents: [ExtentRange; 2]| OperandRanges {
            extents: extents.to_vec(),
            elements_vary: false,
        };
        assert_eq!(
            ranges.inputs,
            [Some(operand([range(2, 64), range(4, 4)])), None]
        );
        assert_eq!(
            ranges.outputs,
            [Some(operand([range(4, 128), range(2, 2)]))]
        );
        assert_eq!(NodeRanges::of(&graph, &graph.nodes[1]), None);
    }
}
