//! The backends that models are compiled for and run on: the built-in ones and those in shared
//! libraries.
//!
//! ```
//! use tenon::backends::{BackendSetup, Runtime};
//! use tenon::{BackendId, Compiler, LoadOptions};
//!
//! let setup = BackendSetup::new();
//! let loaded = setup.load()?;
//! for warning in &loaded.skipped {
//!     eprintln!("{warning}");
//! }
//! assert!(loaded.registry.find(&BackendId::new("CpuRef")).is_some());
//! let compiler = Compiler::new().registry(loaded.registry.clone());
//! let (runtime, unavailable) = setup.start_runtime(loaded.registry);
//! let options = LoadOptions::new().runtime(runtime);
//! # assert!(unavailable.is_empty());
//! # Ok::<(), tenon::Error>(())
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use tenon_base::{Error, Result};

pub use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, LoadWarning, OptionAssignment, OptionDef,
    PropertyValue, Registry, Tolerance,
};
pub use tenon_backend::{CACHE_VARIABLE, CacheEntry, UserCache};
pub use tenon_runtime::{DeviceMemory, Runtime, Substitution};

/// The built-in backends, in order of preference.
pub fn built_in() -> Registry {
    tenon_builtin::registry()
}

/// A runtime with the backends of a registry, without creation options.
pub fn runtime(registry: Registry) -> Runtime {
    Runtime::new(registry, tenon_builtin::kernels())
}

/// The backends that a runtime gets in addition to the built-in ones, and their options.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BackendSetup {
    /// The only folder to search; without it those of `TENON_BACKEND_PATH`.
    pub folder: Option<PathBuf>,
    /// Options of backends, as the caller wrote them.
    pub options: Vec<OptionAssignment>,
    /// Whether backends that cannot protect content from the CPU are left out.
    pub protected_content: bool,
}

/// The backends that a [`BackendSetup`] has loaded.
pub struct LoadedBackends {
    /// The built-in backends and those of libraries, configured.
    pub registry: Registry,
    /// Libraries and folders that were not loaded, with the reason.
    pub skipped: Vec<LoadWarning>,
    /// Backends that were left out because they cannot protect content from the CPU.
    pub refused: Vec<(BackendId, Error)>,
}

impl BackendSetup {
    /// The folders of `TENON_BACKEND_PATH`, without options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches this folder only.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Adds options of backends.
    #[must_use]
    pub fn options(mut self, options: impl IntoIterator<Item = OptionAssignment>) -> Self {
        self.options.extend(options);
        self
    }

    /// Sets whether backends that cannot protect content from the CPU are left out.
    #[must_use]
    pub fn protected_content(mut self, protected: bool) -> Self {
        self.protected_content = protected;
        self
    }

    /// Loads the libraries, gives all backends the cache of the user, and configures them.
    ///
    /// # Errors
    /// Options of unavailable backends, unknown options, and values of the wrong kind, all together.
    pub fn load(&self) -> Result<LoadedBackends> {
        let mut registry = built_in();
        let skipped = registry.load_backends(self.folder.as_deref());
        if let Some(cache) = UserCache::of_user() {
            registry.set_cache(Arc::new(cache));
        }
        registry.configure(&self.options)?;
        let refused = if self.protected_content {
            registry.remove_unprotected()
        } else {
            Vec::new()
        };
        Ok(LoadedBackends {
            registry,
            skipped,
            refused,
        })
    }

    /// Starts a runtime with these backends. Also returns the backends that could not be started,
    /// each with the reason.
    pub fn start_runtime(&self, registry: Registry) -> (Runtime, Vec<(BackendId, Error)>) {
        let kernels = tenon_builtin::kernels();
        Runtime::start(registry, kernels, &self.options, self.protected_content)
    }
}
