//! Input files on the command line.

use crate::model_flags::InputFlags;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tenon::inputs::{ImageOptions, read_input, read_json};
use tenon::{Error, ErrorKind, Location, MapKeys, Result, Tensor, TensorType};

/// The input files of the command line.
pub struct InputFiles {
    model: PathBuf,
    named: Vec<(String, PathBuf)>,
    /// Files without an input name: one is allowed, for the only input without a file.
    unnamed: Vec<PathBuf>,
    /// Arrays of files that contain their type, already read.
    arrays: Vec<InputArray>,
    /// The inputs that are maps.
    maps: BTreeMap<String, MapKeys>,
}

/// An array of a file.
struct InputArray {
    name: String,
    file: PathBuf,
    array: Tensor,
}

/// The values of a flag by name.
///
/// # Errors
/// A name that is used twice.
pub fn once<T: Clone>(flag: &str, pairs: &[(String, T)]) -> Result<BTreeMap<String, T>> {
    let mut all = BTreeMap::new();
    for (name, value) in pairs {
        if all.insert(name.clone(), value.clone()).is_some() {
            let text = format!("{flag} gives '{name}' twice");
            return Err(Error::new(ErrorKind::Usage, text).expected("one value for each name"));
        }
    }
    Ok(all)
}

/// The type of an input.
///
/// # Errors
/// A name that the model does not have.
pub fn type_of<'a, T>(signature: &'a [(String, T)], name: &str) -> Result<&'a T> {
    let found = signature.iter().find(|(known, _)| known == name);
    let names = || signature.iter().map(|(name, _)| name.as_str());
    found.map(|(_, ty)| ty).ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("the model has no input '{name}'"))
            .expected(names().collect::<Vec<_>>().join(", "))
    })
}

impl InputFiles {
    /// The input files of the flags, for the model in a file.
    pub fn read(model: &Path, flags: &InputFlags) -> Result<Self> {
        let mut given = Self {
            model: model.to_owned(),
            named: Vec::new(),
            unnamed: Vec::new(),
            arrays: Vec::new(),
            maps: BTreeMap::new(),
        };
        for text in &flags.inputs {
            // A path may contain '=', a name hardly ever a '/'.
            match text.split_once('=').filter(|(name, _)| !name.contains('/')) {
                Some((name, file)) => given.named.push((name.to_owned(), file.into())),
                None if text.to_lowercase().ends_with(".npz") => {
                    let file = Path::new(text);
                    let arrays = tenon::inputs::read_npz_inputs(file)?.into_iter();
                    given.arrays.extend(arrays.map(|(name, array)| InputArray {
                        name,
                        file: file.to_owned(),
                        array,
                    }));
                }
                None => given.unnamed.push(text.into()),
            }
        }
        given.check_unique()?;
        Ok(given)
    }

    /// Reads objects as maps for those inputs that are maps by the metadata of the model.
    pub fn set_maps(&mut self, metadata: &BTreeMap<String, String>) -> Result<()> {
        self.maps = MapKeys::of_metadata(metadata)?;
        Ok(())
    }

    /// Fails if an input has two files.
    fn check_unique(&self) -> Result<()> {
        let arrays = self.arrays.iter().map(|it| (it.name.clone(), ()));
        let files = self.named.iter().map(|(name, _)| (name.clone(), ()));
        once("--input", &arrays.chain(files).collect::<Vec<_>>()).map(drop)
    }

    /// Reads the files for these inputs that contain their type.
    pub fn read_arrays<T>(&mut self, signature: &[(String, T)]) -> Result<()> {
        let mut problems = Vec::new();
        for (name, file) in std::mem::take(&mut self.named) {
            let read = type_of(signature, &name).and_then(|_| tenon::inputs::read_array(&file));
            match read {
                Ok(Some(array)) => self.arrays.push(InputArray { name, file, array }),
                Ok(None) => self.named.push((name, file)),
                Err(error) => problems.push(error),
            }
        }
        let arrays = self.arrays.iter();
        problems.extend(arrays.filter_map(|it| type_of(signature, &it.name).err()));
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// The types of the arrays read so far.
    pub fn types(&self) -> impl Iterator<Item = (String, TensorType)> {
        let arrays = self.arrays.iter();
        arrays.map(|it| (it.name.clone(), it.array.ty().clone()))
    }

    /// A tensor for each input of `signature`, from a file or random. All errors are reported together.
    pub fn tensors(
        &mut self,
        signature: &[(String, TensorType)],
        flags: &InputFlags,
        image: &ImageOptions,
    ) -> Result<BTreeMap<String, Tensor>> {
        self.assign_unnamed(signature)?;
        let mut tensors = self.read_all(signature, image)?;
        let mut missing = Vec::new();
        for (index, input) in signature.iter().enumerate() {
            let (name, ty) = input;
            match flags.random {
                _ if tensors.contains_key(name) => {}
                Some(seed) => {
                    let tensor = tenon::inputs::random_tensor(ty, seed.wrapping_add(index as u64))?;
                    tensors.insert(name.clone(), tensor);
                }
                None => missing.push(input),
            }
        }
        if missing.is_empty() {
            return Ok(tensors);
        }
        let what = format!("inputs are missing: {}", list(missing.into_iter()));
        let error = Error::new(ErrorKind::Usage, what)
            .help("give each with --input NAME=FILE, or all with --random SEED");
        Err(error.at(Location::file(&self.model)))
    }

    /// A tensor for each input that has a file. All errors are reported together.
    pub fn read_all(
        &self,
        signature: &[(String, TensorType)],
        image: &ImageOptions,
    ) -> Result<BTreeMap<String, Tensor>> {
        let arrays = self.arrays.iter().map(|InputArray { name, file, array }| {
            let location = Location {
                field: Some(format!("input '{name}'")),
                ..Location::file(file)
            };
            let read = type_of(signature, name).and_then(|ty| {
                let fitted = tenon::inputs::reshape_to_input(array.clone(), ty);
                fitted.map_err(|error| error.at(location))
            });
            (name, read)
        });
        let files = self.named.iter().map(|(name, file)| {
            let read = type_of(signature, name).and_then(|ty| match self.maps.get(name) {
                Some(keys) if has_extension(file, "json") => read_json(file, ty, Some(keys)),
                _ => read_input(file, ty, image),
            });
            (name, read)
        });
        let mut tensors = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, read) in arrays.chain(files) {
            match read {
                Ok(tensor) => {
                    tensors.insert(name.clone(), tensor);
                }
                Err(error) => problems.push(error),
            }
        }
        let model = Location::file(&self.model);
        Error::from_all(problems).map_or(Ok(tensors), |error| Err(error.at(model)))
    }

    /// Assigns the file without a name to the only input without a file.
    pub fn assign_unnamed<T: Display>(&mut self, signature: &[(String, T)]) -> Result<()> {
        let free: Vec<_> = signature
            .iter()
            .filter(|(name, _)| !self.has_file(name))
            .collect();
        match (self.unnamed.as_slice(), free.as_slice()) {
            ([], _) => {}
            ([file], [(name, _)]) => {
                self.named.push((name.clone(), file.clone()));
                self.unnamed.clear();
            }
            ([file, ..], free) => {
                let what = format!("no input name for {}", file.display());
                let left = match free {
                    [] => "no input is left".into(),
                    free => format!("the inputs left are: {}", list(free.iter().copied())),
                };
                return Err(Error::new(ErrorKind::Usage, what)
                    .expected("--input NAME=FILE")
                    .help(left)
                    .at(Location::file(&self.model)));
            }
        }
        Ok(())
    }

    /// Drops the files of other inputs.
    pub fn keep(&mut self, known: impl Fn(&str) -> bool) {
        self.named.retain(|(name, _)| known(name));
        self.arrays.retain(|it| known(&it.name));
    }

    /// Whether an input has a file.
    pub fn has_file(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| known == name)
            || self.arrays.iter().any(|it| it.name == name)
    }
}

fn has_extension(file: &Path, extension: &str) -> bool {
    let found = file.extension();
    found.is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn list<'a, T: Display + 'a>(inputs: impl Iterator<Item = &'a (String, T)>) -> String {
    inputs
        .map(|(name, ty)| format!("{name}: {ty}"))
        .collect::<Vec<_>>()
        .join(", ")
}
