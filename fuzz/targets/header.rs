//! The 1024-byte header of packages: encoding a decoded header yields the same bytes.
#![no_main]

#[path = "../checks/neff.rs"]
#[allow(dead_code, reason = "the checks of the other targets")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::header(bytes));
