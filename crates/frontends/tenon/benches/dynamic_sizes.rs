//! Models whose sizes are known only when they run: one measurement a process, printed as JSON, so that
//! `cargo xtask bench --dynamic` can alternate with other runtimes.
//!
//! `decode PACKAGE PROMPT THREADS STEPS`, `lengths MODEL.onnx THREADS LENGTH...`, `instances MODEL.onnx`,
//! `samples PACKAGE THREADS SECONDS SAMPLE.npz...`

#![allow(clippy::print_stdout, reason = "its JSON is what it is for")]

use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tenon::generate::{GenerateOptions, generate};
use tenon::tensor::{convert, npy};
use tenon::{Compiler, DataType, Error, ErrorKind, LoadOptions, Model, Result, Tensor, TensorType};

/// Calls of one length, of which the best counts: noise only adds.
const CALLS: usize = 5;
/// Sets of sizes that follow each other.
const SHAPES: u64 = 10_000;
/// The distance of the sizes that are executed; the others are only bound.
const RUN_EVERY: u64 = 20;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let found = match arguments[..] {
        ["decode", package, prompt, threads, steps] => {
            let model = Model::load_with(package, &limited(threads)?)?;
            decode(&model, number(prompt)?, number(steps)?)?
        }
        ["lengths", model, threads, ref all @ ..] => {
            let all: Vec<usize> = all
                .iter()
                .map(|length| number(length))
                .collect::<Result<_>>()?;
            lengths(model.as_ref(), &all, &limited(threads)?)?
        }
        ["samples", package, threads, seconds, ref files @ ..] => {
            let model = Model::load_with(package, &limited(threads)?)?;
            samples(&model, number(seconds)?, files)?
        }
        ["instances", model] => instances(model.as_ref())?,
        // `cargo bench` without a model.
        _ => return Ok(()),
    };
    println!("{found}");
    Ok(())
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N> {
    text.parse()
        .map_err(|_| Error::new(ErrorKind::Usage, "an argument is no number").found(text))
}

fn limited(threads: &str) -> Result<LoadOptions> {
    Ok(LoadOptions::new().threads(number::<usize>(threads)?))
}

/// Greedy decoding with a growing cache: the time of all executions after the prompt, and the tokens.
fn decode(model: &Model, prompt: usize, steps: usize) -> Result<Value> {
    let mut session = model.session()?;
    let ids: Vec<i64> = (0..prompt as i64).map(|at| at * 37 % 199 + 1).collect();
    let ids = Tensor::from_slice([1, prompt], &ids)?;
    let inputs = [("input_ids", &ids)];
    let options = GenerateOptions::new();
    // The prompt and a few steps, so that memory and threads are ready.
    generate(&mut session, &inputs, 3, &options, |_| {})?;
    session.reset();
    let made = generate(&mut session, &inputs, steps + 1, &options, |_| {})?;
    Ok(json!({"seconds": made.decode.as_secs_f64(), "tokens": made.tokens[0]}))
}

/// The best first and the best later call of each length, and the best call of a package of that length. Each model has
/// one first call of a length: several are loaded, so that the same number of calls of each kind is compared.
fn lengths(file: &Path, all: &[usize], options: &LoadOptions) -> Result<Value> {
    let compiled = Compiler::new().compile_file(file)?;
    let models = (0..CALLS).map(|_| compiled.load(options));
    let models: Vec<Model> = models.collect::<Result<_>>()?;
    for model in &models {
        // The first call prepares what all lengths share.
        timed(model, &tokens(16)?)?;
    }
    let mut rows = Vec::new();
    for &length in all {
        let inputs = tokens(length)?;
        let fixed = Compiler::new().dim("batch", 1).dim("sequence", length);
        let fixed = fixed.compile_file(file)?.load(options)?;
        let [mut first, mut later, mut fixed_best] = [Duration::MAX; 3];
        for model in &models {
            first = first.min(timed(model, &inputs)?);
            later = later.min(timed(model, &inputs)?);
            fixed_best = fixed_best.min(timed(&fixed, &inputs)?);
        }
        rows.push(json!({
            "length": length,
            "first_us": micros(first),
            "later_us": micros(later),
            "fixed_us": micros(fixed_best),
        }));
    }
    Ok(json!(rows))
}

fn tokens(length: usize) -> Result<[Tensor; 2]> {
    let ids: Vec<i64> = (0..length as i64).map(|at| at * 31 % 997).collect();
    Ok([
        Tensor::from_slice([1, length], &ids)?,
        Tensor::from_slice([1, length], &vec![1i64; length])?,
    ])
}

fn timed(model: &Model, [ids, mask]: &[Tensor; 2]) -> Result<Duration> {
    let start = Instant::now();
    model.run(&[("input_ids", ids), ("attention_mask", mask)])?;
    Ok(start.elapsed())
}

/// The median time of each sample, one after the other in turn, and the largest difference from its outputs, relative
/// to their largest magnitude.
fn samples(model: &Model, seconds: f64, files: &[&str]) -> Result<Value> {
    let read = |file: &&str| Ok(npy::read_npz(Path::new(file))?.into_iter().collect());
    let arrays: Vec<Vec<(String, Tensor)>> = files.iter().map(read).collect::<Result<_>>()?;
    let inputs = arrays.iter().map(|arrays| named(arrays, "in."));
    let inputs: Vec<Vec<(&str, &Tensor)>> = inputs.collect();
    let mut differences = Vec::new();
    for (arrays, inputs) in arrays.iter().zip(&inputs) {
        let outputs = model.run(inputs)?;
        let mut largest = 0f64;
        for (name, expected) in named(arrays, "out.") {
            largest = largest.max(difference(outputs.tensor(name)?, expected)?);
        }
        differences.push(largest);
    }
    let mut times = vec![Vec::new(); inputs.len()];
    let end = Instant::now() + Duration::from_secs_f64(seconds * inputs.len() as f64);
    while times.iter().any(|times| times.len() < CALLS) || Instant::now() < end {
        for (inputs, times) in inputs.iter().zip(&mut times) {
            let start = Instant::now();
            model.run(inputs)?;
            times.push(start.elapsed());
        }
    }
    let medians = times.iter_mut().map(|times| {
        times.sort_unstable();
        micros(times[times.len() / 2])
    });
    Ok(json!({"medians_us": medians.collect::<Vec<f64>>(), "differences": differences}))
}

/// The arrays whose names have a prefix.
fn named<'a>(arrays: &'a [(String, Tensor)], prefix: &str) -> Vec<(&'a str, &'a Tensor)> {
    let named = arrays.iter();
    named
        .filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?, tensor)))
        .collect()
}

/// The largest difference relative to the largest magnitude; infinite for another type.
fn difference(found: &Tensor, expected: &Tensor) -> Result<f64> {
    if found.ty() != expected.ty() {
        return Ok(f64::INFINITY);
    }
    let (found, expected) = (
        convert(found, DataType::F64)?,
        convert(expected, DataType::F64)?,
    );
    let expected = expected.as_slice::<f64>().unwrap_or_default();
    let pairs = found.as_slice::<f64>().unwrap_or_default().iter();
    let largest = pairs.zip(expected).map(|(a, b)| (a - b).abs());
    let magnitude = expected
        .iter()
        .fold(1e-30, |largest: f64, x| largest.max(x.abs()));
    Ok(largest.fold(0.0, f64::max) / magnitude)
}

/// The time in which an instance is made, and the memory after many of them.
fn instances(file: &Path) -> Result<Value> {
    let options = LoadOptions::new();
    let model = Compiler::new().compile_file(file)?.load(&options)?;
    let mut times = Vec::new();
    let (mut early_kb, mut idle) = (0, 0);
    for size in 1..=SHAPES {
        let start = Instant::now();
        let instance = model.at(&[("n", size)])?;
        times.push(start.elapsed());
        drop(instance);
        if size % RUN_EVERY == 0 {
            let x = Tensor::zeroed(TensorType::new(DataType::F32, [1, size as usize])?)?;
            model.run(&[("x", &x)])?;
        }
        idle = idle.max(model.idle_bytes());
        // The instances that are kept are as large as they become.
        if size == SHAPES / 10 {
            early_kb = resident_kb();
        }
    }
    times.sort_unstable();
    Ok(json!({
        "bind_us": micros(times[times.len() / 2]),
        "shapes": SHAPES,
        "early_kb": early_kb,
        "late_kb": resident_kb(),
        "idle_bytes": idle,
        "instance_bytes": options.instance_bytes,
    }))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Resident memory of this process in kB, 0 where the system does not report it.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
