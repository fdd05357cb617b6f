//! Parameters of requests, inputs and outputs.

use crate::sequences::{SequenceId, SequencePosition};
use crate::shared_memory::REGION;
use crate::status::Refusal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a correlation id that is a text.
const MAX_SEQUENCE_ID: usize = 128;

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

    /// A text.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Parameter::Text(text)) => Ok(Some(text)),
            Some(other) => Err(misfit(name, "a string", other)),
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

    /// The place in a sequence: `sequence_id`, `sequence_start` and `sequence_end`. The number 0 and the empty text are
    /// none.
    ///
    /// # Errors
    /// Values of other kinds; a text of more than 128 bytes.
    pub fn sequence(&self) -> Result<Option<SequencePosition>, Refusal> {
        let id = match self.0.get("sequence_id") {
            None | Some(Parameter::Integer(0) | Parameter::Unsigned(0)) => return Ok(None),
            Some(Parameter::Text(text)) if text.is_empty() => return Ok(None),
            Some(Parameter::Text(text)) if text.len() <= MAX_SEQUENCE_ID => {
                SequenceId::Text(text.clone())
            }
            Some(Parameter::Unsigned(number)) => SequenceId::Number(*number),
            Some(Parameter::Integer(number)) if *number > 0 => {
                SequenceId::Number(number.unsigned_abs())
            }
            Some(other) => {
                let expected = "a positive integer, or a text of at most 128 bytes";
                return Err(misfit("sequence_id", expected, other));
            }
        };
        Ok(Some(SequencePosition {
            id,
            is_first: self.bool("sequence_start")?.unwrap_or(false),
            is_last: self.bool("sequence_end")?.unwrap_or(false),
        }))
    }

    /// Refuses parameters that requests do not have: ignored, they would change the meaning of one.
    ///
    /// # Errors
    /// A region of shared memory.
    pub fn check_of_request(&self) -> Result<(), Refusal> {
        if self.0.contains_key(REGION) {
            let text =
                format!("the parameter {REGION} is one of inputs and outputs, not of requests");
            return Err(Refusal::invalid(text));
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
    fn regions_are_parameters_of_tensors() {
        assert!(parameters(r#"{"x": 1}"#).check_of_request().is_ok());
        let region = parameters(r#"{"shared_memory_region": "r"}"#);
        assert!(region.check_of_request().is_err());
        assert_eq!(region.text(REGION), Ok(Some("r")));
        assert!(
            parameters(r#"{"shared_memory_region": 1}"#)
                .text(REGION)
                .is_err()
        );
    }

    #[test]
    fn sequences_have_ids() {
        let position = |json| parameters(json).sequence();
        for none in ["{}", r#"{"sequence_id": 0}"#, r#"{"sequence_id": ""}"#] {
            assert_eq!(position(none), Ok(None), "{none}");
        }
        let some = position(r#"{"sequence_id": 4, "sequence_start": true}"#);
        let some = some.unwrap().unwrap();
        assert_eq!(some.id, SequenceId::Number(4));
        assert!(some.is_first && !some.is_last);
        let text = position(r#"{"sequence_id": "a"}"#).unwrap().unwrap();
        assert_eq!(text.id, SequenceId::Text("a".into()));
        let long = format!(r#"{{"sequence_id": "{}"}}"#, "x".repeat(129));
        for bad in [
            r#"{"sequence_id": -1}"#,
            r#"{"sequence_id": 1.5}"#,
            r#"{"sequence_id": true}"#,
            r#"{"sequence_id": 1, "sequence_end": 1}"#,
            &long,
        ] {
            assert!(position(bad).is_err(), "{bad}");
        }
    }
}
