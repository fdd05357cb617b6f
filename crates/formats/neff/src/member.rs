//! Reads one JSON member: fast into its type, and where it does not fit, piece by piece with all
//! its problems.

use crate::finding::{Finding, Findings};
use crate::mend::{Problem, Stored, What};
use crate::{KeyPath, Package, locate, rule};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The member `name` as a `T`. What does not fit is told and left out; `None` when nothing is
/// left, or no such member is there.
pub(crate) fn read<T: Stored + DeserializeOwned>(
    package: &Package,
    name: &str,
    findings: &mut Findings,
) -> Option<T> {
    read_by(package, name, findings, |bytes| {
        serde_json::from_slice(bytes)
    })
}

/// The same, `parse` being the fast way.
pub(crate) fn read_by<T: Stored + DeserializeOwned>(
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
    let value = mended(&bytes, &mut problems);
    for finding in problems.list {
        findings.add(finding.member(name));
    }
    value
}

fn mended<T: Stored + DeserializeOwned>(bytes: &[u8], findings: &mut Findings) -> Option<T> {
    let mut value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            findings.add(syntax(bytes, &error));
            return None;
        }
    };
    for (path, offset) in locate::doubles(bytes) {
        findings.add(
            Finding::new(&rule::JSON_TWICE, "")
                .path(path)
                .offset(Some(offset)),
        );
    }
    let mut problems = Vec::new();
    let whole = T::mend(&mut value, &mut KeyPath::default(), &mut problems);
    let places = problems.iter().map(|problem| &problem.place);
    let offsets = locate::offsets(bytes, places);
    for (problem, offset) in problems.iter().zip(offsets) {
        findings.add(told(problem).offset(offset));
    }
    if !whole {
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

fn told(problem: &Problem) -> Finding {
    let (rule, detail) = match &problem.what {
        What::Missing(key) => (&rule::JSON_MISSING, format!("no '{key}'")),
        What::Type { expected, found } => {
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

/// A syntax error, at its byte.
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
    let text = error.to_string();
    let text = text
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    Finding::new(&rule::JSON_SYNTAX, text)
        .path(locate::path_at(bytes, offset))
        .offset(Some(offset as u64))
}
