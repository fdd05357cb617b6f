//! NEFF: the package that Tenon writes, loads, checks and shows. One file, a header and a tar
//! archive; `docs/package.md` lists what Tenon adds.
#![forbid(unsafe_code)]

mod contents;
mod json;
mod tenon_member;

pub use contents::{Contents, Movement, PackageVariable, Role};
pub use tenon_member::{
    ConstantInfo, CpuTarget, Crossings, LiveRange, MemoryPlan, ModelInfo, NodePlacement,
    PlacementReport, Port, PreparedForm, RefusalReport, TENON_FORMAT, TenonMember, VariableInfo,
};
