//! The memory plans of the models compared with their lower bound, which no arena can be below.

use super::table::met;
use super::{Options, date};
use crate::{Result, cargo, markdown, models, output, target};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// The strategies, the default first.
const STRATEGIES: [&str; 3] = ["packed", "single-axis-priority", "constant"];

/// The target: how much the arena may exceed the lower bound.
const MAX_EXCESS: f64 = 0.05;

/// The output of `tenon info --memory --json`.
#[derive(Deserialize)]
struct MemoryInfo {
    memory: Plan,
}

#[derive(Deserialize)]
struct Plan {
    arena_bytes: u64,
    live_bytes: u64,
    excess: f64,
    variables: Vec<serde_json::Value>,
}

/// The section of the page: a row per model.
pub(super) fn section(options: &Options) -> Result<String> {
    // The plan does not depend on the build profile of the compiler.
    crate::run(cargo().args(["build", "--package", "tenon-cli"]))?;
    let tenon = target().join("debug/tenon");
    let names: Vec<String> = options.models().map(|(name, _)| name.to_string()).collect();
    let folder = models(&names)?;
    let mut rows = Vec::new();
    for name in &names {
        let plans = STRATEGIES.map(|strategy| plan(&tenon, &folder, name, strategy));
        let [packed, single, constant] = plans;
        let (packed, single, constant) = (packed?, single?, constant?);
        let cell = |plan: &Plan| {
            let more = plan.arena_bytes as f64 / packed.live_bytes.max(1) as f64 - 1.0;
            format!("{} | {:.1} %", kb(plan.arena_bytes), more * 100.0)
        };
        rows.push(format!(
            "{name} | {} | {} | {} | {} | {} | {}",
            packed.variables.len(),
            kb(packed.live_bytes),
            cell(&packed),
            met(packed.excess <= MAX_EXCESS),
            cell(&single),
            cell(&constant)
        ));
    }
    Ok(format!(
        "Made by `cargo xtask bench --memory --write`, date {}. Lower bound: the largest sum of \
         the intermediate values and the scratch memory that are alive at one kernel; no arena can be smaller. \
         Target: at most {} % more.\n\n{}",
        date()?,
        MAX_EXCESS * 100.0,
        markdown::table(
            "model | values | lower bound | packed | more | met | single-axis-priority | more | constant | more",
            rows
        ),
    ))
}

/// The memory plan of a model with a strategy.
fn plan(tenon: &Path, folder: &Path, name: &str, strategy: &str) -> Result<Plan> {
    let model = folder.join(format!("{name}.onnx"));
    let package = folder.join(format!("{name}.memory.neff"));
    let mut compile = Command::new(tenon);
    compile.arg("compile").arg(&model).arg("-o").arg(&package);
    compile.args(["--memory-strategy", strategy]);
    crate::run(compile.stdout(Stdio::null()))?;
    let mut command = Command::new(tenon);
    let text = output(
        command
            .arg("info")
            .arg(&package)
            .args(["--memory", "--json"]),
    )?;
    let info: MemoryInfo = serde_json::from_str(&text).map_err(|e| format!("{command:?}: {e}"))?;
    std::fs::remove_file(&package).map_err(|e| format!("{}: {e}", package.display()))?;
    Ok(info.memory)
}

fn kb(bytes: u64) -> String {
    format!("{} kB", bytes.div_ceil(1000))
}
