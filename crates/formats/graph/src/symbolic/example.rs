//! Expressions of extents that are given for the example sizes, and types for other sizes.

use crate::{Graph, Node, Value, ValueId, infer};
use std::collections::{BTreeMap, BTreeSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::size::{SizeExpr, SymbolId};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The expression of each extent of `shape`, a shape for the example sizes that is derived from the extents of
/// `values`: an extent is one of theirs, a product of such and a constant, or a constant. A fixed extent of theirs is
/// not taken for a multiple of a small example size.
///
/// Example sizes are chosen such that other extents of a model are hardly ever multiples of them; a wrong
/// expression is found by [`check_sizes`].
///
/// # Errors
/// Products that overflow.
pub fn extents_of_example(
    graph: &Graph,
    values: &[ValueId],
    shape: &[usize],
) -> Result<Vec<SizeExpr>> {
    let mut known: BTreeMap<i64, SizeExpr> = BTreeMap::new();
    let mut fixed = BTreeSet::new();
    let extents = values
        .iter()
        .filter_map(|&id| graph.value(id).extents.as_ref());
    let symbols = (0..graph.symbols.len() as u32).map(|id| SizeExpr::from(SymbolId(id)));
    for extent in extents.flatten().cloned().chain(symbols) {
        match extent.constant() {
            Some(size) => drop(fixed.insert(size)),
            None => {
                let size = extent.evaluate(&graph.example_sizes)?;
                known.entry(size).or_insert(extent);
            }
        }
    }
    shape
        .iter()
        .map(|&extent| product(extent as i64, &known, &fixed))
        .collect()
}

/// An extent as a product of known ones and a constant.
fn product(
    extent: i64,
    known: &BTreeMap<i64, SizeExpr>,
    fixed: &BTreeSet<i64>,
) -> Result<SizeExpr> {
    if extent < 2 || fixed.contains(&extent) && !known.contains_key(&extent) {
        return Ok(extent.into());
    }
    let factor = known
        .iter()
        .rev()
        .find(|&(&size, _)| size > 1 && extent % size == 0);
    match factor {
        Some((size, expr)) => expr.times(&product(extent / size, known, fixed)?),
        None => Ok(extent.into()),
    }
}

/// Compares the expressions of all extents with the shape functions of the operators, for other sizes.
///
/// # Errors
/// The first node whose output has another shape than its expressions say, or sizes that a shape function refuses.
pub fn check_sizes(graph: &Graph, sizes: &[i64]) -> Result<()> {
    let mut types = Vec::with_capacity(graph.values.len());
    let mut constants = Vec::with_capacity(graph.values.len());
    for value in &graph.values {
        types.push(type_for(value, sizes)?);
        constants.push(elements_for(value, sizes)?);
    }
    for node in &graph.nodes {
        check_node(node, &types, &constants).map_err(|error| {
            let place = Location::node(node.name.as_str());
            error.at(place)
        })?;
    }
    Ok(())
}

/// The type of a value for these sizes.
fn type_for(value: &Value, sizes: &[i64]) -> Result<Option<TensorType>> {
    let (Some(ty), Some(extents)) = (&value.ty, &value.extents) else {
        return Ok(value.ty.clone());
    };
    shape_for(extents, sizes)
        .and_then(|shape| TensorType::new(ty.dtype(), shape))
        .map(Some)
        .map_err(|error| error.at(Location::field(format!("value '{}'", value.name))))
}

/// The values of extents for these sizes.
///
/// # Errors
/// Values that are negative or overflow.
pub fn shape_for(extents: &[SizeExpr], sizes: &[i64]) -> Result<Vec<usize>> {
    let extent = |extent: &SizeExpr| {
        let size = extent.evaluate(sizes)?;
        usize::try_from(size).map_err(|_| {
            let error = Error::new(ErrorKind::InvalidArgument, "an extent is negative");
            error.found(size)
        })
    };
    extents.iter().map(extent).collect()
}

fn elements_for(value: &Value, sizes: &[i64]) -> Result<Option<Tensor>> {
    match &value.sizes {
        None => Ok(value.constant.clone()),
        Some(elements) => {
            let ty = elements.example.ty();
            size_tensor(ty, &elements.elements, sizes).map(Some)
        }
    }
}

/// A tensor whose elements are expressions, for these sizes.
///
/// # Errors
/// Elements that overflow their type.
pub fn size_tensor(ty: &TensorType, elements: &[SizeExpr], sizes: &[i64]) -> Result<Tensor> {
    let values = elements.iter().map(|element| element.evaluate(sizes));
    let values = values.collect::<Result<Vec<i64>>>()?;
    let shape = ty.shape().clone();
    match ty.dtype() {
        DataType::I64 => Tensor::from_slice(shape, &values),
        DataType::F32 => {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(shape, &values)
        }
        DataType::F64 => {
            let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
            Tensor::from_slice(shape, &values)
        }
        DataType::Bool => {
            let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value != 0)).collect();
            Tensor::new(ty.clone(), BufferMut::copy_of(&bytes)?.freeze())
        }
        DataType::I32 => {
            let values = values
                .iter()
                .map(|&value| i32::try_from(value))
                .collect::<Result<Vec<i32>, _>>()
                .map_err(|_| Error::new(ErrorKind::InvalidModel, "a size overflows i32"))?;
            Tensor::from_slice(shape, &values)
        }
        other => {
            let text = format!("sizes of type {other}");
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}

fn check_node(
    node: &Node,
    types: &[Option<TensorType>],
    constants: &[Option<Tensor>],
) -> Result<()> {
    let ids = || node.inputs.iter().copied();
    let inputs: Vec<_> = ids()
        .map(|id| id.and_then(|id| types[id.index()].as_ref()))
        .collect();
    let known: Vec<_> = ids()
        .map(|id| id.and_then(|id| constants[id.index()].as_ref()))
        .collect();
    let inferred = infer(
        node.op,
        &node.attributes,
        &inputs,
        &known,
        node.outputs.len(),
    )?;
    for (id, inferred) in node.outputs.iter().zip(inferred) {
        let Some(declared) = id.and_then(|id| types[id.index()].as_ref()) else {
            continue;
        };
        if *declared != inferred {
            let text = "the expressions of an output's extents differ from its shape";
            return Err(Error::new(ErrorKind::Internal, text)
                .expected(inferred)
                .found(declared));
        }
    }
    Ok(())
}
