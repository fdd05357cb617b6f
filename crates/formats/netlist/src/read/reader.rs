//! Typed values from YAML nodes. An invalid value becomes a finding, and parsing continues.

use crate::nearest::nearest;
use crate::source::Spanned;
use crate::yaml::{Node, NodeKind};
use crate::yaml_scalar::{is_integer, parse_bool, parse_integer, parse_number};
use crate::{Finding, Findings, Rule};
use tenon_tile::Word;

/// Reads values and collects findings.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) findings: Findings,
}

impl Reader {
    pub(super) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Reports a value that is not of the expected type.
    pub(super) fn wrong_type<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let found = node
            .text()
            .map_or(node.kind_name().to_owned(), |text| format!("'{text}'"));
        let finding = Finding::new(Rule::ValueType, node.span, "wrong type of value");
        self.report(finding.expected(expected).found(found));
        None
    }

    /// The entries of a map; null is an empty map.
    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str) -> &'n [(Node, Node)] {
        match &node.kind {
            NodeKind::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                self.wrong_type::<()>(node, &format!("a map of {what}"));
                &[]
            }
        }
    }

    /// The elements of a list; null is an empty list.
    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.kind {
            NodeKind::Sequence(nodes) => nodes,
            _ if node.is_null() => &[],
            _ => {
                self.wrong_type::<()>(node, &format!("a list of {what}"));
                &[]
            }
        }
    }

    /// The elements of a list, or a scalar as a list of one element.
    pub(super) fn one_or_list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.kind {
            NodeKind::Scalar { .. } if !node.is_null() => std::slice::from_ref(node),
            _ => self.list(node, what),
        }
    }

    /// A non-empty text.
    pub(super) fn text(&mut self, node: &Node) -> Option<Spanned<String>> {
        match node.text() {
            Some(text) if !text.is_empty() => Some(Spanned::new(text.to_owned(), node.span)),
            _ => self.wrong_type(node, "a name"),
        }
    }

    /// An integer in any form of YAML (netlist 1.1).
    pub(super) fn integer(&mut self, node: &Node) -> Option<Spanned<i64>> {
        let text = node.text().unwrap_or_default();
        match parse_integer(text) {
            Some(value) => Some(Spanned::new(value, node.span)),
            None if is_integer(text) => {
                let finding = Finding::new(Rule::ValueRange, node.span, "number out of range");
                self.report(finding.expected("a number below 2^63").found(text));
                None
            }
            None => self.wrong_type(node, "an integer"),
        }
    }

    /// An integer of at least `least` that fits 32 bits.
    pub(super) fn count(&mut self, node: &Node, least: u32) -> Option<Spanned<u32>> {
        let value = self.integer(node)?;
        match u32::try_from(value.value) {
            Ok(count) if count >= least => Some(Spanned::new(count, node.span)),
            _ => {
                let finding = Finding::new(Rule::ValueRange, node.span, "number out of range");
                let expected = if value.value > i64::from(u32::MAX) {
                    format!("at most {}", u32::MAX)
                } else {
                    format!("at least {least}")
                };
                self.report(finding.expected(expected).found(value.value));
                None
            }
        }
    }

    /// A byte address.
    pub(super) fn address(&mut self, node: &Node) -> Option<u64> {
        let value = self.integer(node)?;
        match u64::try_from(value.value) {
            Ok(byte) => Some(byte),
            Err(_) => {
                let finding = Finding::new(Rule::ValueRange, node.span, "negative address");
                self.report(finding.found(value.value));
                None
            }
        }
    }

    /// A boolean, in any letter case.
    pub(super) fn boolean(&mut self, node: &Node) -> Option<Spanned<bool>> {
        match node.text().and_then(parse_bool) {
            Some(value) => Some(Spanned::new(value, node.span)),
            None => self.wrong_type(node, "true or false"),
        }
    }

    /// A number.
    pub(super) fn number(&mut self, node: &Node) -> Option<Spanned<f64>> {
        match node.text().and_then(parse_number) {
            Some(value) => Some(Spanned::new(value, node.span)),
            None => self.wrong_type(node, "a number"),
        }
    }

    /// One of the words of `W`.
    pub(super) fn word<W: Word>(&mut self, node: &Node) -> Option<Spanned<W>> {
        let Some(text) = node.text() else {
            return self.wrong_type(node, W::NOUN);
        };
        match W::from_word(text) {
            Some(value) => Some(Spanned::new(value, node.span)),
            None => {
                let message = format!("unknown {}", W::NOUN);
                let finding = Finding::new(Rule::ValueWord, node.span, message);
                let found = quoted(text);
                self.report(finding.expected(choices(&W::choices(), text)).found(found));
                None
            }
        }
    }

    /// A pair of counts: rows and columns.
    pub(super) fn pair(&mut self, node: &Node, least: u32) -> Option<Spanned<[u32; 2]>> {
        let NodeKind::Sequence(nodes) = &node.kind else {
            return self.wrong_type(node, "a pair [rows, columns]");
        };
        let [rows, columns] = nodes.as_slice() else {
            let finding = Finding::new(Rule::ValueType, node.span, "wrong number of elements");
            self.report(finding.expected("2, rows and columns").found(nodes.len()));
            return None;
        };
        let (rows, columns) = (self.count(rows, least), self.count(columns, least));
        Some(Spanned::new([rows?.value, columns?.value], node.span))
    }

    /// Counts from 0.
    pub(super) fn counts(&mut self, node: &Node) -> Vec<Spanned<u32>> {
        let nodes = self.list(node, "integers");
        nodes
            .iter()
            .filter_map(|node| self.count(node, 0))
            .collect()
    }

    /// Reports a missing required field.
    pub(super) fn missing<T>(&mut self, field: &str, owner: &Spanned<String>) -> Option<T> {
        let message = format!("'{}' has no {field}", owner.value);
        self.report(Finding::new(Rule::MissingField, owner.span, message));
        None
    }

    /// Reports an unknown field.
    pub(super) fn unknown(&mut self, key: &Node, owner: &str, known: &[&str]) {
        let name = key.text().unwrap_or("?");
        let message = format!("unknown field of {owner}");
        let finding = Finding::new(Rule::UnknownField, key.span, message).found(quoted(name));
        self.report(match nearest(name, known.iter().copied()) {
            Some(near) => finding.help(format!("did you mean '{near}'?")),
            None => finding.expected(known.join(", ")),
        });
    }

    /// Reports a duplicate field.
    pub(super) fn duplicate(&mut self, key: &Node) {
        let name = key.text().unwrap_or("?");
        let message = format!("duplicate field '{name}': the last value is used");
        self.report(Finding::new(Rule::DuplicateField, key.span, message));
    }
}

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

/// All choices, with the nearest one if there are many.
fn choices(all: &str, found: &str) -> String {
    let words: Vec<&str> = all.split(", ").collect();
    match nearest(found, words.iter().copied()) {
        Some(near) if words.len() > 8 => format!("one of {all}; did you mean '{near}'?"),
        _ => format!("one of {all}"),
    }
}
