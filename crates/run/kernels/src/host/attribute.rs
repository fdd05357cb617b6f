//! Elements of tensors in a program's attributes.

use super::HostElement;
use std::sync::Arc;
use tenon_bef::{Attribute, AttributeCode, DType};
use tenon_executor::FromAttribute;

/// A single element from an attribute: a scalar, or a list of real and imaginary part.
#[derive(Debug, Clone, Copy)]
pub struct Element<T>(pub T);

/// The elements of a list; complex ones as alternating real and imaginary parts.
#[derive(Debug, Clone)]
pub struct Elements<T>(pub Arc<[T]>);

impl<T: HostElement> FromAttribute for Element<T> {
    const TYPE: &'static str = "an element of the tensor";
    const CODE: Option<AttributeCode> = Some(match part(T::DTYPE) {
        same if same as u8 == T::DTYPE as u8 => AttributeCode::number(same),
        part => AttributeCode::number(part).list(),
    });

    fn from_attribute(attribute: &Attribute) -> Option<Self> {
        let scalars = match attribute {
            Attribute::Array(scalars) => scalars,
            scalar => std::slice::from_ref(scalar),
        };
        match elements(scalars)?.as_slice() {
            [element] => Some(Self(*element)),
            _ => None,
        }
    }
}

impl<T: HostElement> FromAttribute for Elements<T> {
    const TYPE: &'static str = "a list of elements of the tensor";
    const CODE: Option<AttributeCode> = Some(AttributeCode::number(part(T::DTYPE)).list());

    fn from_attribute(attribute: &Attribute) -> Option<Self> {
        match attribute {
            Attribute::Array(scalars) => Some(Self(elements(scalars)?.into())),
            _ => None,
        }
    }
}

/// The type of the scalars of an element: a complex element has two.
const fn part(element: DType) -> DType {
    match element {
        DType::Complex64 => DType::F32,
        DType::Complex128 => DType::F64,
        other => other,
    }
}

fn elements<T: HostElement>(scalars: &[Attribute]) -> Option<Vec<T>> {
    let part = part(T::DTYPE);
    let mut bytes = Vec::new();
    for number in scalars {
        push(number, part, &mut bytes)?;
    }
    let elements = bytes.chunks_exact(T::DTYPE.size()?);
    let whole = elements.remainder().is_empty();
    whole.then(|| elements.map(T::read).collect())
}

/// Appends the bytes of a scalar of type `dtype`. BEF does not distinguish signed from unsigned, so
/// either is accepted.
fn push(number: &Attribute, dtype: DType, to: &mut Vec<u8>) -> Option<()> {
    use {Attribute as A, DType as D};
    match (number, dtype) {
        (A::I1(x), D::I1) => to.push(u8::from(*x)),
        (A::I8(x), D::I8 | D::UI8) => to.extend(x.to_le_bytes()),
        (A::UI8(x), D::I8 | D::UI8) => to.extend(x.to_le_bytes()),
        (A::I32(x), D::I32 | D::UI32) => to.extend(x.to_le_bytes()),
        (A::UI32(x), D::I32 | D::UI32) => to.extend(x.to_le_bytes()),
        (A::I64(x), D::I64 | D::UI64) => to.extend(x.to_le_bytes()),
        (A::UI64(x), D::I64 | D::UI64) => to.extend(x.to_le_bytes()),
        (A::F32(x), D::F32) => to.extend(x.to_le_bytes()),
        (A::F64(x), D::F64) => to.extend(x.to_le_bytes()),
        (A::F16(x), D::F16) => to.extend(x.to_le_bytes()),
        (A::BF16(x), D::BF16) => to.extend(x.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_executor::Complex64;

    fn one<T: HostElement>(attribute: impl Into<Attribute>) -> Option<T> {
        Element::from_attribute(&attribute.into()).map(|element| element.0)
    }

    fn all<T: HostElement>(attribute: impl Into<Attribute>) -> Option<Vec<T>> {
        Elements::from_attribute(&attribute.into()).map(|elements| elements.0.to_vec())
    }

    #[test]
    fn scalars_become_elements() {
        assert_eq!(one(7i32), Some(7i32));
        assert_eq!(one(-1i8), Some(255u8));
        assert_eq!(one(true), Some(true));
        assert_eq!(all(vec![1.0f32, 2.0]), Some(vec![1.0f32, 2.0]));
        let complex = Complex64 {
            real: 3.0,
            imaginary: 4.0,
        };
        assert_eq!(all(vec![3.0f32, 4.0]), Some(vec![complex]));
        assert_eq!(one(vec![3.0f32, 4.0]), Some(complex));
        assert_eq!(all(Attribute::Array(vec![])), Some(Vec::<i64>::new()));
    }

    #[test]
    fn other_types_are_rejected() {
        assert_eq!(one::<i32>(7i64), None);
        assert_eq!(one::<i32>(vec![1i32, 2]), None);
        assert_eq!(one::<Complex64>(1.0f32), None);
        assert_eq!(all::<Complex64>(vec![1.0f32, 2.0, 3.0]), None);
        assert_eq!(all::<f32>("text"), None);
    }
}
