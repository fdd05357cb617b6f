//! Tensor sets: the inputs or outputs of one execution by name.

use super::{CoreTensor, WeakTensor};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tenon_base::{Error, ErrorKind, Result};

/// A map from names to tensors. It has weak references: the caller keeps the tensors alive while
/// the set is used (nrt 1.7).
#[derive(Default)]
pub struct TensorSet(RwLock<BTreeMap<Box<str>, WeakTensor>>);

impl TensorSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor under a name; replaces the previous one of this name.
    pub fn add(&self, name: &str, tensor: &CoreTensor) {
        let tensor = tensor.downgrade();
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.into(), tensor);
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// `NotFound` if there is none, `InvalidHandle` if it was freed.
    pub fn tensor(&self, name: &str) -> Result<CoreTensor> {
        match self.find(name)? {
            Some(tensor) => Ok(tensor),
            None => Err(Error::new(
                ErrorKind::NotFound,
                format!("the set has no tensor '{name}'"),
            )
            .expected(self.names())),
        }
    }

    /// The tensor of that name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Option<CoreTensor>> {
        let all = self.read();
        let Some(tensor) = all.get(name) else {
            return Ok(None);
        };
        let tensor = tensor.upgrade().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidHandle,
                format!("the tensor '{name}' of the set was freed"),
            )
        })?;
        Ok(Some(tensor))
    }

    /// The names, in order, for messages.
    pub(crate) fn names(&self) -> String {
        let all = self.read();
        if all.is_empty() {
            return "nothing (the set is empty)".to_owned();
        }
        let quoted: Vec<String> = all.keys().map(|name| format!("'{name}'")).collect();
        quoted.join(", ")
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Box<str>, WeakTensor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TensorSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TensorSet({})", self.names())
    }
}
