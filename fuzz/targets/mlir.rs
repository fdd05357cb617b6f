//! MLIR text: what parses is printed, and comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_bef::{PrintOptions, parse, print};

fuzz_target!(|text: &str| {
    let Ok(module) = parse(text, "fuzz.mlir") else {
        return;
    };
    let printed = print(&module, PrintOptions::default());
    let again = parse(&printed, "fuzz.mlir").expect("our own text");
    assert_eq!(print(&again, PrintOptions::default()), printed);
});
