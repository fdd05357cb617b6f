//! `.npy` files: writing an array and reading it yields an equal array.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_tensor::npy::{read_npy, write_npy};

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.npy");
    std::fs::write(&path, bytes).expect("a file");
    let Ok(array) = read_npy(&path) else { return };
    write_npy(&path, &array).expect("written");
    let again = read_npy(&path).expect("our own file");
    assert_eq!((again.ty(), again.bytes()), (array.ty(), array.bytes()));
});
