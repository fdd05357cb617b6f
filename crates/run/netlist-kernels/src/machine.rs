//! What the programs of a netlist work on: queues and rams, accumulators, static variables.

use super::queue::{Content, EntrySource, Queue, QueueSpec, Setting};
use super::spare;
use super::tensor::{TileTensor, wrong_shape};
use super::view::View;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_executor::Opaque;

/// How long to look at whether the work was cancelled while waiting.
const GLANCE: Duration = Duration::from_millis(20);

/// What bounds the running of programs.
#[derive(Debug, Clone, Copy)]
pub struct MachineLimits {
    /// How long an op waits for the host to push or pop.
    pub wait: Duration,
    /// Instructions and inputs of graphs in one run of a program.
    pub steps: u64,
    /// Bytes of outputs that are kept for the host.
    pub output_bytes: usize,
}

impl Default for MachineLimits {
    /// No waiting, a hundred million steps, 8 GiB.
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            steps: 100_000_000,
            output_bytes: 8 << 30,
        }
    }
}

/// The queues of a netlist and all else that outlives an op. Clones share it; hosts push and pop
/// while a program runs.
#[derive(Clone, Default)]
pub struct Machine(Arc<Shared>);

impl Opaque for Machine {
    const TYPE: &'static str = "!netlist.machine";
}

#[derive(Default)]
struct Shared {
    limits: MachineLimits,
    state: Mutex<State>,
    changed: Condvar,
}

impl Drop for Shared {
    fn drop(&mut self) {
        *self.state.get_mut().unwrap_or_else(PoisonError::into_inner) = State::default();
        spare::settle();
    }
}

#[derive(Default)]
struct State {
    queues: Vec<Queue>,
    names: HashMap<String, usize>,
    /// Sums of gradient ops, by name.
    accumulators: HashMap<String, TileTensor>,
    /// Static variables, by program and name.
    statics: HashMap<(String, String), i32>,
    /// Bytes of outputs kept.
    kept: usize,
    /// Whether rams share memory.
    views: bool,
}

impl Machine {
    /// A machine without queues.
    pub fn new(limits: MachineLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            state: Mutex::default(),
            changed: Condvar::default(),
        }))
    }

    /// What bounds its programs.
    pub fn limits(&self) -> MachineLimits {
        self.0.limits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a queue.
    pub fn declare(&self, spec: QueueSpec) -> Result<()> {
        let mut state = self.state();
        if state.names.contains_key(&spec.name) {
            let text = format!("queue '{}' is declared twice", spec.name);
            return Err(Error::new(ErrorKind::InvalidProgram, text));
        }
        let index = state.queues.len();
        state.views |= spec.view_of.is_some();
        state.names.insert(spec.name.clone(), index);
        state.queues.push(Queue::new(spec)?);
        Ok(())
    }

    /// What all its queues were declared with, in order.
    pub fn queues(&self) -> Vec<QueueSpec> {
        self.state()
            .queues
            .iter()
            .map(|queue| queue.spec.clone())
            .collect()
    }

    /// Has `feed` make what the host pushes: entries 0, 1, 2.. whenever there is room; for a ram
    /// what its slots hold at first.
    pub fn feed(&self, queue: &str, feed: EntrySource) -> Result<()> {
        self.with(queue, |queue| {
            queue.feed = Some(feed);
            queue.refill();
            Ok(())
        })
    }

    /// Keeps what is pushed to a queue as it is pushed; drained, it never fills up.
    pub fn collect(&self, queue: &str, drained: bool) -> Result<()> {
        self.with(queue, |queue| {
            queue.drained = drained;
            queue.recorded = true;
            Ok(())
        })
    }

    /// Takes what was kept.
    pub fn take_outputs(&self, queue: &str) -> Result<Vec<TileTensor>> {
        let mut state = self.state();
        let index = state.find(queue)?;
        let outputs = std::mem::take(&mut state.queues[index].outputs);
        state.kept -= outputs.iter().map(bytes).sum::<usize>().min(state.kept);
        Ok(outputs)
    }

    /// The host pushes an entry, waiting for room.
    pub fn push(&self, queue: &str, entry: TileTensor, wait: Duration) -> Result<()> {
        self.fits(queue, &entry)?;
        let done = self.when(queue, wait, &Control::new(), |queue| {
            match queue.is_full() {
                true => Ok(None),
                false => queue.push(entry.clone()).map(Some),
            }
        })?;
        done.ok_or_else(|| too_late(format!("queue '{queue}' has no room")))
    }

    /// The host puts an entry into a slot of a ram; pointers stay.
    pub fn put(&self, ram: &str, slot: usize, entry: TileTensor) -> Result<()> {
        self.fits(ram, &entry)?;
        self.with(ram, |queue| queue.put(slot, entry))
    }

    fn fits(&self, queue: &str, entry: &TileTensor) -> Result<()> {
        self.with(queue, |queue| {
            let spec = &queue.spec;
            match entry.tiles() == spec.tiles && entry.tile() == spec.tile {
                true => Ok(()),
                false => Err(
                    wrong_shape(format!("an entry that does not fit '{}'", spec.name))
                        .expected(format_args!("{:?} tiles of {:?}", spec.tiles, spec.tile))
                        .found(entry.describe()),
                ),
            }
        })
    }

    /// The host takes the first entry of a queue, waiting for one.
    pub fn pop(&self, queue: &str, wait: Duration) -> Result<TileTensor> {
        let done = self.when(queue, wait, &Control::new(), Queue::pop)?;
        let entry = done.map(Content::entry).transpose()?.flatten();
        entry.ok_or_else(|| too_late(format!("queue '{queue}' is empty")))
    }

    /// The host looks at the entry of a queue that is so many behind the first, waiting for it; of
    /// a ram behind its read pointer.
    pub fn peek(&self, queue: &str, behind: usize, wait: Duration) -> Result<TileTensor> {
        let done = self.when(queue, wait, &Control::new(), |queue| {
            Ok(queue.slot_behind(behind).map(|slot| queue.content(slot)))
        })?;
        let entry = done.map(Content::entry).transpose()?.flatten();
        entry.ok_or_else(|| match behind {
            0 => too_late(format!("queue '{queue}' is empty")),
            _ => too_late(format!(
                "queue '{queue}' does not hold {} entries",
                behind + 1
            )),
        })
    }

    /// What a slot holds; `None` where nothing was written. Pointers stay.
    pub fn slot(&self, queue: &str, slot: usize) -> Result<Option<TileTensor>> {
        let view = self.state().view(queue)?;
        self.with(queue, |queue| queue.has_slot(slot))?;
        match view {
            None => self.with(queue, |queue| Ok(queue.content(slot)))?.entry(),
            Some(view) => self.read_view(&view, slot).map(Some),
        }
    }

    /// An op reads its next entry.
    pub(super) fn read(&self, queue: &str, control: &Control) -> Result<TileTensor> {
        let view = self.state().view(queue)?;
        if let Some(view) = view {
            let slot = self.with(queue, |queue| queue.next_slot())?.unwrap_or(0);
            return self.read_view(&view, slot);
        }
        // The entry is made, where the host makes it, without holding others up.
        let found = self.when(queue, self.0.limits.wait, control, |queue| {
            let slot = queue.next_slot()?;
            Ok(slot.map(|slot| (slot, queue.content(slot))))
        })?;
        let starved = || {
            let state = self
                .with(queue, |queue| Ok(queue.describe()))
                .unwrap_or_default();
            too_late(format!(
                "queue '{queue}' starves: the slot to be read is empty"
            ))
            .expected("an entry that an op or the host has pushed")
            .found(state)
        };
        let (slot, content) = found.ok_or_else(starved)?;
        let number = match &content {
            Content::Fed(_, number) => Some(*number),
            _ => None,
        };
        let entry = content.entry()?.ok_or_else(starved)?;
        if let Some(number) = number {
            self.with(queue, |queue| {
                queue.keep(slot, number, &entry);
                Ok(())
            })?;
        }
        Ok(entry)
    }

    fn read_view(&self, view: &View, slot: usize) -> Result<TileTensor> {
        let first = slot * view.count;
        let mut entries = Vec::with_capacity(view.count);
        for slot in first..first + view.count {
            let content = self.with(&view.base, |base| Ok(base.content(slot)))?;
            entries.extend(content.entry()?);
        }
        view.seen(&entries)
    }

    /// An op writes an entry.
    pub(super) fn write(&self, queue: &str, entry: TileTensor, control: &Control) -> Result<()> {
        let (view, keeps) = {
            let mut state = self.state();
            let index = state.find(queue)?;
            let keeps = state.queues[index].recorded;
            if keeps {
                state.kept += bytes(&entry);
            }
            (state.view(queue)?, keeps.then_some(state.kept))
        };
        if keeps.is_some_and(|kept| kept > self.0.limits.output_bytes) {
            let text = format!("outputs outgrow their limit at queue '{queue}'");
            return Err(Error::new(ErrorKind::OutOfMemory, text)
                .expected(format_args!("at most {} bytes", self.0.limits.output_bytes))
                .help("run fewer loops"));
        }
        if let Some(view) = view {
            return self.write_view(queue, &view, &entry);
        }
        let done = self.when(queue, self.0.limits.wait, control, |queue| {
            match queue.is_full() {
                true => Ok(None),
                false => queue.push(entry.clone()).map(Some),
            }
        })?;
        done.ok_or_else(|| {
            let state = self
                .with(queue, |queue| Ok(queue.describe()))
                .unwrap_or_default();
            too_late(format!(
                "queue '{queue}' is full: nobody pops what it holds"
            ))
            .found(state)
        })
    }

    fn write_view(&self, queue: &str, view: &View, entry: &TileTensor) -> Result<()> {
        let slot = self.with(queue, |queue| queue.write_slot())?;
        for (index, part) in view.written(entry)?.into_iter().enumerate() {
            self.with(&view.base, |base| base.put(slot * view.count + index, part))?;
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// What a gradient op has summed, if anything.
    pub(super) fn sum(&self, op: &str) -> Option<TileTensor> {
        self.state().accumulators.get(op).cloned()
    }

    /// Keeps what a gradient op has summed.
    pub(super) fn keep(&self, op: &str, sum: &TileTensor) {
        self.state().accumulators.insert(op.to_owned(), sum.clone());
    }

    /// Applies the setting of an execute; what a gradient op has summed is forgotten where the ram
    /// is cleared.
    pub(super) fn apply(&self, queue: &str, setting: Setting, is_first: bool) -> Result<()> {
        let mut state = self.state();
        let index = state.find(queue)?;
        state.queues[index].apply(setting, is_first)?;
        if setting.zero
            && let Some(op) = state.queues[index].spec.source.clone()
        {
            state.accumulators.remove(&op);
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// Works on several queues.
    pub(super) fn with_each(&self, queues: &[String], work: impl Fn(&mut Queue)) -> Result<()> {
        let mut state = self.state();
        for queue in queues {
            let index = state.find(queue)?;
            work(&mut state.queues[index]);
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// What an epoch may change.
    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let queue = |queue: &Queue| (queue.without_outputs(), queue.outputs.len());
        Snapshot {
            queues: state.queues.iter().map(queue).collect(),
            accumulators: state.accumulators.clone(),
            kept: state.kept,
        }
    }

    /// Undoes what an epoch has changed.
    pub(super) fn restore(&self, before: Snapshot) {
        let mut state = self.state();
        for (queue, (before, outputs)) in state.queues.iter_mut().zip(before.queues) {
            let mut kept = std::mem::take(&mut queue.outputs);
            kept.truncate(outputs);
            *queue = before;
            queue.outputs = kept;
        }
        state.accumulators = before.accumulators;
        state.kept = before.kept;
        self.0.changed.notify_all();
    }

    /// Works on one queue; whoever waits looks again.
    pub(super) fn with<T>(
        &self,
        queue: &str,
        work: impl FnOnce(&mut Queue) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state();
        let index = state.find(queue)?;
        let done = work(&mut state.queues[index]);
        self.0.changed.notify_all();
        done
    }

    /// Works on a queue as soon as `work` has something to do; `None` when it took too long.
    fn when<T>(
        &self,
        queue: &str,
        wait: Duration,
        control: &Control,
        work: impl Fn(&mut Queue) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let begun = Instant::now();
        let mut state = self.state();
        let index = state.find(queue)?;
        loop {
            if let Some(done) = work(&mut state.queues[index])? {
                self.0.changed.notify_all();
                return Ok(Some(done));
            }
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            control.check()?;
            let waited = self.0.changed.wait_timeout(state, left.min(GLANCE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The value of a static variable of a program.
    pub(super) fn static_variable(&self, program: &str, name: &str) -> Option<i32> {
        let key = (program.to_owned(), name.to_owned());
        self.state().statics.get(&key).copied()
    }

    /// Sets a static variable of a program.
    pub(super) fn set_static(&self, program: &str, name: &str, value: i32) {
        let key = (program.to_owned(), name.to_owned());
        self.state().statics.insert(key, value);
    }
}

/// The state of a machine before an epoch.
pub(super) struct Snapshot {
    /// Queues, and how many outputs each had kept.
    queues: Vec<(Queue, usize)>,
    accumulators: HashMap<String, TileTensor>,
    kept: usize,
}

impl State {
    fn find(&self, queue: &str) -> Result<usize> {
        self.names
            .get(queue)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no queue '{queue}'")))
    }

    /// Of rams that share memory the one with most entries holds it (facts 6.2).
    fn view(&self, queue: &str) -> Result<Option<View>> {
        let own = &self.queues[self.find(queue)?].spec;
        if !self.views {
            return Ok(None);
        }
        let root = own.view_of.as_ref().unwrap_or(&own.name);
        let shares = |spec: &QueueSpec| spec.name == *root || spec.view_of.as_ref() == Some(root);
        let all = self
            .queues
            .iter()
            .map(|queue| &queue.spec)
            .filter(|spec| shares(spec));
        // Of several with as many entries the first.
        let base = all.reduce(|a, b| if b.entries > a.entries { b } else { a });
        let base = base.filter(|base| base.name != own.name);
        base.map(|base| View::new(own, base)).transpose()
    }
}

fn bytes(entry: &TileTensor) -> usize {
    std::mem::size_of_val(entry.values())
}

fn too_late(message: String) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}

#[cfg(test)]
mod tests;
