//! Graph text: printing a parsed graph and parsing the text yields the same graph.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon_graph::{Graph, verify};

fuzz_target!(|text: &str| {
    let Ok(mut graph) = text.parse::<Graph>() else {
        return;
    };
    let printed = graph.full_text();
    let again: Graph = printed.parse().expect("our own text");
    assert_eq!(again.full_text(), printed);
    if graph.infer_types().is_ok() {
        let _ = verify(&graph);
    }
});
