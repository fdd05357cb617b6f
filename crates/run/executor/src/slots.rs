//! The registers of one execution: each is written by one kernel and read by later ones.

#![allow(
    unsafe_code,
    reason = "registers, results and counts that threads share"
)]

use crate::Value;
use crate::code::Slice;
use std::cell::UnsafeCell;

/// Registers by slot. Threads share them under the conditions of the unsafe functions.
pub(crate) struct Slots(Box<[UnsafeCell<Value>]>);

// SAFETY: `Value` is `Send + Sync`, and every access is through an unsafe function whose caller
// guarantees that no write is concurrent with another access of the register.
unsafe impl Sync for Slots {}

impl Slots {
    /// `count` empty registers.
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::default()).collect())
    }

    /// The value of a register.
    ///
    /// # Safety
    /// No thread may write the register while the reference lives, and earlier writes must happen
    /// before this call.
    #[inline]
    pub(crate) unsafe fn read(&self, register: u32) -> &Value {
        // SAFETY: the caller guarantees that no write is concurrent with the reference; the index
        // is checked.
        unsafe { &*self.0[register as usize].get() }
    }

    /// Sets a register; its old value is dropped.
    ///
    /// # Safety
    /// No other thread may access the register during the call.
    #[inline(always)]
    pub(crate) unsafe fn set(&self, register: u32, value: Value) {
        // SAFETY: the caller guarantees exclusive access during the call; the index is checked.
        Vacant::new(unsafe { &mut *self.0[register as usize].get() }).fill(value);
    }

    /// Empties a register without reading its old value, which must not need dropping: this avoids
    /// a dependency on the load.
    ///
    /// # Safety
    /// No other thread may access the register during the call. Its old value is not dropped.
    #[inline]
    pub(crate) unsafe fn reset(&self, register: u32) {
        // SAFETY: the caller guarantees exclusive access during the call; the index is checked.
        unsafe { self.0[register as usize].get().write(Value::Empty) }
    }
}

/// The registers of one execution of a synchronous function, reused by the next one.
pub struct Registers(Slots);

impl Registers {
    pub(crate) fn new(count: usize) -> Self {
        Self(Slots::new(count))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.0.len()
    }

    /// The value of a register; empty for a slot out of range.
    pub(crate) fn value(&self, register: u32) -> &Value {
        const EMPTY: &Value = &Value::Empty;
        let slot = self.0.0.get(register as usize);
        // SAFETY: `Registers` are written only through `&mut self` (`set`, `release`, `clear` and
        // the `View` of `view`), which this shared borrow excludes.
        slot.map_or(EMPTY, |slot| unsafe { &*slot.get() })
    }

    /// Sets a register.
    #[inline]
    pub(crate) fn set(&mut self, register: u32, value: Value) {
        if let Some(slot) = self.0.0.get_mut(register as usize) {
            Vacant::new(slot.get_mut()).fill(value);
        }
    }

    /// Drops the value of a register if it needs dropping.
    #[inline]
    pub(crate) fn release(&mut self, register: u32) {
        if let Some(slot) = self.0.0.get_mut(register as usize) {
            Vacant::new(slot.get_mut());
        }
    }

    /// Drops the values of all registers.
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

/// A register whose value needs no dropping, to be filled with one value. Values should be
/// constructed after the register is vacant: the compiler then stores them directly. A value that
/// is built on the stack and copied is read with a wider load than it was stored, which defeats
/// store forwarding and stalls the processor.
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
        // SAFETY: the pointer is from a reference, so it is valid and aligned; the old value needs
        // no dropping (checked in `new`).
        unsafe { std::ptr::write(self.0, value) };
    }
}

#[cold]
#[inline(never)]
fn clear(slot: &mut Value) {
    *slot = Value::Empty;
}

/// The registers that one run of one kernel may access.
pub(crate) struct View<'a> {
    slots: &'a Slots,
    operands: &'a [u32],
    results: Slice,
}

impl<'a> View<'a> {
    /// # Safety
    /// While the view lives, no thread may write the operands, and only the view may access the
    /// results; the writes of the operands must happen before this call.
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
        // SAFETY: the caller of `new` guarantees that operands are not written while the view
        // lives; an operand that is also a result is written only through `&mut self`.
        Some(unsafe { self.slots.read(register) })
    }

    #[inline]
    pub(crate) fn result(&self, index: usize) -> Option<&Value> {
        let register = self.results.slot(index)?;
        // SAFETY: only this view accesses the results (see `new`), and it writes them only through
        // `&mut self`.
        Some(unsafe { self.slots.read(register) })
    }

    /// A result to be set.
    #[inline(always)]
    pub(crate) fn vacant(&mut self, index: usize) -> Option<Vacant<'_>> {
        let register = self.results.slot(index)?;
        // SAFETY: only this view accesses the results (see `new`), and `&mut self` excludes
        // references from `operand` and `result`.
        Some(Vacant::new(unsafe {
            &mut *self.slots.0[register as usize].get()
        }))
    }
}
