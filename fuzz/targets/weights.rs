//! Safetensors: the header and every tensor.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::Weights;
use tenon_tensor::BufferMut;

fuzz_target!(|bytes: &[u8]| {
    let bytes = BufferMut::copy_of(bytes).expect("memory").freeze();
    if let Ok(weights) = Weights::from_safetensors(&bytes) {
        assert_eq!(weights.is_empty(), weights.names().next().is_none());
    }
});
