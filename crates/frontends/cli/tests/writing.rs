//! Files are written completely or not at all.

#![allow(clippy::print_stderr, reason = "a test says that it skips")]
#![cfg(unix)]

mod common;

use common::{Answer, command, done, folder, in_shell, package, repository, tenon};
use std::fs;
use std::path::Path;

const DIGITS: &str = "models/digits/digits.onnx";

/// Runs `tenon` where no file can grow beyond 4096 bytes: writing more fails, as on a full disk.
fn on_a_full_disk(folder: &Path, arguments: &[&str]) -> Answer {
    // The signal would end the program before it sees the error.
    in_shell("trap '' XFSZ; ulimit -f 8", folder, arguments)
}

#[track_caller]
fn one_sentence(answer: &Answer, part: &str) {
    assert_eq!(answer.status, Some(1), "{}", answer.err);
    assert_eq!(answer.out, "");
    assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
    assert!(answer.err.starts_with("error: "), "{}", answer.err);
    assert!(answer.err.contains(part), "{}", answer.err);
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let entries = folder.read_dir().unwrap();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

#[test]
fn a_full_disk_leaves_no_package() {
    let folder = folder();
    let compile = ["compile", &repository(DIGITS), "-o", "model.neff"];
    let answer = on_a_full_disk(folder.path(), &compile);
    one_sentence(&answer, "model.neff: cannot write: ");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_full_disk_keeps_the_old_package() {
    let folder = folder();
    package(folder.path(), "models/small/mlp.onnx");
    let before = fs::read(folder.path().join("model.neff")).unwrap();
    let compile = ["compile", &repository(DIGITS), "-o", "model.neff"];
    one_sentence(&on_a_full_disk(folder.path(), &compile), "cannot write");
    assert_eq!(names(folder.path()), ["model.neff"]);
    assert!(fs::read(folder.path().join("model.neff")).unwrap() == before);
    // With free space again it is replaced.
    done(folder.path(), &compile);
    assert!(fs::read(folder.path().join("model.neff")).unwrap() != before);
}

#[test]
fn a_full_disk_leaves_no_half_output() {
    let folder = folder();
    let model = repository("models/small/gpt2.onnx");
    let arrays = repository("models/small/gpt2.npz");
    let run = [
        "run", &model, "--input", &arrays, "--quiet", "--output", "out",
    ];
    one_sentence(
        &on_a_full_disk(folder.path(), &run),
        "present.npy: cannot write: ",
    );
    // The small output was written before.
    assert_eq!(names(&folder.path().join("out")), ["logits.npy"]);
}

#[test]
fn standard_output_that_is_full() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let folder = folder();
    package(folder.path(), DIGITS);
    let all = [
        &["info", "model.neff"][..],
        &["info", "model.neff", "--json"],
        &["disasm", "model.neff"],
        &["run", "model.neff", "--random", "1"],
        &["backends"],
        &["man"],
        &["completions", "zsh"],
    ];
    for arguments in all {
        let mut command = command(folder.path(), arguments);
        let answer = Answer::of(command.stdout(full.try_clone().unwrap()));
        one_sentence(&answer, "standard output: cannot write: ");
    }
}

#[test]
fn a_program_whose_output_is_lost_fails() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let here = std::env::current_dir().unwrap();
    let program = repository("tests/bef/arithmetic.mlir");
    for flags in [&[][..], &["--work_queue_type=mstd:2"]] {
        let mut command = command(&here, &["exec", &program]);
        let answer = Answer::of(command.args(flags).stdout(full.try_clone().unwrap()));
        assert_eq!(answer.status, Some(1), "{flags:?}: {}", answer.err);
        let part = "standard output: cannot write: ";
        assert!(answer.err.contains(part), "{flags:?}: {}", answer.err);
    }
    // A closed pipe is not an error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let answer = Answer::of(command(&here, &["exec", &program]).stdout(writer));
    assert_eq!((answer.status, answer.err.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let folder = folder();
    package(folder.path(), DIGITS);
    for command in ["info", "disasm"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut tenon = common::command(folder.path(), &[command, "model.neff"]);
        let answer = Answer::of(tenon.stdout(writer));
        assert_eq!(
            (answer.status, answer.err.as_str()),
            (Some(0), ""),
            "{command}"
        );
    }
}

#[test]
fn folders_that_cannot_hold_the_file() {
    let folder = folder();
    let model = repository(DIGITS);
    let seven = repository("models/digits/seven.png");
    fs::write(folder.path().join("file"), "kept").unwrap();
    let failed = |arguments: &[&str], part| {
        one_sentence(&tenon(folder.path(), arguments), part);
        assert_eq!(names(folder.path()), ["file"]);
    };
    failed(
        &["compile", &model, "-o", "none/m.neff"],
        "none/m.neff: cannot write: No such file or directory",
    );
    failed(
        &["compile", &model, "-o", "file/m.neff"],
        "file/m.neff: cannot write: ",
    );
    let run = ["run", &model, "-i", &seven, "--quiet", "--output"];
    failed(&[&run[..], &["file"]].concat(), "file: cannot create: ");
    failed(
        &[&run[..], &["file/below"]].concat(),
        "file/below: cannot create: ",
    );
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"kept");
}

#[test]
fn a_folder_is_not_replaced_by_a_package() {
    let folder = folder();
    fs::create_dir(folder.path().join("taken")).unwrap();
    let compile = ["compile", &repository(DIGITS), "-o", "taken"];
    one_sentence(&tenon(folder.path(), &compile), "taken: cannot write: ");
    assert_eq!(names(folder.path()), ["taken"]);
}

#[test]
fn a_model_is_not_replaced_by_its_package() {
    let folder = folder();
    fs::copy(repository(DIGITS), folder.path().join("model.onnx")).unwrap();
    let compile = ["compile", "model.onnx", "--output", "./model.onnx"];
    let answer = tenon(folder.path(), &compile);
    assert_eq!(answer.status, Some(2));
    assert!(
        answer
            .err
            .contains("the package would replace its own model"),
        "{}",
        answer.err
    );
    let kept = fs::read(folder.path().join("model.onnx")).unwrap();
    assert!(kept == fs::read(repository(DIGITS)).unwrap());
}
