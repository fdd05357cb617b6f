//! The host program: Module, its bytes (BEF), its text (MLIR) and its verifier.
//!
//! The format and its rules are in `docs/bef.md`, which comments cite as bef 1.4; where the published
//! document and the code of TFRT differ, the code is followed (bef 1.9).
//!
//! * [`FunctionBuilder`] makes functions in a program.
//! * [`encode`] and [`decode`] turn a [`Module`] into BEF bytes and back; a [`File`] is opened in
//!   no time and decodes function by function.
//! * [`print()`] and [`parse`] turn it into MLIR text and back; its `Display` is the text, too.
//! * [`verify`] finds everything that is wrong with a Module; [`inline`] and [`canonicalize`]
//!   rewrite it.
//! * [`Uses`] and [`assign_streams`] are what an executor needs beyond the Module itself;
//!   [`stream_remarks`] shows streams.

#![forbid(unsafe_code)]

#[cfg(test)]
mod arbitrary;
mod attribute;
mod builder;
mod bytes;
mod diagnostic;
mod dtype;
mod location;
mod module;
mod name;
mod rewrite;
mod streams;
mod syntax;
mod text;
mod uses;
mod verify;

pub use attribute::{AttributeCode, MAX_NESTING};
pub use builder::{FunctionBuilder, KernelBuilder};
pub use bytes::{EncodeOptions, File, FunctionEntry, decode, encode};
pub use diagnostic::{Diagnostic, Severity, SourcePosition};
pub use location::{KernelLocation, MAX_LOCATION_NESTING};
pub use module::{
    Attribute, DType, Dense, Dictionary, Function, FunctionId, FunctionKind, Kernel, Module,
    RegisterId, Registers,
};
pub use name::Name;
pub use rewrite::{canonicalize, inline};
pub use streams::{COST_ATTRIBUTE, StreamOptions, Streams, assign_streams, stream_remarks};
pub use syntax::Source;
pub use text::{
    ExpectedDiagnostics, PrintOptions, parse, parse_for_rewriting, parse_source, print,
};
pub use uses::Uses;
pub use verify::verify;
