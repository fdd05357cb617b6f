//! The memory of executions in flight: some made at load, more when needed, then waiting.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenon_backend::Allocator;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_executor::{BoundFunction, Registers};
use tenon_kernels::{Memory, TensorPlacements, Variables};

/// How often an execution that waits for memory looks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What one execution needs for itself.
pub(crate) struct Execution {
    pub memory: Memory,
    pub registers: Registers,
}

/// What the memory of executions is made of.
pub(crate) struct ExecutionFactory {
    pub table: Arc<Variables>,
    pub placements: Arc<TensorPlacements>,
    /// Whose memory arenas are; plain memory of this process without one.
    pub allocator: Option<Arc<dyn Allocator>>,
}

impl ExecutionFactory {
    fn make(&self, main: &BoundFunction) -> Result<Execution> {
        let (table, placements) = (self.table.clone(), self.placements.clone());
        Ok(Execution {
            memory: Memory::with_placements(table, placements, self.allocator.as_ref())?,
            registers: main.registers(),
        })
    }
}

/// All executions of one model.
pub(crate) struct Arenas {
    factory: ExecutionFactory,
    limit: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: Vec<Execution>,
    made: usize,
    /// Those that wait: telling a condition variable that nobody waits for is a call of the system.
    waiting: usize,
}

impl Arenas {
    /// `ready` executions at once, and up to `limit` when more are in flight.
    pub fn new(
        factory: ExecutionFactory,
        main: &BoundFunction,
        ready: usize,
        limit: usize,
    ) -> Result<Self> {
        let limit = limit.max(ready).max(1);
        let mut free = Vec::with_capacity(limit);
        for _ in 0..ready {
            free.push(factory.make(main)?);
        }
        let state = Mutex::new(State {
            made: free.len(),
            free,
            waiting: 0,
        });
        Ok(Self {
            factory,
            limit,
            state,
            returned: Condvar::new(),
        })
    }

    /// Calls `work` with a free execution; waits while all are in use and no more may be made. A
    /// panic of a kernel becomes an error: what a package says must not end the process.
    pub fn with_execution<R>(
        &self,
        main: &BoundFunction,
        control: &Control,
        work: impl FnOnce(&mut Execution) -> Result<R>,
    ) -> Result<R> {
        let mut execution = self.take(main, control)?;
        // After a panic an execution holds other numbers, nothing else: each run sets its
        // registers and the caller's memory anew.
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut execution)));
        self.returned(Some(execution));
        done.unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    fn take(&self, main: &BoundFunction, control: &Control) -> Result<Execution> {
        let mut state = self.lock();
        loop {
            if let Some(execution) = state.free.pop() {
                return Ok(execution);
            }
            if state.made < self.limit {
                state.made += 1;
                drop(state);
                return self.factory.make(main).inspect_err(|_| self.returned(None));
            }
            control.check()?;
            state.waiting += 1;
            let waited = self.returned.wait_timeout(state, POLL_INTERVAL);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            state.waiting -= 1;
        }
    }

    /// An execution is free again, or could not be made.
    fn returned(&self, execution: Option<Execution>) {
        let mut state = self.lock();
        match execution {
            // As many executions were made as there is room for: this allocates nothing.
            Some(execution) => state.free.push(execution),
            None => state.made -= 1,
        }
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.returned.notify_one();
        }
    }

    /// Bytes of the memory made so far, that of executions in use left out.
    pub fn free_bytes(&self) -> usize {
        self.lock()
            .free
            .iter()
            .map(|execution| execution.memory.bytes())
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A holder that panicked left a list of whole executions.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Error::new(ErrorKind::Internal, format!("a kernel panicked: {text}"))
}
