//! A pool of memory for executions: some allocated at load, more on demand up to a limit; beyond it
//! executions wait.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenon_backend::Allocator;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_executor::{BoundFunction, Registers};
use tenon_kernels::{BoundKernels, Memory, TensorPlacements, Variables};
use tenon_tensor::BufferPool;

/// The interval at which an execution that waits for memory checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The memory and registers of one execution.
pub(crate) struct Execution {
    pub memory: Memory,
    pub registers: Registers,
}

/// Creates the memory of executions.
pub(crate) struct ExecutionFactory {
    pub table: Arc<Variables>,
    pub placements: Arc<TensorPlacements>,
    /// The kernels that depend on sizes.
    pub kernels: BoundKernels,
    /// The allocator of arenas; memory of this process if `None`.
    pub allocator: Option<Arc<dyn Allocator>>,
    /// Has the arenas of executions that are not running, if they are shared with other models.
    pub pool: Option<Arc<BufferPool>>,
}

impl ExecutionFactory {
    fn make(&self, main: &BoundFunction) -> Result<Execution> {
        let (table, placements) = (self.table.clone(), self.placements.clone());
        let memory = match self.pool {
            Some(_) => Memory::without_arena(table, placements)?,
            None => Memory::with_placements(table, placements, self.allocator.as_ref())?,
        };
        Ok(Execution {
            memory: memory.with_kernels(self.kernels.clone()),
            registers: main.registers(),
        })
    }
}

/// The pool of one model.
pub(crate) struct Arenas {
    factory: ExecutionFactory,
    limit: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    /// With capacity for all that were made, so that returning one does not allocate.
    free: Vec<Execution>,
    made: usize,
    /// The number of waiting executions: without any, the system call of a notification is avoided.
    waiting: usize,
}

impl Arenas {
    /// Allocates `ready` executions, and up to `limit` on demand.
    pub fn new(
        factory: ExecutionFactory,
        main: &BoundFunction,
        ready: usize,
        limit: usize,
    ) -> Result<Self> {
        let limit = limit.max(ready).max(1);
        let mut free = Vec::new();
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

    /// Calls `work` with a free execution; waits while all are in use and the limit is reached. A
    /// panic of a kernel becomes an error: a package must not end the process.
    pub fn with_execution<R>(
        &self,
        main: &BoundFunction,
        control: &Control,
        work: impl FnOnce(&mut Execution) -> Result<R>,
    ) -> Result<R> {
        let mut execution = self.take(main, control)?;
        // After a panic only the contents of the arena are unspecified: each run sets its registers
        // and the caller's memory.
        let done = catch_unwind(AssertUnwindSafe(|| {
            let Some(pool) = &self.factory.pool else {
                return work(&mut execution);
            };
            execution.memory.take_arena(pool)?;
            let done = work(&mut execution);
            execution.memory.release_arena()?;
            done
        }));
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
                let made = state.made;
                state.free.reserve(made);
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

    /// Returns an execution to the pool, or reports that it could not be allocated.
    fn returned(&self, execution: Option<Execution>) {
        let mut state = self.lock();
        match execution {
            Some(execution) => state.free.push(execution),
            None => state.made -= 1,
        }
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.returned.notify_one();
        }
    }

    /// Bytes of the free executions.
    pub fn free_bytes(&self) -> usize {
        self.lock()
            .free
            .iter()
            .map(|execution| execution.memory.bytes())
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A holder that panicked leaves complete executions.
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
