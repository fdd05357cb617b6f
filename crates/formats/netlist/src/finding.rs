//! Findings: the diagnostics of a netlist as data, and their display with the source line.

use crate::Rule;
use crate::source::{Source, Span};
use std::fmt;
use tenon_base::{Error, ErrorKind, Location};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information; the netlist is correct.
    Note,
    /// Accepted by the original implementation, and probably a mistake.
    Warning,
    /// The netlist cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Its severity.
    pub severity: Severity,
    /// The source position.
    pub span: Span,
    /// The message, in lower case, without the position.
    pub message: String,
    /// The expected value.
    pub expected: Option<String>,
    /// The value found.
    pub found: Option<String>,
    /// The remedy.
    pub help: Option<String>,
}

impl Finding {
    /// A finding at `span` with the severity of its rule.
    pub fn new(rule: Rule, span: Span, message: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            span,
            message: printable(message.into()),
            expected: None,
            found: None,
            help: None,
        }
    }

    /// Sets the expected value.
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(printable(expected.to_string()));
        self
    }

    /// Sets the value found.
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.found = Some(printable(found.to_string()));
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(printable(help.into()));
        self
    }

    /// The message with the expected value and the value found.
    pub fn sentence(&self) -> String {
        let mut text = self.message.clone();
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => {
                text += &format!(": expected {expected}, found {found}");
            }
            (Some(expected), None) => text += &format!(": expected {expected}"),
            (None, Some(found)) => text += &format!(": found {found}"),
            (None, None) => {}
        }
        text
    }

    /// The diagnostic: position, severity, sentence, rule, then the source line with the span marked.
    pub fn display<'a>(&'a self, source: &'a Source) -> impl fmt::Display + 'a {
        Diagnostic {
            finding: self,
            source,
        }
    }

    /// The finding as an error.
    pub fn to_error(&self, source: &Source) -> Error {
        let (line, column) = source.line_column(self.span.start);
        let mut error = Error::new(ErrorKind::InvalidModel, self.message.clone())
            .at(Location::file(source.path()).line_column(line, column));
        if let Some(expected) = &self.expected {
            error = error.expected(expected);
        }
        if let Some(found) = &self.found {
            error = error.found(found);
        }
        match &self.help {
            Some(help) => error.help(help),
            None => error,
        }
    }
}

/// Text for terminals: control characters are replaced by U+FFFD.
fn printable(text: String) -> String {
    if text.contains(char::is_control) {
        text.replace(char::is_control, "\u{fffd}")
    } else {
        text
    }
}

struct Diagnostic<'a> {
    finding: &'a Finding,
    source: &'a Source,
}

/// Maximum number of characters of a displayed line; a flow map on one line may have kilobytes.
const LINE_LENGTH: usize = 100;
/// Characters displayed before the mark when the line is truncated.
const CONTEXT: usize = 30;

impl fmt::Display for Diagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            span,
            severity,
            rule,
            ..
        } = self.finding;
        let (number, column) = self.source.line_column(span.start);
        writeln!(
            f,
            "{}:{number}:{column}: {severity}: {} [{rule}]",
            self.source.path().display(),
            self.finding.sentence(),
        )?;
        let text = self.source.line(number);
        let column = column as usize - 1;
        let length = text.chars().count();
        let first = if length > LINE_LENGTH {
            column.saturating_sub(CONTEXT)
        } else {
            0
        };
        let line: String = text.chars().skip(first).take(LINE_LENGTH).collect();
        let width = self
            .source
            .slice(*span)
            .lines()
            .next()
            .map_or(1, |part| part.chars().count());
        let available = line.chars().count().saturating_sub(column - first);
        let mark = "^".repeat(width.clamp(1, available.max(1)));
        writeln!(f, "    {}", printable(line.replace('\t', " ")))?;
        write!(f, "    {}{mark}", " ".repeat(column - first))?;
        match &self.finding.help {
            Some(help) => write!(f, "\n    {help}"),
            None => Ok(()),
        }
    }
}

/// The findings of one netlist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Adds the findings of another pass.
    pub fn extend(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.0
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Sorts by source position.
    pub fn sorted(mut self) -> Self {
        self.0
            .sort_by_key(|finding| (finding.span.start, finding.rule));
        self
    }

    /// All errors combined into one error; `Ok` without errors.
    pub fn to_result(&self, source: &Source) -> tenon_base::Result<()> {
        let errors = self
            .0
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<_> = errors.map(|finding| finding.to_error(source)).collect();
        Error::from_all(errors).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_displays_its_line_with_a_mark() {
        let source = Source::new("a.yaml", "queues:\n  q: {entries: -3}\n");
        let finding = Finding::new(
            Rule::ValueRange,
            Span { start: 23, end: 25 },
            "wrong entries",
        )
        .expected("at least 1")
        .found("-3");
        assert_eq!(
            finding.display(&source).to_string(),
            "a.yaml:2:16: error: wrong entries: expected at least 1, found -3 [value-range]\n    \
             \x20 q: {entries: -3}\n    \
             \x20              ^^"
        );
    }

    #[test]
    fn control_characters_are_not_printed() {
        let source = Source::new("a.yaml", "a: \"\u{1b}[2J\"\n");
        let finding =
            Finding::new(Rule::ValueWord, Span { start: 3, end: 4 }, "x\u{1b}y").found("a\nb");
        let shown = finding.display(&source).to_string();
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert_eq!(shown.lines().count(), 3);
        assert!(shown.contains("x\u{fffd}y: found a\u{fffd}b"), "{shown}");
    }

    #[test]
    fn a_long_line_is_truncated_around_the_mark() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let source = Source::new("a.yaml", text);
        let finding = Finding::new(
            Rule::ValueRange,
            Span {
                start: 500,
                end: 501,
            },
            "here",
        );
        let shown = finding.display(&source).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].len(), 4 + LINE_LENGTH);
        assert_eq!(lines[2], format!("    {}^", " ".repeat(CONTEXT)));
        assert_eq!(lines[1].as_bytes()[4 + CONTEXT], b'X');
    }
}
