//! MLIR text to BEF bytes and back.

use super::ProgramInput;
use super::inputs::{Inputs, Translation};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{
    Diagnostic, EncodeOptions, File, PrintOptions, Severity, Source, encode, parse_source, print,
};

/// The direction of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Text becomes bytes.
    MlirToBef,
    /// Bytes become text.
    BefToMlir,
}

/// How a program is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranslateOptions {
    /// The direction of a translation.
    pub direction: Direction,
    /// Whether lines `// -----` split the text into separate inputs.
    pub split_input_file: bool,
    /// Whether diagnostics are compared with the `expected-` comments of the text.
    pub verify_diagnostics: bool,
    /// Whether BEF gets the sections that only readers like this one need.
    pub optional_sections: bool,
    /// The form of the text.
    pub print: PrintOptions,
}

impl TranslateOptions {
    /// One input, optional sections, diagnostics as they are.
    pub fn new(direction: Direction) -> Self {
        Self {
            direction,
            split_input_file: false,
            verify_diagnostics: false,
            optional_sections: true,
            print: PrintOptions::default(),
        }
    }

    setters! {
        /// Sets whether lines `// -----` split the text into separate inputs.
        split_input_file: bool,
        /// Sets whether diagnostics are compared with the `expected-` comments of the text.
        verify_diagnostics: bool,
        /// Sets whether BEF has the sections that only readers like this one need.
        optional_sections: bool,
        /// Sets the form of the text.
        print: PrintOptions,
    }
}

/// Translates `input`.
pub fn translate(input: &ProgramInput, options: &TranslateOptions) -> Translation {
    match options.direction {
        Direction::BefToMlir => to_text(input, options),
        Direction::MlirToBef => {
            let inputs = Inputs {
                split: options.split_input_file,
                verify: options.verify_diagnostics,
                separator: "",
            };
            inputs.each(input, |source| Ok((to_bytes(source, options)?, Vec::new())))
        }
    }
}

fn to_bytes(source: Source<'_>, options: &TranslateOptions) -> Result<Vec<u8>> {
    let module = parse_source(source)?;
    let options = EncodeOptions {
        optional_sections: options.optional_sections,
    };
    encode(&module, &options).map_err(|error| error.at(Location::file(source.file)))
}

fn to_text(input: &ProgramInput, options: &TranslateOptions) -> Translation {
    let here = Location::file(input.name());
    if input.bytes().is_empty() {
        let empty = Error::new(ErrorKind::InvalidProgram, "BEF file is empty.");
        return Translation::failed(&empty.at(here));
    }
    let read = |file: File<'_>| Ok((file.module()?, file.is_whole()));
    match File::open(input.bytes()).and_then(read) {
        Ok((module, whole)) => {
            let incomplete = "Missing AttributeTypes, AttributeNames or RegisterTypes sections.";
            let warning = Diagnostic::new(Severity::Warning, None, incomplete);
            Translation {
                output: print(&module, options.print).into_bytes(),
                diagnostics: if whole { Vec::new() } else { vec![warning] },
                succeeded: true,
            }
        }
        Err(error) => Translation::failed(&error.at(here)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "func.func @f() -> i32 {\n  %0 = tfrt.constant.i32 7\n  tfrt.return %0 : i32\n}\n";

    fn to_bef(text: &str, change: impl FnOnce(&mut TranslateOptions)) -> Translation {
        let mut options = TranslateOptions::new(Direction::MlirToBef);
        change(&mut options);
        translate(&ProgramInput::new("f.mlir", text.into()), &options)
    }

    fn back(bytes: Vec<u8>) -> Translation {
        let options = TranslateOptions::new(Direction::BefToMlir);
        translate(&ProgramInput::new("f.bef", bytes), &options)
    }

    fn said(translation: &Translation) -> Vec<String> {
        let said = translation.diagnostics.iter();
        said.map(Diagnostic::to_string).collect()
    }

    #[test]
    fn there_and_back() {
        let bytes = to_bef(TEXT, |_| {}).output;
        assert_eq!(String::from_utf8(back(bytes).output).unwrap(), TEXT);
    }

    #[test]
    fn what_bytes_lack_is_a_warning() {
        let bytes = to_bef(TEXT, |o| o.optional_sections = false).output;
        let text = back(bytes);
        assert!(text.succeeded && !text.output.is_empty());
        assert_eq!(
            said(&text),
            ["warning: Missing AttributeTypes, AttributeNames or RegisterTypes sections."]
        );
    }

    #[test]
    fn an_empty_file_of_bytes_is_an_error_and_one_of_text_is_none() {
        let empty = back(Vec::new());
        assert!(!empty.succeeded);
        assert_eq!(said(&empty), ["error: f.bef: BEF file is empty."]);
        let empty = to_bef("", |_| {});
        assert!(empty.succeeded && empty.output.starts_with(&[0x0B, 0xEF, 0]));
    }

    #[test]
    fn inputs_of_one_file_fail_by_themselves() {
        let text = format!("{TEXT}// -----\none // expected-error {{{{expected 'func.func'}}}}\n");
        let split = to_bef(&text, |o| o.split_input_file = true);
        assert!(!split.succeeded && !split.output.is_empty());
        assert!(
            said(&split)[0].starts_with("f.mlir:6:1: error: "),
            "{:?}",
            said(&split)
        );
        let verified = to_bef(&text, |o| {
            (o.split_input_file, o.verify_diagnostics) = (true, true);
        });
        assert_eq!(said(&verified), [""; 0]);
        assert!(verified.succeeded);
    }

    #[test]
    fn an_expectation_that_is_not_met_fails() {
        let text = format!("// expected-error {{{{never}}}}\n{TEXT}");
        let verified = to_bef(&text, |o| o.verify_diagnostics = true);
        assert!(!verified.succeeded);
        assert!(said(&verified)[0].contains("expected error \"never\" was not produced"));
    }
}
