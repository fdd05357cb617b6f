//! The device: a thread that runs the commands of all streams, one at a time.

#![allow(unsafe_code, reason = "operands in memory of the device")]

use crate::Work;
use crate::memory::{DeviceMemory, Memory};
use crate::stream::EventState;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tenon_backend::{Operands, RawOperand, Workload};
use tenon_base::{Error, ErrorKind, Result};

/// Delays and faults of a device, by its options.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The time of compiling a program.
    pub compile: Duration,
    /// The least time of a command.
    pub command: Duration,
    /// The seed of the order among streams; 0 for the order of enqueuing.
    pub seed: u64,
    /// The workloads, counted from 1, that fail, hang until stopped, and lose the device; 0 for none.
    pub fail: u64,
    pub hang: u64,
    pub lose: u64,
    /// The size of the memory; 0 for the default.
    pub memory_bytes: u64,
}

/// Compiled programs begin with this.
pub const PROGRAM: &str = "sim program ";

/// The work of a command.
pub enum Task {
    Execute(Execute),
    /// Copies from the host.
    CopyIn {
        from: HostBytes,
        to: Arc<DeviceMemory>,
    },
    /// Copies to the host.
    CopyOut {
        from: Arc<DeviceMemory>,
        to: HostBytes,
    },
    Record(Arc<EventState>),
    Wait(Arc<EventState>),
}

/// Bytes of the host, valid until the stream is finished.
pub struct HostBytes(pub *mut [u8]);

// SAFETY: the host allows the access to commands of the stream on any thread (`Stream`).
unsafe impl Send for HostBytes {}

/// A workload and its operands, at addresses of the host's view.
pub struct Execute {
    pub workload: Arc<dyn Workload>,
    pub inputs: Vec<RawOperand>,
    pub outputs: Vec<RawOperand>,
    pub scratch: Arc<DeviceMemory>,
    pub program: Arc<str>,
    /// The device writes the times of the parts here.
    pub times: Option<Arc<PartTimes>>,
}

/// The parts of a workload: its computation, and what is left of the least time of a command.
pub const PARTS: [&str; 2] = ["compute", "delay"];

/// The nanoseconds of each part.
pub type PartTimes = [AtomicU64; PARTS.len()];

// SAFETY: the operands are memory of the device, which commands access on its thread.
unsafe impl Send for Execute {}

/// A device and its thread, which ends with the last owner.
pub struct Device {
    pub memory: Arc<Memory>,
    shared: Arc<Shared>,
    /// Set until the drop.
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Notifies the thread of commands and of the end, and streams of ended commands.
    changed: Condvar,
    faults: Faults,
    memory: Arc<Memory>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u64, Commands>,
    next_stream: u64,
    enqueued: u64,
    is_lost: bool,
    is_closed: bool,
    random: u64,
    work: Work,
}

#[derive(Default)]
struct Commands {
    queue: VecDeque<Command>,
    /// Commands since the last finish.
    count: u64,
    is_running: bool,
    /// Makes the running command end early.
    stop: Arc<AtomicBool>,
    error: Option<(u64, Error)>,
}

struct Command {
    /// Its number in the stream, and in the device.
    number: u64,
    order: u64,
    task: Task,
}

impl Device {
    /// A device without faults.
    pub fn start() -> Arc<Self> {
        Self::with_faults(Faults::default())
    }

    pub fn with_faults(faults: Faults) -> Arc<Self> {
        // Mapping addresses fails only where there are none left; allocations then fail.
        let bytes = usize::try_from(faults.memory_bytes).unwrap_or(usize::MAX >> 1);
        let memory = Memory::new(bytes).or_else(|_| Memory::new(1 << 30));
        #[allow(
            clippy::expect_used,
            reason = "an example on a machine without addresses"
        )]
        let memory = memory.expect("addresses for the simulated device");
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            faults,
            memory: memory.clone(),
        });
        let of_thread = shared.clone();
        let thread = Some(std::thread::spawn(move || of_thread.run()));
        Arc::new(Self {
            memory,
            shared,
            thread,
        })
    }

    pub fn work(&self) -> Work {
        self.shared.lock().work
    }

    /// Compiles a program.
    pub fn compile(&self) {
        std::thread::sleep(self.shared.faults.compile);
        self.shared.lock().work.compiled += 1;
    }

    pub fn add_stream(&self) -> u64 {
        let mut state = self.shared.lock();
        state.next_stream += 1;
        let id = state.next_stream;
        state.streams.insert(id, Commands::default());
        id
    }

    pub fn remove_stream(&self, id: u64) {
        // Commands of a stream that is not finished end first.
        self.discard(id);
        let _ = self.finish(id, &|| Ok(()));
        self.shared.lock().streams.remove(&id);
    }

    /// Enqueues a command.
    pub fn enqueue(&self, id: u64, task: Task) -> Result<()> {
        let mut state = self.shared.lock();
        state.enqueued += 1;
        let (order, is_lost) = (state.enqueued, state.is_lost);
        let Some(commands) = state.streams.get_mut(&id) else {
            return Err(Error::new(ErrorKind::InvalidHandle, "no such stream"));
        };
        let number = commands.count;
        commands.count += 1;
        if commands.error.is_some() {
            // Discarded, like those behind the command that failed.
            if let Task::Record(event) = task {
                event.signal();
            }
            return Ok(());
        }
        if is_lost {
            return Err(lost());
        }
        let command = Command {
            number,
            order,
            task,
        };
        commands.queue.push_back(command);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn discard(&self, id: u64) {
        let mut state = self.shared.lock();
        if let Some(commands) = state.streams.get_mut(&id) {
            commands.discard();
        }
        self.shared.changed.notify_all();
    }

    /// Waits until the stream has no commands; `check` fails when they are to be stopped. The error has the number of
    /// the command that failed.
    pub fn finish(
        &self,
        id: u64,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<(), (Option<u64>, Error)> {
        let mut state = self.shared.lock();
        let mut stopped = None;
        let waits = state
            .streams
            .get(&id)
            .is_some_and(|commands| commands.count > 0);
        state.work.finishes += u64::from(waits);
        loop {
            let Some(commands) = state.streams.get_mut(&id) else {
                return Ok(());
            };
            if commands.queue.is_empty() && !commands.is_running {
                commands.count = 0;
                commands.stop = Arc::default();
                let failed = commands.error.take();
                return match (stopped, failed) {
                    (Some(error), _) => Err((None, error)),
                    (None, Some((number, error))) => Err((Some(number), error)),
                    (None, None) => Ok(()),
                };
            }
            if stopped.is_none()
                && let Err(error) = check()
            {
                stopped = Some(error);
                commands.discard();
            }
            let wait = Duration::from_millis(1);
            let waited = self.shared.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        // Its memory is freed when the device is. Commands do not own the device, so that this is another thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Commands {
    /// Discards the commands that have not begun and stops the running one.
    fn discard(&mut self) {
        for command in self.queue.drain(..) {
            if let Task::Record(event) = command.task {
                event.signal();
            }
        }
        self.stop.store(true, Ordering::Release);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of the device.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some((id, command)) = state.next(self.faults.seed) {
                let Some(commands) = state.streams.get_mut(&id) else {
                    continue;
                };
                commands.is_running = true;
                let stop = commands.stop.clone();
                let workload = state.work.workloads + 1;
                if matches!(command.task, Task::Execute(_)) {
                    state.work.workloads = workload;
                }
                drop(state);
                let start = Instant::now();
                let done = self.execute(&command.task, workload, &stop);
                let computed = start.elapsed();
                // Sleeping is not exact enough for delays of microseconds.
                while start.elapsed() < self.faults.command {
                    std::hint::spin_loop();
                }
                let all = start.elapsed();
                if let Task::Execute(Execute {
                    times: Some(times), ..
                }) = &command.task
                {
                    for (time, part) in times.iter().zip([computed, all - computed]) {
                        time.store(part.as_nanos() as u64, Ordering::Release);
                    }
                }
                state = self.lock();
                state.work.busy += all;
                state.end(id, &command, done);
                // A caller of `finish` waits for the last command: waking it at each would delay the next one.
                let is_last = |commands: &Commands| commands.queue.is_empty();
                if state.streams.get(&id).is_none_or(is_last) {
                    self.changed.notify_all();
                }
            } else if state.is_closed {
                return;
            } else {
                // Events of other devices do not notify this one.
                let is_idle = state.streams.values().all(|of| of.queue.is_empty());
                let wait = Duration::from_micros(if is_idle { 100_000 } else { 100 });
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn execute(&self, task: &Task, workload: u64, stop: &AtomicBool) -> Result<()> {
        match task {
            Task::Execute(command) => {
                let is = |fault: u64| fault == workload;
                if is(self.faults.lose) {
                    return Err(lost());
                }
                if is(self.faults.fail) {
                    let text = format!("workload {workload} fails, as its option says");
                    return Err(Error::new(ErrorKind::ExecutionFailed, text));
                }
                while is(self.faults.hang) && !stop.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                let run = || command.run(&self.memory);
                let panicked = || Error::new(ErrorKind::ExecutionFailed, "a workload panicked");
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panicked()))
            }
            Task::CopyIn { from, to } => {
                // SAFETY: the host's bytes are valid until the stream is finished (`Stream`), and the allocation is
                // owned by the command; its size is that of the bytes (`DeviceTensor`).
                unsafe {
                    to.device_start()
                        .copy_from_nonoverlapping(from.0.cast::<u8>(), from.0.len());
                }
                Ok(())
            }
            Task::CopyOut { from, to } => {
                // SAFETY: as for `CopyIn`; the host does not access the bytes until the stream is finished.
                unsafe {
                    to.0.cast::<u8>()
                        .copy_from_nonoverlapping(from.device_start(), to.0.len());
                }
                Ok(())
            }
            Task::Record(event) => {
                event.signal();
                Ok(())
            }
            Task::Wait(_) => Ok(()),
        }
    }
}

impl State {
    /// Takes the next command whose stream is not waiting: the oldest one, or by chance.
    fn next(&mut self, seed: u64) -> Option<(u64, Command)> {
        let ready = |commands: &Commands| match commands.queue.front()?.task {
            Task::Wait(ref event) if !event.is_signalled() => None,
            _ => commands.queue.front().map(|command| command.order),
        };
        let mut heads: Vec<(u64, u64)> = self
            .streams
            .iter()
            .filter_map(|(&id, commands)| Some((ready(commands)?, id)))
            .collect();
        heads.sort_unstable();
        let chosen = match seed {
            0 => 0,
            _ => {
                // Xorshift (Marsaglia, "Xorshift RNGs", 2003).
                self.random = if self.random == 0 { seed } else { self.random };
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                self.random as usize % heads.len().max(1)
            }
        };
        let &(_, id) = heads.get(chosen)?;
        let command = self.streams.get_mut(&id)?.queue.pop_front()?;
        Some((id, command))
    }

    /// Records the end of a command.
    fn end(&mut self, id: u64, command: &Command, done: Result<()>) {
        if let Task::CopyIn { from: bytes, .. } | Task::CopyOut { to: bytes, .. } = &command.task {
            self.work.copies += 1;
            self.work.copied_bytes += bytes.0.len() as u64;
        }
        let is_lost = done
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::DeviceLost);
        self.is_lost |= is_lost;
        if let Some(commands) = self.streams.get_mut(&id) {
            commands.is_running = false;
            if let Err(error) = done {
                commands.discard();
                commands.error.get_or_insert((command.number, error));
            }
        }
        if is_lost {
            for commands in self
                .streams
                .values_mut()
                .filter(|other| !other.queue.is_empty())
            {
                let number = commands.queue.front().map_or(0, |command| command.number);
                commands.discard();
                commands.error.get_or_insert((number, lost()));
            }
        }
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::DeviceLost, "the simulated device is lost")
}

impl Execute {
    fn run(&self, memory: &Memory) -> Result<()> {
        if !self.program.starts_with(PROGRAM) {
            let text = "the device has no program for the workload";
            return Err(Error::new(ErrorKind::Internal, text));
        }
        let resolve = |operand: &RawOperand| {
            Ok(if operand.start().is_null() {
                RawOperand::NONE
            } else if operand.bytes() == 0 {
                RawOperand::new(NonNull::<u128>::dangling().as_ptr().cast(), 0)
            } else {
                let start = memory.resolve(operand.start(), operand.bytes())?;
                RawOperand::new(start, operand.bytes())
            })
        };
        let inputs: Vec<_> = self.inputs.iter().map(resolve).collect::<Result<_>>()?;
        let outputs: Vec<_> = self.outputs.iter().map(resolve).collect::<Result<_>>()?;
        let scratch = RawOperand::new(self.scratch.device_start(), self.scratch.bytes());
        // SAFETY: the operands are allocated memory of the device (checked by `resolve`; the host keeps it until the
        // stream is finished), which only this thread accesses, and they overlap as the host's contract allows. The
        // scratch memory is that of this workload, of which one command runs at a time.
        let mut operands = unsafe { Operands::new(&inputs, &outputs, scratch) };
        self.workload.execute(&mut operands)
    }
}
