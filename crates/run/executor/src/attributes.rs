//! The attributes of a kernel, read by type.

use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, Kernel, Name};

/// The attributes of a kernel of a program. The typed readers return an error that names the
/// attribute when it is missing or has another type.
#[derive(Debug, Clone, Copy)]
pub struct KernelAttributes<'a>(&'a [(Name, Attribute)]);

impl<'a> KernelAttributes<'a> {
    /// The attributes of `kernel`.
    pub fn of(kernel: &'a Kernel) -> Self {
        Self(&kernel.attributes)
    }

    /// All attributes, in the program's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Attribute)> + use<'a> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// An attribute; `None` when it is absent.
    pub fn optional(&self, name: &str) -> Option<&'a Attribute> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    /// An attribute; an error when it is absent.
    pub fn attribute(&self, name: &str) -> Result<&'a Attribute> {
        self.optional(name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidProgram,
                format!("attribute '{name}' is missing"),
            )
        })
    }

    /// An i32 attribute.
    pub fn i32(&self, name: &str) -> Result<i32> {
        match self.attribute(name)? {
            Attribute::I32(value) => Ok(*value),
            other => Err(wrong_type(name, "i32", other)),
        }
    }

    /// An i64 attribute.
    pub fn i64(&self, name: &str) -> Result<i64> {
        match self.attribute(name)? {
            Attribute::I64(value) => Ok(*value),
            other => Err(wrong_type(name, "i64", other)),
        }
    }

    /// A string attribute.
    pub fn string(&self, name: &str) -> Result<&'a str> {
        match self.attribute(name)? {
            Attribute::String(value) => Ok(value),
            other => Err(wrong_type(name, "a string", other)),
        }
    }

    /// An attribute that is an array of i32.
    pub fn i32s(&self, name: &str) -> Result<Vec<i32>> {
        let wrong = |other| wrong_type(name, "an array of i32", other);
        match self.attribute(name)? {
            Attribute::Array(items) => items
                .iter()
                .map(|item| match item {
                    Attribute::I32(value) => Ok(*value),
                    other => Err(wrong(other)),
                })
                .collect(),
            other => Err(wrong(other)),
        }
    }
}

fn wrong_type(name: &str, expected: &str, found: &Attribute) -> Error {
    Error::new(
        ErrorKind::InvalidProgram,
        format!("attribute '{name}' has the wrong type"),
    )
    .expected(expected)
    .found(attribute_type(found))
}

/// The type of an attribute in words.
fn attribute_type(attribute: &Attribute) -> &'static str {
    match attribute {
        Attribute::I1(_) => "i1",
        Attribute::I8(_) => "i8",
        Attribute::I16(_) => "i16",
        Attribute::I32(_) => "i32",
        Attribute::I64(_) => "i64",
        Attribute::UI8(_) => "ui8",
        Attribute::UI16(_) => "ui16",
        Attribute::UI32(_) => "ui32",
        Attribute::UI64(_) => "ui64",
        Attribute::F32(_) => "f32",
        Attribute::F64(_) => "f64",
        Attribute::F16(_) => "f16",
        Attribute::BF16(_) => "bf16",
        Attribute::String(_) => "a string",
        Attribute::Type(_) => "a type",
        Attribute::Array(_) => "an array",
        Attribute::Aggregate(_) => "an aggregate",
        Attribute::Shape(_) => "a shape",
        Attribute::Dense(_) => "a dense tensor",
        Attribute::Symbol { .. } => "a symbol",
        Attribute::Unit => "a name without a value",
        Attribute::Foreign(_) => "an attribute of another dialect",
    }
}
