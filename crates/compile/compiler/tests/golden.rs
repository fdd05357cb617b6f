//! Graphs before and after optimisation, as text. Each file of `tests/golden` has a graph, a line
//! `===`, and the compiled graph. `TENON_BLESS=1 cargo test` rewrites the second part.

mod common;

use std::fs;
use std::path::Path;
use tenon_compiler::{Options, compile};
use tenon_graph::Graph;
use tenon_tensor::{DataType, TensorType, convert};

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

/// The graph with f16 in place of f32.
fn in_half_precision(mut graph: Graph) -> Graph {
    for value in &mut graph.values {
        let single = |dtype: DataType| dtype == DataType::F32;
        if let Some(ty) = value.ty.as_mut().filter(|ty| single(ty.dtype())) {
            *ty = TensorType::new(DataType::F16, ty.shape().clone()).unwrap();
        }
        if let Some(constant) = value.constant.as_mut().filter(|c| single(c.dtype())) {
            *constant = convert(constant, DataType::F16).unwrap();
        }
    }
    graph
}

/// The operators of a graph, in their order.
fn operators(graph: &Graph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.op.name).collect()
}

#[test]
fn fusions_of_f32_apply_to_f16() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let registry = common::registry();
    for name in [
        "activations",
        "bert_attention",
        "gelu",
        "gpt_attention",
        "guarded_attention",
        "layer_norm",
        "mlp",
        "resnet",
        "squeeze_excite",
        "vit",
    ] {
        let text = fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
        let (source, _) = text.split_once("===\n").unwrap();
        let single: Graph = source.parse().unwrap();
        let half = in_half_precision(single.clone());
        let [single, compiled] = [single, half.clone()].map(|graph| {
            let options = Options::new(&registry);
            compile(graph, &options)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .graph
        });
        assert_eq!(operators(&single), operators(&compiled), "{name}");
        let inputs = common::inputs(&half, 7);
        let expected = common::run(&half, &inputs);
        let found = common::run(&compiled, &inputs);
        common::assert_close(&expected, &found, 1e-2, name);
    }
}
