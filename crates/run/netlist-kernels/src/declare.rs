//! `netlist.queue`: the declaration of a queue, with which other kernels of a package are compared when
//! the package is loaded.

use super::attributes::{flag, format, size_or, sizes, text_or_empty};
use super::machine::Machine;
use super::program::Body;
use super::queue::QueueSpec;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::Site;
use tenon_tile::UblockOrder;
use tenon_tile::{QueueLayout, TensorBlocking};

/// The queues that a program declares, in the order in which kernels are bound: kernels that load and
/// store variables of the package are bound later.
#[derive(Default)]
pub struct DeclaredQueues(Mutex<HashMap<String, DeclaredQueue>>);

/// The declaration that variables with entries of a queue are compared with.
#[derive(Clone, Copy)]
pub(super) struct DeclaredQueue {
    pub is_ram: bool,
    pub entries: usize,
    pub tiles: [usize; 3],
    pub tile: [usize; 2],
    /// Elements of an entry.
    pub elements: usize,
}

impl DeclaredQueues {
    fn add(&self, spec: &QueueSpec, elements: usize) {
        let declared = DeclaredQueue {
            is_ram: spec.is_ram,
            entries: spec.entries,
            tiles: spec.tiles,
            tile: spec.tile,
            elements,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(spec.name.clone(), declared);
    }

    /// The queue `name`.
    pub(super) fn find(&self, name: &str) -> Result<DeclaredQueue> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).copied().ok_or_else(|| {
            let text = format!("no queue '{name}' is declared before");
            Error::new(ErrorKind::InvalidProgram, text)
        })
    }
}

pub(super) fn bind(site: &Site<'_>) -> Result<Body> {
    let attributes = site.attributes();
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let spec = QueueSpec {
        name: attributes.string("queue")?.to_owned(),
        is_ram: flag(attributes, "ram")?,
        entries: size_or(attributes, "entries", 1)?,
        tiles: sizes(attributes, "tiles")?,
        tile: sizes(attributes, "tile")?,
        format: format(attributes, "format")?,
        source: name(text_or_empty(attributes, "source")?),
        view_of: name(text_or_empty(attributes, "view_of")?),
        layout: layout(site)?,
    };
    let ty = spec.check()?;
    // A program outside of a package has no variables to compare.
    if let Ok(declared) = site.service::<DeclaredQueues>() {
        declared.add(&spec, ty.elements());
    }
    Ok(Box::new(move |frame| {
        frame.object::<Machine>(0)?.declare(spec.clone())
    }))
}

/// The layout of a ram that shares memory with others.
fn layout(site: &Site<'_>) -> Result<Option<QueueLayout>> {
    let attributes = site.attributes();
    if attributes.optional("grid").is_none() {
        return Ok(None);
    }
    let [t, ..]: [usize; 3] = sizes(attributes, "tiles")?;
    let order = if flag(attributes, "column_order")? {
        UblockOrder::Column
    } else {
        UblockOrder::Row
    };
    Ok(Some(QueueLayout::of_tiles(TensorBlocking {
        grid: sizes(attributes, "grid")?,
        t,
        mblock: sizes(attributes, "mblock")?,
        ublock: sizes(attributes, "ublock")?,
        tile: sizes(attributes, "tile")?,
        order,
    })))
}
