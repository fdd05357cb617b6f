//! The differences of two packages as data: header, members, structure, variables, descriptors,
//! constants by value, placement.

mod compare;
mod constants;

pub use compare::diff;
pub use constants::Statistics;

use crate::KeyPath;
use serde::Serialize;
use std::fmt;

/// The number of changes of one kind that Display shows.
const SHOWN: usize = 20;

/// The difference of two packages, A and B.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Fields of the header.
    pub header: Vec<Change>,
    /// Members that only one package has, or that differ and belong to no list below.
    pub members: Vec<Change>,
    /// Values in JSON members, except variables and descriptors.
    pub structure: Vec<Change>,
    /// Variables, by the key of their definition.
    pub variables: Vec<Change>,
    /// Descriptors, by engine and trigger.
    pub descriptors: Vec<Change>,
    /// Constants whose bytes differ.
    pub constants: Vec<ConstantChange>,
    /// Nodes that run on another backend.
    pub placement: Vec<Change>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The member it is in; none for the header.
    pub member: Option<String>,
    /// Where: a key path, a field, a node.
    pub place: String,
    /// The value in A; none when absent.
    pub a: Option<String>,
    /// The value in B.
    pub b: Option<String>,
}

/// A constant that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConstantChange {
    /// The variable.
    pub variable: String,
    /// Its member in B.
    pub member: String,
    /// Its data type and shape, when they are known and the same.
    pub ty: Option<String>,
    /// Statistics of the differing elements, when they can be compared.
    pub statistics: Option<Statistics>,
    /// Bytes in A and B.
    pub bytes: (u64, u64),
}

impl Change {
    pub(crate) fn new(
        member: Option<&str>,
        place: impl Into<String>,
        a: Option<String>,
        b: Option<String>,
    ) -> Self {
        Self {
            member: member.map(str::to_owned),
            place: place.into(),
            a,
            b,
        }
    }

    pub(crate) fn at(member: &str, path: &KeyPath, a: Option<String>, b: Option<String>) -> Self {
        Self::new(Some(member), path.to_string(), a, b)
    }
}

impl Diff {
    /// Whether the packages are equal.
    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty()) && self.constants.is_empty()
    }

    fn lists(&self) -> [(&'static str, &[Change]); 6] {
        [
            ("header", &self.header),
            ("members", &self.members),
            ("structure", &self.structure),
            ("variables", &self.variables),
            ("descriptors", &self.descriptors),
            ("placement", &self.placement),
        ]
    }
}

impl fmt::Display for Change {
    /// `sg00/def.json: var.x.size: 64 -> 128`; `+` and `-` mark values that only B or only A has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member) = &self.member {
            write!(f, "{member}: ")?;
        }
        f.write_str(&self.place)?;
        match (&self.a, &self.b) {
            (Some(a), Some(b)) => write!(f, ": {a} -> {b}"),
            (Some(a), None) => write!(f, ": -{a}"),
            (None, Some(b)) => write!(f, ": +{b}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for ConstantChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.variable)?;
        if let Some(ty) = &self.ty {
            write!(f, " {ty}")?;
        }
        match &self.statistics {
            Some(statistics) => write!(f, ": {statistics}"),
            None => write!(f, ": {} and {} bytes", self.bytes.0, self.bytes.1),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, list) in self.lists() {
            section(f, name, list)?;
        }
        section(f, "constants", &self.constants)
    }
}

fn section<T: fmt::Display>(f: &mut fmt::Formatter<'_>, name: &str, list: &[T]) -> fmt::Result {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(f, "{name}: {}", list.len())?;
    for change in list.iter().take(SHOWN) {
        writeln!(f, "  {change}")?;
    }
    match list.len() {
        ..=SHOWN => Ok(()),
        len => writeln!(f, "  and {} more", len - SHOWN),
    }
}

#[cfg(test)]
mod tests;
