//! BEF: what decodes is encoded, and comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_bef::{EncodeOptions, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = decode(bytes) else { return };
    // A Module that the verifier refuses is not encoded.
    let Ok(again) = encode(&module, &EncodeOptions::default()) else {
        return;
    };
    assert_eq!(decode(&again).expect("our own bytes"), module);
});
