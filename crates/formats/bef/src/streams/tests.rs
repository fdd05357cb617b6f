//! Streams of functions small enough to be computed by hand from the rules.

use super::*;
use crate::{Attribute, FunctionBuilder, FunctionKind, Module, RegisterId};

/// A kernel of `cost` (0: no attribute) with one result.
fn kernel(
    function: &mut FunctionBuilder,
    operands: &[RegisterId],
    cost: i64,
    r#type: &str,
) -> RegisterId {
    let kernel = function.kernel("k").operands(operands.iter().copied());
    match cost {
        0 => kernel.result(r#type),
        cost => kernel.attribute(COST_ATTRIBUTE, cost).result(r#type),
    }
}

fn function() -> FunctionBuilder {
    FunctionBuilder::new("f", FunctionKind::Async)
}

fn options(cost_threshold: i64, merge_inter_dependent: bool) -> StreamOptions {
    StreamOptions {
        cost_threshold,
        merge_inter_dependent,
    }
}

#[test]
fn a_chain_is_one_stream() {
    let mut f = function();
    let mut value = kernel(&mut f, &[], 0, "i32");
    for _ in 0..3 {
        value = kernel(&mut f, &[value], 0, "i32");
    }
    let streams = assign_streams(&f.returns([value]), StreamOptions::default());
    assert_eq!(streams.kernels, [0; 4]);
    assert_eq!(streams.root, 0);
}

#[test]
fn the_root_is_where_the_return_is() {
    // a and b are ready together; the return is scheduled under a, the first of equal cost.
    let mut f = function();
    let a = kernel(&mut f, &[], 0, "i32");
    let b = kernel(&mut f, &[], 0, "i32");
    let streams = assign_streams(&f.returns([a, b]), StreamOptions::default());
    assert_eq!(streams.kernels, [0, 1]);
    assert_eq!(streams.root, 0);
}

#[test]
fn the_return_follows_the_costliest_operand() {
    let mut f = function();
    let cheap = kernel(&mut f, &[], 1, "i32");
    let dear = kernel(&mut f, &[], 9, "i32");
    let streams = assign_streams(&f.returns([cheap, dear]), StreamOptions::default());
    assert_eq!(streams.kernels, [1, 0]);
    assert_eq!(streams.root, 0);
}

#[test]
fn cheap_siblings_share_a_stream_and_join_the_chosen_one() {
    let three = |threshold| {
        let mut f = function();
        for cost in [2, 2, 2] {
            kernel(&mut f, &[], cost, "i32");
        }
        assign_streams(&f.returns([]), options(threshold, false))
    };
    // In the backward pass, the return is stream 0, then 1, 2, 3 from the last kernel. The children
    // of the root are the kernels, then the return. Threshold 4: 3 and 2 are merged and reach the
    // threshold; 1 starts a group, the return joins it, and the root follows the return.
    assert_eq!(three(4).kernels, [3, 3, 1]);
    assert_eq!(three(4).root, 1);
    // Threshold 100: all are merged with the root.
    assert_eq!(three(100).kernels, [3; 3]);
    assert_eq!(three(100).root, 3);
    // Threshold 1: each reaches the threshold.
    assert_eq!(three(1).kernels, [3, 2, 1]);
    assert_eq!(three(1).root, 0);
}

#[test]
fn streams_that_wait_for_each_other_are_merged_on_request() {
    // a, b and c are scheduled under the root; d is scheduled under c and also uses a. a and b
    // together reach the threshold, so only d links a and c.
    let diamond = |r#type: &str, merge| {
        let mut f = function();
        let a = kernel(&mut f, &[], 2, r#type);
        kernel(&mut f, &[], 5, "i32");
        let c = kernel(&mut f, &[], 2, "i32");
        let d = kernel(&mut f, &[c, a], 1, "i32");
        assign_streams(&f.returns([d]), options(6, merge))
    };
    let apart = diamond("i32", false);
    assert_ne!(apart.kernels[0], apart.kernels[2]);
    let together = diamond("i32", true);
    assert_eq!(together.kernels[0], together.kernels[2]);
    // A chain carries no value, so it does not link streams.
    assert_eq!(
        diamond("!tfrt.chain", true).kernels,
        diamond("!tfrt.chain", false).kernels
    );
}

#[test]
fn long_functions_take_linear_time() {
    let mut f = function();
    let start = kernel(&mut f, &[], 0, "i32");
    let mut last = start;
    for _ in 0..50_000 {
        last = kernel(&mut f, &[last, start], 0, "i32");
        kernel(&mut f, &[start], 0, "i32");
    }
    let streams = assign_streams(&f.returns([last]), options(-1, true));
    assert_eq!(streams.kernels.len(), 100_001);
}

/// A module with a threshold of 10.
fn module(function: Function) -> Module {
    let mut module = Module::from(function);
    module.attributes = vec![("tfrt.cost_threshold".into(), Attribute::I64(10))];
    module
}

/// The remarks on a function, its kernels and its return.
fn remarks(module: &Module) -> Vec<String> {
    let remarks = stream_remarks(module).into_iter();
    remarks.map(|remark| remark.message).collect()
}

/// `stream id: .., ..` of the function and its ops, without the streams that fork.
fn expected_remarks(streams: &[(u32, i64, i32)]) -> Vec<String> {
    let remarks = streams.iter().map(|(stream, cost, parent)| {
        format!("stream id: {stream}, stream cost: {cost}, parent stream: {parent}")
    });
    remarks.collect()
}

fn without_forks(remarks: &[String]) -> Vec<String> {
    let cut = |remark: &String| remark.split(", child").next().unwrap_or("").to_owned();
    remarks.iter().map(cut).collect()
}

// The ids of the next four tests are those that TFRT's own test of this analysis expects.

#[test]
fn two_chains_and_their_sum() {
    let mut f = function();
    let arguments = [f.argument("i32"), f.argument("i32")];
    let ends = arguments.map(|argument| {
        let mut value = kernel(&mut f, &[], 0, "i32");
        for _ in 0..2 {
            value = kernel(&mut f, &[argument, value], 0, "i32");
        }
        value
    });
    let sum = kernel(&mut f, &ends, 0, "i32");
    let mut f = f.returns([sum]);
    f.attributes = vec![("tfrt.cost_threshold".into(), Attribute::I32(5))];
    let remarks = remarks(&module(f));
    let (a, b) = ((0, 22, -1), (1, 15, 0));
    assert_eq!(
        without_forks(&remarks),
        expected_remarks(&[a, a, a, a, b, b, b, a, a])
    );
    assert!(
        remarks[0].ends_with("parent stream: -1, child streams: [1]"),
        "{remarks:?}"
    );
    assert!(remarks[1..].iter().all(|remark| !remark.contains("child")));
}

#[test]
fn independent_kernels_worth_a_thread() {
    let mut f = function();
    let made = [(); 3].map(|()| kernel(&mut f, &[], 0, "i32"));
    let remarks = remarks(&module(f.returns(made)));
    let root = (0, 12, -1);
    let expected = [root, root, (2, 10, 0), (1, 10, 0), root];
    assert_eq!(without_forks(&remarks), expected_remarks(&expected));
    // In the order of the kernels, not of the ids.
    assert!(
        remarks[0].ends_with(", child streams: [2, 1]"),
        "{remarks:?}"
    );
}

#[test]
fn cheap_kernels_are_merged_until_they_are_worth_a_thread() {
    let mut f = function();
    let chain = f.argument("!tfrt.chain");
    let made = [4, 4, 11, 4, 4].map(|cost| kernel(&mut f, &[chain], cost, "!tfrt.chain"));
    let merged = f
        .kernel("tfrt.merge.chains")
        .operands(made)
        .result("!tfrt.chain");
    let remarks = remarks(&module(f.returns([merged])));
    let (root, other) = ((0, 18, -1), (4, 12, 0));
    let expected = [root, other, other, root, other, root, root, root];
    assert_eq!(without_forks(&remarks), expected_remarks(&expected));
}

#[test]
fn chains_are_no_reason_to_merge() {
    let mut f = function();
    let chain = f.argument("!tfrt.chain");
    let merge = |f: &mut FunctionBuilder, chains: [RegisterId; 2]| {
        f.kernel("tfrt.merge.chains")
            .operands(chains)
            .result("!tfrt.chain")
    };
    let make = |f: &mut FunctionBuilder| kernel(f, &[chain], 5, "!tfrt.chain");
    let first = [make(&mut f), make(&mut f)];
    let first = merge(&mut f, first);
    let second = [make(&mut f), make(&mut f)];
    let inner = [merge(&mut f, second), merge(&mut f, second)];
    let second = merge(&mut f, inner);
    let all = merge(&mut f, [first, second]);
    let mut f = f.returns([all]);
    f.attributes = vec![(
        "tfrt.merge_inter_dependent_streams".into(),
        Attribute::I1(true),
    )];
    let remarks = remarks(&module(f));
    let (a, b) = ((0, 16, -1), (3, 11, 0));
    assert_eq!(
        without_forks(&remarks),
        expected_remarks(&[a, b, b, b, a, a, a, a, a, a, a])
    );
}

#[test]
fn a_region_takes_the_options_of_the_module() {
    let mut module = module(FunctionBuilder::region().returns([]));
    let mut named = FunctionBuilder::new("f", FunctionKind::Async).returns([]);
    named.attributes = vec![
        ("tfrt.cost_threshold".into(), Attribute::I64(3)),
        (
            "tfrt.merge_inter_dependent_streams".into(),
            Attribute::I1(true),
        ),
    ];
    module.add(named);
    assert_eq!(
        StreamOptions::of(&module, &module.functions[0]),
        options(10, false)
    );
    assert_eq!(
        StreamOptions::of(&module, &module.functions[1]),
        options(3, true)
    );
    module.attributes.clear();
    assert_eq!(
        StreamOptions::of(&module, &module.functions[0]),
        StreamOptions::default()
    );
}

#[test]
fn a_value_links_both_of_its_streams() {
    // Threshold 10. The root's children are a, b and the large c, each on its own stream: d is
    // scheduled under the costlier b and uses a's value, so a and b are linked. The children are
    // visited in order: a, of cost 3, takes b's stream with d, 4 and 1.
    let mut f = function();
    let a = kernel(&mut f, &[], 3, "i32");
    let b = kernel(&mut f, &[], 4, "i32");
    kernel(&mut f, &[], 20, "i32");
    kernel(&mut f, &[b, a], 1, "i32");
    // The return is stream 0, d 1 (b joins it), c 2, a 3.
    let merged = assign_streams(&f.returns([]), options(10, true));
    assert_eq!(merged.kernels[0], merged.kernels[1]);
    assert_eq!(merged.kernels[1], merged.kernels[3]);
    assert_ne!(merged.kernels[0], merged.kernels[2]);
}
