//! Array files as inputs: `.npy`, `.npz`, raw `.bin` and `.csv`.

use super::{ImageOptions, read_image, read_json};
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, convert, npy};

/// Reads the file of one input. The extension selects the format: `.npy`, `.npz` (with one array), `.bin`,
/// `.csv`, `.json`, `.png`, `.jpg`. The array must have the input's type and shape;
/// leading extents of 1 may be missing or added, values of tables are rounded to the type.
pub fn read_input(path: &Path, ty: &TensorType, image: &ImageOptions) -> Result<Tensor> {
    let here = |error: Error| error.at(Location::file(path));
    if let Some(array) = read_array(path)? {
        return reshape_to_input(array, ty).map_err(here);
    }
    match extension(path).as_str() {
        "bin" => read_raw(path, ty),
        "csv" => read_csv(path, ty).map_err(here),
        "json" => read_json(path, ty, None),
        _ => read_image(path, ty, image),
    }
}

/// The array of a file that contains its type: `.npy`, and `.npz` with one array; `None` for the
/// other formats of inputs.
pub fn read_array(path: &Path) -> Result<Option<Tensor>> {
    match extension(path).as_str() {
        "npy" => npy::read_npy(path).map(Some),
        "npz" => {
            let mut arrays = npy::read_npz(path)?;
            match (arrays.pop(), arrays.is_empty()) {
                (Some((_, array)), true) => Ok(Some(array)),
                _ => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "an .npz given for one input must hold one array",
                )
                .at(Location::file(path))),
            }
        }
        "bin" | "csv" | "json" | "png" | "jpg" | "jpeg" => Ok(None),
        other => Err(Error::new(ErrorKind::Usage, "an input of unknown kind")
            .expected(".npy, .npz, .bin, .csv, .json, .png or .jpg")
            .found(match other {
                "" => "no extension".into(),
                other => format!(".{other}"),
            })
            .at(Location::file(path))),
    }
}

/// The arrays of an `.npz` by name; a prefix `in.` is dropped and arrays with `out.` (expected
/// outputs) are left out.
pub fn read_npz_inputs(path: &Path) -> Result<Vec<(String, Tensor)>> {
    Ok(npy::read_npz(path)?
        .into_iter()
        .filter(|(name, _)| !name.starts_with("out."))
        .map(|(name, array)| match name.strip_prefix("in.") {
            Some(short) => (short.to_owned(), array),
            None => (name, array),
        })
        .collect())
}

/// The expected outputs in an `.npz`: arrays with the prefix `out.`, which is dropped, or all when
/// none has it.
pub fn read_npz_outputs(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let arrays = npy::read_npz(path)?;
    let prefixed: Vec<_> = arrays
        .iter()
        .filter_map(|(name, array)| Some((name.strip_prefix("out.")?.to_owned(), array.clone())))
        .collect();
    Ok(if prefixed.is_empty() {
        arrays
    } else {
        prefixed
    })
}

/// The extension in lower case.
pub(crate) fn extension(path: &Path) -> String {
    path.extension()
        .map(|e| e.to_string_lossy().to_lowercase())
        .unwrap_or_default()
}

/// Reshapes `array` to the type of an input. Leading extents of 1 may be added or removed, nothing else.
pub fn reshape_to_input(array: Tensor, ty: &TensorType) -> Result<Tensor> {
    let core = |shape: &[usize]| {
        shape
            .iter()
            .copied()
            .skip_while(|&extent| extent == 1)
            .collect::<Vec<_>>()
    };
    if array.dtype() != ty.dtype() || core(array.shape()) != core(ty.shape()) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "an array that does not fit the input",
        )
        .expected(ty)
        .found(array.ty()));
    }
    array.reshaped(ty.shape().clone())
}

fn read_raw(path: &Path, ty: &TensorType) -> Result<Tensor> {
    let failed = |error| Error::io(path, "read", error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let buffer = tenon_tensor::Buffer::map(&file).map_err(failed)?;
    Tensor::new(ty.clone(), buffer).map_err(|error| error.at(Location::file(path)))
}

fn read_csv(path: &Path, ty: &TensorType) -> Result<Tensor> {
    let bad = |error: csv::Error| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("cannot read the table: {error}"),
        )
    };
    let file = std::fs::File::open(path).map_err(|error| Error::io(path, "read", error))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(file);
    let wide = if ty.dtype().is_float() {
        DataType::F64
    } else {
        DataType::I64
    };
    let (mut floats, mut ints) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map_or(0, csv::Position::line);
        for (index, field) in record
            .iter()
            .enumerate()
            .filter(|(_, field)| !field.is_empty())
        {
            let parsed = match wide {
                DataType::F64 => field.parse().map(|v| floats.push(v)).is_ok(),
                _ => field.parse().map(|v| ints.push(v)).is_ok(),
            };
            if !parsed {
                return Err(Error::new(ErrorKind::InvalidArgument, "not a number")
                    .found(format_args!("'{field}'"))
                    .at(Location::default().line_column(line as u32, index as u32 + 1)));
            }
        }
    }
    let count = floats.len() + ints.len();
    if count != ty.elements() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a table that does not fit the input",
        )
        .expected(format_args!("{} elements for {ty}", ty.elements()))
        .found(count));
    }
    let table = match wide {
        DataType::F64 => Tensor::from_slice::<f64>(ty.shape().clone(), &floats)?,
        _ => Tensor::from_slice::<i64>(ty.shape().clone(), &ints)?,
    };
    if table.dtype() == ty.dtype() {
        Ok(table)
    } else {
        convert(&table, ty.dtype())
    }
}

/// A tensor of random elements: floats uniform in 0..1, integers and bools 0 or 1. The same seed
/// gives the same elements.
///
/// # Errors
/// `OutOfMemory` if the tensor does not fit in memory.
pub fn random_tensor(ty: &TensorType, seed: u64) -> Result<Tensor> {
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let is_float = ty.dtype().is_float();
    let mut element = move || {
        if is_float {
            (next() >> 40) as f32 / (1u64 << 24) as f32
        } else {
            (next() >> 63) as f32
        }
    };
    let mut buffer = BufferMut::zeroed(ty.bytes())?;
    let offset = |at: usize| (at * ty.dtype().bits()).div_ceil(8);
    for first in (0..ty.elements()).step_by(PART) {
        let count = PART.min(ty.elements() - first);
        let values: Vec<f32> = (0..count).map(|_| element()).collect();
        let values = convert(&Tensor::from_slice([count], &values)?, ty.dtype())?;
        buffer[offset(first)..offset(first + count)].copy_from_slice(values.bytes());
    }
    Tensor::new(ty.clone(), buffer.freeze())
}

/// Random elements generated at a time; even, for types of four bits.
const PART: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(dtype: DataType, shape: &[usize]) -> TensorType {
        TensorType::new(dtype, shape).unwrap()
    }

    #[test]
    fn tables_become_tensors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "1, 2\n3, 4.5\n").unwrap();
        let image = ImageOptions::default();
        let tensor = read_input(&path, &ty(DataType::F32, &[2, 2]), &image).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.5]);
        let error = read_input(&path, &ty(DataType::I32, &[4]), &image).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("t.csv:2:2: not a number: found '4.5'"),
            "{error}"
        );
        let error = read_input(&path, &ty(DataType::F32, &[3]), &image).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected 3 elements for f32[3], found 4"),
            "{error}"
        );
    }

    #[test]
    fn raw_bytes_must_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.bin");
        std::fs::write(&path, [1, 0, 0, 0]).unwrap();
        let image = ImageOptions::default();
        let tensor = read_input(&path, &ty(DataType::I32, &[1]), &image).unwrap();
        assert_eq!(tensor.as_slice::<i32>().unwrap(), [1]);
        assert!(read_input(&path, &ty(DataType::I64, &[1]), &image).is_err());
        let error = read_input(
            &folder.path().join("t.xyz"),
            &ty(DataType::I64, &[1]),
            &image,
        );
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn leading_ones_do_not_matter() {
        let array = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
        assert_eq!(
            reshape_to_input(array.clone(), &ty(DataType::F32, &[1, 2]))
                .unwrap()
                .shape()[..],
            [1, 2]
        );
        assert!(reshape_to_input(array.clone(), &ty(DataType::F32, &[2, 1])).is_err());
        assert!(reshape_to_input(array, &ty(DataType::F64, &[2])).is_err());
    }

    #[test]
    fn random_tensors_of_any_size() {
        let error = random_tensor(&ty(DataType::F32, &[1 << 46]), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(
            random_tensor(&ty(DataType::F32, &[0, 9]), 1)
                .unwrap()
                .bytes()
                .len(),
            0
        );
        // Elements of four bits, made in parts.
        let whole = random_tensor(&ty(DataType::I4, &[PART + 3]), 1).unwrap();
        let wide = random_tensor(&ty(DataType::I64, &[PART + 3]), 1).unwrap();
        assert_eq!(convert(&whole, DataType::I64).unwrap(), wide);
    }

    #[test]
    fn a_seed_gives_the_same_elements() {
        let ty = ty(DataType::F32, &[100]);
        let a = random_tensor(&ty, 7).unwrap();
        assert_eq!(a, random_tensor(&ty, 7).unwrap());
        assert_ne!(a, random_tensor(&ty, 8).unwrap());
        assert!(
            a.as_slice::<f32>()
                .unwrap()
                .iter()
                .all(|v| (0.0..1.0).contains(v))
        );
    }
}
