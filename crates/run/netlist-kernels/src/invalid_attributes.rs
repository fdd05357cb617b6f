//! Tests of invalid attributes: binding a kernel refuses sizes that would drive its loops and allocations.

use super::{DeclaredQueues, library};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_base::Result;
use tenon_bef::{Attribute, FunctionBuilder, FunctionKind, Module};
use tenon_executor::{Program, Registry, Services};

const MAX: i64 = i32::MAX as i64;

/// One integer, or several as an array of i32.
fn attribute(values: &[i64]) -> Attribute {
    match values {
        [value] => Attribute::I64(*value),
        _ => Attribute::Array(values.iter().map(|&v| Attribute::I32(v as i32)).collect()),
    }
}

type Integers<'a> = &'a [(&'a str, &'a [i64])];

/// Binds a kernel of `operands` tensors.
fn bind(name: &str, operands: usize, integers: Integers<'_>, texts: &[(&str, &str)]) -> Result<()> {
    let mut function = FunctionBuilder::new("f", FunctionKind::Sync);
    let is_queue = name == "netlist.queue";
    let ty = if is_queue {
        "!netlist.machine"
    } else {
        "!netlist.tensor"
    };
    let operands: Vec<_> = (0..operands).map(|_| function.argument(ty)).collect();
    let mut kernel = function.kernel(name).operands(operands);
    for (name, values) in integers {
        kernel = kernel.attribute(*name, attribute(values));
    }
    for (name, text) in texts {
        kernel = kernel.attribute(*name, *text);
    }
    let function = if is_queue {
        kernel.done();
        function.returns([])
    } else {
        let result = kernel.result("!netlist.tensor");
        function.returns([result])
    };
    let mut module = Module::new();
    module.add(function);
    let mut registry = Registry::new();
    registry.register_all(library())?;
    let services = Services::new().with(Arc::new(DeclaredQueues::default()));
    Program::decode(&module, &registry, &services).map(drop)
}

#[test]
fn invalid_sizes_are_refused_when_a_kernel_is_bound() {
    let queue = |entries: i64, tiles: [i64; 3], tile: [i64; 2]| {
        let integers: Integers<'_> = &[("entries", &[entries]), ("tiles", &tiles), ("tile", &tile)];
        bind(
            "netlist.queue",
            1,
            integers,
            &[("queue", "q"), ("format", "Float32")],
        )
    };
    queue(4, [1, 1, 2], [32, 32]).unwrap();
    let blocked = |mblock: [i64; 2]| {
        let integers: Integers<'_> = &[
            ("entries", &[4]),
            ("tiles", &[1, 1, 2]),
            ("tile", &[32, 32]),
            ("grid", &[1, 1]),
            ("mblock", &mblock),
            ("ublock", &[1, 1]),
        ];
        bind(
            "netlist.queue",
            1,
            integers,
            &[("queue", "q"), ("format", "Float32")],
        )
    };
    blocked([1, 2]).unwrap();
    let moved = |tiles: [i64; 3], steps: &str| {
        bind("netlist.move", 1, &[("tiles", &tiles)], &[("steps", steps)])
    };
    moved([1, 2, 2], "transpose; broadcast_r 2").unwrap();
    let embedded = |indices: i64, tiles: [i64; 3], grid: [i64; 2]| {
        let integers: Integers<'_> = &[
            ("num_indices", &[indices]),
            ("tiles", &tiles),
            ("grid", &grid),
        ];
        bind("netlist.embedding", 2, integers, &[])
    };
    embedded(32, [1, 1, 2], [1, 1]).unwrap();
    let largest = |k: i64, tiles: [i64; 3], grid: [i64; 2]| {
        let integers: Integers<'_> = &[("k", &[k]), ("tiles", &tiles), ("grid", &grid)];
        bind("netlist.topk", 2, integers, &[("sort", "max")])
    };
    largest(32, [1, 1, 2], [1, 2]).unwrap();
    let sparse = |u_kt: i64, tiles: [i64; 3], grid: [i64; 2]| {
        let integers: Integers<'_> = &[
            ("sparse_tile_ptr_bits", &[4]),
            ("tiles", &tiles),
            ("grid", &grid),
            ("ublock", &[1, 1]),
            ("u_kt", &[u_kt]),
        ];
        bind(
            "netlist.sparse_matmul",
            3,
            integers,
            &[("encoding", "Float32")],
        )
    };
    sparse(2, [1, 2, 2], [1, 2]).unwrap();
    let spliced = |tiles: [i64; 3], mblock: [i64; 2]| {
        let integers: Integers<'_> = &[
            ("takings", &[0, 1, 1]),
            ("tiles", &tiles),
            ("grid", &[1, 1]),
            ("mblock", &mblock),
            ("ublock", &[1, 1]),
        ];
        bind(
            "netlist.splice",
            1,
            integers,
            &[("granularity", "t"), ("order", "r")],
        )
    };
    spliced([2, 1, 2], [1, 2]).unwrap();

    let start = Instant::now();
    let wrong = [
        queue(0, [1, 1, 2], [32, 32]),
        queue(1 << 40, [1, 1, 2], [32, 32]),
        queue(i64::MAX, [1, 1, 2], [32, 32]),
        queue(4, [MAX, MAX, MAX], [MAX, MAX]),
        queue(4, [1, 0, 2], [32, 32]),
        queue(4, [1, 1, 2], [0, 32]),
        queue(4, [1, -1, 2], [32, 32]),
        blocked([1, 3]),
        blocked([MAX, MAX]),
        // An empty tensor whose other extents are loop bounds.
        moved([MAX, MAX, 0], "transpose"),
        moved([1, 2, 2], "broadcast_r 0"),
        moved([MAX, MAX, MAX], ""),
        moved([1, 2, 2], "pad 18446744073709551615 0 0"),
        // 2^20 times 2^44 + 1 is 2^20 in 64 bits.
        embedded((1 << 44) + 1, [1, 1 << 15, 2], [1 << 20, 1]),
        embedded(32, [MAX, 1, 0], [1, 1]),
        embedded(32, [MAX, 1, 2], [1, 1]),
        largest(1 << 62, [1, 1, 0], [1, 128]),
        largest(1 << 62, [1, 1, 2], [1, 128]),
        sparse(i64::MAX, [1, 2, 2], [1, 2]),
        sparse(2, [1, MAX, MAX], [MAX, MAX]),
        sparse(2, [1, 0, 0], [MAX, MAX]),
        spliced([MAX, 1, 2], [1, 2]),
        spliced([2, 0, 0], [0, 0]),
        spliced([2, 1, 2], [MAX, MAX]),
    ];
    for (index, result) in wrong.into_iter().enumerate() {
        assert!(result.is_err(), "case {index} was bound");
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}
