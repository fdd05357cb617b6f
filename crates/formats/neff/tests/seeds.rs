//! The checks of the fuzz targets on their seeds: each file unchanged, truncated, and with changed bytes.
#![allow(missing_docs)]

#[path = "../../../../fuzz/checks/neff.rs"]
mod checks;

use proptest::prelude::*;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

fn each(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../fuzz/seeds")
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
fn seeds_of_headers() {
    each("header", checks::header);
}

#[test]
fn seeds_of_archives() {
    each("archive", checks::archive);
}

#[test]
fn seeds_of_definitions() {
    each("definition", checks::definition);
}

#[test]
fn seeds_of_engines() {
    each("engine", checks::engine);
}

/// The value with the keys of every object in another order.
fn shuffled(value: Value, order: &mut impl FnMut(usize) -> usize) -> Value {
    match value {
        Value::Object(map) => {
            let mut rest: Vec<(String, Value)> = map.into_iter().collect();
            let mut map = Map::new();
            while !rest.is_empty() {
                let (key, value) = rest.swap_remove(order(rest.len()));
                map.insert(key, shuffled(value, order));
            }
            Value::Object(map)
        }
        Value::Array(list) => list.into_iter().map(|item| shuffled(item, order)).collect(),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The checks compare the written JSON with the JSON that was read, including the order of keys.
    #[test]
    fn keys_are_written_in_any_order(seed: u64) {
        let mut state = seed | 1;
        let mut order = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % count
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
        let mut each = |target: &str, check: fn(&[u8])| {
            let text = fs::read(folder.join(target).join("every-field.json")).unwrap();
            let value = shuffled(serde_json::from_slice(&text).unwrap(), &mut order);
            check(&serde_json::to_vec(&value).unwrap());
        };
        each("definition", checks::definition);
        each("engine", checks::engine);
    }
}
