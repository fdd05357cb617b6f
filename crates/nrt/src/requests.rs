//! Asynchronous requests: copies and executions on the queues of cores.

use crate::arguments::{check, give, invalid, slice, slice_mut};
use crate::call::{attempt, entry};
use crate::execution;
use crate::handles::{Handle, Handles};
use crate::layout::RequestError;
use crate::models::model;
use crate::process::{self, process};
use crate::tensor_sets::set;
use crate::tensors::{tensor, told};
use crate::trace::{self, Event, Kind};
use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tenon_base::Result;
use tenon_runtime::{CoreTensor, ErrorTracker, Sequence, Unit, Work};

/// Every error tracker.
pub(crate) static TRACKERS: Handles<Arc<Tracker>> = Handles::new(0x45, "error tracker");

/// A tracker, and the list that its owner was last given.
pub(crate) struct Tracker {
    core: u32,
    failures: Arc<ErrorTracker>,
    told: Mutex<Box<[RequestError]>>,
}

/// A caller's memory, used by the thread of a queue. The header asks that it stays until the
/// request has ended.
struct Memory(*mut c_void);

// SAFETY: memory of the caller, who leaves it to the request.
unsafe impl Send for Memory {}

impl Memory {
    /// The whole value moves into closures that call this, and not its pointer alone.
    fn start(&self) -> *mut u8 {
        self.0.cast()
    }
}

/// Puts a request on a queue of `core`, and tells its number.
///
/// # Safety
/// `sequence` is the caller's place for a number.
pub(crate) unsafe fn put(
    core: u32,
    unit: Unit,
    queue: c_int,
    work: Work,
    tracker: *const c_void,
    sequence: *mut u64,
) -> Result<()> {
    let process = process()?;
    check(sequence, "req_sequence")?;
    let queue =
        u32::try_from(queue).map_err(|_| invalid("a queue has a number from 0 on").found(queue))?;
    let failures = match tracker.is_null() {
        true => None,
        false => {
            let tracker = TRACKERS.find(tracker)?;
            if tracker.core != core {
                return Err(invalid("the error tracker is that of another core")
                    .expected(format_args!("core {core}"))
                    .found(tracker.core));
            }
            Some(tracker.failures.clone())
        }
    };
    let work = waiting(core, unit, queue, work);
    let given = process
        .queues
        .put(core, unit, queue, work, failures, None)?;
    // SAFETY: the caller vouches.
    unsafe { give(sequence, "req_sequence", given.0) }
}

/// Tells those who listen how long a request waited before its work.
fn waiting(core: u32, unit: Unit, queue: u32, work: Work) -> Work {
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
fn core(tensor: &CoreTensor) -> u32 {
    tensor.core().map_or(0, |core| core.index())
}

/// Bytes of the caller in the size of this machine.
fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| invalid("more bytes than memory can have").found(number))
}

entry! {
    fn nrta_tensor_write(
        tensor: *mut c_void, buf: *const c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let tensor = self::tensor(tensor)?;
        let (offset, size) = (self::size(offset)?, self::size(size)?);
        // What is wrong already is told at once.
        tensor.slice(offset, size, "")?;
        check(buf.cast::<u8>(), "buf")?;
        let core = core(&tensor);
        let memory = Memory(buf.cast_mut());
        let work: Work = Box::new(move || {
            // SAFETY: the caller's buffer of `size` bytes, which it leaves until the end.
            let from = unsafe { slice(memory.start(), size, "buf")? };
            told(Kind::TensorWrite, &tensor, size, || tensor.write(offset, from))
        });
        // SAFETY: the caller's place for a number, here and below.
        unsafe { put(core, Unit::TensorWrite, queue, work, err, req_sequence) }
    }

    fn nrta_tensor_read(
        buf: *mut c_void, tensor: *mut c_void, offset: u64, size: u64, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let tensor = self::tensor(tensor)?;
        let (offset, size) = (self::size(offset)?, self::size(size)?);
        tensor.slice(offset, size, "")?;
        check(buf.cast::<u8>(), "buf")?;
        let core = core(&tensor);
        let memory = Memory(buf);
        let work: Work = Box::new(move || {
            // SAFETY: the caller's buffer of `size` bytes, which it leaves until the end.
            let to = unsafe { slice_mut(memory.start(), size, "buf")? };
            told(Kind::TensorRead, &tensor, size, || tensor.read(offset, to))
        });
        // SAFETY: as above.
        unsafe { put(core, Unit::TensorRead, queue, work, err, req_sequence) }
    }

    fn nrta_tensor_copy(
        src: *mut c_void, src_offset: u64, dst: *mut c_void, dst_offset: u64, size: u64,
        queue: c_int, err: *mut c_void, req_sequence: *mut u64,
    ) {
        let (src, dst) = (tensor(src)?, tensor(dst)?);
        let (from, to) = (self::size(src_offset)?, self::size(dst_offset)?);
        let size = self::size(size)?;
        src.slice(from, size, "")?;
        dst.slice(to, size, "")?;
        if core(&src) != core(&dst) {
            return Err(invalid("the tensors are on different cores")
                .expected(format_args!("core {}", core(&dst)))
                .found(format_args!("core {}", core(&src))));
        }
        let core = core(&src);
        let work: Work = Box::new(move || {
            told(Kind::TensorCopy, &src, size, || src.copy_to(from, &dst, to, size))
        });
        // SAFETY: as above.
        unsafe { put(core, Unit::TensorOperation, queue, work, err, req_sequence) }
    }

    fn nrta_execute_schedule(
        model: *mut c_void, input: *const c_void, output: *mut c_void, queue: c_int,
        err: *mut c_void, req_sequence: *mut u64,
    ) {
        let model = self::model(model)?;
        let (input, output) = (set(input)?, set(output)?);
        let process = process()?;
        let cores = model.group().cores().iter().map(|core| core.index());
        let waiting = |core: &u32| process.queues.waiting(*core, Unit::Compute, 0);
        let core = cores.min_by_key(waiting).unwrap_or_default();
        let work: Work = Box::new(move || execution::run(&model, &input, &output, 1));
        // SAFETY: as above.
        unsafe { put(core, Unit::Compute, queue, work, err, req_sequence) }
    }

    fn nrta_is_completed(seq: u64, is_completed: *mut bool) {
        let done = process()?.queues.is_completed(Sequence(seq))?;
        // SAFETY: the caller's place for a truth value.
        unsafe { give(is_completed, "is_completed", done) }
    }

    fn nrta_get_sequence(lnc: u32, xu: u32, queue: c_int, seq: *mut u64) {
        let process = process()?;
        let unit = Unit::ALL.get(xu as usize).copied().ok_or_else(|| {
            invalid("there is no such execution unit").expected("0 to 4").found(xu)
        })?;
        let queue = u32::try_from(queue)
            .map_err(|_| invalid("a queue has a number from 0 on").found(queue))?;
        let last = process.queues.last_completed(lnc, unit, queue)?;
        // SAFETY: the caller's place for a number.
        unsafe { give(seq, "seq", last.0) }
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
        unsafe { give(error_tracker, "error_tracker", TRACKERS.insert(tracker)?) }
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
