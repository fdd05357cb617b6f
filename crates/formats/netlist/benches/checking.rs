//! Throughput of parsing and checking netlists on one core: a generated netlist of 1,466 ops and one
//! megabyte, and the samples of the folder of extra data. Compared in the same run, where installed,
//! with the YAML parsers PyYAML (with and without libyaml) and yaml-cpp. Prints a Markdown table.
#![allow(clippy::print_stdout, reason = "the bench prints a table")]

use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tenon_netlist::{Severity, Source, check, read};
use tenon_test_data::netlists;

/// Number of runs, alternating between Tenon and the peers; the fastest is reported.
const RUNS: usize = 7;

/// Seconds from which a peer is timed only once.
const LONG: f64 = 1.0;

/// A set of netlists that are checked in sequence.
struct NetlistSet {
    name: String,
    files: Vec<(PathBuf, String)>,
    /// Target for the duration of the check.
    target: Duration,
}

fn main() {
    let folder = std::env::temp_dir().join(format!("tenon-netlist-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        return println!("cannot make {}: {error}", folder.display());
    }
    let peers = Peer::all(&folder);
    let missing: Vec<&str> = peers
        .iter()
        .filter(|peer| peer.command.is_none())
        .map(|peer| peer.name)
        .collect();
    let mut sets = vec![generated_set(&folder)];
    match samples() {
        files if files.is_empty() => {
            println!("No samples: TENON_EXTRA_DATA names no folder of netlists.\n");
        }
        files => sets.push(NetlistSet {
            name: format!("{} samples", files.len()),
            files,
            target: Duration::from_millis(300),
        }),
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
    println!(
        "| netlists | bytes | read | read and checked | MB/s | target | met | {} |",
        names.join(" | ")
    );
    println!(
        "|---|---|---|---|---|---|---|{}",
        "---|".repeat(names.len())
    );
    sets.iter().for_each(|set| row(set, &peers));
    if !missing.is_empty() {
        println!("\nNot installed here: {}.", missing.join(", "));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Target throughput of checking on one core, in bytes per second.
const TARGET_RATE: f64 = 20e6;

fn row(set: &NetlistSet, peers: &[Peer]) {
    let bytes: usize = set.files.iter().map(|(_, text)| text.len()).sum();
    let (mut reading, mut checking) = (Duration::MAX, Duration::MAX);
    // The best parse time and the longest run time of each peer.
    let mut peer_times = vec![(f64::INFINITY, 0.0f64); peers.len()];
    for _ in 0..RUNS {
        reading = reading.min(timed(|| set.files.iter().for_each(only_read)));
        checking = checking.min(timed(|| set.files.iter().for_each(checked)));
        for ((best, longest), peer) in peer_times.iter_mut().zip(peers) {
            // Slow peers run only once.
            if *longest < LONG {
                let begun = Instant::now();
                let seconds = peer.seconds(&set.files);
                *best = seconds.map_or(*best, |seconds| best.min(seconds));
                *longest = longest.max(begun.elapsed().as_secs_f64());
            }
        }
    }
    let rate = bytes as f64 / checking.as_secs_f64();
    let met = checking <= set.target && rate >= TARGET_RATE;
    let cell = |(seconds, _): &(f64, f64)| {
        if seconds.is_finite() {
            format!(" {:.1} ms |", seconds * 1e3)
        } else {
            " – |".to_owned()
        }
    };
    println!(
        "| {} | {bytes} | {:.1} ms | {:.1} ms | {:.0} | ≥ {:.0} MB/s, ≤ {} ms | {} |{}",
        set.name,
        reading.as_secs_f64() * 1e3,
        checking.as_secs_f64() * 1e3,
        rate / 1e6,
        TARGET_RATE / 1e6,
        set.target.as_millis(),
        if met { "yes" } else { "**no**" },
        peer_times.iter().map(cell).collect::<String>(),
    );
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn only_read((path, text): &(PathBuf, String)) {
    black_box(read(&Source::new(path, text.as_str())).netlist);
}

/// The work of `tenon netlist check` on a text.
fn checked((path, text): &(PathBuf, String)) {
    let source = Source::new(path, text.as_str());
    let read = read(&source);
    if read.findings.count(Severity::Error) == 0 {
        black_box(check(&read.netlist, None));
    }
}

/// The generated netlist, written to a file for the peers.
fn generated_set(folder: &Path) -> NetlistSet {
    let (path, text) = (folder.join("generated.yaml"), generated());
    if let Err(error) = std::fs::write(&path, &text) {
        println!("cannot write {}: {error}", path.display());
    }
    NetlistSet {
        name: format!("one of {OPS} ops"),
        files: vec![(path, text)],
        target: Duration::from_millis(60),
    }
}

/// Number of ops and bytes of the largest known netlist.
const OPS: usize = 1466;
const BYTES: usize = 1_000_000;

/// A chain of matmul, gelu and two additions in the style of compiler output: maps over several lines,
/// comments, hexadecimal addresses.
fn generated() -> String {
    let mut queues = String::new();
    let mut ops = String::new();
    let sizes = "t: 1, mblock: [2, 2], ublock: [2, 4], buf_size_mb: 2, ublock_order: r";
    let rest = "out_df: Bfp8_b, intermed_df: Bfp8_b, acc_df: Float16, math_fidelity: HiFi3";
    for number in 0..OPS {
        let before = match number {
            0 => "encoder.input.hidden_states".to_owned(),
            _ => format!("encoder.layer.{}.attention.self.op", number - 1),
        };
        let name = format!("encoder.layer.{number}.attention.self.op");
        let (row, column) = (number % 10, number / 10 % 12);
        let weight = format!("encoder.layer.{number}.attention.self.query.weight.parameter");
        let (kind, inputs, formats, attributes) = match number % 4 {
            0 => (
                "matmul",
                format!("{before}, {weight}"),
                "Bfp8_b, Bfp8_b",
                "\n         attributes: {m_k: 2, u_kt: 4, kernel_broadcast: {input_1: 16}},",
            ),
            1 => (
                "gelu",
                before,
                "Bfp8_b",
                "\n         attributes: {approximate_mode: true, vector: rc},",
            ),
            _ => (
                "add",
                format!("{before}, {weight}"),
                "Bfp8_b, Bfp8_b",
                "\n         input_1_tms: [broadcast: {r: 1}, broadcast: {c: 1}], input_0_tms: [hslice: 1, hstack: 1],",
            ),
        };
        if number % 4 != 1 {
            writeln!(queues, "  {weight}: {{input: HOST, type: ram, entries: 1, grid_size: [1, 1], t: 1, mblock: [4, 2], ublock: [2, 4], ublock_order: c, df: Bfp8_b, target_device: 0, loc: dram, dram: [[{}, {:#x}]]}}", number % 8, 0x1000_0000 + number * 0x20000).expect("to memory");
        }
        writeln!(ops, "    # layer {number}, placed by hand").expect("to memory");
        writeln!(ops, "    {name}: {{type: {kind}, grid_loc: [{row}, {column}], grid_size: [1, 1], inputs: [{inputs}],{attributes}\n         {sizes},\n         in_df: [{formats}], {rest}}}").expect("to memory");
    }
    let mut text = format!(
        "devices:\n  arch: [grayskull]\nqueues:\n  encoder.input.hidden_states: {{input: HOST, type: queue, entries: 2, grid_size: [1, 1], t: 1, mblock: [2, 4], ublock: [2, 2], df: Bfp8_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}}\n{queues}graphs:\n  fwd_0:\n    target_device: 0\n    input_count: 1\n{ops}programs:\n  - run_fwd:\n    - param: [$p_loop_count]\n    - staticvar: {{$lptr: 0, $gptr: 0}}\n    - loop: $p_loop_count\n    - execute: {{graph_name: fwd_0, queue_settings: {{\n        encoder.input.hidden_states: {{prologue: false, epilogue: false, zero: false, rd_ptr_local: $lptr, rd_ptr_global: $gptr}}}}}}\n    - varinst: [$lptr, incwrap, 1, 4]\n    - varinst: [$gptr, incwrap, 1, 4]\n    - endloop\n"
    );
    // Comments are a large part of real netlists.
    while text.len() < BYTES {
        text.push_str("# the queue of hidden states is filled by the host once an execute, popped by the program\n");
    }
    text
}

/// Real netlists; empty without the folder of extra data.
fn samples() -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| Some((path.clone(), std::fs::read_to_string(path).ok()?));
    netlists().into_iter().filter_map(read).collect()
}

/// A parser for comparison: a command that parses files and prints the parse time in seconds. Files
/// that it cannot parse are excluded.
struct Peer {
    name: &'static str,
    command: Option<Vec<std::ffi::OsString>>,
}

const PYTHON: &str = "\
import sys, time, yaml
took = 0
for name in sys.argv[2:]:
    text = open(name).read()
    start = time.perf_counter()
    try:
        yaml.load(text, getattr(yaml, sys.argv[1]))
    except Exception:
        continue
    took += time.perf_counter() - start
print(took)
";

const CPP: &str = "\
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <yaml-cpp/yaml.h>
int main(int count, char** files) {
  std::chrono::duration<double> took{0};
  for (int i = 1; i < count; ++i) {
    std::ifstream file(files[i]);
    std::stringstream text;
    text << file.rdbuf();
    auto start = std::chrono::steady_clock::now();
    try {
      auto root = YAML::Load(text.str());
      if (!root.IsMap()) return 1;
    } catch (const YAML::Exception&) {
      continue;
    }
    took += std::chrono::steady_clock::now() - start;
  }
  std::cout << took.count() << std::endl;
}
";

impl Peer {
    fn all(folder: &Path) -> Vec<Self> {
        let python = std::env::var_os("TENON_PYTHON").unwrap_or_else(|| "python3".into());
        let parses = |loader: &str| -> Vec<std::ffi::OsString> {
            vec![python.clone(), "-c".into(), PYTHON.into(), loader.into()]
        };
        let works = |command: Vec<std::ffi::OsString>| {
            let peer = Peer {
                name: "",
                command: Some(command),
            };
            peer.seconds(&[]).and(peer.command)
        };
        let (code, program) = (folder.join("parse.cpp"), folder.join("parse"));
        let built = std::fs::write(&code, CPP).is_ok()
            && Command::new("c++")
                .arg("-O2")
                .arg(&code)
                .arg("-o")
                .arg(&program)
                .arg("-lyaml-cpp")
                .output()
                .is_ok_and(|output| output.status.success());
        vec![
            Peer {
                name: "PyYAML",
                command: works(parses("SafeLoader")),
            },
            Peer {
                name: "PyYAML with libyaml",
                command: works(parses("CSafeLoader")),
            },
            Peer {
                name: "yaml-cpp",
                command: built.then(|| vec![program.into()]),
            },
        ]
    }

    fn seconds(&self, files: &[(PathBuf, String)]) -> Option<f64> {
        let (program, arguments) = self.command.as_ref()?.split_first()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(files.iter().map(|(path, _)| path));
        let output = command.output().ok()?;
        let text = output.status.success().then_some(output.stdout)?;
        String::from_utf8(text).ok()?.trim().parse().ok()
    }
}
