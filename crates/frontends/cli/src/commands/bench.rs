//! `tenon bench`

use super::load::{self, ModelSource};
use super::runner::Runner;
use crate::flags::Bench;
use crate::output::{self, say};
use crate::progress;
use crate::table::duration;
use serde_json::json;
use std::time::{Duration, Instant};
use tenon::{Error, ErrorKind, Location, Result, RunOptions};

/// Runs before measuring.
const WARM_UP: usize = 5;
/// Fewest runs measured, however long they take.
const LEAST_RUNS: usize = 5;

pub fn run(flags: &Bench) -> Result<()> {
    if !(flags.seconds >= 0.0 && flags.seconds < 1e6) {
        return Err(Error::new(
            ErrorKind::Usage,
            "--seconds is not a valid duration",
        ));
    }
    match &flags.file {
        None => ceiling(flags.json),
        Some(file) => model(file, flags).map_err(|error| error.at(Location::file(file))),
    }
}

fn ceiling(json: bool) -> Result<()> {
    let one = tenon::machine::multiply_add_ceiling(1);
    let all = tenon::machine::multiply_add_ceiling(usize::MAX);
    if json {
        output::json(json!({"one_thread_gflops": one, "all_threads_gflops": all}))?;
    } else {
        say!("f32 multiply-adds: {one:.0} GFLOP/s on one thread, {all:.0} on all")?;
    }
    Ok(())
}

fn model(file: &std::path::Path, flags: &Bench) -> Result<()> {
    let control = progress::control();
    let model = ModelSource {
        file,
        inputs: &flags.inputs,
        flags: &flags.model,
        any_size: false,
    };
    let (loaded, mut given) = load::load(&model, flags.threading.threads, &control)?;
    let model = &loaded.model;
    let mut inputs = flags.inputs.clone();
    inputs.random.get_or_insert(0);
    let image = load::image_options(model.metadata(), &inputs.pictures)?;
    let tensors = given.tensors(&load::signature(model), &inputs, &image)?;
    let mut runner = Runner::new(model, &tensors)?;
    let mut run = || runner.run(RunOptions::default());
    let start = Instant::now();
    run()?;
    let first = start.elapsed();
    for _ in 0..WARM_UP {
        run()?;
    }
    let mut times = Vec::with_capacity(1 << 20);
    let end = Instant::now() + Duration::from_secs_f64(flags.seconds);
    while times.len() < LEAST_RUNS || Instant::now() < end {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let threads = flags
        .threading
        .threads
        .unwrap_or(tenon::machine::threads())
        .min(tenon::machine::threads());
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let peak = peak_rss_kb();
    if flags.json {
        output::json(json!({
            "load_ms": loaded.load_time.as_secs_f64() * 1e3,
            "first_ms": first.as_secs_f64() * 1e3,
            "median_us": micros(at(0.5)),
            "p99_us": micros(at(0.99)),
            "min_us": micros(times[0]),
            "runs": times.len(),
            "threads": threads,
            "peak_rss_kb": peak,
        }))?;
    } else {
        say!("load    {}", duration(loaded.load_time))?;
        say!("first   {}", duration(first))?;
        say!("median  {}", duration(at(0.5)))?;
        say!("p99     {}", duration(at(0.99)))?;
        say!("min     {}", duration(times[0]))?;
        say!(
            "{} on {}, peak memory {} MB",
            output::count(times.len(), "run"),
            output::count(threads, "thread"),
            peak / 1024
        )?;
    }
    Ok(())
}

/// Peak resident memory of this process in kB, 0 where the system does not report it.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
