//! The kept instances of a model with symbols: those used least recently are dropped first.

use crate::Model;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Instances by the sizes of the symbols, bounded in number and in bytes.
pub(super) struct Instances {
    count: usize,
    bytes: usize,
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
    model: Model,
    bytes: usize,
    used: u64,
}

impl Instances {
    /// Keeps at most `count` instances whose arenas have `bytes` together, but always the last one.
    pub fn new(count: usize, bytes: usize) -> Self {
        Self {
            count: count.max(1),
            bytes,
            kept: Mutex::default(),
        }
    }

    /// The instance for these sizes.
    pub fn find(&self, sizes: &[i64]) -> Option<Model> {
        let mut kept = self.lock();
        kept.clock += 1;
        let clock = kept.clock;
        let found = kept
            .instances
            .iter_mut()
            .find(|kept| *kept.sizes == *sizes)?;
        found.used = clock;
        Some(found.model.clone())
    }

    /// Keeps an instance and returns it, or the one that another thread has kept for these sizes.
    pub fn insert(&self, sizes: &[i64], model: Model) -> Model {
        let mut kept = self.lock();
        kept.clock += 1;
        let clock = kept.clock;
        if let Some(found) = kept.instances.iter_mut().find(|kept| *kept.sizes == *sizes) {
            found.used = clock;
            return found.model.clone();
        }
        let arena = usize::try_from(model.memory_plan().arena_bytes).unwrap_or(usize::MAX);
        let mut dropped = Vec::new();
        loop {
            let sum = |sum: usize, kept: &Instance| sum.saturating_add(kept.bytes);
            let bytes = kept.instances.iter().fold(arena, sum);
            if kept.instances.len() < self.count && bytes <= self.bytes {
                break;
            }
            let oldest = (0..kept.instances.len()).min_by_key(|&at| kept.instances[at].used);
            match oldest {
                Some(oldest) => dropped.push(kept.instances.swap_remove(oldest)),
                None => break,
            }
        }
        kept.instances.push(Instance {
            sizes: sizes.into(),
            model: model.clone(),
            bytes: arena,
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
