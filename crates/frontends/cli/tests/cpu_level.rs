//! `--cpu` and `TENON_CPU`: the vector instructions that a run may use.

mod common;

use common::{Answer, command, done, repository, tenon};
use std::path::Path;
use tempfile::TempDir;

const LEVELS: [&str; 4] = ["baseline", "avx2", "avx512", "native"];

fn with_variable(folder: &Path, value: &str, arguments: &[&str]) -> Answer {
    Answer::of(command(folder, arguments).env("TENON_CPU", value))
}

#[test]
fn the_level_limits_the_instructions_of_backends() {
    let folder = TempDir::new().unwrap();
    let baseline = if cfg!(target_arch = "x86_64") {
        "portable vectors"
    } else {
        "NEON"
    };
    let by_flag = done(folder.path(), &["backends", "--cpu", "baseline"]);
    assert!(by_flag.contains(baseline), "{by_flag}");
    let by_variable = with_variable(folder.path(), "baseline", &["backends"]);
    assert_eq!(by_variable.out, by_flag);
    // The lower of the two counts.
    let both = ["backends", "--cpu", "avx512"];
    assert_eq!(with_variable(folder.path(), "baseline", &both).out, by_flag);
    let native = done(folder.path(), &["backends", "--cpu", "native"]);
    assert_eq!(native, done(folder.path(), &["backends"]));
}

#[test]
fn every_command_that_runs_a_model_takes_a_level() {
    let folder = TempDir::new().unwrap();
    let model = repository("models/digits/digits.onnx");
    let picture = repository("models/digits/seven.png");
    for level in LEVELS {
        let run = ["run", &model, "-i", &picture, "--cpu", level, "--json"];
        let printed = done(folder.path(), &run);
        assert!(printed.contains("\"outputs\""), "{printed}");
    }
    let cpu = ["--cpu", "baseline"];
    let with = |command: &[&str]| {
        let arguments: Vec<&str> = command.iter().chain(&cpu).copied().collect();
        done(folder.path(), &arguments)
    };
    with(&["profile", &model, "--random", "1"]);
    with(&["bench", &model, "--random", "1", "--seconds", "0.1"]);
    with(&["compare", &model, "--random", "1"]);
    with(&["compile", &model, "-o", "digits.neff"]);
    with(&["run", "digits.neff", "-i", &picture]);
}

#[test]
fn a_value_that_is_no_level_is_an_error() {
    let folder = TempDir::new().unwrap();
    let answer = tenon(folder.path(), &["backends", "--cpu", "sse9"]);
    assert_eq!(answer.status, Some(2), "{}", answer.err);
    assert!(
        answer.err.contains("baseline, avx2, avx512 or native"),
        "{}",
        answer.err
    );
    let answer = with_variable(folder.path(), "sse9", &["backends"]);
    assert_ne!(answer.status, Some(0));
    assert!(answer.err.contains("TENON_CPU"), "{}", answer.err);
}
