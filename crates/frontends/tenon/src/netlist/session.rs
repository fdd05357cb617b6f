//! A loaded netlist: its queues are pushed and popped, its programs run.

use super::table::{OpRow, OpTimes};
use super::{ProgramOptions, SessionOptions, choose_arch, schedule};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::{Control, Count, Error, ErrorKind, Result, pool};
use tenon_compiler::{LoweredNetlist, LoweredProgram, NetlistOptions, NumericMode, lower_netlist};
use tenon_executor::{Host, Log, Program, QueueSelection, Request, Services, Trace, Value};
use tenon_netlist::{MathFidelity, Netlist, Op, Source, check, read};
use tenon_netlist_kernels::{EntrySource, Machine, QueueSpec, TileTensor, round_to_format};
use tenon_tensor::{Tensor, TensorType};

/// The log of kernels.
type Warnings = Arc<Mutex<Vec<String>>>;

fn lock(warnings: &Warnings) -> MutexGuard<'_, Vec<String>> {
    warnings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loaded netlist. One thread runs its programs; other threads may push and pop meanwhile. The example
/// of [this module](super) uses one.
pub struct Session {
    lowered: LoweredNetlist,
    program: Program,
    machine: Machine,
    host: Host,
    times: Arc<OpTimes>,
    warnings: Warnings,
    /// Threads that one loop of an op uses at most.
    threads: Option<NonZeroUsize>,
    queues: BTreeMap<String, QueueSpec>,
}

impl Session {
    /// Reads, checks and lowers a netlist.
    ///
    /// # Errors
    /// Every violated rule, with its line.
    pub fn load(source: &Source, options: &SessionOptions) -> Result<Self> {
        let found = read(source);
        found.findings.to_result(source)?;
        let arch = choose_arch(&found.netlist, options.arch)?;
        check(&found.netlist, arch).to_result(source)?;
        Self::of(&found.netlist, source, options)
    }

    /// Loads a netlist that was read and checked.
    pub fn of(netlist: &Netlist, source: &Source, options: &SessionOptions) -> Result<Self> {
        let lowering = NetlistOptions {
            mode: options.mode,
            arch: choose_arch(netlist, options.arch)?,
        };
        let lowered = lower_netlist(netlist, source, lowering)?;
        let registry = tenon_builtin::kernels();
        let services = Services::new().with(Arc::new(tenon_builtin::registry()));
        let program = Program::decode(&lowered.module, &registry, &services)?;
        let times = Arc::new(OpTimes::default());
        let warnings = Warnings::default();
        if options.mode == NumericMode::Formats {
            lock(&warnings).extend(fidelity_warning(&lowered.netlist));
        }
        let concurrent = schedule::run_concurrently(&lowered.netlist);
        let host = host(options.threads, concurrent, times.clone(), warnings.clone())?;
        let machine = Machine::new(options.limits);
        let setup = program.handle("setup")?;
        setup.execute_sync(&Request::new(&host), vec![Value::opaque(machine.clone())])?;
        let queues = machine.queues().into_iter();
        Ok(Self {
            lowered,
            program,
            host,
            times,
            warnings,
            threads: options.threads,
            queues: queues.map(|spec| (spec.name.clone(), spec)).collect(),
            machine,
        })
    }

    /// Its programs in the order of the file.
    pub fn programs(&self) -> &[LoweredProgram] {
        &self.lowered.programs
    }

    /// The netlist, every graph and queue on one device.
    pub fn netlist(&self) -> &Netlist {
        &self.lowered.netlist
    }

    /// The lowered netlist.
    pub(super) fn lowered(&self) -> &LoweredNetlist {
        &self.lowered
    }

    /// The Module that runs.
    pub fn module(&self) -> &tenon_bef::Module {
        &self.lowered.module
    }

    /// A queue's or ram's entries and shape.
    pub fn queue(&self, name: &str) -> Result<&QueueSpec> {
        self.queues
            .get(name)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no queue '{name}'")))
    }

    /// The type of an entry: `[t, rows, columns]` of f32.
    pub fn entry_type(&self, queue: &str) -> Result<TensorType> {
        let spec = self.queue(queue)?;
        let [t, rows, columns] = spec.tiles;
        let shape = [t, rows * spec.tile[0], columns * spec.tile[1]];
        TensorType::new(tenon_tensor::DataType::F32, shape)
    }

    /// Pushes an entry; waits while the queue is full.
    pub fn push(&self, queue: &str, entry: &Tensor, wait: Duration) -> Result<()> {
        self.machine.push(queue, self.entry(queue, entry)?, wait)
    }

    /// Pushes several entries; waits while the queue is full.
    pub fn push_batch(&self, queue: &str, entries: &[Tensor], wait: Duration) -> Result<()> {
        let mut entries = entries.iter();
        entries.try_for_each(|entry| self.push(queue, entry, wait))
    }

    /// Writes an entry to a slot of a ram; pointers do not move.
    pub fn put(&self, ram: &str, slot: usize, entry: &Tensor) -> Result<()> {
        self.machine.put(ram, slot, self.entry(ram, entry)?)
    }

    /// Pops the first entry of a queue; waits for one.
    pub fn pop(&self, queue: &str, wait: Duration) -> Result<Tensor> {
        self.machine
            .pop(queue, wait)
            .map(|entry| entry.data().clone())
    }

    /// Pops several entries of a queue; waits for each.
    pub fn pop_batch(&self, queue: &str, count: usize, wait: Duration) -> Result<Vec<Tensor>> {
        (0..count).map(|_| self.pop(queue, wait)).collect()
    }

    /// Reads the first entry of a queue without popping it; waits for one.
    pub fn peek(&self, queue: &str, wait: Duration) -> Result<Tensor> {
        self.machine
            .peek(queue, 0, wait)
            .map(|entry| entry.data().clone())
    }

    /// Reads the first entries of a queue without popping them, or those of a ram from its read pointer;
    /// waits for each.
    pub fn peek_batch(&self, queue: &str, count: usize, wait: Duration) -> Result<Vec<Tensor>> {
        let peeked = (0..count).map(|behind| self.machine.peek(queue, behind, wait));
        peeked
            .map(|entry| entry.map(|entry| entry.data().clone()))
            .collect()
    }

    /// The contents of a slot of a queue or ram; pointers do not move.
    pub fn slot(&self, queue: &str, slot: usize) -> Result<Option<Tensor>> {
        let entry = self.machine.slot(queue, slot)?;
        Ok(entry.map(|entry| entry.data().clone()))
    }

    /// Sets the generator of the entries of a host queue, called while the queue is not full, or of the
    /// initial contents of the slots of a ram.
    pub fn feed(
        &self,
        queue: &str,
        make: impl Fn(u64) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<()> {
        let spec = self.queue(queue)?.clone();
        let feed: EntrySource = Arc::new(move |number| stored(&spec, &make(number)?));
        self.machine.feed(queue, feed)
    }

    /// As [`Self::feed`], with entries in the format of the queue.
    pub(super) fn feed_stored(
        &self,
        queue: &str,
        make: impl Fn(u64) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<()> {
        let QueueSpec { tiles, tile, .. } = *self.queue(queue)?;
        let feed: EntrySource =
            Arc::new(move |number| TileTensor::from_tensor(tiles, tile, &make(number)?));
        self.machine.feed(queue, feed)
    }

    /// Keeps the entries that are pushed to a queue; a drained queue is never full.
    pub fn collect(&self, queue: &str, drained: bool) -> Result<()> {
        self.machine.collect(queue, drained)
    }

    /// Returns and removes the kept entries, in the order of pushing.
    pub fn collected(&self, queue: &str) -> Result<Vec<Tensor>> {
        let entries = self.machine.take_outputs(queue)?;
        Ok(entries.iter().map(|entry| entry.data().clone()).collect())
    }

    /// An entry as the format of its queue stores it.
    pub fn stored(&self, queue: &str, entry: &Tensor) -> Result<Tensor> {
        Ok(self.entry(queue, entry)?.data().clone())
    }

    fn entry(&self, queue: &str, entry: &Tensor) -> Result<TileTensor> {
        stored(self.queue(queue)?, entry)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// A missing or unknown parameter; a failed op, with its line in the netlist.
    pub fn run(&self, program: &str, options: &ProgramOptions) -> Result<()> {
        let found = self.programs().iter().find(|known| known.name == program);
        let lowered = found.ok_or_else(|| {
            let known: Vec<&str> = self.programs().iter().map(|known| &*known.name).collect();
            let text = format!("there is no program '{program}'");
            Error::new(ErrorKind::NotFound, text)
                .expected(format_args!("one of {}", known.join(", ")))
        })?;
        let mut arguments = vec![Value::opaque(self.machine.clone())];
        for name in &lowered.params {
            let value = options.params.get(name).ok_or_else(|| {
                let text = format!("program '{program}' has no value for {name}");
                Error::new(ErrorKind::InvalidArgument, text)
                    .help(format!("give --param '{name}=1'"))
            })?;
            arguments.push(Value::I32(*value));
        }
        let what = format!("program '{program}'");
        self.execute(&lowered.function, arguments, &options.control, &what)
    }

    /// Runs one graph, and the graphs that read its outputs, without a program: its inputs are popped from
    /// its queues.
    pub fn run_graph(&self, graph: &str, options: &ProgramOptions) -> Result<()> {
        let known = self
            .netlist()
            .graphs
            .iter()
            .any(|known| known.name.value == graph);
        if !known {
            let text = format!("there is no graph '{graph}'");
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        let arguments = vec![Value::opaque(self.machine.clone())];
        let what = format!("graph '{graph}'");
        self.execute(
            &format!("eager.{graph}"),
            arguments,
            &options.control,
            &what,
        )
    }

    fn execute(
        &self,
        function: &str,
        arguments: Vec<Value>,
        control: &Control,
        what: &str,
    ) -> Result<()> {
        let request = Request::with(&self.host, control.clone(), false);
        let function = self.program.handle(function)?;
        let run = || function.execute_sync(&request, arguments).map(drop);
        let begun = Instant::now();
        let done = match self.threads {
            Some(limit) => pool::with_thread_limit(limit.get(), run),
            None => run(),
        };
        self.times.ran(begun.elapsed());
        done.map_err(|error| match error.kind() {
            ErrorKind::DeadlineExceeded => {
                Error::new(error.kind(), format!("{what} did not end in time"))
                    .at(error.location().clone())
                    .help("give it more time, or smaller loop counts")
            }
            _ => error,
        })
    }

    /// The warnings of the runs so far: elements for which an op is not defined. One for each op.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    /// The number of executions of a graph, and their total time.
    pub(super) fn graph_time(&self, graph: &str) -> (u64, Duration) {
        self.times.graph(graph)
    }

    /// The total time of programs.
    pub(super) fn program_time(&self) -> Duration {
        self.times.programs()
    }

    /// The ops that have run, with their times.
    pub fn op_rows(&self) -> Vec<OpRow> {
        self.times.rows(self.netlist(), self.module())
    }
}

/// Converts an entry of the host to the format of its queue (netlist 5.6).
pub(super) fn stored(spec: &QueueSpec, entry: &Tensor) -> Result<TileTensor> {
    let entry = TileTensor::from_tensor(spec.tiles, spec.tile, entry);
    let entry = entry.map_err(|error| {
        let text = format!(
            "an entry does not have the shape of queue '{}': {}",
            spec.name,
            error.without_location()
        );
        Error::new(error.kind(), text)
    })?;
    round_to_format(&entry, spec.format)
}

/// A warning if ops have a lower math fidelity than HiFi4, which has no effect here: no specification
/// defines which bits of the operands a device ignores.
fn fidelity_warning(netlist: &Netlist) -> Option<String> {
    let ops = netlist.ops().map(|(_, op)| op);
    let is_less = |op: &&Op| op.math_fidelity.value != MathFidelity::HiFi4;
    let count = ops.filter(is_less).count();
    (count > 0).then(|| {
        format!(
            "math_fidelity has no effect: multiplications are exact in {} of less than HiFi4",
            Count(count, "op")
        )
    })
}

/// The host of a session: ops run concurrently on the threads of a dedicated queue, or one after the
/// other on the caller's thread.
fn host(
    threads: Option<NonZeroUsize>,
    concurrent: bool,
    times: Arc<OpTimes>,
    warnings: Warnings,
) -> Result<Host> {
    let threads = threads
        .or(NonZeroUsize::new(pool::threads()))
        .unwrap_or(NonZeroUsize::MIN);
    let selection = if concurrent && threads.get() > 1 {
        QueueSelection::MultiThreaded {
            threads,
            blocking_threads: NonZeroUsize::MIN,
        }
    } else {
        QueueSelection::SingleThreaded
    };
    let trace = Trace {
        sink: times,
        kernels: true,
    };
    let log = Log::new(move |_, text| lock(&warnings).push(text.to_string()));
    let host = Host::builder().queue(selection.start()?).trace(trace);
    Ok(host.log(log).build())
}
