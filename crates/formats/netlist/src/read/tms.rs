//! Tensor manipulations (netlist 4.1).

use super::reader::Reader;
use crate::netlist::{Pad, Tm};
use crate::source::Spanned;
use crate::yaml::{Node, NodeKind};
use crate::{Finding, Rule};
use tenon_tile::{TileBroadcast, Word};

/// The names of TMs, for messages.
const NAMES: &str = "broadcast, transpose, hslice, vslice, hstack, vstack, pad, tile_broadcast";

/// A list of TMs: null, or a list of words and maps of one key.
pub(super) fn read_tms(reader: &mut Reader, node: &Node) -> Vec<Spanned<Tm>> {
    let mut tms = Vec::new();
    for element in reader.one_or_list(node, "TMs") {
        match &element.kind {
            NodeKind::Map(entries) => {
                for (key, value) in entries {
                    read_tm(reader, key, value, &mut tms);
                }
            }
            NodeKind::Scalar { .. } if element.text() == Some("transpose") => {
                tms.push(Spanned::new(Tm::Transpose, element.span));
            }
            _ => unknown(reader, element),
        }
    }
    tms
}

fn unknown(reader: &mut Reader, node: &Node) {
    let finding = Finding::new(Rule::ValueWord, node.span, "unknown TM").expected(NAMES);
    let found = node
        .text()
        .map_or(node.kind_name().to_owned(), |text| format!("'{text}'"));
    reader.report(finding.found(found));
}

fn read_tm(reader: &mut Reader, key: &Node, value: &Node, tms: &mut Vec<Spanned<Tm>>) {
    let span = key.span.to(value.span);
    let mut push = |tm: Option<Tm>| tms.extend(tm.map(|tm| Spanned::new(tm, span)));
    // A count may be written as a list of one element.
    let count = |reader: &mut Reader, least| {
        let node = match &value.kind {
            NodeKind::Sequence(nodes) if nodes.len() == 1 => &nodes[0],
            _ => value,
        };
        reader.count(node, least).map(|count| count.value)
    };
    match key.text().unwrap_or_default() {
        "broadcast" => {
            for (dimension, times) in reader.map(value, "dimensions") {
                let times = reader.count(times, 1).map(|count| count.value);
                match dimension.text().unwrap_or_default() {
                    "r" => push(times.map(Tm::BroadcastRows)),
                    "c" => push(times.map(Tm::BroadcastColumns)),
                    "z" => push(times.map(Tm::BroadcastSlices)),
                    _ => reader.unknown(dimension, "broadcast", &["r", "c", "z"]),
                }
            }
        }
        "transpose" => push(Some(Tm::Transpose)),
        "hslice" => push(count(reader, 1).map(Tm::Hslice)),
        "vslice" => push(count(reader, 1).map(Tm::Vslice)),
        "hstack" => push(count(reader, 0).map(Tm::Hstack)),
        "vstack" => push(count(reader, 0).map(Tm::Vstack)),
        "pad" => push(read_pad_list(reader, value).map(Tm::Pad)),
        "tile_broadcast" => push(read_tile_broadcast(reader, value).map(Tm::TileBroadcast)),
        _ => unknown(reader, key),
    }
}

/// `[rt, ct, value]`.
fn read_pad_list(reader: &mut Reader, node: &Node) -> Option<Pad> {
    let nodes = reader.list(node, "rows, columns and a value");
    let [rows, columns, value] = nodes else {
        let finding = Finding::new(Rule::ValueType, node.span, "wrong number of elements");
        let found = nodes.len();
        reader.report(finding.expected("3: rows, columns, value").found(found));
        return None;
    };
    let rows = reader.count(rows, 0);
    let columns = reader.count(columns, 0);
    let value = reader.number(value);
    Some(Pad {
        rows: rows?.value,
        columns: columns?.value,
        value: value?.value as f32,
    })
}

fn read_tile_broadcast(reader: &mut Reader, node: &Node) -> Option<TileBroadcast> {
    let broadcast = node.text().and_then(TileBroadcast::from_word);
    if broadcast.is_none() {
        let finding = Finding::new(Rule::ValueWord, node.span, "unknown tile broadcast");
        let found = node.text().unwrap_or(node.kind_name());
        let choices = format!("one of {}", TileBroadcast::choices());
        reader.report(finding.expected(choices).found(found));
    }
    broadcast
}
