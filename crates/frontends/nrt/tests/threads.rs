//! Threads that call the library concurrently, linked into one program for the sanitizers (`cargo
//! xtask sanitize`), which do not cover the C programs.

#![allow(unsafe_code, reason = "calls of the C interface under test")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenon::Control;
use tenon::neff::WriteOptions;

// The library, whose functions are linked by their C names.
use nrt as _;

type Pointer = *mut c_void;

unsafe extern "C" {
    fn nrt_init(framework: c_int, fw: *const c_char, fal: *const c_char) -> c_int;
    fn nrt_close();
    fn nrt_load(
        bytes: *const c_void,
        size: usize,
        vnc: i32,
        count: i32,
        model: *mut Pointer,
    ) -> c_int;
    fn nrt_unload(model: Pointer) -> c_int;
    fn nrt_execute(model: Pointer, inputs: Pointer, outputs: Pointer) -> c_int;
    fn nrt_tensor_allocate(
        place: u32,
        vnc: c_int,
        size: usize,
        name: *const c_char,
        tensor: *mut Pointer,
    ) -> c_int;
    fn nrt_tensor_allocate_slice(
        source: Pointer,
        offset: usize,
        size: usize,
        name: *const c_char,
        slice: *mut Pointer,
    ) -> c_int;
    fn nrt_tensor_free(tensor: *mut Pointer);
    fn nrt_tensor_read(tensor: Pointer, to: Pointer, offset: usize, size: usize) -> c_int;
    fn nrt_tensor_write(tensor: Pointer, from: *const c_void, offset: usize, size: usize) -> c_int;
    fn nrt_allocate_tensor_set(set: *mut Pointer) -> c_int;
    fn nrt_destroy_tensor_set(set: *mut Pointer);
    fn nrt_add_tensor_to_tensor_set(set: Pointer, name: *const c_char, tensor: Pointer) -> c_int;
    fn nrta_tensor_write(
        tensor: Pointer,
        from: *const c_void,
        offset: u64,
        size: u64,
        core: c_int,
        queue: c_int,
        status: *mut c_int,
        sequence: *mut u64,
    ) -> c_int;
    fn nrta_execute_schedule(
        model: Pointer,
        inputs: Pointer,
        outputs: Pointer,
        queue: c_int,
        status: *mut c_int,
        sequence: *mut u64,
    ) -> c_int;
    fn nrta_is_completed(sequence: u64, is_completed: *mut bool) -> c_int;
    fn nrt_sys_trace_start(options: Pointer) -> c_int;
    fn nrt_sys_trace_stop() -> c_int;
}

const NRT_INVALID_HANDLE: c_int = 3;
const NRT_CLOSED: c_int = 14;

/// Elements of the model's input and output.
const COUNT: usize = 3000;
const BYTES: usize = COUNT * 4;
const THREADS: usize = 4;

/// A handle that threads share.
#[derive(Clone, Copy)]
struct Handle(Pointer);

// SAFETY: a handle is an integer that the library looks up under a lock; it is never dereferenced.
unsafe impl Send for Handle {}
// SAFETY: a handle is an integer that the library looks up under a lock; it is never dereferenced.
unsafe impl Sync for Handle {}

#[track_caller]
fn check(status: c_int) {
    assert_eq!(status, 0);
}

/// The handle that a function returns through its argument.
#[track_caller]
fn created(call: impl FnOnce(*mut Pointer) -> c_int) -> Handle {
    let mut handle = null_mut();
    check(call(&mut handle));
    Handle(handle)
}

/// A package of `y = sigmoid(x) + 1`.
fn package() -> Vec<u8> {
    let text = format!(
        "graph \"g\" (%x: f32[{COUNT}]) -> (%y) {{\n\
           const %one: f32[{COUNT}] = fill 1\n  %s = Sigmoid(%x)\n  %y = Add(%s, %one)\n}}"
    );
    let backends = tenon::backends::built_in();
    let options = tenon_compiler::Options::new(&backends);
    let compiled = tenon_compiler::compile(text.parse().unwrap(), &options).unwrap();
    let (options, control) = (WriteOptions::default(), Control::new());
    let bytes = compiled.contents.to_bytes(options, &control);
    bytes.unwrap().to_vec()
}

fn load(bytes: &[u8], count: i32) -> Handle {
    // SAFETY: `bytes` is readable for its length and `model` is writable.
    created(|model| unsafe { nrt_load(bytes.as_ptr().cast(), bytes.len(), -1, count, model) })
}

/// A set of one tensor.
struct Set {
    set: Handle,
    tensor: Handle,
}

impl Set {
    fn new(name: &str, core: c_int) -> Self {
        let name = CString::new(name).unwrap();
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        unsafe {
            let tensor =
                created(|tensor| nrt_tensor_allocate(0, core, BYTES, name.as_ptr(), tensor));
            let set = created(|set| nrt_allocate_tensor_set(set));
            check(nrt_add_tensor_to_tensor_set(set.0, name.as_ptr(), tensor.0));
            Self { set, tensor }
        }
    }

    fn write(&self, value: f32) -> c_int {
        let elements = vec![value; COUNT];
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        unsafe { nrt_tensor_write(self.tensor.0, elements.as_ptr().cast(), 0, BYTES) }
    }

    /// The value of all its elements, which must be equal.
    fn value(&self) -> Result<f32, c_int> {
        let mut elements = vec![0f32; COUNT];
        // SAFETY: the buffer has `BYTES` writable bytes.
        let status =
            unsafe { nrt_tensor_read(self.tensor.0, elements.as_mut_ptr().cast(), 0, BYTES) };
        let [first, rest @ ..] = &elements[..] else {
            unreachable!()
        };
        assert!(rest.iter().all(|value| value == first));
        if status == 0 { Ok(*first) } else { Err(status) }
    }

    fn free(mut self) {
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        unsafe {
            nrt_destroy_tensor_set(&mut self.set.0);
            nrt_tensor_free(&mut self.tensor.0);
        }
    }
}

fn expected(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp()) + 1.0
}

/// Loads, executes and unloads a model in each thread.
fn loads(bytes: &[u8], thread: usize) {
    for round in 0..3 {
        let model = load(bytes, 1 + (thread as i32 + round) % 2);
        let (inputs, outputs) = (Set::new("x", 0), Set::new("y", 1));
        for time in 0..10 {
            let x = (thread * 10 + time) as f32 / 20.0;
            check(inputs.write(x));
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            unsafe {
                check(nrt_execute(model.0, inputs.set.0, outputs.set.0));
                let whole = outputs.tensor.0;
                let mut slice =
                    created(|slice| nrt_tensor_allocate_slice(whole, 400, 4, c"s".as_ptr(), slice));
                let mut y = 0f32;
                check(nrt_tensor_read(slice.0, (&raw mut y).cast(), 0, 4));
                nrt_tensor_free(&mut slice.0);
                assert!((y - expected(x)).abs() < 1e-6, "{y} for {x}");
            }
            assert!((outputs.value().unwrap() - expected(x)).abs() < 1e-6);
        }
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        check(unsafe { nrt_unload(model.0) });
        inputs.free();
        outputs.free();
    }
}

/// Executes one model on shared sets in all threads; writes and reads overlap.
fn shares(model: Handle, inputs: &Set, outputs: &Set, thread: usize) {
    for time in 0..30 {
        check(inputs.write((thread + time) as f32));
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        check(unsafe { nrt_execute(model.0, inputs.set.0, outputs.set.0) });
        let y = outputs.value().unwrap();
        let fits = |x: usize| (y - expected(x as f32)).abs() < 1e-6;
        assert!((0..THREADS + 30).any(fits), "{y}");
    }
}

/// Requests of several threads in the queues of two cores.
fn requests(model: Handle, inputs: &Set, outputs: &Set) {
    let elements = vec![2f32; COUNT];
    for _ in 0..10 {
        let (mut sequences, mut statuses) = ([0u64; 2], [-1; 2]);
        let [wrote, executed] = statuses.each_mut().map(std::ptr::from_mut);
        // SAFETY: the elements and the statuses are valid until both requests are complete, which the
        // loop below awaits.
        unsafe {
            let from = elements.as_ptr().cast();
            let [write, execute] = &mut sequences;
            let (tensor, size) = (inputs.tensor.0, BYTES as u64);
            check(nrta_tensor_write(tensor, from, 0, size, 0, 0, wrote, write));
            let (read, written) = (inputs.set.0, outputs.set.0);
            check(nrta_execute_schedule(
                model.0, read, written, 0, executed, execute,
            ));
        }
        for sequence in sequences {
            let mut done = false;
            while !done {
                // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
                check(unsafe { nrta_is_completed(sequence, &mut done) });
                std::thread::yield_now();
            }
        }
        // SAFETY: initialized; the library wrote it before the request was complete.
        check(unsafe { wrote.read() });
        // SAFETY: initialized; the library wrote it before the request was complete.
        check(unsafe { executed.read() });
    }
}

/// Executes until the status is `ended`.
fn executes_until(ended: c_int, model: Handle, ready: &Barrier, executed: &AtomicUsize) {
    let (inputs, outputs) = (Set::new("x", 0), Set::new("y", 0));
    ready.wait();
    loop {
        // SAFETY: the buffer has `BYTES` writable bytes.
        let status = unsafe { nrt_execute(model.0, inputs.set.0, outputs.set.0) };
        if status == ended {
            return;
        }
        check(status);
        match outputs.value() {
            Ok(number) => assert!((number - expected(0.0)).abs() < 1e-6),
            Err(status) => return assert_eq!(status, ended),
        }
        executed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Executes a model in threads until `end`, after which their calls return `status`.
fn end_while_executing(bytes: &[u8], status: c_int, end: impl FnOnce(Handle)) {
    let model = load(bytes, 2);
    let (ready, executed) = (Barrier::new(THREADS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| executes_until(status, model, &ready, &executed));
        }
        while executed.load(Ordering::Relaxed) < 4 * THREADS {
            std::thread::yield_now();
        }
        end(model);
    });
}

fn in_threads(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

#[test]
fn concurrent_calls_do_not_interfere() {
    let locks = tempfile::tempdir().unwrap();
    let bytes = package();
    // SAFETY: this is the only test of its program, so no other thread runs that reads the
    // environment.
    unsafe {
        std::env::set_var("TENON_CORE_LOCKS", locks.path());
        std::env::set_var("TENON_CORES", "2");
        // Calls after nrt_close are expected to fail.
        std::env::set_var("NEURON_RT_LOG_LEVEL", "QUIET");
    }
    for time in 0..2 {
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        check(unsafe { nrt_init(1, null(), null()) });
        if time == 1 {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            check(unsafe { nrt_sys_trace_start(null_mut()) });
        }
        in_threads(|thread| loads(&bytes, thread));
        let model = load(&bytes, 2);
        let (inputs, outputs) = (Set::new("x", 0), Set::new("y", 0));
        in_threads(|thread| shares(model, &inputs, &outputs, thread));
        in_threads(|_| requests(model, &inputs, &outputs));
        assert!((outputs.value().unwrap() - expected(2.0)).abs() < 1e-6);
        if time == 1 {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            check(unsafe { nrt_sys_trace_stop() });
        }
        end_while_executing(&bytes, NRT_INVALID_HANDLE, |model| {
            // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
            check(unsafe { nrt_unload(model.0) });
        });
        // SAFETY: handles are integers, and all pointers refer to live locals of the stated size.
        end_while_executing(&bytes, NRT_CLOSED, |_| unsafe { nrt_close() });
    }
}
