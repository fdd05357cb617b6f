//! Values of initialisers and inputs from files of weights.

use crate::Signature;
use crate::dimension::place;
use crate::dtype::number;
use crate::proto::{GraphProto, TensorProto};
use crate::signature::{Dimension, ValueSignature, initialiser};
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{ALIGNMENT, BufferMut, DataType, Tensor, convert};

/// The weights of which the model has the name, in its types; the others are left out.
///
/// # Errors
/// All weights that do not fit.
pub(crate) fn fitted(
    signature: &Signature,
    weights: &BTreeMap<String, Tensor>,
) -> Result<BTreeMap<String, Tensor>> {
    let mut fitted = BTreeMap::new();
    let mut errors = Vec::new();
    let mut add = |name: &str, place: String, value: Result<Tensor>| match value {
        Ok(value) => {
            fitted.insert(name.to_owned(), value);
        }
        Err(error) => errors.push(error.at(Location::field(place))),
    };
    for (name, ty) in &signature.initialisers {
        if let Some(weight) = weights.get(name) {
            let value = match weight.shape() == ty.shape() {
                true => widened(weight, ty.dtype()),
                false => Err(misfit(ty, weight)),
            };
            add(name, initialiser(name), value);
        }
    }
    for input in &signature.inputs {
        if let Some(weight) = weights.get(&input.name) {
            add(&input.name, place(&input.name), of_input(input, weight));
        }
    }
    match Error::from_all(errors) {
        Some(error) => Err(error),
        None => Ok(fitted),
    }
}

fn of_input(input: &ValueSignature, weight: &Tensor) -> Result<Tensor> {
    let fits = |shape: &Vec<Dimension>| {
        let extents = weight.shape().iter();
        let fits = |(dimension, extent): (&Dimension, &usize)| match dimension {
            Dimension::Fixed(fixed) => fixed == extent,
            Dimension::Named(_) | Dimension::Unnamed => true,
        };
        shape.len() == weight.shape().len() && shape.iter().zip(extents).all(fits)
    };
    if !input.kind.is_tensor() || !input.shape.as_ref().is_none_or(fits) {
        return Err(misfit(input, weight));
    }
    widened(weight, input.dtype.unwrap_or(weight.dtype()))
}

fn misfit(expected: impl std::fmt::Display, weight: &Tensor) -> Error {
    let text = "a tensor of the weights does not fit the model";
    let error = Error::new(ErrorKind::InvalidArgument, text);
    error.expected(expected).found(weight.ty())
}

/// The elements in aligned memory, in a type that holds all values of theirs.
fn widened(weight: &Tensor, dtype: DataType) -> Result<Tensor> {
    use DataType::{BF16, F16, F32, F64};
    let from = weight.dtype();
    let is_exact = match (from, dtype) {
        (BF16 | F16, F32 | F64) | (F32, F64) => true,
        _ => from == dtype,
    };
    if !is_exact {
        let text = "a tensor of the weights has elements that the type of the model does not hold";
        let error = Error::new(ErrorKind::InvalidArgument, text);
        let error = error.expected(dtype).found(from);
        return Err(error.help("convert the file of weights, or export the model with this type"));
    }
    let buffer = weight.buffer();
    if from != dtype {
        let wide = convert(weight, dtype);
        buffer.release_pages();
        return wide;
    }
    if buffer.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        return Ok(weight.clone());
    }
    let copy = BufferMut::copy_of(buffer)?.freeze();
    buffer.release_pages();
    Tensor::new(weight.ty().clone(), copy)
}

/// Adds initialisers for those weights that have none, without their elements.
pub(crate) fn declare(graph: &mut GraphProto, weights: &BTreeMap<String, Tensor>) -> Result<()> {
    let known = graph.initializer.iter().map(|tensor| tensor.name.clone());
    let known: HashSet<String> = known.collect();
    for (name, weight) in weights {
        if !known.contains(name) {
            graph.initializer.push(declaration(name, weight)?);
        }
    }
    Ok(())
}

/// Puts the weights into the initialisers of these names.
pub(crate) fn embed(graph: &mut GraphProto, weights: &BTreeMap<String, Tensor>) -> Result<()> {
    for tensor in &mut graph.initializer {
        if let Some(weight) = weights.get(&tensor.name) {
            *tensor = TensorProto {
                raw_data: Some(Bytes::from_owner(weight.buffer().clone())),
                ..declaration(&tensor.name, weight)?
            };
        }
    }
    Ok(())
}

fn declaration(name: &str, weight: &Tensor) -> Result<TensorProto> {
    let extents = weight.shape().iter();
    Ok(TensorProto {
        name: name.to_owned(),
        data_type: number(weight.dtype())?,
        dims: extents.map(|&extent| extent as i64).collect(),
        ..TensorProto::default()
    })
}
