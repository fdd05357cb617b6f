//! Unsupported features of a model, collected for one report.

use crate::draft::Origin;
use crate::signature::qualified;
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Location};

/// Reasons why nodes are unsupported, each with a count and the first node.
#[derive(Default)]
pub(crate) struct Unsupported {
    rows: Vec<ReasonCount>,
    index: HashMap<(String, i64, String), usize>,
}

struct ReasonCount {
    operator: String,
    version: i64,
    reason: String,
    count: usize,
    first: String,
}

impl Unsupported {
    /// Adds a reason why a node is unsupported.
    pub fn add(&mut self, origin: &Origin, reason: impl Into<String>) {
        let key = (origin.operator.clone(), origin.version, reason.into());
        if let Some(row) = self.index.get(&key).and_then(|&row| self.rows.get_mut(row)) {
            row.count += 1;
            return;
        }
        let (operator, version, reason) = key.clone();
        self.index.insert(key, self.rows.len());
        let first = origin.node.clone();
        self.rows.push(ReasonCount {
            operator,
            version,
            reason,
            count: 1,
            first,
        });
    }

    /// An error for each reason, in the order of occurrence.
    pub fn errors(&self) -> impl Iterator<Item = Error> {
        self.rows.iter().map(|row| {
            let ReasonCount {
                operator,
                version,
                reason,
                count,
                first,
            } = row;
            let nodes = if *count == 1 {
                String::new()
            } else {
                format!(" ({count} nodes, this first)")
            };
            let message = format!("operator {operator}, version {version}: {reason}{nodes}");
            Error::new(ErrorKind::Unsupported, message).at(Location::node(first))
        })
    }
}

impl Origin {
    /// The origin of a node of the model.
    pub fn new(domain: &str, operator: &str, version: i64, node: &str) -> Self {
        Self {
            operator: qualified(domain, operator),
            version,
            node: node.to_owned(),
        }
    }
}
