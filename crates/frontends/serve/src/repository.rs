//! The models of a folder: loaded at the start, replaced when their files are, found by name and version.

use crate::ensemble::Ensemble;
use crate::model_files::{ModelFiles, ModelSource, has_file, is_model_name, scan};
use crate::model_loader::{EnsemblePlan, LoadedSource, ModelLoader, RepositoryOptions};
use crate::served_model::ServedModel;
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use crate::upload::Upload;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tenon::{Control, Error, Result};

/// The models of a folder.
pub struct Repository {
    folder: PathBuf,
    loader: ModelLoader,
    models: RwLock<BTreeMap<String, BTreeMap<u64, Version>>>,
    /// Held while models are loaded, which only one thread does.
    loading: Mutex<()>,
    events: Box<dyn Fn(&RepositoryEvent) + Send + Sync>,
}

/// One version of a model.
struct Version {
    source: ModelSource,
    /// The greatest batch of the request that loaded it, instead of that of its settings.
    max_batch_size: Option<usize>,
    /// The loaded model; it is the one before when its replacement is broken.
    served: Option<Arc<ServedModel>>,
    /// Of an ensemble.
    plan: Option<Arc<EnsemblePlan>>,
    state: VersionState,
    /// Why the file is not what is served.
    reason: String,
    statistics: Arc<Statistics>,
}

/// The name, version and plan of an ensemble, what is served of it, and its counts.
type EnsembleRow = (
    String,
    u64,
    Arc<EnsemblePlan>,
    Option<Arc<ServedModel>>,
    Arc<Statistics>,
);

/// What becomes of a model whose replacement failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacement {
    Keep,
    Drop,
}

/// The reason of an ensemble before its first build.
const PENDING: &str = "its models are being loaded";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionState {
    Loading,
    /// As the file is.
    Current,
    /// The file is broken.
    Broken,
    /// Unloaded by a request, until one loads it.
    Unloaded,
}

/// A change of the models, for the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepositoryEvent {
    /// A version was loaded.
    Loaded {
        /// Its model.
        model: String,
        /// The version.
        version: u64,
    },
    /// A version could not be loaded.
    Failed {
        /// Its model.
        model: String,
        /// The version.
        version: u64,
        /// Why.
        error: Error,
        /// Whether the file before it continues to serve.
        is_served: bool,
    },
    /// A version is no longer served.
    Unloaded {
        /// Its model.
        model: String,
        /// The version.
        version: u64,
    },
    /// The folder could not be read.
    Unreadable {
        /// Why.
        error: Error,
    },
}

/// A row of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// The name of the model.
    pub name: String,
    /// The version.
    pub version: u64,
    /// `READY`, `UNAVAILABLE` or `LOADING`.
    pub state: &'static str,
    /// Why it is unavailable, or why the file is not what is served.
    pub reason: String,
}

impl Repository {
    /// The models of a folder, none of which is loaded. `events` receives every change.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn new(
        folder: impl Into<PathBuf>,
        options: RepositoryOptions,
        events: impl Fn(&RepositoryEvent) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = folder.into();
        scan(&folder)?;
        Ok(Self {
            folder,
            loader: ModelLoader::new(options),
            models: RwLock::default(),
            loading: Mutex::default(),
            events: Box::new(events),
        })
    }

    /// Loads what is new or changed in the folder, and drops what is gone. Requests are served meanwhile: a version is
    /// replaced at the moment when the new one is ready, and requests that run finish on the old one.
    pub fn update(&self, control: &Control) {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match scan(&self.folder) {
            Ok(files) => files,
            // As when the folder is being moved: what is loaded continues to serve.
            Err(error) => return (self.events)(&RepositoryEvent::Unreadable { error }),
        };
        for (model, version) in self.gone(&files) {
            (self.events)(&RepositoryEvent::Unloaded { model, version });
        }
        for (name, versions) in &files {
            for (&version, source) in versions {
                let is_known = self.read(|models| {
                    let known = models.get(name).and_then(|versions| versions.get(&version));
                    known.is_some_and(|known| {
                        known.source == *source || known.state == VersionState::Unloaded
                    })
                });
                if !is_known && control.check().is_ok() {
                    self.load_version(name, version, source, None, control);
                }
            }
        }
        self.update_ensembles();
        for model in self.served() {
            model.expire_sequences();
        }
    }

    /// Builds the ensembles whose models were loaded or replaced, and drops those whose models are gone.
    fn update_ensembles(&self) {
        for (name, version, plan, served, statistics) in self.ensembles() {
            let find = |name: &str, version| self.find_version(name, version);
            let built = Ensemble::new(&plan.ensemble, find);
            let is_same = match (&built, served.as_ref().and_then(|it| it.ensemble())) {
                (Ok(built), Some(served)) => built.has_models_of(served),
                _ => false,
            };
            if is_same {
                continue;
            }
            let built = built.and_then(|ensemble| {
                ServedModel::of_ensemble(&name, version, ensemble, &plan, statistics)
            });
            drop(served);
            self.replace(&name, version, built, Replacement::Drop);
        }
    }

    fn ensembles(&self) -> Vec<EnsembleRow> {
        self.read(|models| {
            let mut rows = Vec::new();
            for (name, versions) in models {
                for (&version, entry) in versions {
                    if let (Some(plan), true) = (&entry.plan, entry.state != VersionState::Unloaded)
                    {
                        let (served, statistics) = (entry.served.clone(), entry.statistics.clone());
                        rows.push((name.clone(), version, plan.clone(), served, statistics));
                    }
                }
            }
            rows
        })
    }

    /// Removes the versions without a file; returns those that were served.
    fn gone(&self, files: &ModelFiles) -> Vec<(String, u64)> {
        let mut removed = Vec::new();
        let mut gone = Vec::new();
        self.write(|models| {
            for (name, versions) in models.iter_mut() {
                let found = files.get(name);
                let missing = |version: &u64| !found.is_some_and(|f| f.contains_key(version));
                let missing: Vec<u64> = versions.keys().copied().filter(missing).collect();
                for version in missing {
                    removed.extend(versions.remove(&version));
                    gone.push((name.clone(), version));
                }
            }
            models.retain(|_, versions| !versions.is_empty());
        });
        // Outside of the lock: memory is freed.
        drop(removed);
        gone
    }

    fn load_version(
        &self,
        name: &str,
        version: u64,
        source: &ModelSource,
        max_batch_size: Option<usize>,
        control: &Control,
    ) {
        let statistics = self.write(|models| {
            let versions = models.entry(name.to_owned()).or_default();
            let entry = versions.entry(version).or_insert_with(|| Version {
                source: source.clone(),
                max_batch_size,
                served: None,
                plan: None,
                state: VersionState::Loading,
                reason: String::new(),
                statistics: Arc::default(),
            });
            entry.source = source.clone();
            entry.max_batch_size = max_batch_size;
            entry.state = VersionState::Loading;
            entry.statistics.clone()
        });
        let loader = &self.loader;
        let loaded = loader.load(name, version, source, max_batch_size, statistics, control);
        match loaded {
            Ok(LoadedSource::Model(served)) => {
                self.replace(name, version, Ok(served), Replacement::Keep);
            }
            Ok(LoadedSource::Ensemble(plan)) => self.write(|models| {
                let entry = models.get_mut(name).and_then(|it| it.get_mut(&version));
                if let Some(entry) = entry {
                    entry.plan = Some(Arc::new(plan));
                    entry.state = VersionState::Current;
                    entry.reason = PENDING.to_owned();
                    // With other steps it is another ensemble, even of the same models.
                    entry.served = None;
                }
            }),
            Err(error) => self.replace(name, version, Err(error), Replacement::Keep),
        }
    }

    /// Serves a model that was loaded, or notes why it was not. A reason that was noted before is not reported again.
    fn replace(
        &self,
        name: &str,
        version: u64,
        loaded: Result<ServedModel>,
        replacement: Replacement,
    ) {
        let mut before = None;
        let event = self.write(|models| {
            let entry = models.get_mut(name)?.get_mut(&version)?;
            let model = name.to_owned();
            match loaded {
                Ok(served) => {
                    before = entry.served.replace(Arc::new(served));
                    if replacement == Replacement::Keep {
                        entry.plan = None;
                        entry.state = VersionState::Current;
                    }
                    if entry.state == VersionState::Current {
                        entry.reason.clear();
                    }
                    Some(RepositoryEvent::Loaded { model, version })
                }
                Err(error) => {
                    match replacement {
                        Replacement::Keep => entry.state = VersionState::Broken,
                        Replacement::Drop => before = entry.served.take(),
                    }
                    let is_served = entry.served.is_some();
                    let reason = reason(&error, is_served);
                    let is_known = before.is_none() && entry.reason == reason;
                    entry.reason = reason;
                    (!is_known).then_some(RepositoryEvent::Failed {
                        model,
                        version,
                        error,
                        is_served,
                    })
                }
            }
        });
        // Outside of the lock: memory is freed.
        drop(before);
        if let Some(event) = event {
            (self.events)(&event);
        }
    }

    /// Loads a model again that was unloaded, whose file changed, or that has another greatest batch than the given one. That
    /// one is in effect until it is loaded the next time.
    ///
    /// # Errors
    /// No model of this name in the folder; a file that cannot be loaded.
    pub fn load(
        &self,
        name: &str,
        max_batch_size: Option<usize>,
        control: &Control,
    ) -> std::result::Result<(), Refusal> {
        let loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let files = scan(&self.folder).map_err(|error| {
            let text = format!(
                "the model folder is unreadable: {}",
                error.without_location()
            );
            Refusal::new(Status::Internal, text)
        })?;
        let versions = files.get(name).ok_or_else(|| unknown(name))?;
        for (&version, source) in versions {
            let is_current = self.read(|models| {
                let known = models.get(name).and_then(|versions| versions.get(&version));
                known.is_some_and(|known| {
                    known.source == *source
                        && known.max_batch_size == max_batch_size
                        && known.state == VersionState::Current
                })
            });
            if !is_current {
                self.load_version(name, version, source, max_batch_size, control);
            }
        }
        self.update_ensembles();
        drop(loading);
        let rows = self.index();
        let mut rows = rows.iter().filter(|row| row.name == name);
        match rows.find(|row| !row.reason.is_empty()) {
            None => Ok(()),
            Some(row) => {
                let text = format!("version {} of '{name}': {}", row.version, row.reason);
                Err(Refusal::invalid(text))
            }
        }
    }

    /// Writes the versions of a model into the folder, in place of those of the same number, and loads them. Versions that
    /// cannot be loaded are not written.
    ///
    /// # Errors
    /// A name that is no file name, or that of a model without a folder of versions; models that cannot be loaded, as
    /// packages with shared libraries; a folder that cannot be written.
    pub fn upload(
        &self,
        name: &str,
        upload: &Upload,
        control: &Control,
    ) -> std::result::Result<(), Refusal> {
        if !is_model_name(name) {
            let text = format!("{name:?} is no name for a folder");
            return Err(Refusal::invalid(text));
        }
        {
            let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
            if has_file(&self.folder, name) {
                let text = format!(
                    "'{name}' is a file of the model folder, which has no versions to write"
                );
                return Err(Refusal::invalid(text));
            }
            let staged = upload.stage(&self.folder)?;
            for (version, path) in staged.models() {
                let tried = self.loader.check(&path, control);
                tried.map_err(|error| {
                    let text = reason(&error, false);
                    Refusal::invalid(format!("version {version} of '{name}': {text}"))
                })?;
            }
            staged.move_to(&self.folder.join(name))?;
        }
        self.load(name, upload.max_batch_size, control)
    }

    /// Unloads all versions of a model, until [`Self::load`].
    ///
    /// # Errors
    /// An unknown model.
    pub fn unload(&self, name: &str) -> std::result::Result<(), Refusal> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let unloaded = self.write(|models| {
            let versions = models.get_mut(name)?;
            let unloaded = versions.iter_mut().map(|(&version, entry)| {
                entry.state = VersionState::Unloaded;
                entry.reason = "unloaded".to_owned();
                (version, entry.served.take())
            });
            Some(unloaded.collect::<Vec<_>>())
        });
        for (version, served) in unloaded.ok_or_else(|| unknown(name))? {
            drop(served);
            let model = name.to_owned();
            (self.events)(&RepositoryEvent::Unloaded { model, version });
        }
        self.update_ensembles();
        Ok(())
    }

    /// The model of a name: of this version, or the highest one that is served.
    ///
    /// # Errors
    /// An unknown name or version; one that is not served.
    pub fn find(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> std::result::Result<Arc<ServedModel>, Refusal> {
        let Some(text) = version.filter(|version| !version.is_empty()) else {
            return self.find_version(name, None);
        };
        match text.parse() {
            Ok(number) => self.find_version(name, Some(number)),
            Err(_) => self.read(|models| {
                let versions = models.get(name).ok_or_else(|| unknown(name))?;
                let known = listed(versions);
                // The first words are Triton's, which clients look for.
                let text = format!(
                    "failed to get model version from specified version string '{text}': expected a positive integer, \
                     as {known}, or none for the highest one"
                );
                Err(Refusal::invalid(text))
            }),
        }
    }

    fn find_version(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> std::result::Result<Arc<ServedModel>, Refusal> {
        self.read(|models| {
            let versions = models.get(name).ok_or_else(|| unknown(name))?;
            let served = |entry: &Version| entry.served.clone();
            let Some(number) = version else {
                let latest = versions.values().rev().find_map(served);
                return latest.ok_or_else(|| {
                    let reason = versions.values().next_back().map(Version::reason);
                    unavailable(name, reason.unwrap_or_default())
                });
            };
            let entry = versions.get(&number);
            let entry = entry.ok_or_else(|| no_version(name, &number.to_string(), versions))?;
            served(entry).ok_or_else(|| unavailable(name, entry.reason()))
        })
    }

    /// The versions of a model that are served.
    pub fn versions(&self, name: &str) -> Vec<u64> {
        self.read(|models| {
            let versions = models.get(name).into_iter().flatten();
            let served = versions.filter(|(_, entry)| entry.served.is_some());
            served.map(|(version, _)| *version).collect()
        })
    }

    /// All models that are served.
    pub fn served(&self) -> Vec<Arc<ServedModel>> {
        self.read(|models| {
            let versions = models.values().flat_map(BTreeMap::values);
            versions.filter_map(|entry| entry.served.clone()).collect()
        })
    }

    /// All versions with their states.
    pub fn index(&self) -> Vec<IndexRow> {
        self.read(|models| {
            let mut rows = Vec::new();
            for (name, versions) in models {
                for (&version, entry) in versions {
                    rows.push(IndexRow {
                        name: name.clone(),
                        version,
                        state: match (&entry.served, entry.state) {
                            (Some(_), _) => "READY",
                            (None, VersionState::Loading) => "LOADING",
                            (None, _) => "UNAVAILABLE",
                        },
                        reason: entry.reason.clone(),
                    });
                }
            }
            rows
        })
    }

    fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, BTreeMap<u64, Version>>) -> R) -> R {
        read(&self.models.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(
        &self,
        write: impl FnOnce(&mut BTreeMap<String, BTreeMap<u64, Version>>) -> R,
    ) -> R {
        write(&mut self.models.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Version {
    fn reason(&self) -> &str {
        match self.state {
            VersionState::Loading => "it is being loaded",
            _ => &self.reason,
        }
    }
}

/// The text of an error for callers, which need no paths of the server.
fn reason(error: &Error, is_served: bool) -> String {
    let problems: Vec<String> = error
        .all()
        .map(|problem| problem.without_location().to_string())
        .collect();
    let text = problems.join("; ");
    match is_served {
        true => format!(
            "the file was replaced by one that cannot be loaded, the one before is served: {text}"
        ),
        false => text,
    }
}

fn unknown(name: &str) -> Refusal {
    // Clients of Triton look for the first words.
    let text =
        format!("Request for unknown model: there is no model {name:?} (/v2/models lists them)");
    Refusal::new(Status::NotFound, text)
}

fn no_version(name: &str, text: &str, versions: &BTreeMap<u64, Version>) -> Refusal {
    let known = listed(versions);
    let text = format!("'{name}' has no version {text:?}: it has {known}");
    Refusal::new(Status::NotFound, text)
}

fn listed(versions: &BTreeMap<u64, Version>) -> String {
    let known: Vec<String> = versions.keys().map(u64::to_string).collect();
    known.join(", ")
}

fn unavailable(name: &str, reason: &str) -> Refusal {
    let text = format!("the model '{name}' is not served: {reason}");
    Refusal::new(Status::Unavailable, text)
}
