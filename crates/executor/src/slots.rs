//! The registers of one execution: written by one kernel each, read by those that come after.

use crate::Value;
use std::cell::UnsafeCell;

/// Registers by number. Threads may share them as far as [`View::new`] promises.
pub(crate) struct Slots(Box<[UnsafeCell<Value>]>);

// SAFETY: values are `Send + Sync`; who reads and writes when is the promise of `View::new` and of
// the other unsafe functions.
unsafe impl Sync for Slots {}

impl Slots {
    /// So many empty registers.
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::default()).collect())
    }

    /// A register that is not written meanwhile.
    ///
    /// # Safety
    /// Nobody may write the register while the reference lives, and what was written before must
    /// have been made known to this thread.
    #[inline]
    pub(crate) unsafe fn read(&self, register: u32) -> &Value {
        // SAFETY: the caller's promise; the index is checked.
        unsafe { &*self.0[register as usize].get() }
    }

    /// Exchanges the value of a register.
    ///
    /// # Safety
    /// Nobody else may read or write the register meanwhile.
    #[inline]
    pub(crate) unsafe fn replace(&self, register: u32, value: Value) -> Value {
        // SAFETY: the caller's promise; the index is checked.
        unsafe { std::mem::replace(&mut *self.0[register as usize].get(), value) }
    }
}

/// The registers of one execution of one synchronous function, used again by the next.
pub struct Registers(Slots);

impl Registers {
    pub(crate) fn new(count: usize) -> Self {
        Self(Slots::new(count))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.0.len()
    }

    /// A register; empty when there are not as many.
    pub(crate) fn value(&self, register: u32) -> &Value {
        const EMPTY: &Value = &Value::Empty;
        let slot = self.0.0.get(register as usize);
        // SAFETY: registers of this kind are written only by who has them for itself.
        slot.map_or(EMPTY, |slot| unsafe { &*slot.get() })
    }

    /// Sets a register.
    #[inline]
    pub(crate) fn set(&mut self, register: u32, value: Value) {
        if let Some(slot) = self.0.0.get_mut(register as usize) {
            *slot.get_mut() = value;
        }
    }

    /// Empties all registers.
    pub(crate) fn clear(&mut self) {
        for slot in &mut self.0.0 {
            *slot.get_mut() = Value::Empty;
        }
    }

    /// Operands and results of one kernel.
    #[inline]
    pub(crate) fn view<'a>(&'a mut self, operands: &'a [u32], results: &'a [u32]) -> View<'a> {
        View {
            slots: &self.0,
            operands,
            results,
        }
    }
}

/// The registers that one run of one kernel may touch.
pub(crate) struct View<'a> {
    slots: &'a Slots,
    operands: &'a [u32],
    results: &'a [u32],
}

impl<'a> View<'a> {
    /// # Safety
    /// While the view lives nobody may write the operands, and nobody but the view may read or
    /// write the results; what was written to the operands must have been made known to this thread.
    #[inline]
    pub(crate) unsafe fn new(slots: &'a Slots, operands: &'a [u32], results: &'a [u32]) -> Self {
        Self {
            slots,
            operands,
            results,
        }
    }

    #[inline]
    pub(crate) fn operands(&self) -> usize {
        self.operands.len()
    }

    #[inline]
    pub(crate) fn results(&self) -> usize {
        self.results.len()
    }

    #[inline]
    pub(crate) fn operand(&self, index: usize) -> Option<&Value> {
        let register = *self.operands.get(index)?;
        // SAFETY: nobody else writes it by the promise of `new`; `set` needs the view for itself.
        Some(unsafe { self.slots.read(register) })
    }

    #[inline]
    pub(crate) fn result(&self, index: usize) -> Option<&Value> {
        let register = *self.results.get(index)?;
        // SAFETY: as above.
        Some(unsafe { self.slots.read(register) })
    }

    /// Sets a result; one that is not there is dropped.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: Value) {
        if let Some(&register) = self.results.get(index) {
            // SAFETY: only this view touches its results, and it is borrowed for itself here, so
            // that no reference from `operand` or `result` lives.
            drop(unsafe { self.slots.replace(register, value) });
        }
    }
}
