//! MLIR text: printing, rewriting, encoding and decoding of parsed modules round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_bef::{
    EncodeOptions, PrintOptions, Source, canonicalize, decode, encode, inline, parse,
    parse_for_rewriting, print,
};

fuzz_target!(|text: &str| {
    // Compares texts, since NaN is not equal to itself.
    let all = PrintOptions {
        locations: true,
        ..PrintOptions::default()
    };
    if let Ok(mut module) = parse_for_rewriting(Source::new(text, "fuzz.mlir"), true) {
        for rewrite in [|_: &mut _| {}, inline, canonicalize] {
            rewrite(&mut module);
            let printed = print(&module, all);
            let again = parse_for_rewriting(Source::new(&printed, "fuzz.mlir"), true);
            assert_eq!(print(&again.expect("our own text"), all), printed);
        }
    }
    let Ok(module) = parse(text, "fuzz.mlir") else {
        return;
    };
    for generic in [false, true] {
        let options = PrintOptions { generic, ..all };
        let printed = print(&module, options);
        let again = parse(&printed, "fuzz.mlir").expect("our own text");
        assert_eq!(print(&again, options), printed);
    }
    let bytes = encode(&module, &EncodeOptions::default()).expect("a verified Module");
    let decoded = decode(&bytes).expect("our own bytes");
    assert_eq!(print(&decoded, all), print(&module, all));
});
