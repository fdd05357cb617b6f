//! The storage of a queue or ram: slots and pointers (netlist 6.1, 6.2).

use crate::tensor::{Tensor, filled, with_capacity};
use std::rc::Rc;
use tenon_base::{Error, Result, bounded};
use tenon_netlist::QueueKind;

/// The entries that the host pushes, cyclically.
#[derive(Debug)]
struct HostSource {
    entries: Vec<Rc<Tensor>>,
    next: usize,
}

/// A queue or ram. Pointers of a queue are modulo twice its entries, those of a ram modulo its
/// entries.
#[derive(Debug)]
pub(crate) struct Store {
    kind: QueueKind,
    slots: Vec<Option<Rc<Tensor>>>,
    read: usize,
    write: usize,
    source: Option<HostSource>,
    /// Whether an op reads it; pushes to a queue without reader never block.
    is_read: bool,
    /// All pushed entries of an output queue.
    pushed: Option<Vec<Rc<Tensor>>>,
}

impl Store {
    pub(crate) fn new(
        kind: QueueKind,
        entries: usize,
        is_read: bool,
        is_output: bool,
    ) -> Result<Self> {
        Ok(Self {
            kind,
            slots: filled("list of entries", None, entries)?,
            read: 0,
            write: 0,
            source: None,
            is_read,
            pushed: is_output.then(Vec::new),
        })
    }

    /// A copy, which shares the tensors.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        let copy = |tensors: &[Rc<Tensor>]| {
            let mut all = with_capacity("list of entries", tensors.len())?;
            all.extend_from_slice(tensors);
            Ok::<_, Error>(all)
        };
        let source = self.source.as_ref().map(|source| {
            Ok::<_, Error>(HostSource {
                entries: copy(&source.entries)?,
                next: source.next,
            })
        });
        let mut slots = with_capacity("list of entries", self.slots.len())?;
        slots.extend_from_slice(&self.slots);
        Ok(Self {
            slots,
            source: source.transpose()?,
            pushed: self.pushed.as_deref().map(copy).transpose()?,
            ..*self
        })
    }

    /// Sets the entries of the host: they fill a queue now and whenever it has free slots, and the
    /// first slots of a ram.
    pub(crate) fn set_source(&mut self, entries: Vec<Rc<Tensor>>) {
        match self.kind {
            QueueKind::Ram => {
                for (slot, entry) in self.slots.iter_mut().zip(entries) {
                    *slot = Some(entry);
                }
            }
            QueueKind::Queue if !entries.is_empty() => {
                self.source = Some(HostSource { entries, next: 0 });
                self.refill();
            }
            QueueKind::Queue => {}
        }
    }

    fn entries(&self) -> usize {
        self.slots.len()
    }

    /// The modulus of pointers.
    fn end(&self) -> usize {
        match self.kind {
            QueueKind::Queue => 2 * self.entries(),
            QueueKind::Ram => self.entries(),
        }
    }

    fn wrapped(&self, pointer: i64) -> usize {
        pointer.rem_euclid(self.end() as i64) as usize
    }

    /// Number of entries of a queue, from the read pointer to the write pointer.
    fn occupancy(&self) -> usize {
        (self.write + self.end() - self.read) % self.end()
    }

    fn refill(&mut self) {
        while self.occupancy() < self.entries() {
            let Some(source) = &mut self.source else {
                return;
            };
            let entry = source.entries[source.next].clone();
            source.next = (source.next + 1) % source.entries.len();
            let slot = self.write % self.slots.len();
            self.slots[slot] = Some(entry);
            self.write = (self.write + 1) % self.end();
        }
    }

    /// Sets the read pointer. It may be out of range: only reading fails (netlist 6.6).
    pub(crate) fn set_read(&mut self, pointer: i64) {
        self.read = self.wrapped(pointer);
        if self.kind == QueueKind::Queue {
            self.refill();
        }
    }

    /// Sets the write pointer of a ram.
    pub(crate) fn set_write(&mut self, pointer: i64) {
        self.write = self.wrapped(pointer);
    }

    pub(crate) fn advance_read(&mut self, step: i64) {
        self.set_read(self.read as i64 + step);
    }

    pub(crate) fn advance_write(&mut self, step: i64) {
        self.set_write(self.write as i64 + step);
    }

    pub(crate) fn read_pointer(&self) -> i64 {
        self.read as i64
    }

    pub(crate) fn kind(&self) -> QueueKind {
        self.kind
    }

    /// The entry of a queue at a local pointer; `None` if there is no entry.
    pub(crate) fn peek(&self, pointer: i64) -> Option<Rc<Tensor>> {
        let pointer = self.wrapped(pointer);
        let ahead = (pointer + self.end() - self.read) % self.end();
        let exists = ahead < self.occupancy() || self.source.is_some();
        self.slots[pointer % self.entries()]
            .clone()
            .filter(|_| exists)
    }

    /// Appends to a queue; false when it has a reader and is full.
    pub(crate) fn push(&mut self, entry: Rc<Tensor>) -> Result<bool> {
        if let Some(pushed) = &mut self.pushed {
            bounded::reserve("list of outputs", pushed, 1)?;
            pushed.push(entry.clone());
        }
        if !self.is_read {
            return Ok(true);
        }
        if self.occupancy() >= self.entries() {
            return Ok(false);
        }
        let slot = self.write % self.entries();
        self.slots[slot] = Some(entry);
        self.write = (self.write + 1) % self.end();
        Ok(true)
    }

    /// The read slot of a ram.
    pub(crate) fn read_slot(&self) -> usize {
        self.read % self.entries()
    }

    /// The write slot of a ram.
    pub(crate) fn write_slot(&self) -> usize {
        self.write % self.entries()
    }

    pub(crate) fn slot(&self, slot: usize) -> Option<Rc<Tensor>> {
        self.slots.get(slot)?.clone()
    }

    pub(crate) fn set_slot(&mut self, slot: usize, entry: Rc<Tensor>) {
        if let Some(target) = self.slots.get_mut(slot) {
            *target = Some(entry);
        }
    }

    /// Replaces all entries by zeros; an empty slot reads as zeros.
    pub(crate) fn zero(&mut self, zeros: &Rc<Tensor>) {
        for slot in &mut self.slots {
            if slot.is_some() {
                *slot = Some(zeros.clone());
            }
        }
    }

    /// Empties a queue or ram when it is allocated.
    pub(crate) fn clear(&mut self) {
        (self.read, self.write) = (0, 0);
        self.slots.fill(None);
        if self.kind == QueueKind::Queue {
            self.refill();
        }
    }

    /// The entries that were pushed to an output queue, or the slots of a ram; `None` for a queue that
    /// is not an output.
    pub(crate) fn output(&self, zeros: &Rc<Tensor>) -> Result<Option<Vec<Rc<Tensor>>>> {
        let mut entries = Vec::new();
        match (self.kind, &self.pushed) {
            (QueueKind::Queue, None) => return Ok(None),
            (QueueKind::Queue, Some(pushed)) => {
                bounded::reserve("list of outputs", &mut entries, pushed.len())?;
                entries.extend_from_slice(pushed);
            }
            (QueueKind::Ram, _) => {
                bounded::reserve("list of outputs", &mut entries, self.slots.len())?;
                let slots = self.slots.iter();
                entries.extend(slots.map(|slot| slot.as_ref().unwrap_or(zeros).clone()));
            }
        }
        Ok(Some(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(value: usize) -> Rc<Tensor> {
        Rc::new(Tensor::from_fn(1, 1, 1, |_, _, _| value as f32).unwrap())
    }

    fn store(kind: QueueKind, entries: usize, is_read: bool, is_output: bool) -> Store {
        Store::new(kind, entries, is_read, is_output).unwrap()
    }

    fn at(store: &Store, pointer: i64) -> Option<f32> {
        store.peek(pointer).map(|entry| entry.values[0])
    }

    #[test]
    fn a_queue_is_empty_full_and_empty_again() {
        let mut store = store(QueueKind::Queue, 2, true, false);
        assert_eq!(at(&store, 0), None);
        assert!(store.push(constant(1)).unwrap() && store.push(constant(2)).unwrap());
        assert!(!store.push(constant(3)).unwrap());
        assert_eq!(
            (at(&store, 0), at(&store, 1), at(&store, 2)),
            (Some(1.0), Some(2.0), None)
        );
        store.set_read(2);
        assert_eq!(at(&store, 2), None);
        assert!(store.push(constant(3)).unwrap());
        assert_eq!(at(&store, 2), Some(3.0));
    }

    #[test]
    fn the_host_pushes_its_entries_cyclically() {
        let mut store = store(QueueKind::Queue, 2, true, false);
        store.set_source(vec![constant(1), constant(2), constant(3)]);
        store.set_read(1);
        assert_eq!((at(&store, 1), at(&store, 2)), (Some(2.0), Some(3.0)));
        store.set_read(2);
        assert_eq!(at(&store, 3), Some(1.0));
    }

    #[test]
    fn an_output_queue_keeps_all_entries_in_order() {
        let mut store = store(QueueKind::Queue, 1, false, true);
        for value in 0..4 {
            assert!(store.push(constant(value)).unwrap());
        }
        let output = store.output(&constant(0)).unwrap().unwrap();
        let values: Vec<f32> = output.iter().map(|entry| entry.values[0]).collect();
        assert_eq!(values, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn pointers_of_a_ram_wrap_at_its_entries() {
        let mut store = store(QueueKind::Ram, 3, true, false);
        store.set_write(5);
        assert_eq!(store.write_slot(), 2);
        store.advance_write(1);
        assert_eq!(store.write_slot(), 0);
        store.set_read(-1);
        assert_eq!(store.read_slot(), 2);
    }
}
