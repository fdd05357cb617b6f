//! Asynchronous requests: copies and executions on the queues of cores.

use crate::arguments::{check, give, invalid, slice, slice_mut};
use crate::async_api::{self, AsyncApi, Destination, Report, Word};
use crate::call::{attempt, entry, log};
use crate::execution;
use crate::handles::{Handle, Handles};
use crate::layout::RequestError;
use crate::models::model;
use crate::process::{self, process};
use crate::status::{NRT_SUCCESS, Status};
use crate::tensor_sets::set;
use crate::tensors::{tensor, told};
use crate::trace::{self, Event, Kind};
use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tenon_base::Result;
use tenon_runtime::{
    CompletionCallback, Component, CoreTensor, ErrorTracker, ExecutionUnit, RequestWork, Sequence,
};

/// Every error tracker.
pub(crate) static TRACKERS: Handles<Arc<Tracker>> = Handles::new(0x45, "error tracker");

/// A tracker, and the list that its owner was last given.
pub(crate) struct Tracker {
    core: u32,
    failures: Arc<ErrorTracker>,
    told: Mutex<Box<[RequestError]>>,
}

/// A caller's memory, or NULL, used by the thread of a queue. The header asks that it stays until
/// the request has ended.
struct Memory(*mut c_void);

// SAFETY: memory of the caller, who leaves it to the request.
unsafe impl Send for Memory {}

impl Memory {
    /// The whole value moves into closures that call this, and not its pointer alone.
    fn start(&self) -> *mut u8 {
        self.0.cast()
    }
}

/// A queue's number, as callers give it.
pub(crate) fn queue_number(queue: c_int) -> Result<u32> {
    u32::try_from(queue).map_err(|_| invalid("a queue has a number from 0 on").found(queue))
}

/// Puts a request on a queue of `core`, and gives its number.
///
/// # Safety
/// The pointers of `to` are the caller's: a place for a number, a tracker or NULL, a place for a
/// status that stays until the request has ended or NULL.
pub(crate) unsafe fn put(
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
                return Err(invalid("the error tracker is that of another core")
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
    let work = waiting(core, unit, queue, work);
    let ended = Some(ending(function, Memory(status.cast())));
    let given = process
        .queues
        .put(core, unit, queue, work, failures, ended)?;
    // SAFETY: the caller vouches.
    unsafe { give(to.sequence, "req_sequence", given.0) }
}

/// Reports how a request ended: to the log when it failed, and to the caller's place for a status,
/// unless that is NULL. The queue does this before it says that the request is complete.
fn ending(function: &'static str, place: Memory) -> CompletionCallback {
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
            // SAFETY: aligned (checked when the request was put), and a place for a status that the
            // caller keeps until the request is complete.
            unsafe { place.write(status) };
        }
    })
}

/// Tells those who listen how long a request waited before its work.
fn waiting(core: u32, unit: ExecutionUnit, queue: u32, work: RequestWork) -> RequestWork {
    if !trace::is_listening() {
        return work;
    }
    let put = Instant::now();
    Box::new(move || {
        let name = format!("{}, queue {queue}", unit.words());
        trace::tell(Event {
            core,
            ..Event::here(Kind::Queue, &name, put, Instant::now())
        });
        work()
    })
}

/// The core of a tensor; that of one without is core 0.
fn own_core(tensor: &CoreTensor) -> u32 {
    tensor.core().map_or(0, |core| core.index())
}

/// The core whose queue a copy goes on: the caller's choice, else that of the tensor.
fn core(tensor: &CoreTensor, to: &Destination) -> Result<u32> {
    match to.core {
        None => Ok(own_core(tensor)),
        Some(number) => {
            let number = crate::cores::number(number.into())?;
            Ok(process()?.cores.core(number)?.index())
        }
    }
}

/// Bytes of the caller in the size of this machine.
fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| invalid("more bytes than memory can have").found(number))
}

/// Queues a copy of the caller's bytes into a tensor.
///
/// # Safety
/// As [`put`]; `buf` leads to `size` bytes that stay until the request has ended.
unsafe fn write(
    tensor: *mut c_void,
    buf: *const c_void,
    offset: u64,
    size: u64,
    to: Destination,
) -> Result<()> {
    let tensor = self::tensor(tensor)?;
    let (offset, size) = (self::size(offset)?, self::size(size)?);
    // What is wrong already is answered at once.
    tensor.slice(offset, size, "")?;
    check(buf.cast::<u8>(), "buf")?;
    let core = core(&tensor, &to)?;
    let memory = Memory(buf.cast_mut());
    let work: RequestWork = Box::new(move || {
        // SAFETY: the caller's buffer of `size` bytes, which it leaves until the end.
        let from = unsafe { slice(memory.start(), size, "buf")? };
        told(Kind::TensorWrite, &tensor, size, || {
            tensor.write(offset, from)
        })
    });
    let unit = to.unit(ExecutionUnit::TensorWrite);
    // SAFETY: the caller vouches.
    unsafe { put("nrta_tensor_write", core, unit, work, to) }
}

/// Queues a copy of a tensor's bytes to the caller.
///
/// # Safety
/// As [`write`].
unsafe fn read(
    buf: *mut c_void,
    tensor: *mut c_void,
    offset: u64,
    size: u64,
    to: Destination,
) -> Result<()> {
    let tensor = self::tensor(tensor)?;
    let (offset, size) = (self::size(offset)?, self::size(size)?);
    tensor.slice(offset, size, "")?;
    check(buf.cast::<u8>(), "buf")?;
    let core = core(&tensor, &to)?;
    let memory = Memory(buf);
    let work: RequestWork = Box::new(move || {
        // SAFETY: the caller's buffer of `size` bytes, which it leaves until the end.
        let into = unsafe { slice_mut(memory.start(), size, "buf")? };
        told(Kind::TensorRead, &tensor, size, || {
            tensor.read(offset, into)
        })
    });
    let unit = to.unit(ExecutionUnit::TensorRead);
    // SAFETY: the caller vouches.
    unsafe { put("nrta_tensor_read", core, unit, work, to) }
}

/// Queues a copy between two tensors of one core.
///
/// # Safety
/// As [`put`].
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
    if own_core(&src) != own_core(&dst) {
        return Err(invalid("the tensors are on different cores")
            .expected(format_args!("core {}", own_core(&dst)))
            .found(format_args!("core {}", own_core(&src))));
    }
    let core = core(&src, &to)?;
    let work: RequestWork = Box::new(move || {
        told(Kind::TensorCopy, &src, size, || {
            src.copy_to(from, &dst, into, size)
        })
    });
    // SAFETY: the caller vouches.
    unsafe {
        put(
            "nrta_tensor_copy",
            core,
            ExecutionUnit::TensorOperation,
            work,
            to,
        )
    }
}

/// Queues an execution of a model on its core with the fewest requests.
///
/// # Safety
/// As [`put`].
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
    // SAFETY: the caller vouches.
    unsafe {
        put(
            "nrta_execute_schedule",
            core,
            ExecutionUnit::Compute,
            work,
            to,
        )
    }
}

/// Gives the last request of a queue that is complete.
///
/// # Safety
/// `seq` is the caller's place for a number.
unsafe fn last(api: AsyncApi, lnc: u32, xu: u32, queue: c_int, seq: *mut u64) -> Result<()> {
    let process = process()?;
    let (unit, queue) = (api.unit(xu)?, queue_number(queue)?);
    let last = process.queues.last_completed(lnc, unit, queue)?;
    // SAFETY: the caller vouches.
    unsafe { give(seq, "seq", last.0) }
}

// The functions that versions 2 and 3.0 of the interface both have, with other arguments. Each
// takes as many as the longer list; the words that differ are read by `Destination`.
entry! {
    fn nrta_tensor_write(
        tensor: *mut c_void, buf: *const c_void, offset: u64, size: u64,
        word_5: Word, word_6: Word, word_7: Word, word_8: Word,
    ) {
        let to = Destination::of_copy([word_5, word_6, word_7, word_8]);
        // SAFETY: the caller's pointers, here and below.
        unsafe { write(tensor, buf, offset, size, to) }
    }

    fn nrta_tensor_read(
        buf: *mut c_void, tensor: *mut c_void, offset: u64, size: u64,
        word_5: Word, word_6: Word, word_7: Word, word_8: Word,
    ) {
        let to = Destination::of_copy([word_5, word_6, word_7, word_8]);
        // SAFETY: as above.
        unsafe { read(buf, tensor, offset, size, to) }
    }

    fn nrta_tensor_copy(
        src: *mut c_void, src_offset: u64, dst: *mut c_void, dst_offset: u64, size: u64,
        word_6: Word, word_7: Word, word_8: Word, word_9: Word,
    ) {
        let to = Destination::of_copy([word_6, word_7, word_8, word_9]);
        // SAFETY: as above.
        unsafe { copy((src, src_offset), (dst, dst_offset), size, to) }
    }

    fn nrta_execute_schedule(
        model: *mut c_void, input: *const c_void, output: *mut c_void, queue: c_int, report: Word,
        req_sequence: *mut u64,
    ) {
        let to = Destination::of_work(queue, report, req_sequence);
        // SAFETY: as above.
        unsafe { execute(model, input, output, to) }
    }

    fn nrta_get_sequence(lnc: u32, xu: u32, queue: c_int, seq: *mut u64) {
        // SAFETY: as above.
        unsafe { last(AsyncApi::of_caller(), lnc, xu, queue, seq) }
    }
}

// The same for programs that chose version 2 in our header.
entry! {
    fn tenon_nrta_tensor_write_2(
        tensor: *mut c_void, buf: *const c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: as above.
        unsafe { write(tensor, buf, offset, size, to) }
    }

    fn tenon_nrta_tensor_read_2(
        buf: *mut c_void, tensor: *mut c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: as above.
        unsafe { read(buf, tensor, offset, size, to) }
    }

    fn tenon_nrta_tensor_copy_2(
        src: *mut c_void, src_offset: u64, dst: *mut c_void, dst_offset: u64, size: u64,
        queue: c_int, err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: as above.
        unsafe { copy((src, src_offset), (dst, dst_offset), size, to) }
    }

    fn tenon_nrta_execute_schedule_2(
        model: *mut c_void, input: *const c_void, output: *mut c_void, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let to = Destination::two(queue, err, req_sequence);
        // SAFETY: as above.
        unsafe { execute(model, input, output, to) }
    }

    fn tenon_nrta_get_sequence_2(lnc: u32, xu: u32, queue: c_int, seq: *mut u64) {
        // SAFETY: as above.
        unsafe { last(AsyncApi::Two, lnc, xu, queue, seq) }
    }
}

entry! {
    fn nrta_is_completed(seq: u64, is_completed: *mut bool) {
        let done = process()?.queues.is_completed(Sequence(seq))?;
        // SAFETY: the caller's place for a truth value.
        unsafe { give(is_completed, "is_completed", done) }
    }

    fn nrta_get_completion_handle(seq: u64, fd: *mut c_int) {
        let process = process()?;
        check(fd, "fd")?;
        let event = process.queues.completion(Sequence(seq))?;
        // SAFETY: the caller's place for a descriptor, which is its own from now on.
        unsafe { give(fd, "fd", event.into_raw_fd()) }
    }

    fn nrta_error_tracker_create(lnc_idx: u32, error_tracker: *mut Handle) {
        process()?.cores.core(lnc_idx)?;
        check(error_tracker, "error_tracker")?;
        let tracker = Arc::new(Tracker {
            core: lnc_idx,
            failures: Arc::new(ErrorTracker::new()),
            told: Mutex::default(),
        });
        // SAFETY: the caller's place for a handle.
        unsafe { give(error_tracker, "error_tracker", TRACKERS.insert(tracker)?)? };
        async_api::note_tracker();
        Ok(())
    }

    fn nrta_error_tracker_destroy(error_tracker: *mut c_void) -> () {
        let _ = attempt("nrta_error_tracker_destroy", || {
            process::check()?;
            TRACKERS.take(error_tracker).map(drop)
        });
    }

    fn nrta_error_tracker_get_list(
        error_tracker: *mut c_void, list: *mut *const RequestError, error_count: *mut usize,
    ) {
        process::check()?;
        let tracker = TRACKERS.find(error_tracker)?;
        check(list, "list")?;
        check(error_count, "error_count")?;
        let told = tracker.failures.failures().into_iter().map(|(sequence, status)| RequestError {
            seq_id: sequence.0,
            error_code: status as u64,
        });
        let mut kept = tracker.told.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = told.collect();
        // SAFETY: the caller's places for a pointer and a length. The list stays until the tracker
        // is asked again or destroyed, as the header says.
        unsafe {
            give(list, "list", kept.as_ptr())?;
            give(error_count, "error_count", kept.len())
        }
    }
}
