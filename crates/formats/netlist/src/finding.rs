//! What is wrong with a netlist: findings as data, and their display with the line and a mark.

use crate::Rule;
use crate::source::{Source, Span};
use std::fmt;
use tenon_base::{Error, ErrorKind, Location};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing, nothing wrong.
    Note,
    /// Accepted by the original, and probably not what was meant.
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

/// One thing that a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// How bad it is here.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// What, in lower case, without the place.
    pub message: String,
    /// What would be right.
    pub expected: Option<String>,
    /// What stands there.
    pub found: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Finding {
    /// A finding of `rule` at `span`, as bad as the rule says.
    pub fn new(rule: Rule, span: Span, message: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            span,
            message: shown(message.into()),
            expected: None,
            found: None,
            help: None,
        }
    }

    /// Says what would be right.
    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(shown(expected.to_string()));
        self
    }

    /// Says what stands there.
    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.found = Some(shown(found.to_string()));
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(shown(help.into()));
        self
    }

    /// The message with what was expected and found.
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

    /// The finding for people: place, severity, sentence, rule, then the line with a mark under it.
    pub fn display<'a>(&'a self, source: &'a Source) -> impl fmt::Display + 'a {
        Shown {
            finding: self,
            source,
        }
    }

    /// The finding as an error of the whole input.
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

/// A text that goes to terminals: what would move the cursor or end the line is told as U+FFFD.
fn shown(text: String) -> String {
    match text.contains(char::is_control) {
        true => text.replace(char::is_control, "\u{fffd}"),
        false => text,
    }
}

struct Shown<'a> {
    finding: &'a Finding,
    source: &'a Source,
}

/// Characters of a line that are shown; a flow map on one line may be kilobytes long.
const SHOWN: usize = 100;
/// Characters shown before the mark when the line is cut.
const BEFORE: usize = 30;

impl fmt::Display for Shown<'_> {
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
        let first = if length > SHOWN {
            column.saturating_sub(BEFORE)
        } else {
            0
        };
        let line: String = text.chars().skip(first).take(SHOWN).collect();
        let width = self
            .source
            .slice(*span)
            .lines()
            .next()
            .map_or(1, |part| part.chars().count());
        let room = line.chars().count().saturating_sub(column - first);
        let mark = "^".repeat(width.clamp(1, room.max(1)));
        writeln!(f, "    {}", self::shown(line.replace('\t', " ")))?;
        write!(f, "    {}{mark}", " ".repeat(column - first))?;
        match &self.finding.help {
            Some(help) => write!(f, "\n    {help}"),
            None => Ok(()),
        }
    }
}

/// The findings of one netlist, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Adds those of another pass.
    pub fn extend(&mut self, other: Findings) {
        self.0.extend(other.0);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    /// How many there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.0
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Whether one of them makes the netlist unusable.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// In the order of the file.
    pub fn sorted(mut self) -> Self {
        self.0
            .sort_by_key(|finding| (finding.span.start, finding.rule));
        self
    }

    /// The errors among them as one error.
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
    fn a_finding_shows_its_line_with_a_mark() {
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
    fn what_would_steer_a_terminal_is_not_printed() {
        let source = Source::new("a.yaml", "a: \"\u{1b}[2J\"\n");
        let finding =
            Finding::new(Rule::ValueWord, Span { start: 3, end: 4 }, "x\u{1b}y").found("a\nb");
        let shown = finding.display(&source).to_string();
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert_eq!(shown.lines().count(), 3);
        assert!(shown.contains("x\u{fffd}y: found a\u{fffd}b"), "{shown}");
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
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
        assert_eq!(lines[1].len(), 4 + SHOWN);
        assert_eq!(lines[2], format!("    {}^", " ".repeat(BEFORE)));
        assert_eq!(lines[1].as_bytes()[4 + BEFORE], b'X');
    }
}
