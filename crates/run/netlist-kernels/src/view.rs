//! Dual views: rams that share the memory of another ram (netlist 6.2).

use super::queue::QueueSpec;
use super::tensor::{TileTensor, reserved, wrong_shape};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tile::QueueLayout;

/// A ram that shares the memory of a base ram, which has at least as many entries.
pub(super) struct RamView {
    pub base: String,
    /// The number of slots of the base in one slot of the view.
    pub count: usize,
    /// The shapes of the view and of the base.
    shapes: [([usize; 3], [usize; 2]); 2],
    /// Their layouts in memory.
    layouts: Option<[QueueLayout; 2]>,
}

impl RamView {
    /// `own` as a view of `base`.
    pub(super) fn new(own: &QueueSpec, base: &QueueSpec) -> Result<Self> {
        if !base.entries.is_multiple_of(own.entries) {
            let text = format!("'{}' cannot be a view of '{}'", own.name, base.name);
            return Err(Error::new(ErrorKind::InvalidModel, text)
                .expected("a number of entries that divides the other's"));
        }
        Ok(Self {
            base: base.name.clone(),
            count: base.entries / own.entries,
            shapes: [(own.tiles, own.tile), (base.tiles, base.tile)],
            layouts: own.layout.zip(base.layout).map(|(own, base)| [own, base]),
        })
    }

    /// For each element of the view its slot and index in the base; `None` where rows and columns are
    /// those of the base, whose slots the view stacks along t (netlist 6.2).
    fn element_map(&self) -> Result<Option<Vec<(usize, usize)>>> {
        let [
            ([t, rows, columns], tile),
            ([base_t, base_rows, base_columns], base_tile),
        ] = self.shapes;
        let stacks = t == base_t * self.count && tile == base_tile;
        if stacks && (rows, columns) == (base_rows, base_columns) {
            return Ok(None);
        }
        let element_map = self
            .layouts
            .map(|[view, base]| base.elements_of_view(&view, self.count))
            .transpose()
            .map_err(|error| {
                let text = format!(
                    "cannot allocate the element map of a view of '{}'",
                    self.base
                );
                Error::new(ErrorKind::OutOfMemory, text).source(error)
            })?
            .flatten();
        let wrong = || {
            wrong_shape(format!("a view of '{}' differs in size from it", self.base))
                .expected("the same number of elements in every buffer")
        };
        element_map.map(Some).ok_or_else(wrong)
    }

    /// The entry of the view, from the entries of the base that it covers.
    pub(super) fn read(&self, entries: &[TileTensor]) -> Result<TileTensor> {
        let (tiles, tile) = self.shapes[0];
        let element_map = self.element_map()?;
        TileTensor::build(tiles, tile, |to| {
            match &element_map {
                None => {
                    let parts = to.chunks_mut(to.len() / self.count);
                    parts
                        .zip(entries)
                        .for_each(|(to, entry)| to.copy_from_slice(entry.values()));
                }
                Some(element_map) => {
                    let pairs = to.iter_mut().zip(element_map);
                    pairs.for_each(|(to, &(entry, at))| *to = entries[entry].values()[at]);
                }
            }
            Ok(())
        })
    }

    /// The entries of the base, from an entry of the view.
    pub(super) fn write(&self, entry: &TileTensor) -> Result<Vec<TileTensor>> {
        let (tiles, tile) = self.shapes[1];
        let slot = |values: &[f32]| {
            TileTensor::build(tiles, tile, |to| {
                to.copy_from_slice(values);
                Ok(())
            })
        };
        let values = entry.values();
        let size = values.len() / self.count;
        let Some(element_map) = self.element_map()? else {
            return values.chunks(size).map(slot).collect();
        };
        let mut slots = reserved(values.len())?;
        slots.resize(values.len(), 0.0);
        for (value, (entry, at)) in values.iter().zip(element_map) {
            slots[entry * size + at] = *value;
        }
        slots.chunks(size).map(slot).collect()
    }
}
