//! Tenon: compile a machine-learning model into one package, load the package, run the model.
//!
//! There are two entry points. A [`Compiler`] turns an ONNX model into a package; a [`Model`] is a
//! loaded package.
//!
//! ```
//! use tenon::{Compiler, LoadOptions, Tensor};
//!
//! # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! let package = Compiler::new().compile_file(onnx)?;
//! let model = package.load(&LoadOptions::new())?;
//! let image = Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?;
//! let outputs = model.run(&[("image", &image)])?;
//! assert_eq!(outputs[0].shape()[..], [1, 10]);
//! # Ok::<(), tenon::Error>(())
//! ```
//!
//! An application usually compiles once and loads the file each time it starts:
//!
//! ```no_run
//! use tenon::{Compiler, Model};
//!
//! Compiler::new().dim("batch", 1).compile_file("model.onnx")?.write("model.neff")?;
//! let model = Model::load("model.neff")?;
//! # Ok::<(), tenon::Error>(())
//! ```
//!
//! # Running
//!
//! Clones of a [`Model`] share it, and any number of threads may run it at the same time; each
//! execution has its own memory.
//!
//! * [`Model::run`] takes tensors by name and returns [`Outputs`].
//! * [`Model::bind`] keeps inputs and outputs bound between executions, which then allocate nothing.
//! * [`Model::execute`] reads and writes memory of the caller.
//! * [`Model::run_batch`] joins several runs into one execution along the batch.
//! * [`Model::session`] keeps states between executions, such as the key-value cache of a decoder.
//! * [`Model::run_async`] returns a future. It needs no particular executor; the work is done by the
//!   threads of a [`RunQueue`], in the order of [`Priority`].
//!
//! # Options
//!
//! Everything optional is a field of an options type with a default, set by a method of the same
//! name. This includes [`Control`], which carries progress, cancellation and the deadline:
//! [`Compiler::control()`], [`LoadOptions::control()`], [`RunOptions::control()`] and so on.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`inputs`], [`outputs`] | pictures, arrays and tables as inputs; classes and elements of outputs |
//! | [`inspect`] | contents of packages: programs, placement, memory plans, transfers; verification |
//! | [`compare`] | two backends compared operator by operator |
//! | [`generate`] | tokens of a decoder, one execution for each |
//! | [`quantize`] | models of 8 and 4 bits and of f16, with a report of their errors |
//! | [`profile`], [`tap`] | times of kernels; intermediate tensors |
//! | [`backends`], [`plugins`] | the available backends; backends in shared libraries |
//! | [`netlist`], [`host_program`] | the two other program formats, without a package |
//! | [`files`], [`machine`], [`activity`] | output files, properties of the CPU, the list of running models |
//! | [`neff`], [`tensor`] | the crates of the package format and of tensors |
//!
//! # Examples
//!
//! The folder `examples/` of this crate has complete programs; `cargo run -p tenon --example NAME`
//! runs one:
//!
//! | example | shows |
//! |---|---|
//! | `classify` | a picture as input, the classes with the highest scores as output |
//! | `embed_text` | a BERT encoder: token ids to one vector per text, cosine similarity |
//! | `deadline` | progress reports, a deadline and cancellation |
//! | `threads` | several threads and asynchronous calls on one model |
//! | `compare_backends` | two backends, operator by operator |
//! | `placement` | the backend of each node, with the reasons |

#![forbid(unsafe_code)]

// Its macro is used in the modules below.
#[macro_use]
mod setters;

mod bindings;
mod compiler;
mod load_options;
mod model;
mod model_file;
mod package;
mod run_options;
mod run_outputs;
mod run_queue;
mod session;
mod weights;

pub mod activity;
pub mod backends;
pub mod compare;
pub mod files;
pub mod generate;
pub mod host_program;
pub mod inputs;
pub mod inspect;
pub mod machine;
pub mod netlist;
pub mod outputs;
pub mod plugins;
pub mod profile;
pub mod quantize;
pub mod tap;

pub use bindings::Bindings;

pub use compiler::{
    Compiler, Hint, LibraryFunction, MEMORY_STRATEGIES, MemoryStrategy, Precision, PrecisionRule,
    StateSelection, memory_strategy,
};
pub use load_options::LoadOptions;
pub use model::{Dimension, Model, Signature};
pub use model_file::{ModelFile, OpenOptions};
pub use package::Package;
pub use run_options::{AsyncOptions, RunOptions};
pub use run_outputs::Outputs;
pub use run_queue::{Priority, RunFuture, RunQueue};
pub use session::{Session, StatePair};
pub use weights::Weights;

pub use tenon_neff as neff;
pub use tenon_tensor as tensor;

pub use tenon_backend::{BackendId, DeviceTensor};
pub use tenon_base::{Control, Count, Error, ErrorKind, Location, Pattern, Progress, Result};
pub use tenon_onnx::Model as OnnxModel;
pub use tenon_tensor::{
    DataType, MapKey, MapKeys, ModelValue, Shape, Tensor, TensorType, ValueKind,
};
