//! The state of the programs of a netlist: queues and rams, accumulators, static variables.

use super::buffer_pool;
use super::queue::{EntrySource, Queue, QueueSetting, QueueSpec, SlotContent};
use super::tensor::{TileTensor, wrong_shape};
use super::view::RamView;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon_base::{Control, Count, Error, ErrorKind, Result};
use tenon_executor::Opaque;

/// The interval of checks for cancellation while an op waits.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Limits on the execution of programs.
#[derive(Debug, Clone, Copy)]
pub struct MachineLimits {
    /// How long an op waits for the host to push or pop.
    pub wait: Duration,
    /// Instructions and inputs of graphs in one run of a program.
    pub steps: u64,
    /// Bytes of outputs that are stored for the host.
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

/// The queues of a netlist and the other state that outlives an op. Clones share it; the host may push
/// and pop while a program runs.
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
        buffer_pool::trim();
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
    /// Bytes of outputs stored.
    output_bytes: usize,
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

    /// The limits on its programs.
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

    /// The declarations of all queues, in order.
    pub fn queues(&self) -> Vec<QueueSpec> {
        self.state()
            .queues
            .iter()
            .map(|queue| queue.spec.clone())
            .collect()
    }

    /// Sets the source of the entries that the host pushes: 0, 1, 2.. whenever the queue is not full; of
    /// a ram, the initial content of its slots.
    pub fn feed(&self, queue: &str, source: EntrySource) -> Result<()> {
        self.with(queue, |queue| {
            queue.entry_source = Some(source);
            queue.refill();
            Ok(())
        })
    }

    /// Stores the entries pushed to a queue as outputs. A drained queue is never full.
    pub fn collect(&self, queue: &str, drained: bool) -> Result<()> {
        self.with(queue, |queue| {
            queue.drained = drained;
            queue.recorded = true;
            Ok(())
        })
    }

    /// Removes and returns the outputs of a queue.
    pub fn take_outputs(&self, queue: &str) -> Result<Vec<TileTensor>> {
        let mut state = self.state();
        let index = state.find(queue)?;
        let outputs = std::mem::take(&mut state.queues[index].outputs);
        state.output_bytes -= outputs
            .iter()
            .map(bytes)
            .sum::<usize>()
            .min(state.output_bytes);
        Ok(outputs)
    }

    /// Pushes an entry of the host; waits while the queue is full.
    pub fn push(&self, queue: &str, entry: TileTensor, wait: Duration) -> Result<()> {
        self.check_entry(queue, &entry)?;
        let done = self.wait_for(queue, wait, &Control::new(), |queue| {
            if queue.is_full() {
                return Ok(None);
            }
            queue.push(entry.clone()).map(Some)
        })?;
        done.ok_or_else(|| execution_failed(format!("queue '{queue}' is full")))
    }

    /// Writes an entry of the host to a slot of a ram, without moving pointers.
    pub fn put(&self, ram: &str, slot: usize, entry: TileTensor) -> Result<()> {
        self.check_entry(ram, &entry)?;
        self.with(ram, |queue| queue.put(slot, entry))
    }

    fn check_entry(&self, queue: &str, entry: &TileTensor) -> Result<()> {
        self.with(queue, |queue| {
            let spec = &queue.spec;
            if entry.tiles() == spec.tiles && entry.tile() == spec.tile {
                return Ok(());
            }
            let text = format!("an entry differs in shape from queue '{}'", spec.name);
            Err(wrong_shape(text)
                .expected(format_args!("{:?} tiles of {:?}", spec.tiles, spec.tile))
                .found(entry.describe()))
        })
    }

    /// Removes and returns the first entry of a queue, for the host; waits while the queue is empty.
    pub fn pop(&self, queue: &str, wait: Duration) -> Result<TileTensor> {
        let done = self.wait_for(queue, wait, &Control::new(), Queue::pop)?;
        let entry = done.map(SlotContent::into_entry).transpose()?.flatten();
        entry.ok_or_else(|| execution_failed(format!("queue '{queue}' is empty")))
    }

    /// The entry of a queue `offset` entries after the first, or of a ram after its read pointer; waits
    /// for it.
    pub fn peek(&self, queue: &str, offset: usize, wait: Duration) -> Result<TileTensor> {
        let done = self.wait_for(queue, wait, &Control::new(), |queue| {
            Ok(queue.slot_at_offset(offset).map(|slot| queue.content(slot)))
        })?;
        let entry = done.map(SlotContent::into_entry).transpose()?.flatten();
        entry.ok_or_else(|| match offset {
            0 => execution_failed(format!("queue '{queue}' is empty")),
            _ => execution_failed(format!(
                "queue '{queue}' does not have {}",
                Count(offset + 1, "entry")
            )),
        })
    }

    /// The entry of a slot; `None` of an empty slot. Pointers do not move.
    pub fn slot(&self, queue: &str, slot: usize) -> Result<Option<TileTensor>> {
        let view = self.state().view(queue)?;
        self.with(queue, |queue| queue.check_slot(slot))?;
        match view {
            None => self
                .with(queue, |queue| Ok(queue.content(slot)))?
                .into_entry(),
            Some(view) => self.read_view(&view, slot).map(Some),
        }
    }

    /// The next entry that an op reads.
    pub(super) fn read(&self, queue: &str, control: &Control) -> Result<TileTensor> {
        let view = self.state().view(queue)?;
        if let Some(view) = view {
            let slot = self.with(queue, |queue| queue.next_slot())?.unwrap_or(0);
            return self.read_view(&view, slot);
        }
        // The entry source is called without the lock.
        let found = self.wait_for(queue, self.0.limits.wait, control, |queue| {
            let slot = queue.next_slot()?;
            Ok(slot.map(|slot| (slot, queue.content(slot))))
        })?;
        let starved = || {
            let state = self
                .with(queue, |queue| Ok(queue.describe()))
                .unwrap_or_default();
            execution_failed(format!(
                "queue '{queue}' starves: the slot to be read is empty"
            ))
            .expected("an entry that an op or the host has pushed")
            .found(state)
        };
        let (slot, content) = found.ok_or_else(starved)?;
        let index = match &content {
            SlotContent::Generated(_, index) => Some(*index),
            _ => None,
        };
        let entry = content.into_entry()?.ok_or_else(starved)?;
        if let Some(index) = index {
            self.with(queue, |queue| {
                queue.cache_entry(slot, index, &entry);
                Ok(())
            })?;
        }
        Ok(entry)
    }

    fn read_view(&self, view: &RamView, slot: usize) -> Result<TileTensor> {
        let first = slot * view.count;
        let mut entries = Vec::with_capacity(view.count);
        for slot in first..first + view.count {
            let content = self.with(&view.base, |base| Ok(base.content(slot)))?;
            entries.extend(content.into_entry()?);
        }
        view.read(&entries)
    }

    /// Writes an entry of an op.
    pub(super) fn write(&self, queue: &str, entry: TileTensor, control: &Control) -> Result<()> {
        let (view, outputs) = {
            let mut state = self.state();
            let index = state.find(queue)?;
            let recorded = state.queues[index].recorded;
            if recorded {
                state.output_bytes += bytes(&entry);
            }
            (state.view(queue)?, recorded.then_some(state.output_bytes))
        };
        if outputs.is_some_and(|bytes| bytes > self.0.limits.output_bytes) {
            let text = format!("outputs exceed their limit at queue '{queue}'");
            return Err(Error::new(ErrorKind::OutOfMemory, text)
                .expected(format_args!("at most {} bytes", self.0.limits.output_bytes))
                .help("run fewer loops"));
        }
        if let Some(view) = view {
            return self.write_view(queue, &view, &entry);
        }
        let done = self.wait_for(queue, self.0.limits.wait, control, |queue| {
            if queue.is_full() {
                return Ok(None);
            }
            queue.push(entry.clone()).map(Some)
        })?;
        done.ok_or_else(|| {
            let state = self
                .with(queue, |queue| Ok(queue.describe()))
                .unwrap_or_default();
            execution_failed(format!(
                "queue '{queue}' is full, and no op or host pops its entries"
            ))
            .found(state)
        })
    }

    fn write_view(&self, queue: &str, view: &RamView, entry: &TileTensor) -> Result<()> {
        let slot = self.with(queue, |queue| queue.write_slot())?;
        for (index, part) in view.write(entry)?.into_iter().enumerate() {
            self.with(&view.base, |base| base.put(slot * view.count + index, part))?;
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// The accumulated gradient of an op, if any.
    pub(super) fn sum(&self, op: &str) -> Option<TileTensor> {
        self.state().accumulators.get(op).cloned()
    }

    /// Stores the accumulated gradient of an op.
    pub(super) fn set_sum(&self, op: &str, sum: &TileTensor) {
        self.state().accumulators.insert(op.to_owned(), sum.clone());
    }

    /// Applies the setting of an execute; where it clears a ram, the accumulated gradient of its op is
    /// removed.
    pub(super) fn apply(&self, queue: &str, setting: QueueSetting, is_first: bool) -> Result<()> {
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

    /// Calls `work` with each queue.
    pub(super) fn with_each(&self, queues: &[String], work: impl Fn(&mut Queue)) -> Result<()> {
        let mut state = self.state();
        for queue in queues {
            let index = state.find(queue)?;
            work(&mut state.queues[index]);
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// The state that an epoch may change.
    pub(super) fn snapshot(&self) -> MachineSnapshot {
        let state = self.state();
        let queue = |queue: &Queue| (queue.without_outputs(), queue.outputs.len());
        MachineSnapshot {
            queues: state.queues.iter().map(queue).collect(),
            accumulators: state.accumulators.clone(),
            output_bytes: state.output_bytes,
        }
    }

    /// Undoes the changes of an epoch.
    pub(super) fn restore(&self, before: MachineSnapshot) {
        let mut state = self.state();
        for (queue, (before, outputs)) in state.queues.iter_mut().zip(before.queues) {
            let mut stored = std::mem::take(&mut queue.outputs);
            stored.truncate(outputs);
            *queue = before;
            queue.outputs = stored;
        }
        state.accumulators = before.accumulators;
        state.output_bytes = before.output_bytes;
        self.0.changed.notify_all();
    }

    /// Calls `work` with one queue, and wakes the threads that wait for queues.
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

    /// Calls `work` with a queue until it returns a value, each time that a queue changes; `None` after
    /// `wait`.
    fn wait_for<T>(
        &self,
        queue: &str,
        wait: Duration,
        control: &Control,
        work: impl Fn(&mut Queue) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let start = Instant::now();
        let mut state = self.state();
        let index = state.find(queue)?;
        loop {
            if let Some(done) = work(&mut state.queues[index])? {
                self.0.changed.notify_all();
                return Ok(Some(done));
            }
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            control.check()?;
            let waited = self
                .0
                .changed
                .wait_timeout(state, left.min(CANCEL_CHECK_INTERVAL));
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
pub(super) struct MachineSnapshot {
    /// Queues, and the number of outputs of each.
    queues: Vec<(Queue, usize)>,
    accumulators: HashMap<String, TileTensor>,
    output_bytes: usize,
}

impl State {
    fn find(&self, queue: &str) -> Result<usize> {
        self.names
            .get(queue)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no queue '{queue}'")))
    }

    /// The view of a ram that shares the memory of another: the ram with most entries has the memory
    /// (netlist 6.2).
    fn view(&self, queue: &str) -> Result<Option<RamView>> {
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
        // The first of several with the same number of entries.
        let base = all.reduce(|a, b| if b.entries > a.entries { b } else { a });
        let base = base.filter(|base| base.name != own.name);
        base.map(|base| RamView::new(own, base)).transpose()
    }
}

fn bytes(entry: &TileTensor) -> usize {
    std::mem::size_of_val(entry.values())
}

fn execution_failed(message: String) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}

#[cfg(test)]
mod tests;
