//! Models from their files: packages, models that are compiled, and the plans of ensembles.

use crate::class_labels::ClassLabels;
use crate::executor::Executor;
use crate::loaded_model::LoadedModel;
use crate::model_files::ModelSource;
use crate::model_package::{ExecutionOptions, load_model};
use crate::queue::BatchOptions;
use crate::served_model::ServedModel;
use crate::settings::{EnsembleSettings, Settings};
use crate::statistics::Statistics;
use crate::worker::{LoadedFile, Worker, WorkerCommand};
use std::path::Path;
use std::sync::Arc;
use tenon::backends::Runtime;
use tenon::{Control, Error, ErrorKind, Location, Result};

/// How models are loaded.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RepositoryOptions {
    /// Queues and batches of each model.
    pub batches: BatchOptions,
    /// The most threads of one execution; all CPUs when `None`.
    pub threads: Option<usize>,
    /// The backends of models that execute in this process; the built-in ones when `None`.
    pub runtime: Option<Runtime>,
    /// How a process for each model is started; all models execute in this process when `None`.
    pub isolation: Option<WorkerCommand>,
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
    /// The names of the classes that its outputs score.
    pub labels: Arc<ClassLabels>,
}

impl ModelLoader {
    /// A loader with these options.
    pub fn new(options: RepositoryOptions) -> Self {
        Self { options }
    }

    /// Loads a version from its files, with another greatest batch if one is given.
    ///
    /// # Errors
    /// Settings that are malformed or do not fit the model; a file that cannot be read, compiled or loaded.
    pub fn load(
        &self,
        name: &str,
        version: u64,
        source: &ModelSource,
        max_batch_size: Option<usize>,
        statistics: Arc<Statistics>,
        control: &Control,
    ) -> Result<LoadedSource> {
        let mut settings = match &source.settings {
            Some(file) => Settings::read(&file.path, name)?,
            None => Settings::default(),
        };
        if let Some(rows) = max_batch_size {
            settings = settings.with_max_batch_size(rows);
        }
        let file = source.model.as_ref().or(source.settings.as_ref());
        let path = file.map_or(Path::new(""), |file| &file.path);
        let folder = source.settings.as_ref().and_then(|file| file.path.parent());
        let labels = ClassLabels::read(&settings.labels, folder.unwrap_or(Path::new("")))?;
        match (&source.model, settings.ensemble.take()) {
            (Some(_), None) => {
                let loaded =
                    self.load_file(name, version, path, &settings, labels, statistics, control);
                let loaded = loaded.map_err(|error| error.at(Location::file(path)))?;
                Ok(LoadedSource::Model(loaded))
            }
            (None, Some(ensemble)) => {
                let labels = Arc::new(labels);
                Ok(LoadedSource::Ensemble(EnsemblePlan {
                    settings,
                    ensemble,
                    labels,
                }))
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

    /// Loads a model in this process, without shared libraries of its package, and drops it.
    ///
    /// # Errors
    /// A file that cannot be read, compiled or loaded.
    pub fn check(&self, path: &Path, control: &Control) -> Result<()> {
        let options = ExecutionOptions {
            threads: Some(1),
            instances: 1,
            native_nodes: false,
            runtime: self.options.runtime.clone(),
        };
        load_model(path, &options, control).map(drop)
    }

    fn load_file(
        &self,
        name: &str,
        version: u64,
        path: &Path,
        settings: &Settings,
        labels: ClassLabels,
        statistics: Arc<Statistics>,
        control: &Control,
    ) -> Result<ServedModel> {
        let batches = self.options.batches.with(settings);
        let instances = batches.instances.max(1);
        let threads = settings.threads.or(self.options.threads);
        let (executor, bytes) = match &self.options.isolation {
            None => {
                let options = ExecutionOptions {
                    threads,
                    instances,
                    // Libraries of a package would run in this process for every caller.
                    native_nodes: false,
                    runtime: self.options.runtime.clone(),
                };
                let (model, bytes) = load_model(path, &options, control)?;
                (Executor::from(model), bytes)
            }
            Some(command) => {
                let file = LoadedFile {
                    path: path.to_owned(),
                    threads,
                    instances,
                };
                let (worker, interface, bytes) = Worker::start(command.clone(), file, control)?;
                (Executor::of_worker(worker, interface), bytes)
            }
        };
        let model = LoadedModel::new(executor, &batches, settings, statistics.clone())?;
        if settings.warm_up.unwrap_or(true) {
            model.warm_up(control);
        }
        ServedModel::of_model(name, version, model, bytes, settings, labels, statistics)
    }
}
