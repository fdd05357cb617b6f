//! `.npz` archives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_tensor::npy::read_npz;

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, bytes).expect("written");
    let _ = read_npz(file.path());
});
