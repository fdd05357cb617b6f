//! Options of custom operators: a FlexBuffer whose root is a map of scalars, texts and lists of integers, in the
//! [published layout](https://flatbuffers.dev/internals/#flexbuffers).

use crate::model::invalid;
use tenon_base::Result;

/// Types of values, the upper six bits of a packed type; the lower two are the logarithm of a width in bytes.
const INT: u8 = 1;
const UINT: u8 = 2;
const FLOAT: u8 = 3;
const STRING: u8 = 5;
const INDIRECT_INT: u8 = 6;
const INDIRECT_UINT: u8 = 7;
const INDIRECT_FLOAT: u8 = 8;
const MAP: u8 = 9;
const INTS: u8 = 11;
const UINTS: u8 = 12;
const BOOL: u8 = 26;

/// The greatest number of integers in a list.
const LONGEST: usize = 8;

/// The values of a map; those of other types are left out.
#[derive(Debug, Default)]
pub(crate) struct Options<'b> {
    entries: Vec<(&'b [u8], Value<'b>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'b> {
    Number(f64),
    Text(&'b [u8]),
    /// Integers, and how many there are.
    Integers([i64; LONGEST], usize),
}

impl<'b> Options<'b> {
    /// Reads the map; the time is linear in the number of bytes.
    pub fn parse(bytes: &'b [u8]) -> Result<Self> {
        Self::entries(bytes)
            .map(|entries| Self { entries })
            .ok_or_else(|| {
                invalid("the options of the custom operator are damaged")
                    .expected("a FlexBuffer with a map")
                    .found(format_args!("{} bytes", bytes.len()))
            })
    }

    /// The value of this name.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The text of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The list of integers of this name.
    pub fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.value(name)? {
            Value::Integers(values, count) => values.get(..*count),
            _ => None,
        }
    }

    fn value(&self, name: &str) -> Option<&Value<'b>> {
        let found = self.entries.iter().find(|entry| entry.0 == name.as_bytes());
        found.map(|entry| &entry.1)
    }

    /// The option of this name, which must be there.
    pub fn float(&self, name: &str) -> Result<f32> {
        let found = self.number(name).map(|value| value as f32);
        found.ok_or_else(|| invalid(format!("option {name} is missing")))
    }

    /// An integer from 0 to `most`; the default if it is missing.
    pub fn count(&self, name: &str, default: Option<i64>, most: i64) -> Result<i64> {
        let found = match (self.number(name), default) {
            (Some(found), _) => found,
            (None, Some(default)) => return Ok(default),
            (None, None) => return Err(invalid(format!("option {name} is missing"))),
        };
        if found.fract() == 0.0 && (0.0..=most as f64).contains(&found) {
            return Ok(found as i64);
        }
        Err(invalid(format!("option {name} is out of range"))
            .expected(format_args!("an integer from 0 to {most}"))
            .found(found))
    }

    fn entries(bytes: &'b [u8]) -> Option<Vec<(&'b [u8], Value<'b>)>> {
        let [.., packed, width] = bytes else {
            return None;
        };
        let (width, root_end) = (usize::from(*width), bytes.len() - 2);
        if packed >> 2 != MAP {
            return None;
        }
        let map = target(bytes, root_end.checked_sub(width)?, width)?;
        // Before the values: the offset of the keys, the width of their offsets, the count.
        let width = 1 << (packed & 3);
        let field = |index: usize| map.checked_sub(index * width);
        let count = usize::try_from(unsigned(bytes, field(1)?, width)?).ok()?;
        let key_width = usize::try_from(unsigned(bytes, field(2)?, width)?).ok()?;
        let keys = target(bytes, field(3)?, width)?;
        let types = map.checked_add(count.checked_mul(width)?)?;
        let types = bytes.get(types..types.checked_add(count)?)?;
        let mut entries = Vec::with_capacity(count);
        for (index, &packed) in types.iter().enumerate() {
            let key = keys.checked_add(index.checked_mul(key_width)?)?;
            let key = bytes.get(target(bytes, key, key_width)?..)?;
            // Keys of real options are short; the limit keeps the time linear.
            let length = key.iter().take(64).position(|&byte| byte == 0);
            let value = value(bytes, map + index * width, width, packed)?;
            if let (Some(length), Some(value)) = (length, value) {
                entries.push((&key[..length], value));
            }
        }
        Some(entries)
    }
}

/// The position that the offset at `at` leads back to.
fn target(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let offset = usize::try_from(unsigned(bytes, at, width)?).ok()?;
    at.checked_sub(offset)
}

fn unsigned(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    if !matches!(width, 1 | 2 | 4 | 8) {
        return None;
    }
    let mut word = [0; 8];
    word[..width].copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
    Some(u64::from_le_bytes(word))
}

/// A value of a vector with elements of `width`; `Some(None)` for one of another type.
fn value(bytes: &[u8], at: usize, width: usize, packed: u8) -> Option<Option<Value<'_>>> {
    let (kind, own_width) = (packed >> 2, 1 << (packed & 3));
    if !matches!(kind, STRING | INTS | UINTS) {
        return Some(scalar(bytes, at, width, packed)?.map(Value::Number));
    }
    // The number of elements is before the first one.
    let first = target(bytes, at, width)?;
    let count = unsigned(bytes, first.checked_sub(own_width)?, own_width)?;
    let count = usize::try_from(count).ok()?;
    if kind == STRING {
        let text = bytes.get(first..first.checked_add(count)?)?;
        return Some(Some(Value::Text(text)));
    }
    if count > LONGEST {
        return Some(None);
    }
    let mut values = [0; LONGEST];
    for (nth, value) in values.iter_mut().take(count).enumerate() {
        let word = unsigned(bytes, first + nth * own_width, own_width)?;
        *value = if kind == INTS {
            signed(word, own_width)
        } else {
            i64::try_from(word).ok()?
        };
    }
    Some(Some(Value::Integers(values, count)))
}

/// The integer of `width` bytes.
fn signed(word: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width;
    (word << unused) as i64 >> unused
}

/// A value of a vector with elements of `width`; `Some(None)` for one that is not a scalar.
fn scalar(bytes: &[u8], at: usize, width: usize, packed: u8) -> Option<Option<f64>> {
    let kind = packed >> 2;
    let is_indirect = matches!(kind, INDIRECT_INT | INDIRECT_UINT | INDIRECT_FLOAT);
    let (at, width) = if is_indirect {
        (target(bytes, at, width)?, 1 << (packed & 3))
    } else {
        (at, width)
    };
    let word = unsigned(bytes, at, width)?;
    Some(match kind {
        INT | INDIRECT_INT => Some(signed(word, width) as f64),
        UINT | INDIRECT_UINT | BOOL => Some(word as f64),
        FLOAT | INDIRECT_FLOAT => match width {
            8 => Some(f64::from_bits(word)),
            4 => Some(f32::from_bits(word as u32).into()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// {"a": -2, "b": 0.5, "c": true}, written by the Python package `flatbuffers`.
    const BYTES: &[u8] = &[
        b'a', 0, b'b', 0, b'c', 0, 3, 7, 6, 5, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0xfe,
        0xff, 0xff, 0xff, 0, 0, 0, 0x3f, 1, 0, 0, 0, 6, 14, 106, 15, 38, 1,
    ];

    #[test]
    fn scalars_have_the_names_of_keys() {
        let options = Options::parse(BYTES).unwrap();
        let values = ["a", "b", "c", "d"].map(|name| options.number(name));
        assert_eq!(values, [Some(-2.0), Some(0.5), Some(1.0), None]);
        assert_eq!(options.count("c", None, 1).unwrap(), 1);
        assert_eq!(options.count("d", Some(7), 1).unwrap(), 7);
        let error = options.count("a", None, 100).unwrap_err().to_string();
        assert!(error.starts_with("option a is out of range"), "{error}");
        assert!(options.float("d").is_err());
    }

    #[test]
    fn damaged_options_are_errors() {
        for length in 0..BYTES.len() {
            let _ = Options::parse(&BYTES[..length]);
        }
        for at in 0..BYTES.len() {
            for value in 0..=255 {
                let mut bytes = BYTES.to_vec();
                bytes[at] = value;
                let _ = Options::parse(&bytes);
            }
        }
        let error = Options::parse(&[1, 4, 1]).unwrap_err().to_string();
        assert!(error.contains("the options of the custom operator are damaged"));
    }
}
