//! Models from their files: packages, models that are compiled, and the plans of ensembles.

use crate::loaded_model::LoadedModel;
use crate::model_files::ModelSource;
use crate::queue::BatchOptions;
use crate::served_model::ServedModel;
use crate::settings::{EnsembleSettings, Settings};
use crate::statistics::Statistics;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tenon::neff::Limits;
use tenon::tensor::BufferMut;
use tenon::{Compiler, Control, Error, ErrorKind, LoadOptions, Location, Model, Result};

/// How models are loaded.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepositoryOptions {
    /// Queues and batches of each model.
    pub batches: BatchOptions,
    /// The most threads of one execution; all CPUs when `None`.
    pub threads: Option<usize>,
}

/// Loads models with the options of a repository.
pub struct ModelLoader {
    options: RepositoryOptions,
}

/// What a source becomes.
pub enum LoadedSource {
    /// A model.
    Model(ServedModel),
    /// Ensembles are built when all models are loaded.
    Ensemble(EnsemblePlan),
}

/// What an ensemble is built from.
pub struct EnsemblePlan {
    /// Its rate and kept answers.
    pub settings: Settings,
    /// Its steps.
    pub ensemble: EnsembleSettings,
}

impl ModelLoader {
    /// A loader with these options.
    pub fn new(options: RepositoryOptions) -> Self {
        Self { options }
    }

    /// Loads a version from its files.
    ///
    /// # Errors
    /// Settings that are malformed or do not fit the model; a file that cannot be read, compiled or loaded.
    pub fn load(
        &self,
        name: &str,
        version: u64,
        source: &ModelSource,
        statistics: Arc<Statistics>,
        control: &Control,
    ) -> Result<LoadedSource> {
        let mut settings = match &source.settings {
            Some(file) => Settings::read(&file.path)?,
            None => Settings::default(),
        };
        let file = source.model.as_ref().or(source.settings.as_ref());
        let path = file.map_or(Path::new(""), |file| &file.path);
        match (&source.model, settings.ensemble.take()) {
            (Some(_), None) => {
                let loaded = self.load_file(name, version, path, &settings, statistics, control);
                let loaded = loaded.map_err(|error| error.at(Location::file(path)))?;
                Ok(LoadedSource::Model(loaded))
            }
            (None, Some(ensemble)) => {
                Ok(LoadedSource::Ensemble(EnsemblePlan { settings, ensemble }))
            }
            (Some(_), Some(_)) => {
                let text = "[ensemble] in the settings of a model, which has a file";
                Err(Error::new(ErrorKind::BadInput, text).at(Location::file(path)))
            }
            (None, None) => Err(
                Error::new(ErrorKind::BadInput, "settings without their model")
                    .expected(
                        "NAME.neff, NAME.onnx or NAME.tflite beside them, or [ensemble] in them",
                    )
                    .at(Location::file(path)),
            ),
        }
    }

    fn load_file(
        &self,
        name: &str,
        version: u64,
        path: &Path,
        settings: &Settings,
        statistics: Arc<Statistics>,
        control: &Control,
    ) -> Result<ServedModel> {
        let batches = self.options.batches.with(settings);
        let instances = batches.instances.max(1);
        let options = LoadOptions::new()
            .control(control.clone())
            .threads(settings.threads.or(self.options.threads))
            // Libraries of a package would run in this process for every caller.
            .native_nodes(false)
            .in_flight(instances)
            .max_in_flight(instances);
        let package = match path.extension().is_some_and(|e| e == "neff") {
            true => read_file(path)?,
            false => {
                let compiler = Compiler::new().control(control.clone());
                BufferMut::copy_of(&compiler.compile_file(path)?.to_bytes()?)?
            }
        };
        let bytes = package.len() as u64;
        let package =
            tenon::neff::Package::from_buffer(package.freeze(), &Limits::default(), control)?;
        let model = Model::from_package(&package, &options)?;
        let sequence = settings.sequence.as_ref();
        let model = LoadedModel::new(model, &batches, sequence, statistics.clone())?;
        if settings.warm_up.unwrap_or(true) {
            model.warm_up(control);
        }
        let served = ServedModel::of_model(name, version, model, bytes, settings, statistics);
        Ok(served)
    }
}

/// The file in memory: one that is mapped must not be truncated while it is served.
fn read_file(path: &Path) -> Result<BufferMut> {
    let failed = |error| Error::io(path, "read", error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut bytes = BufferMut::zeroed(length)?;
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
