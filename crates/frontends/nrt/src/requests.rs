//! Asynchronous requests: copies and executions on the queues of cores.

use crate::async_api::{self, AsyncApi, Destination, Report, Word};
use crate::call::{attempt, entry, log};
use crate::execution;
use crate::handles::{Handle, Handles, table};
use crate::layout::RequestError;
use crate::models::model;
use crate::process::{self, process};
use crate::status::{NRT_SUCCESS, Status};
use crate::tensor_sets::set;
use crate::tensors::{tensor, traced};
use crate::trace::{self, Event, Kind};
use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tenon_base::Result;
use tenon_c_callers::arguments::{check, invalid, slice, slice_mut, write_output};
use tenon_runtime::{
    CompletionCallback, Component, CoreTensor, ErrorTracker, ExecutionUnit, RequestWork, Sequence,
};

/// Every error tracker.
pub(crate) static TRACKERS: Handles<Arc<Tracker>> = table(0x45, "error tracker");

/// A tracker, and the list that `nrta_error_tracker_get_list` returned last.
pub(crate) struct Tracker {
    core: u32,
    failures: Arc<ErrorTracker>,
    listed: Mutex<Box<[RequestError]>>,
}

/// A caller's memory, or NULL, used by the thread of a queue. The header requires that it is valid
/// until the request is complete.
struct CallerMemory(*mut c_void);

// SAFETY: until the request is complete, the caller does not access the memory (header), so that
// one thread uses it at a time.
unsafe impl Send for CallerMemory {}

impl CallerMemory {
    /// A method, so that closures capture the `Send` value and not the pointer in it.
    fn start(&self) -> *mut u8 {
        self.0.cast()
    }
}

/// The queue number of an argument.
pub(crate) fn queue_number(queue: c_int) -> Result<u32> {
    u32::try_from(queue).map_err(|_| invalid("a queue number must not be negative").found(queue))
}

/// Enqueues a request on a queue of `core` and writes its sequence number to `to`.
///
/// # Safety
/// `to.sequence` is null or writable. A status pointer in `to.report` is null, or writable until the
/// request is complete.
pub(crate) unsafe fn enqueue(
    function: &'static str,
    core: u32,
    unit: ExecutionUnit,
    work: RequestWork,
    to: Destination,
) -> Result<()> {
    let process = process()?;
    check(to.sequence, "req_sequence")?;
    let queue = queue_number(to.queue)?;
    let (mut failures, mut status) = (None, std::ptr::null_mut());
    match to.report {
        Report::Tracker(tracker) if !tracker.is_null() => {
            let tracker = TRACKERS.find(tracker)?;
            if tracker.core != core {
                return Err(invalid("the error tracker belongs to another core")
                    .expected(format_args!("core {core}"))
                    .found(tracker.core));
            }
            failures = Some(tracker.failures.clone());
        }
        Report::Status(place) if !place.is_null() => {
            check(place, "ret")?;
            status = place;
        }
        _ => {}
    }
    let work = with_queue_event(core, unit, queue, work);
    let ended = Some(completion_report(function, CallerMemory(status.cast())));
    let sequence = process
        .queues
        .put(core, unit, queue, work, failures, ended)?;
    // SAFETY: `to.sequence` is null or writable (header).
    unsafe { write_output(to.sequence, "req_sequence", sequence.0) }
}

/// The completion hook of a request: logs a failure and writes the status to `place` unless it is
/// NULL. The queue calls it before it marks the request complete.
fn completion_report(function: &'static str, place: CallerMemory) -> CompletionCallback {
    Box::new(move |_, done| {
        let status = match done {
            Ok(()) => NRT_SUCCESS,
            Err(error) => {
                log().problems(Component::Nrt, function, error);
                error.kind().nrt_status()
            }
        };
        let place = place.start().cast::<Status>();
        if !place.is_null() {
            // SAFETY: not null; aligned, which `enqueue` checked; writable until the request is
            // complete (condition of `enqueue`), which it is after this hook.
            unsafe { place.write(status) };
        }
    })
}

/// Wraps `work` to record a trace event of its time in the queue.
fn with_queue_event(core: u32, unit: ExecutionUnit, queue: u32, work: RequestWork) -> RequestWork {
    if !trace::is_active() {
        return work;
    }
    let enqueued = Instant::now();
    Box::new(move || {
        let name = format!("{}, queue {queue}", unit.words());
        trace::record(Event {
            core,
            ..Event::here(Kind::Queue, &name, enqueued, Instant::now())
        });
        work()
    })
}

/// The core of a tensor; core 0 for a tensor without one.
fn core_of(tensor: &CoreTensor) -> u32 {
    tensor.core().map_or(0, |core| core.index())
}

/// The core whose queue a copy uses: the caller's choice, else the tensor's core.
fn core(tensor: &CoreTensor, to: &Destination) -> Result<u32> {
    match to.core {
        None => Ok(core_of(tensor)),
        Some(number) => {
            let number = crate::cores::number(number.into())?;
            Ok(process()?.cores.core(number)?.index())
        }
    }
}

/// A size or offset of the caller as a `usize`.
fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| invalid("larger than the address space").found(number))
}

/// The direction of a copy between a tensor and the caller's memory.
#[derive(Clone, Copy)]
enum CopyDirection {
    ToTensor,
    FromTensor,
}

/// Queues a copy between a tensor and the caller's buffer.
///
/// # Safety
/// As for [`enqueue`]. `buf` is null or points to `size` bytes that are valid until the request is
/// complete: readable for a copy to the tensor, writable and not otherwise accessed for a copy from
/// it.
unsafe fn copy_buffer(
    direction: CopyDirection,
    tensor: *mut c_void,
    buf: *mut c_void,
    offset: u64,
    size: u64,
    to: Destination,
) -> Result<()> {
    let tensor = self::tensor(tensor)?;
    let (offset, size) = (self::size(offset)?, self::size(size)?);
    // Invalid arguments fail the call, not the request.
    tensor.slice(offset, size, "")?;
    check(buf.cast::<u8>(), "buf")?;
    let core = core(&tensor, &to)?;
    let memory = CallerMemory(buf);
    let (function, unit) = match direction {
        CopyDirection::ToTensor => ("nrta_tensor_write", ExecutionUnit::TensorWrite),
        CopyDirection::FromTensor => ("nrta_tensor_read", ExecutionUnit::TensorRead),
    };
    let work: RequestWork = Box::new(move || match direction {
        CopyDirection::ToTensor => {
            // SAFETY: `buf` has `size` readable bytes until the request is complete.
            let from = unsafe { slice(memory.start(), size, "buf")? };
            traced(Kind::TensorWrite, &tensor, size, || {
                tensor.write(offset, from)
            })
        }
        CopyDirection::FromTensor => {
            // SAFETY: `buf` has `size` writable bytes, used by this request alone until it is
            // complete.
            let into = unsafe { slice_mut(memory.start(), size, "buf")? };
            traced(Kind::TensorRead, &tensor, size, || {
                tensor.read(offset, into)
            })
        }
    });
    // SAFETY: the pointers of `to` fulfil the conditions of `enqueue`, which are this function's.
    unsafe { enqueue(function, core, to.unit(unit), work, to) }
}

/// Queues a copy between two tensors of one core.
///
/// # Safety
/// As for [`enqueue`].
unsafe fn copy(
    (src, src_offset): (*mut c_void, u64),
    (dst, dst_offset): (*mut c_void, u64),
    size: u64,
    to: Destination,
) -> Result<()> {
    let (src, dst) = (tensor(src)?, tensor(dst)?);
    let (from, into) = (self::size(src_offset)?, self::size(dst_offset)?);
    let size = self::size(size)?;
    src.slice(from, size, "")?;
    dst.slice(into, size, "")?;
    if core_of(&src) != core_of(&dst) {
        return Err(invalid("the tensors are on different cores")
            .expected(format_args!("core {}", core_of(&dst)))
            .found(format_args!("core {}", core_of(&src))));
    }
    let core = core(&src, &to)?;
    let work: RequestWork = Box::new(move || {
        traced(Kind::TensorCopy, &src, size, || {
            src.copy_to(from, &dst, into, size)
        })
    });
    // SAFETY: the pointers of `to` fulfil the conditions of `enqueue`, which are this function's.
    unsafe {
        enqueue(
            "nrta_tensor_copy",
            core,
            ExecutionUnit::TensorOperation,
            work,
            to,
        )
    }
}

/// Queues an execution on the core of the model with the fewest pending requests.
///
/// # Safety
/// As for [`enqueue`].
unsafe fn execute(
    model: *mut c_void,
    input: *const c_void,
    output: *mut c_void,
    to: Destination,
) -> Result<()> {
    let model = self::model(model)?;
    let (input, output) = (set(input)?, set(output)?);
    let process = process()?;
    let cores = model.group().cores().iter().map(|core| core.index());
    let waiting = |core: &u32| process.queues.waiting(*core, ExecutionUnit::Compute, 0);
    let core = cores.min_by_key(waiting).unwrap_or_default();
    let work: RequestWork = Box::new(move || execution::run(&model, &input, &output, 1));
    // SAFETY: the pointers of `to` fulfil the conditions of `enqueue`, which are this function's.
    unsafe {
        enqueue(
            "nrta_execute_schedule",
            core,
            ExecutionUnit::Compute,
            work,
            to,
        )
    }
}

/// Writes the sequence number of the last completed request of a queue.
///
/// # Safety
/// `seq` is null or writable.
unsafe fn last_completed(
    api: AsyncApi,
    lnc: u32,
    xu: u32,
    queue: c_int,
    seq: *mut u64,
) -> Result<()> {
    let process = process()?;
    let (unit, queue) = (api.unit(xu)?, queue_number(queue)?);
    let last = process.queues.last_completed(lnc, unit, queue)?;
    // SAFETY: `seq` is null or writable (header).
    unsafe { write_output(seq, "seq", last.0) }
}

// Functions that versions 2 and 3.0 of the interface both have, with different arguments. Each
// takes as many arguments as the longer list; `Destination` interprets those that differ.
entry! {
    fn nrta_tensor_write(
        tensor: *mut c_void, buf: *const c_void, offset: u64, size: u64,
        word_5: Word, word_6: Word, word_7: Word, word_8: Word,
    ) {
        let to = Destination::of_copy([word_5, word_6, word_7, word_8]);
        // SAFETY: `buf` and the pointers of `to` are null or valid until the request is complete
        // (header).
        unsafe { copy_buffer(CopyDirection::ToTensor, tensor, buf.cast_mut(), offset, size, to) }
    }

    fn nrta_tensor_read(
        buf: *mut c_void, tensor: *mut c_void, offset: u64, size: u64,
        word_5: Word, word_6: Word, word_7: Word, word_8: Word,
    ) {
        let to = Destination::of_copy([word_5, word_6, word_7, word_8]);
        // SAFETY: `buf` and the pointers of `to` are null or valid until the request is complete
        // (header).
        unsafe { copy_buffer(CopyDirection::FromTensor, tensor, buf, offset, size, to) }
    }

    fn nrta_tensor_copy(
        src: *mut c_void, src_offset: u64, dst: *mut c_void, dst_offset: u64, size: u64,
        word_6: Word, word_7: Word, word_8: Word, word_9: Word,
    ) {
        let to = Destination::of_copy([word_6, word_7, word_8, word_9]);
        // SAFETY: the pointers of `to` are null or valid until the request is complete (header).
        unsafe { copy((src, src_offset), (dst, dst_offset), size, to) }
    }

    fn nrta_execute_schedule(
        model: *mut c_void, input: *const c_void, output: *mut c_void, queue: c_int, report: Word,
        req_sequence: *mut u64,
    ) {
        let to = Destination::of_work(queue, report, req_sequence);
        // SAFETY: the pointers of `to` are null or valid until the request is complete (header).
        unsafe { execute(model, input, output, to) }
    }

    fn nrta_get_sequence(lnc: u32, xu: u32, queue: c_int, seq: *mut u64) {
        // SAFETY: `seq` is null or writable (header).
        unsafe { last_completed(AsyncApi::of_caller(), lnc, xu, queue, seq) }
    }
}

// The same functions for programs that select version 2 in the header of Tenon.
entry! {
    fn tenon_nrta_tensor_write_2(
        tensor: *mut c_void, buf: *const c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: `buf` and the pointers of `to` are null or valid until the request is complete
        // (header).
        unsafe { copy_buffer(CopyDirection::ToTensor, tensor, buf.cast_mut(), offset, size, to) }
    }

    fn tenon_nrta_tensor_read_2(
        buf: *mut c_void, tensor: *mut c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: `buf` and the pointers of `to` are null or valid until the request is complete
        // (header).
        unsafe { copy_buffer(CopyDirection::FromTensor, tensor, buf, offset, size, to) }
    }

    fn tenon_nrta_tensor_copy_2(
        src: *mut c_void, src_offset: u64, dst: *mut c_void, dst_offset: u64, size: u64,
        queue: c_int, err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: the pointers of `to` are null or valid until the request is complete (header).
        unsafe { copy((src, src_offset), (dst, dst_offset), size, to) }
    }

    fn tenon_nrta_execute_schedule_2(
        model: *mut c_void, input: *const c_void, output: *mut c_void, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: the pointers of `to` are null or valid until the request is complete (header).
        unsafe { execute(model, input, output, to) }
    }

    fn tenon_nrta_get_sequence_2(lnc: u32, xu: u32, queue: c_int, seq: *mut u64) {
        // SAFETY: `seq` is null or writable (header).
        unsafe { last_completed(AsyncApi::Two, lnc, xu, queue, seq) }
    }
}

entry! {
    fn nrta_is_completed(seq: u64, is_completed: *mut bool) {
        let done = process()?.queues.is_completed(Sequence(seq))?;
        // SAFETY: `is_completed` is null or writable (header).
        unsafe { write_output(is_completed, "is_completed", done) }
    }

    fn nrta_get_completion_handle(seq: u64, fd: *mut c_int) {
        let process = process()?;
        check(fd, "fd")?;
        let event = process.queues.completion(Sequence(seq))?;
        // SAFETY: `fd` is null or writable (header); the caller owns the descriptor from now on.
        unsafe { write_output(fd, "fd", event.into_raw_fd()) }
    }

    fn nrta_error_tracker_create(lnc_idx: u32, error_tracker: *mut Handle) {
        process()?.cores.core(lnc_idx)?;
        check(error_tracker, "error_tracker")?;
        let tracker = Arc::new(Tracker {
            core: lnc_idx,
            failures: Arc::new(ErrorTracker::new()),
            listed: Mutex::default(),
        });
        // SAFETY: `error_tracker` is null or writable (header).
        unsafe { write_output(error_tracker, "error_tracker", TRACKERS.insert(tracker)?)? };
        async_api::set_has_trackers();
        Ok(())
    }

    fn nrta_error_tracker_destroy(error_tracker: *mut c_void) -> () {
        let _ = attempt("nrta_error_tracker_destroy", || {
            process::check()?;
            TRACKERS.remove(error_tracker).map(drop)
        });
    }

    fn nrta_error_tracker_get_list(
        error_tracker: *mut c_void, list: *mut *const RequestError, error_count: *mut usize,
    ) {
        process::check()?;
        let tracker = TRACKERS.find(error_tracker)?;
        check(list, "list")?;
        check(error_count, "error_count")?;
        let failures = tracker.failures.failures().into_iter().map(|(sequence, status)| RequestError {
            seq_id: sequence.0,
            error_code: status as u64,
        });
        let mut kept = tracker.listed.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = failures.collect();
        // SAFETY: `list` and `error_count` are null or writable (header). The list is valid until the
        // next call for this tracker or its destruction, as the header states.
        unsafe {
            write_output(list, "list", kept.as_ptr())?;
            write_output(error_count, "error_count", kept.len())
        }
    }
}
