//! The machine: queues of triggered descriptors. Each round executes the queue heads that no older
//! descriptor conflicts with, concurrently.

use super::bank::{Bank, Move};
use super::layout::Layout;
use super::signals::Signals;
use super::{Core, Region, Step};
use crate::VariableId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use tenon_base::{Error, ErrorKind, Location, Result};

/// Number of the oldest descriptors that are considered for concurrent execution.
const WINDOW: usize = 64;

/// Maximum number of races that are recorded.
const MAX_RACES: usize = 100;

/// Cores with their memory, queues, semaphores and events.
pub struct Machine {
    pub(super) layout: Layout,
    bank: Bank,
    variables: Vec<HashMap<VariableId, Region>>,
    pub(super) signals: Vec<Signals>,
    /// The active instance of each set.
    active: Vec<usize>,
    /// Descriptors that were triggered and have not ended, by their order of trigger.
    pending: BTreeMap<u64, QueuedDescriptor>,
    triggered: u64,
    /// Unfinished passes by transfer.
    passes: HashMap<usize, TransferPasses>,
    races: Vec<Race>,
}

/// A descriptor in a queue.
#[derive(Debug, Clone, Copy)]
struct QueuedDescriptor {
    queue: usize,
    transfer: usize,
    descriptor: usize,
    pass: usize,
}

/// Unfinished passes through a transfer, oldest first.
#[derive(Default)]
struct TransferPasses {
    /// Number of the oldest pass.
    first: usize,
    /// Unfinished descriptors of each pass.
    remaining: VecDeque<usize>,
}

/// Two descriptors on different queues that access the same bytes without synchronisation, at least
/// one of them writing. They ran in the order of their triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// Location of the descriptor that ran first.
    pub first: String,
    /// Location of the other descriptor.
    pub second: String,
}

/// The condition that an engine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A semaphore has at least a value.
    Semaphore {
        /// The semaphore.
        semaphore: u64,
        /// The value.
        at_least: u32,
    },
    /// An event is set.
    Event(u64),
    /// The queues of the set of this index are empty.
    Idle(usize),
}

impl Machine {
    /// Checks and binds the cores, whose variables are in `bank`, and runs the transfers of pinned
    /// queue sets. Reports all problems together.
    pub fn new(bank: Bank, cores: Vec<Core>) -> Result<Self> {
        let layout = Layout::new(&cores)?;
        let regions = |core: &Core| {
            let variables = core.variables.iter();
            variables
                .filter_map(|variable| Some((variable.id, variable.region?)))
                .collect()
        };
        let mut machine = Self {
            bank,
            variables: cores.iter().map(regions).collect(),
            signals: vec![Signals::default(); cores.len()],
            active: vec![0; layout.sets.len()],
            pending: BTreeMap::new(),
            triggered: 0,
            passes: HashMap::new(),
            races: Vec::new(),
            layout,
        };
        for transfer in machine.layout.pinned.clone() {
            let amount = machine.layout.transfers[transfer].moves.len();
            machine.start(transfer, 0..amount)?;
        }
        while machine.advance()? {}
        Ok(machine)
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.variables.len()
    }

    /// The bytes of a variable.
    pub fn bytes(&self, core: usize, variable: VariableId) -> Option<&[u8]> {
        self.bank.bytes(self.variables.get(core)?.get(&variable)?)
    }

    /// The value of a semaphore.
    pub fn semaphore(&self, core: usize, semaphore: u64) -> u32 {
        let signals = self.signals.get(core);
        signals.map_or(0, |signals| signals.semaphore(semaphore))
    }

    /// Semaphores that were incremented or set, with their values.
    pub fn semaphores(&self, core: usize) -> impl Iterator<Item = (u64, u32)> {
        self.signals
            .get(core)
            .into_iter()
            .flat_map(Signals::semaphores)
    }

    /// Events that are set.
    pub fn events(&self, core: usize) -> impl Iterator<Item = u64> {
        self.signals.get(core).into_iter().flat_map(Signals::events)
    }

    /// Whether all queues are empty.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The detected races, one for each pair of locations.
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// Performs a step of an engine's program; returns the condition of a step that has to wait.
    pub fn perform(&mut self, core: usize, engine: &str, step: &Step) -> Result<Option<Wait>> {
        let cores = self.signals.len();
        let signals = self.signals.get_mut(core).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidProgram, "the core does not exist");
            error
                .expected(format_args!("less than {cores}"))
                .found(core)
        })?;
        match step {
            Step::Trigger {
                function,
                id,
                count,
            } => self.trigger(core, engine, function, *id, *count)?,
            Step::AddSemaphore { semaphore, value } => signals.increment(*semaphore, *value)?,
            Step::SetSemaphore { semaphore, value } => signals.set_semaphore(*semaphore, *value),
            Step::SetEvent(event) => signals.set_event(*event),
            Step::ClearEvent(event) => signals.clear_event(*event),
            &Step::WaitSemaphore {
                semaphore,
                at_least,
            } => {
                let wait = Wait::Semaphore {
                    semaphore,
                    at_least,
                };
                return Ok((!self.is_satisfied(core, &wait)).then_some(wait));
            }
            &Step::WaitEvent(event) => {
                let wait = Wait::Event(event);
                return Ok((!self.is_satisfied(core, &wait)).then_some(wait));
            }
            Step::Swap { queue, instance } => return self.swap(core, queue, instance),
        }
        Ok(None)
    }

    /// Whether the condition of an engine of a core is satisfied.
    pub fn is_satisfied(&self, core: usize, wait: &Wait) -> bool {
        match *wait {
            Wait::Semaphore {
                semaphore,
                at_least,
            } => self.semaphore(core, semaphore) >= at_least,
            Wait::Event(event) => self.signals.get(core).is_some_and(|s| s.event(event)),
            Wait::Idle(set) => {
                let busy =
                    |pending: &QueuedDescriptor| self.layout.transfers[pending.transfer].set == set;
                !self.pending.values().any(busy)
            }
        }
    }

    /// Executes the descriptors that are ready, concurrently, and signals the ends of transfers.
    /// Returns whether there was any.
    pub fn advance(&mut self) -> Result<bool> {
        let ready = self.take_ready();
        if ready.is_empty() {
            return Ok(false);
        }
        let moves: Vec<&Move> = ready
            .iter()
            .map(|(_, pending)| self.layout.bound(pending))
            .collect();
        self.bank.run(&moves)?;
        for (order, pending) in ready {
            self.pending.remove(&order);
            self.finish(&pending)?;
        }
        Ok(true)
    }

    fn trigger(
        &mut self,
        core: usize,
        engine: &str,
        function: &str,
        id: u32,
        count: Option<u32>,
    ) -> Result<()> {
        let number = self.layout.engines[core]
            .iter()
            .position(|name| name == engine);
        let key = number.map(|number| (core, number, function.to_owned(), id));
        let group = key.and_then(|key| self.layout.groups.get_mut(&key));
        let group = group.ok_or_else(|| {
            let text =
                format!("engine {engine} has no transfer of this id in function '{function}'");
            Error::new(ErrorKind::NotFound, text).found(format_args!("id {id}"))
        })?;
        let left = group.amount - group.next;
        let count = count.map_or(left, |count| count as usize);
        if count > left {
            let text = format!("a trigger of id {id} exceeds the descriptors of its transfers");
            return Err(Error::new(ErrorKind::InvalidProgram, text)
                .expected(format_args!("at most {left} descriptors"))
                .found(count));
        }
        let range = group.next..group.next + count;
        group.next = range.end % group.amount;
        for transfer in group.transfers.clone() {
            self.start(transfer, range.clone())?;
        }
        Ok(())
    }

    /// Puts descriptors of a transfer into their queues.
    fn start(&mut self, transfer: usize, range: std::ops::Range<usize>) -> Result<()> {
        let bound = &self.layout.transfers[transfer];
        let set = &self.layout.sets[bound.set];
        let active = self.active[bound.set];
        if bound.instance.is_some_and(|instance| instance != active) {
            let name = |index: usize| set.instances.get(index).map_or("", String::as_str);
            let text = format!("another instance of queue set '{}' is active", set.name);
            return Err(Error::new(ErrorKind::InvalidProgram, text)
                .expected(name(bound.instance.unwrap_or(0)))
                .found(name(active))
                .at(Location::member(bound.place.as_str())));
        }
        let passes = self.passes.entry(transfer).or_default();
        if range.start == 0 && !range.is_empty() {
            passes.remaining.push_back(bound.moves.len());
        }
        let pass = passes.first + passes.remaining.len().saturating_sub(1);
        for descriptor in range {
            let pending = QueuedDescriptor {
                queue: set.queue(active, bound.moves[descriptor].0),
                transfer,
                descriptor,
                pass,
            };
            self.pending.insert(self.triggered, pending);
            self.triggered += 1;
        }
        Ok(())
    }

    /// The heads of queues that no older descriptor of another queue conflicts with. Records the
    /// conflicts as races.
    fn take_ready(&mut self) -> Vec<(u64, QueuedDescriptor)> {
        let mut older: Vec<(u64, QueuedDescriptor)> = Vec::with_capacity(WINDOW);
        let mut queues: Vec<usize> = Vec::new();
        let mut ready = Vec::new();
        let mut conflicts = Vec::new();
        for (&order, &pending) in self.pending.iter().take(WINDOW) {
            if !queues.contains(&pending.queue) {
                queues.push(pending.queue);
                let head = self.layout.bound(&pending);
                let first = older.iter().find(|(_, older)| {
                    older.queue != pending.queue && self.layout.bound(older).conflicts(head)
                });
                match first {
                    None => ready.push((order, pending)),
                    Some(&(_, first)) => conflicts.push((first, pending)),
                }
            }
            if queues.len() == self.layout.queues {
                break;
            }
            older.push((order, pending));
        }
        for (first, second) in conflicts {
            self.record_race(&first, &second);
        }
        ready
    }

    fn record_race(&mut self, first: &QueuedDescriptor, second: &QueuedDescriptor) {
        let place = |pending: &QueuedDescriptor| {
            let transfer = &self.layout.transfers[pending.transfer];
            format!("{}.desc[{}]", transfer.place, pending.descriptor)
        };
        let race = Race {
            first: place(first),
            second: place(second),
        };
        if self.races.len() < MAX_RACES && !self.races.contains(&race) {
            self.races.push(race);
        }
    }

    /// Counts the end of a descriptor; with the last one of a pass, signals the end of the transfer.
    fn finish(&mut self, pending: &QueuedDescriptor) -> Result<()> {
        let bound = &self.layout.transfers[pending.transfer];
        let set = &self.layout.sets[bound.set];
        let passes = self.passes.entry(pending.transfer).or_default();
        let remaining = &mut passes.remaining[pending.pass - passes.first];
        *remaining -= 1;
        if *remaining > 0 {
            return Ok(());
        }
        while passes.remaining.front() == Some(&0) {
            passes.remaining.pop_front();
            passes.first += 1;
        }
        let signals = &mut self.signals[bound.core];
        let at = |error: Error| error.at(Location::member(bound.place.as_str()));
        if let Some(event) = bound.event {
            signals.set_event(event);
        }
        if let Some(semaphore) = bound.semaphore {
            signals.increment(semaphore, set.queues).map_err(at)?;
        } else if !set.semaphores.is_empty() {
            for queue in 0..set.queues as usize {
                let semaphore = set.semaphores[queue % set.semaphores.len()];
                signals.increment(semaphore, 1).map_err(at)?;
            }
        }
        if !bound.remote_semaphores.is_empty() {
            // Binding requires two cores for remote semaphores.
            let other = &mut self.signals[1 - bound.core];
            for &semaphore in &bound.remote_semaphores {
                other.increment(semaphore, set.queues).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Activates an instance of a queue set once the queues of the set are empty.
    fn swap(&mut self, core: usize, queue: &str, instance: &str) -> Result<Option<Wait>> {
        let sets = &self.layout.sets;
        let set = sets
            .iter()
            .position(|set| set.core == core && set.name == queue);
        let missing = |text: String| Error::new(ErrorKind::NotFound, text);
        let set = set.ok_or_else(|| missing(format!("the core has no queue set '{queue}'")))?;
        let index = sets[set].instances.iter().position(|name| name == instance);
        let index = index
            .ok_or_else(|| missing(format!("queue set '{queue}' has no instance '{instance}'")))?;
        let wait = Wait::Idle(set);
        if self.active[set] == index {
            return Ok(None);
        }
        if !self.is_satisfied(core, &wait) {
            return Ok(Some(wait));
        }
        self.active[set] = index;
        Ok(None)
    }
}

impl Layout {
    fn bound(&self, pending: &QueuedDescriptor) -> &Move {
        &self.transfers[pending.transfer].moves[pending.descriptor].1
    }
}
