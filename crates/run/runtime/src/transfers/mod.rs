//! The DMA transfers of a package's engines, listed and run on given variables (docs/dma.md), also
//! of packages whose engine programs cannot run.

mod memory;
mod package;
mod programs;

use memory::Filler;
pub use package::PackageTransfers;
pub use programs::EngineFunction;
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_dma::engine::{Core, Engine as CoreEngine, Machine, QueueKind, QueueSet, Race, Transfer};
use tenon_dma::{Access, Descriptor, VariableId};
use tenon_neff::{
    Constant, Definition, Engine, QueueSet as StoredSet, Trigger, Variable, VariableKind,
};

/// The transfers of a subgraph, from its members.
pub struct TransferCore<'a> {
    /// The name.
    pub name: &'a str,
    /// `def.json`.
    pub definition: &'a Definition,
    /// Engines by name, with their JSON.
    pub engines: Vec<(&'a str, &'a Engine)>,
    /// The data of variables of type `file`, by `file_name`.
    pub constants: HashMap<String, Constant>,
    /// Functions that engines run instead of their lists; only in Tenon's packages.
    pub programs: Vec<EngineFunction>,
    /// Whether a `pointer` is a view of its variable, as in Tenon's packages.
    pub pointers_are_views: bool,
}

/// A descriptor and its static context.
#[derive(Debug, Clone, PartialEq)]
pub struct DescriptorRow {
    /// The subgraph.
    pub core: String,
    /// The engine.
    pub engine: String,
    /// The position of its transfer in the engine's list.
    pub transfer: usize,
    /// The position in the transfer.
    pub position: usize,
    /// The transfer's id.
    pub id: u32,
    /// The queue set or instance.
    pub queue: String,
    /// The function that the transfer starts.
    pub function_start: Option<String>,
    /// The event that the completed transfer sets.
    pub event: Option<u64>,
    /// The semaphore that the completed transfer increments.
    pub semaphore: Option<u64>,
    /// The semaphores that it increments on the other core.
    pub remote_semaphores: Vec<u64>,
    /// The movement.
    pub descriptor: Descriptor,
    /// The names of the source variables.
    pub from: Vec<String>,
    /// The name of the target variable.
    pub to: String,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct TransferOutcome {
    /// For each core the variables with memory, by name.
    pub variables: Vec<BTreeMap<String, Vec<u8>>>,
    /// For each core the semaphores that were used.
    pub semaphores: Vec<Vec<(u64, u32)>>,
    /// For each core the events that are set.
    pub events: Vec<Vec<u64>>,
    /// Data races: pairs of unordered descriptors.
    pub races: Vec<Race>,
}

/// All descriptors of the cores, in the order of their lists; all problems together.
pub fn descriptor_rows(cores: &[TransferCore<'_>]) -> Result<Vec<DescriptorRow>> {
    let mut problems = Vec::new();
    let mut rows = Vec::new();
    for core in cores {
        let names: HashMap<u32, &str> = core
            .definition
            .var
            .iter()
            .map(|(name, variable)| (variable.var_id, name))
            .collect();
        let ids = ids(core);
        let named = |access: &Access| names.get(&access.variable.0).copied().unwrap_or_default();
        for (engine, stored) in &core.engines {
            for (index, trigger) in stored.dma.iter().enumerate() {
                let place = (core.name, *engine, index);
                let transfer = transfer(place, trigger, &ids, &mut problems);
                for (position, descriptor) in transfer.descriptors.into_iter().enumerate() {
                    rows.push(DescriptorRow {
                        core: core.name.to_owned(),
                        engine: (*engine).to_owned(),
                        transfer: index,
                        position,
                        id: transfer.id,
                        queue: transfer
                            .instance
                            .clone()
                            .or(transfer.queue.clone())
                            .unwrap_or_default(),
                        function_start: transfer.function_start.clone(),
                        event: transfer.event,
                        semaphore: transfer.semaphore,
                        remote_semaphores: transfer.remote_semaphores.clone(),
                        from: descriptor
                            .from
                            .iter()
                            .map(|from| named(from).to_owned())
                            .collect(),
                        to: named(&descriptor.to).to_owned(),
                        descriptor,
                    });
                }
            }
        }
    }
    Error::from_all(problems).map_or(Ok(rows), Err)
}

/// Runs the programs of `engines` (all engines if empty) concurrently; if no core has programs,
/// runs their transfers once, in the order of their lists.
///
/// `given` has the bytes of variables by name, or by `CORE/NAME` for one core, with the size of the
/// variable. Other constants have their data, all other variables are zero. `lnc` cores run
/// concurrently, then the next `lnc` (docs/dma.md, "Cores").
pub fn run_transfers(
    cores: &[TransferCore<'_>],
    lnc: usize,
    given: &BTreeMap<String, Vec<u8>>,
    engines: &[&str],
    control: &Control,
) -> Result<TransferOutcome> {
    unknown_names(cores, given, engines)?;
    let mut outcome = TransferOutcome::default();
    let mut shared = BTreeMap::new();
    for together in cores.chunks(lnc.max(1)) {
        let machine = machine(together, given, &shared)?;
        programs::run(machine, together, engines, control, |machine| {
            for (number, core) in together.iter().enumerate() {
                let variables = variables(machine, number, core);
                for (name, variable) in core.definition.var.iter() {
                    if let (true, Some(bytes)) = (is_port(variable), variables.get(name)) {
                        shared.insert(name.to_owned(), bytes.clone());
                    }
                }
                outcome.variables.push(variables);
                let semaphores = machine.semaphores(number).collect();
                outcome.semaphores.push(semaphores);
                outcome.events.push(machine.events(number).collect());
            }
            outcome.races.extend_from_slice(machine.races());
        })?;
    }
    Ok(outcome)
}

/// The machine of cores that run concurrently, with initialised variables.
fn machine(
    cores: &[TransferCore<'_>],
    given: &BTreeMap<String, Vec<u8>>,
    shared: &BTreeMap<String, Vec<u8>>,
) -> Result<Machine> {
    let mut problems = Vec::new();
    let mut filler = Filler::new(given, shared);
    let mut made = Vec::new();
    for core in cores {
        let ids = ids(core);
        let mut engines = Vec::new();
        for (name, stored) in &core.engines {
            let transfers = stored.dma.iter().enumerate().map(|(index, trigger)| {
                transfer((core.name, name, index), trigger, &ids, &mut problems)
            });
            engines.push(CoreEngine {
                name: (*name).to_owned(),
                transfers: transfers.collect(),
            });
        }
        let variables = filler.variables(core, &engines, &mut problems);
        made.push(Core {
            name: core.name.to_owned(),
            variables,
            queue_sets: core
                .definition
                .dma_queue
                .iter()
                .map(|(name, set)| queue_set(name, set))
                .collect(),
            engines,
        });
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    Machine::new(filler.bank, made)
}

/// Reports names that are no variable or engine of any core.
fn unknown_names(
    cores: &[TransferCore<'_>],
    given: &BTreeMap<String, Vec<u8>>,
    engines: &[&str],
) -> Result<()> {
    let is_variable = |name: &str| {
        cores.iter().any(|core| {
            let own = name
                .strip_prefix(core.name)
                .and_then(|rest| rest.strip_prefix('/'));
            let find = |name: &str| core.definition.var.find(name).is_some();
            find(name) || own.is_some_and(find)
        })
    };
    let is_engine = |name: &str| {
        let mut all = cores.iter().flat_map(|core| &core.engines);
        all.any(|(engine, _)| *engine == name)
    };
    let error = |what: &str, name: &str| {
        let text = format!("no core has {what} of this name");
        Error::new(ErrorKind::NotFound, text).found(format_args!("'{name}'"))
    };
    let variables = given.keys().filter(|name| !is_variable(name));
    let variables = variables.map(|name| error("a variable", name));
    let engines = engines.iter().filter(|name| !is_engine(name));
    let engines = engines.map(|name| error("an engine", name));
    Error::from_all(variables.chain(engines)).map_or(Ok(()), Err)
}

/// The variables of a core by name.
fn ids<'a>(core: &TransferCore<'a>) -> HashMap<&'a str, VariableId> {
    let variables = core.definition.var.iter();
    variables
        .map(|(name, variable)| (name, VariableId(variable.var_id)))
        .collect()
}

/// Converts a transfer for the machine; descriptors that cannot be parsed are omitted and reported
/// at their core, engine and position.
fn transfer(
    (core, engine, index): (&str, &str, usize),
    trigger: &Trigger,
    ids: &HashMap<&str, VariableId>,
    problems: &mut Vec<Error>,
) -> Transfer {
    let text = |name: Option<&str>| name.map(str::to_owned);
    let variable = |name: &str| ids.get(name).copied();
    let mut descriptors = Vec::with_capacity(trigger.desc.len());
    for (number, stored) in trigger.desc.iter().enumerate() {
        match stored.parse(variable) {
            Ok(descriptor) => descriptors.push(descriptor),
            Err(error) => {
                let place = format!("{core}: engine {engine}: dma[{index}].desc[{number}]");
                problems.push(error.at(Location::member(place)));
            }
        }
    }
    Transfer {
        id: trigger.id,
        queue: text(trigger.queue.as_deref()),
        instance: text(trigger.instance_name.as_deref()),
        function_start: text(trigger.function_start.as_deref()),
        section_start: trigger.section_start_desc.unwrap_or(false),
        event: trigger.event,
        semaphore: trigger.semaphore,
        remote_semaphores: trigger.remote_semaphores.clone().unwrap_or_default(),
        descriptors,
    }
}

fn queue_set(name: &str, stored: &StoredSet) -> QueueSet {
    let single = stored.semaphore.into_iter().collect();
    let kind = match &*stored.kind {
        kind @ ("dynamic" | "embedding_update") => QueueKind::Dynamic(kind.to_owned()),
        _ => QueueKind::Static,
    };
    let instances = stored.queue_instances.iter().flatten();
    QueueSet {
        kind,
        instances: instances.map(|name| name.to_string()).collect(),
        semaphores: stored.semaphore_set.clone().unwrap_or(single),
        owner: stored.owner.as_ref().map(|name| name.to_string()),
        is_pinned: stored.pinned.unwrap_or(false),
        ..QueueSet::new(
            name,
            u32::try_from(stored.num_queues.unwrap_or(1)).unwrap_or(u32::MAX),
        )
    }
}

/// Whether the variable has the same memory on all cores that name it.
fn is_port(variable: &Variable) -> bool {
    use VariableKind::{File, Input, Output};
    matches!(variable.kind, Input | Output | File)
}

fn variables(
    machine: &Machine,
    number: usize,
    core: &TransferCore<'_>,
) -> BTreeMap<String, Vec<u8>> {
    let named = core.definition.var.iter().filter_map(|(name, variable)| {
        let bytes = machine.bytes(number, VariableId(variable.var_id))?;
        Some((name.to_owned(), bytes.to_vec()))
    });
    named.collect()
}

#[cfg(test)]
mod tests;
