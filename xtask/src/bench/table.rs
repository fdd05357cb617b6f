//! The tables of models: latencies, start-up times, compilations.

use super::{COMPILE_MEMORY, COMPILE_SECONDS, Latency, Options, PEERS, Row, made};
use crate::{Result, markdown};

/// The section of the models.
pub(super) fn table(
    rows: &[Row],
    options: &Options,
    ceiling: &serde_json::Value,
) -> Result<String> {
    let gflops = |key: &str| ceiling[key].as_f64().unwrap_or(0.0);
    let Options {
        threads,
        seconds,
        rounds,
        ..
    } = options;
    let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
    let threads = threads.join(",");
    let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
    let latencies = rows.iter().flat_map(|row| {
        let latencies = row.latencies.iter();
        latencies.map(|latency| latency_row(row, latency))
    });
    Ok(format!(
        "{}, ceiling {:.0} GFLOP/s f32 on one thread and {:.0} on all (`tenon bench --ceiling`).\n\
         {}, in f32, with the same number of threads, alternating. Figures are those of the best round. \
         The ratio is to the best peer of the run.\n\n{}\n\
         Time to the first output with the most threads. Tenon: a `tenon run` process on the package, reading the \
         input file included. onnxruntime: session creation and first run only, without the start of Python.\n\
         Target for ResNet-50: process at most its median + 15 ms and at most a third of onnxruntime's \
         creation and first run, memory at most constants + arena + 30 MB.\n\n{}\n\
         `tenon compile`: wall time with all CPUs, and peak memory beside the model file (target ≤ {COMPILE_MEMORY}).\n\n{}",
        made(&format!(
            "--write --threads {threads} --seconds {seconds} --rounds {rounds}"
        ))?,
        gflops("one_thread_gflops"),
        gflops("all_threads_gflops"),
        names.join(" and "),
        markdown::table(
            &format!(
                "model | threads | Tenon median | p99 | {} | ratio | target | met | difference",
                names.join(" | ")
            ),
            latencies
        ),
        markdown::table(
            "model | load | first run | process | minus median | onnxruntime | process ÷ onnxruntime | peak memory | constants + arena | over | met",
            rows.iter().filter_map(start)
        ),
        markdown::table(
            "model | compile | target | met | peak memory | ÷ model file | met",
            rows.iter().map(compile)
        ),
    ))
}

/// The row of a model in the table of latencies.
fn latency_row(row: &Row, latency: &Latency) -> String {
    let ratio = latency.ratio();
    let (target, met) = match row.limit {
        Some(limit) => (format!("≤ {limit:.1}"), met(ratio <= limit)),
        None => ("–".into(), "–"),
    };
    let peers: Vec<String> = latency
        .peers
        .iter()
        .map(|peer| time(peer.median_us))
        .collect();
    format!(
        "{} | {} | {} | {} | {} | {ratio:.2} | {target} | {met} | {:.0e}",
        row.name,
        latency.threads,
        time(latency.tenon.median_us),
        time(latency.tenon.p99_us),
        peers.join(" | "),
        row.difference
    )
}

/// The row of a model in the table of start-up times.
fn start(row: &Row) -> Option<String> {
    let Latency { tenon, peers, .. } = row.latencies.last()?;
    let onnxruntime = peers.first().map(|peer| peer.load_ms + peer.first_ms)?;
    let beyond = row.process_ms - tenon.median_us / 1e3;
    let over_kb = tenon.peak_rss_kb.saturating_sub(row.memory_kb);
    let all = beyond <= 15.0 && row.process_ms * 3.0 <= onnxruntime && over_kb <= 30 * 1024;
    Some(format!(
        "{} | {:.1} ms | {:.1} ms | {:.1} ms | {beyond:.1} ms | {onnxruntime:.1} ms | {:.2} | {} MB | {} MB | {} MB | {}",
        row.name,
        tenon.load_ms,
        tenon.first_ms,
        row.process_ms,
        row.process_ms / onnxruntime,
        tenon.peak_rss_kb / 1024,
        row.memory_kb / 1024,
        over_kb / 1024,
        if row.name == "resnet50" {
            met(all)
        } else {
            "–"
        }
    ))
}

/// The row of a model in the table of compilations.
fn compile(row: &Row) -> String {
    let limit = COMPILE_SECONDS.iter().find(|(name, _)| *name == row.name);
    let memory = row.compile.peak_rss_kb as f64 / row.model_kb.max(1) as f64;
    let (target, in_time, in_memory) = match limit {
        Some(&(_, limit)) => (
            format!("≤ {limit} s"),
            met(row.compile.seconds <= limit),
            met(memory <= COMPILE_MEMORY),
        ),
        None => ("–".into(), "–", "–"),
    };
    format!(
        "{} | {:.2} s | {target} | {in_time} | {} MB | {memory:.2} | {in_memory}",
        row.name,
        row.compile.seconds,
        row.compile.peak_rss_kb / 1024
    )
}

pub(super) fn met(yes: bool) -> &'static str {
    if yes { "yes" } else { "**no**" }
}

/// A time in microseconds, or in milliseconds from 1 ms.
pub(crate) fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.1} µs")
    } else {
        format!("{:.2} ms", us / 1e3)
    }
}
