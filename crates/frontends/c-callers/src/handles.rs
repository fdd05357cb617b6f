//! Generational handles: opaque values that callers hold in place of pointers.
//!
//! A handle is an integer cast to a pointer: the kind of object, the slot in a table, and the
//! generation of the slot. It is never dereferenced, so that stale and invalid handles are detected.

use std::ffi::c_void;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tenon_base::{Error, ErrorKind, Result};

/// Bits of a handle: 4 zero, 24 slot, 28 generation, 8 kind.
const SLOT_SHIFT: u32 = 4;
const SLOT_BITS: u32 = 24;
const GENERATION_SHIFT: u32 = SLOT_SHIFT + SLOT_BITS;
const GENERATION_BITS: u32 = 28;
const KIND_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;

/// A handle in C: a pointer to an opaque struct.
pub type Handle = *mut c_void;

/// The table of all objects of one kind.
pub struct Handles<T> {
    /// Not zero, so that no handle is null.
    kind: u8,
    words: &'static str,
    /// The error of handles that [`Self::clear`] removed.
    check_cleared: Option<fn() -> Result<()>>,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    all: Vec<Slot<T>>,
    free: Vec<u32>,
    /// [`Handles::clear`] removed handles of this table.
    cleared: bool,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T: Clone> Handles<T> {
    /// An empty table; `words` name the kind of object.
    pub const fn new(kind: u8, words: &'static str) -> Self {
        Self {
            kind,
            words,
            check_cleared: None,
            slots: RwLock::new(Slots {
                all: Vec::new(),
                free: Vec::new(),
                cleared: false,
            }),
        }
    }

    /// Once [`Self::clear`] was called, an invalid handle gets the error of `check`, if it returns one.
    pub const fn cleared_by(mut self, check: fn() -> Result<()>) -> Self {
        self.check_cleared = Some(check);
        self
    }

    /// Adds `value` and returns its handle.
    pub fn insert(&self, value: T) -> Result<Handle> {
        let mut slots = self.write();
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.all.len() < 1 << SLOT_BITS => {
                slots.all.push(Slot {
                    generation: 0,
                    value: None,
                });
                slots.all.len() as u32 - 1
            }
            None => {
                let text = format!("too many handles of a {}", self.words);
                return Err(Error::new(ErrorKind::OutOfMemory, text));
            }
        };
        let place = &mut slots.all[slot as usize];
        place.value = Some(value);
        let number = u64::from(slot) << SLOT_SHIFT
            | u64::from(place.generation) << GENERATION_SHIFT
            | u64::from(self.kind) << KIND_SHIFT;
        Ok(std::ptr::without_provenance_mut(number as usize))
    }

    /// The value of a handle.
    #[inline]
    pub fn find<P>(&self, handle: *const P) -> Result<T> {
        let slots = self.read();
        let found = self.slot(handle.addr()).and_then(|(slot, generation)| {
            let place = slots.all.get(slot)?;
            let current = place.generation == generation;
            place.value.as_ref().filter(|_| current)
        });
        match found {
            Some(value) => Ok(value.clone()),
            None => Err(self.invalid(handle.addr(), slots.cleared)),
        }
    }

    /// Removes a handle, which is stale afterwards, and returns its value.
    pub fn remove<P>(&self, handle: *const P) -> Result<T> {
        let mut slots = self.write();
        let taken = self.slot(handle.addr()).and_then(|(slot, generation)| {
            let place = slots.all.get_mut(slot)?;
            let value = (place.generation == generation).then(|| place.value.take())??;
            place.generation += 1;
            // A slot whose generations are exhausted is not reused.
            if place.generation < 1 << GENERATION_BITS {
                slots.free.push(slot as u32);
            }
            Some(value)
        });
        let cleared = slots.cleared;
        drop(slots);
        taken.ok_or_else(|| self.invalid(handle.addr(), cleared))
    }

    /// All values.
    pub fn values(&self) -> Vec<T> {
        let slots = self.read();
        let values = slots.all.iter().filter_map(|slot| slot.value.clone());
        values.collect()
    }

    /// Removes all handles and returns their values.
    pub fn clear(&self) -> Vec<T> {
        let mut slots = self.write();
        let Slots { all, free, cleared } = &mut *slots;
        *cleared = true;
        let mut values = Vec::new();
        for (slot, place) in all.iter_mut().enumerate() {
            if let Some(value) = place.value.take() {
                values.push(value);
                place.generation += 1;
                if place.generation < 1 << GENERATION_BITS {
                    free.push(slot as u32);
                }
            }
        }
        values
    }

    /// Slot and generation of an integer, if it is a handle of this kind.
    fn slot(&self, number: usize) -> Option<(usize, u32)> {
        let number = number as u64;
        let is_valid =
            number >> KIND_SHIFT == u64::from(self.kind) && number & ((1 << SLOT_SHIFT) - 1) == 0;
        let slot = number >> SLOT_SHIFT & ((1 << SLOT_BITS) - 1);
        let generation = number >> GENERATION_SHIFT & ((1 << GENERATION_BITS) - 1);
        is_valid.then_some((slot as usize, generation as u32))
    }

    /// The error of a number that is no handle of the table.
    #[cold]
    fn invalid(&self, number: usize, cleared: bool) -> Error {
        if let (true, Some(_), Some(check)) = (cleared, self.slot(number), self.check_cleared)
            && let Err(error) = check()
        {
            return error;
        }
        let words = self.words;
        let text = match (number, self.slot(number)) {
            (0, _) => format!("the {words} is NULL"),
            (_, Some(_)) => format!("the {words} was freed before"),
            _ => format!("not a handle of a {words}"),
        };
        Error::new(ErrorKind::InvalidHandle, text).found(format_args!("{number:#x}"))
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots<T>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<T>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_foreign_handles_are_detected() {
        let ended = || Err(Error::new(ErrorKind::Uninitialized, "not started"));
        let integers = Handles::<u32>::new(1, "integer").cleared_by(ended);
        let strings = Handles::<u32>::new(2, "string");
        let first = integers.insert(7).unwrap();
        assert_eq!(integers.find(first).unwrap(), 7);
        assert_eq!(integers.remove(first).unwrap(), 7);
        let second = integers.insert(8).unwrap();
        assert_ne!(first, second);
        let text = |error: Error| error.message().to_owned();
        assert_eq!(
            text(integers.find(first).unwrap_err()),
            "the integer was freed before"
        );
        assert_eq!(
            text(integers.remove(first).unwrap_err()),
            "the integer was freed before"
        );
        let foreign = strings.find(second).unwrap_err();
        assert_eq!(foreign.kind(), ErrorKind::InvalidHandle);
        assert_eq!(text(foreign), "not a handle of a string");
        let null = integers.find(std::ptr::null::<u8>()).unwrap_err();
        assert_eq!(text(null), "the integer is NULL");
        let local = 5u8;
        assert!(integers.find(&raw const local).is_err());
        assert_eq!(integers.clear(), [8]);
        let cleared = integers.find(second).unwrap_err();
        assert_eq!(cleared.kind(), ErrorKind::Uninitialized);
        let third = integers.insert(9).unwrap();
        assert!(third != second && integers.find(third).unwrap() == 9);
    }
}
