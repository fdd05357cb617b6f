//! What a core is made of: variables, queue sets, engines with their transfers.

use super::Region;
use crate::{Descriptor, VariableId};

/// Queues that a set has at most (seed: `num_queues`).
pub const MAX_QUEUES: u32 = 16;

/// A physical core: one subgraph of a package.
#[derive(Debug, Clone, Default)]
pub struct Core {
    /// Its name in errors: that of the subgraph.
    pub name: String,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Its queue sets.
    pub queue_sets: Vec<QueueSet>,
    /// Its engines, each with what it triggers.
    pub engines: Vec<Engine>,
}

/// A variable and where its bytes lie.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its `var_id`.
    pub id: VariableId,
    /// Its name in errors.
    pub name: String,
    /// Its bytes; `None` for one that has none, such as a `dge-table`.
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
    /// What it runs.
    pub kind: QueueKind,
    /// Number of its queues, 1 to [`MAX_QUEUES`].
    pub queues: u32,
    /// Its instances; none when it has but the one of its own name.
    pub instances: Vec<String>,
    /// What its queues increment at the end of a transfer without a semaphore of its own: queue *k*
    /// entry *k* modulo their number. May be empty.
    pub semaphores: Vec<u64>,
    /// The one engine that has transfers on it.
    pub owner: Option<String>,
    /// Whether its transfers run when the model starts.
    pub is_pinned: bool,
}

impl QueueSet {
    /// A set of so many queues, without anything else.
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

/// An engine: who triggers.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Its name: `pe`, `act`, `pool`, `dve` or `sp` in packages.
    pub name: String,
    /// What it triggers, in the order of its list.
    pub transfers: Vec<Transfer>,
}

/// An entry of an engine's `dma` list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfer {
    /// What triggers name.
    pub id: u32,
    /// The queue set.
    pub queue: Option<String>,
    /// The instance of a queue set; goes before `queue`.
    pub instance: Option<String>,
    /// The function that triggers this and what follows on the queue set.
    pub function_start: Option<String>,
    /// Whether it begins at the first queue of the set.
    pub section_start: bool,
    /// The event that its end sets.
    pub event: Option<u64>,
    /// The semaphore that its end increments by the number of queues.
    pub semaphore: Option<u64>,
    /// Semaphores of the other core that its end increments so.
    pub remote_semaphores: Vec<u64>,
    /// What moves.
    pub descriptors: Vec<Descriptor>,
}

impl Transfer {
    /// A transfer on a queue set that tells nobody of its end.
    pub fn new(id: u32, queue: &str, descriptors: Vec<Descriptor>) -> Self {
        Self {
            id,
            queue: Some(queue.into()),
            descriptors,
            ..Self::default()
        }
    }
}
