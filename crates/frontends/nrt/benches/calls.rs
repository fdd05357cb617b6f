//! Costs of calls of the C interface: executing an almost empty program, slices, copies compared
//! with memcpy, loading, threads on two cores.
//!
//! Prints the table of docs/benchmarks.md (`cargo xtask bench --nrt`). A figure is the median of its
//! samples; compared measurements are interleaved.

#![allow(unsafe_code, reason = "calls of the C interface under test")]
#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tenon::Control;
use tenon::neff::WriteOptions;
use tenon_compiler::{Options, compile};
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, Graph, Node};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

// The library, whose functions are linked by their C names.
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
    // Separate core locks, so that the bench does not wait for other processes.
    // SAFETY: no other thread has been started that reads the environment.
    unsafe {
        std::env::set_var(
            "TENON_CORE_LOCKS",
            std::env::temp_dir().join("tenon-bench-cores"),
        )
    };
    println!("| call | measured | reference | target | met |\n|---|---|---|---|---|");
    execute_nothing();
    slice();
    for size in [4 << 10, 64 << 10, 1 << 20, 32 << 20] {
        copies(size);
    }
    loads();
    threads_on_two_cores();
}

/// One line of the table.
fn row(what: &str, measured: &str, compared: &str, goal: &str, met: Option<bool>) {
    let met = match met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "–",
    };
    println!("| {what} | {measured} | {compared} | {goal} | {met} |");
}

/// Nanoseconds of one of `count` calls.
fn nanos(count: u32, call: &mut dyn FnMut()) -> f64 {
    let started = Instant::now();
    (0..count).for_each(|_| call());
    started.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// Nanoseconds of one call of each kind: medians of interleaved samples of `count` calls.
fn interleaved<const N: usize>(
    samples: usize,
    count: u32,
    mut calls: [&mut dyn FnMut(); N],
) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    calls.iter_mut().for_each(|call| call());
    for _ in 0..samples {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            times.push(nanos(count, call));
        }
    }
    times.map(median)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Starts the runtime once.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    // SAFETY: the version strings may be null.
    STARTED.get_or_init(|| check(unsafe { nrt_init(1, null(), null()) }));
}

fn check(status: c_int) {
    assert_eq!(status, 0);
}

fn tensor(size: usize) -> *mut c_void {
    start();
    let mut tensor = null_mut();
    // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
    check(unsafe { nrt_tensor_allocate(0, 0, size, c"t".as_ptr(), &mut tensor) });
    tensor
}

fn set(name: &str, tensor: *mut c_void) -> *mut c_void {
    let name = std::ffi::CString::new(name).expect("a name");
    let mut set = null_mut();
    // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
    unsafe {
        check(nrt_allocate_tensor_set(&mut set));
        check(nrt_add_tensor_to_tensor_set(set, name.as_ptr(), tensor));
    }
    set
}

/// A package of one kernel: `y = x + constant`, of `values` floats.
fn addition(values: usize) -> Vec<u8> {
    let ty = TensorType::new(DataType::F32, [values]).expect("a type");
    let mut graph = Graph::new("addition");
    let x = graph.add_input("x", ty);
    let constant = Tensor::from_slice([values], &vec![1.0f32; values]).expect("a tensor");
    let constant = graph.add_constant("constant", constant);
    let y = graph.add_value("y", None);
    graph.nodes.push(Node {
        name: "add".into(),
        op: operator("Add").expect("a known operator"),
        attributes: Attributes::new(),
        inputs: vec![Some(x), Some(constant)],
        outputs: vec![Some(y)],
    });
    graph.outputs.push(y);
    package(graph)
}

/// A package of eight consecutive matmuls of 32 x 128 elements.
fn products() -> Vec<u8> {
    let mut text = "graph \"products\" (%x: f32[32, 128]) -> (%y) {\n".to_owned();
    text += "  const %w: f32[128, 128] = fill 0.0078125\n";
    for layer in 0..8 {
        let last = if layer == 0 {
            "x".into()
        } else {
            format!("v{layer}")
        };
        let next = if layer == 7 {
            "y".into()
        } else {
            format!("v{}", layer + 1)
        };
        text += &format!("  %m{layer} = MatMul(%{last}, %w)\n  %{next} = Sigmoid(%m{layer})\n");
    }
    package((text + "}").parse().expect("a graph"))
}

fn package(graph: Graph) -> Vec<u8> {
    let compiled =
        compile(graph, &Options::new(&tenon::backends::built_in())).expect("it compiles");
    let packed = compiled
        .contents
        .to_bytes(WriteOptions::default(), &Control::new());
    packed.expect("it is packed").to_vec()
}

fn load(bytes: &[u8], count: i32) -> *mut c_void {
    start();
    let mut model = null_mut();
    // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
    check(unsafe { nrt_load(bytes.as_ptr().cast(), bytes.len(), 0, count, &mut model) });
    model
}

fn execute_nothing() {
    // The program reads no input.
    let graph = "graph \"empty\" (%x: f32[1]) -> () {\n}".parse();
    let empty = load(&package(graph.expect("a graph")), 1);
    let adding = load(&addition(1), 1);
    let (inputs, outputs) = (set("x", tensor(4)), set("y", tensor(4)));
    // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
    let execute = |model| check(unsafe { nrt_execute(model, inputs, outputs) });
    let [nothing, addition] =
        interleaved(301, 1000, [&mut || execute(empty), &mut || execute(adding)]);
    let measured = format!("{nothing:.0} ns");
    let met = Some(nothing < 1000.0);
    row(
        "`nrt_execute`, an empty program",
        &measured,
        "–",
        "< 1 µs",
        met,
    );
    let measured = format!("{addition:.0} ns");
    row(
        "`nrt_execute`, adding two floats",
        &measured,
        "–",
        "–",
        None,
    );
}

fn slice() {
    const COUNT: usize = 1000;
    let source = tensor(1 << 20);
    let mut slices = vec![null_mut(); COUNT];
    let mut samples = Vec::new();
    for _ in 0..101 {
        let started = Instant::now();
        for slice in &mut slices {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            check(unsafe { nrt_tensor_allocate_slice(source, 64, 4096, c"s".as_ptr(), slice) });
        }
        samples.push(started.elapsed().as_secs_f64() * 1e9 / COUNT as f64);
        for slice in &mut slices {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            unsafe { nrt_tensor_free(slice) };
        }
    }
    let time = median(samples);
    let measured = format!("{time:.0} ns");
    let met = Some(time < 200.0);
    row(
        "`nrt_tensor_allocate_slice`",
        &measured,
        "–",
        "< 200 ns",
        met,
    );
}

fn copies(size: usize) {
    let (mut tensor, from, mut to) = (tensor(size), vec![1u8; size], vec![0u8; size]);
    let mut read_to = vec![0u8; size];
    let count = ((16 << 20) / size).clamp(1, 10_000) as u32;
    let [plain, write, read] = interleaved(
        41,
        count,
        [
            &mut || black_box(&mut to).copy_from_slice(black_box(&from)),
            &mut || {
                // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
                check(unsafe { nrt_tensor_write(tensor, from.as_ptr().cast(), 0, size) })
            },
            &mut || {
                // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
                check(unsafe { nrt_tensor_read(tensor, read_to.as_mut_ptr().cast(), 0, size) })
            },
        ],
    );
    for (what, time) in [("nrt_tensor_write", write), ("nrt_tensor_read", read)] {
        let speed = |time: f64| format!("{:.1} GB/s", size as f64 / time);
        let memcpy = format!("memcpy {}", speed(plain));
        // The overhead of the call dominates copies of a few kilobytes.
        let (compared, goal, met) = match size {
            ..65536 => (format!("{memcpy}, {:.0} ns less", time - plain), "–", None),
            _ => (memcpy, "≥ 0.9 of it", Some(plain / time >= 0.9)),
        };
        let what = format!("`{what}`, {} KiB", size >> 10);
        row(&what, &speed(time), &compared, goal, met);
    }
    // SAFETY: `tensor` is a live local.
    unsafe { nrt_tensor_free(&mut tensor) };
}

fn loads() {
    // 100 MB of constants.
    let bytes = addition(25_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.neff");
    std::fs::write(&path, &bytes).expect("it is written");
    let text = CString::new(path.to_str().expect("text")).expect("a path");
    // Unloading returns pages to the system, which each variant then faults in again.
    let [copy, loaded, mapped, by_rust] = interleaved(
        21,
        1,
        [
            &mut || drop(black_box(BufferMut::copy_of(&bytes).expect("memory"))),
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            &mut || check(unsafe { nrt_unload(load(&bytes, 1)) }),
            &mut || {
                let mut model = null_mut();
                // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
                unsafe {
                    check(tenon_nrt_load_file(text.as_ptr(), 0, 1, &mut model));
                    check(nrt_unload(model));
                }
            },
            &mut || drop(tenon::Model::load(&path).expect("it loads")),
        ],
    );
    let millis = |nanos: f64| format!("{:.2} ms", nanos / 1e6);
    row(
        "`nrt_load` and `nrt_unload`, 100 MB",
        &millis(loaded),
        &format!("copying the bytes {}", millis(copy)),
        "< 10 ms more",
        Some(loaded - copy < 10e6),
    );
    for (what, time) in [
        ("`tenon_nrt_load_file` and `nrt_unload`, 100 MB", mapped),
        ("`tenon::Model::load` and drop, 100 MB", by_rust),
    ] {
        row(what, &millis(time), "–", "< 3 ms", Some(time < 3e6));
    }
}

/// Executions a second of matmuls on two cores, with eight and with two threads.
fn threads_on_two_cores() {
    const TURNS: usize = 9;
    let model = load(&products(), 2) as usize;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (threads, rates) in [2, 8].into_iter().zip(&mut rates) {
            rates.push(rate(model, threads));
        }
    }
    let [two, eight] = rates.map(median);
    row(
        "8 threads, a model loaded on 2 cores",
        &format!("{eight:.0} /s"),
        &format!("2 threads {two:.0} /s"),
        "≥ 0.95 of it",
        Some(eight >= 0.95 * two),
    );
}

/// Executions a second in `threads` threads.
fn rate(model: usize, threads: usize) -> f64 {
    let started = Instant::now();
    let end = started + Duration::from_secs(1);
    let count = move || {
        let (inputs, outputs) = (set("x", tensor(16 << 10)), set("y", tensor(16 << 10)));
        let mut count = 0u64;
        while Instant::now() < end {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            check(unsafe { nrt_execute(model as *mut c_void, inputs, outputs) });
            count += 1;
        }
        count
    };
    let total: u64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        let counts = all.into_iter().map(|thread| thread.join().expect("done"));
        counts.sum()
    });
    total as f64 / started.elapsed().as_secs_f64()
}
