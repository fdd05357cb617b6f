//! `cargo xtask bench --dynamic`: models whose sizes are known only when they run, one package for all sizes, compared
//! with onnxruntime, OpenVINO and packages of fixed sizes.

use super::table::{met, time};
use super::{Comparison, Files, Measurement, ONNXRUNTIME, OPENVINO, made, parsed};
use crate::{Result, cargo, markdown, models, root};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tokens that are generated after the first.
const STEPS: usize = 255;
/// The past of the package of fixed sizes: that of the middle step.
const PAST: usize = 127;
/// The lengths of sequences, none a multiple of another.
const LENGTHS: [&str; 8] = ["128", "24", "77", "51", "101", "9", "64", "37"];
/// Models that run on stored samples, with the count of samples.
const SAMPLES: [(&str, usize); 7] = [
    ("ssd", 3),
    ("retinanet", 3),
    ("faster-rcnn", 3),
    ("mask-rcnn", 3),
    ("vad", 4),
    ("speech-encoder", 2),
    ("speech-decoder", 3),
];
/// The largest difference of an output from onnxruntime's, relative to its largest magnitude.
const MAX_DIFFERENCE: f64 = 1e-3;
const PEERS: [&str; 2] = ["onnxruntime", "openvino"];

#[derive(Deserialize, Clone)]
struct Decoding {
    seconds: f64,
    tokens: Vec<i64>,
}

#[derive(Deserialize)]
struct Length {
    length: usize,
    first_us: f64,
    later_us: f64,
    /// Of Tenon: a package of this length.
    fixed_us: Option<f64>,
}

#[derive(Deserialize)]
struct Instances {
    bind_us: f64,
    shapes: u64,
    early_kb: u64,
    late_kb: u64,
    idle_bytes: u64,
    instance_bytes: u64,
}

#[derive(Deserialize)]
struct Samples {
    medians_us: Vec<f64>,
    differences: Vec<f64>,
}

/// The section of the page; of models with these names, if there are any.
pub fn section(comparison: &Comparison<'_>) -> Result<String> {
    let chosen = |name: &str| comparison.options.chooses(name);
    let all = ["gpt2-dynamic", "bert-dynamic", "nodes-dynamic"].into_iter();
    let all = all.chain(SAMPLES.map(|(name, _)| name));
    let needed: Vec<String> = all.filter(|name| chosen(name)).map(str::to_owned).collect();
    let folder = models(&needed)?;
    let mut text = format!(
        "{}. One package for all sizes, compared with {} \
         and {} on the same files in alternating rounds; the best of {} rounds.\n",
        made("--dynamic --write")?,
        ONNXRUNTIME.name,
        OPENVINO.name,
        comparison.options.rounds
    );
    let dynamic = Dynamic {
        comparison,
        folder: &folder,
    };
    if chosen("gpt2-dynamic") {
        text += &dynamic.decoding()?;
    }
    if chosen("bert-dynamic") {
        text += &dynamic.lengths()?;
    }
    if chosen("nodes-dynamic") {
        text += &dynamic.instances()?;
    }
    let samples = SAMPLES.into_iter().filter(|(name, _)| chosen(name));
    let samples: Vec<(&str, usize)> = samples.collect();
    if !samples.is_empty() {
        text += &dynamic.samples(&samples)?;
    }
    Ok(text)
}

/// The programs that are compared, and the folder of the models.
struct Dynamic<'a> {
    comparison: &'a Comparison<'a>,
    folder: &'a Path,
}

impl Dynamic<'_> {
    /// GPT-2 with a growing cache.
    fn decoding(&self) -> Result<String> {
        let files = Files::of(self.folder, "gpt2-dynamic");
        self.comparison.compile_with(&files, &["--auto-state"])?;
        let fixed = self.fixed_step(&files)?;
        let mut rows = Vec::new();
        for &threads in &self.comparison.options.threads {
            eprintln!("decoding, {threads} threads");
            let count = threads.to_string();
            let steps = STEPS.to_string();
            let mut best: [Option<Decoding>; 3] = [const { None }; 3];
            let mut step_us = f64::INFINITY;
            for _ in 0..self.comparison.options.rounds {
                let mut ours = bench();
                ours.arg("decode")
                    .arg(&files.package)
                    .args(["1", &count, &steps]);
                let mut found: Vec<Option<Decoding>> = vec![Some(parsed(&mut ours)?)];
                let mut bench = Command::new(self.comparison.tenon);
                bench.arg("bench").arg(&fixed).args(["--json", "--input"]);
                bench.arg(self.folder.join("gpt2-dynamic.1.npz"));
                bench.args(["--threads", &count, "--seconds", "2"]);
                let step: Measurement = parsed(&mut bench)?;
                step_us = step_us.min(step.median_us);
                for peer in PEERS {
                    let mut theirs = self.peer(peer, "decode", &files.model);
                    // OpenVINO 2026.4.1 refuses the empty cache of the first step.
                    found.push(parsed(theirs.args(["1", &count, &steps])).ok());
                }
                for (best, found) in best.iter_mut().zip(found) {
                    let Some(found): Option<Decoding> = found else {
                        continue;
                    };
                    if best
                        .as_ref()
                        .is_none_or(|best| found.seconds < best.seconds)
                    {
                        *best = Some(found);
                    }
                }
            }
            let [Some(ours), Some(onnxruntime), openvino] = &best else {
                return Err(super::NO_ROUND.into());
            };
            let ratio = ours.seconds / onnxruntime.seconds;
            let steps = ours.seconds * 1e6 / (STEPS as f64 * step_us);
            rows.push(format!(
                "{threads} | {} | {} | {ratio:.2} | {} | {} | {} | {steps:.2} | {} | {}",
                time(ours.seconds * 1e6),
                time(onnxruntime.seconds * 1e6),
                met(ratio <= 0.85),
                openvino
                    .as_ref()
                    .map_or("fails".into(), |found| time(found.seconds * 1e6)),
                time(step_us),
                met(steps <= 1.05),
                met(ours.tokens == onnxruntime.tokens),
            ));
        }
        let head = format!(
            "threads | Tenon | onnxruntime | ratio | met ≤ 0.85 | OpenVINO | fixed step | ÷ {STEPS} fixed steps | \
             met ≤ 1.05 | equal tokens"
        );
        Ok(format!(
            "\nGPT-2, {STEPS} greedy steps after a prompt of one token, the cache an input and an output for each layer: a \
             session of Tenon whose cache grows in place, IO binding of onnxruntime. The fixed step is that of a package for {PAST} cached \
             positions.\n\n{}",
            markdown::table(&head, rows)
        ))
    }

    /// The package of one step with a past of fixed size.
    fn fixed_step(&self, files: &Files) -> Result<PathBuf> {
        let package = self.folder.join("gpt2-dynamic.fixed.neff");
        let mut compile = Command::new(self.comparison.tenon);
        compile
            .arg("compile")
            .arg(&files.model)
            .arg("-o")
            .arg(&package);
        compile.args(["--dim", "new=1", "--dim", &format!("past={PAST}")]);
        super::run_quietly(&mut compile)?;
        Ok(package)
    }

    /// BERT with a new length in each call.
    fn lengths(&self) -> Result<String> {
        let model = self.folder.join("bert-dynamic.onnx");
        let mut rows = Vec::new();
        for &threads in &self.comparison.options.threads {
            eprintln!("lengths, {threads} threads");
            let count = threads.to_string();
            let mut best: [Vec<Length>; 3] = [const { Vec::new() }; 3];
            for _ in 0..self.comparison.options.rounds {
                let mut ours = bench();
                ours.arg("lengths").arg(&model).arg(&count).args(LENGTHS);
                let mut found: Vec<Vec<Length>> = vec![parsed(&mut ours)?];
                for peer in PEERS {
                    let mut theirs = self.peer(peer, "lengths", &model);
                    found.push(parsed(theirs.arg(&count).args(LENGTHS))?);
                }
                for (best, found) in best.iter_mut().zip(found) {
                    merge(best, found);
                }
            }
            let [ours, onnxruntime, openvino] = &best;
            for ((ours, onnxruntime), openvino) in ours.iter().zip(onnxruntime).zip(openvino) {
                let fixed = ours.fixed_us.unwrap_or(f64::NAN);
                let (more, ratio) = (ours.first_us - ours.later_us, ours.later_us / fixed);
                rows.push(format!(
                    "{threads} | {} | {} | {} | {:.2} ms | {} | {} | {ratio:.2} | {} | {} | {}",
                    ours.length,
                    time(ours.first_us),
                    time(ours.later_us),
                    more / 1e3,
                    met(more <= 1e3),
                    time(fixed),
                    met(ratio <= 1.1),
                    time(onnxruntime.later_us),
                    time(openvino.later_us),
                ));
            }
        }
        let head = "threads | length | first call | later call | more | met ≤ 1 ms | fixed package | ratio | met ≤ 1.1 | \
                    onnxruntime | OpenVINO";
        Ok(format!(
            "\nBERT-base, batch 1, a sequence of another length in each call. First calls of a length (in five loads of the package), later \
             ones, and those of a package compiled for it: the best of 5.\n\n{}",
            markdown::table(head, rows)
        ))
    }

    /// A graph of many small nodes.
    fn instances(&self) -> Result<String> {
        eprintln!("instances");
        let mut command = bench();
        command
            .arg("instances")
            .arg(self.folder.join("nodes-dynamic.onnx"));
        let found: Instances = parsed(&mut command)?;
        // What the instances keep, and 16 MiB for the allocator.
        let grown = found.late_kb.saturating_sub(found.early_kb);
        let bounded = found.idle_bytes <= found.instance_bytes && grown <= 16 << 10;
        let row = format!(
            "{} | {} | {} MB | {} MB | {} MB | {}",
            time(found.bind_us),
            met(found.bind_us <= 1e3),
            found.early_kb >> 10,
            found.late_kb >> 10,
            found.idle_bytes >> 20,
            met(bounded),
        );
        let head =
            "instance | met ≤ 1 ms | memory early | memory late | kept by instances | bounded";
        Ok(format!(
            "\n1,000 operators on vectors of one symbolic size, {} sizes in turn: the median time in which an instance is \
             made, and the resident memory after a tenth of the sizes and after all.\n\n{}",
            found.shapes,
            markdown::table(head, [row])
        ))
    }

    /// Models on their stored samples.
    fn samples(&self, models: &[(&str, usize)]) -> Result<String> {
        let mut rows = Vec::new();
        for &(name, count) in models {
            let files = Files::of(self.folder, name);
            self.comparison.compile(&files)?;
            let arrays: Vec<PathBuf> = (1..=count)
                .map(|number| self.folder.join(format!("{name}.{number}.npz")))
                .collect();
            for &threads in &self.comparison.options.threads {
                eprintln!("measuring {name}, {threads} threads");
                let (ours, peers) = self.sampled(&files, &arrays, threads)?;
                for sample in 0..count {
                    let at = |medians: &[f64]| medians.get(sample).copied().unwrap_or(f64::NAN);
                    let [onnxruntime, openvino] = [at(&peers[0]), at(&peers[1])];
                    let (tenon, difference) = (at(&ours.medians_us), at(&ours.differences));
                    let ratio = tenon / onnxruntime;
                    let other = match openvino.is_nan() {
                        true => "fails".to_owned(),
                        false => time(openvino),
                    };
                    rows.push(format!(
                        "{name} | {} | {threads} | {} | {} | {ratio:.2} | {} | {other} | {difference:.0e} | {}",
                        sample + 1,
                        time(tenon),
                        time(onnxruntime),
                        met(ratio <= 1.2),
                        met(difference <= MAX_DIFFERENCE),
                    ));
                }
            }
        }
        let head = "model | sample | threads | Tenon | onnxruntime | ratio | met ≤ 1.2 | OpenVINO | difference | met ≤ 1e-3";
        Ok(format!(
            "\nModels on samples of several sizes, which take turns. The difference is the largest of all outputs, \
             relative to their largest magnitude.\n\n{}",
            markdown::table(head, rows)
        ))
    }

    /// The best medians of the samples: Tenon's, then those of each peer; none of a peer that fails.
    fn sampled(
        &self,
        files: &Files,
        arrays: &[PathBuf],
        threads: usize,
    ) -> Result<(Samples, Vec<Vec<f64>>)> {
        let (count, seconds) = (
            threads.to_string(),
            self.comparison.options.seconds.to_string(),
        );
        let mut ours: Option<Samples> = None;
        let mut peers = vec![Vec::new(); PEERS.len()];
        for _ in 0..self.comparison.options.rounds {
            let mut command = bench();
            command
                .arg("samples")
                .arg(&files.package)
                .args([&count, &seconds]);
            let mut found: Samples = parsed(command.args(arrays))?;
            if let Some(before) = &ours {
                found.medians_us = smaller(&before.medians_us, found.medians_us);
            }
            ours = Some(found);
            for (name, best) in PEERS.into_iter().zip(&mut peers) {
                let mut theirs = self.peer(name, "samples", &files.model);
                theirs.args([&count, &seconds]).args(arrays);
                match parsed(&mut theirs) {
                    Ok(found) => *best = smaller(best, found),
                    Err(_) if name != PEERS[0] => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((ours.ok_or(super::NO_ROUND)?, peers))
    }

    fn peer(&self, runtime: &str, task: &str, model: &Path) -> Command {
        let mut command = Command::new(self.comparison.python);
        command.arg(root().join("xtask/python/dynamic_sizes.py"));
        command.args([runtime, task]).arg(model);
        command
    }
}

/// The program of Tenon's measurements.
fn bench() -> Command {
    let mut command = cargo();
    command.args([
        "bench",
        "--quiet",
        "--package",
        "tenon",
        "--bench",
        "dynamic_sizes",
        "--",
    ]);
    command
}

/// The smaller of each pair; `found` if nothing was measured before.
fn smaller(before: &[f64], found: Vec<f64>) -> Vec<f64> {
    let before = before
        .iter()
        .copied()
        .chain(std::iter::repeat(f64::INFINITY));
    found
        .into_iter()
        .zip(before)
        .map(|(a, b)| a.min(b))
        .collect()
}

/// Keeps the best times of each length.
fn merge(best: &mut Vec<Length>, found: Vec<Length>) {
    if best.is_empty() {
        *best = found;
        return;
    }
    for (best, found) in best.iter_mut().zip(found) {
        best.later_us = best.later_us.min(found.later_us);
        best.first_us = best.first_us.min(found.first_us);
        let fixed = [best.fixed_us, found.fixed_us].into_iter().flatten();
        best.fixed_us = fixed.reduce(f64::min);
    }
}
