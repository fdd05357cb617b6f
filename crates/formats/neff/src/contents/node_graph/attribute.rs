//! Attributes of CPU nodes: the values of an operator's attributes in the model.

use super::invalid;
use serde_json::{Map, Value, json};
use tenon_base::{Location, Result};

/// Values of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeAttribute {
    /// One float.
    Float(f32),
    /// One integer.
    Int(i64),
    /// One text.
    String(String),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Strings(Vec<String>),
}

/// The attributes as JSON text, `{NAME: {KIND: VALUE or VALUES}}`; `None` without attributes.
pub(super) fn to_text(attributes: &[(String, NodeAttribute)]) -> Option<String> {
    let object: Map<String, Value> = attributes
        .iter()
        .map(|(name, value)| (name.clone(), to_json(value)))
        .collect();
    (!object.is_empty()).then(|| Value::Object(object).to_string())
}

fn to_json(value: &NodeAttribute) -> Value {
    match value {
        NodeAttribute::Float(number) => json!({"float": float_json(*number)}),
        NodeAttribute::Int(number) => json!({"int": number}),
        NodeAttribute::String(text) => json!({"string": text}),
        NodeAttribute::Floats(values) => {
            json!({"floats": values.iter().map(|&value| float_json(value)).collect::<Vec<_>>()})
        }
        NodeAttribute::Ints(values) => json!({"ints": values}),
        NodeAttribute::Strings(texts) => json!({"strings": texts}),
    }
}

/// A float as a number; infinities and NaN, which JSON does not have, as a string.
fn float_json(number: f32) -> Value {
    if number.is_finite() {
        json!(f64::from(number))
    } else {
        json!(number.to_string())
    }
}

/// Reads what [`to_text`] wrote; all problems together.
pub(super) fn from_text(text: &str) -> Result<Vec<(String, NodeAttribute)>> {
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| invalid(format!("attrs.attributes is not an object: {error}")))?;
    let mut problems = Vec::new();
    let mut attributes = Vec::with_capacity(object.len());
    for (name, value) in &object {
        match from_json(value) {
            Some(_) if name.contains('\0') => {
                problems.push(invalid(format!(
                    "an attribute's name with a zero byte: {name:?}"
                )));
            }
            Some(attribute) => attributes.push((name.clone(), attribute)),
            None => {
                let error = invalid("not the values of one kind")
                    .expected("float, int, string, floats, ints or strings")
                    .found(value);
                problems.push(error.at(Location::field(format!("attrs.attributes '{name}'"))));
            }
        }
    }
    tenon_base::Error::from_all(problems).map_or(Ok(attributes), Err)
}

fn from_json(value: &Value) -> Option<NodeAttribute> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let (kind, value) = object.iter().next()?;
    Some(match kind.as_str() {
        "float" => NodeAttribute::Float(float(value)?),
        "int" => NodeAttribute::Int(value.as_i64()?),
        "string" => NodeAttribute::String(text(value)?),
        "floats" => NodeAttribute::Floats(list(value, float)?),
        "ints" => NodeAttribute::Ints(list(value, Value::as_i64)?),
        "strings" => NodeAttribute::Strings(list(value, text)?),
        _ => return None,
    })
}

fn list<T>(value: &Value, one: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(one).collect()
}

fn float(value: &Value) -> Option<f32> {
    match value {
        Value::String(text) => text.parse().ok().filter(|number: &f32| !number.is_finite()),
        _ => Some(value.as_f64()? as f32),
    }
}

/// Functions receive zero-terminated strings.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (!text.contains('\0')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        use NodeAttribute::*;
        let all = [
            ("a \"b\"", Float(0.1)),
            ("c", Int(i64::MIN)),
            ("d", String("täxt".into())),
            (
                "e",
                Floats(vec![f32::INFINITY, f32::MIN_POSITIVE / 8.0, -0.0]),
            ),
            ("f", Ints(vec![])),
            ("g", Strings(vec!["".into(), "x".into()])),
        ];
        let all: Vec<_> = all
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let text = to_text(&all).unwrap();
        assert_eq!(from_text(&text).unwrap(), all);
        let nan = to_text(&[("n".to_owned(), Float(f32::NAN))]).unwrap();
        assert_eq!(nan, r#"{"n":{"float":"NaN"}}"#);
        assert!(matches!(from_text(&nan).unwrap()[0].1, Float(number) if number.is_nan()));
        assert_eq!(to_text(&[]), None);
    }

    #[test]
    fn malformed_attributes_are_reported_together() {
        let error = from_text(
            r#"{"a": 1, "b": {"float": "1"}, "c": {"ints": [1, "x"]}, "d": {"int": 1, "float": 1},
                "e": {"tensor": 1}, "f": {"string": "\u0000"}, "g": {"int": 2}}"#,
        )
        .unwrap_err()
        .to_string();
        for name in ["'a'", "'b'", "'c'", "'d'", "'e'", "'f'"] {
            assert!(
                error.contains(&format!(
                    "attrs.attributes {name}: not the values of one kind"
                )),
                "{error}"
            );
        }
        assert!(!error.contains("'g'"));
        assert!(from_text("[]").is_err() && from_text("").is_err());
    }
}
