//! The inputs of one text, each by itself, and what is told about them.

use super::ProgramInput;
use tenon_base::{Error, Result};
use tenon_bef::{Diagnostic, ExpectedDiagnostics, Severity, Source};

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translation {
    /// What was made of the inputs, one after the other.
    pub output: Vec<u8>,
    /// What is to be told; where expectations were asked for, only what did not meet them.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether everything went well, or failed as expected.
    pub succeeded: bool,
}

impl Translation {
    /// Nothing came of it.
    pub(super) fn failed(error: &Error) -> Self {
        Self {
            diagnostics: Diagnostic::all_of(error),
            ..Self::default()
        }
    }
}

/// How a text is cut and what is done with its diagnostics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// Whether lines `// -----` cut it.
    pub(super) split: bool,
    /// Whether diagnostics are compared with its `expected-` comments.
    pub(super) verify: bool,
    /// What stands between the outputs of its parts.
    pub(super) separator: &'static str,
}

impl Inputs {
    /// Applies `work` to each part of `input`: it answers the output, and what it has to tell.
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
            let said = match work(source) {
                Ok((output, said)) => {
                    if !all.output.is_empty() {
                        all.output.extend(self.separator.as_bytes());
                    }
                    all.output.extend(output);
                    said
                }
                Err(error) => Diagnostic::all_of(&error),
            };
            self.tell(source, said, &mut all);
        }
        all
    }

    fn tell(self, source: Source<'_>, mut said: Vec<Diagnostic>, all: &mut Translation) {
        if self.verify {
            let mut expectations = ExpectedDiagnostics::collect(source);
            said.iter().for_each(|said| expectations.observe(said));
            said = expectations.finish();
        }
        all.succeeded &= said.iter().all(|said| said.severity != Severity::Error);
        all.diagnostics.extend(said);
    }
}
