//! Arbitrary DMA descriptors: checked, run by the engine, and copies compared with a reference.
#![no_main]

#[path = "../../crates/formats/dma/tests/hostile/descriptors.rs"]
mod descriptors;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| descriptors::check(bytes));
