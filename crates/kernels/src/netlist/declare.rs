//! `netlist.queue`: what a machine is told of a queue.

use super::attributes::{flag, format, size_or, sizes, text_or_empty};
use super::machine::Machine;
use super::program::Body;
use super::queue::QueueSpec;
use tenon_base::Result;
use tenon_executor::Site;
use tenon_netlist::UblockOrder;
use tenon_netlist::data::QueueLayout;

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
    Ok(Box::new(move |frame| {
        frame.object::<Machine>(0)?.declare(spec.clone())
    }))
}

/// The blocking of a ram that is seen in several ways.
fn layout(site: &Site<'_>) -> Result<Option<QueueLayout>> {
    let attributes = site.attributes();
    if attributes.optional("grid").is_none() {
        return Ok(None);
    }
    let [t, ..]: [usize; 3] = sizes(attributes, "tiles")?;
    let pairs = [
        sizes(attributes, "grid")?,
        sizes(attributes, "mblock")?,
        sizes(attributes, "ublock")?,
        sizes(attributes, "tile")?,
    ];
    let order = match flag(attributes, "column_order")? {
        true => UblockOrder::Column,
        false => UblockOrder::Row,
    };
    Ok(Some(QueueLayout::of_tiles(pairs, t, order)))
}
