//! `tenon plugin`

use crate::output::{self, say};
use crate::plugin_flags::{Plugin, PluginCheck, PluginCommand, PluginList};
use crate::table::Table;
use serde_json::{Value, json};
use std::process::{Command, ExitCode};
use tenon::plugins::{Checked, FoundLibrary, check_apart, check_library, find_libraries};
use tenon::{CheckOutcome, CheckReport, Error, Location, Result};

pub fn run(flags: &Plugin) -> Result<ExitCode> {
    match &flags.command {
        PluginCommand::List(flags) => list(flags).map(|()| ExitCode::SUCCESS),
        PluginCommand::Check(flags) if flags.in_process => check_here(flags),
        PluginCommand::Check(flags) => check(flags),
    }
}

fn list(flags: &PluginList) -> Result<()> {
    let (found, warnings) = find_libraries(flags.backend_path.as_deref());
    if flags.json {
        let library = |found: &FoundLibrary| match &found.backend {
            Ok((id, (major, minor))) => {
                json!({"path": found.path, "id": id, "interface": format!("{major}.{minor}")})
            }
            Err(problem) => json!({"path": found.path, "problem": problem.code(),
                                   "text": problem.to_string()}),
        };
        let warning = |warning: &tenon::LoadWarning| {
            json!({"path": warning.path, "problem": warning.problem.code(),
                   "text": warning.problem.to_string()})
        };
        return output::json(
            json!({"libraries": Value::from_iter(found.iter().map(library)),
                   "passed_over": Value::from_iter(warnings.iter().map(warning))}),
        );
    }
    let mut table = Table::new(&["backend", "interface", "library"]);
    for library in &found {
        let (id, interface) = match &library.backend {
            Ok((id, (major, minor))) => (id.clone(), format!("{major}.{minor}")),
            Err(problem) => ("-".into(), problem.to_string()),
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
        .try_for_each(|warning| say!("passed over: {warning}"))
}

fn check(flags: &PluginCheck) -> Result<ExitCode> {
    let here = Location::file(&flags.library);
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::io("tenon", "find", error).at(here))?;
    let mut command = Command::new(program);
    command.args(["plugin", "check", "--in-process"]);
    if flags.json {
        command.arg("--json");
    }
    command.arg("--").arg(&flags.library);
    match check_apart(&flags.library, command)? {
        Checked::Ended { text, passed } => {
            // Another process of this program made it: it is escaped, and JSON exact.
            output::bytes(&text)?;
            Ok(output::status(passed))
        }
        Checked::Crashed(report) => {
            print(&report, flags.json)?;
            Ok(ExitCode::FAILURE)
        }
    }
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
    let check = |check: &tenon::Check| {
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
