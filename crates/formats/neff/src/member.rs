//! Reads one JSON member: directly into its type; where that fails, leniently with all its problems
//! ([`crate::prune`]).

use crate::error::json_text;
use crate::finding::{Finding, Findings};
use crate::prune::{Mismatch, Problem, Prune};
use crate::{KeyPath, Package, locate, rule};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The member `name` as a `T`. Values of a wrong type are reported and removed; `None` when the
/// remainder cannot be read, or the member does not exist.
pub(crate) fn read<T: Prune + DeserializeOwned>(
    package: &Package,
    name: &str,
    findings: &mut Findings,
) -> Option<T> {
    read_by(package, name, findings, |bytes| {
        serde_json::from_slice(bytes)
    })
}

/// [`read`] with `parse` as the direct parser.
pub(crate) fn read_by<T: Prune + DeserializeOwned>(
    package: &Package,
    name: &str,
    findings: &mut Findings,
    parse: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Option<T> {
    let bytes = package.member(name)?;
    if let Ok(value) = parse(&bytes) {
        return Some(value);
    }
    let mut problems = Findings::with_limit(usize::MAX);
    let value = read_lenient(&bytes, &mut problems);
    for finding in problems.list {
        findings.add(finding.member(name));
    }
    value
}

fn read_lenient<T: Prune + DeserializeOwned>(bytes: &[u8], findings: &mut Findings) -> Option<T> {
    let mut value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            findings.add(syntax(bytes, &error));
            return None;
        }
    };
    for (path, offset) in locate::duplicate_keys(bytes) {
        findings.add(
            Finding::new(&rule::JSON_TWICE, "")
                .path(path)
                .offset(Some(offset)),
        );
    }
    let mut problems = Vec::new();
    let is_readable = T::prune(&mut value, &mut KeyPath::default(), &mut problems);
    let places = problems.iter().map(|problem| &problem.place);
    let offsets = locate::offsets(bytes, places);
    for (problem, offset) in problems.iter().zip(offsets) {
        findings.add(finding_of(problem).offset(offset));
    }
    if !is_readable {
        return None;
    }
    match serde_json::from_value(value) {
        Ok(value) => Some(value),
        Err(error) => {
            findings.add(Finding::new(&rule::JSON_TYPE, error.to_string()));
            None
        }
    }
}

fn finding_of(problem: &Problem) -> Finding {
    let (rule, detail) = match &problem.mismatch {
        Mismatch::Missing(key) => (&rule::JSON_MISSING, format!("no '{key}'")),
        Mismatch::Type { expected, found } => {
            let steps = problem.place.steps();
            let is_kind = steps
                .first()
                .is_some_and(|step| *step == crate::Step::Key("var".into()))
                && steps
                    .last()
                    .is_some_and(|step| *step == crate::Step::Key("type".into()));
            let rule = if is_kind {
                &rule::VAR_TYPE
            } else {
                &rule::JSON_TYPE
            };
            (rule, format!("expected {expected}, found {found}"))
        }
    };
    Finding::new(rule, detail).path(problem.place.clone())
}

/// The finding of a syntax error, with its offset.
fn syntax(bytes: &[u8], error: &serde_json::Error) -> Finding {
    let line = error.line().saturating_sub(1);
    let ends = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
    let start = match line {
        0 => 0,
        line => ends
            .map(|(at, _)| at + 1)
            .nth(line - 1)
            .unwrap_or(bytes.len()),
    };
    let offset = (start + error.column().saturating_sub(1)).min(bytes.len());
    Finding::new(&rule::JSON_SYNTAX, json_text(error))
        .path(locate::path_at(bytes, offset))
        .offset(Some(offset as u64))
}
