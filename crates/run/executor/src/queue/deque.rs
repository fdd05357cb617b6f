//! A bounded work-stealing deque with a state per slot, after `RunQueue` of Eigen's thread pool
//! (Vyukov): the owner pushes and pops the newest item without a lock, other threads steal the
//! oldest one.
//!
//! Taking an item is one compare-exchange of its slot's state. So the two ends need not compare
//! their positions, as those of the Chase–Lev deque (2005) do: only the owner has the front, only
//! thieves have the back. The deque is empty for the owner if the slot before the front is not full
//! (items are stolen oldest first, so all older slots were emptied before), and full if the slot at
//! the front is not free. Thieves lock the back with one compare-exchange; a thief that finds it
//! locked tries another worker, and the owner never waits for a thief. Compared with
//! `crossbeam-deque`: ARCHITECTURE.md, "Libraries that were not taken".

#![allow(
    unsafe_code,
    reason = "registers, results and counts that threads share"
)]

use crate::sync::{Arc, AtomicU8, AtomicUsize, Ordering, UnsafeCell};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

const FREE: u8 = 0;
const FULL: u8 = 1;
/// A thief is reading the item.
const STEALING: u8 = 2;

/// The value of [`Shared::back`] while a thief has it locked.
const LOCKED: usize = usize::MAX;

struct Slot<T> {
    state: AtomicU8,
    item: UnsafeCell<MaybeUninit<T>>,
}

/// The position of the oldest item, on a separate cache line: the owner does not read it.
#[repr(align(128))]
struct Back(AtomicUsize);

struct Shared<T, const SLOTS: usize> {
    back: Back,
    slots: Box<[Slot<T>; SLOTS]>,
}

// SAFETY: items move between threads (`T: Send`), and the state of a slot gives one thread access
// to its item: the owner while FREE, the thread whose compare-exchange left FULL after that.
unsafe impl<T: Send, const SLOTS: usize> Sync for Shared<T, SLOTS> {}
// SAFETY: the fields are owned heap memory of `T: Send` items and atomics, none of which depends on
// the creating thread.
unsafe impl<T: Send, const SLOTS: usize> Send for Shared<T, SLOTS> {}

/// The owner's end, at the newest item; used by one thread.
pub struct Owner<T, const SLOTS: usize> {
    shared: Arc<Shared<T, SLOTS>>,
    /// The slot to fill next.
    front: Cell<usize>,
    /// Makes the type `!Sync`: the owner's end may be sent to another thread but not shared.
    one_thread: PhantomData<Cell<T>>,
}

/// The thieves' end, at the oldest item.
pub struct Stealer<T, const SLOTS: usize> {
    shared: Arc<Shared<T, SLOTS>>,
}

impl<T, const SLOTS: usize> Clone for Stealer<T, SLOTS> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// The result of stealing.
#[derive(Debug, PartialEq, Eq)]
pub enum StealResult<T> {
    /// The oldest item.
    Item(T),
    /// The deque was empty.
    Empty,
    /// Another thread was stealing; there may be more items.
    Retry,
}

/// A deque of `SLOTS` (a power of two) slots.
pub fn deque<T, const SLOTS: usize>() -> (Owner<T, SLOTS>, Stealer<T, SLOTS>) {
    const { assert!(SLOTS.is_power_of_two(), "positions wrap around") };
    let free = || Slot {
        state: AtomicU8::new(FREE),
        item: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let slots: Box<[Slot<T>]> = (0..SLOTS).map(|_| free()).collect();
    let Ok(slots) = slots.try_into() else {
        unreachable!("SLOTS slots were made")
    };
    let shared = Arc::new(Shared {
        back: Back(AtomicUsize::new(0)),
        slots,
    });
    let owner = Owner {
        shared: shared.clone(),
        front: Cell::new(0),
        one_thread: PhantomData,
    };
    (owner, Stealer { shared })
}

impl<T: Send, const SLOTS: usize> Owner<T, SLOTS> {
    /// Pushes an item; returns it when the deque is full.
    pub fn push(&self, item: T) -> Result<(), T> {
        let front = self.front.get();
        let slot = &self.shared.slots[front];
        // Acquire: pairs with the release of the thief that freed the slot after reading its item.
        if slot.state.load(Ordering::Acquire) != FREE {
            return Err(item);
        }
        // SAFETY: the slot is FREE, so no thief accesses it, and only the owner (this thread, by
        // `!Sync`) writes free slots.
        slot.item.with_mut(|place| unsafe { (*place).write(item) });
        slot.state.store(FULL, Ordering::Release);
        self.front.set(front.wrapping_add(1) % SLOTS);
        Ok(())
    }

    /// Pops the newest item.
    pub fn pop(&self) -> Option<T> {
        let newest = self.front.get().wrapping_sub(1) % SLOTS;
        let slot = &self.shared.slots[newest];
        // Relaxed: the owner wrote the item itself.
        slot.state
            .compare_exchange(FULL, FREE, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        self.front.set(newest);
        // SAFETY: the state was FULL, so the item is initialised; this thread's exchange took it,
        // and only the owner (this thread) writes free slots.
        Some(
            slot.item
                .with(|place| unsafe { (*place).assume_init_read() }),
        )
    }
}

impl<T: Send, const SLOTS: usize> Stealer<T, SLOTS> {
    /// Steals the oldest item.
    pub fn steal(&self) -> StealResult<T> {
        let Shared { back, slots } = &*self.shared;
        let oldest = back.0.load(Ordering::Relaxed);
        if oldest == LOCKED {
            return StealResult::Retry;
        }
        let slot = &slots[oldest];
        // Checked first, so that passing an empty deque writes nothing. (loom records only the last
        // access of an atomic, so this load would hide races of the exchange below.)
        if cfg!(not(loom)) && slot.state.load(Ordering::Relaxed) != FULL {
            return StealResult::Empty;
        }
        if back
            .0
            .compare_exchange(oldest, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return StealResult::Retry;
        }
        // Acquire: pairs with the release of the owner after it wrote the item.
        let taken =
            slot.state
                .compare_exchange(FULL, STEALING, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            back.0.store(oldest, Ordering::Release);
            return StealResult::Empty;
        }
        // SAFETY: the state was FULL, so the item is initialised; the owner does not access a slot
        // that is STEALING.
        let item = slot
            .item
            .with(|place| unsafe { (*place).assume_init_read() });
        slot.state.store(FREE, Ordering::Release);
        back.0.store((oldest + 1) % SLOTS, Ordering::Release);
        StealResult::Item(item)
    }

    /// Whether there was nothing to steal at the moment of the check.
    pub fn is_empty(&self) -> bool {
        let oldest = self.shared.back.0.load(Ordering::Acquire);
        oldest != LOCKED && self.shared.slots[oldest].state.load(Ordering::Acquire) != FULL
    }
}

impl<T, const SLOTS: usize> Drop for Shared<T, SLOTS> {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            if slot.state.load(Ordering::Acquire) == FULL {
                // SAFETY: the slot is FULL, so the item is initialised; `&mut self` is the last
                // reference.
                slot.item
                    .with_mut(|place| unsafe { (*place).assume_init_drop() });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, AtomicUsize};

    #[test]
    fn the_owner_pops_the_newest_and_a_thief_steals_the_oldest() {
        let (owner, stealer) = deque::<u32, 4>();
        (0..4).for_each(|number| owner.push(number).unwrap());
        assert_eq!(owner.push(4), Err(4));
        assert_eq!(stealer.steal(), StealResult::Item(0));
        assert_eq!(owner.pop(), Some(3));
        owner.push(5).unwrap();
        owner.push(6).unwrap();
        assert_eq!(owner.push(7), Err(7));
        assert_eq!(owner.pop(), Some(6));
        assert_eq!(stealer.steal(), StealResult::Item(1));
        assert_eq!(stealer.steal(), StealResult::Item(2));
        assert!(!stealer.is_empty());
        assert_eq!(owner.pop(), Some(5));
        assert!(stealer.is_empty());
        assert_eq!((owner.pop(), stealer.steal()), (None, StealResult::Empty));
    }

    #[test]
    fn positions_wrap_around_at_any_length() {
        let (owner, stealer) = deque::<usize, 8>();
        let mut model = std::collections::VecDeque::new();
        for step in 0..10_000 {
            // A deterministic sequence of operations that fills and empties the deque.
            match (step * 7 + step / 13) % 5 {
                0 | 1 => match owner.push(step) {
                    Ok(()) => model.push_front(step),
                    Err(_) => assert_eq!(model.len(), 8),
                },
                2 => assert_eq!(owner.pop(), model.pop_front()),
                _ => match stealer.steal() {
                    StealResult::Item(item) => assert_eq!(Some(item), model.pop_back()),
                    other => assert_eq!((other, model.len()), (StealResult::Empty, 0)),
                },
            }
        }
    }

    #[test]
    fn remaining_items_are_dropped_once() {
        struct DropCounter(Arc<AtomicU32>);
        impl Drop for DropCounter {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drops = Arc::new(AtomicU32::new(0));
        let (owner, stealer) = deque::<DropCounter, 8>();
        for _ in 0..6 {
            assert!(owner.push(DropCounter(drops.clone())).is_ok());
        }
        drop(owner.pop());
        drop(stealer.steal());
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        drop((owner, stealer));
        assert_eq!(drops.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn every_item_is_taken_once_by_the_owner_or_a_thief() {
        const ITEMS: usize = 200_000;
        let taken: Vec<AtomicU32> = (0..ITEMS).map(|_| AtomicU32::new(0)).collect();
        let left = AtomicUsize::new(ITEMS);
        let take = |item: Box<usize>| {
            taken[*item].fetch_add(1, Ordering::Relaxed);
            left.fetch_sub(1, Ordering::Relaxed);
        };
        let (owner, stealer) = deque::<Box<usize>, 16>();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let stealer = stealer.clone();
                    while left.load(Ordering::Relaxed) > 0 {
                        match stealer.steal() {
                            StealResult::Item(item) => take(item),
                            _ => std::thread::yield_now(),
                        }
                    }
                });
            }
            for number in 0..ITEMS {
                if let Err(item) = owner.push(Box::new(number)) {
                    take(item);
                }
                // Keeps the deque nearly empty, where both ends compete.
                if number % 3 != 0 {
                    owner.pop().into_iter().for_each(take);
                }
            }
            while let Some(item) = owner.pop() {
                take(item);
            }
        });
        assert!(taken.iter().all(|taken| taken.load(Ordering::Relaxed) == 1));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::thread;

    /// Runs thieves against `owner_work`, and checks that each item is taken exactly once.
    fn taken(thieves: usize, owner_work: fn(&Owner<u32, 2>) -> Vec<u32>) {
        loom::model(move || {
            let (owner, stealer) = deque::<u32, 2>();
            let thieves: Vec<_> = (0..thieves)
                .map(|_| {
                    let stealer = stealer.clone();
                    thread::spawn(move || match stealer.steal() {
                        StealResult::Item(item) => vec![item],
                        StealResult::Empty | StealResult::Retry => vec![],
                    })
                })
                .collect();
            let mut all = owner_work(&owner);
            let pushed = all.pop().unwrap();
            for thief in thieves {
                all.extend(thief.join().unwrap());
            }
            while let Some(item) = owner.pop() {
                all.push(item);
            }
            assert!(stealer.is_empty());
            all.sort_unstable();
            assert_eq!(all, (0..pushed).collect::<Vec<_>>());
        });
    }

    #[test]
    fn owner_and_thieves_compete_for_the_last_item() {
        taken(2, |owner| {
            owner.push(0).unwrap();
            let mut items: Vec<u32> = owner.pop().into_iter().collect();
            items.push(1);
            items
        });
    }

    #[test]
    fn owner_and_thieves_compete_for_several_items() {
        taken(2, |owner| {
            owner.push(0).unwrap();
            owner.push(1).unwrap();
            let mut items: Vec<u32> = owner.pop().into_iter().collect();
            items.push(2);
            items
        });
    }

    #[test]
    fn a_slot_is_reused_only_after_a_thief_has_freed_it() {
        taken(1, |owner| {
            let mut items = Vec::new();
            for item in 0..4 {
                if let Err(item) = owner.push(item) {
                    items.push(item);
                }
            }
            items.push(4);
            items
        });
    }
}
