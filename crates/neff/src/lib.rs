//! NEFF: the package that Tenon writes, loads, checks and shows. One file, a header and a tar
//! archive; `docs/package.md` lists what Tenon adds.
#![forbid(unsafe_code)]

mod activation;
mod archive;
mod constant;
mod contents;
mod definition;
mod descriptor;
mod digest;
mod engine;
mod feature;
mod finding;
mod graph;
mod gzip;
mod header;
mod hlo_stats;
mod json;
mod kelf;
mod key_path;
mod locate;
mod member;
mod mend;
mod name;
mod object;
mod package;
mod payload;
mod rule;
mod structure;
mod tar_entry;
mod target;
mod tenon_member;
mod tensor_map;
mod verify;
mod writer;

pub use activation::{ActInfo, ActivationProfile, ActivationSet};
pub use constant::Constant;
pub use contents::{Contents, Movement, PackageVariable, Role, WriteOptions};
pub use definition::{
    CcStreams, Definition, DynamicDma, EngineFiles, EngineName, Fp8ConversionConfig, QueueSet,
    StateBufferReservation, Variable, VariableKind,
};
pub use descriptor::{Extents, Steps, StoredAccess, StoredDescriptor, StoredSource};
pub use digest::{CheckedPackage, DIGESTS_JSON, Digest, Digests, StoredDigest, StoredDigests};
pub use engine::{DveTable, Engine, StoredDescriptors, Trigger};
pub use feature::FeatureBits;
pub use finding::{Finding, Findings};
pub use graph::{
    GraphAttrs, GraphNode, Metadata, NEFF_JSON, NeffGraph, PortType, Signature, SignaturePort,
};
pub use header::{HEADER_BYTES, Header, MAX_VERSION_MAJOR};
pub use hlo_stats::{HLO_STATS_JSON, HloStats};
pub use json::{Table, neff_dtype, neff_dtype_name};
pub use kelf::{INFO_JSON, Info, Kelf, KelfGraph};
pub use key_path::{KeyPath, Step};
pub use name::Name;
pub use object::Others;
pub use package::{HashCheck, Limits, Package};
pub use rule::{Rule, Severity};
pub use structure::{EngineParts, NamedKelf, Structure, Subgraph};
pub use target::{FileTarget, Target};
pub use tenon_dma::VariableId;
pub use tenon_member::{
    ConstantInfo, CpuTarget, Crossings, LiveRange, MemoryPlan, ModelInfo, NodePlacement,
    PlacementReport, Port, PreparedForm, RefusalReport, TENON_FORMAT, TenonMember, VariableInfo,
};
pub use tensor_map::{MappedTensor, TensorMap};
pub use verify::{Architecture, VerifyOptions, verify, verify_file};
pub use writer::PackageWriter;
