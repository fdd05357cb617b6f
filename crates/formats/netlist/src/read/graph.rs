//! The section of graphs, and their ops.

use super::attributes::read_attributes;
use super::blocking::read_blocking;
use super::fields::Fields;
use super::queue::read_devices;
use super::reader::Reader;
use super::tms::read_tms;
use crate::netlist::{Graph, Input, Op, Pad};
use crate::source::Spanned;
use crate::words::OpKind;
use crate::yaml::{Node, NodeKind};
use crate::{Finding, Rule};
use tenon_base::Count;

/// Reads one graph: `target_device` and `input_count`; every other key is an op.
pub(super) fn read_graph(reader: &mut Reader, key: &Node, node: &Node) -> Option<Graph> {
    let name = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("graph '{}'", name.value));
    let target_device = fields.require(reader, "target_device", &name, read_devices);
    let count = |reader: &mut Reader, node: &Node| reader.count(node, 1);
    let input_count = fields.require(reader, "input_count", &name, count);
    let ops = fields.take_all(|_| Some(()));
    let ops = ops
        .into_iter()
        .filter_map(|(_, key, node)| read_op(reader, key, node))
        .collect();
    Some(Graph {
        name,
        target_device: target_device?,
        input_count: input_count?,
        ops,
    })
}

/// The field that a key `input_N_…` sets.
enum InputField {
    Tms,
    Pad,
    Unpad,
}

/// The number and meaning of a key `input_N_tms`, `input_N_pad` or `input_N_unpad`. The number is
/// the digits after the first `_` (netlist 2.3).
fn input_field(key: &str) -> Option<(usize, InputField)> {
    let rest = key.strip_prefix("input_")?;
    let (number, field) = rest.split_once('_')?;
    let field = match field {
        "tms" => InputField::Tms,
        "pad" => InputField::Pad,
        "unpad" => InputField::Unpad,
        _ => return None,
    };
    Some((number.parse().ok()?, field))
}

fn read_op(reader: &mut Reader, key: &Node, node: &Node) -> Option<Op> {
    let name = reader.text(key)?;
    let mut fields = Fields::new(reader, node, format!("op '{}'", name.value));
    let f = &mut fields;
    let kind: Option<Spanned<OpKind>> = f.require(reader, "type", &name, Reader::word);
    let location = f.take(reader, "grid_loc");
    let grid_loc = location.and_then(|node| reader.pair(node, 0));
    let grid_transpose = f.optional(reader, "grid_transpose", Reader::boolean);
    let blocking = read_blocking(reader, f, &name);
    let inputs = read_inputs(reader, f, &name);
    let out_df = f.require(reader, "out_df", &name, Reader::word);
    let intermed_df = f.require(reader, "intermed_df", &name, Reader::word);
    let acc_df = f.optional(reader, "acc_df", Reader::word);
    let math_fidelity = f.require(reader, "math_fidelity", &name, Reader::word);
    let buf_size_mb = f.optional(reader, "buf_size_mb", |reader, node| reader.count(node, 1));
    let untilize_output = f.optional(reader, "untilize_output", Reader::boolean);
    let gradient_op = f.optional(reader, "gradient_op", Reader::boolean);
    let attributes = f.or_empty(reader, "attributes", |reader, node| {
        read_attributes(reader, node, &name)
    });
    let input_buf_min_size_tiles = f.or_empty(reader, "input_buf_min_size_tiles", Reader::counts);
    let input_dram_io_buf_size_tiles =
        f.or_empty(reader, "input_dram_io_buf_size_tiles", Reader::counts);
    let overlay_size = f.optional(reader, "overlay_size", |reader, node| reader.count(node, 0));
    let forked_dram_inputs = f.or_empty(reader, "forked_dram_inputs", read_forked);
    fields.finish(reader);
    let one_mblock = Spanned::new(1, name.span);
    let kind = kind?;
    if location.is_none() && kind.value != OpKind::EthernetDatacopy {
        reader.missing::<()>("grid_loc", &name);
    }
    Some(Op {
        name,
        kind,
        grid_loc,
        grid_transpose,
        blocking: blocking?,
        inputs: inputs?,
        out_df: out_df?,
        intermed_df: intermed_df?,
        acc_df,
        math_fidelity: math_fidelity?,
        buf_size_mb: buf_size_mb.unwrap_or(one_mblock),
        untilize_output,
        gradient_op,
        attributes,
        input_buf_min_size_tiles,
        input_dram_io_buf_size_tiles,
        overlay_size,
        forked_dram_inputs,
    })
}

fn read_inputs(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
    owner: &Spanned<String>,
) -> Option<Vec<Input>> {
    let names = fields.require(reader, "inputs", owner, |reader, node| {
        let nodes = reader.one_or_list(node, "names");
        nodes
            .iter()
            .map(|node| reader.text(node))
            .collect::<Option<Vec<_>>>()
    });
    let formats = fields.require(reader, "in_df", owner, |reader, node| {
        let nodes = reader.one_or_list(node, "data formats");
        let formats: Option<Vec<_>> = nodes.iter().map(|node| reader.word(node)).collect();
        formats.map(|formats| (formats, node.span))
    });
    let manipulations = fields.take_all(input_field);
    let (names, (formats, span)) = (names?, formats?);
    if names.len() != formats.len() {
        let finding = Finding::new(Rule::InputFormats, span, "wrong number of input formats");
        let expected = format!("{}, one for each input", names.len());
        reader.report(finding.expected(expected).found(formats.len()));
    }
    let last = *formats.last()?;
    let formats = formats.into_iter().chain(std::iter::repeat(last));
    let inputs = names.into_iter().zip(formats);
    let mut inputs: Vec<Input> = inputs
        .map(|(name, df)| Input {
            name,
            df,
            tms: Vec::new(),
            unpad: None,
            pad: None,
        })
        .collect();
    for ((number, field), key, node) in manipulations {
        let Some(input) = inputs.get_mut(number) else {
            // A null value for an input that does not exist is accepted.
            if !node.is_null() {
                let finding = Finding::new(Rule::Structure, key.span, "the input does not exist");
                let found = Count(inputs.len(), "input");
                reader.report(finding.expected(format!("an input {number}")).found(found));
            }
            continue;
        };
        match field {
            // The lists of duplicate keys are concatenated (netlist 1.1).
            InputField::Tms => input.tms.extend(read_tms(reader, node)),
            InputField::Pad => input.pad = read_pad(reader, node).or(input.pad),
            InputField::Unpad => input.unpad = read_unpad(reader, node).or(input.unpad),
        }
    }
    Some(inputs)
}

/// `{rt, ct, pad_value}`.
fn read_pad(reader: &mut Reader, node: &Node) -> Option<Spanned<Pad>> {
    let mut fields = Fields::new(reader, node, "a pad");
    let rows = fields.optional(reader, "rt", |reader, node| reader.count(node, 0));
    let columns = fields.optional(reader, "ct", |reader, node| reader.count(node, 0));
    let value = fields.optional(reader, "pad_value", Reader::number);
    fields.finish(reader);
    let pad = Pad {
        rows: rows.map_or(0, |rows| rows.value),
        columns: columns.map_or(0, |columns| columns.value),
        value: value.map_or(0.0, |value| value.value as f32),
    };
    Some(Spanned::new(pad, node.span))
}

/// `{rt, ct}`.
fn read_unpad(reader: &mut Reader, node: &Node) -> Option<Spanned<[u32; 2]>> {
    let mut fields = Fields::new(reader, node, "an unpad");
    let rows = fields.optional(reader, "rt", |reader, node| reader.count(node, 0));
    let columns = fields.optional(reader, "ct", |reader, node| reader.count(node, 0));
    fields.finish(reader);
    let sizes = [rows, columns].map(|size| size.map_or(0, |size| size.value));
    Some(Spanned::new(sizes, node.span))
}

/// A list of `{queue: op}`.
fn read_forked(reader: &mut Reader, node: &Node) -> Vec<(Spanned<String>, Spanned<String>)> {
    let mut forked = Vec::new();
    let maps: Vec<&Node> = match &node.kind {
        NodeKind::Map(_) => vec![node],
        _ => reader
            .list(node, "maps of a queue to an op")
            .iter()
            .collect(),
    };
    for map in maps {
        for (queue, op) in reader.map(map, "a queue to an op") {
            let (queue, op) = (reader.text(queue), reader.text(op));
            forked.extend(queue.zip(op));
        }
    }
    forked
}
