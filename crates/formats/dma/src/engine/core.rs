//! The parts of a core: variables, queue sets, engines with their transfers.

use super::Region;
use crate::{Descriptor, VariableId};

/// Maximum number of queues of a set (neff 2.5).
pub const MAX_QUEUES: u32 = 16;

/// A physical core: one subgraph of a package.
#[derive(Debug, Clone, Default)]
pub struct Core {
    /// The name of its subgraph, for errors.
    pub name: String,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Its queue sets.
    pub queue_sets: Vec<QueueSet>,
    /// Its engines, each with its transfers.
    pub engines: Vec<Engine>,
}

/// A variable and its storage.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its `var_id`.
    pub id: VariableId,
    /// Its name, for errors.
    pub name: String,
    /// Its storage; `None` for a variable without bytes, such as a `dge-table`.
    pub region: Option<Region>,
    /// Whether transfers may write it.
    pub is_writable: bool,
}

/// Whether a queue set runs descriptors of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueKind {
    /// `in`, `out`, `data`.
    Static,
    /// `dynamic`, `embedding_update`: its descriptors are made while a program runs.
    Dynamic(String),
}

/// Queues that share the descriptors of their transfers.
#[derive(Debug, Clone)]
pub struct QueueSet {
    /// Its name.
    pub name: String,
    /// Whether its descriptors are in the package.
    pub kind: QueueKind,
    /// Number of its queues, 1 to [`MAX_QUEUES`].
    pub queues: u32,
    /// The names of its instances; empty for a set with a single instance, which has the set's name.
    pub instances: Vec<String>,
    /// Semaphores for transfers that name none: at the end of such a transfer queue *k* increments
    /// entry *k* modulo the length. May be empty.
    pub semaphores: Vec<u64>,
    /// The only engine with transfers on it.
    pub owner: Option<String>,
    /// Whether its transfers run at the start of the model.
    pub is_pinned: bool,
}

impl QueueSet {
    /// A static set of `queues` queues without instances, semaphores and owner.
    pub fn new(name: &str, queues: u32) -> Self {
        Self {
            name: name.into(),
            kind: QueueKind::Static,
            queues,
            instances: Vec::new(),
            semaphores: Vec::new(),
            owner: None,
            is_pinned: false,
        }
    }
}

/// An engine, which triggers transfers.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Its name: `pe`, `act`, `pool`, `dve` or `sp` in packages.
    pub name: String,
    /// Its transfers, in the order of its list.
    pub transfers: Vec<Transfer>,
}

/// An entry of an engine's `dma` list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfer {
    /// The id by which triggers refer to it.
    pub id: u32,
    /// The queue set.
    pub queue: Option<String>,
    /// The instance of a queue set; takes precedence over `queue`.
    pub instance: Option<String>,
    /// The function that triggers this and the following transfers on the queue set.
    pub function_start: Option<String>,
    /// Whether it begins at the first queue of the set.
    pub section_start: bool,
    /// The event that its end sets.
    pub event: Option<u64>,
    /// The semaphore that its end increments by the number of queues.
    pub semaphore: Option<u64>,
    /// Semaphores of the other core that its end increments by the same amount.
    pub remote_semaphores: Vec<u64>,
    /// The data movements.
    pub descriptors: Vec<Descriptor>,
}

impl Transfer {
    /// A transfer on a queue set without event and semaphores.
    pub fn new(id: u32, queue: &str, descriptors: Vec<Descriptor>) -> Self {
        Self {
            id,
            queue: Some(queue.into()),
            descriptors,
            ..Self::default()
        }
    }
}
