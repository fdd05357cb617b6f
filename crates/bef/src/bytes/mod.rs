//! Module to BEF bytes and back.

mod annotations;
mod attribute_reader;
mod attribute_writer;
mod decode;
mod encode;
mod location;
mod references;
mod section;
mod strings;
mod tables;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::decode;
pub use encode::{EncodeOptions, encode};
pub use location::MAX_LOCATION_NESTING;
pub(crate) use location::depth as location_depth;
