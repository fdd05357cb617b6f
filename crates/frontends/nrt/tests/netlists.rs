//! Packages of netlists, executed through the C interface.

mod common;

use common::{Place, repository};
use tenon::netlist::{Job, read_source};
use tenon::{Model, Tensor};

/// The netlist that the documentation explains: what a C client gets is what `tenon run` answers.
#[test]
fn a_package_of_a_netlist_answers_c_clients_as_it_answers_others() {
    let place = Place::new();
    let source = read_source(repository().join("tests/netlists/attention.yaml")).unwrap();
    let job = Job::new().param("$p_microbatch_count", 3);
    let package = place.path().join("attention.neff");
    let compiled = job.compile(&source).unwrap();
    compiled.write(&package).unwrap();

    // Three rounds of two inputs of 64 queries.
    let numbers: Vec<f32> = (0..6 * 64 * 32u16)
        .map(|i| f32::from(i % 97) / 97.0)
        .collect();
    let queries = Tensor::from_slice([6, 1, 64, 32], &numbers).unwrap();
    let model = Model::load(&package).unwrap();
    let expected = model.run(&[("query", &queries)]).unwrap();
    assert_eq!(expected[0].shape()[..], [6, 1, 64, 32]);

    let (input, output) = (place.path().join("in.bin"), place.path().join("out.bin"));
    std::fs::write(&input, queries.bytes()).unwrap();
    let arguments = [&package, &input, &output].map(|path| path.to_str().unwrap());
    place.run(&place.build("netlist"), &arguments, &[]).done();
    assert!(
        std::fs::read(&output).unwrap() == expected[0].bytes(),
        "other bytes"
    );
}
