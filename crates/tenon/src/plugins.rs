//! Backends that are loaded from libraries: found, checked, configured.

use crate::{Registry, Runtime};
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_backend::{BackendId, BackendLibrary, GivenOption, LoadProblem, LoadWarning};
use tenon_backend_kit::Report;
use tenon_base::{Error, Result};

/// Which backends a runtime gets besides the built-in ones, and with which options.
#[derive(Debug, Clone, Default)]
pub struct BackendSetup {
    /// The only folder to look in; without it those of `TENON_BACKEND_PATH`.
    pub folder: Option<PathBuf>,
    /// Options of backends, as the caller wrote them.
    pub options: Vec<GivenOption>,
    /// Backends that cannot keep content from the reach of the CPU are left out.
    pub protected_content: bool,
}

/// The backends of a setup, and those that there might have been.
pub struct FoundBackends {
    /// The built-in ones and those that were found, configured.
    pub registry: Registry,
    /// Libraries and folders that were passed over.
    pub passed_over: Vec<LoadWarning>,
    /// Backends that cannot keep content from the reach of the CPU, where that is asked for.
    pub refused: Vec<(BackendId, Error)>,
}

/// The built-in backends and those that were found, configured; and what was passed over.
///
/// # Errors
/// Options for backends that are not there, unknown ones, and values of the wrong kind: all of them.
pub fn backends_with(setup: &BackendSetup) -> Result<FoundBackends> {
    let mut registry = crate::backends();
    let passed_over = registry.load_backends(setup.folder.as_deref());
    registry.configure(&setup.options)?;
    let refused = match setup.protected_content {
        true => registry.protect(),
        false => Vec::new(),
    };
    Ok(FoundBackends {
        registry,
        passed_over,
        refused,
    })
}

/// A runtime with these backends, and the backends that it goes on without, each with the reason.
pub fn runtime_with(
    registry: Registry,
    setup: &BackendSetup,
) -> (Runtime, Vec<(BackendId, Error)>) {
    let kernels = tenon_builtin::kernels();
    Runtime::start(registry, kernels, &setup.options, setup.protected_content)
}

/// A library that was found, and the backend in it.
#[derive(Debug)]
pub struct FoundLibrary {
    /// Its canonical path.
    pub path: PathBuf,
    /// Id and version of the interface, or why it cannot be loaded.
    pub backend: Result<(String, (u32, u32)), LoadProblem>,
}

/// The libraries of a setup's folders in the order in which they are loaded, and what was passed
/// over before.
pub fn find_libraries(folder: Option<&Path>) -> (Vec<FoundLibrary>, Vec<LoadWarning>) {
    let (folders, mut warnings) = tenon_backend::backend_folders(folder);
    let found = tenon_backend::discover(&folders);
    warnings.extend(found.warnings);
    let look = |path: PathBuf| {
        let opened = BackendLibrary::open(&path);
        let backend = opened.map(|library| (library.id().to_owned(), library.version()));
        FoundLibrary { path, backend }
    };
    (found.libraries.into_iter().map(look).collect(), warnings)
}

/// Checks a library with the conformance kit in this process, which a crash in it would end.
pub fn check_library(path: &Path) -> Report {
    tenon_backend_kit::check_library(path)
}

/// How a check in a process of its own ended.
pub enum Checked {
    /// It came to its end: what it printed, and whether all went well.
    Ended {
        /// What the process printed.
        text: Vec<u8>,
        /// Whether no check failed.
        passed: bool,
    },
    /// The library took the process with it.
    Crashed(Report),
}

/// Runs `command`, which is to check the library at `path` and print the report.
pub fn check_apart(path: &Path, mut command: Command) -> Result<Checked> {
    let program = PathBuf::from(command.get_program());
    let done = command.output();
    let done = done.map_err(|error| Error::io(program, "start", error))?;
    Ok(match done.status.code() {
        Some(code) if code <= 2 => Checked::Ended {
            text: done.stdout,
            passed: code == 0,
        },
        _ => {
            let how = format!("the library ended it: {}", done.status);
            Checked::Crashed(Report::crashed(path.display().to_string(), how))
        }
    })
}
