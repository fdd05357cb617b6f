//! Graphs with sizes that are known only when the model runs. Passes work on the types for example sizes; what they
//! made is checked for other sizes afterwards.

use crate::host::{symbols_of, symbols_of_value};
use crate::infer::infer_node;
use std::collections::BTreeSet;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, Node, ValueId, check_node_sizes, check_sizes, infer_symbolic, shape_for};
use tenon_tensor::Shape;
use tenon_tensor::size::{Symbol, SymbolId};

/// Sizes other than the examples, for which a graph is checked.
pub(crate) struct OtherSizes(Vec<Vec<i64>>);

impl OtherSizes {
    /// Those that the graph accepts; none without symbols.
    pub fn accepted_by(graph: &Graph) -> Self {
        let mut sizes = match graph.symbols.is_empty() {
            true => Vec::new(),
            false => candidates(graph),
        };
        sizes.retain(|sizes| check_sizes(graph, sizes).is_ok());
        Self(sizes)
    }

    /// No sizes: every check succeeds.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that the outputs of a node have the shapes that its operator infers.
    ///
    /// # Errors
    /// The sizes for which they differ.
    pub fn check_node(&self, graph: &Graph, node: &Node) -> Result<()> {
        self.0.iter().try_for_each(|sizes| {
            let checked = check_node_sizes(graph, node, sizes);
            checked.map_err(|error| error.at(place(graph, symbols_of(graph, node), sizes)))
        })
    }

    /// Checks that two values have equal shapes.
    ///
    /// # Errors
    /// The sizes for which they differ.
    pub fn check_equal(&self, graph: &Graph, a: ValueId, b: ValueId) -> Result<()> {
        self.check_values((graph, a), (graph, b))
    }

    /// Checks that an optimised graph computes outputs of the same shapes as before.
    ///
    /// # Errors
    /// A pass used an example size as if it were fixed: the node or output, and the sizes for which it is wrong.
    pub fn check(&self, optimised: &Graph, before: &Graph) -> Result<()> {
        let mut nodes = optimised.nodes.iter();
        nodes.try_for_each(|node| self.check_node(optimised, node))?;
        let mut pairs = before.outputs.iter().zip(&optimised.outputs);
        pairs.try_for_each(|(&expected, &found)| {
            self.check_values((before, expected), (optimised, found))
        })
    }

    fn check_values(&self, expected: (&Graph, ValueId), found: (&Graph, ValueId)) -> Result<()> {
        self.0.iter().try_for_each(|sizes| {
            let [before, after] = [expected, found].map(|(graph, id)| shape(graph, id, sizes));
            let (before, after) = (before?, after?);
            if before == after {
                return Ok(());
            }
            let (graph, id) = expected;
            let text = format!("value '{}' gets another shape", graph.value(id).name);
            let symbols = symbols_of_value(graph, id).into_iter().collect();
            Err(Error::new(ErrorKind::Internal, text)
                .expected(format_args!("{before:?}"))
                .found(format_args!("{after:?}"))
                .at(place(graph, symbols, sizes)))
        })
    }
}

/// The shape of a value for these sizes.
fn shape(graph: &Graph, id: ValueId, sizes: &[i64]) -> Result<Shape> {
    let value = graph.value(id);
    match (&value.extents, &value.ty) {
        (Some(extents), _) => shape_for(extents, sizes),
        (None, Some(ty)) => Ok(ty.shape().clone()),
        (None, None) => Err(Error::new(
            ErrorKind::Internal,
            format!("value '{}' has no type", value.name),
        )),
    }
}

/// Sizes with the names of their symbols: `height = 243, width = 383`.
fn place(graph: &Graph, symbols: BTreeSet<SymbolId>, sizes: &[i64]) -> Location {
    let named = symbols.into_iter().filter_map(|id| {
        let symbol = graph.symbols.symbol(id)?;
        Some(format!("{} = {}", symbol.name, sizes.get(id.index())?))
    });
    Location::field(named.collect::<Vec<_>>().join(", "))
}

/// Sizes other than the examples, each in its range: larger and smaller ones of the same kind, sizes beyond limits such
/// as the largest number of results, and the smallest.
fn candidates(graph: &Graph) -> Vec<Vec<i64>> {
    let symbols = || graph.symbols.iter().zip(&graph.example_sizes).enumerate();
    let shifted = |step: i64| {
        let size = move |(index, ((_, symbol), &example)): (usize, ((_, &Symbol), &i64))| {
            let size = example + step * (2 * index as i64 + 3);
            size.clamp(symbol.min as i64, symbol.max as i64)
        };
        symbols().map(size).collect::<Vec<i64>>()
    };
    let smallest = symbols().map(|(_, ((_, symbol), _))| symbol.min as i64);
    vec![shifted(32), shifted(-32), shifted(1024), smallest.collect()]
}

/// Infers the extents of values that passes after specialisation added.
pub(crate) fn complete_extents(graph: &mut Graph) -> Result<()> {
    if graph.symbols.is_empty() {
        return Ok(());
    }
    (0..graph.nodes.len()).try_for_each(|index| complete_node(graph, index))
}

/// The same for the outputs of one node.
pub(crate) fn complete_node(graph: &mut Graph, index: usize) -> Result<()> {
    let node = &graph.nodes[index];
    let mut outputs = node.outputs.iter().flatten();
    if outputs.all(|&id| graph.value(id).extents.is_some()) {
        return Ok(());
    }
    let types = infer_node(graph, node, node.outputs.len())?;
    let inferred = infer_symbolic(graph, node, &types)?;
    let ids = node.outputs.clone();
    for (id, output) in ids.into_iter().zip(inferred) {
        if let Some(id) = id {
            graph.value_mut(id).extents = Some(output.extents);
        }
    }
    Ok(())
}
