//! Matching of named tensors to a model's inputs; all problems together.

use crate::{Dimension, Signature};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{ModelValue, Tensor, TensorType};

/// A value that may be given for an input.
pub(crate) trait InputValue {
    /// Checks its type.
    fn check(&self, signature: &Signature) -> Result<()>;
}

impl InputValue for Tensor {
    fn check(&self, signature: &Signature) -> Result<()> {
        check(signature, self)
    }
}

impl InputValue for ModelValue {
    fn check(&self, signature: &Signature) -> Result<()> {
        let kind = signature.kind;
        match self {
            Self::Tensor(tensor) if !kind.is_sequence() => check(signature, tensor),
            Self::Sequence(tensors) if kind.is_sequence() => {
                let checked = tensors.iter().enumerate().map(|(index, tensor)| {
                    let place = || Location::field(format!("tensor {index}"));
                    check(signature, tensor).map_err(|error| error.at(place()))
                });
                checked.collect()
            }
            Self::None if kind.is_optional() => Ok(()),
            _ => Err(
                wrong(format!("input '{}' has the wrong type", signature.name))
                    .expected(signature)
                    .found(self.description()),
            ),
        }
    }
}

/// The values in the order of `signatures`; reports all inputs that are missing, unknown,
/// duplicate or of a wrong type.
pub(crate) fn in_order<'a, V: InputValue>(
    signatures: &[Signature],
    given: &[(&str, &'a V)],
) -> Result<Vec<&'a V>> {
    let mut errors = Vec::new();
    let mut ordered = Vec::with_capacity(signatures.len());
    for signature in signatures {
        let mut found = given.iter().filter(|(name, _)| *name == signature.name);
        match (found.next(), found.next()) {
            (None, _) => errors
                .push(wrong(format!("input '{}' is missing", signature.name)).expected(signature)),
            (Some(_), Some(_)) => {
                errors.push(wrong(format!("input '{}' is given twice", signature.name)));
            }
            (Some((_, value)), None) => match value.check(signature) {
                Ok(()) => ordered.push(*value),
                Err(error) => errors.push(error),
            },
        }
    }
    for (name, _) in given {
        if !signatures.iter().any(|signature| signature.name == *name) {
            errors.push(unknown("input", name, signatures));
        }
    }
    Error::from_all(errors).map_or(Ok(ordered), Err)
}

/// Checks the type of a tensor given for `signature`.
pub(crate) fn check(signature: &Signature, tensor: &Tensor) -> Result<()> {
    check_type(signature, tensor.ty())
}

/// The same for its type.
pub(crate) fn check_type(signature: &Signature, ty: &TensorType) -> Result<()> {
    let fits = |(dimension, &extent): (&Dimension, &usize)| match dimension {
        Dimension::Fixed(expected) => *expected == extent,
        // The expressions are compared when the sizes of all inputs are known.
        Dimension::Symbolic { .. } => true,
    };
    let (same, shape) = (ty.dtype() == signature.ty.dtype(), ty.shape());
    // A sequence of tensors that may differ in rank.
    if signature.is_of_any_rank() && same {
        return Ok(());
    }
    if same
        && shape.len() == signature.shape.len()
        && signature.shape.iter().zip(shape.iter()).all(fits)
    {
        return Ok(());
    }
    let what = if same { "shape" } else { "type" };
    Err(
        wrong(format!("input '{}' has the wrong {what}", signature.name))
            .expected(signature)
            .found(ty),
    )
}

/// The error of an unknown input or output.
pub(crate) fn unknown(what: &str, name: &str, signatures: &[Signature]) -> Error {
    let all = signatures
        .iter()
        .map(|signature| format!("'{}'", signature.name));
    let error = wrong(format!("the model has no {what} '{name}'"));
    error.expected(all.collect::<Vec<_>>().join(", "))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::DataType;

    fn signature(name: &str, dtype: DataType, shape: &[usize]) -> Signature {
        Signature::fixed(name.into(), TensorType::new(dtype, shape).unwrap())
    }

    #[test]
    fn all_problems_are_reported_with_the_expected_types() {
        let signatures = [
            signature("image", DataType::F32, &[1, 2]),
            signature("mask", DataType::Bool, &[2]),
            signature("ids", DataType::I64, &[3]),
        ];
        let integers = Tensor::from_slice([1, 2], &[1i64, 2]).unwrap();
        let short = Tensor::from_slice([2], &[1i64, 2]).unwrap();
        let given = [("image", &integers), ("ids", &short), ("mesk", &short)];
        assert_eq!(
            in_order(&signatures, &given).unwrap_err().to_string(),
            "input 'image' has the wrong type: expected f32[1, 2], found i64[1, 2]\n\
             input 'mask' is missing: expected bool[2]\n\
             input 'ids' has the wrong shape: expected i64[3], found i64[2]\n\
             the model has no input 'mesk': expected 'image', 'mask', 'ids'"
        );
        let twice = in_order(&signatures[2..], &[("ids", &short), ("ids", &short)]).unwrap_err();
        assert_eq!(twice.to_string(), "input 'ids' is given twice");
    }

    #[test]
    fn tensors_are_in_the_order_of_the_model() {
        let signatures = [
            signature("a", DataType::I64, &[1]),
            signature("b", DataType::I64, &[1]),
        ];
        let (one, two) = (
            Tensor::from_slice([1], &[1i64]).unwrap(),
            Tensor::from_slice([1], &[2i64]).unwrap(),
        );
        let ordered = in_order(&signatures, &[("b", &two), ("a", &one)]).unwrap();
        assert_eq!(ordered, [&one, &two]);
    }
}
