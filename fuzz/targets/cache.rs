//! Files of the cache, as they are and behind the right digest: read; what is whole is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_backend::CacheFile;

fuzz_target!(|bytes: &[u8]| {
    let digest = blake3::hash(bytes);
    let covered = [&b"TENONC01"[..], digest.as_bytes(), bytes].concat();
    for whole in [bytes, &covered] {
        if let Some(file) = CacheFile::parse(whole) {
            assert!(file.is_valid() && file.name().len() == 64);
            assert!([&file.to_head()[..], file.bytes].concat() == whole);
        }
    }
});
