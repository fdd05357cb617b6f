//! `def.json`: parses and serializes it, and verifies a package with it.
#![no_main]

#[path = "../checks/neff.rs"]
#[allow(dead_code, reason = "the checks of the other targets")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::definition(bytes));
