//! Running a [`Job`]: arrays are fed to host queues, outputs collected (netlist 6.7).

use super::session::{Session, stored};
use super::{Job, ProgramOptions};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::testing::{TestConfig, generate_entry};
use tenon_netlist::{Instruction, Netlist, Queue, QueueKind, Source};
use tenon_netlist_kernels::QueueSpec;
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, convert};

/// Bytes of generated entries of one queue that are kept for repetition.
const KEPT_BYTES: usize = 64 << 20;
/// Queue names listed in an error.
const SHOWN: usize = 16;
/// The most entries that are generated for a queue before they repeat.
const MOST_ENTRIES: u64 = 16;

/// The result of a job.
pub struct JobOutcome {
    /// Arrays `[n, t, rows, columns]` by queue: every entry that was pushed to a queue that no op
    /// reads, the last contents of rams.
    pub outputs: BTreeMap<String, Tensor>,
    /// The session, with the times of its ops.
    pub session: Session,
    /// The number of entries read from each host queue.
    pub(super) taken: BTreeMap<String, u64>,
    /// The generators of queues without an array.
    generated: BTreeMap<String, Arc<GeneratedEntries>>,
    /// The outputs that no op reads.
    pub(super) drained: HashSet<String>,
}

/// The default parameters of a netlist's programs: from `test-args`, else derived from their names.
pub fn default_params(netlist: &Netlist) -> BTreeMap<String, i32> {
    let (config, _) = TestConfig::read(netlist);
    let instructions = netlist
        .programs
        .iter()
        .flat_map(|program| &program.instructions);
    let params = instructions.filter_map(|instruction| match &instruction.value {
        Instruction::Param(names) => Some(names),
        _ => None,
    });
    let value = |name: &str| i32::try_from(config.param(netlist, name)).unwrap_or(i32::MAX);
    let named = params
        .flatten()
        .map(|name| (name.value.clone(), value(&name.value)));
    named.collect()
}

impl Job {
    /// Reads, checks and runs a netlist.
    ///
    /// # Errors
    /// Every violated rule of the netlist, with its line; unknown programs, parameters and queues;
    /// arrays of another shape than their queue.
    pub fn run(&self, source: &Source) -> Result<JobOutcome> {
        let session = Session::load(source, &self.session)?;
        let (config, _) = TestConfig::read(session.netlist());
        let outputs = Outputs::of(session.netlist(), &config);
        let feeds = feed(&session, self, &config)?;
        for name in &outputs.queues {
            session.collect(name, outputs.drained.contains(name))?;
        }
        let mut params = default_params(session.netlist());
        for (name, value) in &self.params {
            if params.insert(name.clone(), *value).is_none() {
                let text = format!("no program has a parameter '{name}'");
                let error = Error::new(ErrorKind::Usage, text);
                params.remove(name);
                let known: Vec<&str> = params.keys().map(String::as_str).collect();
                return Err(if known.is_empty() {
                    error.expected("none: the programs take no parameters")
                } else {
                    error.expected(format_args!("one of {}", known.join(", ")))
                });
            }
        }
        let programs = self.programs_of(&session);
        let options = ProgramOptions::new()
            .params(params)
            .control(self.control.clone());
        let total = u64::from(self.loops.max(1)) * programs.len() as u64;
        let all = (0..self.loops.max(1)).flat_map(|_| &programs);
        for (done, program) in (0..).zip(all) {
            self.control
                .progress(&format!("run '{program}'"), done, total)?;
            session.run(program, &options)?;
        }
        self.control.progress("run", total, total)?;
        let mut arrays = BTreeMap::new();
        for name in &outputs.queues {
            let entries = session.collected(name)?;
            arrays.insert(
                name.clone(),
                array(&session, name, &entries, self.readback)?,
            );
        }
        for name in &outputs.rams {
            let slots = session.queue(name)?.entries;
            let entries: Result<Vec<Tensor>> = (0..slots)
                .filter_map(|slot| session.slot(name, slot).transpose())
                .collect();
            arrays.insert(
                name.clone(),
                array(&session, name, &entries?, self.readback)?,
            );
        }
        let taken = feeds
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Ok(JobOutcome {
            generated: feeds.generated,
            outputs: arrays,
            session,
            taken,
            drained: outputs.drained,
        })
    }

    /// The programs to run, in order.
    pub(super) fn programs_of(&self, session: &Session) -> Vec<String> {
        if self.programs.is_empty() {
            let all = session.programs().iter();
            all.map(|program| program.name.clone()).collect()
        } else {
            self.programs.clone()
        }
    }
}

/// The names of the outputs.
struct Outputs {
    queues: Vec<String>,
    /// The queues that no op reads.
    drained: HashSet<String>,
    /// The rams that ops fill.
    rams: Vec<String>,
}

impl Outputs {
    fn of(netlist: &Netlist, config: &TestConfig) -> Self {
        let inputs = netlist.ops().flat_map(|(_, op)| &op.inputs);
        let read: HashSet<&str> = inputs.map(|input| &*input.name.value).collect();
        let by_ops = || netlist.queues.iter().filter(|queue| !queue.is_host_fed());
        let is_queue = |queue: &&Queue| queue.kind.value == QueueKind::Queue;
        let name = |queue: &Queue| queue.name.value.clone();
        let unread = |queue: &Queue| !read.contains(&*queue.name.value);
        let listed = |queue: &Queue| config.is_output(&queue.name.value);
        Self {
            queues: by_ops()
                .filter(is_queue)
                .filter(|queue| unread(queue) || listed(queue))
                .map(name)
                .collect(),
            drained: by_ops()
                .filter(is_queue)
                .filter(|queue| unread(queue))
                .map(name)
                .collect(),
            rams: by_ops()
                .filter(|queue| !is_queue(queue))
                .map(name)
                .collect(),
        }
    }
}

impl JobOutcome {
    /// The initial contents of a slot of a ram without an array.
    pub(super) fn first(&self, ram: &str, slot: u64) -> Result<Tensor> {
        match self.generated.get(ram) {
            Some(generated) => generated.entry(slot),
            None => Tensor::zeroed(self.session.entry_type(ram)?),
        }
    }
}

/// The arrays and generators of host queues.
#[derive(Default)]
struct Feeds {
    /// The number of entries read, by queue.
    taken: Arc<Mutex<BTreeMap<String, u64>>>,
    generated: BTreeMap<String, Arc<GeneratedEntries>>,
}

/// Sets the source of entries of every host queue, and the initial contents of rams.
fn feed(session: &Session, job: &Job, config: &TestConfig) -> Result<Feeds> {
    let mut feeds = Feeds::default();
    let generator = Arc::new(EntryGenerator {
        netlist: session.netlist().clone(),
        config: config.clone(),
        seed: job.seed,
    });
    let queues: HashMap<&str, &Queue> = session
        .netlist()
        .queues
        .iter()
        .map(|queue| (&*queue.name.value, queue))
        .collect();
    // An array of the base name is used on each device without a separate array.
    let base = |queue: &str| {
        let (base, _) = queue.rsplit_once('.')?;
        (!queues.contains_key(base)).then_some(base.to_owned())
    };
    let bases: HashSet<String> = queues.keys().filter_map(|name| base(name)).collect();
    let is_known = |name: &str| queues.contains_key(name) || bases.contains(name);
    if let Some(unknown) = job.inputs.keys().find(|name| !is_known(name)) {
        let text = format!("the netlist has no queue '{unknown}'");
        let takes = |queue: &&&Queue| queue.is_host_fed() || queue.kind.value == QueueKind::Ram;
        let mut names: Vec<&str> = queues
            .values()
            .filter(takes)
            .map(|queue| &*queue.name.value)
            .collect();
        names.sort_unstable();
        let more = if names.len() > SHOWN { ", .." } else { "" };
        names.truncate(SHOWN);
        return Err(Error::new(ErrorKind::InvalidArgument, text)
            .expected(format_args!("one of {}{more}", names.join(", "))));
    }
    for queue in queues.values() {
        let name = &queue.name.value;
        let (counts, counted) = (feeds.taken.clone(), name.clone());
        let count = move |number: u64| {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let highest = counts.entry(counted.clone()).or_insert(0);
            *highest = (*highest).max(number + 1);
        };
        let spec = session.queue(name)?.clone();
        let is_ram = queue.kind.value == QueueKind::Ram;
        let given_to = |name: String| job.inputs.get(&name);
        match job.inputs.get(name).or_else(|| given_to(base(name)?)) {
            Some(_) if !queue.is_host_fed() && !is_ram => {
                let text = format!("'{name}' is filled by op '{}'", queue.input.value);
                return Err(Error::new(ErrorKind::InvalidArgument, text)
                    .help("give arrays for queues that the host fills, and for rams"));
            }
            Some(array) => {
                let given = ArrayEntries::new(spec, entries(session, name, array)?);
                session.feed_stored(name, move |number| {
                    count(number);
                    given.entry(number)
                })?;
            }
            None if queue.is_host_fed() || (is_ram && job.init_rams) => {
                let ty = session.entry_type(name)?;
                let queue = (*queue).clone();
                let generated = Arc::new(GeneratedEntries::new(generator.clone(), queue, spec, ty));
                feeds.generated.insert(name.clone(), generated.clone());
                session.feed_stored(name, move |number| {
                    count(number);
                    generated.entry(number)
                })?;
            }
            None => {}
        }
    }
    Ok(feeds)
}

/// The entries of an array, converted to the format of the queue at first use.
struct ArrayEntries {
    spec: QueueSpec,
    entries: Vec<Tensor>,
    stored: Vec<OnceLock<Tensor>>,
}

impl ArrayEntries {
    fn new(spec: QueueSpec, entries: Vec<Tensor>) -> Self {
        Self {
            spec,
            stored: entries.iter().map(|_| OnceLock::new()).collect(),
            entries,
        }
    }

    /// Queues repeat the entries; slots of a ram beyond the array are zeros.
    fn entry(&self, number: u64) -> Result<Tensor> {
        let count = self.entries.len() as u64;
        if self.spec.is_ram && number >= count {
            return Tensor::zeroed(self.entries[0].ty().clone());
        }
        let index = (number % count) as usize;
        if let Some(known) = self.stored[index].get() {
            return Ok(known.clone());
        }
        let stored = stored(&self.spec, &self.entries[index])?.data().clone();
        Ok(self.stored[index].get_or_init(|| stored).clone())
    }
}

/// Generates entries by the netlist's stimulus.
struct EntryGenerator {
    netlist: Netlist,
    config: TestConfig,
    seed: u64,
}

/// Entries that are generated at first use, in the format of their queue.
struct GeneratedEntries {
    generator: Arc<EntryGenerator>,
    queue: Queue,
    spec: QueueSpec,
    /// The period after which entries repeat.
    count: u64,
    ty: TensorType,
    made: Mutex<HashMap<u64, Tensor>>,
}

impl GeneratedEntries {
    fn new(generator: Arc<EntryGenerator>, queue: Queue, spec: QueueSpec, ty: TensorType) -> Self {
        let fit = (KEPT_BYTES / ty.bytes().max(1)).max(1) as u64;
        let entries = u64::from(queue.entries.value);
        Self {
            generator,
            count: match queue.kind.value {
                QueueKind::Ram => entries,
                QueueKind::Queue => entries.min(fit).min(MOST_ENTRIES),
            },
            queue,
            spec,
            ty,
            made: Mutex::default(),
        }
    }

    fn entry(&self, number: u64) -> Result<Tensor> {
        let number = number % self.count;
        let made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made().get(&number) {
            return Ok(known.clone());
        }
        let EntryGenerator {
            netlist,
            config,
            seed,
        } = &*self.generator;
        let stimulus = config.stimulus(&self.queue.name.value);
        let values = generate_entry(netlist, &self.queue, stimulus, *seed, number);
        let values = values.ok_or_else(|| {
            let text = format!(
                "an entry of '{}' does not fit in memory",
                self.queue.name.value
            );
            Error::new(ErrorKind::OutOfMemory, text)
        })?;
        let new = Tensor::from_slice(self.ty.shape().clone(), &values)?;
        let new = stored(&self.spec, &new)?.data().clone();
        made().insert(number, new.clone());
        Ok(new)
    }
}

/// The entries of an array `[n, t, rows, columns]`.
pub(super) fn entries(session: &Session, queue: &str, array: &Tensor) -> Result<Vec<Tensor>> {
    let entry = session.entry_type(queue)?;
    let sizes: Vec<String> = entry.shape().iter().map(usize::to_string).collect();
    let sizes = sizes.join(", ");
    let wrong = || {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("the array does not have the shape of queue '{queue}'"),
        )
        .expected(format_args!("an array [n, {sizes}], n at least 1"))
        .found(array.ty())
    };
    let [n, rest @ ..] = &array.shape()[..] else {
        return Err(wrong());
    };
    if *n == 0 || rest != &entry.shape()[..] {
        return Err(wrong());
    }
    // Raw formats are bits, which an array of integers has already (netlist 5.5).
    let raw = session.queue(queue)?.format.is_raw();
    let values = match (array.dtype(), raw) {
        (DataType::F32, _) => array.clone(),
        (dtype, true) if !dtype.is_float() => bits(array)?,
        _ => convert(array, DataType::F32).map_err(|_| wrong())?,
    };
    let size = entry.bytes();
    let part = |index: usize| {
        let bytes = values.buffer().slice(index * size..(index + 1) * size);
        Tensor::new(entry.clone(), bytes.ok_or_else(wrong)?)
    };
    (0..*n).map(part).collect()
}

/// Reinterprets integers as the bits of f32.
fn bits(array: &Tensor) -> Result<Tensor> {
    let integers = array.to_i64s().unwrap_or_default();
    let values: Vec<f32> = integers
        .iter()
        .map(|&value| f32::from_bits(value as u32))
        .collect();
    Tensor::from_slice(array.shape().clone(), &values)
}

/// Entries one after the other as an array.
fn array(session: &Session, queue: &str, entries: &[Tensor], readback: bool) -> Result<Tensor> {
    let declared = session.entry_type(queue)?;
    let entry = entries.first().map_or(&declared, |entry| entry.ty());
    let mut shape = vec![entries.len()];
    shape.extend_from_slice(entry.shape());
    let ty = TensorType::new(DataType::F32, shape)?;
    let mut all = BufferMut::zeroed(ty.bytes())?;
    for (to, from) in all.chunks_exact_mut(entry.bytes().max(1)).zip(entries) {
        if from.ty() != entry {
            let text = format!("'{queue}' holds entries of different shapes");
            return Err(Error::new(ErrorKind::ExecutionFailed, text));
        }
        if readback {
            to.copy_from_slice(session.stored(queue, from)?.bytes());
        } else {
            to.copy_from_slice(from.bytes());
        }
    }
    Tensor::new(ty, all.freeze())
}
