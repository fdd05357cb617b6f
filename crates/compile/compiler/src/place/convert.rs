//! Conversion to a wider data type: for nodes that a backend would support in that type.

use super::selector::{BackendSelector, Operands};
use super::{NodePlacement, Target};
use crate::rewrite::operator_of;
use std::collections::HashMap;
use tenon_backend::Backend;
use tenon_base::{Error, Result};
use tenon_graph::{
    Attribute, Attributes, DataType, Graph, Node, Tensor, TensorType, UniqueNames, ValueId, infer,
};
use tenon_tensor::convert;

/// Data types and a wider one that represents all their values and that more backends support.
/// Results are rounded back, so that values between nodes keep the model's type.
const WIDER: [(DataType, DataType); 2] = [
    (DataType::F16, DataType::F32),
    (DataType::BF16, DataType::F32),
];

/// The operands of a refused node in the wider type, when `backend` supports the node with them.
pub(super) fn wider(
    node: &Node,
    operands: &Operands,
    backend: &dyn Backend,
) -> Option<((DataType, DataType), Operands)> {
    let inputs = || operands.inputs.iter().flatten();
    let (narrow, wide) = *WIDER
        .iter()
        .find(|(narrow, _)| inputs().any(|ty| ty.dtype() == *narrow))?;
    let widened = |ty: &TensorType| {
        if ty.dtype() == narrow {
            TensorType::new(wide, ty.shape().clone())
        } else {
            Ok(ty.clone())
        }
    };
    let types = |list: &[Option<TensorType>]| -> Option<Vec<Option<TensorType>>> {
        let list = list.iter().map(|ty| ty.as_ref().map(widened).transpose());
        list.collect::<Result<_>>().ok()
    };
    let constants = operands.constants.iter().map(|tensor| match tensor {
        Some(tensor) if tensor.dtype() == narrow => convert(tensor, wide).map(Some),
        other => Ok(other.clone()),
    });
    let wider = Operands {
        inputs: types(&operands.inputs)?,
        constants: constants.collect::<Result<_>>().ok()?,
        outputs: types(&operands.outputs)?,
        ranges: operands.ranges.clone(),
    };
    // Excludes operators whose attributes name the output type: they would not infer the wider one.
    let inputs: Vec<Option<&TensorType>> = wider.inputs.iter().map(Option::as_ref).collect();
    let known: Vec<Option<&Tensor>> = wider.constants.iter().map(Option::as_ref).collect();
    let inferred = infer(
        node.op,
        &node.attributes,
        &inputs,
        &known,
        wider.outputs.len(),
    )
    .ok()?;
    let pairs = wider.outputs.iter().zip(&inferred);
    let is_consistent = pairs.clone().count() == wider.outputs.len()
        && pairs
            .into_iter()
            .all(|(output, inferred)| output.as_ref().is_none_or(|output| output == inferred));
    (is_consistent && wider.query(backend, node).is_ok()).then_some(((narrow, wide), wider))
}

/// Places every node, and inserts casts around those that run in a wider type.
pub(super) fn place_nodes(
    graph: &mut Graph,
    selector: &BackendSelector<'_>,
) -> Result<Vec<NodePlacement>> {
    let mut problems = Vec::new();
    let mut placed = Vec::with_capacity(graph.nodes.len());
    let mut casts: Option<Casts> = None;
    let nodes = std::mem::take(&mut graph.nodes);
    let names = |graph: &mut Graph, rest: &[Node]| {
        let mut names = UniqueNames::of(graph);
        for node in rest {
            names.node(&node.name);
        }
        names
    };
    for (index, node) in nodes.iter().enumerate() {
        let decision = match selector.decide(graph, node, &[], true) {
            Ok(decision) => decision,
            Err(error) => {
                problems.push(error);
                continue;
            }
        };
        let Some(operands) = decision.widened else {
            placed.push(decision.placement);
            graph.nodes.push(node.clone());
            continue;
        };
        let casts = casts.get_or_insert_with(|| Casts {
            names: names(graph, &nodes[index..]),
            wide: HashMap::new(),
        });
        let (before, node, after) = casts.around(graph, node, &operands)?;
        for cast in before {
            placed.push(cast_placement(graph, &cast, selector, &mut problems));
            graph.nodes.push(cast);
        }
        placed.push(decision.placement);
        graph.nodes.push(node);
        for cast in after {
            placed.push(cast_placement(graph, &cast, selector, &mut problems));
            graph.nodes.push(cast);
        }
    }
    Error::from_all(problems).map_or(Ok(placed), Err)
}

/// The placement of a cast; an error is added when no backend supports it.
fn cast_placement(
    graph: &Graph,
    cast: &Node,
    selector: &BackendSelector<'_>,
    problems: &mut Vec<Error>,
) -> NodePlacement {
    match selector.decide(graph, cast, &[], false) {
        Ok(decision) => decision.placement,
        Err(error) => {
            problems.push(error);
            NodePlacement {
                node: cast.name.clone(),
                operator: cast.op.name,
                target: Target::Dma,
                hint: None,
                converted: None,
                weights: None,
                subgraph: None,
                cost: None,
                refusals: Vec::new(),
                replaced: None,
            }
        }
    }
}

/// The casts inserted into a graph.
struct Casts {
    names: UniqueNames,
    /// For each cast value its wider form.
    wide: HashMap<ValueId, ValueId>,
}

impl Casts {
    /// The casts before `node`, the node on wider values, and the casts after it.
    fn around(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        operands: &Operands,
    ) -> Result<(Vec<Node>, Node, Vec<Node>)> {
        let mut node = node.clone();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (index, input) in node.inputs.iter_mut().enumerate() {
            let (Some(id), Some(ty)) = (*input, &operands.inputs[index]) else {
                continue;
            };
            if graph.value(id).ty.as_ref() == Some(ty) {
                continue;
            }
            let wide = match (self.wide.get(&id), &operands.constants[index]) {
                (Some(&wide), _) => wide,
                (None, Some(constant)) => {
                    let name = self.wide_name(graph, id, ty);
                    graph.add_constant(name, constant.clone())
                }
                (None, None) => {
                    let name = self.wide_name(graph, id, ty);
                    let wide = graph.add_value(name, Some(ty.clone()));
                    before.push(self.cast(graph, id, wide)?);
                    wide
                }
            };
            self.wide.insert(id, wide);
            *input = Some(wide);
        }
        for (index, output) in node.outputs.iter_mut().enumerate() {
            let (Some(id), Some(ty)) = (*output, &operands.outputs[index]) else {
                continue;
            };
            if graph.value(id).ty.as_ref() == Some(ty) {
                continue;
            }
            let name = self.wide_name(graph, id, ty);
            let wide = graph.add_value(name, Some(ty.clone()));
            after.push(self.cast(graph, wide, id)?);
            *output = Some(wide);
        }
        Ok((before, node, after))
    }

    fn wide_name(&mut self, graph: &Graph, id: ValueId, ty: &TensorType) -> String {
        let name = &graph.value(id).name;
        self.names.value(&format!("{name}.{}", ty.dtype()))
    }

    fn cast(&mut self, graph: &Graph, from: ValueId, to: ValueId) -> Result<Node> {
        let dtype = graph.value(to).ty.as_ref().map(TensorType::dtype);
        let mut attributes = Attributes::new();
        if let Some(dtype) = dtype {
            attributes.set("to", Attribute::String(dtype.name().into()));
        }
        let name = &graph.value(to).name;
        Ok(Node {
            name: self.names.node(&format!("{name}.cast")),
            op: operator_of("Cast")?,
            attributes,
            inputs: vec![Some(from)],
            outputs: vec![Some(to)],
        })
    }
}
