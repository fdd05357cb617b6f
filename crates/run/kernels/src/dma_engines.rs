//! Kernels of engine programs: they trigger transfers and synchronise by semaphores and events
//! (docs/dma.md, "Queues" and "Semaphores and events").

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, Result};
use tenon_bef::Name;
use tenon_dma::engine::{BlockedEngine, Machine, Step};
use tenon_executor::{
    Attr, Chain, FunctionHandle, Host, KernelDef, Opaque, PendingResult, Promise, Request, Value,
    kernel, pending_result,
};

/// A machine whose engines are functions of a program.
#[derive(Clone)]
pub struct Engines(Arc<Mutex<State>>);

/// An engine of a machine: the argument of its program, of type `!tenon.engine`.
pub struct Engine {
    engines: Engines,
    core: usize,
    name: String,
}

impl Opaque for Engine {
    const TYPE: &'static str = "!tenon.engine";
}

struct State {
    machine: Machine,
    blocked: Vec<BlockedStep>,
    /// Whether a task is processing the queues.
    is_busy: bool,
}

/// A step that waits, and the promise of its completion.
struct BlockedStep {
    waiting: BlockedEngine,
    step: Step,
    promise: Promise,
}

/// An engine, by core and name, and its program.
#[derive(Clone)]
pub struct EngineProgram {
    /// The core.
    pub core: usize,
    /// The engine's name.
    pub engine: String,
    /// A function from a `!tenon.engine` and a `!tfrt.chain` to a `!tfrt.chain`.
    pub function: FunctionHandle,
}

impl Engines {
    /// A machine whose engines have not started.
    pub fn new(machine: Machine) -> Self {
        Self(Arc::new(Mutex::new(State {
            machine,
            blocked: Vec::new(),
            is_busy: false,
        })))
    }

    /// Runs programs concurrently on the request's host until all have ended and the queues are
    /// empty.
    ///
    /// # Errors
    /// An error of a kernel or a transfer, or a deadlock of engines.
    pub fn run(&self, programs: &[EngineProgram], request: &Request) -> Result<()> {
        let mut results = Vec::new();
        for program in programs {
            let engine = Engine {
                engines: self.clone(),
                core: program.core,
                name: program.engine.clone(),
            };
            let arguments = vec![Value::opaque(engine), Value::Chain];
            results.extend(program.function.execute(request, arguments));
        }
        request.host().queue().quiesce();
        // An error takes precedence over the deadlock that it causes.
        let mut failure = first_error(&results);
        if let Some(deadlock) = self.fail_blocked() {
            failure.get_or_insert(deadlock);
        }
        let results = request.host().wait(results);
        match failure.or_else(|| first_error(&results)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Calls `read` with the machine.
    pub fn with<R>(&self, read: impl FnOnce(&Machine) -> R) -> R {
        read(&self.state().machine)
    }

    /// Fails all steps that are still blocked when no engine runs: a deadlock.
    fn fail_blocked(&self) -> Option<Error> {
        let (error, blocked) = {
            let mut state = self.state();
            let blocked = std::mem::take(&mut state.blocked);
            if blocked.is_empty() {
                return None;
            }
            let waiting: Vec<BlockedEngine> =
                blocked.iter().map(|each| each.waiting.clone()).collect();
            (state.machine.deadlock(&waiting), blocked)
        };
        let shared = Arc::new(error);
        for each in blocked {
            each.promise.set(Value::Error(shared.clone()));
        }
        Some(copy(&shared))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a step, now or as soon as it can proceed.
    fn perform(&self, engine: &Engine, step: Step, host: &Host) -> Result<PendingResult<Chain>> {
        let (value, promise) = pending_result();
        let mut state = self.state();
        let wait = state.machine.perform(engine.core, &engine.name, &step)?;
        match wait {
            Some(wait) => state.blocked.push(BlockedStep {
                waiting: BlockedEngine {
                    core: engine.core,
                    engine: engine.name.clone(),
                    wait,
                },
                step,
                promise,
            }),
            None => promise.set(Value::Chain),
        }
        // This step may unblock another engine.
        let has_work = !state.machine.is_idle() || !state.blocked.is_empty();
        let starts = has_work && !state.is_busy;
        state.is_busy |= starts;
        drop(state);
        if starts {
            let engines = self.clone();
            host.spawn(move || engines.drive());
        }
        Ok(value)
    }

    /// Processes the queues until nothing advances, and completes the steps that are unblocked.
    fn drive(&self) {
        loop {
            let mut ready = Vec::new();
            let mut state = self.state();
            let advanced = state.machine.advance();
            if let Err(error) = advanced {
                let error = Arc::new(error);
                state.is_busy = false;
                let blocked = std::mem::take(&mut state.blocked);
                drop(state);
                for each in blocked {
                    each.promise.set(Value::Error(error.clone()));
                }
                return;
            }
            let continues = advanced.unwrap_or(false);
            let mut still = Vec::new();
            for each in std::mem::take(&mut state.blocked) {
                let BlockedEngine { core, engine, .. } = &each.waiting;
                match state.machine.perform(*core, engine, &each.step) {
                    Ok(Some(_)) => still.push(each),
                    Ok(None) => ready.push((each.promise, Value::Chain)),
                    Err(error) => ready.push((each.promise, Value::error(error))),
                }
            }
            state.blocked = still;
            state.is_busy = continues || !ready.is_empty();
            let ends = !state.is_busy;
            drop(state);
            for (promise, value) in ready {
                promise.set(value);
            }
            if ends {
                return;
            }
        }
    }
}

impl Engine {
    fn perform(&self, step: Step, host: &Host) -> Result<PendingResult<Chain>> {
        self.engines.perform(self, step, host)
    }
}

/// The first available result that is an error.
fn first_error(results: &[Value]) -> Option<Error> {
    results
        .iter()
        .find_map(|result| match result.clone().resolved() {
            Value::Error(error) => Some(copy(&error)),
            _ => None,
        })
}

/// A copy of the error for a second recipient.
fn copy(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

/// The kernels of engine programs.
pub fn engine_library() -> Vec<KernelDef> {
    vec![
        kernel("tenon.dma.trigger", trigger).doc("Starts descriptors of the transfers of an id."),
        kernel("tenon.dma.swap", swap).doc("Selects an instance of a queue set."),
        kernel("tenon.semaphore.wait", wait_semaphore)
            .doc("Waits until a semaphore is at least a value."),
        kernel("tenon.semaphore.add", add_semaphore).doc("Increments a semaphore."),
        kernel("tenon.semaphore.set", set_semaphore).doc("Gives a semaphore a value."),
        kernel("tenon.event.wait", wait_event).doc("Waits until an event is set."),
        kernel("tenon.event.set", set_event).doc("Sets an event."),
        kernel("tenon.event.clear", clear_event).doc("Clears an event."),
    ]
}

// Attributes are in the order of their names.

fn trigger(
    engine: &Engine,
    _: Chain,
    count: Attr<u32>,
    function: Attr<Name>,
    id: Attr<u32>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    let step = Step::Trigger {
        function: function.0.to_string(),
        id: id.0,
        count: (count.0 > 0).then_some(count.0),
    };
    engine.perform(step, host)
}

fn swap(
    engine: &Engine,
    _: Chain,
    instance: Attr<Name>,
    queue: Attr<Name>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    let step = Step::Swap {
        queue: queue.0.to_string(),
        instance: instance.0.to_string(),
    };
    engine.perform(step, host)
}

fn wait_semaphore(
    engine: &Engine,
    _: Chain,
    at_least: Attr<u32>,
    semaphore: Attr<u64>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    let step = Step::WaitSemaphore {
        semaphore: semaphore.0,
        at_least: at_least.0,
    };
    engine.perform(step, host)
}

fn add_semaphore(
    engine: &Engine,
    _: Chain,
    semaphore: Attr<u64>,
    value: Attr<u32>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    let step = Step::AddSemaphore {
        semaphore: semaphore.0,
        value: value.0,
    };
    engine.perform(step, host)
}

fn set_semaphore(
    engine: &Engine,
    _: Chain,
    semaphore: Attr<u64>,
    value: Attr<u32>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    let step = Step::SetSemaphore {
        semaphore: semaphore.0,
        value: value.0,
    };
    engine.perform(step, host)
}

fn wait_event(
    engine: &Engine,
    _: Chain,
    event: Attr<u64>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    engine.perform(Step::WaitEvent(event.0), host)
}

fn set_event(
    engine: &Engine,
    _: Chain,
    event: Attr<u64>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    engine.perform(Step::SetEvent(event.0), host)
}

fn clear_event(
    engine: &Engine,
    _: Chain,
    event: Attr<u64>,
    host: &Host,
) -> Result<PendingResult<Chain>> {
    engine.perform(Step::ClearEvent(event.0), host)
}

#[cfg(test)]
mod tests;
