//! The machine: the queues, rams and variables of a netlist, on which programs run.

use crate::error::of_queue;
use crate::host_inputs::{Array, HostInputs};
use crate::ops::{Fault as ElementFault, Faults};
use crate::replicas;
use crate::store::Store;
use crate::tensor::{MAX_ELEMENTS, TILE, Tensor, with_capacity};
use crate::{epoch::QueuedExecute, format, program};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use tenon_base::{Control, Error, ErrorKind, Result, bounded};
use tenon_netlist::testing::TestConfig;
use tenon_netlist::{Arch, Graph, Netlist, Op, Queue, QueueKind, temporal_graphs};

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The architecture; default: the first one of the netlist.
    pub arch: Option<Arch>,
    /// Params by name, with `$`; others have the default values of the netlist.
    pub params: Vec<(String, i64)>,
    /// The programs to run, in this order; if empty, all programs in the order of the file.
    pub programs: Vec<String>,
    /// Number of repetitions.
    pub loops: u64,
    /// Whether inputs and outputs of ops are rounded as in the golden model of the original.
    pub rounds: bool,
    /// The limits of the run.
    pub limits: RunLimits,
}

/// Limits after which a run is aborted.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// Number of executed instructions.
    pub instructions: u64,
    /// Number of elements of all outputs.
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

/// A numerical fault of an op, such as the square root of a negative value: reported once per op; the
/// run continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The op.
    pub op: String,
    /// The first fault.
    pub fault: ElementFault,
    /// Number of elements with faults over all runs.
    pub count: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// All entries pushed to queues that ops write and no op reads, or that the test-config lists; the
    /// slots of rams that ops write.
    pub outputs: BTreeMap<String, Array>,
    /// Faults by op.
    pub faults: Vec<Fault>,
}

/// The state of a run.
pub struct Machine<'n> {
    pub(crate) netlist: &'n Netlist,
    pub(crate) arch: Arch,
    pub(crate) options: &'n Options,
    pub(crate) config: TestConfig,
    pub(crate) control: &'n Control,
    pub(crate) queues: HashMap<&'n str, &'n Queue>,
    pub(crate) graphs: HashMap<&'n str, &'n Graph>,
    pub(crate) ops: HashMap<&'n str, &'n Op>,
    /// The queues that an op writes.
    pub(crate) outputs: HashMap<&'n str, Vec<&'n Queue>>,
    /// The temporal graph of each graph: the graphs that are connected op to op (netlist 6.5).
    pub(crate) groups: HashMap<&'n str, Vec<&'n str>>,
    pub(crate) stores: HashMap<&'n str, Store>,
    /// The accumulated sums of gradient ops.
    pub(crate) sums: HashMap<&'n str, Rc<Tensor>>,
    /// Static variables by program.
    pub(crate) statics: HashMap<&'n str, HashMap<String, i64>>,
    /// Executes that are queued to run concurrently.
    pub(crate) pending: Vec<QueuedExecute<'n>>,
    pub(crate) instructions: u64,
    output_elements: u64,
    faults: BTreeMap<String, (ElementFault, u64)>,
}

impl Machine<'_> {
    /// Runs a netlist that was parsed and checked without errors on the inputs of the host.
    ///
    /// # Errors
    /// When an empty queue is read or a full queue is written, shapes do not match, memory or a limit
    /// is exhausted, or `control` ends the run.
    pub fn run(
        netlist: &Netlist,
        inputs: &HostInputs,
        options: &Options,
        control: &Control,
    ) -> Result<RunOutcome> {
        let expanded = replicas::expand(netlist);
        let mut machine = Machine::new(&expanded, options, control)?;
        machine.write_inputs(inputs)?;
        let find = |name: &String| {
            let mut programs = expanded.programs.iter();
            let found = programs.find(|program| program.name.value == *name);
            found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("there is no program '{name}'"))
            })
        };
        let programs: Vec<_> = if options.programs.is_empty() {
            expanded.programs.iter().collect()
        } else {
            options.programs.iter().map(find).collect::<Result<_>>()?
        };
        for _ in 0..options.loops {
            for program in &programs {
                program::run(&mut machine, program)?;
            }
        }
        machine.into_outcome()
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
        let mut outputs: HashMap<&str, Vec<&Queue>> = HashMap::new();
        for queue in netlist.queues.iter().filter(|queue| !queue.is_host_fed()) {
            outputs
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
            entry_shape(queue)?;
            let name = queue.name.value.as_str();
            let is_read = read.contains(name);
            let is_output = !queue.is_host_fed() && (!is_read || config.is_output(name));
            let entries = queue.entries.value as usize;
            let store = Store::new(queue.kind.value, entries, is_read, is_output);
            stores.insert(name, store.map_err(|error| of_queue(name, error))?);
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
            outputs,
            groups: groups(netlist),
            stores,
            sums: HashMap::new(),
            statics: HashMap::new(),
            pending: Vec::new(),
            instructions: 0,
            output_elements: 0,
            faults: BTreeMap::new(),
        })
    }

    /// Writes the inputs to queues and rams; a replica on a device takes the array of its name, else
    /// of the name without the device.
    fn write_inputs(&mut self, inputs: &HostInputs) -> Result<()> {
        for queue in &self.netlist.queues {
            let name = queue.name.value.as_str();
            let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
            let Some(array) = inputs.get(name).or_else(|| inputs.get(base)) else {
                continue;
            };
            if !queue.is_host_fed() && queue.kind.value == QueueKind::Queue {
                continue;
            }
            let (shape, tile) = (
                entry_shape(queue)?,
                queue.blocking.tile().map(|size| size as usize),
            );
            let expected = [shape[0], shape[1] * tile[0], shape[2] * tile[1]];
            let size: usize = expected.iter().product();
            if array.shape[1..] != expected || array.values.len() != array.shape[0] * size {
                let message =
                    format!("the shape of the array for '{name}' is not that of its entries");
                let error = Error::new(ErrorKind::InvalidArgument, message);
                return Err(error
                    .expected(format!("[n, {expected:?}]"))
                    .found(format!("{:?}", array.shape)));
            }
            let entries = self
                .load_entries(queue, array, (shape, tile))
                .map_err(|error| of_queue(name, error))?;
            if let Some(store) = self.stores.get_mut(name) {
                store.set_source(entries);
            }
        }
        Ok(())
    }

    /// The entries of an array as tensors, rounded to the format of the queue.
    fn load_entries(
        &self,
        queue: &Queue,
        array: &Array,
        (shape, tile): ([usize; 3], [usize; 2]),
    ) -> Result<Vec<Rc<Tensor>>> {
        let size = shape[0] * shape[1] * tile[0] * shape[2] * tile[1];
        let mut entries = with_capacity("list of entries", array.shape[0])?;
        for values in array.values.chunks_exact(size.max(1)) {
            let tensor = Tensor::from_elements(values, shape, tile)?;
            entries.push(Rc::new(if self.options.rounds {
                format::round(tensor, queue.df.value)
            } else {
                tensor
            }));
        }
        Ok(entries)
    }

    /// A tensor of zeros in the shape of a queue.
    pub(crate) fn zeros(&self, queue: &Queue) -> Result<Rc<Tensor>> {
        let [t, rows, columns] = entry_shape(queue)?;
        let zeros = Tensor::zeros(t, rows, columns);
        Ok(Rc::new(
            zeros.map_err(|error| of_queue(&queue.name.value, error))?,
        ))
    }

    /// Records the faults of one op.
    pub(crate) fn record_faults(&mut self, op: &Op, faults: Faults) {
        if let Some(first) = faults.first {
            let recorded = self
                .faults
                .entry(op.name.value.clone())
                .or_insert((first, 0));
            recorded.1 += faults.count;
        }
    }

    /// Counts elements of outputs against the limit.
    pub(crate) fn count_output(&mut self, elements: usize) -> Result<()> {
        self.output_elements += elements as u64;
        if self.output_elements > self.options.limits.elements {
            let message = "the outputs exceed the limit of the run";
            let error = Error::new(ErrorKind::OutOfMemory, message);
            return Err(
                error.expected(format!("at most {} elements", self.options.limits.elements))
            );
        }
        Ok(())
    }

    fn into_outcome(self) -> Result<RunOutcome> {
        let mut outputs = BTreeMap::new();
        for queue in self
            .netlist
            .queues
            .iter()
            .filter(|queue| !queue.is_host_fed())
        {
            let name = queue.name.value.as_str();
            let array = self.output(queue).map_err(|error| of_queue(name, error))?;
            outputs.extend(array.map(|array| (name.to_owned(), array)));
        }
        let faults = self.faults.into_iter();
        let faults = faults
            .map(|(op, (fault, count))| Fault { op, fault, count })
            .collect();
        Ok(RunOutcome { outputs, faults })
    }

    /// The entries of an output queue or ram; `None` for other queues.
    fn output(&self, queue: &Queue) -> Result<Option<Array>> {
        let zeros = self.zeros(queue)?;
        let store = self.stores.get(queue.name.value.as_str());
        let Some(entries) = store
            .map(|store| store.output(&zeros))
            .transpose()?
            .flatten()
        else {
            return Ok(None);
        };
        let tile = queue.blocking.tile().map(|size| size as usize);
        let [t, rows, columns] = entries.first().unwrap_or(&zeros).shape();
        let shape = [entries.len(), t, rows * tile[0], columns * tile[1]];
        let count = shape
            .iter()
            .fold(1, |all: usize, &size| all.saturating_mul(size));
        let what = format_args!("output {shape:?}");
        let mut values = bounded::with_capacity_within(what, count, usize::MAX)?;
        for entry in &entries {
            entry.append_elements(tile, &mut values);
        }
        Ok(Some(Array { shape, values }))
    }
}

/// Slices, rows and columns of tiles of an entry.
///
/// # Errors
/// When an entry exceeds the maximum size of a tensor.
pub(crate) fn entry_shape(queue: &Queue) -> Result<[usize; 3]> {
    let blocking = &queue.blocking;
    let sizes = [
        u64::from(blocking.t.value),
        blocking.rows(),
        blocking.columns(),
    ];
    let elements = sizes
        .iter()
        .fold((TILE * TILE) as u64, |all, &size| all.saturating_mul(size));
    if elements > MAX_ELEMENTS as u64 {
        let message = format!(
            "an entry of '{}' is too large for the reference implementation",
            queue.name.value
        );
        return Err(Error::new(ErrorKind::OutOfMemory, message)
            .expected(format!("at most {MAX_ELEMENTS} elements"))
            .found(format!("{sizes:?} tiles")));
    }
    Ok(sizes.map(|size| size as usize))
}

/// The temporal graph of each graph, itself included.
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
