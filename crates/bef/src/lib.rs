//! The host program: Module, its bytes (BEF) and its text (MLIR), both ways, and its verifier.
//!
//! Format: seed tfrt-bef.md; where the code of the original moved on (facts 1.9), the facts.

mod module;

pub use module::{
    Attribute, DType, Dense, Function, FunctionId, FunctionKind, Kernel, KernelLocation, Module,
    RegisterId,
};
