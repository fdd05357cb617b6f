//! NEFF packages: writing, reading, verification, listing and comparison. A package is one file, a
//! header and a tar archive; `docs/neff.md` lists its fields and rules, `docs/package.md` Tenon's
//! additions.
//!
//! This crate depends on neither the runtime nor the compiler, and reads packages of other
//! compilers as well.
//!
//! ```no_run
//! use tenon_neff::{Control, NodeTable, Package, VerifyOptions, verify};
//! let control = Control::new();
//! let package = Package::open("model.neff", &control)?;
//! print!("{}", NodeTable::of(&package)?);
//! print!("{}", verify(&package, &VerifyOptions::default(), &control)?);
//! package.unpack("model", &control)?;
//! # Ok::<(), tenon_neff::Error>(())
//! ```
#![forbid(unsafe_code)]

mod activation;
mod archive;
mod buckets;
mod constant;
mod contents;
mod definition;
mod descriptor;
mod diff;
mod digest;
mod engine;
mod error;
mod extent;
mod feature;
mod finding;
mod folder;
mod graph;
mod gzip;
mod header;
mod hlo_stats;
mod json;
mod kelf;
mod key_path;
mod locate;
mod member;
mod name;
mod nodes;
mod object;
mod package;
mod parallel;
mod payload;
mod placement_report;
mod prune;
mod rule;
mod strip;
mod structure;
mod tar_entry;
mod target;
mod tenon_member;
mod tensor_map;
mod triggers;
mod verify;
mod writer;

pub use activation::{ActInfo, ActivationProfile, ActivationSet};
pub use buckets::{BucketInfo, Buckets, MAX_COMBINATIONS, PaddingInfo};
pub use constant::Constant;
pub use contents::{
    Contents, CpuFunction, GraphPort, HostFunction, Movement, NodeAttribute, NodeGraph, NodeWork,
    PackageNode, PackageVariable, Role, Wire, WriteOptions,
};
pub use definition::{
    CcStreams, Definition, DynamicDma, EngineFiles, EngineName, Fp8ConversionConfig, QueueSet,
    StateBufferReservation, Variable, VariableKind,
};
pub use descriptor::{JsonAccess, JsonDescriptor, JsonSource};
pub use diff::{Change, ConstantChange, Diff, Statistics, diff};
pub use digest::{DIGESTS_JSON, Digest, Digests, JsonDigest, JsonDigests, VerifiedPackage};
pub use engine::{DveTable, Engine, JsonDescriptors, Trigger};
pub use extent::{Extent, PortShape};
pub use feature::FeatureBits;
pub use finding::{Finding, Findings};
pub use folder::{HEADER_FILE, PackOptions, pack};
pub use graph::{
    GraphAttrs, GraphNode, Metadata, NEFF_JSON, NeffGraph, PortType, Signature, SignaturePort,
};
pub use header::{HEADER_BYTES, Header, MAX_VERSION_MAJOR};
pub use hlo_stats::{HLO_STATS_JSON, HloStats};
pub use json::{Table, neff_dtype, neff_dtype_name};
pub use kelf::{INFO_JSON, Info, Kelf, KelfGraph};
pub use key_path::{KeyPath, Step};
pub use name::Name;
pub use nodes::{HeaderBlock, Node, NodeExecutor, NodePort, NodeTable};
pub use object::UnknownKeys;
pub use package::{HashCheck, Limits, Package};
pub use placement_report::{
    ConvertedType, CrossingReport, Crossings, MemoryTraffic, NodePlacement, PlacementReport,
    RefusalReport,
};
pub use rule::{Rule, Severity};
pub use strip::{StripReport, strip};
pub use structure::{EngineParts, KelfMember, Structure, Subgraph};
pub use target::{FileTarget, MemoryTarget, Target};
pub use tenon_base::{Control, Error, Result};
pub use tenon_dma::{Extents, Steps, VariableId};
pub use tenon_member::{
    ConstantInfo, LiveRange, MemoryPlan, ModelInfo, NodeCost, Port, PreparedForm, SizesInfo,
    StateInfo, SymbolInfo, TENON_FORMAT, TenonMember, VariableInfo,
};
pub use tensor_map::{MappedTensor, TensorMap};
pub use verify::{Architecture, VerifyOptions, open_failure, verify, verify_file};
pub use writer::PackageWriter;
