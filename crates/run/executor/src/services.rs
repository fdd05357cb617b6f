//! Services: objects that kernels look up by type when they are bound.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The objects that kernels may look up when they are bound, one per type (the variables of a
/// package, the backends of a runtime).
#[derive(Clone, Default)]
pub struct Services(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Services {
    /// No services.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service; it replaces a service of the same type.
    pub fn with<T: Send + Sync + 'static>(mut self, service: Arc<T>) -> Self {
        self.0.insert(TypeId::of::<T>(), service);
        self
    }

    /// The service of type `T`; an error when the program was loaded without it.
    pub fn service<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let found = self.0.get(&TypeId::of::<T>()).cloned();
        found
            .and_then(|service| service.downcast().ok())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "the kernel requires the service {}, which this program was loaded without",
                        type_name::<T>()
                    ),
                )
                .help("the program of a package runs only inside its package")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_its_type() {
        let services = Services::new().with(Arc::new(7u32)).with(Arc::new("text"));
        assert_eq!(*services.service::<u32>().unwrap(), 7);
        assert_eq!(
            services.service::<i64>().unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}
