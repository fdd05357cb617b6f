//! Benchmarks of encoding, decoding, printing and parsing a Module: a program of 500 workloads, as
//! the compiler generates it.

use divan::{Bencher, black_box};
use tenon_bef::{
    Attribute, EncodeOptions, FunctionBuilder, FunctionKind, Module, decode, encode, parse,
};

fn main() {
    divan::main();
}

fn program() -> Module {
    let mut main = FunctionBuilder::new("main", FunctionKind::Sync);
    for id in 0..500i32 {
        main.kernel("tenon.workload")
            .attribute("backend", "CpuAcc")
            .attribute("inputs", vec![id, id + 1, id + 2])
            .attribute("node", format!("/layer{id}/conv/Conv"))
            .attribute("op.activation", "relu")
            .attribute("op.group", 1i64)
            .attribute("op.pads", vec![1i64; 4])
            .attribute("op.strides", vec![1i64; 2])
            .attribute("operator", "tenon.Conv")
            .attribute("outputs", vec![id + 3])
            .attribute("prepared", vec![-1, id + 4, -1])
            .attribute("scratch", Attribute::I32(-1))
            .done();
    }
    let mut module = Module::new();
    module.add(main.returns([]));
    module
}

#[divan::bench]
fn read_bytes(bencher: Bencher) {
    let bytes = encode(&program(), &EncodeOptions::default()).unwrap();
    bencher
        .counter(divan::counter::BytesCount::from(bytes.len()))
        .bench(|| decode(black_box(&bytes)).unwrap());
}

#[divan::bench]
fn write_bytes(bencher: Bencher) {
    let module = program();
    bencher.bench(|| encode(black_box(&module), &EncodeOptions::default()).unwrap());
}

#[divan::bench]
fn read_text(bencher: Bencher) {
    let text = program().to_string();
    bencher
        .counter(divan::counter::BytesCount::from(text.len()))
        .bench(|| parse(black_box(&text), "program.mlir").unwrap());
}

#[divan::bench]
fn write_text(bencher: Bencher) {
    let module = program();
    bencher.bench(|| black_box(&module).to_string());
}
