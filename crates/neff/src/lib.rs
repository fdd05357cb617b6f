//! NEFF: the package that Tenon writes, loads, checks and shows. One file, a header and a tar
//! archive; `docs/package.md` lists what Tenon adds.
#![forbid(unsafe_code)]

mod archive;
mod contents;
mod definition;
mod engine;
mod feature;
mod graph;
mod header;
mod json;
mod kelf;
mod package;
mod tenon_member;
mod tensor_map;
mod writer;

pub use contents::{Contents, Movement, PackageVariable, Role, WriteOptions};
pub use definition::{
    Definition, EngineFiles, EngineName, Fp8ConversionConfig, QueueSet, Variable, VariableKind,
};
pub use engine::{Engine, StoredDescriptor, StoredSource, Trigger};
pub use feature::FeatureBits;
pub use graph::{
    GraphAttrs, GraphNode, Metadata, NEFF_JSON, NeffGraph, PortType, Signature, SignaturePort,
};
pub use header::{HEADER_BYTES, Header, MAX_VERSION_MAJOR};
pub use json::{Table, neff_dtype, neff_dtype_name};
pub use kelf::{INFO_JSON, Info, Kelf, KelfGraph};
pub use package::{HashCheck, Limits, Package};
pub use tenon_dma::VariableId;
pub use tenon_member::{
    ConstantInfo, CpuTarget, Crossings, LiveRange, MemoryPlan, ModelInfo, NodePlacement,
    PlacementReport, Port, PreparedForm, RefusalReport, TENON_FORMAT, TenonMember, VariableInfo,
};
pub use tensor_map::{MappedTensor, TensorMap};
pub use writer::{FileTarget, PackageWriter, Target};
