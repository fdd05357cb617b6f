//! The transfers of a compiled package, run without its program.

mod common;

use common::{bytes, compiled, f32s, node, numbers, open};
use std::collections::BTreeMap;
use tenon_base::Control;
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_runtime::PackageTransfers;

#[test]
fn a_concat_is_run_from_given_variables() {
    let mut graph = Graph::new("join");
    let a = graph.add_input("a", f32s(&[2, 3]));
    let b = graph.add_input("b", f32s(&[2, 5]));
    let axis = Attributes::new().with("axis", Attribute::Int(1));
    let joined = node(&mut graph, "join", "Concat", &[a, b], axis);
    graph.outputs.push(joined);
    let package = open(&bytes(&compiled(graph).contents)).unwrap();
    let transfers = PackageTransfers::read(&package).unwrap();
    let rows = transfers.rows().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&*rows[0].from[0], &*rows[1].from[0]), ("a", "b"));
    assert_eq!((&*rows[0].core, &*rows[0].engine), ("sg00", "sp"));
    let (a, b) = (numbers(&[2, 3], 1), numbers(&[2, 5], 2));
    let given = [("a", &a), ("b", &b)];
    let given: BTreeMap<String, Vec<u8>> = given
        .iter()
        .map(|(name, tensor)| ((*name).to_owned(), tensor.bytes().to_vec()))
        .collect();
    let outcome = transfers.run(&given, &["sp"], &Control::new()).unwrap();
    let (a, b) = (a.bytes(), b.bytes());
    let expected = [&a[..12], &b[..20], &a[12..], &b[20..]].concat();
    assert_eq!(outcome.variables[0][&rows[0].to], expected);
    assert_eq!(outcome.races, []);
}
