//! Movements compared with memcpy of the same size, on one thread and on all:
//! `cargo bench -p tenon-dma`.
#![allow(missing_docs)]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use tenon_dma::{Descriptor, Plan, StridedView, VariableId, cast_contiguous, copy_strided};
use tenon_tensor::{BufferMut, DataType};

const SIDE: usize = 2048;

fn main() {
    divan::main();
}

/// Limits of the number of threads.
const THREADS: [usize; 2] = [1, 64];

fn run(threads: usize, bencher: Bencher, descriptor: &Descriptor) {
    let plan = Plan::new(descriptor).unwrap();
    let len = |range: tenon_dma::ByteRange| (range.end - range.start) as usize;
    let (source, mut target) = buffers(len(plan.sources()[0]), len(plan.target()));
    bencher
        .counter(BytesCount::new(descriptor.bytes_written()))
        .bench_local(|| {
            let execute = || plan.execute(&[black_box(&source)], &mut target);
            tenon_base::pool::with_thread_limit(threads, execute).unwrap();
        });
}

/// Buffers allocated as for executions, every page written once.
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

#[divan::bench(args = THREADS)]
fn contiguous(bencher: Bencher, threads: usize) {
    let place = |id| StridedView::contiguous(VariableId(id), 0, 4, &[SIDE, SIDE]);
    run(
        threads,
        bencher,
        &copy_strided(4, &[SIDE, SIDE], &place(0), &place(1)).unwrap()[0],
    );
}

#[divan::bench(args = THREADS)]
fn rows_with_gaps(bencher: Bencher, threads: usize) {
    let from = StridedView::contiguous(VariableId(0), 0, 4, &[SIDE, SIDE]);
    let to = StridedView::new(VariableId(1), 0, [SIDE as i64 * 4 + 256, 4]);
    run(
        threads,
        bencher,
        &copy_strided(4, &[SIDE, SIDE], &from, &to).unwrap()[0],
    );
}

#[divan::bench(args = [1, 2, 4, 8], consts = THREADS)]
fn transpose<const THREADS: usize>(bencher: Bencher, element: usize) {
    let threads = THREADS;
    let shape = [SIDE, SIDE];
    let from = StridedView::new(VariableId(0), 0, [element as i64, (SIDE * element) as i64]);
    let to = StridedView::contiguous(VariableId(1), 0, element, &shape);
    run(
        threads,
        bencher,
        &copy_strided(element, &shape, &from, &to).unwrap()[0],
    );
}

/// [20, 56, 56, 64] from NHWC to NCHW: 15.3 MiB, about the size of the other benches.
#[divan::bench(args = THREADS)]
fn four_dimensions(bencher: Bencher, threads: usize) {
    let (h, c) = (56i64, 64i64);
    let shape = [20, 64, 56, 56];
    let from = StridedView::new(VariableId(0), 0, [h * h * c * 4, 4, h * c * 4, c * 4]);
    let to = StridedView::contiguous(VariableId(1), 0, 4, &shape);
    run(
        threads,
        bencher,
        &copy_strided(4, &shape, &from, &to).unwrap()[0],
    );
}

#[divan::bench(
    args = [DataType::BF16, DataType::F16, DataType::F8E4M3Fn, DataType::I8],
    consts = THREADS,
)]
fn cast_from_f32<const THREADS: usize>(bencher: Bencher, to: DataType) {
    let threads = THREADS;
    let from = (VariableId(0), 0, DataType::F32);
    run(
        threads,
        bencher,
        &cast_contiguous(SIDE * SIDE, from, (VariableId(1), 0, to)).unwrap(),
    );
}

/// Ten thousand copies of 64 bytes, distributed over the queues.
#[divan::bench(args = [1, 16])]
fn queues(bencher: Bencher, queues: u32) {
    use tenon_dma::engine::{Bank, Core, Engine, Machine, QueueSet, Transfer, Variable};
    use tenon_dma::{Access, Descriptor};
    const COPIES: u64 = 10_000;
    let bytes = |id, index| Access::bytes(VariableId(id), index * 64, 64);
    let copies = (0..COPIES).map(|index| Descriptor::copy(bytes(0, index), bytes(1, index)));
    let mut bank = Bank::default();
    let variable = |id, bank: &mut Bank| Variable {
        id: VariableId(id),
        name: format!("v{id}"),
        region: Some(bank.add_zeroed(COPIES as usize * 64).unwrap()),
        is_writable: true,
    };
    let core = Core {
        name: "sg00".into(),
        variables: vec![variable(0, &mut bank), variable(1, &mut bank)],
        queue_sets: vec![QueueSet::new("q", queues)],
        engines: vec![Engine {
            name: "act".into(),
            transfers: vec![Transfer::new(0, "q", copies.collect())],
        }],
    };
    let mut machine = Machine::new(bank, vec![core]).unwrap();
    let programs = machine.all_triggers();
    bencher
        .counter(divan::counter::ItemsCount::new(COPIES))
        .bench_local(|| machine.run(&programs, &tenon_base::Control::new()).unwrap());
}
