//! The placement report in full.

use crate::output::say;
use crate::table::{Table, bytes};
use tenon::Result;
use tenon::inspect::{MemoryTraffic, PlacementReport};

/// The names of fused tensors that are printed; further ones are counted.
const NAMES: usize = 10;

/// A line about where nodes run; `None` for a netlist, whose ops do not run on backends.
pub fn line(report: &PlacementReport) -> Option<String> {
    (!report.nodes.is_empty()).then(|| report.to_string())
}

/// Prints a row for every node: its backend, its subgraph, its bytes, and the reasons; then the values that pass
/// between backends, and the bytes of an execution.
pub fn print(report: &PlacementReport) -> Result<()> {
    let mut table = Table::new(&[
        "node", "operator", "backend", "subgraph", "reads", "writes", "why",
    ]);
    for node in &report.nodes {
        let hint = node.hint.iter().map(|pattern| format!("hint {pattern}"));
        let converted = node.converted.iter();
        let converted = converted.map(|types| format!("computes {} in {}", types.from, types.to));
        let refusals = node.refusals.iter().map(|refusal| {
            let cause = match refusal.cause.as_str() {
                "" | "preference" => String::new(),
                cause => format!(" ({cause})"),
            };
            format!("not {}{cause}: {}", refusal.backend, refusal.text)
        });
        let weights = node.weights.iter();
        let weights = weights.map(|dtype| format!("weights in {dtype}"));
        let why = hint.chain(converted).chain(weights).chain(refusals);
        let why: Vec<String> = why.collect();
        table.row([
            node.node.clone(),
            node.operator.clone(),
            node.backend.clone(),
            node.subgraph
                .map_or(String::new(), |number| number.to_string()),
            node.read.map_or(String::new(), bytes),
            node.written.map_or(String::new(), bytes),
            why.join("; "),
        ]);
    }
    say!("{table}")?;
    crossings(report)?;
    traffic(&report.traffic)?;
    let mut notes = report.notes.iter();
    notes.try_for_each(|note| say!("\nnote: {note}"))
}

/// Prints the bytes of an execution, and the tensors that are in no buffer.
fn traffic(traffic: &MemoryTraffic) -> Result<()> {
    let (moved, least) = (traffic.moved.map(bytes), traffic.least.map(bytes));
    if let (Some(moved), Some(least)) = (moved, least) {
        say!("\nan execution reads and writes {moved}, {least} at least")?;
    }
    let count = traffic.fused.len();
    if count == 0 {
        return Ok(());
    }
    let names = traffic.fused.iter().take(NAMES);
    let names: Vec<&str> = names.map(String::as_str).collect();
    let more = match count.saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (tensors, are) = if count == 1 {
        ("tensor", "is")
    } else {
        ("tensors", "are")
    };
    let names = names.join(", ");
    say!("{count} intermediate {tensors} of the model {are} in no buffer: {names}{more}")
}

/// Prints a row for every value that passes from one backend to another.
fn crossings(report: &PlacementReport) -> Result<()> {
    let crossings = &report.crossings.values;
    if crossings.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["value", "from", "to", "passes by", "size"]);
    for crossing in crossings {
        table.row([
            crossing.value.clone(),
            crossing.from.join(", "),
            crossing.to.clone(),
            crossing.way.clone(),
            bytes(crossing.bytes),
        ]);
    }
    say!("\n{table}")
}
