//! `cargo xtask bench --limits`: the time of each model beside the least that the machine allows.

use super::table::time;
use super::{Comparison, Files, NO_ROUND, best, made, parsed};
use crate::{Result, markdown, models};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Command;

/// What `tenon profile --json` prints, as far as it is in the table.
#[derive(Deserialize)]
struct Profile {
    ceiling: Ceiling,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Ceiling {
    gflops: f64,
    gigabytes: f64,
}

#[derive(Deserialize)]
struct Node {
    operator: String,
    us: f64,
    flops: Option<u64>,
    bytes: Option<u64>,
}

/// Executions of a profile, whose ceiling is measured beside them.
const RUNS: &str = "20";

/// Operations that instructions for integers of 8 bits execute in the time of one of f32.
const INTEGER_OPERATIONS: u64 = 4;

/// The section of the models.
pub(super) fn section(comparison: &Comparison<'_>) -> Result<String> {
    let options = comparison.options;
    let names: Vec<String> = options.models().map(|(name, _)| name.to_string()).collect();
    let folder = models(&names)?;
    let mut rows = Vec::new();
    for name in &names {
        eprintln!("measuring {name}");
        let files = Files::of(&folder, name);
        let info = comparison.compile(&files)?;
        let constants = info["sizes"]["used_constant_bytes"].as_u64().unwrap_or(0);
        for &threads in &options.threads {
            let mut measured = Vec::new();
            for _ in 0..options.rounds {
                measured.extend(comparison.round(&files, threads, &[])?);
            }
            let median = best(measured.iter()).ok_or(NO_ROUND)?.median_us;
            let profile = profile(comparison, &files, threads)?;
            rows.push(row((name, threads), &profile, constants, median));
        }
    }
    Ok(format!(
        "{}.\nThe least time for the operations of a model is their number divided by the peak in f32, a {INTEGER_OPERATIONS}th of it for \
         products of 8-bit integers; for its bytes it is the size of the constants that an execution reads (at most the bytes moved), divided by the \
         bandwidth of memory. Peaks are those that `tenon profile` measures beside each model. The larger one of both bounds the \
         model. The bytes moved are those that all nodes read and write, most of them in caches.\n\n{}",
        made("--limits --write")?,
        markdown::table(
            "model | threads | operations | constants | bytes moved | for operations | for bytes | bound by | time | ÷ bound | most time in",
            rows
        ),
    ))
}

fn profile(comparison: &Comparison<'_>, files: &Files, threads: usize) -> Result<Profile> {
    let mut command = Command::new(comparison.tenon);
    command.arg("profile").arg(&files.package).arg("--json");
    command.arg("--input").arg(&files.arrays);
    parsed(command.args(["--threads", &threads.to_string(), "--runs", RUNS]))
}

/// A number of operations.
fn count(operations: u64) -> String {
    let operations = operations as f64;
    match operations {
        1e8.. => format!("{:.2} G", operations / 1e9),
        1e5.. => format!("{:.2} M", operations / 1e6),
        _ => format!("{:.1} k", operations / 1e3),
    }
}

fn row((name, threads): (&str, usize), profile: &Profile, constants: u64, median: f64) -> String {
    let Ceiling { gflops, gigabytes } = profile.ceiling;
    let nodes = profile.nodes.iter();
    let is_integer = |node: &Node| node.operator.starts_with("tenon.Quantized");
    let operations = |node: &Node| {
        let flops = node.flops.unwrap_or(0);
        if is_integer(node) {
            flops / INTEGER_OPERATIONS
        } else {
            flops
        }
    };
    let flops: u64 = nodes.clone().map(|node| node.flops.unwrap_or(0)).sum();
    let for_operations = nodes.clone().map(operations).sum::<u64>() as f64 / gflops / 1e3;
    let moved: u64 = nodes.clone().map(|node| node.bytes.unwrap_or(0)).sum();
    // A table of which rows are gathered is not read as a whole.
    let constants = constants.min(moved);
    let for_bytes = constants as f64 / gigabytes / 1e3;
    let (bound, least) = match for_operations >= for_bytes {
        true => ("operations", for_operations),
        false => ("bytes", for_bytes),
    };
    let mut by_operator: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes {
        *by_operator.entry(&node.operator).or_default() += node.us;
    }
    let all: f64 = by_operator.values().sum();
    let largest = by_operator.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (operator, share) = largest.unwrap_or_default();
    let share = share / all.max(f64::MIN_POSITIVE) * 100.0;
    format!(
        "{name} | {threads} | {} | {:.1} MB | {:.1} MB | {} | {} | {bound} | {} | {:.2} | {operator} ({share:.0} %)",
        count(flops),
        constants as f64 / 1e6,
        moved as f64 / 1e6,
        time(for_operations),
        time(for_bytes),
        time(median),
        median / least.max(f64::MIN_POSITIVE),
    )
}
