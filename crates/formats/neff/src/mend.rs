//! Reading a JSON member that is not as it must be: what does not fit is named and left out, so
//! that the rest can be read and checked as well.

use crate::key_path::Step;
use crate::{KeyPath, Name, Table};
use serde_json::{Number, Value};

/// Something of a wrong type, or missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// Where; of a missing key, the object that lacks it.
    pub place: KeyPath,
    pub what: What,
}

/// What is wrong there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// This key is missing.
    Missing(&'static str),
    /// Another type, or a value outside of its type.
    Type {
        expected: &'static str,
        found: String,
    },
}

/// A type that JSON members hold.
pub(crate) trait Stored {
    /// Takes out of `value` what does not fit this type, and tells it. False when nothing is left
    /// that could be read.
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool;
}

/// How one field is mended.
type Mend = fn(&mut Value, &mut KeyPath, &mut Vec<Problem>) -> bool;

/// Tells that `value` is not what is expected.
pub(crate) fn wrong(
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
    let what = What::Type { expected, found };
    problems.push(Problem {
        place: place.clone(),
        what,
    });
    false
}

/// Mends an object: its fields by key, whether each must be there, and how it is mended.
pub(crate) fn object(
    value: &mut Value,
    place: &mut KeyPath,
    problems: &mut Vec<Problem>,
    fields: &[(&'static str, bool, Mend)],
) -> bool {
    let Value::Object(map) = value else {
        return wrong(value, place, problems, "an object");
    };
    let mut whole = true;
    for &(key, required, mend) in fields {
        let Some(value) = map.get_mut(key) else {
            if required {
                let what = What::Missing(key);
                problems.push(Problem {
                    place: place.clone(),
                    what,
                });
                whole = false;
            }
            continue;
        };
        place.enter(Step::Key(key.to_owned()));
        let fits = mend(value, place, problems);
        place.leave();
        if !fits {
            map.shift_remove(key);
            whole &= !required;
        }
    }
    whole
}

macro_rules! scalars {
    ($($type:ty, $expected:literal, $test:expr;)*) => {
        $(impl Stored for $type {
            fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
                let fits: fn(&Value) -> bool = $test;
                fits(value) || wrong(value, place, problems, $expected)
            }
        })*
    };
}

scalars! {
    String, "a text", Value::is_string;
    Name, "a text", Value::is_string;
    bool, "true or false", Value::is_boolean;
    u32, "a whole number below 4294967296", |v| v.as_u64().is_some_and(|n| u32::try_from(n).is_ok());
    u64, "a whole number from 0", Value::is_u64;
    i64, "a whole number", Value::is_i64;
    Number, "a number", Value::is_number;
    Value, "anything", |_| true;
}

impl<T: Stored> Stored for Option<T> {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        value.is_null() || T::mend(value, place, problems)
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let Value::Array(items) = value else {
            return wrong(value, place, problems, "a list");
        };
        let mut index = 0;
        items.retain_mut(|item| {
            place.enter(Step::Index(index));
            let fits = T::mend(item, place, problems);
            place.leave();
            index += 1;
            fits
        });
        true
    }
}

impl<T: Stored> Stored for Table<T> {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let Value::Object(map) = value else {
            return wrong(value, place, problems, "an object");
        };
        map.retain(|key, value| {
            place.enter(Step::Key(key.clone()));
            let fits = T::mend(value, place, problems);
            place.leave();
            fits
        });
        true
    }
}

/// A list whose entries depend on each other's number: one that does not fit spoils it.
fn whole_list<T: Stored>(
    value: &mut Value,
    place: &mut KeyPath,
    problems: &mut Vec<Problem>,
) -> bool {
    let Value::Array(items) = value else {
        return wrong(value, place, problems, "a list");
    };
    let mut whole = true;
    for (index, item) in items.iter_mut().enumerate() {
        place.enter(Step::Index(index));
        whole &= T::mend(item, place, problems);
        place.leave();
    }
    whole
}

impl Stored for crate::Extents {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        whole_list::<u64>(value, place, problems)
    }
}

impl Stored for crate::Steps {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        whole_list::<i64>(value, place, problems)
    }
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        let found = value.as_array().map(Vec::len);
        if found != Some(N) {
            return wrong(
                value,
                place,
                problems,
                "a list of as many entries as it must have",
            );
        }
        whole_list::<T>(value, place, problems)
    }
}

/// A list behind the name of its type (facts, neuron.md 2.6: `attrs`).
impl<T: Stored> Stored for (String, Vec<T>) {
    fn mend(value: &mut Value, place: &mut KeyPath, problems: &mut Vec<Problem>) -> bool {
        match value.as_array_mut().map(Vec::as_mut_slice) {
            Some([Value::String(_), list]) => whole_list::<T>(list, place, problems),
            _ => wrong(value, place, problems, "a type's name and a list"),
        }
    }
}
