//! Products of f32 with weights of f16 or bf16.

mod common;

use common::{assert_close, execute, inputs, registry, run};
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::Pattern;
use tenon_compiler::{Compiled, Options, Precision, Precisions, compile, compile_nodes};
use tenon_graph::{DataType, Graph, Tensor, ValueId};

/// A table of embeddings, a dense and a depthwise convolution, a recurrent layer, a product with a constant and one without.
fn graph() -> Graph {
    let mut graph: Graph =
        "graph \"g\" (%ids: i64[6], %x: f32[1, 4, 6, 6]) -> (%y: f32[6, 6], %z: f32[1, 4, 4, 4], %h: f32[4, 1, 4, 5]) {
    %rows = Gather(%table, %ids) {axis = 0} @embedding
    %product = MatMul(%rows, %weights) @dense
    %transposed = Transpose(%product) {perm = [1, 0]}
    %y = MatMul(%product, %transposed) @variable
    %wide = Conv(%x, %filters) @wide
    %z = Conv(%wide, %kernels) {group = 4} @depthwise
    %steps = Reshape(%z, %sizes) @steps
    %h = GRU(%steps, %inputs, %states) {hidden_size = 5} @recurrent
}"
        .replace(
            "    %rows",
            "    const %table: f32[1024, 64] = fill 0.0
    const %weights: f32[64, 40] = fill 0.0
    const %filters: f32[4, 4, 3, 3] = fill 0.0
    const %kernels: f32[4, 1, 1, 1] = fill 1.5
    const %inputs: f32[1, 15, 4] = fill 0.0
    const %states: f32[1, 15, 5] = fill 0.0
    const %sizes: i64[3] = [4, 4, 4]
    %rows",
        )
        .parse()
        .unwrap();
    let mut state = 1u32;
    for value in &mut graph.values {
        let Some(constant) = value.constant.take() else {
            continue;
        };
        if constant.dtype() != DataType::F32 {
            value.constant = Some(constant);
            continue;
        }
        let elements: Vec<f32> = (0..constant.ty().elements())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect();
        value.constant = Some(Tensor::from_slice(constant.shape().clone(), &elements).unwrap());
    }
    graph
}

fn options(registry: &Registry, precisions: Precisions) -> Options<'_> {
    Options {
        precisions,
        ..Options::new(registry)
    }
}

fn compiled(graph: Graph, registry: &Registry, all: Precision) -> Compiled {
    let exceptions = Vec::new();
    compile(graph, &options(registry, Precisions { all, exceptions })).unwrap()
}

/// The types of the constants of at least two dimensions, by the name of their node, and of the weights in the report.
fn types(compiled: &Compiled) -> Vec<(String, DataType, Option<String>)> {
    let report = compiled.placement.report();
    let nodes = compiled.graph.nodes.iter();
    let constant = |id: &Option<ValueId>| {
        let constant = compiled.graph.value((*id)?).constant.as_ref()?;
        (constant.dtype().is_float() && constant.shape().len() > 1).then(|| constant.dtype())
    };
    let types = nodes.filter_map(|node| {
        let dtype = node.inputs.iter().find_map(constant)?;
        let weights = report.nodes.iter().find(|it| it.node == node.name)?;
        Some((node.name.clone(), dtype, weights.weights.clone()))
    });
    types.collect()
}

#[test]
fn weights_of_products_and_tables_are_narrower() {
    let registry = registry();
    let graph = graph();
    let ids = Tensor::from_slice([6usize], &[0i64, 1023, 5, 5, 700, 2]).unwrap();
    let inputs = [ids, inputs(&graph, 3)[1].clone()];
    let expected = run(&graph, &inputs);
    for (precision, narrow, tolerance) in [
        (Precision::Bf16, DataType::BF16, 2e-2),
        (Precision::F16, DataType::F16, 2e-3),
        (Precision::F32, DataType::F32, 1e-6),
    ] {
        let compiled = compiled(graph.clone(), &registry, precision);
        let weights = (narrow != DataType::F32).then(|| narrow.to_string());
        let mut found = types(&compiled);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let expected_types = [
            ("dense", narrow, weights.clone()),
            // Backends compute it directly, in f32.
            ("depthwise", DataType::F32, None),
            ("embedding", narrow, None),
            ("recurrent", narrow, weights.clone()),
            ("wide", narrow, weights),
        ];
        let expected_types =
            expected_types.map(|(name, dtype, weights)| (name.into(), dtype, weights));
        assert_eq!(found, expected_types, "{precision}\n{}", compiled.graph);
        let outputs = execute(&compiled, &registry, &inputs);
        assert_close(&expected, &outputs, tolerance, precision.name());
        let has_note = !compiled.placement.notes.is_empty();
        assert_eq!(
            has_note,
            precision == Precision::Bf16 && !CpuLevel::has_bf16()
        );
    }
    let fast = types(&compiled(graph, &registry, Precision::Fast));
    let narrow = fast.iter().any(|(_, dtype, _)| *dtype == DataType::BF16);
    assert_eq!(narrow, CpuLevel::has_bf16());
}

#[test]
fn exceptions_have_another_precision() {
    let registry = registry();
    let precisions = |exceptions: &[(&str, Precision)]| Precisions {
        all: Precision::Bf16,
        exceptions: Vec::from_iter(
            exceptions
                .iter()
                .map(|(pattern, precision)| (Pattern::new(*pattern), *precision)),
        ),
    };
    let exceptions = precisions(&[("wide", Precision::F32), ("*e*", Precision::F16)]);
    let compiled = compile(graph(), &options(&registry, exceptions)).unwrap();
    let mut found: Vec<_> = types(&compiled)
        .into_iter()
        .map(|it| (it.0, it.1))
        .collect();
    found.sort();
    let expected = [
        ("dense", DataType::F16),
        ("depthwise", DataType::F32),
        ("embedding", DataType::F16),
        ("recurrent", DataType::F16),
        ("wide", DataType::F32),
    ];
    assert_eq!(
        found,
        expected.map(|(name, dtype)| (name.to_owned(), dtype))
    );

    let misspelt = precisions(&[
        ("wyde", Precision::F32),
        ("dense", Precision::F16),
        ("no*", Precision::F16),
    ]);
    let error = compile_nodes(graph(), Vec::new(), 2, &options(&registry, misspelt)).unwrap_err();
    let text = format!("{error}");
    assert!(text.contains("'wyde'") && text.contains("'no*'"), "{text}");
}

#[test]
fn weights_beyond_the_range_stay_in_f32() {
    let mut graph = graph();
    for value in &mut graph.values {
        if value.name == "weights" {
            let elements = vec![1e5f32; 64 * 40];
            value.constant = Some(Tensor::from_slice([64, 40], &elements).unwrap());
        }
    }
    let registry = registry();
    let compiled = compiled(graph, &registry, Precision::F16);
    let dense = types(&compiled).into_iter().find(|it| it.0 == "dense");
    assert_eq!(dense.unwrap().1, DataType::F32);
    let notes = compiled.placement.notes.join("\n");
    assert!(
        notes.contains("'dense' stays in f32") && notes.contains("f16"),
        "{notes}"
    );
}

#[test]
fn the_reference_backend_computes_in_f32() {
    let registry = registry();
    let options = Options {
        backends: vec![BackendId::new("CpuRef")],
        ..options(
            &registry,
            Precisions {
                all: Precision::Bf16,
                exceptions: Vec::new(),
            },
        )
    };
    let compiled = compile(graph(), &options).unwrap();
    assert!(types(&compiled).iter().all(|it| it.1 == DataType::F32));
}
