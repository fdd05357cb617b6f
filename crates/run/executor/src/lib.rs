//! The executor: kernels by name, programs made of kernels bound once at load, and their execution.
//!
//! A [`Module`](tenon_bef::Module) defines which kernels run on which registers.
//! [`Program::decode`] looks up each kernel in a [`Registry`], checks its signature, and binds it:
//! the kernel reads its attributes and finds its services once. A synchronous function is then a
//! loop over bound kernels; an asynchronous one is scheduled by dataflow: each kernel runs when its
//! operands are available, on the [`WorkQueue`] of a [`Host`]. [`writing_kernels`] describes how to
//! write kernels.
//!
//! ```
//! use tenon_executor::{Attr, Host, Program, Registry, Request, Services, Value, kernel};
//! use tenon_bef::{FunctionBuilder, FunctionKind, Module};
//!
//! let mut registry = Registry::new();
//! registry.register(kernel("my.constant.i32", |value: Attr<i32>| value.0))?;
//! registry.register(kernel("my.later.i32", |a: i32, host: &Host| {
//!     host.spawn_result(move || Ok(a + 1))
//! }))?;
//!
//! let mut main = FunctionBuilder::new("main", FunctionKind::Async);
//! let seven = main.kernel("my.constant.i32").attribute("value", 7i32).result("i32");
//! let eight = main.kernel("my.later.i32").operands([seven]).result("i32");
//! let mut module = Module::new();
//! module.add(main.returns([seven, eight]));
//!
//! let program = Program::decode(&module, &registry, &Services::new())?;
//! let host = Host::new();
//! let results = program.handle("main")?.execute(&Request::new(&host), vec![]);
//! assert_eq!(results[0], Value::I32(7));
//! assert!(!results[1].is_available());
//! assert_eq!(host.wait(results)[1], Value::I32(8));
//! # Ok::<(), tenon_base::Error>(())
//! ```
#![deny(unsafe_code)]

mod allocator;
mod async_value;
mod attributes;
mod batch;
mod bind;
mod code;
mod countdown;
mod depth;
mod execution;
mod function;
mod handle;
mod host;
mod kernel;
mod log;
mod opaque;
mod program;
pub mod queue;
mod ready_queue;
mod registry;
mod reporter;
mod request;
mod result_cell;
mod services;
mod site;
mod slots;
mod sync;
mod typed;
mod value;
#[doc = include_str!("writing_kernels.md")]
pub mod writing_kernels {}

pub use allocator::{AllocatorKind, ExitReport, Grant, HostAllocator, Statistics};
pub use async_value::{
    AsyncValue, PendingResult, Promise, alive_async_values, pending, pending_result,
};
pub use attributes::KernelAttributes;
pub use function::{BoundFunction, Observer};
pub use handle::{FunctionHandle, when_all_available};
pub use host::{Diagnostic, Host, HostBuilder, Trace};
pub use kernel::{Frame, Kernel, Label};
pub use log::{Log, Severity};
pub use opaque::{Object, Opaque, Shared};
pub use program::Program;
pub use queue::{MultiThreaded, QueueSelection, Runnable, SingleThreaded, Task, WorkQueue};
pub use registry::{KernelDef, Registry, Signature};
pub use reporter::Reporter;
pub use request::Request;
pub use services::Services;
pub use site::Site;
pub use slots::Registers;
pub use typed::{
    Attr, Binder, FromAttribute, KernelFunction, Parameter, RestOperands, Results, kernel,
};
pub use value::{BF16, Chain, Complex64, Complex128, F16, FromValue, IntoValue, Value};
