//! Chains of elementwise operators on the built-in backends: which become one node, and that it computes
//! the same.

mod common;

use common::TEST_BACKEND;
use tenon_backend::{BackendId, Registry};
use tenon_compiler::{Options, compile};
use tenon_graph::Graph;
use tenon_graph::elementwise::Program;

/// Compiles a graph of these statements, compares the results of its package with CpuRef, and returns for
/// each node its operator, or the operators of its program.
fn compiled(
    header: &str,
    statements: &str,
    registry: &Registry,
    backends: &[&'static str],
) -> Vec<String> {
    let source = format!("graph \"chain\" {header} {{\n{statements}\n}}\n");
    let mut graph: Graph = source
        .parse()
        .unwrap_or_else(|error| panic!("{source}: {error}"));
    graph.infer_types().unwrap();
    let mut options = Options::new(registry);
    if !backends.is_empty() {
        options.backends = backends.iter().map(|id| BackendId::new(id)).collect();
    }
    let compiled = compile(graph.clone(), &options).unwrap();
    let inputs = common::inputs(&graph, 3);
    let expected = common::run(&graph, &inputs);
    let found = common::execute(&compiled, registry, &inputs);
    common::assert_close(&expected, &found, 1e-6, statements);
    let operators = compiled.graph.nodes.iter().map(|node| {
        if node.op.name != "tenon.Elementwise" {
            return node.op.name.to_owned();
        }
        let program = Program::of(&node.attributes).unwrap();
        let names = program
            .instructions()
            .iter()
            .map(|instruction| instruction.op.name);
        names.collect::<Vec<_>>().join(" ")
    });
    operators.collect()
}

/// The operators of the nodes on the default backends.
fn fused(header: &str, statements: &str) -> Vec<String> {
    compiled(header, statements, &tenon_builtin::registry(), &[])
}

#[test]
fn chains_become_one_node() {
    let header = "(%x: f32[40, 70], %a: f32[70], %b: f32[40, 1]) -> (%y)";
    let chain = "%p = Mul(%x, %a)\n%q = Add(%p, %b)\n%r = Tanh(%q)\n%y = Mul(%a, %r)";
    assert_eq!(fused(header, chain), ["Mul Add Tanh Mul"]);
    let header = "(%x: f32[2, 3, 40], %m: bool[2, 1, 40], %n: bool[3, 40]) -> (%y)";
    let mask =
        "const %low: f32[] = [-5.0]\n%c = And(%m, %n)\n%w = Where(%c, %x, %low)\n%y = Add(%x, %w)";
    assert_eq!(fused(header, mask), ["And Where Add"]);
    let tests = "%c = Greater(%x, %x)\n%d = Or(%c, %n)\n%y = Not(%d)";
    assert_eq!(fused(header, tests), ["Greater Or Not"]);
}

#[test]
fn quantizations_are_part_of_chains() {
    let header = "(%x: u8[5, 9], %z: u8[5, 9], %w: i8[5, 9]) -> (%y)";
    let constants = "const %s: f32[] = [0.02]\nconst %o: u8[] = [3]\nconst %t: f32[9] = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n";
    let sum = "%a = DequantizeLinear(%x, %s, %o)\n%b = DequantizeLinear(%z, %s)\n%c = Add(%a, %b)\n%r = Relu(%c)\n%y = QuantizeLinear(%r, %s, %o)";
    assert_eq!(
        fused(header, &[constants, sum].concat()),
        ["DequantizeLinear DequantizeLinear Add Relu QuantizeLinear"]
    );
    // Another scale for each column.
    let columns = "%a = DequantizeLinear(%w, %t)\n%y = Neg(%a)";
    assert_eq!(
        fused(header, &[constants, columns].concat()),
        ["DequantizeLinear", "Neg"]
    );
    let smaller = "%a = DequantizeLinear(%w, %s)\n%b = Neg(%a)\n%y = Add(%b, %t)";
    assert_eq!(
        fused(header, &[constants, smaller].concat()),
        ["DequantizeLinear Neg Add"]
    );
}

#[test]
fn results_with_other_users_are_kept() {
    let header = "(%x: f32[5, 9]) -> (%y, %z)";
    let output = "%y = Exp(%x)\n%b = Neg(%y)\n%z = Sin(%b)";
    assert_eq!(fused(header, output), ["Exp", "Neg Sin"]);
    let users = "%a = Exp(%x)\n%b = Neg(%a)\n%y = Sin(%b)\n%z = Softmax(%a)";
    assert_eq!(fused(header, users), ["Exp", "Neg Sin", "Softmax"]);
    let header = "(%x: f32[5, 9]) -> (%y)";
    let inside = "%a = Exp(%x)\n%b = Neg(%a)\n%c = Sin(%b)\n%d = Mul(%a, %b)\n%y = Sub(%c, %d)";
    assert_eq!(fused(header, inside), ["Exp Neg Mul Sin Sub"]);
    let twice = "%a = Exp(%x)\n%y = Mul(%a, %a)";
    assert_eq!(fused(header, twice), ["Exp Mul"]);
}

#[test]
fn smaller_results_are_computed_once() {
    let header = "(%x: f32[5, 9], %row: f32[9]) -> (%y)";
    let broadcast = "%a = Exp(%row)\n%b = Neg(%a)\n%c = Mul(%x, %b)\n%y = Abs(%c)";
    assert_eq!(fused(header, broadcast), ["Exp Neg", "Mul Abs"]);
}

#[test]
fn programs_are_bounded() {
    let mut statements = "%t0 = Exp(%x)".to_owned();
    for index in 1..70 {
        statements += &format!("\n%t{index} = Sin(%t{})", index - 1);
    }
    statements += "\n%y = Neg(%t69)";
    let counts = fused("(%x: f32[4]) -> (%y)", &statements);
    let counts: Vec<usize> = counts
        .iter()
        .map(|names| names.split(' ').count())
        .collect();
    assert_eq!(counts, [32, 32, 7]);
    let header: Vec<String> = (0..20).map(|index| format!("%x{index}: f32[4]")).collect();
    let mut statements = "%t0 = Neg(%x0)".to_owned();
    for index in 1..20 {
        statements += &format!("\n%t{index} = Add(%t{}, %x{index})", index - 1);
    }
    let nodes = fused(&format!("({}) -> (%t19)", header.join(", ")), &statements);
    assert_eq!(nodes.len(), 2);
}

#[test]
fn only_what_the_backend_supports_is_fused() {
    let header = "(%x: f32[4]) -> (%y)";
    let chain = "%a = Exp(%x)\n%y = Neg(%a)";
    let registry = tenon_builtin::registry();
    assert_eq!(
        compiled(header, chain, &registry, &["CpuRef"]),
        ["Exp", "Neg"]
    );
    // A preferred backend without the operator keeps its nodes.
    let registry = common::with_test_backend(TEST_BACKEND);
    let backends = ["TestBackend", "CpuAcc", "CpuRef"];
    assert_eq!(
        compiled(header, chain, &registry, &backends),
        ["Exp", "Neg"]
    );
    // Integers have kernels by themselves only.
    let integers = "%a = Neg(%i)\n%y = Abs(%a)";
    assert_eq!(fused("(%i: i64[4]) -> (%y)", integers), ["Neg", "Abs"]);
}
