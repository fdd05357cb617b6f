//! Intermediate tensors of an execution, kept or written to files.
//!
//! ```
//! use tenon::tap::Taps;
//! use tenon::{Compiler, LoadOptions, Pattern, RunOptions, Tensor};
//!
//! # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! # let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
//! # let image = Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?;
//! let taps = Taps::new(vec![Pattern::new("*")]);
//! model.run_with(&[("image", &image)], RunOptions::new().tap(&taps))?;
//! for (name, tensor) in taps.tensors()? {
//!     println!("{name}: {}", tensor.ty());
//! }
//! # Ok::<(), tenon::Error>(())
//! ```

use crate::files::file_names;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tenon_base::{Error, ErrorKind, Pattern, Result};

pub use tenon_runtime::{NanCheck, Tap, TapParts, TapValue, WorkloadPart};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, npy};

/// A tap that keeps the values whose name, or the name of whose node, matches a pattern.
pub struct Taps {
    patterns: Vec<Pattern>,
    found: Mutex<TapRecord>,
}

#[derive(Default)]
struct TapRecord {
    tensors: Vec<(String, Tensor)>,
    /// The position of a value by its name, subgraph and run.
    positions: HashMap<(String, String, u64), usize>,
    /// Some names that do not match, for the error.
    others: Vec<String>,
    parts: Vec<TappedPart>,
}

/// A part of a workload whose node matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TappedPart {
    /// The workload's node.
    pub node: String,
    /// The part.
    pub part: WorkloadPart,
    /// Its time by the backend's clock.
    pub time: Duration,
}

/// Names in the error if no value matches.
const SHOWN: usize = 8;

impl Taps {
    /// A tap for these patterns.
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Self {
            patterns,
            found: Mutex::default(),
        }
    }

    /// The parts of workloads whose nodes match, in the order of their execution.
    pub fn parts(&self) -> Vec<TappedPart> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.parts.clone()
    }

    /// The matching values by name, in the order of their first computation. The tensors of a value that is computed
    /// several times, as in the body of a loop, are called `NAME.0`, `NAME.1` and so on.
    ///
    /// # Errors
    /// No value matched.
    pub fn tensors(self) -> Result<Vec<(String, Tensor)>> {
        let found = self.found.into_inner();
        let record = found.unwrap_or_else(PoisonError::into_inner);
        let TapRecord {
            mut tensors,
            others,
            ..
        } = record;
        if tensors.is_empty() {
            let patterns: Vec<&str> = self.patterns.iter().map(Pattern::as_str).collect();
            let text = format!("no value matches '{}'", patterns.join("' or '"));
            return Err(Error::new(ErrorKind::Usage, text)
                .expected(format_args!("a name such as {}", others.join(", "))));
        }
        number(&mut tensors);
        Ok(tensors)
    }

    /// Writes the values as `FOLDER/NAME.npy`; returns names and files.
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
    fn on_parts(&self, tapped: TapParts<'_>) -> Result<()> {
        let matches = |pattern: &Pattern| pattern.matches(tapped.node);
        if self.patterns.iter().any(matches) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            let parts = tapped.parts.iter().zip(tapped.nanoseconds);
            found
                .parts
                .extend(parts.map(|(part, &nanoseconds)| TappedPart {
                    node: tapped.node.to_owned(),
                    part: part.clone(),
                    time: Duration::from_nanos(nanoseconds),
                }));
        }
        Ok(())
    }

    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let matches =
            |pattern: &Pattern| pattern.matches(tapped.value) || pattern.matches(tapped.node);
        // Strings have no form in .npy files.
        let is_string = tapped.ty.is_some_and(|ty| ty.dtype() == DataType::String);
        if is_string || !self.patterns.iter().any(matches) {
            if found.others.len() < SHOWN {
                found.others.push(tapped.value.to_owned());
            }
            return Ok(());
        }
        let ty = match tapped.ty {
            Some(ty) => ty.clone(),
            // Variables that only descriptors use have no type.
            None => TensorType::new(DataType::U8, [tapped.bytes.len()])?,
        };
        let tensor = Tensor::new(ty, BufferMut::copy_of(tapped.bytes)?.freeze())?;
        // A value that is written in several steps is reported after each.
        let key = (
            tapped.value.to_owned(),
            tapped.subgraph.to_owned(),
            tapped.run,
        );
        match found.positions.get(&key).copied() {
            Some(position) => found.tensors[position].1 = tensor,
            None => {
                let position = found.tensors.len();
                found.tensors.push((tapped.value.to_owned(), tensor));
                found.positions.insert(key, position);
            }
        }
        Ok(())
    }
}

/// Makes names that occur several times distinct: `NAME.0`, `NAME.1` and so on.
fn number(tensors: &mut [(String, Tensor)]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (name, _) in tensors.iter() {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let mut next: HashMap<String, usize> = HashMap::new();
    for (name, _) in tensors {
        if counts.get(name).is_some_and(|&count| count > 1) {
            let next = next.entry(name.clone()).or_default();
            *name = format!("{name}.{next}");
            *next += 1;
        }
    }
}
