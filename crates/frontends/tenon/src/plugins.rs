//! Backends in shared libraries: searched, loaded and checked.

use crate::backends;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tenon_backend::LoadWarning;
use tenon_base::{Error, Result};

pub use tenon_backend_kit::{Check, Outcome as CheckOutcome, Report as CheckReport};

/// A shared library, and the backend in it.
#[derive(Debug)]
pub struct BackendLibrary {
    /// Its canonical path.
    pub path: PathBuf,
    /// Id and version of the interface, or why it is not loaded.
    pub backend: Result<(String, (u32, u32)), RefusedLibrary>,
}

/// Why a library is not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLibrary {
    /// The reason as a code ([`tenon_backend::LoadError::code`]), or `no-answer` or `crash` of a library that
    /// was opened in a separate process.
    pub code: String,
    /// The reason as a sentence.
    pub text: String,
}

/// The libraries of the folders in the order in which they are loaded, and warnings for skipped files
/// and folders. No library is opened.
pub fn discover_libraries(folder: Option<&Path>) -> (Vec<PathBuf>, Vec<LoadWarning>) {
    let (folders, mut warnings) = tenon_backend::backend_folders(folder);
    let found = tenon_backend::discover(&folders);
    warnings.extend(found.warnings);
    (found.libraries, warnings)
}

/// Loads the libraries in this process, as a runtime does, in addition to the built-in backends. `report`
/// receives each before the next is opened.
pub fn load_libraries(
    paths: impl IntoIterator<Item = PathBuf>,
    mut report: impl FnMut(BackendLibrary) -> Result<()>,
) -> Result<()> {
    let mut registry = backends::built_in();
    for path in paths {
        let loaded = registry.load_backend(&path);
        let backend = loaded.map(|library| (library.id().to_owned(), library.version()));
        let backend = backend.map_err(|problem| RefusedLibrary {
            code: problem.code().to_owned(),
            text: problem.to_string(),
        });
        report(BackendLibrary { path, backend })?;
    }
    Ok(())
}

/// Loads the libraries in separate processes, which may take `limit` for each library.
/// `command` makes a process that loads these libraries and prints a line of JSON for each
/// ([`BackendLibrary::line`]). A library that does not answer, or ends its process, is refused and
/// left out when the others are loaded again.
pub fn load_libraries_apart(
    paths: &[PathBuf],
    limit: Duration,
    command: impl Fn(&[&Path]) -> Command,
) -> Result<Vec<BackendLibrary>> {
    let mut refused: BTreeMap<&Path, RefusedLibrary> = BTreeMap::new();
    loop {
        let left: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let left: Vec<&Path> = left
            .into_iter()
            .filter(|path| !refused.contains_key(path))
            .collect();
        let mut lines = Vec::new();
        let ended = if left.is_empty() {
            Ended::Itself
        } else {
            read_lines(command(&left), left.len(), limit, &mut lines)?
        };
        if let Some(&culprit) = left.get(lines.len()) {
            let (code, text) = match ended {
                Ended::Killed => ("no-answer", format!("no answer within {limit:?}")),
                Ended::Itself => ("crash", "the library ended its process".into()),
            };
            let code = code.to_owned();
            refused.insert(culprit, RefusedLibrary { code, text });
            continue;
        }
        let mut results = lines.iter().map(|line| BackendLibrary::parse(line));
        let all = paths.iter().map(|path| BackendLibrary {
            path: path.clone(),
            backend: match refused.remove(path.as_path()) {
                Some(refused) => Err(refused),
                None => results.next().unwrap_or_else(|| Err(unreadable())),
            },
        });
        return Ok(all.collect());
    }
}

impl BackendLibrary {
    /// The library as a line of JSON.
    pub fn line(&self) -> String {
        self.json().to_string()
    }

    /// The library as JSON.
    pub fn json(&self) -> Value {
        match &self.backend {
            Ok((id, (major, minor))) => {
                json!({"path": self.path, "id": id, "interface": format!("{major}.{minor}")})
            }
            Err(RefusedLibrary { code, text }) => {
                json!({"path": self.path, "problem": code, "text": text})
            }
        }
    }

    /// Parses a line of JSON.
    fn parse(line: &str) -> Result<(String, (u32, u32)), RefusedLibrary> {
        let json: Value = serde_json::from_str(line).map_err(|_| unreadable())?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let version = |text: String| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        match (text("id"), text("interface").and_then(version)) {
            (Some(id), Some(version)) => Ok((id, version)),
            _ => Err(RefusedLibrary {
                code: text("problem").ok_or_else(unreadable)?,
                text: text("text").ok_or_else(unreadable)?,
            }),
        }
    }
}

fn is_answer(line: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|line: Value| line.get("path").is_some())
}

fn unreadable() -> RefusedLibrary {
    RefusedLibrary {
        code: "crash".into(),
        text: "the library changed the output of its process".into(),
    }
}

/// Checks a library with the conformance kit in this process, which a crash in it would end.
pub fn check_library(path: &Path) -> CheckReport {
    tenon_backend_kit::check_library(path)
}

/// The result of a check in a separate process.
pub enum LibraryCheck {
    /// The process ended by itself.
    Ended {
        /// The output of the process.
        text: Vec<u8>,
        /// Whether no check failed.
        passed: bool,
    },
    /// The library crashed the process, or did not end in time.
    Crashed(CheckReport),
}

/// Runs `command`, which is to check the library at `path` and print the report, for at most
/// `limit`.
pub fn check_apart(path: &Path, mut command: Command, limit: Duration) -> Result<LibraryCheck> {
    let (mut child, output) = started(&mut command)?;
    let mut text = Vec::new();
    let end = Instant::now() + limit;
    let crashed =
        |how: String| LibraryCheck::Crashed(CheckReport::crashed(path.display().to_string(), how));
    loop {
        match output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(part) => text.extend(part),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                stop(&mut child);
                return Ok(crashed(format!("the check did not end within {limit:?}")));
            }
        }
    }
    let status = match waited(&mut child, end)? {
        Some(status) => status,
        None => {
            stop(&mut child);
            return Ok(crashed(format!("the check did not end within {limit:?}")));
        }
    };
    Ok(match status.code() {
        Some(code) if code <= 2 => LibraryCheck::Ended {
            text,
            passed: code == 0,
        },
        _ => crashed(format!("the library ended it: {status}")),
    })
}

/// The end of a process.
enum Ended {
    Itself,
    Killed,
}

/// Reads at most `count` lines that a process prints, each within `limit`, and ends it.
fn read_lines(
    mut command: Command,
    count: usize,
    limit: Duration,
    lines: &mut Vec<String>,
) -> Result<Ended> {
    let (mut child, output) = started(&mut command)?;
    let mut text = Vec::new();
    let mut end = Instant::now() + limit;
    let ended = loop {
        let part = output.recv_timeout(end.saturating_duration_since(Instant::now()));
        match part {
            Ok(part) => text.extend(part),
            Err(RecvTimeoutError::Disconnected) => break Ended::Itself,
            Err(RecvTimeoutError::Timeout) => break Ended::Killed,
        }
        while let Some(at) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=at).collect();
            let line = String::from_utf8_lossy(&line);
            // A library may print other lines.
            if is_answer(&line) {
                lines.push(line.into_owned());
                end = Instant::now() + limit;
            }
        }
        if lines.len() >= count {
            lines.truncate(count);
            break Ended::Itself;
        }
    };
    stop(&mut child);
    Ok(ended)
}

/// Starts a process; the receiver gets its output in parts.
fn started(command: &mut Command) -> Result<(Child, Receiver<Vec<u8>>)> {
    let program = PathBuf::from(command.get_program());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| Error::io(program, "start", error))?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut part) {
                if sender.send(part[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
    }
    Ok((child, receiver))
}

/// Waits for a process that has closed its output.
fn waited(child: &mut Child, end: Instant) -> Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait();
        let status = status.map_err(|error| Error::io("the check", "wait for", error))?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills a process.
fn stop(child: &mut Child) {
    // The process may have ended.
    let _ = child.kill();
    let _ = child.wait();
}
