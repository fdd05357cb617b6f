//! Binding of all descriptors, done once: the queue, the memory and the triggers of each.

use super::bank::{Move, RegionSet};
use super::{Core, Engine, MAX_QUEUES, QueueKind, QueueSet, Transfer, Variable};
use crate::VariableId;
use std::collections::{BTreeMap, HashMap};
use tenon_base::{Error, ErrorKind, Location, Result};

/// All cores with their transfers bound.
pub(crate) struct Layout {
    pub sets: Vec<QueueSetLayout>,
    pub transfers: Vec<TransferBinding>,
    pub groups: HashMap<TriggerKey, TriggerGroup>,
    /// Number of queues of all sets.
    pub queues: usize,
    /// Transfers that run at the start of the model.
    pub pinned: Vec<usize>,
    /// Names of engines, by core.
    pub engines: Vec<Vec<String>>,
}

/// A queue set of a core.
pub(crate) struct QueueSetLayout {
    pub core: usize,
    pub name: String,
    pub queues: u32,
    pub instances: Vec<String>,
    pub semaphores: Vec<u64>,
    pub is_pinned: bool,
    /// Index of its first queue; the queues of its instances are consecutive.
    first_queue: usize,
}

impl QueueSetLayout {
    /// The index of a queue among the queues of all sets.
    pub fn queue(&self, instance: usize, queue: u32) -> usize {
        self.first_queue + instance * self.queues as usize + queue as usize
    }
}

/// A transfer whose descriptors are bound to memory.
pub(crate) struct TransferBinding {
    pub core: usize,
    pub set: usize,
    /// The only instance on which it runs.
    pub instance: Option<usize>,
    pub event: Option<u64>,
    pub semaphore: Option<u64>,
    pub remote_semaphores: Vec<u64>,
    /// Descriptors, each with the index of its queue in the set.
    pub moves: Vec<(u32, Move)>,
    /// Its location, for errors.
    pub place: String,
}

/// The key of a trigger: core, engine, function and id.
pub(crate) type TriggerKey = (usize, usize, String, u32);

/// The transfers that triggers of one key start.
#[derive(Default)]
pub(crate) struct TriggerGroup {
    pub transfers: Vec<usize>,
    /// Number of descriptors of each transfer.
    pub amount: usize,
    /// The first descriptor of each transfer that the next trigger starts.
    pub next: usize,
}

impl Layout {
    /// Checks and binds the cores; reports all problems together.
    pub fn new(cores: &[Core]) -> Result<Self> {
        let mut layout = Self {
            sets: Vec::new(),
            transfers: Vec::new(),
            groups: HashMap::new(),
            queues: 0,
            pinned: Vec::new(),
            engines: Vec::new(),
        };
        let mut problems = Vec::new();
        for (index, core) in cores.iter().enumerate() {
            let sets = layout.add_sets(index, core, &mut problems);
            let variables: BTreeMap<VariableId, &Variable> =
                core.variables.iter().map(|each| (each.id, each)).collect();
            if variables.len() != core.variables.len() {
                let error = invalid("two variables have the same id");
                problems.push(error.at(Location::member(core.name.as_str())));
            }
            for (number, engine) in core.engines.iter().enumerate() {
                let binder = Binder {
                    core: index,
                    cores: cores.len(),
                    name: &core.name,
                    engine,
                    number,
                    sets: &sets,
                    definitions: &core.queue_sets,
                    variables: &variables,
                };
                binder.bind(&mut layout, &mut problems);
            }
            let names = core.engines.iter().map(|engine| engine.name.clone());
            layout.engines.push(names.collect());
        }
        layout.check_pinned(&mut problems);
        Error::from_all(problems).map_or(Ok(layout), Err)
    }

    /// Adds the sets of a core; the result resolves the names of sets and of instances.
    fn add_sets(&mut self, core: usize, of: &Core, problems: &mut Vec<Error>) -> SetNames {
        let mut names = SetNames::default();
        for (number, set) in of.queue_sets.iter().enumerate() {
            let place = || Location::member(format!("{}: queue set '{}'", of.name, set.name));
            if !(1..=MAX_QUEUES).contains(&set.queues) {
                let error = invalid("a wrong number of queues");
                let error = error.expected(format_args!("1 to {MAX_QUEUES}"));
                problems.push(error.found(set.queues).at(place()));
            }
            let index = self.sets.len();
            if names
                .sets
                .insert(set.name.clone(), (index, number))
                .is_some()
            {
                problems.push(invalid("the name occurs twice").at(place()));
            }
            for (instance, name) in set.instances.iter().enumerate() {
                let known = names
                    .instances
                    .insert(name.clone(), (index, number, instance));
                if known.is_some() {
                    let error = invalid(format!("the instance '{name}' occurs twice"));
                    problems.push(error.at(place()));
                }
            }
            let queues = set.queues.clamp(1, MAX_QUEUES);
            self.sets.push(QueueSetLayout {
                core,
                name: set.name.clone(),
                queues,
                instances: set.instances.clone(),
                semaphores: set.semaphores.clone(),
                is_pinned: set.is_pinned,
                first_queue: self.queues,
            });
            self.queues += queues as usize * set.instances.len().max(1);
        }
        names
    }

    /// Only pinned transfers may write the targets of pinned transfers.
    fn check_pinned(&self, problems: &mut Vec<Error>) {
        let pinned = self
            .pinned
            .iter()
            .flat_map(|&index| &self.transfers[index].moves);
        let targets = RegionSet::new(pinned.map(|(_, each)| *each.target()));
        for bound in &self.transfers {
            let mut writes = bound.moves.iter().map(|(_, each)| each.target());
            if !self.sets[bound.set].is_pinned && writes.any(|region| targets.overlaps(region)) {
                let error = invalid("it writes bytes that a pinned queue set has written");
                problems.push(error.at(Location::member(bound.place.as_str())));
            }
        }
    }
}

/// The queue sets of a core by name: index among all sets, and in the core.
#[derive(Default)]
struct SetNames {
    sets: HashMap<String, (usize, usize)>,
    instances: HashMap<String, (usize, usize, usize)>,
}

/// Binds the transfers of one engine.
struct Binder<'a> {
    core: usize,
    cores: usize,
    name: &'a str,
    engine: &'a Engine,
    number: usize,
    sets: &'a SetNames,
    definitions: &'a [QueueSet],
    variables: &'a BTreeMap<VariableId, &'a Variable>,
}

/// The current section of a queue set: the function and the next queues of its transfers.
#[derive(Default)]
struct Section {
    function: String,
    /// The next queue, by instance.
    next: HashMap<usize, u32>,
}

impl Binder<'_> {
    fn bind(&self, layout: &mut Layout, problems: &mut Vec<Error>) {
        let mut sections: HashMap<usize, Section> = HashMap::new();
        for (index, transfer) in self.engine.transfers.iter().enumerate() {
            let place = format!("{}: engine {}: dma[{index}]", self.name, self.engine.name);
            if let Err(error) = self.bind_transfer(transfer, &place, layout, &mut sections) {
                problems.push(error.at(Location::member(place)));
            }
        }
    }

    fn bind_transfer(
        &self,
        transfer: &Transfer,
        place: &str,
        layout: &mut Layout,
        sections: &mut HashMap<usize, Section>,
    ) -> Result<()> {
        let (index, definition, instance) = self.find_set(transfer)?;
        let set = &layout.sets[index];
        if let QueueKind::Dynamic(kind) = &definition.kind {
            let text = format!(
                "queue set '{}' is {kind}: its descriptors are generated by the engine program, \
                 which Tenon does not execute",
                set.name
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        if let Some(owner) = &definition.owner
            && *owner != self.engine.name
        {
            let text = format!("queue set '{}' belongs to another engine", set.name);
            return Err(invalid(text).expected(owner).found(&self.engine.name));
        }
        if transfer.descriptors.is_empty() {
            return Err(invalid("a transfer without descriptors").at(Location::field("desc")));
        }
        if !transfer.remote_semaphores.is_empty() && self.cores != 2 {
            let error = invalid("there is no other core");
            let error = error.expected("two cores").found(self.cores);
            return Err(error.at(Location::field("remote_semaphores")));
        }
        let section = sections.entry(index).or_default();
        if let Some(function) = transfer
            .function_start
            .as_deref()
            .filter(|name| !name.is_empty())
        {
            *section = Section {
                function: function.to_owned(),
                next: HashMap::new(),
            };
        }
        let next = section.next.entry(instance.unwrap_or(0)).or_default();
        if transfer.section_start {
            *next = 0;
        }
        let mut problems = Vec::new();
        let mut moves = Vec::with_capacity(transfer.descriptors.len());
        for (number, descriptor) in transfer.descriptors.iter().enumerate() {
            match self.bind_descriptor(descriptor) {
                Ok(bound) => moves.push((*next, bound)),
                Err(error) => {
                    let place = format!("{place}.desc[{number}]");
                    problems.push(error.at(Location::member(place)));
                }
            }
            *next = (*next + 1) % set.queues;
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        let number = layout.transfers.len();
        if set.is_pinned {
            layout.pinned.push(number);
        } else {
            let key = (
                self.core,
                self.number,
                section.function.clone(),
                transfer.id,
            );
            let group = layout.groups.entry(key).or_default();
            if !group.transfers.is_empty() && group.amount != moves.len() {
                let text = format!(
                    "transfers of id {} differ in their descriptors",
                    transfer.id
                );
                return Err(invalid(text).expected(group.amount).found(moves.len()));
            }
            group.amount = moves.len();
            group.transfers.push(number);
        }
        layout.transfers.push(TransferBinding {
            core: self.core,
            set: index,
            instance,
            event: transfer.event,
            semaphore: transfer.semaphore,
            remote_semaphores: transfer.remote_semaphores.clone(),
            moves,
            place: place.to_owned(),
        });
        Ok(())
    }

    /// The queue set of a transfer, and the instance that it names.
    fn find_set(&self, transfer: &Transfer) -> Result<(usize, &QueueSet, Option<usize>)> {
        let missing = |what: &str, name: &str| {
            let text = format!("the core has no queue set of this {what}");
            Error::new(ErrorKind::NotFound, text).found(format_args!("'{name}'"))
        };
        let named = |name: &&str| !name.is_empty();
        if let Some(name) = transfer.instance.as_deref().filter(named) {
            // A set without instances is its only instance.
            let whole = self
                .sets
                .sets
                .get(name)
                .map(|&(set, number)| (set, number, None));
            let instance = self.sets.instances.get(name);
            let instance = instance.map(|&(set, number, instance)| (set, number, Some(instance)));
            let (set, number, instance) = instance
                .or(whole)
                .ok_or_else(|| missing("instance", name).at(Location::field("instance_name")))?;
            return Ok((set, &self.definitions[number], instance));
        }
        let name = transfer.queue.as_deref().filter(named).ok_or_else(|| {
            let error = invalid("neither a queue set nor an instance is named");
            error.at(Location::field("queue"))
        })?;
        let found = self.sets.sets.get(name);
        let &(set, number) =
            found.ok_or_else(|| missing("name", name).at(Location::field("queue")))?;
        Ok((set, &self.definitions[number], None))
    }

    fn bind_descriptor(&self, descriptor: &crate::Descriptor) -> Result<Move> {
        let variable = |id: VariableId| self.variables.get(&id).copied();
        descriptor.check(|id| {
            let variable = variable(id)?;
            Some(variable.region.map_or(0, |region| region.len() as u64))
        })?;
        if let Some(target) = variable(descriptor.to.variable).filter(|each| !each.is_writable) {
            let error = invalid(format!("'{}' is read-only", target.name));
            return Err(error.at(Location::field("to")));
        }
        Move::new(descriptor, |access| {
            let variable = variable(access.variable);
            variable
                .and_then(|variable| variable.region)
                .ok_or_else(|| {
                    let name = variable.map_or("", |variable| variable.name.as_str());
                    invalid(format!("variable '{name}' has no bytes"))
                })
        })
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}
