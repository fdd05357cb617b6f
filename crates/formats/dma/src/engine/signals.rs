//! Semaphores and events of a core (docs/dma.md, "Semaphores and events").

use std::collections::{BTreeMap, BTreeSet};
use tenon_base::{Error, ErrorKind, Result};

/// The semaphores and events of a core, by which its transfers and engine programs synchronise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    /// Values by semaphore; an absent one is 0.
    semaphores: BTreeMap<u64, u32>,
    /// Those that are set.
    events: BTreeSet<u64>,
}

impl Signals {
    pub fn semaphore(&self, semaphore: u64) -> u32 {
        self.semaphores.get(&semaphore).copied().unwrap_or(0)
    }

    pub fn increment(&mut self, semaphore: u64, value: u32) -> Result<()> {
        let now = self.semaphore(semaphore);
        let next = now.checked_add(value).ok_or_else(|| {
            let text = format!("semaphore {semaphore} overflows");
            Error::new(ErrorKind::ExecutionFailed, text)
                .expected(format_args!("at most {}", u32::MAX))
                .found(format_args!("{now} + {value}"))
        })?;
        self.set_semaphore(semaphore, next);
        Ok(())
    }

    pub fn set_semaphore(&mut self, semaphore: u64, value: u32) {
        self.semaphores.insert(semaphore, value);
    }

    pub fn event(&self, event: u64) -> bool {
        self.events.contains(&event)
    }

    pub fn set_event(&mut self, event: u64) {
        self.events.insert(event);
    }

    pub fn clear_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Semaphores that were incremented or set, with their values.
    pub fn semaphores(&self) -> impl Iterator<Item = (u64, u32)> {
        self.semaphores.iter().map(|(&id, &value)| (id, value))
    }

    /// Events that are set.
    pub fn events(&self) -> impl Iterator<Item = u64> {
        self.events.iter().copied()
    }
}
