//! Einsum before and after compiling: the same values, and no Einsum node.

mod common;

use tenon_compiler::{Options, compile};
use tenon_graph::Graph;

/// Compiles an Einsum of these inputs, compares the results, and returns the operators of the compiled graph.
fn check(equation: &str, shapes: &[&str], output: &str) -> Vec<&'static str> {
    let inputs = (0..shapes.len()).map(|index| format!("%x{index}: f32{}", shapes[index]));
    let names: Vec<String> = (0..shapes.len())
        .map(|index| format!("%x{index}"))
        .collect();
    let source = format!(
        "graph \"einsum\" ({}) -> (%y: f32{output}) {{\n  %y: f32{output} = Einsum({}) {{equation = \"{equation}\"}}\n}}\n",
        inputs.collect::<Vec<_>>().join(", "),
        names.join(", "),
    );
    let graph: Graph = source
        .parse()
        .unwrap_or_else(|error| panic!("{equation}: {error}"));
    let registry = common::registry();
    let compiled = compile(graph.clone(), &Options::new(&registry)).unwrap();
    let inputs = common::inputs(&graph, 7);
    let expected = common::run(&graph, &inputs);
    let found = common::run(&compiled.graph, &inputs);
    common::assert_close(&expected, &found, 2e-5, equation);
    compiled
        .graph
        .nodes
        .iter()
        .map(|node| node.op.name)
        .collect()
}

#[test]
fn equations_become_products() {
    let cases: [(&str, &[&str], &str); 27] = [
        (
            "bhqd,bhkd->bhqk",
            &["[2, 3, 4, 5]", "[2, 3, 6, 5]"],
            "[2, 3, 4, 6]",
        ),
        (
            "bqhd,bkhd->bhqk",
            &["[2, 4, 3, 5]", "[2, 6, 3, 5]"],
            "[2, 3, 4, 6]",
        ),
        ("bij,bjk->bik", &["[2, 3, 4]", "[2, 4, 5]"], "[2, 3, 5]"),
        ("ij,kj->ik", &["[3, 4]", "[5, 4]"], "[3, 5]"),
        ("ij,kj->ki", &["[3, 4]", "[5, 4]"], "[5, 3]"),
        ("nctv,vw->nctw", &["[2, 3, 4, 5]", "[5, 6]"], "[2, 3, 4, 6]"),
        ("vw,nctv->nctw", &["[5, 6]", "[2, 3, 4, 5]"], "[2, 3, 4, 6]"),
        ("ij,jk", &["[3, 4]", "[4, 5]"], "[3, 5]"),
        ("ba,ca", &["[3, 4]", "[5, 4]"], "[3, 5]"),
        ("ij->ji", &["[3, 4]"], "[4, 3]"),
        ("ij->i", &["[3, 4]"], "[3]"),
        ("ij->", &["[3, 4]"], "[]"),
        ("ij->ij", &["[3, 4]"], "[3, 4]"),
        ("i,i->", &["[7]", "[7]"], "[]"),
        ("i,j->ij", &["[7]", "[3]"], "[7, 3]"),
        ("i,j->ji", &["[7]", "[3]"], "[3, 7]"),
        ("ij,ij->ij", &["[3, 4]", "[3, 4]"], "[3, 4]"),
        ("ij,i->ij", &["[3, 4]", "[3]"], "[3, 4]"),
        ("ij,j->i", &["[3, 4]", "[4]"], "[3]"),
        (
            "...ij,...jk->...ik",
            &["[2, 3, 4, 5]", "[2, 3, 5, 6]"],
            "[2, 3, 4, 6]",
        ),
        (
            "...ij,...jk->...ik",
            &["[2, 1, 4, 5]", "[1, 3, 5, 6]"],
            "[2, 3, 4, 6]",
        ),
        ("b...i,ij->b...j", &["[2, 3, 4]", "[4, 5]"], "[2, 3, 5]"),
        (
            "abc,cd,de->abe",
            &["[2, 3, 4]", "[4, 5]", "[5, 6]"],
            "[2, 3, 6]",
        ),
        (
            "abc,cd,ed->eba",
            &["[2, 3, 4]", "[4, 5]", "[6, 5]"],
            "[6, 3, 2]",
        ),
        (
            "abcd,cdef->abef",
            &["[2, 3, 4, 5]", "[4, 5, 6, 2]"],
            "[2, 3, 6, 2]",
        ),
        ("ijk,k->i", &["[2, 3, 4]", "[1]"], "[2]"),
        ("ij,kl->il", &["[3, 4]", "[5, 2]"], "[3, 2]"),
    ];
    for (equation, shapes, output) in cases {
        let operators = check(equation, shapes, output);
        assert!(!operators.contains(&"Einsum"), "{equation}: {operators:?}");
    }
}

#[test]
fn diagonals_become_slices() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("ii->i", &["[4, 4]"], "[4]"),
        ("iji->ij", &["[4, 3, 4]"], "[4, 3]"),
        ("bii->b", &["[3, 5, 5]"], "[3]"),
        ("iii->i", &["[4, 4, 4]"], "[4]"),
        ("ii,ij->j", &["[4, 4]", "[4, 3]"], "[3]"),
        ("iijj->ji", &["[2, 2, 3, 3]"], "[3, 2]"),
    ];
    for (equation, shapes, output) in cases {
        let operators = check(equation, shapes, output);
        assert!(!operators.contains(&"Einsum"), "{equation}: {operators:?}");
    }
}
