//! Benchmarks of parsing and printing: a generated program of about 5 MB, half of it kernels in
//! their custom forms, half generic kernels with attributes.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use std::fmt::Write;
use tenon_bef::{EncodeOptions, Module, encode, parse};

fn main() {
    divan::main();
}

/// Functions of 1000 kernels each, `size` bytes in total.
fn program(size: usize) -> String {
    let mut text = String::new();
    for function in 0.. {
        if text.len() >= size {
            break;
        }
        writeln!(
            text,
            "func.func @function{function}(%arg0: i32, %ch: !tfrt.chain) -> i32 {{"
        )
        .unwrap();
        writeln!(
            text,
            "  %0 = tfrt.constant.i32 1\n  %1:2 = tfrt.div.i32 %arg0, %0"
        )
        .unwrap();
        for kernel in 2..500 {
            let (one, two) = (kernel - 1, kernel / 2);
            let one = if one == 1 {
                "1#1".to_owned()
            } else {
                one.to_string()
            };
            let two = if two == 1 {
                "1#0".to_owned()
            } else {
                two.to_string()
            };
            writeln!(text, "  %{kernel} = tfrt.add.i32 %{one}, %{two}").unwrap();
            writeln!(
                text,
                "  %c{kernel}, %t{kernel} = \"tenon.workload\"(%{kernel}, %ch) {{axis = {kernel} : i32, \
                 node = \"/layer{kernel}/conv\", pads = [1, 1, 1, 1], scale = 1.500000e+00 : f32}} \
                 : (i32, !tfrt.chain) -> (!tfrt.chain, tensor<?x{kernel}xf32>)"
            )
            .unwrap();
            writeln!(text, "  %p{kernel} = tfrt.print.i32 %{kernel}, %c{kernel}").unwrap();
        }
        writeln!(text, "  tfrt.return %499 : i32\n}}").unwrap();
    }
    text
}

fn module(text: &str) -> Module {
    parse(text, "program.mlir").unwrap()
}

#[divan::bench(sample_count = 10)]
fn text_to_module(bencher: Bencher) {
    let text = program(5_000_000);
    let bench = bencher.counter(BytesCount::from(text.len()));
    bench.bench(|| module(black_box(&text)));
}

#[divan::bench(sample_count = 10)]
fn text_to_bef(bencher: Bencher) {
    let text = program(5_000_000);
    let bench = bencher.counter(BytesCount::from(text.len()));
    bench.bench(|| encode(&module(black_box(&text)), &EncodeOptions::default()).unwrap());
}

#[divan::bench(sample_count = 10)]
fn module_to_text(bencher: Bencher) {
    let module = module(&program(5_000_000));
    let bench = bencher.counter(BytesCount::from(module.to_string().len()));
    bench.bench(|| black_box(&module).to_string());
}
