//! Hostile texts and texts found by fuzzing: a text that parses must round-trip through text and
//! BEF, any other must be refused with a position. The seed corpus of `cargo xtask fuzz mlir` is
//! the same.

use std::fs;
use std::path::Path;
use tenon_bef::{
    Diagnostic, EncodeOptions, PrintOptions, Source, canonicalize, decode, encode, inline, parse,
    parse_for_rewriting, print,
};

fn check(name: &str, text: &str) {
    let all = PrintOptions {
        locations: true,
        ..PrintOptions::default()
    };
    if let Ok(mut module) = parse_for_rewriting(Source::new(text, name), true) {
        for rewrite in [|_: &mut _| {}, inline, canonicalize] {
            rewrite(&mut module);
            let printed = print(&module, all);
            let again = parse_for_rewriting(Source::new(&printed, name), true);
            assert_eq!(print(&again.unwrap(), all), printed);
        }
    }
    let module = match parse(text, name) {
        Ok(module) => module,
        Err(error) => {
            assert!(
                Diagnostic::all_of(&error)
                    .iter()
                    .all(|diagnostic| diagnostic.place.is_some()),
                "{error}"
            );
            return;
        }
    };
    for generic in [false, true] {
        let options = PrintOptions { generic, ..all };
        let printed = print(&module, options);
        let again = parse(&printed, name).unwrap();
        assert_eq!(print(&again, options), printed);
    }
    let bytes = encode(&module, &EncodeOptions::default()).unwrap();
    assert_eq!(print(&decode(&bytes).unwrap(), all), print(&module, all));
}

#[test]
fn texts_of_all_folders_parse_or_fail_without_panic() {
    for folder in ["golden", "verify", "hostile"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            for part in Source::new(&text, name).split() {
                check(name, part.text);
            }
            // Truncated at every tenth byte: no panic.
            for end in (0..text.len())
                .step_by(10)
                .filter(|end| text.is_char_boundary(*end))
            {
                let _unfinished = parse(&text[..end], name);
            }
        }
    }
}
