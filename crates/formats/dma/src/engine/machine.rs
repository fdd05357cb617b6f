//! The machine: queues with what was triggered, run wave by wave.

use super::bank::{Bank, Move};
use super::layout::Layout;
use super::signals::Signals;
use super::{Core, Region, Step};
use crate::VariableId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use tenon_base::{Error, ErrorKind, Location, Result};

/// Descriptors among which those that may run side by side are looked for: the oldest.
const WINDOW: usize = 64;

/// Races that are kept; more of them say nothing new.
const MAX_RACES: usize = 100;

/// Cores with their memory, queues, semaphores and events.
pub struct Machine {
    pub(super) layout: Layout,
    bank: Bank,
    variables: Vec<HashMap<VariableId, Region>>,
    pub(super) signals: Vec<Signals>,
    /// The instance of each set that is in.
    current: Vec<usize>,
    /// What was triggered and has not ended, in that order.
    pending: BTreeMap<u64, Pending>,
    triggered: u64,
    /// By transfer.
    passes: HashMap<usize, Passes>,
    races: Vec<Race>,
}

/// A descriptor in a queue.
#[derive(Debug, Clone, Copy)]
struct Pending {
    queue: usize,
    transfer: usize,
    descriptor: usize,
    pass: usize,
}

/// Passes through a transfer that have not ended, oldest first.
#[derive(Default)]
struct Passes {
    /// Number of the oldest one.
    first: usize,
    /// Descriptors of each that have not ended.
    left: VecDeque<usize>,
}

/// Two descriptors on different queues that touched the same bytes, one writing, while nothing
/// ordered them. They ran in the order in which they were triggered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// StridedView of the one that ran first.
    pub first: String,
    /// StridedView of the other one.
    pub second: String,
}

/// What an engine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A semaphore to be at least a value.
    Semaphore {
        /// Which.
        semaphore: u64,
        /// The value.
        at_least: u32,
    },
    /// An event to be set.
    Event(u64),
    /// The queues of a set to be empty: its number.
    Idle(usize),
}

impl Machine {
    /// Checks and binds the cores, whose variables lie in `bank`, and runs what is pinned. All
    /// problems together.
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
            current: vec![0; layout.sets.len()],
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

    /// Whether nothing is in a queue.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Races that were seen, the first of each pair of places.
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// Performs a step of an engine's program; what it waits for when it cannot yet.
    pub fn perform(&mut self, core: usize, engine: &str, step: &Step) -> Result<Option<Wait>> {
        let cores = self.signals.len();
        let signals = self.signals.get_mut(core).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidProgram, "there is no such core");
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

    /// Whether what an engine of a core waits for is so.
    pub fn is_satisfied(&self, core: usize, wait: &Wait) -> bool {
        match *wait {
            Wait::Semaphore {
                semaphore,
                at_least,
            } => self.semaphore(core, semaphore) >= at_least,
            Wait::Event(event) => self.signals.get(core).is_some_and(|s| s.event(event)),
            Wait::Idle(set) => {
                let busy = |pending: &Pending| self.layout.transfers[pending.transfer].set == set;
                !self.pending.values().any(busy)
            }
        }
    }

    /// Runs descriptors that may run now, side by side, and tells of their end; whether there were
    /// any.
    pub fn advance(&mut self) -> Result<bool> {
        let chosen = self.choose();
        if chosen.is_empty() {
            return Ok(false);
        }
        let moves: Vec<&Move> = chosen
            .iter()
            .map(|(_, pending)| self.layout.bound(pending))
            .collect();
        self.bank.run(&moves)?;
        for (order, pending) in chosen {
            self.pending.remove(&order);
            self.end(&pending)?;
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
            let text = format!("a trigger of id {id} passes the end of its transfers");
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
        let current = self.current[bound.set];
        if bound.instance.is_some_and(|instance| instance != current) {
            let name = |index: usize| set.instances.get(index).map_or("", String::as_str);
            let text = format!("queue set '{}' has another instance in", set.name);
            return Err(Error::new(ErrorKind::InvalidProgram, text)
                .expected(name(bound.instance.unwrap_or(0)))
                .found(name(current))
                .at(Location::member(bound.place.as_str())));
        }
        let passes = self.passes.entry(transfer).or_default();
        if range.start == 0 && !range.is_empty() {
            passes.left.push_back(bound.moves.len());
        }
        let pass = passes.first + passes.left.len().saturating_sub(1);
        for descriptor in range {
            let pending = Pending {
                queue: set.queue(current, bound.moves[descriptor].0),
                transfer,
                descriptor,
                pass,
            };
            self.pending.insert(self.triggered, pending);
            self.triggered += 1;
        }
        Ok(())
    }

    /// The heads of queues that touch nothing that an older descriptor in another queue touches,
    /// unless both only read.
    fn choose(&mut self) -> Vec<(u64, Pending)> {
        let mut older: Vec<(u64, Pending)> = Vec::with_capacity(WINDOW);
        let mut queues: Vec<usize> = Vec::new();
        let mut chosen = Vec::new();
        let mut met = Vec::new();
        for (&order, &pending) in self.pending.iter().take(WINDOW) {
            if !queues.contains(&pending.queue) {
                queues.push(pending.queue);
                let own = self.layout.bound(&pending);
                let first = older.iter().find(|(_, older)| {
                    older.queue != pending.queue && self.layout.bound(older).conflicts(own)
                });
                match first {
                    None => chosen.push((order, pending)),
                    Some(&(_, first)) => met.push((first, pending)),
                }
            }
            if queues.len() == self.layout.queues {
                break;
            }
            older.push((order, pending));
        }
        for (first, second) in met {
            self.note_race(&first, &second);
        }
        chosen
    }

    fn note_race(&mut self, first: &Pending, second: &Pending) {
        let place = |pending: &Pending| {
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

    /// A descriptor has ended.
    fn end(&mut self, pending: &Pending) -> Result<()> {
        let bound = &self.layout.transfers[pending.transfer];
        let set = &self.layout.sets[bound.set];
        let passes = self.passes.entry(pending.transfer).or_default();
        let left = &mut passes.left[pending.pass - passes.first];
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        while passes.left.front() == Some(&0) {
            passes.left.pop_front();
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
            // There are two cores: binding refused it otherwise.
            let other = &mut self.signals[1 - bound.core];
            for &semaphore in &bound.remote_semaphores {
                other.increment(semaphore, set.queues).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Puts an instance in place of the one that is in, once its queues are empty.
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
        if self.current[set] == index {
            return Ok(None);
        }
        if !self.is_satisfied(core, &wait) {
            return Ok(Some(wait));
        }
        self.current[set] = index;
        Ok(None)
    }
}

impl Layout {
    fn bound(&self, pending: &Pending) -> &Move {
        &self.transfers[pending.transfer].moves[pending.descriptor].1
    }
}
