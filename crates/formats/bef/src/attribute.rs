//! Attributes: type codes of BEF, accessors and validity.

use crate::{Attribute, DType, Dense, Name};

/// Attribute type codes beyond the data types (bef 1.3).
pub(crate) mod code {
    pub(crate) const TYPE: u8 = 25;
    pub(crate) const SHAPE: u8 = 27;
    pub(crate) const DENSE: u8 = 28;
    pub(crate) const SYMBOL: u8 = 29;
    pub(crate) const AGGREGATE: u8 = 30;
    /// Only in Tenon's own section: a name without a value, with no bytes.
    pub(crate) const UNIT: u8 = 62;
    /// Only in Tenon's own section: MLIR text, stored as a string.
    pub(crate) const FOREIGN: u8 = 63;
    /// Flag of an array, whose element type is in the low bits.
    pub(crate) const ARRAY: u8 = 0x80;
    /// An empty array of unknown element type.
    pub(crate) const EMPTY_ARRAY: u8 = 0x88;
}

/// The type code of an attribute in BEF (bef 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeCode(pub(crate) u8);

impl AttributeCode {
    /// A string.
    pub const STRING: Self = Self(DType::String as u8);
    /// An element type.
    pub const TYPE: Self = Self(code::TYPE);
    /// A shape.
    pub const SHAPE: Self = Self(code::SHAPE);
    /// A dense tensor.
    pub const DENSE: Self = Self(code::DENSE);
    /// A list of mixed, nested or string elements.
    pub const AGGREGATE: Self = Self(code::AGGREGATE);

    /// A scalar number.
    pub const fn number(dtype: DType) -> Self {
        Self(dtype as u8)
    }

    /// A list whose elements are all of this type, which is that of a number or
    /// [`TYPE`](Self::TYPE); of any other element type, an aggregate.
    pub const fn list(self) -> Self {
        match self {
            Self::STRING => Self::AGGREGATE,
            Self(code) if code <= code::TYPE => Self(code | code::ARRAY),
            _ => Self::AGGREGATE,
        }
    }
}

/// Maximum nesting of aggregates. Reader, writer and verifier refuse deeper ones, so that no input
/// can overflow the stack.
pub const MAX_NESTING: usize = 64;

impl Attribute {
    /// A list: an array if all elements have the same fixed-size type, else an aggregate.
    pub fn list(elements: Vec<Attribute>) -> Attribute {
        if is_array(&elements) {
            Attribute::Array(elements)
        } else {
            Attribute::Aggregate(elements)
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Attribute::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an integer of any width, if it fits an i64.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match self {
            Attribute::I1(value) => i64::from(*value),
            Attribute::I8(value) => i64::from(*value),
            Attribute::I16(value) => i64::from(*value),
            Attribute::I32(value) => i64::from(*value),
            Attribute::I64(value) => *value,
            Attribute::UI8(value) => i64::from(*value),
            Attribute::UI16(value) => i64::from(*value),
            Attribute::UI32(value) => i64::from(*value),
            Attribute::UI64(value) => i64::try_from(*value).ok()?,
            _ => return None,
        })
    }

    /// The elements of an array or aggregate.
    pub fn as_list(&self) -> Option<&[Attribute]> {
        match self {
            Attribute::Array(elements) | Attribute::Aggregate(elements) => Some(elements),
            _ => None,
        }
    }

    /// The data type of a number; `None` for other attributes.
    pub fn number_type(&self) -> Option<DType> {
        Some(match self {
            Attribute::I1(_) => DType::I1,
            Attribute::I8(_) => DType::I8,
            Attribute::I16(_) => DType::I16,
            Attribute::I32(_) => DType::I32,
            Attribute::I64(_) => DType::I64,
            Attribute::UI8(_) => DType::UI8,
            Attribute::UI16(_) => DType::UI16,
            Attribute::UI32(_) => DType::UI32,
            Attribute::UI64(_) => DType::UI64,
            Attribute::F32(_) => DType::F32,
            Attribute::F64(_) => DType::F64,
            Attribute::F16(_) => DType::F16,
            Attribute::BF16(_) => DType::BF16,
            _ => return None,
        })
    }

    /// The kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::String(_) => "string",
            Attribute::Type(_) => "type",
            Attribute::Array(_) => "array",
            Attribute::Aggregate(_) => "aggregate",
            Attribute::Shape(_) => "shape",
            Attribute::Dense(_) => "dense",
            Attribute::Symbol { .. } => "symbol",
            Attribute::Unit => "unit",
            Attribute::Foreign(_) => "foreign",
            number => number.number_type().map_or("number", DType::mlir),
        }
    }

    /// Whether BEF can encode it in a kernel.
    pub(crate) fn is_storable(&self) -> bool {
        match self {
            Attribute::Unit | Attribute::Foreign(_) => false,
            other => (other.as_list().unwrap_or_default().iter()).all(Attribute::is_storable),
        }
    }

    /// The code of this attribute's type (bef 1.3).
    pub(crate) fn type_code(&self) -> u8 {
        match self {
            Attribute::String(_) => DType::String as u8,
            Attribute::Type(_) => code::TYPE,
            Attribute::Array(elements) => match elements.first() {
                Some(first) => first.type_code() | code::ARRAY,
                None => code::EMPTY_ARRAY,
            },
            Attribute::Aggregate(_) => code::AGGREGATE,
            Attribute::Shape(_) => code::SHAPE,
            Attribute::Dense(_) => code::DENSE,
            Attribute::Symbol { .. } => code::SYMBOL,
            Attribute::Unit => code::UNIT,
            Attribute::Foreign(_) => code::FOREIGN,
            number => number.number_type().map_or(0, |dtype| dtype as u8),
        }
    }

    /// Whether `code` is that of a number, which is stored inline.
    pub(crate) fn is_number_code(code: u8) -> bool {
        code < code::TYPE && code != DType::String as u8
    }

    /// Size in bytes of a number or type, which is also its alignment; `None` for other attributes.
    pub(crate) fn fixed_size(&self) -> Option<usize> {
        match self {
            Attribute::Type(_) => Some(1),
            other => other.number_type()?.size(),
        }
    }

    /// The reason why the value is invalid, if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem_at(0)
    }

    fn problem_at(&self, depth: usize) -> Option<String> {
        if depth > MAX_NESTING {
            return Some(format!("lists are nested deeper than {MAX_NESTING}"));
        }
        match self {
            Attribute::Array(elements) if !is_array(elements) => {
                Some("an array whose elements are not all of one fixed-size type".into())
            }
            Attribute::Aggregate(elements) if is_array(elements) => Some(
                "an aggregate whose elements are all of one fixed-size type should be an array"
                    .into(),
            ),
            Attribute::Array(_) | Attribute::Aggregate(_) if !self.is_storable() => {
                Some("a list with an element that BEF cannot hold".into())
            }
            Attribute::Array(elements) | Attribute::Aggregate(elements) => elements
                .iter()
                .find_map(|element| element.problem_at(depth + 1)),
            Attribute::Type(DType::Invalid) => Some("the type is not valid".into()),
            Attribute::Dense(dense) => dense.problem(),
            Attribute::Shape(Some(extents)) if extents.iter().flatten().any(|e| *e < 0) => {
                Some("a shape with a negative extent".into())
            }
            Attribute::Symbol { path, module } => symbol_problem(path, module),
            _ => None,
        }
    }
}

impl Dense {
    /// Number of elements of the shape; `None` when negative or on overflow.
    pub fn count(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |count, extent| {
            count.checked_mul(usize::try_from(*extent).ok()?)
        })
    }

    fn problem(&self) -> Option<String> {
        let Some(size) = self.dtype.size() else {
            return Some(format!("dense elements cannot be {}", self.dtype.mlir()));
        };
        if self.dtype == DType::I1 && self.data.iter().any(|byte| *byte > 1) {
            return Some("a dense attribute whose i1 elements are not 0 or 1".into());
        }
        let expected = self.count().and_then(|count| count.checked_mul(size));
        if expected == Some(self.data.len()) {
            return None;
        }
        Some(format!(
            "a dense attribute of shape {:?} and type {} with {} bytes",
            self.shape,
            self.dtype.mlir(),
            self.data.len()
        ))
    }
}

/// Whether a list is stored as an array: empty, or all elements of one fixed-size type.
fn is_array(elements: &[Attribute]) -> bool {
    let Some(first) = elements.first() else {
        return true;
    };
    first.fixed_size().is_some() && elements.iter().all(|e| e.type_code() == first.type_code())
}

fn symbol_problem(path: &[String], module: &str) -> Option<String> {
    if path.is_empty() || path.iter().any(String::is_empty) {
        return Some("a symbol without a name".into());
    }
    module
        .contains('\0')
        .then(|| "a compiled module with a NUL character".into())
}

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {
        $(impl From<$type> for Attribute {
            fn from(value: $type) -> Self {
                Attribute::$variant(value)
            }
        })*
    };
}

from! {
    bool => I1,
    i8 => I8,
    i16 => I16,
    i32 => I32,
    i64 => I64,
    u8 => UI8,
    u16 => UI16,
    u32 => UI32,
    u64 => UI64,
    f32 => F32,
    f64 => F64,
    Name => String,
    DType => Type,
    Dense => Dense,
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Attribute::String(text.into())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Attribute::String(text.into())
    }
}

impl<T: Into<Attribute>> From<Vec<T>> for Attribute {
    fn from(elements: Vec<T>) -> Self {
        Attribute::list(elements.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_arrays_or_aggregates() {
        assert_eq!(Attribute::from(vec![1i32, 2]).type_code(), 0x88);
        assert_eq!(Attribute::from(vec![1i64]).type_code(), 0x89);
        assert_eq!(Attribute::from(vec![DType::I32]).type_code(), 0x99);
        assert_eq!(
            Attribute::from(Vec::<f32>::new()).type_code(),
            code::EMPTY_ARRAY
        );
        assert_eq!(Attribute::from(vec!["a"]).type_code(), code::AGGREGATE);
        let mixed = Attribute::list(vec![1i32.into(), 1i64.into()]);
        assert_eq!(mixed.type_code(), code::AGGREGATE);
    }

    #[test]
    fn invalid_values_are_reported() {
        let problem = |attribute: Attribute| attribute.problem().unwrap();
        assert!(problem(Attribute::Array(vec!["a".into()])).contains("not all of one"));
        assert!(problem(Attribute::Aggregate(vec![])).contains("should be an array"));
        let dense = Dense {
            dtype: DType::I32,
            shape: vec![2],
            data: vec![0; 7],
        };
        assert!(problem(dense.into()).contains("with 7 bytes"));
        let mut deep = Attribute::from(vec!["leaf"]);
        for _ in 0..=MAX_NESTING {
            deep = Attribute::list(vec![deep]);
        }
        assert!(problem(deep).contains("nested deeper"));
    }
}
