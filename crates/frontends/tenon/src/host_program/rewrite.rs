//! MLIR text checked, rewritten and printed.

use super::ProgramInput;
use super::inputs::{Inputs, Translation};
use tenon_bef::{
    Diagnostic, PrintOptions, Source, canonicalize, inline, parse_for_rewriting, print,
    stream_remarks,
};

/// The steps of rewriting, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// Whether lines `// -----` split the text into separate inputs.
    pub split_input_file: bool,
    /// Whether diagnostics are compared with the `expected-` comments of the text.
    pub verify_diagnostics: bool,
    /// Whether operations of unregistered dialects are accepted.
    pub allow_unregistered: bool,
    /// Whether calls are replaced by what they call.
    pub inline: bool,
    /// Whether what can be said more simply is.
    pub canonicalize: bool,
    /// Whether every function and operation gets a remark with its stream.
    pub print_streams: bool,
    /// The form of the text.
    pub print: PrintOptions,
}

impl RewriteOptions {
    /// Checks and prints only.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets whether lines `// -----` split the text into separate inputs.
        split_input_file: bool,
        /// Sets whether diagnostics are compared with the `expected-` comments of the text.
        verify_diagnostics: bool,
        /// Sets whether operations of unregistered dialects are accepted.
        allow_unregistered: bool,
        /// Sets whether calls are inlined.
        inline: bool,
        /// Sets whether the program is simplified.
        canonicalize: bool,
        /// Sets whether every function and operation gets a remark with its stream.
        print_streams: bool,
        /// Sets the form of the text.
        print: PrintOptions,
    }
}

/// Checks, rewrites and prints `input`. Lines `// -----` separate the outputs of several inputs.
pub fn rewrite(input: &ProgramInput, options: &RewriteOptions) -> Translation {
    let inputs = Inputs {
        split: options.split_input_file,
        verify: options.verify_diagnostics,
        separator: "// -----\n",
    };
    inputs.each(input, |source| {
        let mut module = parse_for_rewriting(source, options.allow_unregistered)?;
        if options.inline {
            inline(&mut module);
        }
        if options.canonicalize {
            canonicalize(&mut module);
        }
        let remarks = if options.print_streams {
            stream_remarks(&module)
        } else {
            Vec::new()
        };
        let shown = remarks.into_iter().map(|remark| with_line(remark, source));
        Ok((print(&module, options.print).into_bytes(), shown.collect()))
    })
}

/// A diagnostic with the line that it points to, if that is in this text.
fn with_line(mut diagnostic: Diagnostic, source: Source<'_>) -> Diagnostic {
    let place = diagnostic
        .place
        .as_ref()
        .filter(|place| place.file == source.file);
    diagnostic.snippet = place.and_then(|place| source.snippet(place.line, place.column));
    diagnostic
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
func.func @f(%arg0: i32) -> i32 {
  %0 = tfrt.add.i32 %arg0, %arg0
  tfrt.return %0 : i32
}
func.func @g(%arg0: i32) -> i32 {
  %0 = tfrt.call @f(%arg0) : (i32) -> i32
  %1 = tfrt.constant.i32 1
  tfrt.return %0 : i32
}
";

    fn rewritten(text: &str, change: impl FnOnce(&mut RewriteOptions)) -> (String, Vec<String>) {
        let mut options = RewriteOptions::default();
        change(&mut options);
        let done = rewrite(&ProgramInput::new("f.mlir", text.into()), &options);
        let said = done.diagnostics.iter().map(Diagnostic::to_string);
        (String::from_utf8(done.output).unwrap(), said.collect())
    }

    #[test]
    fn a_text_prints_as_it_is_and_rewritten() {
        assert_eq!(rewritten(TEXT, |_| ()), (TEXT.into(), vec![]));
        let (inlined, _) = rewritten(TEXT, |o| (o.inline, o.canonicalize) = (true, true));
        assert!(
            !inlined.contains("call") && !inlined.contains("constant"),
            "{inlined}"
        );
        assert_eq!(rewritten(&inlined, |_| ()).0, inlined);
        let twice = format!("{TEXT}// -----\n{TEXT}");
        assert_eq!(
            rewritten(&twice, |o| o.split_input_file = true),
            (twice, vec![])
        );
    }

    #[test]
    fn streams_are_remarks_that_may_be_expected() {
        let (_, said) = rewritten(TEXT, |o| o.print_streams = true);
        assert_eq!(said.len(), 7, "{said:?}");
        let first = "f.mlir:1:1: remark: stream id: 0, stream cost: 3, parent stream: -1\nfunc";
        assert!(said[0].starts_with(first), "{}", said[0]);
        let (_, said) = rewritten(TEXT, |o| {
            (o.print_streams, o.verify_diagnostics) = (true, true);
        });
        assert!(
            said[0].contains("unexpected remark: stream id"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn unregistered_dialects_are_refused_unless_allowed() {
        let text = "func.func @f() {\n  \"simple.op\"() : () -> ()\n  tfrt.return\n}\n";
        let (_, said) = rewritten(text, |_| ());
        assert!(said[0].contains("unregistered dialect"), "{said:?}");
        assert_eq!(
            rewritten(text, |o| o.allow_unregistered = true),
            (text.into(), vec![])
        );
    }
}
