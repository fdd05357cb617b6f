//! What calls of the C interface cost: executing a program that does next to nothing, slices,
//! copies beside memcpy, loading.
//!
//! The functions are called as C calls them.
#![allow(clippy::print_stderr, reason = "it says what it skips and measures")]

use divan::Bencher;
use divan::counter::BytesCount;
use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tenon::Control;
use tenon::neff::WriteOptions;
use tenon_compiler::{Options, compile};
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, Graph, Node};
use tenon_tensor::{DataType, Tensor, TensorType};

// The library itself; its functions are found by their C names.
use nrt as _;

unsafe extern "C" {
    fn nrt_init(framework: c_int, fw: *const c_char, fal: *const c_char) -> c_int;
    fn nrt_load(
        bytes: *const c_void,
        size: usize,
        vnc: i32,
        count: i32,
        model: *mut *mut c_void,
    ) -> c_int;
    fn tenon_nrt_load_file(
        file: *const c_char,
        vnc: i32,
        count: i32,
        model: *mut *mut c_void,
    ) -> c_int;
    fn nrt_unload(model: *mut c_void) -> c_int;
    fn nrt_execute(model: *mut c_void, inputs: *const c_void, outputs: *mut c_void) -> c_int;
    fn nrt_tensor_allocate(
        placement: u32,
        vnc: c_int,
        size: usize,
        name: *const c_char,
        tensor: *mut *mut c_void,
    ) -> c_int;
    fn nrt_tensor_allocate_slice(
        source: *const c_void,
        offset: usize,
        size: usize,
        name: *const c_char,
        slice: *mut *mut c_void,
    ) -> c_int;
    fn nrt_tensor_free(tensor: *mut *mut c_void);
    fn nrt_tensor_read(tensor: *const c_void, to: *mut c_void, offset: usize, size: usize)
    -> c_int;
    fn nrt_tensor_write(
        tensor: *mut c_void,
        from: *const c_void,
        offset: usize,
        size: usize,
    ) -> c_int;
    fn nrt_allocate_tensor_set(set: *mut *mut c_void) -> c_int;
    fn nrt_add_tensor_to_tensor_set(
        set: *mut c_void,
        name: *const c_char,
        tensor: *mut c_void,
    ) -> c_int;
}

fn main() {
    // Before the first thread; each process of the bench has cores of its own.
    // SAFETY: no other thread reads the environment yet.
    unsafe {
        std::env::set_var(
            "TENON_CORE_LOCKS",
            std::env::temp_dir().join("tenon-bench-cores"),
        )
    };
    divan::main();
}

/// Starts the runtime once.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    // SAFETY: the functions are called as their headers say, here and below.
    STARTED.get_or_init(|| must(unsafe { nrt_init(1, null(), null()) }));
}

fn must(status: c_int) {
    assert_eq!(status, 0);
}

fn tensor(size: usize) -> *mut c_void {
    start();
    let mut tensor = null_mut();
    // SAFETY: see `start`.
    must(unsafe { nrt_tensor_allocate(0, 0, size, c"t".as_ptr(), &mut tensor) });
    tensor
}

fn set(name: &str, tensor: *mut c_void) -> *mut c_void {
    let name = std::ffi::CString::new(name).expect("a name");
    let mut set = null_mut();
    // SAFETY: see `start`.
    unsafe {
        must(nrt_allocate_tensor_set(&mut set));
        must(nrt_add_tensor_to_tensor_set(set, name.as_ptr(), tensor));
    }
    set
}

/// A package of one kernel: `y = x + constant`, of `values` floats.
fn package(values: usize) -> Vec<u8> {
    let ty = TensorType::new(DataType::F32, [values]).expect("a type");
    let mut graph = Graph::new("addition");
    let x = graph.add_input("x", ty);
    let constant = Tensor::from_slice([values], &vec![1.0f32; values]).expect("a tensor");
    let constant = graph.add_constant("constant", constant);
    let y = graph.add_value("y", None);
    graph.nodes.push(Node {
        name: "add".into(),
        op: operator("Add").expect("it is there"),
        attributes: Attributes::new(),
        inputs: vec![Some(x), Some(constant)],
        outputs: vec![Some(y)],
    });
    graph.outputs.push(y);
    let compiled = compile(graph, &Options::new(&tenon::backends())).expect("it compiles");
    let packed = compiled
        .contents
        .to_bytes(WriteOptions::default(), &Control::new());
    packed.expect("it is packed")
}

fn load(bytes: &[u8], count: i32) -> *mut c_void {
    start();
    let mut model = null_mut();
    // SAFETY: see `start`.
    must(unsafe { nrt_load(bytes.as_ptr().cast(), bytes.len(), 0, count, &mut model) });
    model
}

#[divan::bench]
fn execute_nothing(bencher: Bencher) {
    let model = load(&package(1), 1);
    let (inputs, outputs) = (set("x", tensor(4)), set("y", tensor(4)));
    // SAFETY: see `start`.
    bencher.bench_local(|| must(unsafe { nrt_execute(model, inputs, outputs) }));
}

#[divan::bench]
fn slice_and_free(bencher: Bencher) {
    let source = tensor(1 << 20);
    bencher.bench_local(|| {
        let mut slice = null_mut();
        // SAFETY: see `start`.
        unsafe {
            must(nrt_tensor_allocate_slice(
                source,
                64,
                4096,
                c"s".as_ptr(),
                &mut slice,
            ));
            nrt_tensor_free(&mut slice);
        }
    });
}

const SIZES: [usize; 3] = [4 << 10, 1 << 20, 32 << 20];

#[divan::bench(args = SIZES)]
fn memcpy(bencher: Bencher, size: usize) {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    bencher
        .counter(BytesCount::new(size))
        .bench_local(|| black_box(&mut to).copy_from_slice(black_box(&from)));
}

#[divan::bench(args = SIZES)]
fn tensor_write(bencher: Bencher, size: usize) {
    let (mut tensor, from) = (tensor(size), vec![1u8; size]);
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        // SAFETY: see `start`.
        must(unsafe { nrt_tensor_write(tensor, from.as_ptr().cast(), 0, size) })
    });
    // SAFETY: see `start`.
    unsafe { nrt_tensor_free(&mut tensor) };
}

#[divan::bench(args = SIZES)]
fn tensor_read(bencher: Bencher, size: usize) {
    let (mut tensor, mut to) = (tensor(size), vec![1u8; size]);
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        // SAFETY: see `start`.
        must(unsafe { nrt_tensor_read(tensor, to.as_mut_ptr().cast(), 0, size) })
    });
    // SAFETY: see `start`.
    unsafe { nrt_tensor_free(&mut tensor) };
}

/// 100 MB of constants.
fn large() -> &'static [u8] {
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| package(25_000_000))
}

#[divan::bench(sample_count = 10)]
fn copy_of_100_mb(bencher: Bencher) {
    bencher.bench_local(|| tenon_tensor::BufferMut::copy_of(large()).expect("memory"));
}

#[divan::bench(sample_count = 10)]
fn load_100_mb_from_memory(bencher: Bencher) {
    let bytes = large();
    bencher.bench_local(|| {
        // SAFETY: see `start`.
        must(unsafe { nrt_unload(load(bytes, 1)) })
    });
}

#[divan::bench(sample_count = 10)]
fn load_100_mb_from_file(bencher: Bencher) {
    start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.neff");
    std::fs::write(&path, large()).expect("it is written");
    let path = std::ffi::CString::new(path.to_str().expect("text")).expect("a path");
    bencher.bench_local(|| {
        let mut model = null_mut();
        // SAFETY: see `start`.
        unsafe {
            must(tenon_nrt_load_file(path.as_ptr(), 0, 1, &mut model));
            must(nrt_unload(model));
        }
    });
}

/// Executions a second of a small program on two cores, by some threads.
#[divan::bench(args = [2, 8], sample_count = 5, sample_size = 1)]
fn a_second_on_two_cores(bencher: Bencher, threads: usize) {
    let bytes = package(100_000);
    let model = load(&bytes, 2) as usize;
    bencher.bench_local(|| {
        let end = Instant::now() + Duration::from_secs(1);
        let counts = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(move || {
                        let (inputs, outputs) =
                            (set("x", tensor(400_000)), set("y", tensor(400_000)));
                        let mut count = 0u64;
                        while Instant::now() < end {
                            // SAFETY: see `start`.
                            must(unsafe { nrt_execute(model as *mut c_void, inputs, outputs) });
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            all.into_iter()
                .map(|thread| thread.join().expect("done"))
                .sum::<u64>()
        });
        eprintln!("{threads} threads: {counts} executions");
        counts
    });
}
