//! Accessors for the maps of unparsed sections.

use crate::netlist::Netlist;
use crate::yaml::{Node, NodeKind};
use crate::yaml_scalar::parse_number;
use crate::{Finding, Findings, Rule};

/// A section of a netlist by name.
pub(crate) fn section<'n>(netlist: &'n Netlist, name: &str) -> Option<&'n Node> {
    let mut sections = netlist.others.iter().rev();
    let (_, node) = sections.find(|(key, _)| key.value == name)?;
    Some(node)
}

/// The entries of a map; empty for other nodes.
pub(crate) fn entries(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match &node.kind {
        NodeKind::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries
        .iter()
        .filter_map(|(key, value)| Some((key.text()?, value)))
}

/// The texts of a list, or of a scalar as a list of one element.
pub(crate) fn texts(node: &Node) -> Vec<String> {
    match &node.kind {
        NodeKind::Sequence(nodes) => nodes
            .iter()
            .filter_map(|node| node.text().map(str::to_owned))
            .collect(),
        _ if node.is_null() => Vec::new(),
        _ => node.text().map(str::to_owned).into_iter().collect(),
    }
}

/// A number, or a finding.
pub(crate) fn number(node: &Node, findings: &mut Findings) -> Option<f64> {
    let text = node.text().unwrap_or_default();
    let value = parse_number(text.trim());
    if value.is_none() {
        wrong(node, "a number", findings);
    }
    value
}

/// Two integers `[first, last]`, both from 1, or a finding.
pub(crate) fn range(node: &Node, findings: &mut Findings) -> Option<[u32; 2]> {
    let parts: Vec<u32> = texts(node)
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    match parts[..] {
        [first, last] if first >= 1 && first <= last => Some([first, last]),
        _ => {
            wrong(node, "[first, last] from 1", findings);
            None
        }
    }
}

/// Reports an invalid value.
pub(crate) fn wrong(node: &Node, expected: &str, findings: &mut Findings) {
    let finding = Finding::new(Rule::TestConfig, node.span, "wrong value").expected(expected);
    let found = node.text().map_or(node.kind_name(), |text| text).to_owned();
    findings.push(finding.found(found));
}

/// Reports an unknown key.
pub(crate) fn unknown(key: &str, node: &Node, findings: &mut Findings) {
    let message = format!("unknown key '{key}'");
    findings.push(Finding::new(Rule::TestConfig, node.span, message));
}
