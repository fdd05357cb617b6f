//! `tenon translate`, `exec` and `opt`: invalid programs and output files.

mod common;

use common::{done, folder, package, tenon};
use std::fs;
use std::path::Path;

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../tests/bef/round_trip.mlir"
);

/// Random bytes from a seed.
fn noise(seed: u32, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The command must end with status 1, an error that contains `part`, and no panic.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], part: &str) {
    let answer = tenon(folder, arguments);
    let printed = format!("tenon {arguments:?} printed:\n{}", answer.err);
    assert_eq!(answer.status, Some(1), "{printed}");
    assert!(
        answer.err.contains("error: ") && !answer.err.contains("panicked"),
        "{printed}"
    );
    assert!(answer.err.contains(part), "no '{part}': {printed}");
}

#[test]
fn noise_is_refused() {
    let folder = folder();
    let folder = folder.path();
    for seed in 0..8 {
        let mut bytes = noise(seed, 2000);
        fs::write(folder.join("noise.mlir"), &bytes).unwrap();
        bytes[..3].copy_from_slice(&[0x0B, 0xEF, 0]);
        fs::write(folder.join("noise.bef"), &bytes).unwrap();
        let text: String = noise(seed, 2000)
            .iter()
            .map(|b| char::from(b % 95 + 32))
            .collect();
        fs::write(folder.join("text.mlir"), text).unwrap();
        refused(folder, &["exec", "noise.bef"], "noise.bef: ");
        refused(
            folder,
            &["translate", "-bef-to-mlir", "noise.bef"],
            "noise.bef: ",
        );
        refused(
            folder,
            &["exec", "noise.mlir"],
            "noise.mlir: neither BEF nor text",
        );
        refused(
            folder,
            &["opt", "noise.bef"],
            "noise.bef: BEF bytes instead of text",
        );
        refused(folder, &["exec", "text.mlir"], "text.mlir:1:");
        refused(folder, &["opt", "text.mlir"], "text.mlir:1:");
        refused(
            folder,
            &["translate", "-mlir-to-bef", "text.mlir"],
            "text.mlir:1:",
        );
    }
    refused(folder, &["exec", "none.bef"], "none.bef: cannot read: ");
    refused(folder, &["translate", "-bef-to-mlir"], "BEF file is empty.");
}

/// Each byte changed in turn, and the file truncated: an error or another program, never a panic.
#[test]
fn damaged_bytes_never_panic() {
    let folder = folder();
    let folder = folder.path();
    done(
        folder,
        &["translate", "-mlir-to-bef", PROGRAM, "-o", "whole.bef"],
    );
    let whole = fs::read(folder.join("whole.bef")).unwrap();
    let step = whole.len() / 60;
    for at in (0..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(folder.join("damaged.bef"), &bytes).unwrap();
        fs::write(folder.join("cut.bef"), &whole[..at]).unwrap();
        for file in ["damaged.bef", "cut.bef"] {
            let answer = tenon(folder, &["translate", "-bef-to-mlir", file]);
            assert!(
                matches!(answer.status, Some(0 | 1)),
                "{file} at {at}: {}",
                answer.err
            );
            assert!(
                !answer.err.contains("panicked"),
                "{file} at {at}: {}",
                answer.err
            );
            assert!(
                answer.status == Some(0) || answer.err.contains("error: "),
                "{at}"
            );
        }
    }
}

#[test]
fn a_result_is_written_as_a_whole_or_not_at_all() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("out.mlir"), "before").unwrap();
    fs::write(folder.join("wrong.mlir"), "one").unwrap();
    let opt = |file: &str| tenon(folder, &["opt", file, "-o", "out.mlir"]);
    assert_eq!(opt("wrong.mlir").status, Some(1));
    assert_eq!(
        fs::read_to_string(folder.join("out.mlir")).unwrap(),
        "before"
    );
    assert_eq!(opt(PROGRAM).status, Some(0));
    let text = fs::read_to_string(folder.join("out.mlir")).unwrap();
    assert!(text.starts_with("func.func @f("), "{text}");
    assert_eq!(folder.read_dir().unwrap().count(), 2);
}

#[test]
fn an_empty_file_is_no_program() {
    let folder = folder();
    for name in ["x.mlir", "x.bef"] {
        fs::write(folder.path().join(name), "").unwrap();
        let answer = tenon(folder.path(), &["exec", name]);
        assert_eq!(answer.status, Some(1), "{}", answer.err);
        let part = format!("{name}: the file is empty: expected MLIR text or BEF");
        assert!(answer.err.contains(&part), "{}", answer.err);
    }
}

#[test]
fn flags_have_one_dash_or_two() {
    let folder = folder();
    let folder = folder.path();
    let one = done(
        folder,
        &["translate", "-mlir-to-bef", PROGRAM, "-o", "one.bef"],
    );
    let two = done(
        folder,
        &["translate", "--mlir-to-bef", PROGRAM, "--output=two.bef"],
    );
    assert_eq!((one.as_str(), two.as_str()), ("", ""));
    let read = |name| fs::read(folder.join(name)).unwrap();
    assert_eq!(read("one.bef"), read("two.bef"));
    for arguments in [
        &["translate", PROGRAM][..],
        &["translate", "-mlir-to-bef", "-bef-to-mlir", PROGRAM],
        &["translate", "-bef-to-mlir", "-split-input-file", PROGRAM],
        &["exec", "--host_allocator_type=none", PROGRAM],
        &["exec", "--tracing_level=all", PROGRAM],
        &["exec", "--lite", "--code_size", PROGRAM],
        &["opt", "-unknown", PROGRAM],
    ] {
        let answer = tenon(folder, arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.err);
    }
}

/// The original's boolean flags take a value behind `=`.
#[test]
fn boolean_flags_take_true_and_false() {
    let folder = folder();
    let folder = folder.path();
    let translated = |flags: &[&str]| {
        let mut arguments = vec!["translate", "-mlir-to-bef", PROGRAM, "-o", "out.bef"];
        arguments.extend(flags);
        assert_eq!(done(folder, &arguments), "");
        fs::read(folder.join("out.bef")).unwrap()
    };
    let whole = translated(&[]);
    let short = translated(&["-disable-optional-sections"]);
    assert!(short.len() < whole.len());
    for on in ["true", "TRUE", "True", "1"] {
        assert_eq!(
            translated(&[&format!("--disable-optional-sections={on}")]),
            short
        );
    }
    for off in ["false", "FALSE", "False", "0"] {
        assert_eq!(
            translated(&[&format!("-disable-optional-sections={off}")]),
            whole
        );
    }
    // A flag that is off has no conflicts; one that is on is not followed by its value.
    for arguments in [
        &[
            "translate",
            "-bef-to-mlir",
            "out.bef",
            "-split-input-file=false",
            "-verify-diagnostics=0",
            "-mlir-print-op-generic=1",
            "-mlir-print-debuginfo=true",
        ][..],
        &[
            "opt",
            "-inline=true",
            "-canonicalize=true",
            "-allow-unregistered-dialect=true",
            "-split-input-file=false",
            "-verify-diagnostics=false",
            "-tfrt-print-stream=false",
            "-mlir-print-op-generic=false",
            "-mlir-print-debuginfo=false",
            PROGRAM,
        ],
        &[
            "exec",
            "--lite=true",
            "--code_size=false",
            "--print_error_code=true",
            "--enable_tracing=false",
            "empty.mlir",
        ],
    ] {
        fs::write(folder.join("empty.mlir"), "func.func @f() { tfrt.return }").unwrap();
        let answer = tenon(folder, arguments);
        assert_eq!(answer.status, Some(0), "{arguments:?}: {}", answer.err);
    }
    for arguments in [
        &["translate", "-mlir-to-bef=true", PROGRAM][..],
        &[
            "translate",
            "-mlir-to-bef",
            "-split-input-file=yes",
            PROGRAM,
        ],
        &[
            "translate",
            "-bef-to-mlir",
            "-split-input-file=true",
            "out.bef",
        ],
        &[
            "translate",
            "-mlir-to-bef",
            "-mlir-print-op-generic",
            PROGRAM,
        ],
        &["opt", "-inline=true", "-inline=false", PROGRAM],
        &["exec", "--lite=true", "--code_size=true", PROGRAM],
    ] {
        let answer = tenon(folder, arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.err);
        assert!(answer.err.contains("error: "), "{}", answer.err);
    }
}

#[test]
fn a_trace_is_a_file_of_scopes() {
    let folder = folder();
    let folder = folder.path();
    let program =
        "func.func @main() -> i32 {\n  %0 = tfrt.constant.i32 7\n  tfrt.return %0 : i32\n}\n";
    fs::write(folder.join("p.mlir"), program).unwrap();
    done(
        folder,
        &[
            "exec",
            "--trace",
            "t.json",
            "--tracing_level=debug",
            "p.mlir",
        ],
    );
    let text = fs::read_to_string(folder.join("t.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let scopes = events.iter().filter(|event| event["ph"] == "X");
    let mut names: Vec<_> = scopes
        .inspect(|scope| assert!(scope["dur"].is_number(), "{text}"))
        .map(|scope| scope["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["Bef Executor", "Function: main", "tfrt.constant.i32"]
    );
    assert!(events.iter().any(|event| event["name"] == "thread_name"));
}

/// The text of a compiled model names every variable and node, and reads back.
#[test]
fn a_compiled_model_is_a_program_of_text() {
    let folder = folder();
    let folder = folder.path();
    package(folder, "models/digits/digits.onnx");
    let shown = done(folder, &["disasm", "model.neff"]);
    for line in [
        "    0  input",
        "    1  output",
        "    3  memory at ",
        "  constant ",
    ] {
        assert!(shown.contains(line), "no '{line}':\n{shown}");
    }
    let kernels = shown
        .lines()
        .filter(|line| line.starts_with("  \"tenon."))
        .count();
    assert!(kernels > 5, "{shown}");
    let explained = shown
        .lines()
        .filter(|line| line.starts_with("  //"))
        .count();
    assert_eq!(explained, kernels, "{shown}");
    fs::write(folder.join("model.mlir"), &shown).unwrap();
    let text = done(
        folder,
        &["opt", "model.mlir", "-allow-unregistered-dialect"],
    );
    assert!(!text.contains("//"), "{text}");
    let to_bef = ["translate", "-mlir-to-bef", "model.mlir", "-o", "model.bef"];
    done(folder, &to_bef);
    assert_eq!(
        done(folder, &["translate", "-bef-to-mlir", "model.bef"]),
        text
    );
}
