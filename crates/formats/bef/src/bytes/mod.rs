//! Encoding of a Module as BEF, and decoding.

mod annotations;
mod attribute_reader;
mod attribute_writer;
mod body;
mod budget;
mod check;
mod decode;
mod encode;
mod file;
mod function_reader;
mod function_writer;
mod index;
mod kernel_reader;
mod location;
mod lookup;
#[cfg(test)]
mod opened;
mod references;
mod section;
mod steps;
mod strings;
mod tables;
#[cfg(test)]
mod tests;
mod untyped;
#[cfg(test)]
mod vectors;
mod wire;

pub(crate) use attribute_reader::read_number;
pub(crate) use attribute_writer::put_number;
pub use decode::decode;
pub use encode::{EncodeOptions, encode};
pub use file::{File, FunctionEntry};
pub(crate) use wire::Reader;
