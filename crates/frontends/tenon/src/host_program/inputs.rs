//! The inputs of one text, processed separately, and their diagnostics.

use super::ProgramInput;
use tenon_base::{Error, Result};
use tenon_bef::{Diagnostic, ExpectedDiagnostics, Severity, Source};

/// The result of translating or rewriting a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translation {
    /// The outputs of the inputs, concatenated.
    pub output: Vec<u8>,
    /// The diagnostics; if diagnostics are verified, only the unexpected ones.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether everything went well, or failed as expected.
    pub succeeded: bool,
}

impl Translation {
    /// A failure without output.
    pub(super) fn failed(error: &Error) -> Self {
        Self {
            diagnostics: Diagnostic::all_of(error),
            ..Self::default()
        }
    }
}

/// How a text is split, and whether its diagnostics are verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// Whether lines `// -----` split it.
    pub(super) split: bool,
    /// Whether diagnostics are compared with its `expected-` comments.
    pub(super) verify: bool,
    /// The separator between the outputs of its parts.
    pub(super) separator: &'static str,
}

impl Inputs {
    /// Applies `work`, which returns output and diagnostics, to each part of `input`.
    pub(super) fn each(
        self,
        input: &ProgramInput,
        mut work: impl FnMut(Source<'_>) -> Result<(Vec<u8>, Vec<Diagnostic>)>,
    ) -> Translation {
        let text = match input.text() {
            Ok(text) => text,
            Err(error) => return Translation::failed(&error),
        };
        let whole = Source::new(text, input.name());
        let sources = if self.split {
            whole.split()
        } else {
            vec![whole]
        };
        let mut all = Translation {
            succeeded: true,
            ..Translation::default()
        };
        for source in sources {
            let diagnostics = match work(source) {
                Ok((output, diagnostics)) => {
                    if !all.output.is_empty() {
                        all.output.extend(self.separator.as_bytes());
                    }
                    all.output.extend(output);
                    diagnostics
                }
                Err(error) => Diagnostic::all_of(&error),
            };
            self.add(source, diagnostics, &mut all);
        }
        all
    }

    fn add(self, source: Source<'_>, mut diagnostics: Vec<Diagnostic>, all: &mut Translation) {
        if self.verify {
            let mut expectations = ExpectedDiagnostics::collect(source);
            diagnostics.iter().for_each(|one| expectations.observe(one));
            diagnostics = expectations.finish();
        }
        all.succeeded &= diagnostics
            .iter()
            .all(|one| one.severity != Severity::Error);
        all.diagnostics.extend(diagnostics);
    }
}
