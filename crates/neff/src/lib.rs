//! NEFF: the package that Tenon writes, loads, checks and shows. One file, a header and a tar
//! archive; `docs/package.md` lists what Tenon adds.
#![forbid(unsafe_code)]

mod archive;
mod contents;
mod feature;
mod header;
mod json;
mod package;
mod tenon_member;
mod writer;

pub use contents::{Contents, Movement, PackageVariable, Role};
pub use feature::FeatureBits;
pub use header::{HEADER_BYTES, Header, MAX_VERSION_MAJOR};
pub use package::{HashCheck, Limits, Package};
pub use tenon_member::{
    ConstantInfo, CpuTarget, Crossings, LiveRange, MemoryPlan, ModelInfo, NodePlacement,
    PlacementReport, Port, PreparedForm, RefusalReport, TENON_FORMAT, TenonMember, VariableInfo,
};
pub use writer::{FileTarget, PackageWriter, Target};
