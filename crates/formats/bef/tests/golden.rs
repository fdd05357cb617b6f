//! Golden tests: files of `tests/golden` consist of a directive, MLIR text and the expected output.
//!
//! The first line is `// test: ` and one of
//! * `print`: the printed Module, which must round-trip through that text, the generic form and
//!   BEF;
//! * `generic`, `locations`, `readable`: the same with these print options;
//! * `diagnostics`: the diagnostics of each part, parsed for BEF;
//! * `opt`: the printed Module or the diagnostics, parsed for rewriting;
//! * `inline`, `canonicalize`: the same after that rewrite.
//!
//! The output follows a line of `----`. `TENON_BLESS=1` in the environment rewrites the files.
//! Files of `tests/verify` contain the expected diagnostics as comments (`expected-error`).

use std::fs;
use std::path::{Path, PathBuf};
use tenon_base::Result;
use tenon_bef::{
    Diagnostic, EncodeOptions, ExpectedDiagnostics, Module, PrintOptions, Source, canonicalize,
    decode, encode, inline, parse_for_rewriting, parse_source, print, verify,
};

const DIVIDER: &str = "\n----\n";

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<_> = paths
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    assert!(!files.is_empty());
    files
}

/// The outputs of all parts, or their diagnostics.
fn parts(source: Source<'_>, output: impl Fn(Source<'_>) -> Result<String>) -> String {
    let parts = source.split().into_iter().map(|part| match output(part) {
        Ok(text) => text,
        Err(error) => {
            let diagnostics = Diagnostic::all_of(&error);
            diagnostics
                .iter()
                .map(|diagnostic| format!("{diagnostic}\n"))
                .collect()
        }
    });
    parts.collect::<Vec<_>>().join("// -----\n")
}

/// The text of a Module, checked to round-trip through text and bytes.
fn round_tripped(source: Source<'_>, options: PrintOptions) -> Result<String> {
    let module = parse_source(source)?;
    let text = print(&module, options);
    let all = PrintOptions {
        locations: true,
        ..options
    };
    for generic in [false, true] {
        let text = print(&module, PrintOptions { generic, ..all });
        let back = parse_source(Source::new(&text, "again.mlir"));
        assert_eq!(back.unwrap(), module, "{text}");
    }
    let bytes = encode(&module, &EncodeOptions::default()).unwrap();
    let decoded = decode(&bytes).unwrap();
    assert_eq!(print(&decoded, options), text);
    let again: Module = parse_source(Source::new(&print(&decoded, all), "again.mlir")).unwrap();
    assert_eq!(encode(&again, &EncodeOptions::default()).unwrap(), bytes);
    Ok(text)
}

/// The text of a Module after a rewrite, checked to parse and to verify.
fn rewritten(source: Source<'_>, rewrite: fn(&mut Module)) -> Result<String> {
    let mut module = parse_for_rewriting(source, false)?;
    rewrite(&mut module);
    let text = module.to_string();
    let again = parse_for_rewriting(Source::new(&text, "again.mlir"), false).unwrap();
    assert_eq!(again.to_string(), text);
    verify(&module)?;
    Ok(text)
}

fn output(directive: &str, source: Source<'_>) -> String {
    let plain = PrintOptions::default();
    let generic = PrintOptions {
        generic: true,
        ..plain
    };
    let locations = PrintOptions {
        locations: true,
        ..plain
    };
    let readable = PrintOptions {
        readable: true,
        ..plain
    };
    match directive {
        "print" => parts(source, |part| round_tripped(part, plain)),
        "readable" => parts(source, |part| round_tripped(part, readable)),
        "generic" => parts(source, |part| round_tripped(part, generic)),
        "locations" => parts(source, |part| round_tripped(part, locations)),
        "diagnostics" => parts(source, |part| {
            parse_source(part).map(|_| "no problems\n".to_owned())
        }),
        "opt" => parts(source, |part| rewritten(part, |_| {})),
        "inline" => parts(source, |part| rewritten(part, inline)),
        "canonicalize" => parts(source, |part| rewritten(part, canonicalize)),
        other => panic!("unknown directive '{other}'"),
    }
}

#[test]
fn golden_files_have_the_expected_output() {
    let bless = std::env::var_os("TENON_BLESS").is_some();
    let mut wrong = Vec::new();
    for (path, text) in files("golden") {
        let (input, expected) = text.split_once(DIVIDER).unwrap_or((text.trim_end(), ""));
        let directive = input
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// test: "));
        let name = path.file_name().unwrap().to_str().unwrap();
        let found = output(directive.unwrap(), Source::new(input, name));
        if bless {
            fs::write(&path, format!("{input}{DIVIDER}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{name}:\nexpected\n{expected}\nfound\n{found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nset TENON_BLESS=1 to accept",
        wrong.join("\n")
    );
}

#[test]
fn diagnostics_match_the_expectations_in_the_text() {
    for (path, text) in files("verify") {
        let name = path.file_name().unwrap().to_str().unwrap();
        for part in Source::new(&text, name).split() {
            let mut expectations = ExpectedDiagnostics::collect(part);
            if let Err(error) = parse_source(part) {
                Diagnostic::all_of(&error)
                    .iter()
                    .for_each(|d| expectations.observe(d));
            }
            let failures: Vec<String> = expectations
                .finish()
                .iter()
                .map(Diagnostic::to_string)
                .collect();
            assert!(failures.is_empty(), "{}", failures.join("\n"));
        }
    }
}

#[test]
fn the_example_of_the_documentation_round_trips() {
    let page = include_str!("../../../../docs/mlir.md");
    let (_, after) = page.split_once("```mlir\n").unwrap();
    let (example, _) = after.split_once("```").unwrap();
    round_tripped(Source::new(example, "mlir.md"), PrintOptions::default()).unwrap();
}
