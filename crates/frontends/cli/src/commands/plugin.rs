//! `tenon plugin`

use crate::output::{self, say};
use crate::plugin_flags::{Plugin, PluginCheck, PluginCommand, PluginList};
use crate::table::Table;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tenon::plugins::{
    BackendLibrary, LibraryCheck, check_apart, check_library, discover_libraries, load_libraries,
    load_libraries_apart,
};
use tenon::plugins::{CheckOutcome, CheckReport};
use tenon::{Error, Result};

pub fn run(flags: &Plugin) -> Result<ExitCode> {
    match &flags.command {
        PluginCommand::List(flags) => list(flags).map(|()| ExitCode::SUCCESS),
        PluginCommand::Check(flags) if flags.in_process => check_here(flags),
        PluginCommand::Check(flags) => check(flags),
    }
}

fn list(flags: &PluginList) -> Result<()> {
    if !flags.in_process.is_empty() {
        return load_libraries(flags.in_process.iter().cloned(), |library| {
            say!("{}", library.line())
        });
    }
    let (paths, warnings) = discover_libraries(flags.backend_path.as_deref());
    let program = this_program()?;
    let found = load_libraries_apart(&paths, Duration::from_secs(flags.time_limit), |paths| {
        let mut command = Command::new(&program);
        command.args(["plugin", "list", "--in-process"]).args(paths);
        command
    })?;
    if flags.json {
        let warning = |warning: &tenon::backends::LoadWarning| {
            json!({"path": warning.path, "problem": warning.problem.code(),
                   "text": warning.problem.to_string()})
        };
        return output::json(
            json!({"libraries": Value::from_iter(found.iter().map(BackendLibrary::json)),
                   "passed_over": Value::from_iter(warnings.iter().map(warning))}),
        );
    }
    let mut table = Table::new(&["backend", "interface", "library"]);
    for library in &found {
        let (id, interface) = match &library.backend {
            Ok((id, (major, minor))) => (id.clone(), format!("{major}.{minor}")),
            Err(refused) => ("-".into(), refused.text.clone()),
        };
        table.row([id, interface, library.path.display().to_string()]);
    }
    if found.is_empty() {
        say!("no libraries of backends")?;
    } else {
        say!("{table}")?;
    }
    warnings
        .iter()
        .try_for_each(|warning| say!("skipped: {warning}"))
}

fn check(flags: &PluginCheck) -> Result<ExitCode> {
    let mut command = Command::new(this_program()?);
    command.args(["plugin", "check", "--in-process"]);
    if flags.json {
        command.arg("--json");
    }
    command.arg("--").arg(&flags.library);
    let limit = Duration::from_secs(flags.time_limit);
    match check_apart(&flags.library, command, limit)? {
        LibraryCheck::Ended { text, passed } => {
            // The output of this program in another process: already escaped.
            output::bytes(&text)?;
            Ok(output::status(passed))
        }
        LibraryCheck::Crashed(report) => {
            print(&report, flags.json)?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("tenon", "find", error))
}

fn check_here(flags: &PluginCheck) -> Result<ExitCode> {
    let report = check_library(&flags.library);
    print(&report, flags.json)?;
    Ok(output::status(report.count(CheckOutcome::Failed) == 0))
}

fn print(report: &CheckReport, as_json: bool) -> Result<()> {
    if !as_json {
        return say!("{report}");
    }
    let check = |check: &tenon::plugins::Check| {
        json!({"check": check.name, "outcome": check.outcome.to_string().to_lowercase(),
               "text": check.text})
    };
    output::json(json!({
        "library": report.subject,
        "backend": report.backend,
        "checks": Value::from_iter(report.checks.iter().map(check)),
        "passed": report.count(CheckOutcome::Passed),
        "failed": report.count(CheckOutcome::Failed),
        "skipped": report.count(CheckOutcome::Skipped),
    }))
}
