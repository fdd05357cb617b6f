//! Keeping intermediate tensors of an execution, to be written as files.

use crate::files::file_names;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Pattern, Result};

pub use tenon_runtime::{NanCheck, Tap, TapValue};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, npy};

/// A tap that keeps the values of chosen names. A pattern is of a value's name or of the name of
/// the node that makes it.
pub struct Taps {
    patterns: Vec<Pattern>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    tensors: Vec<(String, Tensor)>,
    /// Some names that are of no pattern, for the message when none is.
    others: Vec<String>,
}

/// Names told when no value was of a pattern.
const SHOWN: usize = 8;

impl Taps {
    /// A tap for what is of one of the patterns.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self {
            patterns,
            found: Mutex::default(),
        }
    }

    /// The values that were made, by name, in the order in which they were made first.
    ///
    /// # Errors
    /// When none was of a pattern.
    pub fn tensors(self) -> Result<Vec<(String, Tensor)>> {
        let found = self.found.into_inner();
        let Found { tensors, others } = found.unwrap_or_else(PoisonError::into_inner);
        if tensors.is_empty() {
            let patterns: Vec<&str> = self.patterns.iter().map(Pattern::as_str).collect();
            let text = format!("no value is called like '{}'", patterns.join("' or '"));
            return Err(Error::new(ErrorKind::Usage, text)
                .expected(format_args!("a name such as {}", others.join(", "))));
        }
        Ok(tensors)
    }

    /// Writes what was made as `FOLDER/NAME.npy`, and answers names and files.
    pub fn write(self, folder: &Path) -> Result<Vec<(String, PathBuf)>> {
        let tensors = self.tensors()?;
        std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
        let files = file_names(tensors.iter().map(|(name, _)| name.as_str()));
        let mut written = Vec::new();
        for ((name, tensor), file) in tensors.into_iter().zip(files) {
            let path = folder.join(format!("{file}.npy"));
            npy::write_npy(&path, &tensor)?;
            written.push((name, path));
        }
        Ok(written)
    }
}

impl Tap for Taps {
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted =
            |pattern: &Pattern| pattern.matches(tapped.value) || pattern.matches(tapped.node);
        if !self.patterns.iter().any(wanted) {
            if found.others.len() < SHOWN {
                found.others.push(tapped.value.to_owned());
            }
            return Ok(());
        }
        let ty = match tapped.ty {
            Some(ty) => ty.clone(),
            // Only descriptors touch it, which know bytes alone.
            None => TensorType::new(DataType::U8, [tapped.bytes.len()])?,
        };
        let tensor = Tensor::new(ty, BufferMut::copy_of(tapped.bytes)?.freeze())?;
        let known = found.tensors.iter_mut();
        match known
            .map(|(name, tensor)| (&*name, tensor))
            .find(|(name, _)| *name == tapped.value)
        {
            Some((_, known)) => *known = tensor,
            None => found.tensors.push((tapped.value.to_owned(), tensor)),
        }
        Ok(())
    }
}
