//! The host of executions: work queue, output, diagnostics, allocator and trace, shared by all
//! executions of a process or a test.

use crate::allocator::{AllocatorKind, Grant, HostAllocator};
use crate::log::Log;
use crate::queue::{SingleThreaded, Task, WorkQueue};
use crate::{AsyncValue, IntoValue, PendingResult, Value, pending_result};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::KernelLocation;

/// The host of executions. Clones share it.
///
/// ```
/// use tenon_executor::Host;
/// let host = Host::builder().print(Vec::new()).build();
/// host.print(format_args!("int32 = {}\n", 7));
/// ```
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    queue: Arc<dyn WorkQueue>,
    print: Mutex<Box<dyn Write + Send>>,
    log: Log,
    diagnose: Box<DiagnosticHandler>,
    allocator: HostAllocator,
    trace: Option<Trace>,
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

type DiagnosticHandler = dyn Fn(&Diagnostic<'_>) + Send + Sync;

/// An error of a kernel, reported when it occurs.
#[derive(Debug)]
pub struct Diagnostic<'a> {
    /// The kernel's location in the source.
    pub location: &'a KernelLocation,
    /// The kernel's name.
    pub kernel: &'a str,
    /// The error that the kernel returned.
    pub error: &'a Error,
}

/// The sink of trace scopes, and their granularity.
#[derive(Clone)]
pub struct Trace {
    /// The sink that receives them.
    pub sink: Arc<dyn TraceSink>,
    /// Whether every kernel is a scope, not only functions.
    pub kernels: bool,
}

/// Builds a [`Host`]. Defaults: a single-threaded queue, standard output and error, no diagnostic
/// handler, unlimited memory, no trace.
pub struct HostBuilder(Inner);

impl Host {
    /// A host with the defaults of [`HostBuilder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A builder with the defaults.
    pub fn builder() -> HostBuilder {
        HostBuilder(Inner {
            queue: Arc::new(SingleThreaded::new()),
            print: Mutex::new(Box::new(std::io::stdout())),
            log: Log::default(),
            diagnose: Box::new(|_| ()),
            allocator: HostAllocator::new(AllocatorKind::Malloc, Log::default()),
            trace: None,
            shared: Mutex::default(),
        })
    }

    /// The work queue.
    pub fn queue(&self) -> &dyn WorkQueue {
        &*self.0.queue
    }

    /// Adds a task that does not block.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.0.queue.add(Task::new(work));
    }

    /// Computes a kernel's result in a task. Its error is not reported as a diagnostic;
    /// [`Reporter`] does that.
    ///
    /// [`Reporter`]: crate::Reporter
    ///
    /// ```
    /// use tenon_executor::{Host, Value};
    /// let host = Host::new();
    /// let sum = host.spawn_result(|| Ok(3 + 4i32)).into_async();
    /// host.queue().await_all(std::slice::from_ref(&sum));
    /// assert_eq!(sum.get(), Some(&Value::I32(7)));
    /// ```
    pub fn spawn_result<T: IntoValue + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PendingResult<T> {
        let (value, promise) = pending_result();
        self.spawn(move || {
            promise.set(work().map_or_else(Value::error, IntoValue::into_value));
        });
        value
    }

    /// Prints and flushes. Errors of a closed output are ignored.
    pub fn print(&self, text: fmt::Arguments<'_>) {
        let mut print = lock(&self.0.print);
        let _ = print.write_fmt(text).and_then(|()| print.flush());
    }

    /// The log, which is separate from the output.
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// Passes a diagnostic to the diagnostic handler and to the trace.
    pub fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        if let Some(trace) = self.trace() {
            let message = diagnostic.error.message();
            trace.sink.event("error", message, Instant::now());
        }
        (self.0.diagnose)(diagnostic);
    }

    /// Allocates `bytes` from the host's allocator; freed when dropped.
    pub fn allocate(&self, bytes: usize) -> Result<Grant> {
        self.0.allocator.grant(bytes).ok_or_else(|| {
            let text = format!("the host's allocator cannot allocate {bytes} bytes");
            Error::new(ErrorKind::OutOfMemory, text)
        })
    }

    /// The allocator that counts the memory of kernels.
    pub fn allocator(&self) -> &HostAllocator {
        &self.0.allocator
    }

    /// The trace, if there is one.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.trace.as_ref()
    }

    /// The sink of kernel scopes, if kernels are traced.
    #[inline]
    pub(crate) fn kernel_trace(&self) -> Option<&dyn TraceSink> {
        let trace = self.0.trace.as_ref().filter(|trace| trace.kernels);
        trace.map(|trace| &*trace.sink)
    }

    /// The only object of type `T` of this host, made on the first call.
    pub fn shared<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = lock(&self.0.shared);
        let known = shared.get(&TypeId::of::<T>()).cloned();
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return known;
        }
        let new = Arc::new(make());
        shared.insert(TypeId::of::<T>(), new.clone());
        new
    }

    /// Runs tasks until all of `values` are available, and returns them resolved.
    pub fn wait(&self, values: Vec<Value>) -> Vec<Value> {
        let pending: Vec<AsyncValue> = values
            .iter()
            .filter_map(|value| match value {
                Value::Pending(value) => Some(value.clone()),
                _ => None,
            })
            .collect();
        self.0.queue.await_all(&pending);
        values.into_iter().map(Value::resolved).collect()
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl HostBuilder {
    /// The work queue.
    pub fn queue(mut self, queue: Arc<dyn WorkQueue>) -> Self {
        self.0.queue = queue;
        self
    }

    /// The output of kernels.
    pub fn print(mut self, print: impl Write + Send + 'static) -> Self {
        self.0.print = Mutex::new(Box::new(print));
        self
    }

    /// The log of the host and its kernels.
    pub fn log(mut self, log: Log) -> Self {
        self.0.log = log;
        self
    }

    /// The handler of kernel errors; it may be called from several threads.
    pub fn diagnostics(
        mut self,
        handler: impl Fn(&Diagnostic<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.0.diagnose = Box::new(handler);
        self
    }

    /// The allocator.
    pub fn allocator(mut self, allocator: HostAllocator) -> Self {
        self.0.allocator = allocator;
        self
    }

    /// The trace.
    pub fn trace(mut self, trace: Trace) -> Self {
        self.0.trace = Some(trace);
        self
    }

    /// The host.
    pub fn build(self) -> Host {
        Host(Arc::new(self.0))
    }
}

/// Locks, ignoring poison: sinks and maps stay consistent.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
