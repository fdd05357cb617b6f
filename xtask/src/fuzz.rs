//! `cargo xtask fuzz`: fuzzes one reader, or the C interface, with libFuzzer, on the stable toolchain.

use crate::{Result, cargo, output, root, run, target};
use std::process::Command;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// The target (see --list).
    #[arg(required_unless_present = "list")]
    target: Option<String>,
    /// List the targets.
    #[arg(long)]
    list: bool,
    /// Duration of the run.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

/// The targets of fuzz/targets: name, input, folders of seed files.
const TARGETS: &[(&str, &str, &[&str])] = &[
    (
        "onnx",
        "an ONNX model: read, imported, compiled",
        &["models/digits", "crates/frontends/cli/tests/data"],
    ),
    (
        "litert",
        "a LiteRT model: read, converted, imported, compiled",
        &["fuzz/seeds/litert"],
    ),
    (
        "quantize",
        "an ONNX model: quantised to 4 and 8 bits",
        &["models/digits", "crates/frontends/cli/tests/data"],
    ),
    ("package", "a package: opened, printed, loaded", &[]),
    ("header", "the header of a package", &["fuzz/seeds/header"]),
    (
        "archive",
        "the archive of a package: opened, checked, packed",
        &["fuzz/seeds/archive"],
    ),
    (
        "definition",
        "def.json: read, written, checked",
        &["fuzz/seeds/definition"],
    ),
    (
        "engine",
        "an engine's description: read, written, checked",
        &["fuzz/seeds/engine"],
    ),
    (
        "bef",
        "BEF bytes: opened, decoded, checked, encoded, decoded",
        &["fuzz/seeds/bef"],
    ),
    (
        "mlir",
        "MLIR text: parsed, printed, encoded, and back",
        &[
            "crates/formats/bef/tests/golden",
            "crates/formats/bef/tests/verify",
            "crates/formats/bef/tests/hostile",
        ],
    ),
    (
        "netlist",
        "a netlist: read, checked, printed, read again, run by the plain implementation",
        &["fuzz/seeds/netlist", "tests/netlists"],
    ),
    (
        "graph",
        "graph text: parsed, printed, parsed, inferred",
        &[],
    ),
    ("npy", "an .npy file: read, written, read", &[]),
    ("npz", "an .npz file", &["models/small"]),
    ("weights", "a safetensors file", &["fuzz/seeds/weights"]),
    ("picture", "a PNG or JPEG as an input", &["models/digits"]),
    ("csv", "a table as an input", &[]),
    (
        "nodes",
        "random nodes: executed on CpuAcc and on CpuRef, results compared",
        &[],
    ),
    ("cache", "a file of the cache: read, written", &[]),
    (
        "serve",
        "requests to a server: REST with JSON and binary data, gRPC",
        &["fuzz/seeds/serve"],
    ),
    ("dma", "DMA descriptors: checked, run, copies compared", &[]),
    (
        "calls",
        "calls of tenon/tenon.h in any order, with invalid handles and arguments",
        &[],
    ),
];

/// SanitizerCoverage for libFuzzer: counters of edges, and the operands of comparisons. Without
/// AddressSanitizer, which needs the nightly toolchain: nearly all readers are safe code, and overflow
/// checks and debug assertions are enabled.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Fuzzes, or lists the targets.
pub fn fuzz(options: &Options) -> Result<()> {
    let Some(name) = options.target.as_deref().filter(|_| !options.list) else {
        for (name, input, _) in TARGETS {
            println!("{name:8} {input}");
        }
        return Ok(());
    };
    let found = TARGETS.iter().find(|(known, ..)| *known == name);
    let (name, _, seeds) = found.ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|(name, ..)| *name).collect();
        format!("no fuzz target '{name}'; there are {}", names.join(", "))
    })?;
    let host = host()?;
    let built = target().join("fuzz");
    let mut build = cargo();
    // With a target given, build scripts and macros are not instrumented.
    build
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", &host, "--bin", name])
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTFLAGS", INSTRUMENTATION);
    run(&mut build).map_err(|error| {
        format!("{error}\nlibFuzzer needs a C++ compiler (Debian: apt-get install g++)")
    })?;
    let corpus = folder("corpus", name)?;
    let artifacts = folder("artifacts", name)?;
    if *name == "package" {
        // No package is committed, and random bytes do not pass the header's checks.
        for model in [
            "models/small/mlp",
            "models/small/lstm-dynamic",
            "crates/frontends/cli/tests/data/endless",
        ] {
            let mut compile = cargo();
            compile.args(["run", "--quiet", "--release", "--package", "tenon-cli"]);
            compile.args(["--", "compile", &format!("{model}.onnx")]);
            compile.arg("--output");
            let stem = model.rsplit('/').next().unwrap_or(model);
            run(compile.arg(corpus.join(format!("{stem}.neff"))))?;
        }
    }
    let long: &[&str] = match *name {
        // A case is a sequence of calls, of which short ones reach little.
        "calls" => &["-len_control=0", "-max_len=512"],
        _ => &[],
    };
    let mut command = Command::new(built.join(host).join("release").join(name));
    command
        .current_dir(root())
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-rss_limit_mb=4096", "-timeout=10"])
        .args(long)
        .arg(corpus)
        .args(*seeds);
    run(&mut command)
}

/// A folder of the fuzzer, created if it is missing.
fn folder(kind: &str, name: &str) -> Result<std::path::PathBuf> {
    let folder = root().join("fuzz").join(kind).join(name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder)
}

/// The target triple of the compiler's host.
fn host() -> Result<String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
        .ok_or_else(|| "the output of rustc -vV has no host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_listed() {
        let folder = root().join("fuzz/targets").read_dir().unwrap();
        let mut files: Vec<_> = folder
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut listed: Vec<_> = TARGETS
            .iter()
            .map(|(name, ..)| format!("{name}.rs"))
            .collect();
        listed.sort();
        assert_eq!(files, listed);
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for (name, _, seeds) in TARGETS {
            assert!(
                manifest.contains(&format!("path = \"targets/{name}.rs\"")),
                "{name}"
            );
            assert!(
                seeds.iter().all(|seed| root().join(seed).is_dir()),
                "{name}"
            );
        }
    }
}
