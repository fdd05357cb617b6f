//! Packages of netlists, executed through the C interface.

mod common;

use common::{TestFolder, repository};
use tenon::netlist::{Job, read_source};
use tenon::{Model, Tensor};

/// The netlist of the documentation: C clients get the outputs of the Rust interface.
#[test]
fn c_clients_and_rust_get_equal_outputs_of_a_netlist() {
    let folder = TestFolder::new();
    let source = read_source(repository().join("tests/netlists/attention.yaml")).unwrap();
    let job = Job::new().param("$p_microbatch_count", 3);
    let package = folder.path().join("attention.neff");
    let compiled = job.compile(&source).unwrap();
    compiled.write(&package).unwrap();

    // Three rounds of two inputs of 64 queries.
    let elements: Vec<f32> = (0..6 * 64 * 32u16)
        .map(|i| f32::from(i % 97) / 97.0)
        .collect();
    let queries = Tensor::from_slice([6, 1, 64, 32], &elements).unwrap();
    let model = Model::load(&package).unwrap();
    let expected = model.run(&[("query", &queries)]).unwrap();
    assert_eq!(expected[0].shape()[..], [6, 1, 64, 32]);

    let (input, output) = (folder.path().join("in.bin"), folder.path().join("out.bin"));
    std::fs::write(&input, queries.bytes()).unwrap();
    let arguments = [&package, &input, &output].map(|path| path.to_str().unwrap());
    folder
        .run(&folder.build("netlist"), &arguments, &[])
        .assert_success();
    assert!(
        std::fs::read(&output).unwrap() == expected[0].bytes(),
        "the outputs differ"
    );
}
