//! A netlist with its queues, rams and variables: what programs run on.

use crate::feed::{Array, HostInputs};
use crate::ops::Fault as ElementFault;
use crate::replicas;
use crate::store::Store;
use crate::tensor::Tensor;
use crate::tm::LARGEST;
use crate::{epoch::Pending, format, program};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{Arch, Graph, Netlist, Op, Queue, QueueKind, temporal_graphs};

/// How a netlist is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The architecture; else the first that the netlist names.
    pub arch: Option<Arch>,
    /// Params by name, `$` included; others have the value that the netlist's arguments give them.
    pub params: Vec<(String, i64)>,
    /// The programs to run, in this order; all in the order of the file when empty.
    pub programs: Vec<String>,
    /// How often they are run.
    pub loops: u64,
    /// Whether inputs and outputs of ops are rounded where the original's golden model rounds them.
    pub rounds: bool,
    /// What a run may use.
    pub limits: RunLimits,
}

/// What a run may use before it is stopped.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// Instructions of programs, each round of a loop counted.
    pub instructions: u64,
    /// Elements of all entries that are kept as answers.
    pub elements: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arch: None,
            params: Vec::new(),
            programs: Vec::new(),
            loops: 1,
            rounds: true,
            limits: RunLimits {
                instructions: 1_000_000,
                elements: 1 << 31,
            },
        }
    }
}

/// A fault of an op's numbers: it is told once an op, and the run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The op.
    pub op: String,
    /// What happened, and where.
    pub fault: ElementFault,
    /// How many elements of all runs.
    pub count: u64,
}

/// What a run leaves.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// Every push of a queue that ops fill and none reads, or that the test-config lists; the
    /// slots of rams that ops fill.
    pub outputs: BTreeMap<String, Array>,
    /// Faults, op by op.
    pub faults: Vec<Fault>,
}

/// A machine while it runs.
pub struct Machine<'n> {
    pub(crate) netlist: &'n Netlist,
    pub(crate) arch: Arch,
    pub(crate) options: &'n Options,
    pub(crate) config: TestConfig,
    pub(crate) control: &'n Control,
    pub(crate) queues: HashMap<&'n str, &'n Queue>,
    pub(crate) graphs: HashMap<&'n str, &'n Graph>,
    pub(crate) ops: HashMap<&'n str, &'n Op>,
    /// The queues that an op fills.
    pub(crate) filled: HashMap<&'n str, Vec<&'n Queue>>,
    /// The graphs that are connected op to op with each graph: a temporal graph (facts 6.5).
    pub(crate) groups: HashMap<&'n str, Vec<&'n str>>,
    pub(crate) stores: HashMap<&'n str, Store>,
    /// What gradient ops have summed up.
    pub(crate) sums: HashMap<&'n str, Rc<Tensor>>,
    /// Variables that outlive a run of their program.
    pub(crate) statics: HashMap<&'n str, HashMap<String, i64>>,
    /// Executes that wait for those they run with.
    pub(crate) pending: Vec<Pending<'n>>,
    pub(crate) instructions: u64,
    kept: u64,
    faults: BTreeMap<String, (ElementFault, u64)>,
}

impl Machine<'_> {
    /// Runs a netlist that was read and checked without errors, on what the host has for it.
    ///
    /// # Errors
    /// When a queue is read where it is empty or written where it is full, shapes do not fit, a
    /// limit is reached, or `control` ends the run.
    pub fn run(
        netlist: &Netlist,
        feed: &HostInputs,
        options: &Options,
        control: &Control,
    ) -> Result<RunOutcome> {
        let expanded = replicas::expand(netlist);
        let mut machine = Machine::new(&expanded, options, control)?;
        machine.feed(feed)?;
        let programs: Vec<_> = match options.programs.is_empty() {
            true => expanded.programs.iter().collect(),
            false => options
                .programs
                .iter()
                .map(|name| {
                    let found = expanded
                        .programs
                        .iter()
                        .find(|program| program.name.value == *name);
                    found.ok_or_else(|| {
                        Error::new(ErrorKind::NotFound, format!("there is no program '{name}'"))
                    })
                })
                .collect::<Result<_>>()?,
        };
        for _ in 0..options.loops {
            for program in &programs {
                program::run(&mut machine, program)?;
            }
        }
        machine.answer()
    }
}

impl<'n> Machine<'n> {
    fn new(netlist: &'n Netlist, options: &'n Options, control: &'n Control) -> Result<Self> {
        let (config, _) = TestConfig::read(netlist);
        let first = netlist
            .arch
            .first()
            .map_or(Arch::Grayskull, |arch| arch.value);
        let ops: HashMap<&str, &Op> = netlist
            .ops()
            .map(|(_, op)| (op.name.value.as_str(), op))
            .collect();
        let mut filled: HashMap<&str, Vec<&Queue>> = HashMap::new();
        for queue in netlist.queues.iter().filter(|queue| !queue.is_host_fed()) {
            filled
                .entry(queue.input.value.as_str())
                .or_default()
                .push(queue);
        }
        let read: HashSet<&str> = netlist
            .ops()
            .flat_map(|(_, op)| &op.inputs)
            .map(|input| input.name.value.as_str())
            .collect();
        let mut stores = HashMap::new();
        for queue in &netlist.queues {
            sized(queue)?;
            let name = queue.name.value.as_str();
            let is_read = read.contains(name);
            let listed = config.is_output(name);
            let kept = !queue.is_host_fed() && (!is_read || listed);
            let store = Store::new(
                queue.kind.value,
                queue.entries.value as usize,
                is_read,
                kept,
            );
            stores.insert(name, store);
        }
        Ok(Self {
            netlist,
            arch: options.arch.unwrap_or(first),
            options,
            config,
            control,
            queues: netlist
                .queues
                .iter()
                .map(|queue| (queue.name.value.as_str(), queue))
                .collect(),
            graphs: netlist
                .graphs
                .iter()
                .map(|graph| (graph.name.value.as_str(), graph))
                .collect(),
            ops,
            filled,
            groups: groups(netlist),
            stores,
            sums: HashMap::new(),
            statics: HashMap::new(),
            pending: Vec::new(),
            instructions: 0,
            kept: 0,
            faults: BTreeMap::new(),
        })
    }

    /// Fills queues and rams; a queue on several devices takes the array of its own name, or that
    /// of the name without the device.
    fn feed(&mut self, feed: &HostInputs) -> Result<()> {
        for queue in &self.netlist.queues {
            let name = queue.name.value.as_str();
            let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
            let Some(array) = feed.get(name).or_else(|| feed.get(base)) else {
                continue;
            };
            if !queue.is_host_fed() && queue.kind.value == QueueKind::Queue {
                continue;
            }
            let (shape, tile) = (
                sized(queue)?,
                queue.blocking.tile().map(|size| size as usize),
            );
            let wanted = [shape[0], shape[1] * tile[0], shape[2] * tile[1]];
            let size: usize = wanted.iter().product();
            if array.shape[1..] != wanted || array.values.len() != array.shape[0] * size {
                let message = format!("the array for '{name}' has another shape than its entries");
                let error = Error::new(ErrorKind::InvalidArgument, message);
                return Err(error
                    .expected(format!("[n, {wanted:?}]"))
                    .found(format!("{:?}", array.shape)));
            }
            let entries = array.values.chunks_exact(size.max(1)).map(|values| {
                let tensor = Tensor::from_elements(values, shape, tile);
                Rc::new(match self.options.rounds {
                    true => format::rounded(tensor, queue.df.value),
                    false => tensor,
                })
            });
            let entries = entries.collect();
            if let Some(store) = self.stores.get_mut(name) {
                store.feed(entries);
            }
        }
        Ok(())
    }

    /// A tensor of zeros in the shape of a queue.
    pub(crate) fn zeros(&self, queue: &Queue) -> Result<Rc<Tensor>> {
        let [t, rows, columns] = sized(queue)?;
        Ok(Rc::new(Tensor::zeros(t, rows, columns)))
    }

    /// Takes note of the faults of one op.
    pub(crate) fn note(&mut self, op: &Op, faults: Vec<ElementFault>) {
        let count = faults.len() as u64;
        if let Some(first) = faults.into_iter().next() {
            let noted = self
                .faults
                .entry(op.name.value.clone())
                .or_insert((first, 0));
            noted.1 += count;
        }
    }

    /// Counts what is kept as an answer against its limit.
    pub(crate) fn keep(&mut self, elements: usize) -> Result<()> {
        self.kept += elements as u64;
        if self.kept > self.options.limits.elements {
            let message = "the outputs are more than this run may keep";
            let error = Error::new(ErrorKind::OutOfMemory, message);
            return Err(
                error.expected(format!("at most {} elements", self.options.limits.elements))
            );
        }
        Ok(())
    }

    fn answer(self) -> Result<RunOutcome> {
        let mut outputs = BTreeMap::new();
        for queue in self
            .netlist
            .queues
            .iter()
            .filter(|queue| !queue.is_host_fed())
        {
            let name = queue.name.value.as_str();
            let zeros = self.zeros(queue)?;
            let Some(entries) = self.stores.get(name).and_then(|store| store.answer(&zeros)) else {
                continue;
            };
            let tile = queue.blocking.tile().map(|size| size as usize);
            let shape = entries.first().unwrap_or(&zeros).shape();
            let values = entries
                .iter()
                .flat_map(|entry| entry.elements(tile))
                .collect();
            let shape = [
                entries.len(),
                shape[0],
                shape[1] * tile[0],
                shape[2] * tile[1],
            ];
            outputs.insert(name.to_owned(), Array { shape, values });
        }
        let faults = self.faults.into_iter();
        let faults = faults
            .map(|(op, (fault, count))| Fault { op, fault, count })
            .collect();
        Ok(RunOutcome { outputs, faults })
    }
}

/// Slices, rows and columns of tiles of a queue, when memory can hold an entry.
pub(crate) fn sized(queue: &Queue) -> Result<[usize; 3]> {
    let blocking = &queue.blocking;
    let sizes = [
        u64::from(blocking.t.value),
        blocking.rows(),
        blocking.columns(),
    ];
    let elements = sizes
        .iter()
        .try_fold(1024u64, |all, &size| all.checked_mul(size));
    match elements {
        Some(elements) if elements <= LARGEST as u64 => Ok(sizes.map(|size| size as usize)),
        _ => {
            let message = format!(
                "an entry of '{}' is too large to be run plainly",
                queue.name.value
            );
            Err(Error::new(ErrorKind::OutOfMemory, message).found(format!("{sizes:?} tiles")))
        }
    }
}

/// Each graph with those that run together with it, itself included.
fn groups(netlist: &Netlist) -> HashMap<&str, Vec<&str>> {
    let mut groups = HashMap::new();
    for group in temporal_graphs(netlist) {
        let names: Vec<&str> = group
            .iter()
            .map(|graph| graph.name.value.as_str())
            .collect();
        groups.extend(names.iter().map(|&member| (member, names.clone())));
    }
    groups
}
