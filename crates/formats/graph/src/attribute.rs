//! Attributes: the compile-time parameters of a node.

use crate::elementwise::Program;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::Tensor;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A signed integer.
    Int(i64),
    /// A single-precision value.
    Float(f32),
    /// A text.
    String(String),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of single-precision values.
    Floats(Vec<f32>),
    /// A list of texts.
    Strings(Vec<String>),
    /// A constant tensor.
    Tensor(Tensor),
}

/// The kind of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of Attribute's variants")]
pub enum AttributeKind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Strings,
    Tensor,
}

impl Attribute {
    /// The kind of this value.
    pub fn kind(&self) -> AttributeKind {
        match self {
            Attribute::Int(_) => AttributeKind::Int,
            Attribute::Float(_) => AttributeKind::Float,
            Attribute::String(_) => AttributeKind::String,
            Attribute::Ints(_) => AttributeKind::Ints,
            Attribute::Floats(_) => AttributeKind::Floats,
            Attribute::Strings(_) => AttributeKind::Strings,
            Attribute::Tensor(_) => AttributeKind::Tensor,
        }
    }
}

/// The value; of long ones and tensors the kind.
impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONG: usize = 16;
        match self {
            Attribute::Int(value) => write!(f, "{value}"),
            Attribute::Float(value) => write!(f, "{value}"),
            Attribute::String(value) if value.len() <= 4 * LONG => write!(f, "{value:?}"),
            Attribute::Ints(values) if values.len() <= LONG => write!(f, "{values:?}"),
            Attribute::Floats(values) if values.len() <= LONG => write!(f, "{values:?}"),
            value => write!(f, "{}", value.kind()),
        }
    }
}

impl fmt::Display for AttributeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttributeKind::Int => "int",
            AttributeKind::Float => "float",
            AttributeKind::String => "string",
            AttributeKind::Ints => "ints",
            AttributeKind::Floats => "floats",
            AttributeKind::Strings => "strings",
            AttributeKind::Tensor => "tensor",
        })
    }
}

/// The attributes of one node, by name. Clones share them until one of them is changed.
///
/// The typed readers return `default` for an absent attribute, and an error with its name for one of
/// another kind.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Arc<AttributeValues>);

#[derive(Debug, Clone, Default)]
struct AttributeValues {
    by_name: BTreeMap<String, Attribute>,
    /// The program of a `tenon.Elementwise` node, once it was read: parsing its text takes longer than anything else
    /// that is done with the node when it is bound.
    program: OnceLock<Arc<Program>>,
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.by_name == other.0.by_name
    }
}

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces an attribute.
    pub fn set(&mut self, name: impl Into<String>, value: Attribute) {
        self.changed().insert(name.into(), value);
    }

    /// The attributes with one more.
    pub fn with(mut self, name: impl Into<String>, value: Attribute) -> Self {
        self.set(name, value);
        self
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Attribute> {
        self.changed().remove(name)
    }

    /// The value of an attribute.
    pub fn value(&self, name: &str) -> Option<&Attribute> {
        self.0.by_name.get(name)
    }

    /// All attributes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        let values = self.0.by_name.iter();
        values.map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.by_name.is_empty()
    }

    /// The values, to be changed.
    fn changed(&mut self) -> &mut BTreeMap<String, Attribute> {
        let values = Arc::make_mut(&mut self.0);
        values.program.take();
        &mut values.by_name
    }

    /// The program that `read` returns, of an earlier call if there was one.
    pub(crate) fn program(&self, read: impl FnOnce() -> Result<Program>) -> Result<Arc<Program>> {
        if let Some(program) = self.0.program.get() {
            return Ok(program.clone());
        }
        let program = Arc::new(read()?);
        Ok(self.0.program.get_or_init(|| program).clone())
    }

    /// An integer.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.value(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(wrong_kind(name, AttributeKind::Int, other)),
        }
    }

    /// An integer as a flag: not 0.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// A single-precision value.
    pub fn float(&self, name: &str, default: f32) -> Result<f32> {
        match self.value(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(other) => Err(wrong_kind(name, AttributeKind::Float, other)),
        }
    }

    /// A text.
    pub fn string<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.value(name) {
            None => Ok(default),
            Some(Attribute::String(value)) => Ok(value),
            Some(other) => Err(wrong_kind(name, AttributeKind::String, other)),
        }
    }

    /// A list of integers, `None` when absent.
    pub fn ints(&self, name: &str) -> Result<Option<&[i64]>> {
        match self.value(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(wrong_kind(name, AttributeKind::Ints, other)),
        }
    }

    /// A list of single-precision values, `None` when absent.
    pub fn floats(&self, name: &str) -> Result<Option<&[f32]>> {
        match self.value(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values)),
            Some(other) => Err(wrong_kind(name, AttributeKind::Floats, other)),
        }
    }

    /// A list of texts, `None` when absent.
    pub fn strings(&self, name: &str) -> Result<Option<&[String]>> {
        match self.value(name) {
            None => Ok(None),
            Some(Attribute::Strings(values)) => Ok(Some(values)),
            Some(other) => Err(wrong_kind(name, AttributeKind::Strings, other)),
        }
    }

    /// A constant tensor, `None` when absent.
    pub fn tensor(&self, name: &str) -> Result<Option<&Tensor>> {
        match self.value(name) {
            None => Ok(None),
            Some(Attribute::Tensor(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_kind(name, AttributeKind::Tensor, other)),
        }
    }
}

impl FromIterator<(String, Attribute)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, Attribute)>>(attributes: I) -> Self {
        Self(Arc::new(AttributeValues {
            by_name: attributes.into_iter().collect(),
            program: OnceLock::new(),
        }))
    }
}

fn wrong_kind(name: &str, expected: AttributeKind, found: &Attribute) -> Error {
    Error::new(ErrorKind::InvalidModel, "an attribute of the wrong kind")
        .expected(expected)
        .found(found.kind())
        .at(Location::field(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_until_one_is_changed() {
        let program = |text: &str| Attribute::Strings(vec![text.to_owned()]);
        let first = Attributes::new().with("program", program("%a = Neg(%0)"));
        let mut second = first.clone();
        let read = Program::of(&first).unwrap();
        assert!(Arc::ptr_eq(&read, &Program::of(&first).unwrap()));
        assert!(Arc::ptr_eq(&read, &Program::of(&second).unwrap()));
        second.set("program", program("%a = Abs(%0)"));
        let changed = Program::of(&second).unwrap();
        assert_eq!(changed.instructions()[0].op.name, "Abs");
        assert_eq!(Program::of(&first).unwrap(), read);
        assert_ne!(first, second);
        assert_eq!(second.remove("program"), Some(program("%a = Abs(%0)")));
        assert!(Program::of(&second).is_err());
        assert!(second.is_empty() && !first.is_empty());
    }
}
