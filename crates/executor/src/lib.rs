//! The executor: kernels by name, and programs made of kernels bound once at load.
//!
//! A [`Module`](tenon_bef::Module) says which kernels run on which registers. [`Program::decode`]
//! looks each one up in a [`Registry`], checks its signature, and has it read its attributes and
//! find its services once; running is then a straight loop over bound kernels.
//!
//! ```
//! use tenon_executor::{Frame, Kernel, KernelDef, Program, Registry, Services, Signature, Site, Value};
//! use tenon_bef::{FunctionBuilder, FunctionKind, Module};
//! # use tenon_base::{Control, Result};
//!
//! struct Constant(i32);
//!
//! impl Kernel for Constant {
//!     fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
//!         frame.set(0, Value::I32(self.0));
//!         Ok(())
//!     }
//! }
//!
//! let mut registry = Registry::new();
//! registry.register(KernelDef {
//!     name: "my.constant",
//!     signature: Signature { operands: &[], variadic: false, results: &["i32"] },
//!     bind: |site: &Site<'_>| Ok(Box::new(Constant(site.attributes().i32("value")?))),
//! })?;
//!
//! let mut main = FunctionBuilder::new("main", FunctionKind::Sync);
//! let seven = main.kernel("my.constant").attribute("value", 7i32).result("i32");
//! let module = Module::from(main.returns([seven]));
//! let program = Program::decode(&module, &registry, &Services::new())?;
//! let main = program.function("main")?;
//! let mut registers = main.registers();
//! main.run(&mut registers, &[], &(), &Control::new(), &mut ())?;
//! assert_eq!(main.results(&registers).next(), Some(&Value::I32(7)));
//! # Ok::<(), tenon_base::Error>(())
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod attributes;
mod function;
mod kernel;
mod log;
mod program;
mod registry;
mod services;
mod site;
mod value;

pub use allocator::{AllocatorKind, Grant, HostAllocator, Statistics, Verdict};
pub use attributes::KernelAttributes;
pub use function::{BoundFunction, Observer, Registers};
pub use kernel::{Frame, Kernel, Label};
pub use log::{Log, Severity};
pub use program::Program;
pub use registry::{KernelDef, Registry, Signature};
pub use services::Services;
pub use site::Site;
pub use value::Value;
