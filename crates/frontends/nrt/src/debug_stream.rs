//! Debug streams: intermediate tensors of executions, sent to one client for each core.

use crate::call::{attempt, entry};
use crate::layout::{DebugTensor, EventHeader};
use crate::process::{self, process};
use crate::sys_trace::lock;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{check, fill_text, invalid, write_output};
use tenon_runtime::{Tap, TapValue};

/// Capacity of a stream in events unless `NEURON_RT_DEBUG_STREAM_BUFFER_SIZE` is set.
const DEFAULT_CAPACITY: usize = 64 << 10;

/// `NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ`.
const TENSOR_READ: u32 = 1;

/// Streams by their descriptors.
static STREAMS: Mutex<Option<HashMap<c_int, Stream>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Stream {
    core: u32,
    /// An eventfd that is readable while events are pending.
    ready: OwnedFd,
    capacity: usize,
    /// Nodes or values that are sent; all when the list is empty.
    names: Vec<String>,
    pending: VecDeque<Vec<u8>>,
}

/// Whether there are streams.
#[inline]
pub(crate) fn is_active() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Closes all streams.
pub(crate) fn clear() {
    *lock(&STREAMS) = None;
    COUNT.store(0, Ordering::Relaxed);
}

/// Sends the tensors of an execution to the stream of its core.
pub(crate) struct StreamTap {
    /// The first core of the model.
    pub core: u32,
}

impl Tap for StreamTap {
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let mut streams = lock(&STREAMS);
        let all = streams.iter_mut().flat_map(|streams| streams.values_mut());
        for stream in all.filter(|stream| stream.core == self.core && stream.accepts(&tapped)) {
            stream.put(payload(self.core, &tapped));
        }
        Ok(())
    }
}

/// The struct of an event and the tensor's bytes.
fn payload(core: u32, made: &TapValue<'_>) -> Vec<u8> {
    let shape = made.ty.map_or(&[][..], |ty| ty.shape());
    let mut extents = [0; 8];
    for (slot, &extent) in extents.iter_mut().zip(shape) {
        *slot = extent as u64;
    }
    let head = DebugTensor {
        prefix: fill_text(made.value),
        logical_nc_id: core,
        pipe: 0,
        tensor_dtype: fill_text(made.ty.map_or("", |ty| ty.dtype().name())),
        tensor_shape: extents,
        tensor_data_size: made.bytes.len() as u64,
        reserved: [0; 416],
    };
    let start = std::ptr::from_ref(&head).cast::<u8>();
    // SAFETY: `head` is a local struct of `size_of::<DebugTensor>()` initialized bytes: its fields
    // fill its 1024 bytes without padding (asserted in `layout`).
    let head = unsafe { std::slice::from_raw_parts(start, size_of::<DebugTensor>()) };
    [head, made.bytes].concat()
}

impl Stream {
    fn accepts(&self, tapped: &TapValue<'_>) -> bool {
        let named = |name: &String| name == tapped.node || name == tapped.value;
        self.names.is_empty() || self.names.iter().any(named)
    }

    /// Adds an event; a full stream drops the oldest.
    fn put(&mut self, event: Vec<u8>) {
        if self.pending.len() >= self.capacity {
            self.pending.pop_front();
        }
        self.pending.push_back(event);
        // The 64-bit counter of the eventfd does not overflow.
        let _ = rustix::io::write(&self.ready, &1u64.to_ne_bytes());
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        let event = self.pending.pop_front();
        if self.pending.is_empty() {
            // Resets the eventfd; reading fails if it is already zero.
            let _ = rustix::io::read(&self.ready, &mut [0u8; 8]);
        }
        event.ok_or_else(|| Error::new(ErrorKind::QueueEmpty, "no event is pending"))
    }
}

fn none(descriptor: c_int) -> Error {
    Error::new(ErrorKind::InvalidHandle, "no stream has this descriptor").found(descriptor)
}

fn buffer_size() -> Result<usize> {
    const NAME: &str = "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(DEFAULT_CAPACITY);
    };
    let count = text.trim().parse().ok().filter(|&count: &usize| count > 0);
    count.ok_or_else(|| invalid(format!("{NAME} is not a number of events")).found(text))
}

/// The names in `TENON_DEBUG_TAPS`.
fn names() -> Vec<String> {
    let list = std::env::var("TENON_DEBUG_TAPS").unwrap_or_default();
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

entry! {
    fn nrt_debug_client_connect(logical_nc_idx: c_int, stream_fd: *mut c_int) {
        let process = process()?;
        check(stream_fd, "stream_fd")?;
        let core = process.cores.core(crate::cores::number(logical_nc_idx.into())?)?.index();
        let capacity = buffer_size()?;
        let mut streams = lock(&STREAMS);
        let streams = streams.get_or_insert_default();
        if streams.values().any(|stream| stream.core == core) {
            return Err(invalid(format!("core {core} already has a stream")));
        }
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let ready = ready.map_err(|error| {
            Error::new(ErrorKind::OutOfMemory, format!("cannot make a descriptor: {error}"))
        })?;
        let descriptor = ready.as_raw_fd();
        let (names, pending) = (names(), VecDeque::new());
        streams.insert(descriptor, Stream { core, ready, capacity, names, pending });
        COUNT.store(streams.len(), Ordering::Relaxed);
        // SAFETY: `stream_fd` is null or writable (header).
        unsafe { write_output(stream_fd, "stream_fd", descriptor) }
    }

    fn nrt_debug_client_connect_close(stream_fd: c_int) -> () {
        let _ = attempt("nrt_debug_client_connect_close", || {
            process::check()?;
            let mut streams = lock(&STREAMS);
            let all = streams.get_or_insert_default();
            all.remove(&stream_fd).ok_or_else(|| none(stream_fd))?;
            COUNT.store(all.len(), Ordering::Relaxed);
            Ok(())
        });
    }

    fn nrt_debug_client_read_one_event(
        stream_fd: c_int, header: *mut EventHeader, payload: *mut *mut c_void,
    ) {
        process::check()?;
        check(header, "header")?;
        check(payload, "payload")?;
        let mut streams = lock(&STREAMS);
        let stream = streams.as_mut().and_then(|all| all.get_mut(&stream_fd));
        let stream = stream.ok_or_else(|| none(stream_fd))?;
        let event = match stream.take() {
            Ok(event) => event,
            Err(error) => {
                drop(streams);
                return Err(error);
            }
        };
        drop(streams);
        let result = EventHeader {
            data_size: event.len() as u64,
            kind: TENSOR_READ,
            reserved: [0; 52],
        };
        // SAFETY: `start` has `event.len()` writable bytes and is new, so it does not overlap
        // `event`; `header` and `payload` are null or writable (header).
        unsafe {
            let start = libc::malloc(event.len()).cast::<u8>();
            if start.is_null() {
                return Err(Error::new(ErrorKind::OutOfMemory, "cannot allocate the event"));
            }
            start.copy_from_nonoverlapping(event.as_ptr(), event.len());
            write_output(header, "header", result)?;
            write_output(payload, "payload", start.cast())
        }
    }
}
