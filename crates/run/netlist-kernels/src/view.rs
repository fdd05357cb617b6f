//! Dual views: rams that share the memory of another (facts 6.2).

use super::queue::QueueSpec;
use super::tensor::{TileTensor, reserved, wrong_shape};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tile::QueueLayout;

/// A ram that is another view of a ram with more entries.
pub(super) struct View {
    pub base: String,
    /// Slots of the base that make one of the view.
    pub count: usize,
    /// The shapes of the view and of the base, and how each lies in memory.
    shapes: [([usize; 3], [usize; 2]); 2],
    layouts: Option<[QueueLayout; 2]>,
}

impl View {
    /// `own` as a view of `base`, whose entries it has a part of.
    pub(super) fn new(own: &QueueSpec, base: &QueueSpec) -> Result<Self> {
        if !base.entries.is_multiple_of(own.entries) {
            let text = format!("'{}' is no view of '{}'", own.name, base.name);
            return Err(Error::new(ErrorKind::InvalidModel, text)
                .expected("entries that divide those of the other"));
        }
        Ok(Self {
            base: base.name.clone(),
            count: base.entries / own.entries,
            shapes: [(own.tiles, own.tile), (base.tiles, base.tile)],
            layouts: own.layout.zip(base.layout).map(|(own, base)| [own, base]),
        })
    }

    /// Where the elements of the view lie in the slots of the base; `None` where rows and columns
    /// are those of the base, whose slots the view then stacks along t (facts 6.2).
    fn places(&self) -> Result<Option<Vec<(usize, usize)>>> {
        let [
            ([t, rows, columns], tile),
            ([base_t, base_rows, base_columns], base_tile),
        ] = self.shapes;
        let stacks = t == base_t * self.count && tile == base_tile;
        if stacks && (rows, columns) == (base_rows, base_columns) {
            return Ok(None);
        }
        let places = self
            .layouts
            .and_then(|[view, base]| base.elements_of_view(&view, self.count));
        let wrong = || {
            wrong_shape(format!(
                "a view of '{}' that does not hold as much",
                self.base
            ))
            .expected("as many elements in every buffer")
        };
        places.map(Some).ok_or_else(wrong)
    }

    /// What a view sees of the slots that it covers.
    pub(super) fn seen(&self, entries: &[TileTensor]) -> Result<TileTensor> {
        let (tiles, tile) = self.shapes[0];
        let places = self.places()?;
        TileTensor::build(tiles, tile, |to| {
            match &places {
                None => {
                    let parts = to.chunks_mut(to.len() / self.count);
                    parts
                        .zip(entries)
                        .for_each(|(to, entry)| to.copy_from_slice(entry.values()));
                }
                Some(places) => {
                    let pairs = to.iter_mut().zip(places);
                    pairs.for_each(|(to, &(entry, at))| *to = entries[entry].values()[at]);
                }
            }
            Ok(())
        })
    }

    /// The slots of the base that a view writes.
    pub(super) fn written(&self, entry: &TileTensor) -> Result<Vec<TileTensor>> {
        let (tiles, tile) = self.shapes[1];
        let slot = |values: &[f32]| {
            TileTensor::build(tiles, tile, |to| {
                to.copy_from_slice(values);
                Ok(())
            })
        };
        let values = entry.values();
        let size = values.len() / self.count;
        let Some(places) = self.places()? else {
            return values.chunks(size).map(slot).collect();
        };
        let mut slots = reserved(values.len())?;
        slots.resize(values.len(), 0.0);
        for (value, (entry, at)) in values.iter().zip(places) {
            slots[entry * size + at] = *value;
        }
        slots.chunks(size).map(slot).collect()
    }
}
