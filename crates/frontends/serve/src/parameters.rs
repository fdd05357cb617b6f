//! Parameters of requests, inputs and outputs.

use crate::status::{Refusal, Status};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// An integer above the range of `i64`, or of a `uint64_param`.
    Unsigned(u64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
}

/// The parameters by name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Parameters(pub BTreeMap<String, Parameter>);

impl Parameters {
    /// A boolean.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn bool(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Parameter::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(misfit(name, "a boolean", other)),
        }
    }

    /// An integer that is not negative.
    ///
    /// # Errors
    /// A value of another kind, or a negative one.
    pub fn unsigned(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(found) = self.0.get(name) else {
            return Ok(None);
        };
        let value = match found {
            Parameter::Unsigned(value) => Some(*value),
            Parameter::Integer(value) => u64::try_from(*value).ok(),
            // Some clients send integers as strings.
            Parameter::Text(text) => text.parse().ok(),
            Parameter::Bool(_) | Parameter::Float(_) => None,
        };
        match value {
            Some(value) => Ok(Some(value)),
            None => Err(misfit(name, "an integer of at least 0", found)),
        }
    }

    /// Refuses parameters of extensions that the server lacks: ignored, they would change the meaning of a request.
    ///
    /// # Errors
    /// A region of shared memory; a sequence.
    pub fn check_supported(&self) -> Result<(), Refusal> {
        if self.0.contains_key("shared_memory_region") {
            let text = "shared memory is not supported: send the data in the request";
            return Err(Refusal::new(Status::Unsupported, text));
        }
        let is_none = |value: &Parameter| match value {
            Parameter::Integer(0) | Parameter::Unsigned(0) => true,
            Parameter::Text(text) => text.is_empty(),
            _ => false,
        };
        if (self.0.get("sequence_id")).is_some_and(|value| !is_none(value)) {
            let text = "sequences (sequence_id) are not supported: send the state as an input";
            return Err(Refusal::new(Status::Unsupported, text));
        }
        Ok(())
    }
}

fn misfit(name: &str, expected: &str, found: &Parameter) -> Refusal {
    Refusal::invalid(format!(
        "parameter '{name}': expected {expected}, found {found}"
    ))
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Parameter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean, an integer, a float or a string")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Parameter, E> {
                Ok(Parameter::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Parameter, E> {
                Ok(Parameter::Integer(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Parameter, E> {
                let integer = i64::try_from(value).map(Parameter::Integer);
                Ok(integer.unwrap_or(Parameter::Unsigned(value)))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Parameter, E> {
                match value.is_finite() {
                    true => Ok(Parameter::Float(value)),
                    false => Err(E::custom("a float beyond the range of 64 bits")),
                }
            }

            fn visit_str<E>(self, value: &str) -> Result<Parameter, E> {
                Ok(Parameter::Text(value.to_owned()))
            }
        }
        deserializer
            .deserialize_any(Visitor)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(json: &str) -> Parameters {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn values_have_their_kinds() {
        let some = parameters(r#"{"a": true, "b": 3, "c": -1, "d": "7", "e": 1.5}"#);
        assert_eq!(some.bool("a"), Ok(Some(true)));
        assert_eq!(some.bool("none"), Ok(None));
        assert!(
            some.bool("b")
                .unwrap_err()
                .text
                .contains("boolean, found 3")
        );
        assert_eq!(some.unsigned("b"), Ok(Some(3)));
        assert_eq!(some.unsigned("d"), Ok(Some(7)));
        assert!(some.unsigned("c").is_err() && some.unsigned("e").is_err());
        assert!(serde_json::from_str::<Parameters>(r#"{"a": [1]}"#).is_err());
        assert!(serde_json::from_str::<Parameters>(r#"{"a": null}"#).is_err());
    }

    #[test]
    fn extensions_that_are_missing_are_refused() {
        let supported = |json| parameters(json).check_supported().map_err(|r| r.status);
        assert_eq!(supported(r#"{"sequence_id": 0, "x": 1}"#), Ok(()));
        assert_eq!(supported(r#"{"sequence_id": 4}"#), Err(Status::Unsupported));
        assert_eq!(
            supported(r#"{"sequence_id": "s"}"#),
            Err(Status::Unsupported)
        );
        let region = r#"{"shared_memory_region": "r"}"#;
        assert_eq!(supported(region), Err(Status::Unsupported));
    }
}
