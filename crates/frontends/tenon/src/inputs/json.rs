//! JSON files as inputs: nested lists of elements, and an object for a map.

use serde_json::Value;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{DataType, MapKey, MapKeys, Tensor, TensorType, convert};

/// The most problems that are listed.
const PROBLEMS: usize = 16;

/// Reads a JSON file: nested lists of JSON values in row-major order, as many as `ty` has; or an object
/// where the input is a map with `keys`. A key that the object does not have is 0 or the empty string; one that the map
/// does not have is left out.
pub fn read_json(path: &Path, ty: &TensorType, keys: Option<&MapKeys>) -> Result<Tensor> {
    let text = std::fs::read(path).map_err(|error| Error::io(path, "read", error))?;
    let read = || {
        let value: Value = serde_json::from_slice(&text).map_err(|error| {
            let place = Location::default().line_column(error.line() as u32, error.column() as u32);
            invalid(format!("no JSON: {error}")).at(place)
        })?;
        match (&value, keys) {
            (Value::Object(map), Some(keys)) => {
                let none = match ty.dtype() {
                    DataType::String => Value::from(""),
                    DataType::Bool => Value::from(false),
                    _ => Value::from(0),
                };
                let mut row = vec![&none; keys.len()];
                for (key, value) in map {
                    let int = key.parse().ok().map(MapKey::Int);
                    let column = keys.column(MapKey::String(key));
                    if let Some(column) = column.or_else(|| keys.column(int?)) {
                        row[column] = value;
                    }
                }
                tensor(&row, ty)
            }
            (Value::Object(_), None) => Err(invalid("an object for an input that is no map")
                .expected(format_args!("nested lists of elements for {ty}"))),
            _ => {
                let mut elements = Vec::new();
                flatten(&value, &mut elements);
                tensor(&elements, ty)
            }
        }
    };
    read().map_err(|error| error.at(Location::file(path)))
}

/// The elements of nested lists in order. JSON is not nested deeper than its reader allows.
fn flatten<'a>(value: &'a Value, elements: &mut Vec<&'a Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| flatten(item, elements)),
        element => elements.push(element),
    }
}

fn tensor(elements: &[&Value], ty: &TensorType) -> Result<Tensor> {
    if elements.len() != ty.elements() {
        return Err(invalid("lists that do not fit the input")
            .expected(format_args!("{} elements for {ty}", ty.elements()))
            .found(elements.len()));
    }
    let shape = ty.shape().clone();
    match ty.dtype() {
        DataType::String => Tensor::from_strings(
            shape,
            &collect(elements, "a string", |element| element.as_str())?,
        ),
        DataType::Bool => Tensor::from_bools(
            shape,
            &collect(elements, "true or false", |element| element.as_bool())?,
        ),
        DataType::U64 => Tensor::from_slice(
            shape,
            &collect(elements, "an integer", |element| element.as_u64())?,
        ),
        dtype if dtype.is_integer() => {
            let values = collect(elements, "an integer", |element| element.as_i64())?;
            convert(&Tensor::from_slice(shape, &values)?, dtype)
        }
        dtype => {
            let values = collect(elements, "a number", float)?;
            convert(&Tensor::from_slice(shape, &values)?, dtype)
        }
    }
}

/// A floating-point value, also as `--json` writes those that JSON lacks.
fn float(element: &Value) -> Option<f64> {
    match element.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        _ => element.as_f64(),
    }
}

/// The values of elements of one kind.
fn collect<'a, T>(
    elements: &[&'a Value],
    expected: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Vec<T>> {
    let mut problems = Vec::new();
    let mut values = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        match read(element) {
            Some(value) => values.push(value),
            None if problems.len() < PROBLEMS => {
                let error = invalid(format!("element {at} is not {expected}"));
                problems.push(error.found(element));
            }
            None => break,
        }
    }
    Error::from_all(problems).map_or(Ok(values), Err)
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dtype: DataType, shape: &[usize], keys: Option<&str>) -> Result<Tensor> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let keys = keys.map(|keys| MapKeys::parse(keys).unwrap());
        read_json(
            &path,
            &TensorType::new(dtype, shape).unwrap(),
            keys.as_ref(),
        )
    }

    #[test]
    fn lists_become_tensors() {
        let found = read("[[1, 2.5], [\"NaN\", -3]]", DataType::F32, &[2, 2], None).unwrap();
        let found = found.as_slice::<f32>().unwrap().to_vec();
        assert_eq!((found[0], found[1], found[3]), (1.0, 2.5, -3.0));
        assert!(found[2].is_nan());
        let found = read("[\"a\", \"\"]", DataType::String, &[1, 2], None).unwrap();
        assert_eq!(found.strings().unwrap().collect::<Vec<_>>(), ["a", ""]);
        let found = read("[true, false]", DataType::Bool, &[2], None).unwrap();
        assert_eq!(found, Tensor::from_bools([2], &[true, false]).unwrap());
        let max = read("[18446744073709551615]", DataType::U64, &[1], None).unwrap();
        assert_eq!(max.as_slice::<u64>().unwrap(), [u64::MAX]);
    }

    #[test]
    fn an_object_is_a_map() {
        let text = r#"{"b": 2, "unknown": 9}"#;
        let found = read(text, DataType::F32, &[1, 2], Some(r#"["a", "b"]"#)).unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [0.0, 2.0]);
        let found = read(r#"{"7": "x"}"#, DataType::String, &[1, 2], Some("[5, 7]")).unwrap();
        assert_eq!(found.strings().unwrap().collect::<Vec<_>>(), ["", "x"]);
    }

    #[test]
    fn all_problems_are_reported() {
        let text = |json: &str, dtype| {
            let error = read(json, dtype, &[2], None).unwrap_err().to_string();
            error.split_once("x.json").unwrap().1.to_owned()
        };
        assert_eq!(text("[1.5, \"x\"]", DataType::I64).lines().count(), 2);
        assert!(text("[1]", DataType::F32).contains("expected 2 elements for f32[2], found 1"));
        assert!(text("[1, null]", DataType::F32).contains("element 1 is not a number: found null"));
        assert!(text("{}", DataType::F32).contains("an object for an input that is no map"));
        assert!(text("[1,\n x]", DataType::F32).starts_with(":2:2: no JSON"));
    }
}
