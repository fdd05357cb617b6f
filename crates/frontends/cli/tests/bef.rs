//! Whole programs of `tests/bef`: each file lists its commands in comments that begin
//! with `$`; the `.txt` file of the same name has their output and exit status.
//!
//! `TENON_BLESS=1` rewrites the `.txt` files.

#![cfg(unix)]

use regex_lite::Regex;
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tenon::host_program::{Kernels, kernels};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/bef");

/// Values that differ from run to run, and their placeholders.
const CHANGING: [(&str, &str); 4] = [
    (r"(?m)^(BM:[^:]+:[^:]+: ).*$", "${1}N"),
    (r"pointer=0x[0-9a-f]+", "pointer=0xP"),
    (
        r"(?m)^([IWEF]) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \d+ [^ ]+:\d+\] ",
        "$1 WHEN THREAD FILE:LINE] ",
    ),
    (
        r"\(\d+ threads, (\d+) blocking threads\)",
        "(N threads, $1 blocking threads)",
    ),
];

#[test]
fn whole_programs() {
    let folder = PathBuf::from(FOLDER);
    let mut differences = Vec::new();
    for program in programs(&folder) {
        let found = transcript(&folder, &program);
        let golden = program.with_extension("txt");
        if std::env::var_os("TENON_BLESS").is_some() {
            fs::write(&golden, found).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if found != expected {
            differences.push(difference(&program, &expected, &found));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

/// Every kernel of `tenon exec` is in some program, in the custom form or in quotes.
#[test]
fn every_kernel_is_in_a_program() {
    let programs = programs(Path::new(FOLDER));
    let text: String = programs
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let words: HashSet<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
        .collect();
    let mut names = Vec::new();
    for kernel in kernels(Kernels::All).unwrap().names() {
        names.push(kernel.to_owned());
    }
    let test_kernels = tenon_test_kernels::library().into_iter();
    let natives = tenon_test_kernels::natives().into_iter();
    names.extend(
        test_kernels
            .chain(natives)
            .map(|kernel| kernel.name().to_owned()),
    );
    assert!(names.len() > 250, "{} kernels", names.len());
    names.retain(|name| !words.contains(name.as_str()));
    assert!(names.is_empty(), "in no program: {names:#?}");
}

/// The programs with commands; other programs are called by these.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "mlir"));
    files.retain(|path| !commands(path).is_empty());
    files.sort();
    assert!(files.len() > 10, "the programs are there");
    files
}

fn commands(program: &Path) -> Vec<String> {
    let text = fs::read_to_string(program).unwrap();
    let command = |line: &str| line.strip_prefix("// $ ").map(str::to_owned);
    text.lines().filter_map(command).collect()
}

/// The output of every command of a program, and its exit status.
fn transcript(folder: &Path, program: &Path) -> String {
    let mut text = String::new();
    for command in commands(program) {
        let (out, err, status) = run(folder, &command);
        writeln!(text, "$ {command}").unwrap();
        text += &steady(&out);
        if !out.is_empty() && !out.ends_with('\n') {
            text += "\n(no newline)\n";
        }
        for line in steady(&err).lines() {
            writeln!(text, "stderr: {line}").unwrap();
        }
        writeln!(text, "exit {status}\n").unwrap();
    }
    text
}

/// Runs `tenon A | tenon B`, with nothing on standard input. Standard error is that of all
/// commands, the exit status that of the last.
fn run(folder: &Path, command: &str) -> (String, String, i32) {
    let (mut out, mut err, mut status) = (Vec::new(), String::new(), 0);
    for part in command.split(" | ") {
        let arguments = part.strip_prefix("tenon ").expect("a command of tenon");
        let input = tempfile::NamedTempFile::new().unwrap();
        fs::write(input.path(), &out).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tenon"))
            .args(arguments.split(' '))
            .stdin(Stdio::from(fs::File::open(input.path()).unwrap()))
            .current_dir(folder)
            .output()
            .unwrap();
        err += &String::from_utf8(output.stderr).unwrap();
        out = output.stdout;
        status = output.status.code().expect("no signal");
    }
    // Bytes that a terminal does not display are not compared.
    let out = String::from_utf8(out);
    let out = out.unwrap_or_else(|_| "(bytes)\n".into());
    (out, err, status)
}

fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, with) in CHANGING {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, with)
            .into_owned();
    }
    text
}

/// The first line that differs.
fn difference(program: &Path, expected: &str, found: &str) -> String {
    let name = program.file_name().unwrap().to_string_lossy();
    let mut expected = expected.lines();
    let mut command = "";
    for line in found.lines() {
        if line.starts_with("$ ") {
            command = line;
        }
        let reference = expected.next().unwrap_or("(nothing)");
        if reference != line {
            return format!("{name}: {command}\n  expected: {reference}\n  found:    {line}\n");
        }
    }
    let rest = expected.next().unwrap_or("a newline");
    format!("{name}: {command}\n  expected: {rest}\n  found:    (nothing)\n")
}
