//! Reading and checking netlists: a generated one of 1,466 ops and a megabyte, and the samples of
//! the folder of extra data. Beside them, where they are installed, PyYAML (with libyaml and without)
//! and yaml-cpp, which only parse.
#![allow(clippy::print_stdout, reason = "a bench tells its figures")]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_netlist::{Severity, Source, check, read};

fn main() {
    let folder = std::env::temp_dir().join(format!("tenon-netlist-{}", std::process::id()));
    divan::main();
    if std::fs::create_dir_all(&folder).is_ok() {
        others(&folder);
        let _ = std::fs::remove_dir_all(&folder);
    }
}

/// Ops of the largest netlist that is known, and its bytes.
const OPS: usize = 1466;
const BYTES: usize = 1_000_000;

/// Layers of a product, a bias, a special function and two binary ops, as compilers print them: maps
/// broken over several lines, comments, hexadecimal addresses.
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
    // Comments fill it up to its size, as they do in real ones.
    while text.len() < BYTES {
        text.push_str("# the queue of hidden states is filled by the host once an execute, popped by the program\n");
    }
    text
}

/// Netlists under the folder of extra data; none without it.
fn samples() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    if let Some(folder) = std::env::var_os("TENON_EXTRA_DATA") {
        collect(&Path::new(&folder).join("netlists"), &mut files);
    }
    files
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, files);
        } else if let Ok(text) = std::fs::read_to_string(&path)
            && path
                .extension()
                .is_some_and(|extension| extension == "yaml")
        {
            files.push((path, text));
        }
    }
}

/// Everything that `tenon netlist check` does with a text; says how much is wrong.
fn checked(path: &Path, text: &str) -> usize {
    let source = Source::new(path, text);
    let read = read(&source);
    let mut errors = read.findings.count(Severity::Error);
    if errors == 0 {
        errors += check(&read.netlist, None).count(Severity::Error);
    }
    errors
}

#[divan::bench]
fn check_generated(bencher: Bencher) {
    let text = generated();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| checked(Path::new("generated.yaml"), black_box(&text)));
}

#[divan::bench]
fn read_generated(bencher: Bencher) {
    let source = Source::new("generated.yaml", generated());
    bencher
        .counter(BytesCount::of_str(source.text()))
        .bench(|| read(black_box(&source)).netlist);
}

#[divan::bench]
fn check_samples(bencher: Bencher) {
    let samples = samples();
    let bytes: usize = samples.iter().map(|(_, text)| text.len()).sum();
    bencher.counter(BytesCount::new(bytes)).bench(|| {
        samples
            .iter()
            .map(|(path, text)| checked(path, black_box(text)))
            .sum::<usize>()
    });
}

/// What the parsers of others take for the generated netlist, on this machine, in the same run.
fn others(folder: &Path) {
    let yaml = folder.join("generated.yaml");
    if std::fs::write(&yaml, generated()).is_err() {
        return;
    }
    let python = std::env::var_os("TENON_PYTHON").unwrap_or_else(|| "python3".into());
    for (name, loader) in [
        ("PyYAML", "SafeLoader"),
        ("PyYAML with libyaml", "CSafeLoader"),
    ] {
        let script = format!(
            "import sys, time, yaml\ntext = open(sys.argv[1]).read()\nstart = time.perf_counter()\n\
             yaml.load(text, yaml.{loader})\nprint(time.perf_counter() - start)"
        );
        tell(name, Command::new(&python).arg("-c").arg(script).arg(&yaml));
    }
    let (code, program) = (folder.join("parse.cpp"), folder.join("parse"));
    let text = "#include <yaml-cpp/yaml.h>\n#include <chrono>\n#include <iostream>\n\
                int main(int, char** argv) {\n  auto start = std::chrono::steady_clock::now();\n  \
                auto root = YAML::LoadFile(argv[1]);\n  std::chrono::duration<double> took = \
                std::chrono::steady_clock::now() - start;\n  std::cout << took.count() << std::endl;\n  \
                return root.size() == 0;\n}\n";
    if std::fs::write(&code, text).is_ok() {
        let built = Command::new("c++")
            .arg("-O2")
            .arg(&code)
            .arg("-o")
            .arg(&program)
            .arg("-lyaml-cpp")
            .output();
        if built.is_ok_and(|built| built.status.success()) {
            tell("yaml-cpp", Command::new(&program).arg(&yaml));
        }
    }
}

/// The best of five runs; nothing where it cannot run.
fn tell(name: &str, command: &mut Command) {
    let seconds = (0..5).filter_map(|_| {
        let output = command
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        String::from_utf8(output.stdout)
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
    });
    if let Some(best) = seconds.min_by(f64::total_cmp) {
        println!(
            "{name} parses the generated netlist in {:.1} ms",
            best * 1e3
        );
    }
}
