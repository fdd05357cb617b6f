//! A command that a signal ends leaves no unfinished files.

mod common;

use common::done;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of each member, and the member count: more than is written before a signal arrives.
const MEMBER: u64 = 32 << 20;
const MEMBERS: usize = 6;

/// A folder of sparse files that take no disk space, and long to pack.
fn members(folder: &Path) {
    fs::create_dir(folder.join("members")).unwrap();
    for index in 0..MEMBERS {
        let file = File::create(folder.join(format!("members/{index}"))).unwrap();
        file.set_len(MEMBER).unwrap();
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    common::command(folder, arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sends `signal` as soon as `writes` is true.
fn interrupt(child: &mut Child, signal: Signal, writes: impl Fn(u32) -> bool) -> ExitStatus {
    let began = Instant::now();
    while !writes(child.id()) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before the signal"
        );
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(child), signal).unwrap();
    child.wait().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The signals that end a command. A child inherits those that this process ignores, such as SIGHUP
/// below `nohup`.
fn signals() -> impl Iterator<Item = Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    let signals = [Signal::HUP, Signal::INT, Signal::TERM].into_iter();
    signals.filter(move |signal| ignored >> (signal.as_raw() - 1) & 1 == 0)
}

#[test]
fn a_folder_that_is_not_finished_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    members(folder);
    done(folder, &["pack", "-i", "members", "-o", "p.neff"]);
    let before = names(folder);
    for signal in signals() {
        until_interrupted(folder, "out", || {
            let mut child = start(folder, &["unpack", "p.neff", "-o", "out"]);
            let ended = interrupt(&mut child, signal, |_| names(folder).len() > before.len());
            assert_eq!(ended.signal(), Some(signal.as_raw()));
        });
        assert_eq!(names(folder), before);
    }
}

/// Repeats a command until the signal arrives before its output is complete.
fn until_interrupted(folder: &Path, made: &str, command: impl Fn()) {
    for _ in 0..20 {
        command();
        let made = folder.join(made);
        match made.metadata() {
            Err(_) => return,
            Ok(found) if found.is_dir() => {
                // The header is also a file.
                assert_eq!(names(&made).len(), MEMBERS + 1);
                fs::remove_dir_all(made).unwrap();
            }
            Ok(found) => {
                assert!(found.len() > MEMBERS as u64 * MEMBER);
                fs::remove_file(made).unwrap();
            }
        }
    }
    panic!("no signal came before {made} was whole");
}

#[test]
fn a_package_that_is_not_finished_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    members(folder);
    let before = names(folder);
    // An unnamed file, or one with a temporary name.
    let writes = |pid: u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.any(|target| {
            let name = target
                .strip_prefix(folder)
                .unwrap_or(Path::new(""))
                .as_os_str();
            let name = name.to_string_lossy();
            name.starts_with('#') || name.ends_with(".part")
        })
    };
    for signal in signals() {
        until_interrupted(folder, "p.neff", || {
            let mut child = start(folder, &["pack", "-i", "members", "-o", "p.neff"]);
            let ended = interrupt(&mut child, signal, writes);
            assert_eq!(ended.signal(), Some(signal.as_raw()));
        });
        assert_eq!(names(folder), before);
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    members(folder);
    let mut child = Command::new("nohup")
        .arg(env!("CARGO_BIN_EXE_tenon"))
        .args(["pack", "-i", "members", "-o", "p.neff"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let has_handlers = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map_or(0, |bits| u64::from_str_radix(bits.trim(), 16).unwrap());
        caught >> (Signal::TERM.as_raw() - 1) & 1 == 1
    };
    let ended = interrupt(&mut child, Signal::HUP, has_handlers);
    assert!(ended.success(), "{ended}");
    assert!(folder.join("p.neff").exists());
}
