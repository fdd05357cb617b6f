//! Streams of functions small enough to work out by hand from the rules.

use super::*;
use crate::{FunctionBuilder, FunctionKind, RegisterId};

/// A kernel of `cost` (0: none said) that makes a value.
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
    // a and b start together; the return is scheduled under a, the first of equals.
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
    // Of the backward walk: the return is stream 0, then 1, 2, 3 from the last kernel. The
    // children of the root are the kernels, then the return.
    // Threshold 4: 3 and 2 are merged and worth a thread; 1 starts a group, the return joins
    // it, and the root follows the return.
    assert_eq!(three(4).kernels, [3, 3, 1]);
    assert_eq!(three(4).root, 1);
    // Threshold 100: all are merged, the root with them.
    assert_eq!(three(100).kernels, [3; 3]);
    assert_eq!(three(100).root, 3);
    // Threshold 1: each is worth a thread.
    assert_eq!(three(1).kernels, [3, 2, 1]);
    assert_eq!(three(1).root, 0);
}

#[test]
fn streams_that_wait_for_each_other_are_merged_on_request() {
    // a, b and c hang on the root; d hangs on c but also uses a. a and b together are worth
    // a thread, so nothing but d connects a and c.
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
    // A chain carries no value, so it is no reason to merge.
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
