//! The parser: YAML to a [`Netlist`], with all findings.

mod attributes;
mod blocking;
mod fields;
mod fused;
mod graph;
mod program;
mod queue;
mod reader;
mod tms;

use crate::netlist::Netlist;
use crate::source::{Source, Spanned};
use crate::yaml::{Node, NodeKind, parse};
use crate::{Finding, Findings, Rule};
use reader::Reader;
use tenon_tile::{Arch, Word};

/// The result of parsing a source.
#[derive(Debug, Clone)]
pub struct ParsedNetlist {
    /// The netlist; complete if no finding is an error, else the valid parts.
    pub netlist: Netlist,
    /// The findings, in the order of the file.
    pub findings: Findings,
}

/// The prefix of placeholders in a template.
const TEMPLATE: &str = "$TEMPLATE_";

/// Parses a netlist. Problems are reported as findings.
pub fn read(source: &Source) -> ParsedNetlist {
    let mut reader = Reader::default();
    let mut netlist = Netlist::default();
    if let Some(finding) = template(source) {
        reader.report(finding);
        return ParsedNetlist {
            netlist,
            findings: reader.findings,
        };
    }
    match parse(source) {
        Ok(document) => {
            read_sections(&mut reader, &document.root, &mut netlist);
            if let Some(span) = document.next {
                let finding = Finding::new(Rule::Documents, span, "another document begins here");
                let help = "move it to a separate file: only the first document of a file is read";
                reader.report(finding.help(help));
            }
        }
        Err(finding) => reader.report(finding),
    }
    ParsedNetlist {
        netlist,
        findings: reader.findings.sorted(),
    }
}

fn template(source: &Source) -> Option<Finding> {
    let start = source.text().find(TEMPLATE)?;
    let rest = &source.text()[start + 1..];
    let length = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let span = crate::Span {
        start: start as u32,
        end: (start + 1 + length) as u32,
    };
    let message = "this is a netlist template, not a netlist";
    let finding = Finding::new(Rule::Template, span, message);
    Some(finding.help("replace its $TEMPLATE_ placeholders by values first"))
}

fn read_sections(reader: &mut Reader, root: &Node, netlist: &mut Netlist) {
    let NodeKind::Map(sections) = &root.kind else {
        let finding = Finding::new(Rule::Structure, root.span, "this is not a netlist");
        let expected = "a map of sections: devices, queues, graphs, programs";
        return reader.report(finding.expected(expected).found(root.kind_name()));
    };
    let mut seen: Vec<&str> = Vec::new();
    for (key, node) in sections {
        let name = key.text().unwrap_or_default();
        if seen.contains(&name) {
            reader.duplicate(key);
        }
        seen.push(name);
        match name {
            "devices" => read_devices(reader, node, netlist),
            "queues" => netlist.queues = named(reader, node, "queues", queue::read_queue),
            "graphs" => netlist.graphs = named(reader, node, "graphs", graph::read_graph),
            "fused_ops" => {
                netlist.fused_ops = named(reader, node, "fused ops", fused::read_fused_op);
            }
            "programs" => netlist.programs = program::read_programs(reader, node),
            _ => {
                if let Some(name) = reader.text(key) {
                    netlist.others.push((name, node.clone()));
                }
            }
        }
    }
    for section in ["devices", "queues", "graphs", "programs"] {
        if !seen.contains(&section) {
            let message = format!("section '{section}' is missing");
            reader.report(Finding::new(Rule::MissingField, root.span.first(), message));
        }
    }
}

/// The entries of a section that is a map from names to definitions.
fn named<T>(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    read: impl Fn(&mut Reader, &Node, &Node) -> Option<T>,
) -> Vec<T> {
    let entries = reader.map(node, what);
    entries
        .iter()
        .filter_map(|(key, node)| read(reader, key, node))
        .collect()
}

fn read_devices(reader: &mut Reader, node: &Node, netlist: &mut Netlist) {
    let owner = Spanned::new("devices".to_owned(), node.span.first());
    let mut fields = fields::Fields::new(reader, node, "devices");
    let arch = fields.require(reader, "arch", &owner, |reader, node| {
        let nodes = reader.one_or_list(node, "architectures");
        nodes
            .iter()
            .map(|node| reader.word(node))
            .collect::<Option<Vec<_>>>()
            .map(|words| (words, node.span))
    });
    fields.finish(reader);
    let arch = arch.map(|(words, span)| {
        if words.is_empty() {
            let message = "the list of architectures is empty";
            let finding = Finding::new(Rule::MissingField, span, message);
            reader.report(finding.expected(format!("one of {}", Arch::choices())));
        }
        words
    });
    netlist.arch = arch.unwrap_or_default();
}
