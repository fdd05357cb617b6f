//! Expressions of extents that are given for the example sizes, and types for other sizes.

use crate::{Graph, Node, Value, ValueId, infer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::size::{SizeExpr, SymbolId};
use tenon_tensor::{BufferMut, DataType, Shape, Tensor, TensorType};

/// The expression of each extent of `shape`, a shape for the example sizes that holds the elements of the first of
/// `values`. If one of them has this shape, the extents are its extents. Else runs of extents of the first value and of
/// `shape` with equal products are compared: a run of one extent is the product of the other run. What is left is a
/// product of extents of `values`, of symbols in them, and of a constant; a fixed extent of theirs is not taken for a
/// multiple of a small example size.
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
    let example: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let mut lists = Vec::with_capacity(values.len());
    for &id in values {
        let extents = extents_of(graph.value(id));
        let sizes = extents.iter().map(|it| it.evaluate(&graph.example_sizes));
        let sizes = sizes.collect::<Result<Vec<i64>>>()?;
        if sizes == example {
            return Ok(extents);
        }
        lists.push((extents, sizes));
    }
    let guess = ProductGuess::of(&lists, graph)?;
    let Some((extents, sizes)) = lists.first() else {
        return example.iter().map(|&it| guess.product(it)).collect();
    };
    let mut found = Vec::with_capacity(shape.len());
    for (from, to) in equal_runs(sizes, &example) {
        let (from, to) = (&extents[from], &example[to]);
        let mut others = to.iter().filter(|&&extent| extent != 1);
        let is_fixed = from.iter().all(|extent| extent.constant().is_some());
        let is_single = others.next().is_some() && others.next().is_none();
        let whole = || {
            let mut factors = from.iter();
            factors.try_fold(SizeExpr::from(1), |product, it| product.times(it))
        };
        for &extent in to {
            found.push(match extent {
                1 if is_single => extent.into(),
                _ if is_single => whole()?,
                _ if is_fixed => extent.into(),
                _ => guess.product(extent)?,
            });
        }
    }
    Ok(found)
}

fn extents_of(value: &Value) -> Vec<SizeExpr> {
    let fixed = || {
        let shape = value.ty.iter().flat_map(|ty| ty.shape().iter());
        shape.map(|&extent| (extent as i64).into()).collect()
    };
    value.extents.clone().unwrap_or_else(fixed)
}

/// The shortest runs of two lists of extents that have equal products, in order; all extents are in a run.
fn equal_runs(from: &[i64], to: &[i64]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut runs = Vec::new();
    let (mut left, mut right) = (0..0, 0..0);
    let (mut left_product, mut right_product) = (1i64, 1i64);
    loop {
        let is_equal = left_product == right_product && left_product > 0;
        if is_equal && !(left.is_empty() && right.is_empty()) {
            runs.push((left.clone(), right.clone()));
            (left, right) = (left.end..left.end, right.end..right.end);
            (left_product, right_product) = (1, 1);
        }
        // A run begins with an extent of the left list, unless only the right one is left.
        let next_left = left_product <= right_product && right_product > 0;
        if (next_left || right.end == to.len()) && left.end < from.len() {
            left_product = left_product.saturating_mul(from[left.end]);
            left.end += 1;
        } else if right.end < to.len() {
            right_product = right_product.saturating_mul(to[right.end]);
            right.end += 1;
        } else {
            if !(left.is_empty() && right.is_empty()) {
                runs.push((left, right));
            }
            return runs;
        }
    }
}

/// Expressions that extents are products of.
struct ProductGuess {
    /// By their value for the example sizes.
    known: BTreeMap<i64, SizeExpr>,
    fixed: BTreeSet<i64>,
}

impl ProductGuess {
    /// The extents in `lists`, which have these values, and the symbols in them.
    fn of(lists: &[(Vec<SizeExpr>, Vec<i64>)], graph: &Graph) -> Result<Self> {
        let mut guess = Self {
            known: BTreeMap::new(),
            fixed: BTreeSet::new(),
        };
        let extents = || lists.iter().flat_map(|(extents, _)| extents);
        let symbols: BTreeSet<SymbolId> = extents().flat_map(SizeExpr::symbols).collect();
        let symbols = symbols.into_iter().map(SizeExpr::from);
        for extent in extents().cloned().chain(symbols) {
            match extent.constant() {
                Some(size) => drop(guess.fixed.insert(size)),
                None => {
                    let size = extent.evaluate(&graph.example_sizes)?;
                    guess.known.entry(size).or_insert(extent);
                }
            }
        }
        Ok(guess)
    }

    /// An extent as a product of known ones and a constant.
    fn product(&self, extent: i64) -> Result<SizeExpr> {
        if extent < 2 || self.fixed.contains(&extent) && !self.known.contains_key(&extent) {
            return Ok(extent.into());
        }
        let mut factors = self.known.iter().rev();
        match factors.find(|&(&size, _)| size > 1 && extent % size == 0) {
            Some((size, expr)) => expr.times(&self.product(extent / size)?),
            None => Ok(extent.into()),
        }
    }
}

/// Compares the expressions of all extents with the shape functions of the operators, for other sizes.
///
/// # Errors
/// The first node whose output has another shape than its expressions say, or sizes that a shape function refuses.
pub fn check_sizes(graph: &Graph, sizes: &[i64]) -> Result<()> {
    let mut nodes = graph.nodes.iter();
    nodes.try_for_each(|node| check_node_sizes(graph, node, sizes))
}

/// The same for one node, which need not be in the graph.
///
/// # Errors
/// As [`check_sizes`].
pub fn check_node_sizes(graph: &Graph, node: &Node, sizes: &[i64]) -> Result<()> {
    check_node(graph, node, sizes).map_err(|error| error.at(Location::node(node.name.as_str())))
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
pub fn shape_for(extents: &[SizeExpr], sizes: &[i64]) -> Result<Shape> {
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

fn check_node(graph: &Graph, node: &Node, sizes: &[i64]) -> Result<()> {
    let inputs = || node.inputs.iter().map(|id| id.map(|id| graph.value(id)));
    let types = inputs().map(|value| value.map_or(Ok(None), |value| type_for(value, sizes)));
    let types = types.collect::<Result<Vec<_>>>()?;
    let known = inputs().map(|value| value.map_or(Ok(None), |value| elements_for(value, sizes)));
    let known = known.collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = types.iter().map(Option::as_ref).collect();
    let known: Vec<_> = known.iter().map(Option::as_ref).collect();
    let inferred = infer(
        node.op,
        &node.attributes,
        &types,
        &known,
        node.outputs.len(),
    )?;
    for (id, inferred) in node.outputs.iter().zip(inferred) {
        let Some(id) = *id else { continue };
        match type_for(graph.value(id), sizes)? {
            Some(declared) if declared != inferred => {
                let text = "the expressions of an output's extents differ from its shape";
                return Err(Error::new(ErrorKind::Internal, text)
                    .expected(inferred)
                    .found(declared));
            }
            _ => {}
        }
    }
    Ok(())
}
