//! Calibration data: sets of inputs.

use crate::Model;
use crate::inputs::{ImageOptions, read_input, read_npz_inputs};
use std::path::{Path, PathBuf};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{BufferMut, Dimension, Signature, Tensor, TensorType};

/// The inputs of one execution, by name.
pub type Sample = Vec<(String, Tensor)>;

/// Reads calibration data for a model: an `.npz` with an array for each input, or a folder with such files, or, for a
/// model of one input, with files of any format of inputs (`.npy`, `.png`, `.jpg`, `.bin`, `.csv`), in the order of their
/// names. Arrays may have several samples, see [`split_samples`].
///
/// # Errors
/// Files that cannot be read or do not fit the model; all of a folder together.
pub fn read_samples(path: &Path, model: &Model, image: &ImageOptions) -> Result<Vec<Sample>> {
    let failed = |error| Error::io(path, "read", error);
    if !path.metadata().map_err(failed)?.is_dir() {
        return read_file(path, model, image).map_err(|error| error.at(Location::file(path)));
    }
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = files.collect::<std::io::Result<_>>().map_err(failed)?;
    files.retain(|file| file.is_file() && !is_hidden(file));
    files.sort();
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    for file in &files {
        match read_file(file, model, image) {
            Ok(read) => samples.extend(read),
            Err(error) => problems.push(error.at(Location::file(file))),
        }
    }
    if samples.is_empty() && problems.is_empty() {
        let text = "a folder without calibration data";
        let error = Error::new(ErrorKind::InvalidArgument, text).expected("files of inputs");
        return Err(error.at(Location::file(path)));
    }
    Error::from_all(problems).map_or(Ok(samples), Err)
}

fn is_hidden(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn read_file(file: &Path, model: &Model, image: &ImageOptions) -> Result<Vec<Sample>> {
    let extension = file
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    if extension == "npz" {
        return split_samples(read_npz_inputs(file)?, model);
    }
    let [input] = model.inputs() else {
        let text = "a model of several inputs";
        return Err(Error::new(ErrorKind::InvalidArgument, text).expected("an .npz"));
    };
    let array = match crate::inputs::read_array(file)? {
        Some(array) => array,
        // Of one sample: symbolic dimensions have their smallest sizes.
        None => read_input(file, &input.ty, image)?,
    };
    split_samples(vec![(input.name.clone(), array)], model)
}

/// Splits arrays into samples of a model. An array has one sample if its shape is that of the input. It has several, in
/// order, if it has one more dimension in front, or if its first extent is a multiple of the input's; a
/// dimension of batches ([`Model::batch_dimension`]) is split into samples of one row. Arrays of
/// one sample belong to all samples.
///
/// # Errors
/// Missing inputs and arrays that do not fit, together.
pub fn split_samples(arrays: Vec<(String, Tensor)>, model: &Model) -> Result<Vec<Sample>> {
    let mut problems = Vec::new();
    let mut columns: Vec<(String, Vec<Tensor>)> = Vec::new();
    for input in model.inputs() {
        let found = arrays.iter().find(|(name, _)| *name == input.name);
        let split = match found {
            None => Err(Error::new(
                ErrorKind::InvalidArgument,
                "calibration data without this input",
            )),
            Some((_, array)) => split(array, input, model.batch_dimension()),
        };
        match split {
            Ok(parts) => columns.push((input.name.clone(), parts)),
            Err(error) => {
                problems.push(error.at(Location::field(format!("input '{}'", input.name))));
            }
        }
    }
    let count = columns
        .iter()
        .map(|(_, parts)| parts.len())
        .max()
        .unwrap_or(0);
    for (name, parts) in &columns {
        if parts.len() != count && parts.len() != 1 {
            let text = "an input with another count of samples than the others";
            let error = Error::new(ErrorKind::InvalidArgument, text)
                .expected(count)
                .found(parts.len());
            problems.push(error.at(Location::field(format!("input '{name}'"))));
        }
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    let sample = |nth: usize| {
        let columns = columns.iter();
        columns
            .map(|(name, parts)| (name.clone(), parts[nth.min(parts.len() - 1)].clone()))
            .collect()
    };
    Ok((0..count).map(sample).collect())
}

/// The samples in the array of one input.
fn split(array: &Tensor, input: &Signature, batch: Option<&str>) -> Result<Vec<Tensor>> {
    let extents = &array.shape()[..];
    let fits = |extents: &[usize]| {
        extents.len() == input.shape.len()
            && extents
                .iter()
                .zip(&input.shape)
                .all(|(&extent, dimension)| match dimension {
                    Dimension::Fixed(fixed) => extent == *fixed,
                    _ => true,
                })
    };
    let misfit = || {
        Error::new(
            ErrorKind::InvalidArgument,
            "calibration data that does not fit the input",
        )
        .expected(format_args!("{input}, or several of them"))
        .found(array.ty())
    };
    if array.dtype() != input.ty.dtype() || array.dtype().bits() < 8 || extents.contains(&0) {
        return Err(misfit());
    }
    match (extents, &input.shape[..]) {
        ([_, rest @ ..], _) if fits(rest) => parts(array, 1, rest),
        ([rows, rest @ ..], [first, ..]) => {
            let (rows_of_sample, is_batch) = match first {
                Dimension::Fixed(rows) => (*rows, true),
                Dimension::Symbolic { expression, .. } => {
                    match batch == Some(expression.as_str()) {
                        true => (1, true),
                        false => (*rows, false),
                    }
                }
            };
            let sample: Vec<usize> = [&[rows_of_sample], rest].concat();
            if !fits(&sample) || rows_of_sample == 0 || rows % rows_of_sample != 0 {
                return Err(misfit());
            }
            match is_batch {
                true => parts(array, rows_of_sample, &sample),
                false => Ok(vec![array.clone()]),
            }
        }
        _ if fits(extents) => Ok(vec![array.clone()]),
        _ => Err(misfit()),
    }
}

/// Parts of some rows, each of this shape.
fn parts(array: &Tensor, rows: usize, shape: &[usize]) -> Result<Vec<Tensor>> {
    let count = array.shape()[0] / rows;
    let ty = TensorType::new(array.dtype(), shape)?;
    let chunks = array.bytes().chunks_exact(ty.bytes()).take(count);
    chunks
        .map(|bytes| Tensor::new(ty.clone(), BufferMut::copy_of(bytes)?.freeze()))
        .collect()
}
