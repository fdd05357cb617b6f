//! One queue or ram: its slots and pointers (facts 6.1 and 6.2).

use crate::tensor::Tensor;
use std::rc::Rc;
use tenon_netlist::QueueKind;

/// What the host pushes, in order and from the start again.
#[derive(Debug, Clone)]
struct Source {
    entries: Vec<Rc<Tensor>>,
    next: usize,
}

/// A queue or ram. Pointers of a queue run modulo twice its entries, those of a ram modulo once.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    kind: QueueKind,
    slots: Vec<Option<Rc<Tensor>>>,
    read: usize,
    write: usize,
    source: Option<Source>,
    /// Whether anything reads it here; what nobody reads is taken away as it comes.
    is_read: bool,
    /// All that was pushed, where that is an answer.
    pushed: Option<Vec<Rc<Tensor>>>,
}

impl Store {
    pub(crate) fn new(kind: QueueKind, entries: usize, is_read: bool, kept: bool) -> Self {
        Self {
            kind,
            slots: vec![None; entries],
            read: 0,
            write: 0,
            source: None,
            is_read,
            pushed: kept.then(Vec::new),
        }
    }

    /// Gives it what the host has for it: a queue is filled now and whenever it has room, a ram
    /// gets its first slots.
    pub(crate) fn feed(&mut self, entries: Vec<Rc<Tensor>>) {
        match self.kind {
            QueueKind::Ram => {
                for (slot, entry) in self.slots.iter_mut().zip(entries) {
                    *slot = Some(entry);
                }
            }
            QueueKind::Queue if !entries.is_empty() => {
                self.source = Some(Source { entries, next: 0 });
                self.refill();
            }
            QueueKind::Queue => {}
        }
    }

    fn entries(&self) -> usize {
        self.slots.len()
    }

    /// One past the largest pointer.
    fn end(&self) -> usize {
        match self.kind {
            QueueKind::Queue => 2 * self.entries(),
            QueueKind::Ram => self.entries(),
        }
    }

    fn wrapped(&self, pointer: i64) -> usize {
        pointer.rem_euclid(self.end() as i64) as usize
    }

    /// Entries from the read pointer to the write pointer of a queue.
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

    /// Moves the read pointer; never fails: only reading does (facts 6.4b).
    pub(crate) fn set_read(&mut self, pointer: i64) {
        self.read = self.wrapped(pointer);
        if self.kind == QueueKind::Queue {
            self.refill();
        }
    }

    /// Moves the write pointer of a ram.
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

    /// The entry of a queue at a local pointer; `None` when nothing was pushed there, or it was
    /// popped.
    pub(crate) fn peek(&self, pointer: i64) -> Option<Rc<Tensor>> {
        let pointer = self.wrapped(pointer);
        let ahead = (pointer + self.end() - self.read) % self.end();
        let there = ahead < self.occupancy() || self.source.is_some();
        self.slots[pointer % self.entries()]
            .clone()
            .filter(|_| there)
    }

    /// Appends to a queue; false when it is full and somebody reads it.
    pub(crate) fn push(&mut self, entry: Rc<Tensor>) -> bool {
        if let Some(pushed) = &mut self.pushed {
            pushed.push(entry.clone());
        }
        if !self.is_read {
            return true;
        }
        if self.occupancy() >= self.entries() {
            return false;
        }
        let slot = self.write % self.entries();
        self.slots[slot] = Some(entry);
        self.write = (self.write + 1) % self.end();
        true
    }

    /// The slot that a ram is read at.
    pub(crate) fn read_slot(&self) -> usize {
        self.read % self.entries()
    }

    /// The slot that a ram is written at.
    pub(crate) fn write_slot(&self) -> usize {
        self.write % self.entries()
    }

    pub(crate) fn slot(&self, slot: usize) -> Option<Rc<Tensor>> {
        self.slots.get(slot)?.clone()
    }

    pub(crate) fn set_slot(&mut self, slot: usize, entry: Rc<Tensor>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(entry);
        }
    }

    /// Zeros everywhere: an empty slot is read as zeros.
    pub(crate) fn zero(&mut self, zeros: &Rc<Tensor>) {
        for slot in &mut self.slots {
            if slot.is_some() {
                *slot = Some(zeros.clone());
            }
        }
    }

    /// Begins a new life.
    pub(crate) fn clear(&mut self) {
        (self.read, self.write) = (0, 0);
        self.slots.fill(None);
        if self.kind == QueueKind::Queue {
            self.refill();
        }
    }

    /// All that was pushed, where that is an answer; the slots of a ram.
    pub(crate) fn answer(&self, zeros: &Rc<Tensor>) -> Option<Vec<Rc<Tensor>>> {
        match self.kind {
            QueueKind::Queue => self.pushed.clone(),
            QueueKind::Ram => {
                let slots = self.slots.iter();
                Some(
                    slots
                        .map(|slot| slot.clone().unwrap_or_else(|| zeros.clone()))
                        .collect(),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: usize) -> Rc<Tensor> {
        Rc::new(Tensor::from_fn(1, 1, 1, |_, _, _| value as f32))
    }

    fn at(store: &Store, pointer: i64) -> Option<f32> {
        store.peek(pointer).map(|entry| entry.values[0])
    }

    #[test]
    fn a_queue_is_empty_full_and_empty_again() {
        let mut store = Store::new(QueueKind::Queue, 2, true, false);
        assert_eq!(at(&store, 0), None);
        assert!(store.push(number(1)) && store.push(number(2)));
        assert!(!store.push(number(3)));
        assert_eq!(
            (at(&store, 0), at(&store, 1), at(&store, 2)),
            (Some(1.0), Some(2.0), None)
        );
        store.set_read(2);
        assert_eq!(at(&store, 2), None);
        assert!(store.push(number(3)));
        assert_eq!(at(&store, 2), Some(3.0));
    }

    #[test]
    fn the_host_fills_its_queue_again_from_the_start() {
        let mut store = Store::new(QueueKind::Queue, 2, true, false);
        store.feed(vec![number(1), number(2), number(3)]);
        store.set_read(1);
        assert_eq!((at(&store, 1), at(&store, 2)), (Some(2.0), Some(3.0)));
        store.set_read(2);
        assert_eq!(at(&store, 3), Some(1.0));
    }

    #[test]
    fn what_nobody_reads_is_kept_in_order() {
        let mut store = Store::new(QueueKind::Queue, 1, false, true);
        for value in 0..4 {
            assert!(store.push(number(value)));
        }
        let answer = store.answer(&number(0)).unwrap();
        assert_eq!(
            answer
                .iter()
                .map(|entry| entry.values[0])
                .collect::<Vec<_>>(),
            [0.0, 1.0, 2.0, 3.0]
        );
    }

    #[test]
    fn pointers_of_a_ram_wrap_at_its_entries() {
        let mut store = Store::new(QueueKind::Ram, 3, true, false);
        store.set_write(5);
        assert_eq!(store.write_slot(), 2);
        store.advance_write(1);
        assert_eq!(store.write_slot(), 0);
        store.set_read(-1);
        assert_eq!(store.read_slot(), 2);
    }
}
