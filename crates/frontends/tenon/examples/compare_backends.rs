//! Compares two backends operator by operator:
//! `cargo run -p tenon --example compare_backends [MODEL.onnx [FIRST SECOND]]`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use tenon::compare::{CompareOptions, Comparison, Tolerance, compare_backends};
use tenon::inputs::random_tensor;
use tenon::{Compiler, LoadOptions, Result, Tensor};

/// Compares on random inputs, with a tolerance of 10^-3 of the largest element.
pub fn compare(onnx: &Path, first: &str, second: &str) -> Result<Comparison> {
    let package = Compiler::new()
        .backends([first, second])
        .compile_file(onnx)?;
    let model = package.load(&LoadOptions::new())?;
    let inputs = model.inputs().iter();
    let inputs: Vec<(&str, Tensor)> = inputs
        .map(|input| Ok((input.name.as_str(), random_tensor(&input.ty, 1)?)))
        .collect::<Result<_>>()?;
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, x)| (*name, x)).collect();
    let tolerance = Tolerance {
        relative: Some(1e-3),
        ..Tolerance::default()
    };
    let options = CompareOptions::new(first, second)
        .tolerance(tolerance)
        .fused_nodes(package.fused_nodes());
    compare_backends(&package.to_neff()?, &inputs, &options)
}

fn main() -> Result<()> {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/bert.onnx");
    let mut arguments = std::env::args().skip(1);
    let onnx = arguments.next().map_or(small, PathBuf::from);
    let first = arguments.next().unwrap_or_else(|| "CpuAcc".into());
    let second = arguments.next().unwrap_or_else(|| "CpuRef".into());
    let comparison = compare(&onnx, &first, &second)?;
    println!(
        "{} operators agree, {} could not be compared",
        comparison.compared.len(),
        comparison.skipped.len()
    );
    if let Some(node) = comparison.largest() {
        let difference = node.difference.relative;
        println!("largest difference: {difference:.1e} at {}", node.node);
    }
    if let Some(divergence) = &comparison.divergence {
        let difference = divergence.difference.relative;
        println!(
            "{} ({}) differs by {difference:.1e}",
            divergence.node, divergence.operator
        );
    }
    Ok(())
}
