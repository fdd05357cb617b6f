//! `cargo xtask bench --python`: the cost of a call from Python, compared with Rust and with onnxruntime.

use super::table::{met, time};
use super::{Comparison, Files, Measurement, NO_ROUND, ONNXRUNTIME, best, made, parsed};
use crate::python as environments;
use crate::{Result, markdown, root, target};
use std::path::Path;
use std::process::Command;

/// The most microseconds that a call from Python may take longer than from Rust.
const MAX_EXCESS: f64 = 2.0;

/// The section of the page: a row for each number of threads.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let options = comparison.options;
    let packages = environments::tenon_package()?;
    let files = Files {
        package: target().join("mlp.python.neff"),
        ..Files::of(&root().join("models/small"), "mlp")
    };
    comparison.compile(&files)?;
    let mut rows = Vec::new();
    for &threads in &options.threads {
        let mut rounds: [Vec<Measurement>; 3] = Default::default();
        for _ in 0..options.rounds {
            let others = comparison.round(&files, threads, &[ONNXRUNTIME])?;
            let python = from_python(comparison, &packages, &files, threads)?;
            for (all, measured) in rounds.iter_mut().zip(others.into_iter().chain([python])) {
                all.push(measured);
            }
        }
        let [Some(rust), Some(onnxruntime), Some(python)] = rounds.map(|all| best(all.iter()))
        else {
            return Err(NO_ROUND.into());
        };
        let excess = python.median_us - rust.median_us;
        let is_met = excess <= MAX_EXCESS && python.median_us < onnxruntime.median_us;
        rows.push(format!(
            "{threads} | {} | {} | {excess:.2} µs | {} | {:.2} | {}",
            time(rust.median_us),
            time(python.median_us),
            time(onnxruntime.median_us),
            python.median_us / onnxruntime.median_us,
            met(is_met)
        ));
    }
    Ok(format!(
        "{}.\nThe median time of an execution on bound tensors of `models/small/mlp.onnx`, which computes 384 products: most \
         of it is the call. Rust: `tenon bench`. Python: `Bindings.run`. {}: `run_with_iobinding`, from Python. They \
         alternate; figures are those of the best round. Target: Python at most {MAX_EXCESS} µs more than Rust, and less \
         than onnxruntime.\n\n{}",
        made("--python --write")?,
        ONNXRUNTIME.name,
        markdown::table(
            "threads | Rust | Python | more | onnxruntime | Python ÷ onnxruntime | met",
            rows
        ),
    ))
}

fn from_python(
    comparison: &Comparison<'_>,
    packages: &Path,
    files: &Files,
    threads: usize,
) -> Result<Measurement> {
    let mut command = Command::new(comparison.python);
    command.env("PYTHONPATH", packages);
    command.arg(root().join("xtask/python/tenon_bench.py"));
    command.args([&files.package, &files.arrays]);
    command.args([threads.to_string(), comparison.options.seconds.to_string()]);
    parsed(&mut command)
}
