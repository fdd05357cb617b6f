//! Diagnostics: messages about a program with their source positions.

use std::fmt;
use tenon_base::Error;

/// Severity of a diagnostic. Its Display is the word in messages and expectations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The program is invalid.
    Error,
    /// The program is valid but suspicious.
    Warning,
    /// Information on an analysis or a transformation.
    Remark,
    /// A supplement to the previous diagnostic.
    Note,
}

impl Severity {
    pub(crate) fn from_word(word: &str) -> Option<Severity> {
        [Self::Error, Self::Warning, Self::Remark, Self::Note]
            .into_iter()
            .find(|severity| severity.to_string() == word)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
            Severity::Note => "note",
        })
    }
}

/// A position in a file: line and column, both from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// The path.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// One message about a program. Its Display has the form of compiler messages, `FILE:LINE:COLUMN:
/// error: ..`, followed by the source line with a caret, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Its position; `None` if it is not a position in a file.
    pub place: Option<SourcePosition>,
    /// The message, one line.
    pub message: String,
    /// The source line, and a line with a caret under the column.
    pub snippet: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without its source line.
    pub fn new(
        severity: Severity,
        place: Option<SourcePosition>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            place,
            message: message.into(),
            snippet: None,
        }
    }

    /// The diagnostics of an `error` of [`parse`](crate::parse), whose messages are followed by the
    /// source line.
    pub fn all_of(error: &Error) -> Vec<Diagnostic> {
        error.all().map(Self::of).collect()
    }

    fn of(error: &Error) -> Diagnostic {
        let location = error.location();
        let place = match (&location.file, location.line, location.column) {
            (Some(file), Some(line), Some(column)) => Some(SourcePosition {
                file: file.display().to_string(),
                line,
                column,
            }),
            _ => None,
        };
        if place.is_none() {
            return Self::new(Severity::Error, None, error.single().to_string());
        }
        let (message, snippet) = match error.message().split_once('\n') {
            Some((message, snippet)) => (message, Some(snippet.to_owned())),
            None => (error.message(), None),
        };
        Diagnostic {
            snippet,
            ..Self::new(Severity::Error, place, message)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(SourcePosition { file, line, column }) = &self.place {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.message)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n{snippet}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_parser_become_diagnostics() {
        let error = crate::parse("func.func @f() {\n  %0 = one\n}", "f.mlir").unwrap_err();
        let shown: Vec<String> = (Diagnostic::all_of(&error).iter())
            .map(Diagnostic::to_string)
            .collect();
        let expected =
            "f.mlir:2:8: error: custom op 'one' is unknown\n  %0 = one\n       ^".to_owned();
        assert_eq!(shown[0], expected);
    }
}
