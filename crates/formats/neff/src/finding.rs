//! Findings of a verification: violated rules with their places.

use crate::{KeyPath, Rule, Severity};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;
use tenon_base::{Error, ErrorKind, Location};

/// A violated rule at one place. Display is `error[var.alignment] sg00/def.json: var.x.alignment
/// (byte 812): alignment is 0 or a power of two: found 48`.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The member; none for the header and the archive itself.
    pub member: Option<String>,
    /// The path in its JSON, or the header's field.
    pub path: KeyPath,
    /// Byte in the member; in the file for the header, in the archive for its entries.
    pub offset: Option<u64>,
    /// Expected and found values, where the rule's sentence is not sufficient.
    pub detail: String,
}

impl Finding {
    /// A violated rule without a place.
    pub(crate) fn new(rule: &'static Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            member: None,
            path: KeyPath::default(),
            offset: None,
            detail: detail.into(),
        }
    }

    pub(crate) fn member(mut self, member: impl Into<String>) -> Self {
        self.member = Some(member.into());
        self
    }

    pub(crate) fn path(mut self, path: KeyPath) -> Self {
        self.path = path;
        self
    }

    pub(crate) fn offset(mut self, offset: Option<u64>) -> Self {
        self.offset = offset;
        self
    }

    /// The severity of the rule.
    pub fn severity(&self) -> Severity {
        self.rule.severity
    }

    /// The finding as an error of the kind that a loader returns.
    pub fn to_error(&self) -> Error {
        let kind = match self.rule.id {
            "header.pkg-version" | "header.version" => ErrorKind::UnsupportedVersion,
            "payload.limit" => ErrorKind::OutOfMemory,
            _ => ErrorKind::InvalidPackage,
        };
        let text = if self.detail.is_empty() {
            self.rule.sentence.to_owned()
        } else {
            format!("{}: {}", self.rule.sentence, self.detail)
        };
        Error::new(kind, format!("{text} [{}]", self.rule.id)).at(Location {
            member: self.member.clone(),
            field: (!self.path.is_empty()).then(|| self.path.to_string()),
            offset: self.offset,
            ..Location::default()
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.rule.severity, self.rule.id)?;
        if let Some(member) = &self.member {
            write!(f, " {member}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (byte {offset})")?;
        }
        if !self.path.is_empty() || self.offset.is_some() {
            f.write_str(":")?;
        }
        write!(f, " {}", self.rule.sentence)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_struct("Finding", 7)?;
        object.serialize_field("rule", self.rule.id)?;
        object.serialize_field("severity", &self.rule.severity.to_string())?;
        object.serialize_field("sentence", self.rule.sentence)?;
        object.serialize_field("member", &self.member)?;
        object.serialize_field("path", &self.path.to_string())?;
        object.serialize_field("offset", &self.offset)?;
        object.serialize_field("detail", &self.detail)?;
        object.end()
    }
}

/// The findings of a verification, in the order of the parts of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Findings {
    /// The findings.
    pub list: Vec<Finding>,
    /// The number of findings beyond the limit.
    pub left_out: u64,
    #[serde(skip)]
    limit: usize,
}

impl Findings {
    /// An empty list that keeps at most `limit` findings.
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self {
            list: Vec::new(),
            left_out: 0,
            limit,
        }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        if self.list.len() < self.limit {
            self.list.push(finding);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds the findings of a part.
    pub(crate) fn append(&mut self, part: Findings) {
        part.list.into_iter().for_each(|finding| self.add(finding));
        self.left_out += part.left_out;
    }

    /// The number of kept findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list
            .iter()
            .filter(|finding| finding.severity() == severity)
            .count()
    }

    /// Whether there is no error.
    pub fn is_good(&self) -> bool {
        self.left_out == 0 && self.count(Severity::Error) == 0
    }

    /// All errors as one.
    pub fn error(&self) -> Option<Error> {
        let errors = self
            .list
            .iter()
            .filter(|finding| finding.severity() == Severity::Error);
        Error::from_all(errors.map(Finding::to_error))
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.list {
            writeln!(f, "{finding}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "and {} more", self.left_out)?;
        }
        Ok(())
    }
}
