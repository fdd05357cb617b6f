//! `cargo xtask bench --ops`: one operator at a time, Tenon beside onnxruntime.
//!
//! The cases are those of `xtask/python/operator_cases.py`.

use super::table::{met, time};
use super::{Comparison, Files, NO_ROUND, ONNXRUNTIME, Options, ceiling, made};
use crate::{Result, markdown, output, root, target};
use std::path::Path;
use std::process::Command;
use tenon_base::Count;

/// Limits of the ratio to onnxruntime: the geometric mean, 95 % of the cases, every case.
const LIMITS: [f64; 3] = [0.9, 1.2, 2.0];

/// A measured case.
struct Row {
    name: String,
    tenon_us: f64,
    onnxruntime_us: f64,
    /// The placement, such as `1 op: 1 CpuAcc`.
    placement: String,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.tenon_us / self.onnxruntime_us
    }

    fn is_on_reference(&self) -> bool {
        self.placement.contains("CpuRef")
    }
}

/// The table of the cases whose names contain one of the given texts.
pub fn section(comparison: &Comparison<'_>) -> Result<String> {
    let folder = target().join("operators");
    let mut list = Command::new(comparison.python);
    list.arg(root().join("xtask/python/operator_cases.py"))
        .arg(&folder)
        .args(&comparison.options.names);
    let names = output(&mut list)?;
    let names: Vec<&str> = names.lines().collect();
    let mut rows = Vec::new();
    for (index, name) in names.iter().enumerate() {
        eprintln!("measuring {name} ({} of {})", index + 1, names.len());
        rows.push(measure(comparison, name, &folder)?);
    }
    if rows.is_empty() {
        return Err("no case has one of these texts in its name".into());
    }
    table(&rows, comparison.options, &ceiling(comparison.tenon)?)
}

/// The number of threads: the first one that is given.
fn threads(options: &Options) -> usize {
    options.threads.first().copied().unwrap_or(1)
}

fn measure(comparison: &Comparison<'_>, name: &str, folder: &Path) -> Result<Row> {
    let files = Files::of(folder, name);
    let info = comparison.compile(&files)?;
    let (mut tenon_us, mut onnxruntime_us) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..comparison.options.rounds {
        let round = comparison.round(&files, threads(comparison.options), &[ONNXRUNTIME])?;
        if let [ours, theirs] = &round[..] {
            tenon_us = tenon_us.min(ours.median_us);
            onnxruntime_us = onnxruntime_us.min(theirs.median_us);
        }
    }
    if tenon_us.is_infinite() {
        return Err(NO_ROUND.into());
    }
    Ok(Row {
        name: name.into(),
        tenon_us,
        onnxruntime_us,
        placement: info["placement"].as_str().unwrap_or_default().into(),
    })
}

fn table(rows: &[Row], options: &Options, ceiling: &serde_json::Value) -> Result<String> {
    let count = rows.len() as f64;
    let mean = (rows.iter().map(|row| row.ratio().ln()).sum::<f64>() / count).exp();
    let within = |limit: f64| rows.iter().filter(|row| row.ratio() <= limit).count();
    let share = within(LIMITS[1]) as f64 / count;
    let largest = rows.iter().map(Row::ratio).fold(0.0, f64::max);
    let on_reference = rows.iter().filter(|row| row.is_on_reference()).count();
    let level = tenon_base::CpuLevel::native().name();
    let summary = [
        format!(
            "{} | {on_reference} | {mean:.2} | {:.0} % | {largest:.1}",
            rows.len(),
            share * 100.0
        ),
        format!("target | 0 | ≤ {} | ≥ 95 % | ≤ {}", LIMITS[0], LIMITS[2]),
        format!(
            "met | {} | {} | {} | {}",
            met(on_reference == 0),
            met(mean <= LIMITS[0]),
            met(share >= 0.95),
            met(largest <= LIMITS[2])
        ),
    ];
    let cases = rows.iter().map(|row| {
        let backend = if row.is_on_reference() {
            "**CpuRef**"
        } else {
            "–"
        };
        format!(
            "{} | {} | {} | {:.2} | {backend}",
            row.name,
            time(row.tenon_us),
            time(row.onnxruntime_us),
            row.ratio()
        )
    });
    Ok(format!(
        "{}, level {level}, ceiling {:.0} GFLOP/s f32 on \
         one thread. Models of one node, {}, {} with bound inputs and outputs, alternating; \
         the best median of {} rounds of {} s.\n\n{}\n{}",
        made("--ops --write")?,
        ceiling["one_thread_gflops"].as_f64().unwrap_or(0.0),
        Count(threads(options), "thread"),
        ONNXRUNTIME.name,
        options.rounds,
        options.seconds,
        markdown::table(
            &format!(
                "cases | on CpuRef | geometric mean | ≤ {} | largest",
                LIMITS[1]
            ),
            summary
        ),
        markdown::table(
            "case | Tenon | onnxruntime | ratio | reference backend",
            cases
        ),
    ))
}
