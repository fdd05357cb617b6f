//! The registry of backends of a runtime, by name, in order of registration.

use crate::{
    Allocator, Backend, BackendContext, BackendId, CreationOptions, MemorySource, OptionAssignment,
    OptionScope, PropertyValue, UserCache, settings,
};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The capability of backends that can protect content from access by the CPU.
pub const PROTECTED_CONTENT: &str = "ProtectedContentAllocation";

/// The capability of backends that implement every operator exactly and read plain constants:
/// constants are computed on such a backend, and what others refuse runs there.
pub const REFERENCE_IMPLEMENTATION: &str = "ReferenceImplementation";

/// The backends of one runtime; not a global.
#[derive(Clone, Default)]
pub struct Registry {
    backends: Vec<Arc<dyn Backend>>,
    registered: u64,
    deregistered: u64,
    /// Allocators that the caller set, by backend.
    allocators: Vec<(BackendId, Arc<dyn Allocator>)>,
    unavailable: Vec<UnavailableBackend>,
    /// The cache that backends get.
    cache: Option<Arc<UserCache>>,
}

/// A known backend that is unavailable.
#[derive(Clone)]
struct UnavailableBackend {
    id: BackendId,
    reason: String,
    /// For converting its prepared constants back; `None` if its library did not load.
    backend: Option<Arc<dyn Backend>>,
}

/// The context of a backend in a runtime.
pub type ContextEntry = (BackendId, Box<dyn BackendContext>);

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a backend, whose name must be new, not empty and not `Unknown` (backends 6.3).
    pub fn register(&mut self, backend: Arc<dyn Backend>) -> Result<()> {
        let id = backend.id();
        if id.as_str().is_empty() || id.as_str() == "Unknown" {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "a backend needs a name")
                    .found(format_args!("'{id}'")),
            );
        }
        if self.find(&id).is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("backend {id} is registered already"),
            ));
        }
        self.attach(&backend);
        self.backends.push(backend);
        self.registered += 1;
        Ok(())
    }

    /// Gives a cache to all backends, and to those that are registered later.
    pub fn set_cache(&mut self, cache: Arc<UserCache>) {
        self.cache = Some(cache);
        for backend in &self.backends {
            self.attach(backend);
        }
    }

    /// The cache of the backends.
    pub fn cache(&self) -> Option<&UserCache> {
        self.cache.as_deref()
    }

    fn attach(&self, backend: &Arc<dyn Backend>) {
        if let Some(cache) = &self.cache {
            backend.set_cache(cache.for_backend(backend.id()));
        }
    }

    /// Removes a backend; objects that it created stay alive.
    pub fn deregister(&mut self, id: &BackendId) -> Result<Arc<dyn Backend>> {
        let found = self.backends.iter().position(|backend| backend.id() == *id);
        let index = found.ok_or_else(|| self.unknown(id))?;
        self.allocators.retain(|(known, _)| known != id);
        self.deregistered += 1;
        Ok(self.backends.remove(index))
    }

    /// The backend of that name.
    pub fn find(&self, id: &BackendId) -> Option<&Arc<dyn Backend>> {
        self.backends.iter().find(|backend| backend.id() == *id)
    }

    /// The reason why the backend of that name is unavailable; `None` for an available one and for
    /// unknown names.
    pub fn unavailable(&self, id: &BackendId) -> Option<&str> {
        let mut known = self.unavailable.iter().filter(|known| known.id == *id);
        match self.find(id) {
            Some(_) => None,
            None => known.next().map(|known| known.reason.as_str()),
        }
    }

    /// The backend of that name, even if unavailable: it may still convert its prepared constants
    /// to plain form ([`Backend::plain`]).
    pub fn find_even_unavailable(&self, id: &BackendId) -> Option<&Arc<dyn Backend>> {
        let mut known = self.unavailable.iter().filter(|known| known.id == *id);
        self.find(id)
            .or_else(|| known.find_map(|known| known.backend.as_ref()))
    }

    /// Records an unavailable backend.
    pub(crate) fn set_unavailable(&mut self, id: BackendId, reason: String) {
        let backend = None;
        self.unavailable.push(UnavailableBackend {
            id,
            reason,
            backend,
        });
    }

    /// The first backend with the capability [`REFERENCE_IMPLEMENTATION`].
    pub fn reference(&self) -> Option<&Arc<dyn Backend>> {
        self.iter().find(|backend| backend.is_reference())
    }

    /// All, in order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.backends.iter()
    }

    /// All names, joined by ", ".
    pub fn names(&self) -> String {
        self.backends
            .iter()
            .map(|backend| backend.id().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Counts of registrations and of deregistrations.
    pub fn changes(&self) -> (u64, u64) {
        (self.registered, self.deregistered)
    }

    /// Applies the model options in `given`. Options of unknown backends, unknown names and values
    /// of a wrong kind are reported together; then nothing is changed.
    pub fn configure(&mut self, given: &[OptionAssignment]) -> Result<()> {
        let mut problems: Vec<Error> = given
            .iter()
            .filter(|option| self.find(&option.backend).is_none())
            .map(|option| {
                Error::new(ErrorKind::NotFound, "an option for an unknown backend")
                    .expected(self.names())
                    .found(&option.backend)
            })
            .collect();
        let mut changed = Vec::new();
        for (index, backend) in self.backends.iter().enumerate() {
            let configured = settings(&**backend, given, OptionScope::Model).and_then(|settings| {
                if settings.is_empty() {
                    Ok(None)
                } else {
                    backend.configured(&settings).map(Some)
                }
            });
            match configured {
                Ok(Some(backend)) => changed.push((index, backend)),
                Ok(None) => {}
                Err(error) => problems.push(error),
            }
        }
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        for (index, backend) in changed {
            self.attach(&backend);
            self.backends[index] = backend;
        }
        Ok(())
    }

    /// Sets the allocator for the memory of a backend and of the objects that it creates from now
    /// on.
    pub fn set_allocator(&mut self, id: &BackendId, allocator: Arc<dyn Allocator>) -> Result<()> {
        let found = self.backends.iter_mut().find(|one| one.id() == *id);
        let Some(backend) = found else {
            return Err(self.unknown(id));
        };
        *backend = backend.with_allocator(allocator.clone())?;
        self.allocators.retain(|(known, _)| known != id);
        self.allocators.push((id.clone(), allocator));
        Ok(())
    }

    /// The allocator for the values between the nodes of a model on these backends: that of the
    /// first backend with a set or own allocator of plain memory.
    pub fn allocator<'a>(
        &self,
        used: impl IntoIterator<Item = &'a str>,
    ) -> Option<Arc<dyn Allocator>> {
        let of = |id: &str| {
            let set = self
                .allocators
                .iter()
                .find(|(known, _)| known.as_str() == id);
            let backend = self.backends.iter().find(|one| one.id().as_str() == id)?;
            set.map_or_else(
                || backend.allocator(),
                |(_, allocator)| Some(allocator.clone()),
            )
        };
        let mut all = used.into_iter().filter_map(of);
        all.find(|allocator| allocator.source() == MemorySource::Malloc)
    }

    /// Takes the allocators of backends of the same names from `other`.
    pub(crate) fn with_allocators_of(mut self, other: &Registry) -> Self {
        self.allocators.clone_from(&other.allocators);
        self.unavailable.clone_from(&other.unavailable);
        self
    }

    /// Removes the backends that cannot protect content from access by the CPU, for lack of the
    /// capability or because of their allocator. Returns them with the reasons.
    pub fn remove_unprotected(&mut self) -> Vec<(BackendId, Error)> {
        let all = self.backends.clone();
        let refused = all.iter().filter_map(|backend| {
            let error = self.unprotected(&**backend)?;
            Some((backend.id(), error))
        });
        let refused: Vec<_> = refused.collect();
        self.take_out(&refused);
        refused
    }

    fn unprotected(&self, backend: &dyn Backend) -> Option<Error> {
        let id = backend.id();
        let text = format!("backend {id} cannot keep protected content");
        let refused = Error::new(ErrorKind::Unsupported, text);
        if !backend.has(PROTECTED_CONTENT, &PropertyValue::Bool(true)) {
            let capability = format_args!("capability {PROTECTED_CONTENT} = true");
            return Some(refused.expected(capability));
        }
        let set = self.allocators.iter().find(|(known, _)| *known == id);
        let source = set.map(|(_, allocator)| allocator.source())?;
        if source == MemorySource::DmaBufProtected {
            return None;
        }
        let protected = format_args!("memory of source {:?}", MemorySource::DmaBufProtected);
        Some(
            refused
                .expected(protected)
                .found(format_args!("{source:?}")),
        )
    }

    fn take_out(&mut self, refused: &[(BackendId, Error)]) {
        for (id, error) in refused {
            self.unavailable.push(UnavailableBackend {
                id: id.clone(),
                reason: error.to_string(),
                backend: self.find(id).cloned(),
            });
        }
        let leaves = |backend: &Arc<dyn Backend>| refused.iter().any(|(id, _)| *id == backend.id());
        self.backends.retain(|backend| !leaves(backend));
        self.deregistered += refused.len() as u64;
    }

    /// The error about an unknown name, with the nearest known one.
    pub fn unknown(&self, id: &BackendId) -> Error {
        let error = Error::new(ErrorKind::NotFound, "no backend has this name")
            .expected(self.names())
            .found(id);
        let wrong = id.as_str().to_lowercase();
        let all = self.backends.iter().map(|backend| backend.id());
        let all = all.chain(self.unavailable.iter().map(|known| known.id.clone()));
        let distance =
            |name: &BackendId| strsim::damerau_levenshtein(&name.as_str().to_lowercase(), &wrong);
        let nearest = all.min_by_key(distance);
        match nearest.filter(|name| 3 * distance(name) <= name.as_str().len()) {
            Some(nearest) => error.help(format!("did you mean {nearest}?")),
            None => error,
        }
    }

    /// Creates the contexts of the backends in a new runtime. A backend whose device is
    /// unavailable, that cannot protect content if required, or whose options are invalid, is
    /// removed and reported.
    pub fn start(
        &mut self,
        given: &[OptionAssignment],
        protected_content: bool,
    ) -> (Vec<ContextEntry>, Vec<(BackendId, Error)>) {
        let mut refused = if protected_content {
            self.remove_unprotected()
        } else {
            Vec::new()
        };
        let (mut contexts, mut absent) = (Vec::new(), Vec::new());
        for backend in &self.backends {
            let id = backend.id();
            match context(&**backend, given, protected_content) {
                Ok(context) => contexts.extend(context.map(|context| (id, context))),
                Err(error) => absent.push((id, error)),
            }
        }
        self.take_out(&absent);
        refused.extend(absent);
        (contexts, refused)
    }
}

fn context(
    backend: &dyn Backend,
    given: &[OptionAssignment],
    protected_content: bool,
) -> Result<Option<Box<dyn BackendContext>>> {
    let settings = settings(backend, given, OptionScope::Creation)?;
    backend.context(&CreationOptions {
        settings,
        protected_content,
    })
}

#[cfg(test)]
mod tests;
