//! Streams, events and tensors of the device.

#![allow(unsafe_code, reason = "memory of commands that are still to run")]

use crate::device::{Device, HostBytes, PartTimes, Task};
use crate::memory::DeviceMemory;
use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenon_backend::{Event, Stream, TensorHandle};
use tenon_base::{Error, ErrorKind, Result, stop};

/// A stream of the device.
pub struct DeviceStream {
    device: Arc<Device>,
    id: u64,
    failed: Option<u64>,
    /// The times of the parts in the last execution of each workload that was timed.
    times: HashMap<u64, Arc<PartTimes>>,
}

/// A stream that the host passes, as one of the device.
pub fn of(stream: &mut dyn Stream) -> Result<&mut DeviceStream> {
    let own = (stream as &mut dyn Any).downcast_mut::<DeviceStream>();
    own.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a stream of another backend"))
}

impl DeviceStream {
    pub fn new(device: Arc<Device>) -> Self {
        let id = device.add_stream();
        Self {
            device,
            id,
            failed: None,
            times: HashMap::new(),
        }
    }

    /// Keeps the times of a workload, which its command will write.
    pub fn time(&mut self, workload: u64, times: &Arc<PartTimes>) {
        self.times.insert(workload, times.clone());
    }

    /// The times of a workload.
    pub fn times(&self, workload: u64) -> Option<&Arc<PartTimes>> {
        self.times.get(&workload)
    }

    pub fn enqueue(&mut self, task: Task) -> Result<()> {
        self.device.enqueue(self.id, task)
    }
}

// SAFETY: `finish` and `remove_stream` return when the queue of the stream is empty and none of its commands runs.
unsafe impl Stream for DeviceStream {
    fn finish(&mut self) -> Result<()> {
        let stopped = || stop::with_current(|token| token.map_or(Ok(()), |token| token.check()));
        self.failed = None;
        self.device
            .finish(self.id, &stopped)
            .map_err(|(number, error)| {
                self.failed = number;
                error
            })
    }

    fn failed_command(&self) -> Option<u64> {
        self.failed
    }

    fn event_kind(&self) -> &str {
        "SimEvent"
    }

    fn record(&mut self) -> Result<Box<dyn Event>> {
        let state = Arc::new(EventState::default());
        self.enqueue(Task::Record(state.clone()))?;
        Ok(Box::new(DeviceEvent(state)))
    }

    unsafe fn wait(&mut self, event: &dyn Event) -> Result<()> {
        let state = event.object().cast::<EventState>().cast_const();
        // SAFETY: the object of an event of this kind is an `EventState` of an `Arc`, which the event owns
        // (`DeviceEvent`) and the host keeps; the count is increased for the command.
        let state = unsafe {
            Arc::increment_strong_count(state);
            Arc::from_raw(state)
        };
        self.enqueue(Task::Wait(state))
    }
}

impl Drop for DeviceStream {
    fn drop(&mut self) {
        self.device.remove_stream(self.id);
    }
}

/// Whether the commands before an event have ended.
#[derive(Default)]
pub struct EventState(AtomicBool);

impl EventState {
    pub fn signal(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_signalled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct DeviceEvent(Arc<EventState>);

// SAFETY: the object is the state, which the event owns.
unsafe impl Event for DeviceEvent {
    fn object(&self) -> *mut c_void {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

/// A tensor in the memory of the device.
pub struct DeviceTensor {
    device: Arc<Device>,
    memory: Arc<DeviceMemory>,
}

impl DeviceTensor {
    pub fn new(device: Arc<Device>, memory: DeviceMemory) -> Self {
        Self {
            device,
            memory: Arc::new(memory),
        }
    }

    fn check(&self, found: usize) -> Result<()> {
        let expected = self.memory.bytes();
        if found == expected {
            return Ok(());
        }
        let text = "the number of bytes is not that of the tensor";
        let error = Error::new(ErrorKind::InvalidArgument, text);
        Err(error.expected(expected).found(found))
    }

    /// Runs one command to its end.
    fn run(&self, task: Task) -> Result<()> {
        let mut stream = DeviceStream::new(self.device.clone());
        stream.enqueue(task)?;
        stream.finish()
    }

    fn copy_in_of(&self, bytes: *const [u8]) -> Task {
        Task::CopyIn {
            from: HostBytes(bytes.cast_mut()),
            to: self.memory.clone(),
        }
    }

    fn copy_out_of(&self, bytes: *mut [u8]) -> Task {
        Task::CopyOut {
            from: self.memory.clone(),
            to: HostBytes(bytes),
        }
    }
}

// SAFETY: the address is that of an allocation that the handle owns, of whole pages that are zero at first; workloads
// of this backend access it on the device alone, and the host cannot.
unsafe impl TensorHandle for DeviceTensor {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.check(bytes.len())?;
        self.run(self.copy_in_of(bytes))
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.check(bytes.len())?;
        self.run(self.copy_out_of(bytes))
    }

    fn start(&self) -> *mut u8 {
        match self.memory.bytes() {
            0 => std::ptr::null_mut(),
            _ => self.memory.host_start(),
        }
    }

    unsafe fn enqueue_in(&mut self, stream: &mut dyn Stream, bytes: *const [u8]) -> Result<()> {
        self.check(bytes.len())?;
        of(stream)?.enqueue(self.copy_in_of(bytes))
    }

    unsafe fn enqueue_out(&self, stream: &mut dyn Stream, bytes: *mut [u8]) -> Result<()> {
        self.check(bytes.len())?;
        of(stream)?.enqueue(self.copy_out_of(bytes))
    }
}
