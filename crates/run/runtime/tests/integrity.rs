//! Packages with changed bytes, loaded with verification of digests.

mod common;

use common::{bytes, compiled, open, perceptron, random_tensor, runtime};
use tenon_neff::Package;
use tenon_runtime::{LoadOptions, Model};

/// The package of a perceptron, the last byte of `member` changed.
fn changed(member: Option<&str>) -> Package {
    let mut bytes = bytes(&compiled(perceptron(&[20, 33, 10])).contents);
    if let Some(member) = member {
        let content = open(&bytes).unwrap().require(member).unwrap();
        let find = |bytes: &[u8]| {
            bytes
                .windows(content.len())
                .position(|part| part == &content[..])
        };
        let start = find(&bytes).unwrap();
        bytes[start + content.len() - 1] ^= 1;
    }
    open(&bytes).unwrap()
}

fn load(package: &Package) -> tenon_base::Result<Model> {
    let options = LoadOptions {
        check_digests: true,
        ..LoadOptions::default()
    };
    Model::load(&runtime(), package, &options)
}

#[test]
fn an_unchanged_package_runs() {
    let model = load(&changed(None)).unwrap();
    let input = random_tensor(&[1, 20], 1);
    for _ in 0..2 {
        model.run(&[("x", &input)]).unwrap();
    }
}

#[test]
fn a_changed_constant_is_an_error_of_every_execution() {
    let package = changed(None);
    let size = |name: &str| package.member(name).map_or(0, |bytes| bytes.len());
    let names = package.members().map(|(name, _)| name.to_owned());
    let weights = names.filter(|name| !name.ends_with(".json"));
    let largest = weights.max_by_key(|name| size(name)).unwrap();
    let model = load(&changed(Some(&largest))).unwrap();
    let input = random_tensor(&[1, 20], 1);
    for _ in 0..2 {
        let error = model.run(&[("x", &input)]).unwrap_err().to_string();
        assert!(
            error.contains(&largest) && error.contains("was changed"),
            "{error}"
        );
    }
    // Without verification the change is not found.
    let model = Model::load(
        &runtime(),
        &changed(Some(&largest)),
        &LoadOptions::default(),
    );
    assert!(model.unwrap().run(&[("x", &input)]).is_ok());
}

#[test]
fn a_changed_description_is_an_error_at_load() {
    // Trailing white space, which does not change the JSON value.
    let error = load(&changed(Some("sg00/tenon.json")))
        .unwrap_err()
        .to_string();
    assert!(error.contains("sg00/tenon.json"), "{error}");
}
