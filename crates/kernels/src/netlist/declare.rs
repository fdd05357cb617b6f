//! `netlist.queue`: what a machine is told of a queue.

use super::attributes::{flag, format, size_or, sizes, text_or_empty};
use super::machine::Machine;
use super::program::Body;
use super::queue::QueueSpec;
use tenon_base::Result;
use tenon_executor::Site;

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
    };
    Ok(Box::new(move |frame| {
        frame.object::<Machine>(0)?.declare(spec.clone())
    }))
}
