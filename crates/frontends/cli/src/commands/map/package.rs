//! The package that all workers map: that of the command line, or a temporary one of a model.

use crate::commands::load;
use crate::map_flags::Map;
use crate::progress;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tenon::{Error, ErrorKind, Location, ModelFile, Result, neff};
use tenon_base::UnfinishedFile;

/// A package in a file.
pub struct MappedPackage {
    path: PathBuf,
    hash: String,
    _temporary: Option<TemporaryFolder>,
}

/// A folder that is removed at the end, also by a signal.
struct TemporaryFolder {
    folder: TempDir,
    _unfinished: UnfinishedFile,
}

impl MappedPackage {
    /// The package of the flags; a model is compiled.
    pub fn open(flags: &Map) -> Result<Self> {
        let here = |error: Error| error.at(Location::file(&flags.file));
        let usage = |text: &str| here(Error::new(ErrorKind::Usage, text));
        if tenon::files::is_standard_stream(&flags.file) {
            let error = usage("standard input (-) cannot be read by several processes");
            return Err(error.help("give the name of a file"));
        }
        if flags.model.compiling.has_states() {
            let text = "rows are independent: a model that is mapped has no states";
            return Err(usage(text).help("leave --state and --auto-state out"));
        }
        let control = progress::control();
        let file = load::open(&flags.file, &flags.model, &control)?;
        match file {
            ModelFile::Package(package) => {
                load::no_compile_flags(&flags.model.compiling, &package, false).map_err(here)?;
                if !flags.model.compiling.dims.is_empty() {
                    let error = usage("the sizes of dimensions are those of the arrays");
                    return Err(error.help("leave --dim out"));
                }
                Ok(Self {
                    path: flags.file.clone(),
                    hash: package.header().hash_text(),
                    _temporary: None,
                })
            }
            ModelFile::Onnx(onnx) => {
                // The workers report the warnings.
                let (registry, _) = load::find_backends(&flags.model.compiling.loading)?;
                let compiled =
                    load::compile(&onnx, &flags.model.compiling, None, &registry, &control);
                let compiled = compiled.map_err(here)?;
                let temporary = TemporaryFolder::new()?;
                let path = temporary.folder.path().join("model.neff");
                compiled.write(&path)?;
                let package = neff::Package::open(&path, &control)?;
                Ok(Self {
                    path,
                    hash: package.header().hash_text(),
                    _temporary: Some(temporary),
                })
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hash of its contents.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl TemporaryFolder {
    fn new() -> Result<Self> {
        let created = UnfinishedFile::create(|| {
            let folder = tempfile::Builder::new().prefix("tenon-map-").tempdir()?;
            let path = folder.path().to_owned();
            Ok((folder, path))
        });
        let failed = |error| Error::io(std::env::temp_dir(), "write", error);
        let (folder, unfinished) = created.map_err(failed)?;
        Ok(Self {
            folder,
            _unfinished: unfinished,
        })
    }
}
