//! The backends a runtime has, by name, in order of registration.

use crate::{Backend, BackendId};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The backends of one runtime; not a global.
#[derive(Clone, Default)]
pub struct Registry(Vec<Arc<dyn Backend>>);

impl Registry {
    /// No backends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; its name must be new, not empty and not `Unknown` (facts, armnn.md 1.6).
    pub fn register(&mut self, backend: Arc<dyn Backend>) -> Result<()> {
        let id = backend.id();
        if id.as_str().is_empty() || id.as_str() == "Unknown" {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "a backend needs a name")
                    .found(format_args!("'{id}'")),
            );
        }
        if self.find(&id).is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("backend {id} is registered already"),
            ));
        }
        self.0.push(backend);
        Ok(())
    }

    /// The backend of that name.
    pub fn find(&self, id: &BackendId) -> Option<&Arc<dyn Backend>> {
        self.0.iter().find(|backend| backend.id() == *id)
    }

    /// All, in order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.0.iter()
    }

    /// All names, joined by ", ".
    pub fn names(&self) -> String {
        self.0
            .iter()
            .map(|backend| backend.id().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }
}
