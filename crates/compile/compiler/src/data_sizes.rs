//! Sizes that depend on data: extents that an operator finds while it runs, and elements of operands that decide
//! shapes. Each becomes a symbol of the graph; the host program reads it from its value ([`crate::host`]).

use crate::control::set_type;
use crate::element_sources::{ElementSource, ElementSources, small_integers};
use tenon_backend::Backend;
use tenon_base::Result;
use tenon_graph::{
    Attribute, DataSize, DataSizeSource, Graph, Node, OperatorDef, SizeElements, UniqueNames,
    Value, ValueId, infer, size_tensor,
};
use tenon_tensor::size::{SizeExpr, SymbolId, Symbols};
use tenon_tensor::{DataType, Tensor, TensorType};

/// An operand that decides a shape has at most this number of elements.
const MAX_ELEMENTS: usize = 16;

/// The example sizes of symbols, a different one for each: primes, unlike other extents of models, or multiples of them.
#[derive(Clone, Copy)]
enum Examples {
    /// Counts, from 11.
    Counts,
    /// Values of elements, which are often small: K of TopK, ends of Slice. From 3.
    Elements,
    /// Extents of images that a model scales, from 352: strides of backbones leave different extents of them.
    Images,
    /// This size for one symbol.
    Fixed(i64),
}

impl Examples {
    /// The sizes up to `max`, in ascending order.
    fn up_to(self, max: i64) -> impl Iterator<Item = i64> {
        let (first, last, multiple) = match self {
            Examples::Counts => (11, i64::MAX, 1),
            Examples::Elements => (3, i64::MAX, 1),
            Examples::Images => (11, i64::MAX, 32),
            Examples::Fixed(size) => (size, size, 1),
        };
        let is_single = first == last;
        let is_prime = |size: i64| (2..).take_while(|d| d * d <= size).all(|d| size % d != 0);
        let sizes = (first..=last).filter(move |&size| is_single || is_prime(size));
        let sizes = sizes.map(move |size| size.saturating_mul(multiple));
        sizes.take_while(move |&size| size <= max)
    }
}

/// Whether the extents of the outputs of an operator depend on the elements of its inputs, and are not sizes that
/// operands give.
pub fn counts_elements(op: &OperatorDef) -> bool {
    matches!(
        op.name,
        "NonZero" | "Unique" | "NonMaxSuppression" | "Compress"
    )
}

/// Whether the host program computes a node: extents of its outputs are known only then.
pub(crate) fn is_host_node(graph: &Graph, node: &Node) -> bool {
    let outputs = || node.outputs.iter().flatten();
    let finds_extents = graph.data_sizes.iter().any(|size| {
        let is_extent = matches!(size.source, DataSizeSource::Extent(_));
        is_extent && outputs().any(|&output| output == size.value)
    });
    node.is_control()
        || graph.is_on_host(node)
        || finds_extents
        || counts_elements(node.op) && is_undecided(graph, node)
}

/// Makes all extents of a node's outputs sizes that depend on data: there is no rule for them. `types` are those for
/// the example sizes.
pub(crate) fn open_extents(graph: &mut Graph, node: &Node, types: &[TensorType]) -> Result<()> {
    for (id, ty) in node.outputs.iter().zip(types) {
        let Some(id) = *id else { continue };
        let mut extents = Vec::with_capacity(ty.shape().len());
        for (axis, &extent) in ty.shape().iter().enumerate() {
            let example = Examples::Fixed(i64::try_from(extent).unwrap_or(i64::MAX));
            let symbol = new_symbol(graph, "count", u64::MAX, example)?;
            graph.data_sizes.push(DataSize {
                symbol,
                value: id,
                source: DataSizeSource::Extent(axis),
            });
            extents.push(symbol.into());
        }
        graph.value_mut(id).extents = Some(extents);
    }
    Ok(())
}

/// Sets the types of the outputs of an operator that takes extents which depend on data as if these were 1: the operator
/// finds the extents of its outputs. Returns whether it takes such types.
pub(crate) fn infer_open(graph: &mut Graph, node: &Node) -> Result<bool> {
    let depends = |extent: &SizeExpr| {
        let symbols = extent.symbols();
        let mut sizes = graph.data_sizes.iter();
        sizes.any(|size| symbols.contains(&size.symbol))
    };
    let mut open = false;
    let mut types = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        let value = input.map(|id| graph.value(id));
        let ty = value.and_then(|value| Some((value.ty.as_ref()?, extents(value)?)));
        types.push(match ty {
            None => None,
            Some((ty, extents)) => {
                open |= extents.iter().any(depends);
                let sizes = extents.iter().zip(ty.shape().iter());
                let sizes = sizes.map(|(extent, &size)| if depends(extent) { 1 } else { size });
                Some(TensorType::new(ty.dtype(), sizes.collect::<Vec<_>>())?)
            }
        });
    }
    if !open {
        return Ok(false);
    }
    let values = node.inputs.iter().map(|id| id.map(|id| graph.value(id)));
    let known: Vec<Option<&Tensor>> = values
        .map(|value| value.and_then(|value| value.constant.as_ref()))
        .collect();
    let types: Vec<Option<&TensorType>> = types.iter().map(Option::as_ref).collect();
    let Ok(found) = infer(
        node.op,
        &node.attributes,
        &types,
        &known,
        node.outputs.len(),
    ) else {
        return Ok(false);
    };
    for (id, ty) in node.outputs.iter().zip(found) {
        if let Some(id) = *id {
            let extents = vec![None; ty.shape().len()];
            set_type(graph, id, ty.dtype(), extents, (usize::MAX, &[]))?;
        }
    }
    Ok(true)
}

/// Makes the sum of the known sizes of a Split the example of the count that it divides, and returns whether it was
/// another: no other count is right, and executions check it.
pub(crate) fn fit_split(graph: &mut Graph, node: &Node) -> Result<bool> {
    let operand = |index: usize| {
        let id = node.inputs.get(index).copied().flatten();
        id.map(|id| graph.value(id))
    };
    let sizes = operand(1).and_then(|value| value.constant.as_ref()?.to_i64s());
    let (Some(sizes), Some(extents)) = (sizes, operand(0).and_then(extents)) else {
        return Ok(false);
    };
    let axis = node.attributes.int("axis", 0)?;
    let axis = usize::try_from(if axis < 0 {
        axis + extents.len() as i64
    } else {
        axis
    });
    let extent = axis.ok().and_then(|axis| extents.get(axis));
    let mut counts = graph.data_sizes.iter().map(|size| size.symbol);
    let count = counts.find(|&symbol| extent == Some(&symbol.into()));
    let sum = sizes
        .iter()
        .try_fold(0i64, |sum, &size| sum.checked_add(size));
    match (count, sum) {
        (Some(count), Some(sum)) if node.op.name == "Split" && sum >= 0 => {
            set_example(graph, count, sum)
        }
        _ => Ok(false),
    }
}

/// Changes the example of a symbol, and the types that follow from it. Returns whether it was another.
fn set_example(graph: &mut Graph, symbol: SymbolId, size: i64) -> Result<bool> {
    let examples = &mut graph.example_sizes;
    let example = examples.get_mut(symbol.index());
    let Some(example) = example.filter(|example| **example != size) else {
        return Ok(false);
    };
    *example = size;
    for value in &mut graph.values {
        if let Some(sizes) = &mut value.sizes {
            sizes.example = size_tensor(sizes.example.ty(), &sizes.elements, examples)?;
        }
        let (Some(ty), Some(extents)) = (&value.ty, &value.extents) else {
            continue;
        };
        let shape = extents.iter().map(|extent| {
            let size = extent.evaluate(examples)?;
            Ok(usize::try_from(size).unwrap_or(0))
        });
        let shape = shape.collect::<Result<Vec<usize>>>()?;
        value.ty = Some(TensorType::new(ty.dtype(), shape)?);
    }
    Ok(true)
}

/// Whether an operand that decides the output's shape is unknown.
fn is_undecided(graph: &Graph, node: &Node) -> bool {
    (0..node.inputs.len()).any(|index| undecided(graph, node, index).is_some())
}

/// The operand `index`, if it decides the output's shape and is unknown.
fn undecided(graph: &Graph, node: &Node, index: usize) -> Option<ValueId> {
    let id = node.inputs.get(index).copied().flatten()?;
    let decides = node.op.input(index).is_some_and(|def| def.compile_time);
    (decides && graph.value(id).known().is_none()).then_some(id)
}

/// Sets the types of the outputs of an operator that counts elements which are unknown: each count is a new symbol.
/// Returns whether it is one.
pub(crate) fn infer_counts(graph: &mut Graph, node: &Node) -> Result<bool> {
    if !counts_elements(node.op) || !is_undecided(graph, node) {
        return Ok(false);
    }
    let input = |index: usize| {
        let id = node.inputs.get(index).copied().flatten();
        let value = id.map(|id| graph.value(id));
        value.and_then(|value| Some((value.ty.as_ref()?.dtype(), extents(value)?)))
    };
    let Some((dtype, shape)) = input(0) else {
        return Ok(false);
    };
    let product = |extents: &[SizeExpr]| {
        let mut extents = extents.iter();
        extents.try_fold(SizeExpr::from(1), |product, extent| product.times(extent))
    };
    let elements = product(&shape)?;
    let axis = match node.attributes.value("axis") {
        Some(Attribute::Int(axis)) => {
            let axis = if *axis < 0 {
                axis + shape.len() as i64
            } else {
                *axis
            };
            usize::try_from(axis)
                .ok()
                .filter(|&axis| axis < shape.len())
        }
        _ => None,
    };
    let whole = axis.map_or(&elements, |axis| &shape[axis]).clone();
    let limit = match node.op.name {
        // Each box for each class.
        "NonMaxSuppression" => match input(1) {
            Some((_, scores)) => product(&scores)?,
            None => return Ok(false),
        },
        "NonZero" => elements,
        _ => whole.clone(),
    };
    let max = graph.symbols.range(&limit).max.unwrap_or(i128::MAX);
    let max = u64::try_from(max.max(0)).unwrap_or(u64::MAX);
    let symbol = new_symbol(graph, "count", max, Examples::Counts)?;
    let count = SizeExpr::from(symbol);
    let along = |count: SizeExpr| match axis {
        Some(axis) => {
            let mut shape = shape.clone();
            shape[axis] = count;
            shape
        }
        None => vec![count],
    };
    let list = |extent: &SizeExpr| (DataType::I64, vec![extent.clone()]);
    let (outputs, counted) = match node.op.name {
        "NonZero" => {
            let rank = SizeExpr::from(shape.len().max(1) as i64);
            (vec![(DataType::I64, vec![rank, count])], 1)
        }
        "NonMaxSuppression" => (vec![(DataType::I64, vec![count, 3.into()])], 0),
        "Compress" => (vec![(dtype, along(count))], axis.unwrap_or(0)),
        _ => (
            vec![
                (dtype, along(count.clone())),
                list(&count),
                list(&whole),
                list(&count),
            ],
            axis.unwrap_or(0),
        ),
    };
    let mut source = None;
    for (index, (id, (dtype, extents))) in node.outputs.iter().zip(outputs).enumerate() {
        let Some(id) = *id else { continue };
        let axis = if index == 0 { counted } else { 0 };
        // The inverse indices of Unique have the extent of the input.
        if source.is_none() && index != 2 {
            source = Some((id, DataSizeSource::Extent(axis)));
        }
        let example = extents
            .iter()
            .map(|extent| extent.evaluate(&graph.example_sizes));
        let example = example
            .map(|size| size.map(|size| usize::try_from(size).unwrap_or(0)))
            .collect::<Result<Vec<usize>>>()?;
        let value = graph.value_mut(id);
        value.ty = Some(TensorType::new(dtype, example)?);
        value.extents = Some(extents);
    }
    if let Some((value, source)) = source {
        graph.data_sizes.push(DataSize {
            symbol,
            value,
            source,
        });
    }
    Ok(true)
}

/// The extents of a value whose type is known.
pub(crate) fn extents(value: &Value) -> Option<Vec<SizeExpr>> {
    if let Some(extents) = &value.extents {
        return Some(extents.clone());
    }
    let constant = value.constant.as_ref().map(Tensor::ty);
    let shape = value.ty.as_ref().or(constant)?.shape().iter();
    Some(shape.map(|&extent| SizeExpr::from(extent as i64)).collect())
}

/// Replaces unknown operands that decide the output's shape by sizes: each element that is not known is a symbol.
/// Operands of other types, or with many elements, are kept. `inner` are the nodes before it in bodies.
pub(crate) fn read_operands(
    graph: &mut Graph,
    node: &mut Node,
    inner: &[Node],
    reference: &dyn Backend,
) -> Result<()> {
    for index in 0..node.inputs.len() {
        let Some(id) = undecided(graph, node, index) else {
            continue;
        };
        let ty = small_integers(graph.value(id)).cloned();
        let Some(ty) = ty.filter(|ty| ty.elements() <= MAX_ELEMENTS) else {
            continue;
        };
        let sources = ElementSources::new(graph, inner, reference).of(id);
        let examples = match node.op.name {
            "Resize" => Examples::Images,
            _ => Examples::Elements,
        };
        node.inputs[index] = Some(sizes_of(graph, id, ty, sources, examples)?);
    }
    Ok(())
}

/// A value of sizes: the elements of `id`, which have these sources; those that depend on data get one of `examples`.
fn sizes_of(
    graph: &mut Graph,
    id: ValueId,
    ty: TensorType,
    sources: Vec<ElementSource>,
    examples: Examples,
) -> Result<ValueId> {
    let sources = sources.into_iter().map(|source| match source {
        ElementSource::Known(size) => Ok(size),
        ElementSource::Element(value, at) => {
            symbol_of(graph, value, DataSizeSource::Element(at), examples)
        }
    });
    let elements = sources.collect::<Result<Vec<SizeExpr>>>()?;
    let example = size_tensor(&ty, &elements, &graph.example_sizes)?;
    // A repeated inference of a Loop's body gives symbols other examples.
    let is_known = |value: &Value| {
        let sizes = value.sizes.as_ref();
        sizes.is_some_and(|sizes| {
            let same = sizes.example.ty() == &ty && sizes.example.bytes() == example.bytes();
            same && sizes.elements == elements
        })
    };
    if let Some(known) = graph.values.iter().position(is_known) {
        return Ok(ValueId(known as u32));
    }
    let name = UniqueNames::of(graph).value(&format!("{}.sizes", graph.value(id).name));
    let sizes = graph.add_value(name, Some(ty.clone()));
    let value = graph.value_mut(sizes);
    let shape = ty.shape().iter();
    value.extents = Some(shape.map(|&extent| SizeExpr::from(extent as i64)).collect());
    value.sizes = Some(SizeElements { elements, example });
    Ok(sizes)
}

/// A size that is read from a value.
pub(crate) struct Definition {
    pub value: ValueId,
    pub source: DataSizeSource,
    /// Its example, if it is not chosen.
    pub example: Option<i64>,
}

/// A new symbol with this definition.
pub(crate) fn define(graph: &mut Graph, definition: Definition) -> Result<SizeExpr> {
    let Definition {
        value,
        source,
        example,
    } = definition;
    let examples = example.map_or(Examples::Counts, Examples::Fixed);
    let symbol = new_symbol(graph, "count", u64::MAX, examples)?;
    graph.data_sizes.push(DataSize {
        symbol,
        value,
        source,
    });
    Ok(symbol.into())
}

/// The symbol of an element of a value; the same one each time.
fn symbol_of(
    graph: &mut Graph,
    value: ValueId,
    source: DataSizeSource,
    examples: Examples,
) -> Result<SizeExpr> {
    let known = graph.data_sizes.iter();
    let mut known = known.filter(|size| size.value == value && size.source == source);
    if let Some(known) = known.next() {
        return Ok(known.symbol.into());
    }
    let max = *Symbols::any_size().end();
    let symbol = new_symbol(graph, "size", max, examples)?;
    graph.data_sizes.push(DataSize {
        symbol,
        value,
        source,
    });
    Ok(symbol.into())
}

/// A new symbol from 0 to `max`.
fn new_symbol(graph: &mut Graph, stem: &str, max: u64, examples: Examples) -> Result<SymbolId> {
    let max = max.min(*Symbols::any_size().end());
    let name = (0..)
        .map(|number| format!("{stem}{number}"))
        .find(|name| graph.symbols.find(name).is_none())
        .unwrap_or_default();
    let symbol = graph.symbols.add(&name, 0..=max)?;
    // Two symbols of one size could be taken for each other.
    let greatest = i64::try_from(max).unwrap_or(i64::MAX);
    let mut unused = examples.up_to(greatest);
    let example = unused.find(|example| !graph.example_sizes.contains(example));
    let fallback = match examples {
        Examples::Fixed(size) => size.min(greatest),
        _ => greatest,
    };
    graph.example_sizes.push(example.unwrap_or(fallback));
    Ok(symbol)
}
