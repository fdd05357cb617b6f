//! The kept instances of a model with symbols: those used least recently are dropped first.

use super::appended::AppendedPort;
use crate::Model;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Instances by the sizes of the symbols, bounded in number. Their large arenas are in a pool, which is bounded.
pub(super) struct Instances {
    count: usize,
    kept: Mutex<KeptInstances>,
}

#[derive(Default)]
struct KeptInstances {
    instances: Vec<Instance>,
    /// Counts uses.
    clock: u64,
}

struct Instance {
    sizes: Box<[i64]>,
    appended: Box<[AppendedPort]>,
    model: Model,
    used: u64,
}

impl Instance {
    fn is_for(&self, sizes: &[i64], appended: &[AppendedPort]) -> bool {
        *self.sizes == *sizes && *self.appended == *appended
    }
}

impl Instances {
    /// Keeps at most `count` instances, and at least one.
    pub fn new(count: usize) -> Self {
        Self {
            count: count.max(1),
            kept: Mutex::default(),
        }
    }

    /// The instance for these sizes and outputs that extend inputs.
    pub fn find(&self, sizes: &[i64], appended: &[AppendedPort]) -> Option<Model> {
        let mut kept = self.lock();
        kept.clock += 1;
        let clock = kept.clock;
        let found = kept
            .instances
            .iter_mut()
            .find(|kept| kept.is_for(sizes, appended))?;
        found.used = clock;
        Some(found.model.clone())
    }

    /// Keeps an instance and returns it, or the one that another thread has kept for the same.
    pub fn insert(&self, sizes: &[i64], appended: &[AppendedPort], model: Model) -> Model {
        let mut kept = self.lock();
        kept.clock += 1;
        let clock = kept.clock;
        let mut instances = kept.instances.iter_mut();
        if let Some(found) = instances.find(|kept| kept.is_for(sizes, appended)) {
            found.used = clock;
            return found.model.clone();
        }
        let mut dropped = None;
        if kept.instances.len() >= self.count {
            let oldest = (0..kept.instances.len()).min_by_key(|&at| kept.instances[at].used);
            dropped = oldest.map(|oldest| kept.instances.swap_remove(oldest));
        }
        kept.instances.push(Instance {
            sizes: sizes.into(),
            appended: appended.into(),
            model: model.clone(),
            used: clock,
        });
        // Freed without the lock.
        drop(kept);
        drop(dropped);
        model
    }

    /// Bytes of memory held for executions that are not running.
    pub fn idle_bytes(&self) -> usize {
        let kept = self.lock();
        kept.instances
            .iter()
            .map(|kept| kept.model.idle_bytes())
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, KeptInstances> {
        // A holder that panicked leaves complete instances.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
