//! Benchmarks of reading and writing BEF: functions decoded in bulk, a large file opened, Modules
//! encoded. Throughput counts bytes of the Functions section.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use std::sync::LazyLock;
use tenon_bef::{
    Attribute, File, FunctionBuilder, FunctionId, FunctionKind, KernelLocation, Module, encode,
};

fn main() {
    divan::main();
}

/// Functions of `kernels` kernels each: of eight, six add two values, one is a constant and one
/// prints, as in a program written by hand; each with a file location.
fn arithmetic(functions: u32, kernels: u32) -> Module {
    let mut module = Module::new();
    for id in 0..functions {
        let mut function = FunctionBuilder::new(format!("function{id}"), FunctionKind::Async);
        let mut chain = function.argument("!tfrt.chain");
        let mut values = [function.argument("i32"), function.argument("i32")];
        for line in 0..kernels {
            let location = KernelLocation::FileLineCol {
                file: "program.mlir".into(),
                line: line + 1,
                column: 3,
            };
            let value = match line % 8 {
                0 => function
                    .kernel("tfrt.constant.i32")
                    .attribute("value", Attribute::I32((line % 100) as i32))
                    .location(location)
                    .result("i32"),
                7 => {
                    let print = function.kernel("tfrt.print.i32").location(location);
                    chain = print.operands([values[0], chain]).result("!tfrt.chain");
                    continue;
                }
                _ => function
                    .kernel("tfrt.add.i32")
                    .operands(values)
                    .location(location)
                    .result("i32"),
            };
            values = [values[1], value];
        }
        module.add(function.returns([values[1], chain]));
    }
    module
}

/// The bytes of `module`, and the size of its Functions section.
fn file(module: &Module) -> (Vec<u8>, usize) {
    let bytes = encode(module, &Default::default()).unwrap();
    // The Functions section is found by its id.
    let mut position = 3;
    loop {
        let (id, mut length) = (bytes[position], 0usize);
        position += 1;
        loop {
            let byte = bytes[position];
            position += 1;
            length = length << 7 | usize::from(byte & 0x7F);
            if byte < 0x80 {
                break;
            }
        }
        if length & 1 == 1 {
            let alignment = usize::from(bytes[position]);
            position = (position + 1).next_multiple_of(alignment);
        }
        if id == 5 {
            return (bytes, length >> 1);
        }
        position += length >> 1;
    }
}

/// All functions of a file (functions, kernels each).
#[divan::bench(args = [(1000, 100), (10, 10_000), (1, 100_000)])]
fn decode_all(bencher: Bencher, (functions, kernels): (u32, u32)) {
    let (bytes, counted) = file(&arithmetic(functions, kernels));
    bencher
        .counter(BytesCount::from(counted))
        .bench(|| File::open(black_box(&bytes)).unwrap().module().unwrap());
}

/// All functions of a file one by one, each dropped before the next.
#[divan::bench]
fn decode_one_by_one(bencher: Bencher) {
    let (bytes, counted) = file(&arithmetic(1000, 100));
    let file = File::open(&bytes).unwrap();
    bencher.counter(BytesCount::from(counted)).bench(|| {
        (0..1000).for_each(|id| drop(black_box(file.function(FunctionId(id)).unwrap())));
    });
}

/// Opens a file of 1 GiB: ten functions, and an attribute of that size.
#[divan::bench]
fn open_1_gib(bencher: Bencher) {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut module = arithmetic(10, 100);
        let mut function = FunctionBuilder::new("large", FunctionKind::Async);
        let text = "x".repeat(1 << 30);
        function.kernel("my.large").attribute("value", text).done();
        module.add(function.returns([]));
        encode(&module, &Default::default()).unwrap()
    });
    let bytes = &*BYTES;
    bencher.bench(|| File::open(black_box(bytes)).unwrap());
}

#[divan::bench(args = [(1000, 100), (1, 100_000)])]
fn encode_all(bencher: Bencher, (functions, kernels): (u32, u32)) {
    let module = arithmetic(functions, kernels);
    let (_, counted) = file(&module);
    bencher
        .counter(BytesCount::from(counted))
        .bench(|| encode(black_box(&module), &Default::default()).unwrap());
}
