//! Inference with sizes that are known only when the model runs: extents and elements as expressions of the
//! graph's symbols.
//!
//! Operators whose extents or elements are computed (windows, concatenation, reshapes, arithmetic on sizes) have
//! a rule here. For every other operator an output extent is a constant or an extent of an input: the
//! operator's shape function runs for two sets of sizes, different primes for different extents, and each output
//! extent is the one that has its value in both ([`matching`]).
//!
//! Types for the sizes of an execution come from the operator's shape function: a wrong expression is an error
//! when it runs, never a wrong memory access.

mod arithmetic;
mod example;
mod extents;
mod matching;

pub use example::{check_node_sizes, check_sizes, extents_of_example, shape_for, size_tensor};

use crate::{Attributes, Graph, Node, OperatorDef, Value, ValueId};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::size::{SizeExpr, Symbols};
use tenon_tensor::{DataType, Tensor, TensorType};

/// More elements are not followed as sizes: those of shapes are few.
const MAX_ELEMENTS: usize = 256;

/// What is known of an output before the model runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolicOutput {
    /// The extents.
    pub extents: Vec<SizeExpr>,
    /// The elements in row-major order, if they depend on sizes alone.
    pub elements: Option<Vec<SizeExpr>>,
}

/// A node whose outputs are inferred.
struct SymbolicNode<'a> {
    op: &'static OperatorDef,
    attributes: &'a Attributes,
    symbols: &'a Symbols,
    inputs: Vec<Option<SymbolicInput<'a>>>,
    /// The types of the outputs for the example sizes.
    outputs: &'a [TensorType],
    example_sizes: &'a [i64],
}

struct SymbolicInput<'a> {
    ty: &'a TensorType,
    constant: Option<&'a Tensor>,
    extents: Vec<SizeExpr>,
    elements: Option<Vec<SizeExpr>>,
}

/// The outputs of `node`, whose types for the example sizes are `types`.
///
/// # Errors
/// Extents that have no expression, with the node's name.
pub fn infer_symbolic(
    graph: &Graph,
    node: &Node,
    types: &[TensorType],
) -> Result<Vec<SymbolicOutput>> {
    let inputs = node
        .inputs
        .iter()
        .map(|id| id.map(|id| input(graph, id)).transpose());
    let symbolic = SymbolicNode {
        op: node.op,
        attributes: &node.attributes,
        symbols: &graph.symbols,
        inputs: inputs.collect::<Result<_>>()?,
        outputs: types,
        example_sizes: &graph.example_sizes,
    };
    symbolic
        .infer()
        .map_err(|error| error.at(Location::node(node.name.as_str())))
}

fn input(graph: &Graph, id: ValueId) -> Result<SymbolicInput<'_>> {
    let value = graph.value(id);
    let ty = value
        .ty
        .as_ref()
        .ok_or_else(|| internal(format!("the type of input '{}' is not known", value.name)))?;
    let fixed = || {
        ty.shape()
            .iter()
            .map(|&extent| (extent as i64).into())
            .collect()
    };
    Ok(SymbolicInput {
        ty,
        constant: value.constant.as_ref(),
        extents: value.extents.clone().unwrap_or_else(fixed),
        elements: elements(value),
    })
}

/// The elements of sizes and of small integer constants.
fn elements(value: &Value) -> Option<Vec<SizeExpr>> {
    if let Some(sizes) = &value.sizes {
        return Some(sizes.elements.clone());
    }
    let constant = value.constant.as_ref()?;
    if constant.ty().elements() > MAX_ELEMENTS {
        return None;
    }
    let integers = match constant.dtype() {
        DataType::Bool => constant
            .bytes()
            .iter()
            .map(|&byte| i64::from(byte))
            .collect(),
        DataType::F32 => whole(constant.as_slice::<f32>()?.iter().map(|&x| f64::from(x)))?,
        DataType::F64 => whole(constant.as_slice::<f64>()?.iter().copied())?,
        _ => constant.to_i64s()?,
    };
    Some(integers.into_iter().map(SizeExpr::from).collect())
}

/// Floating-point values as integers, if all of them are.
fn whole(values: impl Iterator<Item = f64>) -> Option<Vec<i64>> {
    let number = |number: f64| {
        let exact = number.fract() == 0.0 && number.abs() < (1i64 << 53) as f64;
        exact.then_some(number as i64)
    };
    values.map(number).collect()
}

impl<'a> SymbolicNode<'a> {
    fn infer(&self) -> Result<Vec<SymbolicOutput>> {
        let extents = self.extents()?;
        let elements = self.elements()?;
        for (extents, ty) in extents.iter().zip(self.outputs) {
            self.check(extents, ty)?;
        }
        let outputs = extents
            .into_iter()
            .zip(elements.into_iter().chain(std::iter::repeat(None)));
        Ok(outputs
            .map(|(extents, elements)| SymbolicOutput { extents, elements })
            .collect())
    }

    /// The extents of all outputs.
    fn extents(&self) -> Result<Vec<Vec<SizeExpr>>> {
        let known = |input: &SymbolicInput<'_>| {
            let fixed = input
                .extents
                .iter()
                .all(|extent| extent.constant().is_some());
            let elements = input.elements.as_ref();
            fixed && (input.constant.is_some() || elements.is_none())
        };
        if self.inputs.iter().flatten().all(known) {
            return Ok(self.outputs.iter().map(fixed_extents).collect());
        }
        match self.computed_extents()? {
            Some(extents) => Ok(extents),
            None => self.matched_extents(),
        }
    }

    /// The expressions must have the example's values.
    fn check(&self, extents: &[SizeExpr], ty: &TensorType) -> Result<()> {
        let values = extents
            .iter()
            .map(|extent| extent.evaluate(self.example_sizes))
            .collect::<Result<Vec<_>>>()?;
        let same = values.len() == ty.shape().len()
            && values
                .iter()
                .zip(ty.shape().iter())
                .all(|(&value, &extent)| usize::try_from(value) == Ok(extent));
        if same {
            return Ok(());
        }
        let text: Vec<String> = extents
            .iter()
            .map(|extent| self.symbols.text(extent))
            .collect();
        Err(internal(format!(
            "the extents [{}] of {} do not have the values of its shape function",
            text.join(", "),
            self.op.name
        ))
        .expected(ty.shape())
        .found(format_args!("{values:?}")))
    }

    fn input(&self, index: usize) -> Result<&SymbolicInput<'a>> {
        self.optional(index)
            .ok_or_else(|| internal(format!("input {index} of {} is missing", self.op.name)))
    }

    fn optional(&self, index: usize) -> Option<&SymbolicInput<'a>> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    /// The elements of an input that decides extents.
    fn sizes(&self, index: usize) -> Result<&[SizeExpr]> {
        let elements = self.input(index)?.elements.as_deref();
        elements.ok_or_else(|| self.no_rule())
    }

    /// The elements of an input that must be constants, such as axes; `None` if it is omitted.
    fn integers(&self, index: usize) -> Result<Option<Vec<i64>>> {
        let Some(input) = self.optional(index) else {
            return Ok(None);
        };
        let integers = input.constant.and_then(Tensor::to_i64s);
        integers.map(Some).ok_or_else(|| self.no_rule())
    }

    fn no_rule(&self) -> Error {
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "the output of {} has a size that is no expression of the model's dimensions",
                self.op.name
            ),
        )
        .help("fix the dimensions that it depends on with --dim")
    }
}

fn fixed_extents(ty: &TensorType) -> Vec<SizeExpr> {
    ty.shape()
        .iter()
        .map(|&extent| (extent as i64).into())
        .collect()
}

/// A dimension, possibly counted from the end. The shape function has checked it.
fn position(axis: i64, rank: usize) -> usize {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis)
        .unwrap_or(0)
        .min(rank.saturating_sub(1))
}

fn internal(text: String) -> Error {
    Error::new(ErrorKind::Internal, text)
}

#[cfg(test)]
mod tests;
