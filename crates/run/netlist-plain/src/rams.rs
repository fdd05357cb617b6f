//! Rams that are read and written by ops, and views of their memory (facts 6.2).

use crate::machine::{Machine, sized};
use crate::tensor::{TILE, Tensor};
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::Queue;

impl<'n> Machine<'n> {
    /// The ram of which another is a view, and how many of its entries make one of the view's
    /// (facts 6.2): the one with more entries.
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
        let store = &self.stores[queue.name.value.as_str()];
        let Some((base, n)) = self.base(queue) else {
            return store
                .slot(store.read_slot())
                .map_or_else(|| self.zeros(queue), Ok);
        };
        let memory = &self.stores[base.name.value.as_str()];
        let first = store.read_slot() * n;
        let mut whole = Tensor::clone(&*self.zeros(queue)?);
        if let Some(places) = self.places(queue, base, n)? {
            let entries: Vec<_> = (0..n).map(|part| memory.slot(first + part)).collect();
            let tile = queue.blocking.tile().map(|side| side as usize);
            let (mut seen, held) = (whole.elements(tile), elements_of(&entries, base));
            for (value, (entry, at)) in seen.iter_mut().zip(places) {
                *value = held[entry].get(at).copied().unwrap_or(0.0);
            }
            return Ok(Rc::new(Tensor::from_elements(&seen, whole.shape(), tile)));
        }
        let size = whole.values.len() / n;
        for (part, values) in whole.values.chunks_exact_mut(size.max(1)).enumerate() {
            if let Some(entry) = memory.slot(first + part) {
                values.copy_from_slice(&entry.values);
            }
        }
        Ok(Rc::new(whole))
    }

    /// Where the elements of a view lie in the entries of its base; `None` where its rows and
    /// columns are those of the base, whose entries it then stacks along t (facts 6.2).
    fn places(&self, view: &Queue, base: &Queue, n: usize) -> Result<Option<Vec<(usize, usize)>>> {
        let ([t, rows, columns], [base_t, base_rows, base_columns]) = (sized(view)?, sized(base)?);
        if (rows, columns) == (base_rows, base_columns) && t == n * base_t {
            return Ok(None);
        }
        let layout = |queue| Queue::memory_layout(queue, self.arch, false);
        let places = layout(base).elements_of_view(&layout(view), n);
        places.map(Some).ok_or_else(|| mismatch(view, base))
    }

    pub(crate) fn write_ram(&mut self, queue: &'n Queue, tensor: Rc<Tensor>) -> Result<()> {
        let slot = self.stores[queue.name.value.as_str()].write_slot();
        let (target, n) = self.base(queue).unwrap_or((queue, 1));
        let shape = sized(target)?;
        let places = match n {
            1 if target.name == queue.name => None,
            _ => self.places(queue, target, n)?,
        };
        let size = shape.iter().product::<usize>() * TILE * TILE;
        let mut parts: Vec<Vec<f32>> = match &places {
            None => tensor
                .values
                .chunks_exact(size)
                .map(<[f32]>::to_vec)
                .collect(),
            Some(places) => {
                let tile = queue.blocking.tile().map(|side| side as usize);
                let mut parts = vec![vec![0.0; places.len() / n]; n];
                for (value, &(entry, at)) in tensor.elements(tile).iter().zip(places) {
                    parts[entry][at] = *value;
                }
                let tile = target.blocking.tile().map(|side| side as usize);
                let whole = |part: &Vec<f32>| Tensor::from_elements(part, shape, tile).values;
                parts.iter().map(whole).collect()
            }
        };
        if parts.len() != n {
            return Err(mismatch(queue, target));
        }
        let [t, rows, columns] = shape;
        for (part, values) in parts.drain(..).enumerate() {
            let entry = Rc::new(Tensor {
                t,
                rows,
                columns,
                values,
            });
            if let Some(store) = self.stores.get_mut(target.name.value.as_str()) {
                store.set_slot(slot * n + part, entry);
            }
        }
        Ok(())
    }
}

/// The elements of entries without gaps; none where nothing was written.
fn elements_of(entries: &[Option<Rc<Tensor>>], queue: &Queue) -> Vec<Vec<f32>> {
    let tile = queue.blocking.tile().map(|side| side as usize);
    let elements = |entry: &Option<Rc<Tensor>>| entry.as_ref().map(|entry| entry.elements(tile));
    entries
        .iter()
        .map(|entry| elements(entry).unwrap_or_default())
        .collect()
}

fn mismatch(view: &Queue, base: &Queue) -> Error {
    let message = format!(
        "'{}' and '{}' do not hold the same elements",
        view.name.value, base.name.value
    );
    Error::new(ErrorKind::InvalidModel, message)
}
