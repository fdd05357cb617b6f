//! Diagnostics of a run against the `expected-error` comments of the files they point into.

use super::{ProgramInput, words};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tenon_base::Error;
use tenon_bef::{
    Diagnostic, ExpectedDiagnostics, KernelLocation, Severity, Source, SourcePosition,
};

/// Receives every diagnostic of a run. A file is read at its first diagnostic; the expectations of a
/// file without diagnostics are not checked (bef 5.2).
#[derive(Default)]
pub(super) struct Verifier(Mutex<VerifierState>);

#[derive(Default)]
struct VerifierState {
    files: HashMap<String, (String, ExpectedDiagnostics)>,
    /// The files in the order they were read.
    order: Vec<String>,
    /// Diagnostics without a position in a file.
    elsewhere: Vec<Diagnostic>,
    /// The text of standard input, which cannot be read again.
    input: Option<(String, String)>,
}

impl Verifier {
    /// A verifier for the diagnostics of a program that came from `input`.
    pub(super) fn new(input: &ProgramInput) -> Self {
        let text = (!input.is_bef()).then(|| input.text().ok()).flatten();
        Self(Mutex::new(VerifierState {
            input: text.map(|text| (input.name().to_owned(), text.to_owned())),
            ..VerifierState::default()
        }))
    }

    /// Records an error of a kernel.
    pub(super) fn kernel(&self, location: &KernelLocation, error: &Error) {
        let position = match location {
            KernelLocation::FileLineCol { file, line, column } => Ok(SourcePosition {
                file: file.to_string(),
                line: *line,
                column: *column,
            }),
            other => Err(opaque(other)),
        };
        self.record(position, &words(error));
    }

    /// Records an error with its own location.
    pub(super) fn problem(&self, error: &Error) {
        let location = error.location();
        let position = match (&location.file, location.line, location.column) {
            (Some(file), Some(line), Some(column)) => Ok(SourcePosition {
                file: file.display().to_string(),
                line,
                column,
            }),
            _ => Err(location.to_string()),
        };
        self.record(position, &words(error));
    }

    fn record(&self, position: Result<SourcePosition, String>, message: &str) {
        let message = format!("runtime error: {message}");
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match position {
            Ok(position) => state.in_file(&position, message),
            // A diagnostic without a position cannot be expected.
            Err(elsewhere) => {
                let message = format!("{elsewhere}: unexpected error: {message}");
                state
                    .elsewhere
                    .push(Diagnostic::new(Severity::Error, None, message));
            }
        }
    }

    /// The unexpected diagnostics, and the expected ones that did not occur.
    pub(super) fn finish(&self) -> Vec<Diagnostic> {
        let state = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let VerifierState {
            mut files,
            order,
            elsewhere: mut all,
            ..
        } = state;
        let files = order.iter().filter_map(|name| files.remove(name));
        all.extend(files.flat_map(|(_, expectations)| expectations.finish()));
        all
    }
}

impl VerifierState {
    fn in_file(&mut self, position: &SourcePosition, message: String) {
        let name = &position.file;
        if !self.files.contains_key(name) {
            let text = match &self.input {
                Some((input, text)) if input == name => text.clone(),
                // Without a readable file there are no expectations.
                _ if Path::new(name).is_file() => fs::read_to_string(name).unwrap_or_default(),
                _ => String::new(),
            };
            let expectations = ExpectedDiagnostics::collect(Source::new(&text, name));
            self.files.insert(name.clone(), (text, expectations));
            self.order.push(name.clone());
        }
        if let Some((text, expectations)) = self.files.get_mut(name) {
            let mut diagnostic = Diagnostic::new(Severity::Error, Some(position.clone()), message);
            diagnostic.snippet = Source::new(text, name).snippet(position.line, position.column);
            expectations.observe(&diagnostic);
        }
    }
}

/// A location as the original's executor decodes it (bef 1.7).
fn opaque(location: &KernelLocation) -> String {
    match location {
        KernelLocation::Unknown => "(unknown)".into(),
        KernelLocation::FileLineCol { file, line, column } => format!("{file};{line};{column}"),
        KernelLocation::Name { name, child } => match &**child {
            KernelLocation::Unknown => name.to_string(),
            child => format!("{}({name})", opaque(child)),
        },
        KernelLocation::CallSite { callee, caller } => {
            format!("{}<-{}", opaque(callee), opaque(caller))
        }
        KernelLocation::Fused(parts) => {
            let parts: Vec<String> = parts.iter().map(opaque).collect();
            parts.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_base::ErrorKind;

    fn failed() -> Error {
        Error::new(ErrorKind::ExecutionFailed, "Divide by zero")
    }

    fn at(line: u32) -> KernelLocation {
        KernelLocation::FileLineCol {
            file: "f.mlir".into(),
            line,
            column: 3,
        }
    }

    fn verifier() -> Verifier {
        let text = "\n  x // expected-error {{by zero}}\n  y\n  z // expected-error {{w}}\n";
        Verifier::new(&ProgramInput::new("f.mlir", text.into()))
    }

    fn said(verifier: &Verifier) -> Vec<String> {
        verifier
            .finish()
            .iter()
            .map(Diagnostic::to_string)
            .collect()
    }

    #[test]
    fn nothing_is_expected_before_the_first_diagnostic() {
        assert_eq!(said(&verifier()), [""; 0]);
    }

    #[test]
    fn diagnostics_meet_the_expectations_of_their_file() {
        let verifier = verifier();
        verifier.kernel(&at(2), &failed());
        verifier.kernel(&at(3), &failed());
        assert_eq!(
            said(&verifier),
            [
                "f.mlir:3:3: error: unexpected error: runtime error: Divide by zero\n  y\n  ^",
                "f.mlir:4:8: error: expected error \"w\" was not produced\n  \
                 z // expected-error {{w}}\n       ^",
            ]
        );
    }

    #[test]
    fn a_diagnostic_without_a_position_is_unexpected() {
        let verifier = verifier();
        let named = |name: &str, child| KernelLocation::Name {
            name: name.into(),
            child: Box::new(child),
        };
        let called = KernelLocation::CallSite {
            callee: Box::new(named("inner", KernelLocation::Unknown)),
            caller: Box::new(named("outer", at(7))),
        };
        let fused = KernelLocation::Fused(vec![called, KernelLocation::Unknown]);
        verifier.kernel(&fused, &failed());
        let position = "inner<-f.mlir;7;3(outer),(unknown)";
        let expected =
            format!("error: {position}: unexpected error: runtime error: Divide by zero");
        assert_eq!(said(&verifier), [expected]);
    }
}
