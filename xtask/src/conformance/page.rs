//! docs/conformance.md: what passes on each backend, and what is not supported and why.

use super::report::{Report, Row, Verdict};
use super::{Suite, runner::Share};
use crate::{Result, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// What stands above the sections.
const HEAD: &str = "\
# Conformance

Operators are held against tests that other projects wrote. This page is written by

    cargo xtask conformance --armnn FILE.jsonl.gz --onnx-node --write

and a test keeps it true: a case that stops passing, and one that begins to, fails it until the page
says so. Without `--write` the command prints a line for each failure and the counts; `--backend ID`
chooses a backend, `--backend-path DIR` loads those of libraries (docs/backends.md), a word at the end
chooses the cases whose name contains it, `--json` prints everything.

A case is run twice: its graph compiled into a package, loaded and executed, and node by node through
the backend interface as it was written. What a backend does not take falls to `CpuRef`, and the
tables say how often: \"nothing left\" counts cases of which every computing node, once compiled, ran
on the backend itself. Data movement is the compiler's (DMA descriptors) and counts for nobody, and
neither does what is known when compiling.

Quantised layers of Arm NN have no operators of their own here: integers become numbers
(`DequantizeLinear`), the operator works on f32, and the result becomes integers again
(`QuantizeLinear`), which is how their meaning is defined. Layers that only move elements move the
integers.
";

/// Where the page is.
pub(super) fn path() -> PathBuf {
    root().join("docs/conformance.md")
}

/// Writes it.
pub(super) fn write(sections: &[String]) -> Result<()> {
    let text = format!("{HEAD}\n{}", sections.join("\n"));
    std::fs::write(path(), text)
        .map_err(|error| format!("cannot write {}: {error}", path().display()))
}

/// The part of the page about a suite.
pub(super) fn section(suite: &Suite, reports: &[Report]) -> String {
    let mut text = format!("## {} ({})\n\n", suite.name, suite.source);
    text.push_str("| backend | passed | failed | skipped | nothing left to CpuRef | something |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for report in reports {
        let (all, some) = report.shares();
        let counts = [
            report.passed(),
            report.failed(),
            report.skipped(),
            all,
            some,
        ];
        let counts = counts.map(|count| count.to_string()).join(" | ");
        let _ = writeln!(text, "| {} | {counts} |", report.backend);
    }
    text.push_str("\n### Not run, and why\n\n| cases | why | which |\n|---|---|---|\n");
    let reasons = reports.first().map(reasons).unwrap_or_default();
    for (reason, rows) in reasons {
        let _ = writeln!(text, "| {} | {reason} | {} |", rows.len(), which(&rows));
    }
    text.push_str("\n### By group\n\nPassed of all");
    text.push_str(", and of the passed those of which the backend left nothing to CpuRef.\n\n");
    groups(&mut text, reports);
    text
}

/// Cases that were not run, by reason.
fn reasons(report: &Report) -> BTreeMap<&str, Vec<&Row>> {
    let mut reasons = BTreeMap::<&str, Vec<&Row>>::new();
    for row in &report.rows {
        if let Verdict::Skipped(reason) = &row.verdict {
            reasons.entry(reason).or_default().push(row);
        }
    }
    reasons
}

/// The groups of cases with their numbers.
fn which(rows: &[&Row]) -> String {
    let mut groups = BTreeMap::<&str, usize>::new();
    for row in rows {
        *groups.entry(&row.group).or_default() += 1;
    }
    let one = |(group, count): (&str, usize)| match count {
        1 => group.to_owned(),
        _ => format!("{group} ({count})"),
    };
    groups.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

fn groups(text: &mut String, reports: &[Report]) {
    let mut table = BTreeMap::<&str, Vec<[usize; 3]>>::new();
    for (column, report) in reports.iter().enumerate() {
        for row in &report.rows {
            let cells = table.entry(&row.group).or_default();
            cells.resize(reports.len(), [0; 3]);
            let [passed, alone, all] = &mut cells[column];
            *all += 1;
            if let Verdict::Passed(Share { others, .. }) = row.verdict {
                *passed += 1;
                *alone += usize::from(others == 0);
            }
        }
    }
    let names = reports.iter().map(|report| report.backend.as_str());
    let names = names.collect::<Vec<_>>().join(" | ");
    let _ = writeln!(text, "| group | {names} |");
    let _ = writeln!(text, "|---|{}", "---|".repeat(reports.len()));
    for (group, cells) in table {
        let cell = |[passed, alone, all]: &[usize; 3]| format!("{passed} of {all}, {alone}");
        let cells = cells.iter().map(cell).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| {group} | {cells} |");
    }
}
