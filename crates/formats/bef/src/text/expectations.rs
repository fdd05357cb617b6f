//! Expected diagnostics, written into the text itself (`-verify-diagnostics`, bef 5.2):
//!
//! ```text
//! // expected-error @+1 {{use of undeclared SSA value name}}
//! tfrt.print.i32 %x, %ch // expected-remark-re {{stream id: {{[0-9]+}}}}
//! ```
//!
//! `expected-` error, warning, remark or note; `-re` if the text contains regular expressions in
//! double braces; then the line: the same one, `@+N` or `@-N` lines away, `@above` or `@below` (the
//! next line without an expectation), `@unknown` (a diagnostic without a position). The message
//! must contain the text. An expectation ends its line. The rules are those of MLIR's diagnostic
//! verifier.

use crate::syntax::{Cursor, Source};
use crate::{Diagnostic, Severity, SourcePosition};
use regex_lite::{Regex, escape};
use std::sync::LazyLock;

static COMMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let severity = "expected-(error|note|remark|warning)(-re)?";
    let designator = r"(?:@([+-][0-9]+|above|below|unknown))?";
    Regex::new(&format!("{severity} *{designator} *\\{{\\{{(.*)\\}}\\}}$")).ok()
});

/// The line of an expected diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Line(i64),
    Unknown,
}

#[derive(Debug)]
enum Pattern {
    Contained(String),
    Regex(Regex),
}

#[derive(Debug)]
struct Expectation {
    severity: Severity,
    at: Expected,
    /// The text between the braces.
    text: String,
    pattern: Pattern,
    /// The position of the expectation itself.
    place: SourcePosition,
    snippet: String,
    matched: bool,
}

/// The expectations of a text, and the failures so far.
///
/// ```
/// use tenon_bef::{Diagnostic, ExpectedDiagnostics, Source, parse};
/// let text = "func.func @f() {\n  // expected-error @+1 {{is unknown}}\n  one\n  tfrt.return\n}";
/// let mut expectations = ExpectedDiagnostics::collect(Source::new(text, "f.mlir"));
/// for diagnostic in Diagnostic::all_of(&parse(text, "f.mlir").unwrap_err()) {
///     expectations.observe(&diagnostic);
/// }
/// assert_eq!(expectations.finish(), []);
/// ```
#[derive(Debug)]
pub struct ExpectedDiagnostics {
    expected: Vec<Expectation>,
    failures: Vec<Diagnostic>,
}

impl ExpectedDiagnostics {
    /// Collects the expectations of a text.
    pub fn collect(source: Source<'_>) -> Self {
        let mut this = Self {
            expected: Vec::new(),
            failures: Vec::new(),
        };
        // The expectations for the next line without one, and the last such line.
        let (mut below, mut plain) = (Vec::new(), i64::from(source.first_line));
        let mut position = 0;
        let lines = source.text.split_inclusive('\n');
        for (number, line) in (i64::from(source.first_line)..).zip(lines) {
            let found = COMMENT.as_ref().and_then(|re| re.captures(line.trim_end()));
            if let Some(found) = found {
                let start = found.get(0).map_or(0, |all| all.start());
                let place = Cursor::new(source).at(position + start);
                let part = |group| found.get(group).map_or("", |part| part.as_str());
                let at = match part(3) {
                    "" => Expected::Line(number),
                    "unknown" => Expected::Unknown,
                    "above" => Expected::Line(plain),
                    "below" => {
                        below.push(this.expected.len());
                        // The line if no further line follows.
                        Expected::Line(i64::MAX)
                    }
                    offset => {
                        let offset = offset.parse::<i64>().unwrap_or(i64::MAX);
                        Expected::Line(number.saturating_add(offset))
                    }
                };
                this.add(part(1), !part(2).is_empty(), at, part(4), place);
            } else {
                for index in below.drain(..) {
                    this.settle(index, number);
                }
                plain = number;
            }
            position += line.len();
        }
        this
    }

    fn settle(&mut self, index: usize, line: i64) {
        if let Some(expectation) = self.expected.get_mut(index) {
            expectation.at = Expected::Line(line);
        }
    }

    /// An invalid one is a failure, and is kept as plain text so that the numbering is unchanged.
    fn add(&mut self, word: &str, is_regex: bool, at: Expected, text: &str, place: Cursor<'_>) {
        let (written, snippet) = place.position_and_snippet();
        let mut pattern = Pattern::Contained(text.to_owned());
        let mut matched = false;
        if is_regex {
            match regex_of(text) {
                Ok(regex) => pattern = Pattern::Regex(regex),
                Err(message) => {
                    // Reported once, and not again as never produced.
                    matched = true;
                    let mut failure =
                        Diagnostic::new(Severity::Error, Some(written.clone()), message);
                    failure.snippet = Some(snippet.clone());
                    self.failures.push(failure);
                }
            }
        }
        self.expected.push(Expectation {
            severity: Severity::from_word(word).unwrap_or(Severity::Error),
            at,
            text: text.to_owned(),
            pattern,
            place: written,
            snippet,
            matched,
        });
    }

    /// Compares a diagnostic with the expectations for its line; an unexpected one is a failure.
    pub fn observe(&mut self, diagnostic: &Diagnostic) {
        let line = diagnostic.place.as_ref().map(|place| i64::from(place.line));
        let mut near = None;
        for expectation in &mut self.expected {
            // `@unknown` matches a diagnostic at any position.
            let here = expectation.at == Expected::Unknown
                || line.is_some_and(|line| expectation.at == Expected::Line(line));
            if !here || !expectation.pattern.meets(&diagnostic.message) {
                continue;
            }
            if expectation.severity == diagnostic.severity {
                expectation.matched = true;
                return;
            }
            near = Some(&*expectation);
        }
        let found = diagnostic.severity;
        self.failures.push(match near {
            Some(near) => near.failure(format!(
                "'{found}' diagnostic emitted when expecting a '{}'",
                near.severity
            )),
            None => Diagnostic {
                severity: Severity::Error,
                message: format!("unexpected {found}: {}", diagnostic.message),
                ..diagnostic.clone()
            },
        });
    }

    /// All failures: unexpected diagnostics in the order observed, then expectations without a
    /// diagnostic.
    pub fn finish(self) -> Vec<Diagnostic> {
        let unmet = self.expected.iter().filter(|e| !e.matched);
        let unmet = unmet.map(|e| {
            e.failure(format!(
                "expected {} \"{}\" was not produced",
                e.severity, e.text
            ))
        });
        let mut failures = self.failures;
        failures.extend(unmet);
        failures
    }
}

impl Expectation {
    fn failure(&self, message: String) -> Diagnostic {
        Diagnostic {
            snippet: Some(self.snippet.clone()),
            ..Diagnostic::new(Severity::Error, Some(self.place.clone()), message)
        }
    }
}

impl Pattern {
    fn meets(&self, message: &str) -> bool {
        match self {
            Pattern::Contained(text) => message.contains(text),
            Pattern::Regex(regex) => regex.is_match(message),
        }
    }
}

/// Plain text with regular expressions in double braces.
fn regex_of(text: &str) -> Result<Regex, String> {
    let (mut rest, mut pattern) = (text, String::new());
    while let Some((plain, behind)) = rest.split_once("{{") {
        let Some((inside, behind)) = behind.split_once("}}") else {
            return Err("found start of regex with no end '}}'".into());
        };
        pattern += &format!("{}({inside})", escape(plain));
        rest = behind;
    }
    pattern += &escape(rest);
    Regex::new(&pattern).map_err(|error| format!("invalid regex: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(severity: Severity, line: u32, message: &str) -> Diagnostic {
        let place = SourcePosition {
            file: "f.mlir".into(),
            line,
            column: 3,
        };
        Diagnostic::new(severity, Some(place), message)
    }

    /// The failures of a text with the given diagnostics.
    fn failures(text: &str, said: &[Diagnostic]) -> Vec<String> {
        let mut expectations = ExpectedDiagnostics::collect(Source::new(text, "f.mlir"));
        said.iter().for_each(|d| expectations.observe(d));
        let failures = expectations.finish();
        failures
            .iter()
            .map(|f| f.to_string().lines().next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn each_designator_finds_its_line() {
        let text = "\
one // expected-error {{same line}}
// expected-error @+1 {{next line}}
three
// expected-warning@-1 {{line before}}
// expected-remark@above {{above}}
// expected-note @below {{below}}
// expected-error-re@below {{re {{[0-9]+}} (.)}}
eight
// expected-error @unknown {{nowhere}}
";
        let all = [
            said(Severity::Error, 1, "the same line here"),
            said(Severity::Error, 3, "next line"),
            said(Severity::Warning, 3, "line before"),
            said(Severity::Remark, 3, "above"),
            said(Severity::Note, 8, "below"),
            said(Severity::Error, 8, "re 42 (.)"),
            Diagnostic::new(Severity::Error, None, "nowhere"),
        ];
        assert_eq!(failures(text, &all), [""; 0]);
        assert_eq!(failures(text, &[all[1].clone(), all[1].clone()]).len(), 6);
    }

    #[test]
    fn what_is_not_met_is_said_in_the_usual_words() {
        let text = "// expected-error {{one}}\n// not last: expected-error {{two}} behind\n";
        let expected = "f.mlir:1:4: error: expected error \"one\" was not produced";
        assert_eq!(failures(text, &[]), [expected]);
        assert_eq!(
            failures(text, &[said(Severity::Warning, 1, "one")]),
            [
                "f.mlir:1:4: error: 'warning' diagnostic emitted when expecting a 'error'",
                expected
            ]
        );
        assert_eq!(
            failures("", &[said(Severity::Remark, 7, "odd")]),
            ["f.mlir:7:3: error: unexpected remark: odd"]
        );
        assert_eq!(
            failures("// expected-error-re {{a {{b}}", &[]),
            ["f.mlir:1:4: error: found start of regex with no end '}}'"]
        );
        assert!(failures("// expected-error-re {{ {{(}} }}", &[])[0].contains("invalid regex"));
    }

    #[test]
    fn lines_count_from_the_start_of_the_file() {
        let text = "x\n// -----\n// expected-error@+1 {{late}}\n";
        let part = Source::new(text, "f.mlir").split()[1];
        let mut expectations = ExpectedDiagnostics::collect(part);
        expectations.observe(&said(Severity::Error, 4, "late"));
        assert_eq!(expectations.finish(), []);
    }
}
