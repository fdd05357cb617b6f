//! The blocking fields of queues and ops.

use super::fields::Fields;
use super::reader::Reader;
use crate::netlist::Blocking;
use crate::source::Spanned;
use crate::yaml::Node;
use crate::{Finding, Rule};

/// The supported tile sizes (netlist 2.2).
const TILE_SIZES: [[u32; 2]; 7] = [
    [32, 32],
    [16, 32],
    [32, 16],
    [8, 32],
    [4, 32],
    [2, 32],
    [1, 32],
];

/// Reads the fields of a blocking.
pub(super) fn read_blocking(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
    owner: &Spanned<String>,
) -> Option<Blocking> {
    let pair = |reader: &mut Reader, node: &Node| reader.pair(node, 1);
    let grid_size = fields.require(reader, "grid_size", owner, pair);
    let t = fields.require(reader, "t", owner, |reader, node| reader.count(node, 1));
    let mblock = fields.require(reader, "mblock", owner, pair);
    let ublock = fields.require(reader, "ublock", owner, pair);
    let ublock_order = fields.optional(reader, "ublock_order", Reader::word);
    let tile_dim = fields.optional(reader, "tile_dim", read_tile_dim);
    Some(Blocking {
        grid_size: grid_size?,
        t: t?,
        mblock: mblock?,
        ublock: ublock?,
        ublock_order,
        tile_dim,
    })
}

fn read_tile_dim(reader: &mut Reader, node: &Node) -> Option<Spanned<[u32; 2]>> {
    let tile = reader.pair(node, 1)?;
    if TILE_SIZES.contains(&tile.value) {
        return Some(tile);
    }
    let all: Vec<String> = TILE_SIZES
        .iter()
        .map(|[rows, columns]| format!("{rows}x{columns}"))
        .collect();
    let [rows, columns] = tile.value;
    let finding = Finding::new(Rule::ValueRange, node.span, "unsupported tile size");
    let expected = format!("one of {}", all.join(", "));
    let found = format!("{rows}x{columns}");
    reader.report(finding.expected(expected).found(found));
    None
}
