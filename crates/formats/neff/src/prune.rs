//! Lenient reading of a JSON member: values of a wrong type are reported and removed, so that the
//! rest of the member can be read and checked.

use crate::key_path::Step;
use crate::{KeyPath, Name, Table};
use serde_json::{Number, Value};

/// A value of a wrong type, or a missing key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// The place of the value; for a missing key, of the object that lacks it.
    pub place: KeyPath,
    pub mismatch: Mismatch,
}

/// How a value differs from its declared type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mismatch {
    /// This key is missing.
    Missing(&'static str),
    /// The value has another type, or is out of range.
    Type {
        expected: &'static str,
        found: String,
    },
}

/// A type of the values of JSON members.
pub(crate) trait Prune {
    /// Removes the parts of `value` that do not have this type and reports them. False when the
    /// remainder cannot be read either.
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool;
}

/// [`Prune::prune`] of the type of a field.
type PruneFn = fn(&mut Value, &mut KeyPath, &mut Vec<Problem>) -> bool;

/// Reports that `value` is not `expected`; always false.
pub(crate) fn report_mismatch(
    value: &Value,
    place: &KeyPath,
    problems: &mut Vec<Problem>,
    expected: &'static str,
) -> bool {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.len() <= 40 => format!("'{}'", text.escape_debug()),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    problems.push(Problem {
        place: place.clone(),
        mismatch: Mismatch::Type { expected, found },
    });
    false
}

/// Prunes an object. Each field is its key, whether it is required, and how it is pruned.
pub(crate) fn prune_object(
    value: &mut Value,
    place: &mut KeyPath,
    problems: &mut Vec<Problem>,
    fields: &[(&'static str, bool, PruneFn)],
) -> bool {
    let Value::Object(map) = value else {
        return report_mismatch(value, place, problems, "an object");
    };
    let mut is_readable = true;
    for &(key, required, prune) in fields {
        let Some(value) = map.get_mut(key) else {
            if required {
                problems.push(Problem {
                    place: place.clone(),
                    mismatch: Mismatch::Missing(key),
                });
                is_readable = false;
            }
            continue;
        };
        place.enter(Step::Key(key.to_owned()));
        let fits = prune(value, place, problems);
        place.leave();
        if !fits {
            map.shift_remove(key);
            is_readable &= !required;
        }
    }
    is_readable
}

macro_rules! scalars {
    ($($type:ty, $expected:literal, $test:expr;)*) => {
        $(impl Prune for $type {
            fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
                let fits: fn(&Value) -> bool = $test;
                fits(value) || report_mismatch(value, place, problems, $expected)
            }
        })*
    };
}

scalars! {
    String, "a text", Value::is_string;
    Name, "a text", Value::is_string;
    bool, "true or false", Value::is_boolean;
    u32, "an integer below 4294967296", |v| v.as_u64().is_some_and(|n| u32::try_from(n).is_ok());
    u64, "a non-negative integer", Value::is_u64;
    i64, "an integer", Value::is_i64;
    Number, "a number", Value::is_number;
    Value, "anything", |_| true;
}

impl<T: Prune> Prune for Option<T> {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        value.is_null() || T::prune(value, place, problems)
    }
}

impl<T: Prune> Prune for Vec<T> {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let Value::Array(items) = value else {
            return report_mismatch(value, place, problems, "a list");
        };
        let mut index = 0;
        items.retain_mut(|item| {
            place.enter(Step::Index(index));
            let fits = T::prune(item, place, problems);
            place.leave();
            index += 1;
            fits
        });
        true
    }
}

impl<T: Prune> Prune for Table<T> {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let Value::Object(map) = value else {
            return report_mismatch(value, place, problems, "an object");
        };
        map.retain(|key, value| {
            place.enter(Step::Key(key.clone()));
            let fits = T::prune(value, place, problems);
            place.leave();
            fits
        });
        true
    }
}

/// Prunes a list whose length carries meaning: an entry of a wrong type makes the list unreadable.
fn prune_fixed_list<T: Prune>(
    value: &mut Value,
    place: &mut KeyPath,
    problems: &mut Vec<Problem>,
) -> bool {
    let Value::Array(items) = value else {
        return report_mismatch(value, place, problems, "a list");
    };
    let mut is_readable = true;
    for (index, item) in items.iter_mut().enumerate() {
        place.enter(Step::Index(index));
        is_readable &= T::prune(item, place, problems);
        place.leave();
    }
    is_readable
}

impl Prune for crate::Extents {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        prune_fixed_list::<u64>(value, place, problems)
    }
}

impl Prune for crate::Steps {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        prune_fixed_list::<i64>(value, place, problems)
    }
}

impl<T: Prune, const N: usize> Prune for [T; N] {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let found = value.as_array().map(Vec::len);
        if found != Some(N) {
            return report_mismatch(value, place, problems, "a list of the required length");
        }
        prune_fixed_list::<T>(value, place, problems)
    }
}

/// The name of a type, then a list of it (`attrs`, neff 2.1).
impl<T: Prune> Prune for (String, Vec<T>) {
    fn prune(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        match value.as_array_mut().map(Vec::as_mut_slice) {
            Some([Value::String(_), list]) => prune_fixed_list::<T>(list, place, problems),
            _ => report_mismatch(value, place, problems, "a type's name and a list"),
        }
    }
}
