//! The outside crates below the library have the same features in every build, so that no build compiles them again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The packages that are built by themselves. For none, the command line with all that it has by default.
const BUILDS: [&[&str]; 6] = [
    &[],
    &["-p", "tenon"],
    &["-p", "tenon-cpu-acc"],
    &["-p", "tenon-c"],
    &["-p", "tenon-python"],
    &["-p", "xtask"],
];

/// The crates of a build, by name and version, with their features.
fn features(arguments: &[&str]) -> BTreeMap<String, String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    tree.args(["tree", "--locked", "--prefix", "none"]);
    tree.args(["--no-dedupe", "-f", "{p}|{f}"]);
    let output = tree.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().filter_map(|line| line.split_once('|'));
    let mut found = BTreeMap::new();
    for (package, features) in rows.filter(|(package, _)| !package.starts_with("tenon")) {
        let before = found.insert(package.to_owned(), features.to_owned());
        let is_same = before.is_none_or(|before| before == features);
        assert!(is_same, "{package} has two sets of features: {features}");
    }
    found
}

#[test]
fn every_build_has_the_same_features_below_the_library() {
    let below_library = features(&["-p", "tenon", "-e", "normal,build"]);
    let all = features(&["--workspace", "-e", "normal,build,dev"]);
    assert!(below_library.len() > 30, "{below_library:?}");
    let mut wrong = BTreeSet::new();
    for build in BUILDS {
        let found = features(&[build, &["-e", "normal,build"]].concat());
        let found = found
            .iter()
            .filter(|(name, _)| below_library.contains_key(*name));
        for (name, features) in found.filter(|(name, features)| all[*name] != **features) {
            let expected = &all[name];
            wrong.insert(format!(
                "{name} in a build of {build:?}: expected {expected}, as in all tests, found {features}; \
                 crates/foundation/features/Cargo.toml states them"
            ));
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}
