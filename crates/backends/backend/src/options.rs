//! Options of backends: definitions, assignments and their validation.

use crate::{Backend, BackendId, PropertyValue};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Location, Result};

/// The scope of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionScope {
    /// Model: applied by [`Configure::configured`](crate::Configure::configured).
    Model,
    /// Runtime: applied by [`Lifecycle::context`](crate::Lifecycle::context).
    Creation,
}

impl fmt::Display for OptionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            OptionScope::Model => "model",
            OptionScope::Creation => "creation",
        })
    }
}

/// An option of a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionDef {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its scope.
    pub scope: OptionScope,
    /// Its default, which also gives its kind.
    pub default: PropertyValue,
    /// Its description, one sentence.
    pub doc: Cow<'static, str>,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSetting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
}

/// An assignment of an option as text: `MyAcc.Threads=4`. The kind of the value is that of the
/// option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionAssignment {
    /// Id of the backend.
    pub backend: BackendId,
    /// Its name.
    pub name: String,
    /// The value as text.
    pub text: String,
}

impl fmt::Display for OptionAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}={}", self.backend, self.name, self.text)
    }
}

impl FromStr for OptionAssignment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('=').and_then(|(place, value)| {
            let (backend, name) = place.split_once('.')?;
            Some((backend, name, value))
        });
        let (backend, name, value) = parts.ok_or_else(|| {
            Error::new(
                ErrorKind::Usage,
                "malformed assignment of a backend's option",
            )
            .expected("BACKEND.NAME=VALUE")
            .found(text)
        })?;
        Ok(Self {
            backend: backend.to_owned().into(),
            name: name.to_owned(),
            text: value.to_owned(),
        })
    }
}

/// The options of a backend for the creation of a runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreationOptions {
    /// The backend's options of [`OptionScope::Creation`].
    pub settings: Vec<OptionSetting>,
    /// Whether models and tensors must be protected from access by the CPU.
    pub protected_content: bool,
}

/// The values of `scope` for `backend` in `given`; unknown names and values of a wrong kind are
/// reported together.
pub fn settings(
    backend: &dyn Backend,
    given: &[OptionAssignment],
    scope: OptionScope,
) -> Result<Vec<OptionSetting>> {
    let (id, known) = (backend.id(), backend.options());
    let mut problems = Vec::new();
    let mut settings = Vec::new();
    for option in given.iter().filter(|option| option.backend == id) {
        match setting(&id, &known, option) {
            Ok((found, setting)) if found == scope => settings.push(setting),
            Ok(_) => {}
            Err(error) => problems.push(error),
        }
    }
    Error::from_all(problems).map_or(Ok(settings), Err)
}

fn setting(
    id: &BackendId,
    known: &[OptionDef],
    given: &OptionAssignment,
) -> Result<(OptionScope, OptionSetting)> {
    let place = || Location::field(format!("option {id}.{}", given.name));
    let Some(def) = known.iter().find(|def| def.name == given.name) else {
        let names: Vec<&str> = known.iter().map(|def| &*def.name).collect();
        let error = Error::new(ErrorKind::InvalidArgument, "the backend has no such option");
        return Err(error
            .expected(match names.as_slice() {
                [] => "none".to_owned(),
                names => names.join(", "),
            })
            .at(place()));
    };
    let value = def.default.parse_like(&given.text).ok_or_else(|| {
        Error::new(ErrorKind::InvalidArgument, "the value is of another kind")
            .expected(def.default.kind())
            .found(&given.text)
            .at(place())
    })?;
    let name = given.name.clone();
    Ok((def.scope, OptionSetting { name, value }))
}
