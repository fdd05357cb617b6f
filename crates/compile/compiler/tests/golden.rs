//! Graphs before and after optimisation, as text. Each file of `tests/golden` has a graph, a line
//! `===`, and the compiled graph. `TENON_BLESS=1 cargo test` rewrites the second part.

mod common;

use std::fs;
use std::path::Path;
use tenon_compiler::{Options, compile};
use tenon_graph::Graph;

fn compiled(source: &str, name: &str) -> String {
    let graph: Graph = source
        .parse()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let registry = common::registry();
    let compiled = match compile(graph.clone(), &Options::new(&registry)) {
        Ok(compiled) => compiled,
        Err(error) => return format!("{error}\n"),
    };
    // The compiled graph must also compute the same.
    let inputs = common::inputs(&graph, 7);
    let expected = common::run(&graph, &inputs);
    let found = common::run(&compiled.graph, &inputs);
    common::assert_close(&expected, &found, 2e-5, name);
    let kernels = &compiled.module.functions[0].kernels;
    let moves = kernels
        .iter()
        .filter(|kernel| kernel.name == "tenon.dma")
        .count();
    format!(
        "// {}\n// {} workloads, {moves} moves\n{}",
        compiled.placement,
        kernels.len() - moves,
        compiled.graph
    )
}

#[test]
fn golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("TENON_BLESS").is_some();
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 10);
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let (source, expected) = text.split_once("===\n").unwrap_or((&text, ""));
        let found = compiled(source, &name);
        if bless {
            fs::write(&file, format!("{source}===\n{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
