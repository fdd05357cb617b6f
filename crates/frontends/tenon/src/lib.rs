//! Tenon: compile a machine-learning model into one package, load it, run it.
//!
//! ```no_run
//! use tenon::{CompileOptions, Control, LoadOptions, Tensor};
//!
//! # fn main() -> tenon::Result<()> {
//! let control = Control::new();
//! tenon::compile_file("model.onnx", &CompileOptions::default(), &control)?.write("model.neff")?;
//! let model = tenon::load_file("model.neff", &LoadOptions::default())?;
//! let x = Tensor::from_slice([1, 3], &[1.0f32, 2.0, 3.0])?;
//! let outputs = model.run(&[("x", &x)])?;
//! println!("{:?}", outputs[0].as_slice::<f32>());
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] is shared by clones and threads; each execution has its own memory. For calls that
//! allocate nothing, bind inputs once: [`Model::bind`].

#![forbid(unsafe_code)]

mod answer;
mod array_input;
mod compare;
mod compiling;
mod disassembly;
mod element;
mod file_name;
pub mod host_program;
mod image_input;
mod loading;
mod lock_step;
mod memory_report;
mod netlist_input;
mod netlist_picture;
mod netlist_run;
mod netlist_test;
mod output;
pub mod plugins;
mod profiling;
mod source;
mod standard_input;
mod tapping;
mod verifying;

pub use answer::{Class, LABELS, is_classification, labels, topmost};
pub use array_input::{
    fit, random_tensor, read_array, read_input, read_npz_inputs, read_npz_outputs,
};
pub use compare::Difference;
pub use compiling::{
    CompileOptions, Compiled, CpuLibrary, compile, compile_file, compile_with, input_types,
};
pub use disassembly::program_text;
pub use element::{Decimal, Element, elements};
pub use file_name::{file_name, file_names};
pub use image_input::{ImageLayout, ImageOptions, read_image};
pub use loading::{backends, load, load_file, multiply_add_ceiling, program, threads};
pub use lock_step::{
    Compared, Comparison, Divergence, Originals, Reproduction, Skipped, Tolerance, compare_backends,
};
pub use memory_report::{MemoryReport, MemoryRow};
pub use netlist_input::{netlist_arch, netlist_device, netlist_source};
pub use netlist_picture::netlist_pictures;
pub use netlist_run::{
    CompiledNetlist, GraphRow, MetricRow, NetlistJob, NetlistLoad, NetlistOutcome, NetlistSession,
    OpRow, compile_netlist, netlist_params, run_netlist,
};
pub use netlist_test::{NetlistTest, QueueAgreement, test_netlist};
pub use output::{escape_text, write_output, write_through};
pub use plugins::{BackendSetup, FoundBackends, backends_with, runtime_with};
pub use profiling::{Ceiling, ProfileRow, profile_rows};
pub use source::{Source, open_package};
pub use standard_input::{is_standard, standard_input};
pub use tapping::Taps;
pub use verifying::{verify, verify_file, verify_opened};

pub use tenon_neff as neff;
pub use tenon_netlist as netlist;

pub use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, LoadWarning, NamedValue, OptionAssignment, OptionDef,
    Registry,
};
pub use tenon_backend_kit::{Check, Outcome as CheckOutcome, Report as CheckReport};
pub use tenon_base::trace::{Recording, TraceSink};
pub use tenon_base::{
    Control, Error, ErrorKind, Location, Pattern, Progress, Result, escape_controls,
    remove_unfinished_files,
};
pub use tenon_bef::Module;
pub use tenon_compiler::{
    Hint, LoweredProgram, MEMORY_STRATEGIES, MemoryStrategy, NumericMode, memory_strategy,
};
pub use tenon_dma::Access;
pub use tenon_neff::{Contents, Limits, Package, PackageVariable, PlacementReport, Port, Role};
pub use tenon_netlist_kernels::{MachineLimits, QueueSpec};
pub use tenon_onnx::{
    Dimension, Model as OnnxModel, Signature as OnnxSignature, ValueSignature as OnnxValue,
};
pub use tenon_runtime::{
    ActiveModel, Activity, Bindings, CounterProfile, DescriptorRow, ExecuteOptions, KernelProfile,
    LoadOptions, Model, ModelReport, NanCheck, PackageTransfers, Profile, Runtime, Signature, Tap,
    TapValue, TransferOutcome,
};
pub use tenon_tensor::{DataType, Shape, Tensor, TensorType, atomic_file, convert, npy};
