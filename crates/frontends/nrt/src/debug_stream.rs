//! Tensors that executions make on the way, for one listener a core.

use crate::arguments::{check, fill_text, give, invalid};
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
use tenon_runtime::{Tap, TapValue};

/// Events that wait for a listener unless `NEURON_RT_DEBUG_STREAM_BUFFER_SIZE` says otherwise.
const WAITING: usize = 64 << 10;

/// `NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ`.
const TENSOR_READ: u32 = 1;

/// Listeners by their descriptors.
static STREAMS: Mutex<Option<HashMap<c_int, Stream>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Stream {
    core: u32,
    /// Readable while events wait.
    ready: OwnedFd,
    most: usize,
    /// Nodes or values that are shown; all of them when there are no names.
    names: Vec<String>,
    waiting: VecDeque<Vec<u8>>,
}

/// Whether anybody listens.
#[inline]
pub(crate) fn is_listening() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Ends all streams.
pub(crate) fn forget() {
    *lock(&STREAMS) = None;
    COUNT.store(0, Ordering::Relaxed);
}

/// Sends what an execution makes to the listener of its core.
pub(crate) struct StreamTap {
    /// The first core of the model.
    pub core: u32,
}

impl Tap for StreamTap {
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let mut streams = lock(&STREAMS);
        let all = streams.iter_mut().flat_map(|streams| streams.values_mut());
        for stream in all.filter(|stream| stream.core == self.core && stream.wants(&tapped)) {
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
    // SAFETY: the struct has no padding: its fields fill its 1024 bytes (see `layout`).
    let head = unsafe { std::slice::from_raw_parts(start, size_of::<DebugTensor>()) };
    [head, made.bytes].concat()
}

impl Stream {
    fn wants(&self, tapped: &TapValue<'_>) -> bool {
        let named = |name: &String| name == tapped.node || name == tapped.value;
        self.names.is_empty() || self.names.iter().any(named)
    }

    /// Keeps an event; the oldest makes room.
    fn put(&mut self, event: Vec<u8>) {
        if self.waiting.len() >= self.most {
            self.waiting.pop_front();
        }
        self.waiting.push_back(event);
        // A counter of 64 bits does not fill.
        let _ = rustix::io::write(&self.ready, &1u64.to_ne_bytes());
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        let event = self.waiting.pop_front();
        if self.waiting.is_empty() {
            // Not readable any more; it may not have been.
            let _ = rustix::io::read(&self.ready, &mut [0u8; 8]);
        }
        event.ok_or_else(|| Error::new(ErrorKind::QueueEmpty, "no event is there"))
    }
}

fn none(descriptor: c_int) -> Error {
    Error::new(ErrorKind::InvalidHandle, "no stream has this descriptor").found(descriptor)
}

fn buffer_size() -> Result<usize> {
    const NAME: &str = "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(WAITING);
    };
    let count = text.trim().parse().ok().filter(|&count: &usize| count > 0);
    count.ok_or_else(|| invalid(format!("{NAME} is not a number of events")).found(text))
}

/// What `TENON_DEBUG_TAPS` names.
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
        let most = buffer_size()?;
        let mut streams = lock(&STREAMS);
        let streams = streams.get_or_insert_default();
        if streams.values().any(|stream| stream.core == core) {
            return Err(invalid(format!("core {core} has a listener already")));
        }
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let ready = ready.map_err(|error| {
            Error::new(ErrorKind::OutOfMemory, format!("cannot make a descriptor: {error}"))
        })?;
        let descriptor = ready.as_raw_fd();
        let (names, waiting) = (names(), VecDeque::new());
        streams.insert(descriptor, Stream { core, ready, most, names, waiting });
        COUNT.store(streams.len(), Ordering::Relaxed);
        // SAFETY: the caller's place for a descriptor.
        unsafe { give(stream_fd, "stream_fd", descriptor) }
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
        let told = EventHeader {
            data_size: event.len() as u64,
            kind: TENSOR_READ,
            reserved: [0; 52],
        };
        // SAFETY: as many bytes as the event has; the caller's places.
        unsafe {
            let start = libc::malloc(event.len()).cast::<u8>();
            if start.is_null() {
                return Err(Error::new(ErrorKind::OutOfMemory, "cannot allocate the event"));
            }
            start.copy_from_nonoverlapping(event.as_ptr(), event.len());
            give(header, "header", told)?;
            give(payload, "payload", start.cast())
        }
    }
}
