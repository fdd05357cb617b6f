//! The engine that runs the transfers of queue sets (docs/dma.md, "Queues" to "Variables").
//!
//! A [`Machine`] consists of cores: their variables in a [`Bank`] of memory, their queue sets, and
//! the transfers of their engines, all checked once. Engine programs are lists of [`Step`]s that run
//! concurrently: they trigger transfers and synchronise with semaphores and events.
//!
//! ```
//! use tenon_base::Control;
//! use tenon_dma::{Access, Descriptor, VariableId};
//! use tenon_dma::engine::{Bank, Core, Engine, Machine, Program, QueueSet, Step, Transfer, Variable};
//! let mut bank = Bank::default();
//! let source = bank.add(&[1, 2, 3, 4])?;
//! let target = bank.add(&[0; 4])?;
//! let (from, to) = (VariableId(0), VariableId(1));
//! let copy = Descriptor::copy(Access::bytes(from, 1, 2), Access::bytes(to, 0, 2));
//! let core = Core {
//!     name: "sg00".into(),
//!     variables: vec![
//!         Variable { id: from, name: "x".into(), region: Some(source), is_writable: false },
//!         Variable { id: to, name: "y".into(), region: Some(target), is_writable: true },
//!     ],
//!     queue_sets: vec![QueueSet::new("q", 1)],
//!     engines: vec![Engine {
//!         name: "act".into(),
//!         transfers: vec![Transfer { semaphore: Some(3), ..Transfer::new(7, "q", vec![copy]) }],
//!     }],
//! };
//! let mut machine = Machine::new(bank, vec![core])?;
//! let program = Program {
//!     core: 0,
//!     engine: "act".into(),
//!     steps: vec![
//!         Step::Trigger { function: "".into(), id: 7, count: None },
//!         Step::WaitSemaphore { semaphore: 3, at_least: 1 },
//!     ],
//! };
//! machine.run(&[program], &Control::new())?;
//! assert_eq!(machine.bytes(0, to), Some(&[2, 3, 0, 0][..]));
//! # Ok::<(), tenon_base::Error>(())
//! ```

mod bank;
mod core;
mod deadlock;
mod layout;
mod machine;
mod program;
mod signals;

pub use bank::{Bank, Region};
pub use core::{Core, Engine, MAX_QUEUES, QueueKind, QueueSet, Transfer, Variable};
pub use deadlock::BlockedEngine;
pub use machine::{Machine, Race, Wait};
pub use program::{Program, Step};

#[cfg(test)]
mod tests;
