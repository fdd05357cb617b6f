//! What the fuzz targets check, over their seeds: each file as it is, cut, and with bytes changed.
#![allow(missing_docs)]

#[path = "../../../fuzz/checks/neff.rs"]
mod checks;

use std::fs;
use std::path::Path;

fn each(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        check(&bytes);
        for cut in (0..bytes.len()).step_by(37) {
            check(&bytes[..cut]);
        }
        for at in (0..bytes.len()).step_by(11) {
            for change in [0x01, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                check(&changed);
            }
        }
        count += 1;
    }
    assert!(count >= 2, "seeds of {target}");
}

#[test]
fn headers() {
    each("header", checks::header);
}

#[test]
fn archives() {
    each("archive", checks::archive);
}

#[test]
fn definitions() {
    each("definition", checks::definition);
}

#[test]
fn engines() {
    each("engine", checks::engine);
}
