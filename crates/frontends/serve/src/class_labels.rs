//! The names of the classes that outputs score, for the extension "classification".

use crate::port::Port;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenon::outputs::class_labels;
use tenon::{Error, ErrorKind, Location, Result};

/// The names of the classes of a model.
#[derive(Debug, Default)]
pub struct ClassLabels {
    /// Those in its package, for every output.
    package: Option<Vec<String>>,
    /// Those of the settings, by output.
    outputs: BTreeMap<String, Vec<String>>,
}

/// The most bytes of a file of names.
const MAX_BYTES: u64 = 16 << 20;

impl ClassLabels {
    /// Reads the files that settings in `folder` name, a class in each line.
    ///
    /// # Errors
    /// Files that cannot be read, and too large ones.
    pub fn read(files: &BTreeMap<String, PathBuf>, folder: &Path) -> Result<Self> {
        let mut outputs = BTreeMap::new();
        let mut problems = Vec::new();
        for (output, file) in files {
            match lines(&folder.join(file)) {
                Ok(labels) => drop(outputs.insert(output.clone(), labels)),
                Err(error) => {
                    // Callers see the text without its place.
                    let text = format!("labels of output {output:?}: {}", error.message());
                    let place = error.location().clone();
                    problems.push(Error::new(error.kind(), text).at(place).at(field(output)));
                }
            }
        }
        let package = None;
        Error::from_all(problems).map_or(Ok(Self { package, outputs }), Err)
    }

    /// Adds the names in a package, by what it says about itself.
    pub fn add_package(&mut self, metadata: &BTreeMap<String, String>) {
        self.package = class_labels(metadata);
    }

    /// Whether the outputs of the settings are those of the model.
    ///
    /// # Errors
    /// Settings that name other outputs.
    pub fn check(&self, outputs: &[Port]) -> Result<()> {
        let names: Vec<&str> = outputs.iter().map(|port| port.name.as_str()).collect();
        let unknown = (self.outputs.keys()).filter(|name| !names.contains(&name.as_str()));
        let problems = unknown.map(|name| {
            let error = Error::new(ErrorKind::BadInput, "labels of an unknown output");
            let error = error.expected(names.join(" or ")).found(name);
            error.at(field(name))
        });
        Error::from_all(problems.collect::<Vec<_>>()).map_or(Ok(()), Err)
    }

    /// The names of the classes that an output scores.
    pub fn find(&self, output: &str) -> Option<&[String]> {
        let labels = self.outputs.get(output).or(self.package.as_ref());
        labels.map(Vec::as_slice)
    }
}

fn field(output: &str) -> Location {
    Location::field(format!("labels.{output}"))
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io(path, "read", error);
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_BYTES {
        let text = format!("a file of {bytes} bytes, expected at most {MAX_BYTES}");
        return Err(Error::new(ErrorKind::BadInput, text).at(Location::file(path)));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Ok(text.lines().map(str::to_owned).collect())
}
