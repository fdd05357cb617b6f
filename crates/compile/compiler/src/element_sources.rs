//! Where the elements of an operand that decides a shape come from. Exporters join extents that are known with sizes
//! that are computed from data, and reorder them: only the latter are sizes that depend on data, and each of them is
//! one size wherever it is used.

use tenon_backend::{Backend, evaluate};
use tenon_graph::{Graph, Node, Value, ValueId};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, Tensor, TensorType};

/// Longer chains of operators, and tensors of more elements, are not followed.
const MAX_DEPTH: usize = 32;
const MAX_ELEMENTS: usize = 256;

/// The source of an element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ElementSource {
    /// It is known for the sizes of an execution.
    Known(SizeExpr),
    /// It is an element of this value.
    Element(ValueId, usize),
}

/// Finds the sources of elements in the nodes of a graph and of its bodies.
pub(crate) struct ElementSources<'a> {
    graph: &'a Graph,
    producers: Vec<Option<&'a Node>>,
    reference: &'a dyn Backend,
}

impl<'a> ElementSources<'a> {
    /// `inner` are nodes of the bodies around the operand. `reference` moves the positions of elements as the
    /// operators do.
    pub fn new(graph: &'a Graph, inner: &'a [Node], reference: &'a dyn Backend) -> Self {
        let mut producers = vec![None; graph.values.len()];
        for node in graph.nodes.iter().chain(inner) {
            for output in node.outputs.iter().flatten() {
                producers[output.index()] = Some(node);
            }
        }
        Self {
            graph,
            producers,
            reference,
        }
    }

    /// The source of each element of a tensor of integers.
    pub fn of(&self, id: ValueId) -> Vec<ElementSource> {
        self.sources(id, MAX_DEPTH)
    }

    fn sources(&self, id: ValueId, depth: usize) -> Vec<ElementSource> {
        let value = self.graph.value(id);
        if let Some(known) = known_elements(value) {
            return known.into_iter().map(ElementSource::Known).collect();
        }
        let moved = depth.checked_sub(1).and_then(|depth| {
            let producer = self.producers.get(id.index()).copied().flatten()?;
            self.moved(producer, value, depth)
        });
        moved.unwrap_or_else(|| {
            let elements = value.ty.as_ref().map_or(0, TensorType::elements);
            let element = |element| ElementSource::Element(id, element);
            (0..elements).map(element).collect()
        })
    }

    /// The sources of the output of an operator that only moves elements.
    fn moved(&self, node: &Node, output: &Value, depth: usize) -> Option<Vec<ElementSource>> {
        let moved = match node.op.name {
            "Concat" => node.inputs.len(),
            "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose"
            | "Slice" | "Gather" | "Expand" => 1,
            _ => return None,
        };
        // The positions in `sources`, moved as the elements are.
        let mut sources = Vec::new();
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (index, id) in node.inputs.iter().enumerate() {
            let Some(id) = *id else {
                inputs.push(None);
                continue;
            };
            let value = self.graph.value(id);
            if index >= moved {
                inputs.push(Some(value.constant.clone()?));
                continue;
            }
            let ty = small_integers(value)?;
            let start = sources.len();
            sources.extend(self.sources(id, depth));
            let positions: Vec<i64> = (start..sources.len()).map(|at| at as i64).collect();
            inputs.push(Some(
                Tensor::from_slice(ty.shape().clone(), &positions).ok()?,
            ));
        }
        let ty = small_integers(output)?;
        if node.op.name == "Cast" {
            return Some(sources);
        }
        let ty = TensorType::new(DataType::I64, ty.shape().clone()).ok()?;
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let positions = evaluate(
            self.reference,
            node.op,
            &node.attributes,
            &inputs,
            &[Some(ty)],
        );
        let positions = positions.ok()?.into_iter().next().flatten()?;
        let positions = positions.as_slice::<i64>()?.iter();
        positions
            .map(|&at| sources.get(usize::try_from(at).ok()?).cloned())
            .collect()
    }
}

/// The type of a small tensor of integers of a fixed shape.
pub(crate) fn small_integers(value: &Value) -> Option<&TensorType> {
    let mut extents = value.extents.iter().flatten();
    let fixed = extents.all(|extent| extent.constant().is_some());
    value.ty.as_ref().filter(|ty| {
        let integers = matches!(ty.dtype(), DataType::I64 | DataType::I32);
        fixed && integers && ty.elements() <= MAX_ELEMENTS
    })
}

fn known_elements(value: &Value) -> Option<Vec<SizeExpr>> {
    if let Some(sizes) = &value.sizes {
        return Some(sizes.elements.clone());
    }
    let integers = value.constant.as_ref()?.to_i64s()?;
    Some(integers.into_iter().map(SizeExpr::from).collect())
}
