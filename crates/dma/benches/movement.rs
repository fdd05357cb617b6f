//! Movements beside memcpy of as many bytes: `cargo bench -p tenon-dma`.
#![allow(missing_docs)]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use tenon_dma::{Descriptor, Place, Plan, VariableId, cast_contiguous, copy_strided};
use tenon_tensor::{BufferMut, DataType};

const SIDE: usize = 2048;

fn main() {
    divan::main();
}

fn run(bencher: Bencher, descriptor: &Descriptor) {
    let plan = Plan::new(descriptor).unwrap();
    let len = |range: tenon_dma::ByteRange| (range.end - range.start) as usize;
    let (source, mut target) = buffers(len(plan.sources()[0]), len(plan.target()));
    bencher
        .counter(BytesCount::new(descriptor.bytes_written()))
        .bench_local(|| {
            plan.execute(&[black_box(&source)], &mut target).unwrap();
        });
}

/// Memory as executions have it, written once.
fn buffers(source: usize, target: usize) -> (BufferMut, BufferMut) {
    let filled = |len, byte| {
        let mut buffer = BufferMut::zeroed(len).unwrap();
        buffer.fill(byte);
        buffer
    };
    (filled(source, 1), filled(target, 0))
}

#[divan::bench]
fn memcpy(bencher: Bencher) {
    let (source, mut target) = buffers(SIDE * SIDE * 4, SIDE * SIDE * 4);
    bencher
        .counter(BytesCount::new(source.len()))
        .bench_local(|| target.copy_from_slice(black_box(&source)));
}

#[divan::bench]
fn contiguous(bencher: Bencher) {
    let place = |id| Place::contiguous(VariableId(id), 0, 4, &[SIDE, SIDE]);
    run(
        bencher,
        &copy_strided(4, &[SIDE, SIDE], &place(0), &place(1)).unwrap()[0],
    );
}

#[divan::bench]
fn rows_with_gaps(bencher: Bencher) {
    let from = Place::contiguous(VariableId(0), 0, 4, &[SIDE, SIDE]);
    let to = Place::new(VariableId(1), 0, [SIDE as i64 * 4 + 256, 4]);
    run(
        bencher,
        &copy_strided(4, &[SIDE, SIDE], &from, &to).unwrap()[0],
    );
}

#[divan::bench(args = [1, 2, 4, 8])]
fn transpose(bencher: Bencher, element: usize) {
    let shape = [SIDE, SIDE];
    let from = Place::new(VariableId(0), 0, [element as i64, (SIDE * element) as i64]);
    let to = Place::contiguous(VariableId(1), 0, element, &shape);
    run(
        bencher,
        &copy_strided(element, &shape, &from, &to).unwrap()[0],
    );
}

/// [32, 56, 56, 64] from NHWC to NCHW.
#[divan::bench]
fn four_dimensions(bencher: Bencher) {
    let (h, c) = (56i64, 64i64);
    let shape = [32, 64, 56, 56];
    let from = Place::new(VariableId(0), 0, [h * h * c * 4, 4, h * c * 4, c * 4]);
    let to = Place::contiguous(VariableId(1), 0, 4, &shape);
    run(bencher, &copy_strided(4, &shape, &from, &to).unwrap()[0]);
}

#[divan::bench(args = [DataType::BF16, DataType::F16, DataType::F8E4M3Fn, DataType::I8])]
fn cast_from_f32(bencher: Bencher, to: DataType) {
    let from = (VariableId(0), 0, DataType::F32);
    run(
        bencher,
        &cast_contiguous(SIDE * SIDE, from, (VariableId(1), 0, to)).unwrap(),
    );
}
