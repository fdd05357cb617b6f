use super::*;
use crate::{Log, LogLevels, LogSink, SharedFolder};
use rustix::fs::{FileType, Mode, mknodat};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn quiet() -> Log {
    Log::new(LogLevels::default(), LogSink::writer(std::io::sink()))
}

fn read(folder: &Path) -> Vec<ProcessReport> {
    ProcessReport::read_all(&[folder.to_owned()])
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_report_is_written_after_half_a_second_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let count = Arc::new(AtomicU64::new(7));
    let counted = count.clone();
    let shared = SharedFolder::open(folder).unwrap();
    let began = Instant::now();
    let collect = move || {
        let mut report = ProcessReport::of_this_process();
        report.executions.completed = counted.load(Ordering::Relaxed);
        report
    };
    let publisher = Publisher::start(move || Some(shared), collect, quiet()).unwrap();
    wait_until("a report", || !read(folder).is_empty());
    assert!(began.elapsed() >= Duration::from_millis(500));
    let report = &read(folder)[0];
    assert_eq!(
        (report.executions.completed, report.pid),
        (7, std::process::id())
    );
    let file = folder.join(format!("process-{}", std::process::id()));
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    count.store(8, Ordering::Relaxed);
    wait_until("the next report", || {
        read(folder)
            .first()
            .is_some_and(|report| report.executions.completed == 8)
    });
    drop(publisher);
    assert_eq!(folder.read_dir().unwrap().count(), 0);
}

#[test]
fn a_short_process_writes_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedFolder::open(folder.path()).unwrap();
    let collect = ProcessReport::of_this_process;
    drop(Publisher::start(move || Some(shared), collect, quiet()).unwrap());
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_planted_link_is_replaced_and_files_of_dead_processes_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("target");
    std::fs::write(&target, "untouched").unwrap();
    let shared = SharedFolder::open(&place.path().join("shared")).unwrap();
    let folder = shared.path().to_owned();
    let own = std::process::id();
    for name in [format!("process-{own}"), format!("process-{own}.part")] {
        symlink(&target, folder.join(name)).unwrap();
    }
    // Above PID_MAX_LIMIT, so no process has this id.
    for name in ["process-4194999", ".process-4194999-0123456789abcdef"] {
        std::fs::write(folder.join(name), "{}").unwrap();
    }
    let collect = ProcessReport::of_this_process;
    let publisher = Publisher::start(move || Some(shared), collect, quiet()).unwrap();
    wait_until("a report", || !read(&folder).is_empty());
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
    drop(publisher);
    let left: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [format!("process-{own}.part").as_str()]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
}

#[test]
fn files_of_other_users_and_dead_processes_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = |name: &str| folder.join(name);
    let own = ProcessReport::of_this_process();
    let name = format!("process-{}", own.pid);
    let write = |report: &ProcessReport| {
        std::fs::write(path(&name), serde_json::to_vec(report).unwrap()).unwrap();
    };
    write(&own);
    std::fs::write(path("process-1x"), "{}").unwrap();
    std::fs::write(path("process-2"), "no JSON").unwrap();
    std::fs::write(path("core-0"), "1").unwrap();
    assert_eq!(read(folder), std::slice::from_ref(&own));
    // Two folders may have the report, while a process moves it.
    let twice = [folder.to_owned(), folder.to_owned(), path("none")];
    assert_eq!(ProcessReport::read_all(&twice), std::slice::from_ref(&own));
    // The same process id, but another process.
    write(&ProcessReport {
        started: own.started + 1,
        ..own.clone()
    });
    assert!(read(folder).is_empty());
    write(&ProcessReport {
        format: REPORT_FORMAT + 1,
        ..own.clone()
    });
    assert!(read(folder).is_empty());
    write(&own);
    // Only root can change the owner of files.
    if geteuid().is_root() {
        std::os::unix::fs::chown(path(&name), Some(12345), None).unwrap();
        assert!(read(folder).is_empty());
    }
    std::fs::remove_file(path(&name)).unwrap();
    symlink("/dev/zero", path(&name)).unwrap();
    assert!(read(folder).is_empty());
    std::fs::remove_file(path(&name)).unwrap();
    // Opening a FIFO without a writer must not block.
    mknodat(
        CWD,
        path(&name),
        FileType::Fifo,
        Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert!(read(folder).is_empty());
}
