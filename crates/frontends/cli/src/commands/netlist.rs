//! `tenon netlist`

use super::rules::{self, ListedRule};
use crate::netlist_flags::{Netlist, NetlistCheck, NetlistCommand, NetlistFmt};
use crate::output::{self, say};
use serde_json::{Value, json};
use std::process::ExitCode;
use tenon::netlist::{
    Arch, Device, Finding, Findings, NOT_CHECKED, Rule, Severity, Source, Word, check,
    check_device, format_with_comments,
};
use tenon::netlist::{choose_arch, find_device, read_source};
use tenon::{Error, ErrorKind, Result};

pub fn run(flags: &Netlist) -> Result<ExitCode> {
    match &flags.command {
        NetlistCommand::Check(flags) if flags.rules => list_rules(flags.json),
        NetlistCommand::Check(flags) => check_all(flags),
        NetlistCommand::Fmt(flags) => fmt(flags),
        NetlistCommand::Run(flags) => super::netlist_run::run(flags),
        NetlistCommand::Test(flags) => super::netlist_test::run(flags),
        NetlistCommand::Show(flags) => super::netlist_show::show(flags),
        NetlistCommand::Draw(flags) => super::netlist_show::draw(flags),
    }
}

fn list_rules(as_json: bool) -> Result<ExitCode> {
    let listed = |rule: &Rule| ListedRule {
        id: rule.id(),
        severity: rule.severity().to_string(),
        sentence: rule.sentence(),
        source: rule.source(),
    };
    rules::print(Rule::ALL.iter().map(listed), as_json)?;
    if !as_json {
        say!(
            "\nNot checked, even with --strict: {}.",
            NOT_CHECKED.join("; ")
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_all(flags: &NetlistCheck) -> Result<ExitCode> {
    let device = flags.strict.as_deref().map(find_device).transpose()?;
    let arch = flags.arch.as_deref().map(architecture).transpose()?;
    let mut reports = Vec::new();
    let (mut errors, mut warnings) = (0, 0);
    for path in &flags.files {
        let source = match read_source(path) {
            Ok(source) => source,
            Err(error) => {
                errors += 1;
                if flags.json {
                    reports.push(json!({"file": path, "errors": 1, "error": error.to_string()}));
                } else {
                    output::complain(format_args!("error: {error}"));
                }
                continue;
            }
        };
        let findings = findings(&source, arch, device.as_ref())?;
        errors += findings.count(Severity::Error);
        warnings += findings.count(Severity::Warning);
        let shown = findings
            .iter()
            .filter(|finding| !flags.quiet || finding.severity == Severity::Error);
        if flags.json {
            let shown: Vec<Value> = shown.map(|finding| as_json(finding, &source)).collect();
            let errors = findings.count(Severity::Error);
            reports.push(json!({"file": path, "errors": errors, "findings": shown}));
        } else {
            shown
                .map(|finding| finding.display(&source))
                .try_for_each(|finding| say!("{finding}"))?;
        }
    }
    if flags.json {
        output::json(json!(reports))?;
    } else if !flags.quiet || errors > 0 {
        say!(
            "{}: {}, {}",
            output::count(flags.files.len(), "netlist"),
            output::count(errors, "error"),
            output::count(warnings, "warning")
        )?;
    }
    Ok(if errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(super) fn architecture(name: &str) -> Result<Arch> {
    Arch::from_word(name).ok_or_else(|| {
        Error::new(ErrorKind::Usage, "unknown architecture")
            .expected(Arch::choices())
            .found(name)
    })
}

fn findings(source: &Source, arch: Option<Arch>, device: Option<&Device>) -> Result<Findings> {
    let read = tenon::netlist::read(source);
    let mut findings = read.findings;
    if !findings.has_errors() {
        // An architecture that the netlist does not name is reported by `check_device`, with the other findings.
        let named = |arch: &Arch| read.netlist.arch.iter().any(|named| named.value == *arch);
        let arch = arch.or(device.map(|device| device.arch).filter(named));
        let arch = choose_arch(&read.netlist, arch)?;
        findings.extend(check(&read.netlist, arch));
        if let Some(device) = device {
            findings.extend(check_device(&read.netlist, device));
        }
    }
    Ok(findings.sorted())
}

fn as_json(finding: &Finding, source: &Source) -> Value {
    let (line, column) = source.line_column(finding.span.start);
    json!({
        "rule": finding.rule.id(), "severity": finding.severity.to_string(),
        "line": line, "column": column, "message": finding.message,
        "expected": finding.expected, "found": finding.found, "help": finding.help,
    })
}

fn fmt(flags: &NetlistFmt) -> Result<ExitCode> {
    let source = read_source(&flags.file)?;
    let read = tenon::netlist::read(&source);
    read.findings.to_result(&source)?;
    output::bytes(format_with_comments(&source, &read.netlist).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
