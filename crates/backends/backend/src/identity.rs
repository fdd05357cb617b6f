//! Identity and capabilities of a backend.

use std::borrow::Cow;
use std::fmt;

/// A backend's name, as in `--backends CpuAcc,CpuRef`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
    /// A built-in backend's name.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for BackendId {
    fn from(name: &str) -> Self {
        Self(Cow::Owned(name.to_owned()))
    }
}

impl From<String> for BackendId {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The greatest length of [`Backend::target`](crate::Backend::target) in bytes.
pub const MAX_TARGET: usize = 256;

/// A named property of a backend (backends 7.2).
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// Its name, such as `PreferredLayout`.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: PropertyValue,
}

impl Capability {
    /// A capability of a built-in backend.
    pub fn new(name: &'static str, value: PropertyValue) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value,
        }
    }
}

/// The value of a capability or an option.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the kinds of backends 7.2")]
pub enum PropertyValue {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f32),
    String(Cow<'static, str>),
}

impl PropertyValue {
    /// The name of the kind, for the documentation of options.
    pub fn kind(&self) -> &'static str {
        match self {
            PropertyValue::Bool(_) => "bool",
            PropertyValue::Int(_) => "int",
            PropertyValue::Unsigned(_) => "unsigned",
            PropertyValue::Float(_) => "float",
            PropertyValue::String(_) => "string",
        }
    }

    /// Parses a value of the same kind as this one.
    pub fn parse_like(&self, text: &str) -> Option<Self> {
        Some(match self {
            PropertyValue::Bool(_) => PropertyValue::Bool(text.parse().ok()?),
            PropertyValue::Int(_) => PropertyValue::Int(text.parse().ok()?),
            PropertyValue::Unsigned(_) => PropertyValue::Unsigned(text.parse().ok()?),
            PropertyValue::Float(_) => PropertyValue::Float(text.parse().ok()?),
            PropertyValue::String(_) => PropertyValue::String(text.to_owned().into()),
        })
    }
}

impl fmt::Display for PropertyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyValue::Bool(value) => value.fmt(f),
            PropertyValue::Int(value) => value.fmt(f),
            PropertyValue::Unsigned(value) => value.fmt(f),
            PropertyValue::Float(value) => value.fmt(f),
            PropertyValue::String(value) => f.write_str(value),
        }
    }
}
