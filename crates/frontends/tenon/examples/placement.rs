//! Shows the backend of each node, why other backends did not take it, and the memory plan:
//! `cargo run -p tenon --example placement [MODEL.onnx]`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use tenon::inspect::{Contents, MemoryReport};
use tenon::{Compiler, Result};

/// A line for each node, then a summary and the size of the arena.
pub fn report(onnx: &Path) -> Result<Vec<String>> {
    let compiled = Compiler::new().compile_file(onnx)?;
    let placement = compiled.placement_report();
    let mut lines = Vec::new();
    for node in &placement.nodes {
        lines.push(format!(
            "{}: {} ({})",
            node.backend, node.node, node.operator
        ));
        for refusal in &node.refusals {
            lines.push(format!("    not {}: {}", refusal.backend, refusal.reason));
        }
    }
    lines.push(placement.to_string());
    let contents = Contents::read(&compiled.to_neff()?)?;
    let memory = MemoryReport::new(&contents)?;
    lines.push(format!(
        "arena: {} bytes, {:.1} % more than the live bytes at its peak",
        memory.arena_bytes,
        memory.excess() * 100.0
    ));
    Ok(lines)
}

fn main() -> Result<()> {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/gpt2.onnx");
    let onnx = std::env::args_os().nth(1).map_or(small, PathBuf::from);
    for line in report(&onnx)? {
        println!("{line}");
    }
    Ok(())
}
