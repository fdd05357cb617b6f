//! The arrays of the files of a job, by the names of inputs.

use super::job::{ArrayFile, Job};
use std::path::PathBuf;
use tenon::{Error, ErrorKind, Location, Model, Result, Tensor};

/// An array for an input.
pub struct NamedArray {
    pub name: String,
    pub file: PathBuf,
    pub array: Tensor,
}

impl NamedArray {
    /// Reads the files of a job for the inputs of a model. All errors are reported together.
    pub fn read_all(job: &Job, model: &Model) -> Result<Vec<Self>> {
        let mut arrays = Vec::new();
        let mut problems = Vec::new();
        for source in &job.sources {
            match read(source, model) {
                Ok(read) => arrays.extend(read),
                Err(error) => problems.push(error),
            }
        }
        Error::from_all(problems).map_or(Ok(arrays), Err)
    }

    /// An error of the array.
    pub fn problem(&self, text: &str) -> Error {
        let place = Location {
            field: Some(format!("array '{}'", self.name)),
            ..Location::file(&self.file)
        };
        Error::new(ErrorKind::InvalidArgument, text).at(place)
    }
}

fn read(source: &ArrayFile, model: &Model) -> Result<Vec<NamedArray>> {
    let named = |(name, array)| NamedArray {
        name,
        file: source.file.clone(),
        array,
    };
    let extension = source.file.extension();
    let is_npz = extension.is_some_and(|found| found.eq_ignore_ascii_case("npz"));
    let name = match (&source.input, model.inputs()) {
        (Some(name), _) => name,
        (None, _) if is_npz => {
            let arrays = tenon::inputs::read_npz_inputs(&source.file)?;
            return Ok(arrays.into_iter().map(named).collect());
        }
        (None, [input]) => &input.name,
        (None, _) => {
            let text = "an .npy file has no input name, and the model has several inputs";
            let error = Error::new(ErrorKind::Usage, text).expected("--input NAME=FILES");
            return Err(error.at(Location::file(&source.file)));
        }
    };
    let array = tenon::inputs::read_array(&source.file)?.ok_or_else(|| {
        let text = "the file has no array";
        Error::new(ErrorKind::InvalidArgument, text).at(Location::file(&source.file))
    })?;
    Ok(vec![named((name.clone(), array))])
}
