//! The bytes of an execution, and the tensors that fusion keeps from memory.

use tenon_compiler::{Compiled, Options, Target, compile};
use tenon_graph::Graph;

fn compiled(text: &str) -> Compiled {
    let registry = tenon_builtin::registry();
    let graph: Graph = text.parse().unwrap();
    compile(graph, &Options::new(&registry)).unwrap()
}

/// A convolution with an activation, two equal elementwise operators behind a transpose, and rows of a table.
const MODEL: &str = "graph \"g\" (%x: f32[1, 3, 8, 8], %ids: i64[2]) -> (%y, %rows) {
    const %w: f32[16, 3, 3, 3] = fill 0.5
    const %table: f32[100, 4] = fill 1.0
    %c = Conv(%x, %w) {pads = [1, 1, 1, 1]}
    %r = Relu(%c)
    %t = Transpose(%r) {perm = [0, 2, 3, 1]}
    %e = Exp(%t)
    %again = Exp(%t)
    %y = Add(%e, %again)
    %rows = Gather(%table, %ids)
}";

#[test]
fn fused_tensors_are_in_no_buffer() {
    // %r and %t are one tensor in channels-last layout; %again is %e.
    let fused = |text: &str| compiled(text).placement.traffic.fused;
    assert_eq!(fused(MODEL), ["c", "e", "again"]);
    // With another use of the sums, the activation is part of the elementwise operators.
    let used = MODEL.replace("(%y, %rows)", "(%y, %rows, %z)");
    let used = used.replace("%rows = ", "%z = Sigmoid(%c)\n    %rows = ");
    assert_eq!(fused(&used), ["r", "t", "e", "again"]);
    // Parts of a tensor are in its buffer; what is computed from constants alone is no intermediate.
    let parts = "graph \"g\" (%x: f32[4, 6]) -> (%y) {
    const %w: f32[6, 8] = fill 0.5
    const %parts: i64[2] = [4, 4]
    const %b: f32[4] = fill 2.0
    %v = Neg(%w)
    %m = MatMul(%x, %v)
    %l, %r = Split(%m, %parts) {axis = 1}
    %s = Add(%l, %b)
    %y = Mul(%s, %r)
}";
    assert_eq!(fused(parts), ["s"]);
}

#[test]
fn the_bytes_of_an_execution_are_those_of_its_nodes() {
    let placement = compiled(MODEL).placement;
    let costs = placement.nodes.iter().filter_map(|node| node.cost);
    let moved: u64 = costs.map(|cost| cost.read + cost.written).sum();
    assert_eq!(placement.traffic.moved, Some(moved));
    // Image, filters, indices, two rows of the table; both outputs.
    let least = 4 * (3 * 8 * 8 + 16 * 27) + 2 * 8 + 2 * 16 + 4 * 16 * 64 + 2 * 16;
    assert_eq!(placement.traffic.least, Some(least));
    assert!(moved > least, "{moved}");
    let report = placement.report();
    let gather = report.nodes.iter().find(|node| node.operator == "Gather");
    let gather = gather.unwrap();
    assert_eq!((gather.read, gather.written), (Some(16 + 32), Some(32)));
    assert_eq!(report.traffic, placement.traffic);
    // A view has no bytes.
    let text = "graph \"g\" (%x: f32[4, 6]) -> (%y, %z) {
    %v = Flatten(%x) {axis = 0}
    %y = Softmax(%v) {axis = 1}
    %z = Neg(%x)
}";
    let placement = compiled(text).placement;
    let mut nodes = placement.nodes.iter();
    let view = nodes.find(|node| node.target == Target::View).unwrap();
    assert_eq!(view.cost, None);
    let traffic = &placement.traffic;
    assert_eq!((traffic.moved, traffic.least), (Some(4 * 96), Some(3 * 96)));
}
