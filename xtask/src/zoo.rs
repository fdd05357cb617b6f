//! `cargo xtask zoo`: every model of models/zoo.txt, compiled and compared with onnxruntime.

mod page;

use crate::bench::{cpu, date};
use crate::{Result, python, root, run, target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Options of `cargo xtask zoo`.
#[derive(clap::Args)]
pub struct Options {
    /// Compare only the models whose SOURCE-NAME contains one of these texts.
    names: Vec<String>,
    /// Threads of each runtime.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds for each runtime in each of two rounds.
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Compare only the models without a result in target/zoo.
    #[arg(long)]
    missing: bool,
    /// Write the results to docs/coverage.md and docs/coverage.jsonl, which keeps those of models that are not chosen.
    #[arg(long)]
    write: bool,
}

/// Seconds after which a comparison is stopped.
const MAX_SECONDS: u32 = 600;

/// A model of the list.
struct Listed {
    source: String,
    name: String,
}

impl Listed {
    /// The name of its files.
    fn stem(&self) -> String {
        format!("{}-{}", self.source, self.name)
    }
}

/// What zoo_compare.py prints, and when and where it ran.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Comparison {
    /// SOURCE-NAME.
    model: String,
    date: String,
    cpu: String,
    /// Why the model is not exported.
    export: Option<String>,
    /// Why onnxruntime does not run the model.
    onnxruntime: Option<String>,
    /// Why Tenon does not compile or run the model.
    tenon: Option<String>,
    /// How outputs differ.
    differs: Option<String>,
    /// The largest difference of a number, relative to the greatest magnitude of its output.
    difference: f64,
    nodes: usize,
    /// Operators of nodes on other backends than CpuAcc, with the number of nodes.
    others: BTreeMap<String, usize>,
    tenon_us: f64,
    onnxruntime_us: f64,
}

impl Comparison {
    fn is_comparable(&self) -> bool {
        self.export.is_none() && self.onnxruntime.is_none()
    }

    fn compiles(&self) -> bool {
        self.is_comparable() && self.tenon.is_none()
    }

    fn agrees(&self) -> bool {
        self.compiles() && self.differs.is_none()
    }

    /// Tenon's time as a multiple of onnxruntime's, where both were measured.
    fn ratio(&self) -> Option<f64> {
        (self.tenon_us > 0.0 && self.onnxruntime_us > 0.0)
            .then(|| self.tenon_us / self.onnxruntime_us)
    }

    /// The first reason why the model is not in the count of those that agree.
    fn reason(&self) -> Option<&str> {
        let reasons = [&self.export, &self.onnxruntime, &self.tenon, &self.differs];
        reasons.into_iter().find_map(|reason| reason.as_deref())
    }
}

/// Exports the models that are missing, compares the chosen ones, and prints or writes the table.
pub fn zoo(options: &Options) -> Result<()> {
    let folder = target().join("zoo");
    let models = listed()?;
    let chosen: Vec<&Listed> = models
        .iter()
        .filter(|model| {
            let stem = model.stem();
            let named = options.names.iter().any(|name| stem.contains(name));
            (named || options.names.is_empty())
                && !(options.missing && result_file(&folder, &stem).exists())
        })
        .collect();
    if !chosen.is_empty() {
        let interpreter = python::for_zoo()?;
        let mut export = Command::new(&interpreter);
        export.arg(root().join("models/zoo/export.py")).arg(&folder);
        run(export.args(chosen.iter().map(|model| model.stem())))?;
        let packages = python::tenon_package()?;
        for (index, model) in chosen.iter().enumerate() {
            let stem = model.stem();
            let found = Comparison {
                model: stem.clone(),
                date: date()?,
                cpu: cpu(),
                ..compare(&interpreter, &packages, &folder, &stem, options)?
            };
            let outcome = found.reason().unwrap_or("agrees");
            eprintln!("{stem} ({} of {}): {outcome}", index + 1, chosen.len());
            let text = serde_json::to_string(&found).map_err(|error| error.to_string())?;
            write(&result_file(&folder, &stem), &text)?;
        }
    }
    let mut kept = kept()?;
    let results = models
        .into_iter()
        .map(|model| {
            let stem = model.stem();
            let text = std::fs::read_to_string(result_file(&folder, &stem));
            let found = match text {
                Ok(text) => {
                    serde_json::from_str(&text).map_err(|error| format!("{stem}: {error}"))?
                }
                Err(_) => kept.remove(&stem).unwrap_or_else(|| Comparison {
                    export: Some("not compared yet".into()),
                    model: stem,
                    ..Comparison::default()
                }),
            };
            Ok((model, found))
        })
        .collect::<Result<Vec<_>>>()?;
    println!("{}", page::summary(&results));
    if options.write {
        let mut lines = String::new();
        for (_, found) in &results {
            lines += &serde_json::to_string(found).map_err(|error| error.to_string())?;
            lines.push('\n');
        }
        write(&root().join(KEPT), &lines)?;
        let page = page::page(&results, options);
        write(&root().join("docs/coverage.md"), &page)?;
    }
    Ok(())
}

/// The results of the last runs, a line of JSON for each model.
const KEPT: &str = "docs/coverage.jsonl";

/// The results in [`KEPT`] by model.
fn kept() -> Result<BTreeMap<String, Comparison>> {
    let text = std::fs::read_to_string(root().join(KEPT));
    let text = text.map_err(|error| format!("cannot read {KEPT}: {error}"))?;
    let line = |line: &str| {
        let found: Comparison =
            serde_json::from_str(line).map_err(|error| format!("{KEPT}: {error}"))?;
        Ok((found.model.clone(), found))
    };
    text.lines().map(line).collect()
}

/// The models of models/zoo.txt.
fn listed() -> Result<Vec<Listed>> {
    let path = root().join("models/zoo.txt");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let model = |line: &str| {
        let (source, name) = line.split_once(' ')?;
        Some(Listed {
            source: source.into(),
            name: name.into(),
        })
    };
    lines
        .map(|line| model(line).ok_or_else(|| format!("{}: {line:?}", path.display())))
        .collect()
}

fn result_file(folder: &Path, stem: &str) -> std::path::PathBuf {
    folder.join(format!("{stem}.json"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Compares one model in a process, so that whatever happens there is a result.
fn compare(
    interpreter: &Path,
    packages: &Path,
    folder: &Path,
    stem: &str,
    options: &Options,
) -> Result<Comparison> {
    let file = |ending: &str| folder.join(format!("{stem}.{ending}"));
    if !file("onnx").exists() {
        let reason = std::fs::read_to_string(file("failed")).unwrap_or_default();
        return Ok(Comparison {
            export: Some(reason.trim().into()),
            ..Comparison::default()
        });
    }
    let mut command = Command::new("timeout");
    command.arg(MAX_SECONDS.to_string()).arg(interpreter);
    command.env("PYTHONPATH", packages);
    command.arg(root().join("xtask/python/zoo_compare.py"));
    command.args([file("onnx"), file("npz")]);
    command.args([options.threads.to_string(), options.seconds.to_string()]);
    let output = command
        .output()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    Ok(serde_json::from_str(last).unwrap_or_else(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or_default();
        Comparison {
            tenon: Some(format!("the process ended with {}: {last}", output.status)),
            ..Comparison::default()
        }
    }))
}
