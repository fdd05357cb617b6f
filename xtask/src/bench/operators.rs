//! `cargo xtask bench --ops`: one operator at a time, Tenon beside onnxruntime.
//!
//! The cases are those of `xtask/python/operator_cases.py`.

use super::{Measurement, Options, best, ceiling, cpu, date, met, run_quietly, time};
use crate::{Result, output, python, root, target};
use std::path::Path;
use std::process::Command;
use tenon_base::CPU_VARIABLE;

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

/// The table of the cases whose names contain one of `options.names`.
pub fn section(options: &Options, tenon: &Path) -> Result<String> {
    let python = python::for_tests()?;
    let folder = target().join("operators");
    let mut list = Command::new(&python);
    list.arg(root().join("xtask/python/operator_cases.py"))
        .arg(&folder)
        .args(&options.names);
    let names = output(&mut list)?;
    let names: Vec<&str> = names.lines().collect();
    let mut rows = Vec::new();
    for (index, name) in names.iter().enumerate() {
        eprintln!("measuring {name} ({} of {})", index + 1, names.len());
        rows.push(measure(name, tenon, &python, &folder, options)?);
    }
    if rows.is_empty() {
        return Err("no case has one of these texts in its name".into());
    }
    table(&rows, options, &ceiling(tenon)?)
}

fn measure(
    name: &str,
    tenon: &Path,
    python: &Path,
    folder: &Path,
    options: &Options,
) -> Result<Row> {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    let (model, arrays, package) = (file("onnx"), file("npz"), file("neff"));
    let mut compile = Command::new(tenon);
    compile.arg("compile").arg(&model).arg("-o").arg(&package);
    run_quietly(&mut compile)?;
    let info = output(Command::new(tenon).args(["info", "--json"]).arg(&package))?;
    let info: serde_json::Value = serde_json::from_str(&info).map_err(|e| e.to_string())?;
    let (threads, seconds) = (options.threads.to_string(), options.seconds.to_string());
    let mut sides: [Vec<Measurement>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds {
        let mut ours = Command::new(tenon);
        ours.arg("bench").arg(&package).arg("--json");
        ours.arg("--input").arg(&arrays);
        ours.args(["--threads", &threads, "--seconds", &seconds]);
        if let Some(level) = options.cpu {
            ours.env(CPU_VARIABLE, level.name());
        }
        let mut theirs = Command::new(python);
        theirs.arg(root().join("xtask/python/ort_bench.py"));
        theirs.args([&model, &arrays]).args([&threads, &seconds]);
        for (side, command) in sides.iter_mut().zip([&mut ours, &mut theirs]) {
            let text = output(command)?;
            let found = serde_json::from_str(&text);
            side.push(found.map_err(|e| format!("{command:?}: {e}: {text}"))?);
        }
    }
    let [tenon_us, onnxruntime_us] = sides.map(|side| best(&side).map(|best| best.median_us));
    let missing = "no round was measured";
    Ok(Row {
        name: name.into(),
        tenon_us: tenon_us.ok_or(missing)?,
        onnxruntime_us: onnxruntime_us.ok_or(missing)?,
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
    let level = options.cpu.map_or("native", |level| level.name());
    let threads = options.threads;
    let mut text = format!(
        "Made by `cargo xtask bench --ops --write`. Date {}, CPU {}, level {level}, ceiling {:.0} GFLOP/s f32 on \
         one thread. Models of one node, {threads} thread{}, onnxruntime 1.31.1 with bound inputs and outputs, alternating; \
         the best median of {} rounds of {} s.\n\n\
         | cases | on CpuRef | geometric mean | ≤ {} | largest |\n|---|---|---|---|---|\n\
         | {} | {on_reference} | {mean:.2} | {:.0} % | {largest:.1} |\n\
         | target | 0 | ≤ {} | ≥ 95 % | ≤ {} |\n| met | {} | {} | {} | {} |\n\n\
         | case | Tenon | onnxruntime | ratio | reference backend |\n|---|---|---|---|---|\n",
        date()?,
        cpu(),
        ceiling["one_thread_gflops"].as_f64().unwrap_or(0.0),
        if threads == 1 { "" } else { "s" },
        options.rounds,
        options.seconds,
        LIMITS[1],
        rows.len(),
        share * 100.0,
        LIMITS[0],
        LIMITS[2],
        met(on_reference == 0),
        met(mean <= LIMITS[0]),
        met(share >= 0.95),
        met(largest <= LIMITS[2]),
    );
    for row in rows {
        let backend = if row.is_on_reference() {
            "**CpuRef**"
        } else {
            "–"
        };
        text += &format!(
            "| {} | {} | {} | {:.2} | {backend} |\n",
            row.name,
            time(row.tenon_us),
            time(row.onnxruntime_us),
            row.ratio()
        );
    }
    Ok(text)
}
