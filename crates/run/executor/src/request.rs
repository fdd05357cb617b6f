//! Requests: the context shared by the executions of one call (bef 2.4).

use crate::{Host, Value};
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tenon_base::{Control, Error, ErrorKind, Result};

/// The context of one external call: host, cancellation, and the resources that its kernels share.
/// Clones share it.
#[derive(Clone)]
pub struct Request(Arc<Inner>);

struct Inner {
    host: Host,
    control: Control,
    /// The value of results after cancellation.
    cancelled: OnceLock<Value>,
    resources: Option<Mutex<Resources>>,
}

type Resources = HashMap<String, Arc<dyn Any + Send + Sync>>;

impl Request {
    /// A request on `host`, with a resource context.
    pub fn new(host: &Host) -> Self {
        Self::with(host, Control::new(), true)
    }

    /// A request that `control` cancels. `resources`: whether kernels may share resources.
    pub fn with(host: &Host, control: Control, resources: bool) -> Self {
        Self(Arc::new(Inner {
            host: host.clone(),
            control,
            cancelled: OnceLock::new(),
            resources: resources.then(Mutex::default),
        }))
    }

    /// The request of kernels that run without one, on a default host.
    pub(crate) fn outside() -> &'static Self {
        static OUTSIDE: OnceLock<Request> = OnceLock::new();
        OUTSIDE.get_or_init(|| Self::with(&Host::new(), Control::new(), false))
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Cancellation and deadline.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Cancels the request: no further kernel starts. Its control, which other requests may share,
    /// is not cancelled. Running kernels are not interrupted.
    pub fn cancel(&self) {
        self.0.cancelled.get_or_init(cancelled);
    }

    /// Fails when the request or its control is cancelled or past its deadline.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.control.check()?;
        match self.0.cancelled.get() {
            Some(_) => Err(Error::new(ErrorKind::Cancelled, "the work was cancelled")),
            None => Ok(()),
        }
    }

    /// The error value of results once the request is cancelled or past its deadline.
    #[inline]
    pub fn cancelled(&self) -> Option<Value> {
        if let Some(cancelled) = self.0.cancelled.get() {
            return Some(cancelled.clone());
        }
        if !self.0.control.is_cancelled() && !self.0.control.has_deadline() {
            return None;
        }
        self.stopped()
    }

    #[cold]
    fn stopped(&self) -> Option<Value> {
        let error = self.0.control.check().err()?;
        let value = self.0.cancelled.get_or_init(|| match error.kind() {
            ErrorKind::Cancelled => cancelled(),
            _ => Value::error(error),
        });
        Some(value.clone())
    }

    /// The resource of that name and type, made on the first call.
    ///
    /// # Errors
    /// A request without resources, or a resource of that name and another type.
    pub fn resource<T: Send + Sync + 'static>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<Arc<T>> {
        let Some(resources) = &self.0.resources else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this request has no resource context",
            ));
        };
        let mut resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
        let resource = match resources.get(name) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<dyn Any + Send + Sync> = Arc::new(make());
                resources.insert(name.to_owned(), new.clone());
                new
            }
        };
        resource.downcast().map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("resource '{name}' is of another type"),
            )
        })
    }

    /// Removes the resource of that name; returns whether it existed.
    pub fn forget(&self, name: &str) -> bool {
        self.0.resources.as_ref().is_some_and(|resources| {
            let mut resources = resources.lock().unwrap_or_else(PoisonError::into_inner);
            let forgotten = resources.remove(name);
            drop(resources);
            forgotten.is_some()
        })
    }
}

/// The error text of the original.
fn cancelled() -> Value {
    Value::error(Error::new(ErrorKind::Cancelled, "Cancelled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_made_once_per_request() {
        let request = Request::new(&Host::new());
        assert_eq!(*request.resource("a", || 1).unwrap(), 1);
        assert_eq!(*request.resource("a", || 2).unwrap(), 1);
        assert!(request.resource("a", String::new).is_err());
        assert!(request.forget("a") && !request.forget("a"));
        let without = Request::with(&Host::new(), Control::new(), false);
        assert!(without.resource("a", || 1).is_err());
    }

    #[test]
    fn a_cancelled_request_returns_the_same_error() {
        let request = Request::new(&Host::new());
        assert_eq!(request.cancelled(), None);
        request.cancel();
        let Some(Value::Error(error)) = request.cancelled() else {
            panic!("not cancelled");
        };
        assert_eq!(
            (error.message(), error.kind()),
            ("Cancelled", ErrorKind::Cancelled)
        );
        assert_eq!(request.cancelled(), Some(Value::Error(error)));
        assert_eq!(request.check().unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn cancelling_a_control_cancels_its_requests_but_not_the_reverse() {
        let control = Control::new();
        let [one, two] = [(); 2].map(|()| Request::with(&Host::new(), control.clone(), false));
        one.cancel();
        assert!(one.cancelled().is_some() && one.check().is_err());
        assert!(two.cancelled().is_none() && two.check().is_ok());
        assert!(!control.is_cancelled());
        control.cancel();
        assert!(two.cancelled().is_some() && two.check().is_err());
    }
}
