//! The registers of one execution: written by one kernel each, read by those that come after.

use crate::Value;
use crate::code::Slice;
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

    /// Sets a register; what it held is dropped.
    ///
    /// # Safety
    /// Nobody else may read or write the register meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, register: u32, value: Value) {
        // SAFETY: the caller's promise; the index is checked.
        Vacant::new(unsafe { &mut *self.0[register as usize].get() }).fill(value);
    }

    /// Empties a register that holds nothing to drop, without looking at it: what it held is not
    /// waited for.
    ///
    /// # Safety
    /// Nobody else may read or write the register meanwhile. What it holds is never dropped.
    #[inline]
    pub(crate) unsafe fn reset(&self, register: u32) {
        // SAFETY: the caller's promise; the index is checked.
        unsafe { self.0[register as usize].get().write(Value::Empty) }
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
            Vacant::new(slot.get_mut()).fill(value);
        }
    }

    /// Drops what a register holds, if that does anything.
    #[inline]
    pub(crate) fn release(&mut self, register: u32) {
        if let Some(slot) = self.0.0.get_mut(register as usize) {
            Vacant::new(slot.get_mut());
        }
    }

    /// Drops what all registers hold.
    pub(crate) fn clear(&mut self) {
        for slot in &mut self.0.0 {
            Vacant::new(slot.get_mut());
        }
    }

    /// Operands and results of one kernel.
    #[inline]
    pub(crate) fn view<'a>(&'a mut self, operands: &'a [u32], results: Slice) -> View<'a> {
        View {
            slots: &self.0,
            operands,
            results,
        }
    }
}

/// A register that holds nothing to drop, for one value. Values are best made when the register is
/// vacant already: a number then goes there in one piece. Built up elsewhere and copied, its parts
/// would be read back before they are written, which stalls the processor.
pub(crate) struct Vacant<'a>(&'a mut Value);

impl<'a> Vacant<'a> {
    #[inline(always)]
    fn new(slot: &'a mut Value) -> Self {
        if slot.needs_drop() {
            clear(slot);
        }
        Self(slot)
    }

    /// Sets the register.
    #[inline(always)]
    pub(crate) fn fill(self, value: Value) {
        // SAFETY: what is there has nothing to drop.
        unsafe { std::ptr::write(self.0, value) };
    }
}

#[cold]
#[inline(never)]
fn clear(slot: &mut Value) {
    *slot = Value::Empty;
}

/// The registers that one run of one kernel may touch.
pub(crate) struct View<'a> {
    slots: &'a Slots,
    operands: &'a [u32],
    results: Slice,
}

impl<'a> View<'a> {
    /// # Safety
    /// While the view lives nobody may write the operands, and nobody but the view may read or
    /// write the results; what was written to the operands must have been made known to this thread.
    #[inline]
    pub(crate) unsafe fn new(slots: &'a Slots, operands: &'a [u32], results: Slice) -> Self {
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
        self.results.count as usize
    }

    #[inline]
    pub(crate) fn operand(&self, index: usize) -> Option<&Value> {
        let register = *self.operands.get(index)?;
        // SAFETY: nobody else writes it by the promise of `new`; `set` needs the view for itself.
        Some(unsafe { self.slots.read(register) })
    }

    #[inline]
    pub(crate) fn result(&self, index: usize) -> Option<&Value> {
        let register = self.results.slot(index)?;
        // SAFETY: as above.
        Some(unsafe { self.slots.read(register) })
    }

    /// A result to be set.
    #[inline(always)]
    pub(crate) fn vacant(&mut self, index: usize) -> Option<Vacant<'_>> {
        let register = self.results.slot(index)?;
        // SAFETY: only this view touches its results, and it is borrowed for itself here, so that
        // no reference from `operand` or `result` lives.
        Some(Vacant::new(unsafe {
            &mut *self.slots.0[register as usize].get()
        }))
    }
}
