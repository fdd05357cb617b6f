//! Compiled packages, written and loaded: executions compute the graph, and equal inputs give equal
//! bytes.

mod common;

use tenon_backend::BackendId;
use tenon_base::Control;
use tenon_compiler::{Options, compile};
use tenon_graph::{Graph, Tensor};
use tenon_neff::Role;

fn golden_graphs() -> Vec<(String, Graph)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .filter(|file| !file.ends_with("unknown_shape.txt"))
        .map(|file| {
            let text = std::fs::read_to_string(&file).unwrap();
            let (source, _) = text.split_once("===\n").unwrap();
            (file.display().to_string(), source.parse().unwrap())
        })
        .collect()
}

#[test]
fn packages_run_on_every_choice_of_backends() {
    let registries = [common::registry(), tenon_builtin::registry()];
    for (name, graph) in golden_graphs() {
        let inputs = common::inputs(&graph, 3);
        let expected = common::run(&graph, &inputs);
        for registry in &registries {
            for backends in [vec!["CpuAcc", "CpuRef"], vec!["CpuRef"]] {
                let what = format!("{name} on {backends:?}");
                let mut options = Options::new(registry);
                options.backends = backends.into_iter().map(BackendId::new).collect();
                let compiled = compile(graph.clone(), &options)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = common::execute(&compiled, registry, &inputs);
                common::assert_close(&expected, &found, 1e-4, &what);
            }
        }
    }
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let registry = tenon_builtin::registry();
    for (name, graph) in golden_graphs() {
        let options = Options::new(&registry);
        let once = compile(graph.clone(), &options).unwrap();
        let again = compile(graph, &options).unwrap();
        assert!(
            common::bytes(&once)[..] == common::bytes(&again)[..],
            "{name}"
        );
    }
}

#[test]
fn equal_constants_are_stored_once_and_unused_ones_not_at_all() {
    let graph: Graph = "graph \"g\" (%x: f32[4, 4]) -> (%y: f32[4, 4]) {
        const %a: f32[4, 4] = fill 0.5
        const %b: f32[4, 4] = fill 0.5
        const %unused: f32[4, 4] = fill 0.25
        const %shape: i64[2] = [4, -1]
        %p: f32[4, 4] = MatMul(%x, %a)
        %q: f32[4, 4] = Reshape(%p, %shape)
        %y: f32[4, 4] = MatMul(%q, %b)
    }"
    .parse()
    .unwrap();
    let registry = common::registry();
    let compiled = compile(graph, &Options::new(&registry)).unwrap();
    let constants = compiled.contents.variables.iter();
    let constants = constants.filter(|variable| matches!(variable.role, Role::Constant(_)));
    assert_eq!(
        constants
            .map(|variable| variable.name.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn unread_plain_forms_are_removed_unless_kept_by_option() {
    // `a` is only multiplied by; `b` is added too, `c` moved, `d` an output as well.
    let graph: Graph =
        "graph \"g\" (%x: f32[4, 4]) -> (%y: f32[4, 4], %z: f32[8, 4], %d: f32[4, 4]) {
        const %a: f32[4, 4] = fill 0.5
        const %b: f32[4, 4] = fill 0.25
        const %c: f32[4, 4] = fill 0.125
        const %e: f32[4, 4] = fill 2.0
        %p: f32[4, 4] = MatMul(%x, %a)
        %q: f32[4, 4] = MatMul(%p, %b)
        %r: f32[4, 4] = Mul(%q, %b)
        %s: f32[4, 4] = MatMul(%r, %c)
        %z: f32[8, 4] = Concat(%s, %c) {axis = 0}
        %d: f32[4, 4] = Identity(%e)
        %y: f32[4, 4] = MatMul(%s, %d)
    }"
        .parse()
        .unwrap();
    let registry = tenon_builtin::registry();
    let options = Options::new(&registry);
    let keep_plain = Options {
        keep_plain: true,
        ..options.clone()
    };
    let whole = compile(graph.clone(), &keep_plain).unwrap();
    let compiled = compile(graph.clone(), &options).unwrap();
    let absent = compiled.contents.variables.iter();
    let absent: Vec<_> = absent
        .filter(|variable| matches!(variable.role, Role::Absent))
        .map(|variable| variable.name.as_str())
        .collect();
    assert_eq!(absent, ["a"]);
    let inputs = common::inputs(&graph, 3);
    let expected = common::execute(&whole, &registry, &inputs);
    assert_eq!(common::execute(&compiled, &registry, &inputs), expected);
}

#[test]
fn the_arena_is_shared_and_outputs_are_written_in_place() {
    // A chain of ten matmuls needs two ranges of the arena, the last is written to the output.
    let mut text = "graph \"g\" (%v0: f32[16, 16]) -> (%v10: f32[16, 16]) {
        const %w: f32[16, 16] = fill 0.1\n"
        .to_owned();
    for layer in 0..10 {
        text += &format!("%v{}: f32[16, 16] = MatMul(%v{layer}, %w)\n", layer + 1);
    }
    let graph: Graph = (text + "}").parse().unwrap();
    let registry = common::registry();
    let compiled = compile(graph, &Options::new(&registry)).unwrap();
    let arena = compiled.contents.tenon.plan.arena_bytes;
    // Two matrices, and the scratch memory of a matmul.
    assert!((2048..3072).contains(&arena), "{arena}");
    assert_eq!(compiled.module.functions[0].kernels.len(), 10);
}

#[test]
fn every_problem_of_the_options_is_reported() {
    let graph: Graph = "graph \"g\" (%x: f32[2]) -> (%y: f32[2]) {
        %y: f32[2] = Neg(%x)
    }"
    .parse()
    .unwrap();
    let registry = common::registry();
    let mut options = Options::new(&registry);
    options.backends = vec![BackendId::new("GpuAcc"), BackendId::new("Npu")];
    let error = compile(graph.clone(), &options).unwrap_err();
    assert_eq!(error.all().count(), 2, "{error}");
    let mut options = Options::new(&registry);
    options
        .constants
        .insert("x".into(), Tensor::from_slice([3], &[1.0f32; 3]).unwrap());
    options
        .constants
        .insert("z".into(), Tensor::from_slice([3], &[1.0f32; 3]).unwrap());
    let error = compile(graph.clone(), &options).unwrap_err();
    assert_eq!(error.all().count(), 2, "{error}");
    let mut options = Options::new(&registry);
    options
        .constants
        .insert("x".into(), Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap());
    let compiled = compile(graph.clone(), &options).unwrap();
    let found = common::execute(&compiled, &registry, &[]);
    assert_eq!(found[0].as_slice::<f32>().unwrap(), [-1.0, -2.0]);
    let control = Control::new();
    control.cancel();
    let mut options = Options::new(&registry);
    options.control = control;
    assert_eq!(
        compile(graph, &options).unwrap_err().kind(),
        tenon_base::ErrorKind::Cancelled
    );
}

#[test]
fn large_results_are_not_folded() {
    let graph: Graph = "graph \"g\" (%x: f32[1]) -> (%y: f32[1, 1]) {
        const %shape: i64[2] = [5000, 5000]
        const %axes: i64[2] = [0, 1]
        %a: f32[5000, 5000] = ConstantOfShape(%shape) {value = f32[1] [0.5]}
        %m: f32[1, 1] = ReduceMax(%a, %axes)
        %y: f32[1, 1] = Mul(%m, %x)
    }"
    .parse()
    .unwrap();
    let registry = common::registry();
    let compiled = compile(graph, &Options::new(&registry)).unwrap();
    assert!(common::bytes(&compiled).len() < 100_000);
    let x = Tensor::from_slice([1], &[3.0f32]).unwrap();
    let found = common::execute(&compiled, &registry, &[x]);
    assert_eq!(found[0].as_slice::<f32>().unwrap(), [1.5]);
}

#[test]
fn errors_of_nodes_are_reported_together_but_not_those_of_dependent_nodes() {
    let graph: Graph =
        "graph \"g\" (%x: f32[2, 3], %w: f32[4, 4]) -> (%c: f32[2, 4], %e: f32[2, 3]) {
        %a = MatMul(%x, %w) @first
        %c = Relu(%a) @behind
        %d = Add(%x, %w) @second
        %e = Neg(%d)
    }"
        .parse()
        .unwrap();
    let registry = common::registry();
    let error = compile(graph, &Options::new(&registry))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'first'") && error.contains("'second'"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 2, "{error}");
}
