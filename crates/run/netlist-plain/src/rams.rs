//! Reads and writes of rams, and views of their memory (netlist 6.2).

use crate::error::of_queue;
use crate::machine::{Machine, entry_shape};
use crate::tensor::{Tensor, filled, with_capacity};
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::Queue;

impl<'n> Machine<'n> {
    /// The base of a view, which is the ram with more entries, and the number of its entries per entry
    /// of the view (netlist 6.2).
    fn base(&self, queue: &'n Queue) -> Option<(&'n Queue, usize)> {
        let is_pair = |other: &&'n Queue| {
            let names =
                |a: &Queue, b: &Queue| a.alias.as_ref().is_some_and(|alias| *alias == b.name);
            names(queue, other) || names(other, queue)
        };
        let base = self
            .netlist
            .queues
            .iter()
            .filter(is_pair)
            .max_by_key(|other| other.entries.value)?;
        let (own, all) = (queue.entries.value, base.entries.value);
        let is_view = all > own || all == own && queue.alias.is_some();
        (is_view && all.is_multiple_of(own)).then_some((base, (all / own) as usize))
    }

    pub(crate) fn read_ram(&self, queue: &'n Queue) -> Result<Rc<Tensor>> {
        let name = queue.name.value.as_str();
        let store = &self.stores[name];
        match self.base(queue) {
            None => store
                .slot(store.read_slot())
                .map_or_else(|| self.zeros(queue), Ok),
            Some((base, n)) => self
                .read_view(queue, base, n)
                .map_err(|error| of_queue(name, error)),
        }
    }

    fn read_view(&self, queue: &'n Queue, base: &'n Queue, n: usize) -> Result<Rc<Tensor>> {
        let store = &self.stores[queue.name.value.as_str()];
        let memory = &self.stores[base.name.value.as_str()];
        let first = store.read_slot() * n;
        let [t, rows, columns] = entry_shape(queue)?;
        let mut whole = Tensor::zeros(t, rows, columns)?;
        if let Some(positions) = self.view_positions(queue, base, n)? {
            let tile = queue.blocking.tile().map(|side| side as usize);
            let mut values = whole.elements(tile)?;
            let mut parts = with_capacity("list of entries", n)?;
            for part in 0..n {
                parts.push(elements_of(memory.slot(first + part), base)?);
            }
            for (value, (entry, at)) in values.iter_mut().zip(positions) {
                *value = parts[entry].get(at).copied().unwrap_or(0.0);
            }
            let view = Tensor::from_elements(&values, whole.shape(), tile)?;
            return Ok(Rc::new(view));
        }
        let size = whole.values.len() / n;
        for (part, values) in whole.values.chunks_exact_mut(size.max(1)).enumerate() {
            if let Some(entry) = memory.slot(first + part) {
                values.copy_from_slice(&entry.values);
            }
        }
        Ok(Rc::new(whole))
    }

    /// The entry of the base and the index in it of each element of a view; `None` for a view of the
    /// same rows and columns, which concatenates entries of the base along t (netlist 6.2).
    fn view_positions(
        &self,
        view: &Queue,
        base: &Queue,
        n: usize,
    ) -> Result<Option<Vec<(usize, usize)>>> {
        let [t, rows, columns] = entry_shape(view)?;
        let [base_t, base_rows, base_columns] = entry_shape(base)?;
        if (rows, columns) == (base_rows, base_columns) && t == n * base_t {
            return Ok(None);
        }
        let layout = |queue| Queue::memory_layout(queue, self.arch, false);
        let positions = layout(base).elements_of_view(&layout(view), n);
        let positions = positions.map_err(|error| {
            let shape = entry_shape(view).unwrap_or_default();
            let text = format!("cannot allocate the element map of {shape:?} tiles");
            Error::new(ErrorKind::OutOfMemory, text).source(error)
        })?;
        positions.map(Some).ok_or_else(|| mismatch(view, base))
    }

    pub(crate) fn write_ram(&mut self, queue: &'n Queue, tensor: Rc<Tensor>) -> Result<()> {
        let name = queue.name.value.as_str();
        let slot = self.stores[name].write_slot();
        let (target, n) = self.base(queue).unwrap_or((queue, 1));
        let entries = self
            .base_entries(queue, (target, n), tensor)
            .map_err(|error| of_queue(name, error))?;
        for (part, entry) in entries.into_iter().enumerate() {
            if let Some(store) = self.stores.get_mut(target.name.value.as_str()) {
                store.set_slot(slot * n + part, entry);
            }
        }
        Ok(())
    }

    /// The entries of the base for an entry of a ram, which is its own base or a view.
    fn base_entries(
        &self,
        queue: &'n Queue,
        (base, n): (&'n Queue, usize),
        tensor: Rc<Tensor>,
    ) -> Result<Vec<Rc<Tensor>>> {
        let mut entries = with_capacity("list of entries", n)?;
        if base.name == queue.name {
            entries.push(tensor);
            return Ok(entries);
        }
        let [t, rows, columns] = entry_shape(base)?;
        let Some(positions) = self.view_positions(queue, base, n)? else {
            let size = tensor.values.len() / n;
            for part in tensor.values.chunks_exact(size.max(1)) {
                let mut entry = Tensor::zeros(t, rows, columns)?;
                if entry.values.len() != part.len() {
                    return Err(mismatch(queue, base));
                }
                entry.values.copy_from_slice(part);
                entries.push(Rc::new(entry));
            }
            return Ok(entries);
        };
        let tile = queue.blocking.tile().map(|side| side as usize);
        let mut parts = with_capacity("list of entries", n)?;
        for _ in 0..n {
            let what = format_args!("elements of [{t}, {rows}, {columns}] tiles");
            parts.push(filled(what, 0.0, positions.len() / n)?);
        }
        for (value, &(entry, at)) in tensor.elements(tile)?.iter().zip(&positions) {
            parts[entry][at] = *value;
        }
        let tile = base.blocking.tile().map(|side| side as usize);
        for part in &parts {
            let entry = Tensor::from_elements(part, [t, rows, columns], tile)?;
            entries.push(Rc::new(entry));
        }
        Ok(entries)
    }
}

/// The contiguous elements of an entry; empty for an empty slot.
fn elements_of(entry: Option<Rc<Tensor>>, queue: &Queue) -> Result<Vec<f32>> {
    let tile = queue.blocking.tile().map(|side| side as usize);
    entry.map_or_else(|| Ok(Vec::new()), |entry| entry.elements(tile))
}

fn mismatch(view: &Queue, base: &Queue) -> Error {
    let message = format!(
        "view '{}' and ram '{}' have different sizes",
        view.name.value, base.name.value
    );
    Error::new(ErrorKind::InvalidModel, message)
}
