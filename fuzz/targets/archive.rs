//! The archive of a package, plain or compressed: opened, checked, packed again.
#![no_main]

#[path = "../checks/neff.rs"]
#[allow(dead_code, reason = "the checks of the other targets")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::archive(bytes));
