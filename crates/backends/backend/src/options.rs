//! Options of backends: what they know, what they are given, and what is wrong with that.

use crate::{Backend, BackendId, NamedValue};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Location, Result};

/// When an option counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionScope {
    /// For a model: [`Backend::configured`].
    Model,
    /// For a runtime: [`Backend::context`].
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

/// An option that a backend knows.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionDef {
    /// Its name.
    pub name: Cow<'static, str>,
    /// When it counts.
    pub scope: OptionScope,
    /// Its value unless given; also its kind.
    pub default: NamedValue,
    /// What it does, in a sentence.
    pub doc: Cow<'static, str>,
}

/// An option given to a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSetting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: NamedValue,
}

/// An option as the caller wrote it: `MyAcc.Threads=4`. Its kind is what the backend says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionAssignment {
    /// For which backend.
    pub backend: BackendId,
    /// Its name.
    pub name: String,
    /// Its value in text.
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
                "an option of a backend is written otherwise",
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

/// What a runtime is created with, as one backend hears it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreationOptions {
    /// The backend's own options of [`OptionScope::Creation`].
    pub settings: Vec<OptionSetting>,
    /// Models and tensors are to be kept from the reach of the CPU.
    pub protected_content: bool,
}

/// The settings of `scope` for `backend` among `given`; unknown names and values of the wrong kind
/// are reported together.
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
