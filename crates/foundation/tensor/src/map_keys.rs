//! Maps as tensors: a map with known keys is a row with a column for each key, a sequence of such maps a matrix.

use std::collections::BTreeMap;
use std::fmt;
use tenon_base::{Error, ErrorKind, Location, Result};

/// The prefix of the metadata keys with the keys of a map; the name of the input or output follows (docs/package.md).
const METADATA: &str = "tenon.keys.";

/// The most problems that are listed.
const PROBLEMS: usize = 16;

/// The keys of the columns of an input or output that is a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapKeys {
    list: KeyList,
    /// The columns in the order of their keys, for binary search.
    sorted: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyList {
    Strings(Vec<String>),
    Ints(Vec<i64>),
}

/// A key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey<'a> {
    /// A string.
    String(&'a str),
    /// An integer.
    Int(i64),
}

impl MapKeys {
    /// The metadata key of the keys of an input or output.
    pub fn metadata_key(name: &str) -> String {
        format!("{METADATA}{name}")
    }

    /// The inputs and outputs that are maps, by name, from the metadata of a model.
    ///
    /// # Errors
    /// Values that are not lists of different strings or integers.
    pub fn of_metadata(metadata: &BTreeMap<String, String>) -> Result<BTreeMap<String, Self>> {
        let mut maps = BTreeMap::new();
        let mut problems = Vec::new();
        let named = metadata.range(METADATA.to_owned()..);
        for (key, text) in named {
            let Some(name) = key.strip_prefix(METADATA) else {
                break;
            };
            match Self::parse(text) {
                Ok(keys) => {
                    maps.insert(name.to_owned(), keys);
                }
                Err(error) => {
                    problems.push(error.at(Location::field(format!("metadata '{key}'"))));
                }
            }
        }
        Error::from_all(problems).map_or(Ok(maps), Err)
    }

    /// Reads the text form, a JSON list of strings or integers.
    ///
    /// # Errors
    /// Another text, and keys that are given twice.
    pub fn parse(text: &str) -> Result<Self> {
        if let Ok(strings) = serde_json::from_str(text) {
            return Self::strings(strings);
        }
        if let Ok(ints) = serde_json::from_str(text) {
            return Self::ints(ints);
        }
        let error = invalid("the keys of a map are no list of strings or integers");
        Err(error.expected("JSON such as [\"a\", \"b\"] or [0, 1]"))
    }

    /// Keys that are strings.
    ///
    /// # Errors
    /// Keys that are given twice, up to a limit.
    pub fn strings(keys: Vec<String>) -> Result<Self> {
        Self::new(KeyList::Strings(keys))
    }

    /// Keys that are integers.
    ///
    /// # Errors
    /// As [`Self::strings`].
    pub fn ints(keys: Vec<i64>) -> Result<Self> {
        Self::new(KeyList::Ints(keys))
    }

    fn new(list: KeyList) -> Result<Self> {
        let mut sorted: Vec<usize> = (0..list.len()).collect();
        // The sort is stable: equal keys stay in the order of their columns.
        sorted.sort_by(|&a, &b| list.key(a).cmp(&list.key(b)));
        let pairs = sorted.windows(2).map(|pair| (pair[0], pair[1]));
        let repeated = pairs.filter(|&(a, b)| list.key(a) == list.key(b));
        let error = |(a, b)| {
            invalid(format!(
                "elements {a} and {b} are the same key {}",
                list.key(a)
            ))
        };
        let problems: Vec<Error> = repeated.take(PROBLEMS).map(error).collect();
        Error::from_all(problems).map_or(Ok(Self { list, sorted }), Err)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The keys in the order of the columns.
    pub fn iter(&self) -> impl Iterator<Item = MapKey<'_>> {
        (0..self.len()).map(|column| self.list.key(column))
    }

    /// The column of a key.
    pub fn column(&self, key: MapKey<'_>) -> Option<usize> {
        let found = self
            .sorted
            .binary_search_by(|&at| self.list.key(at).cmp(&key));
        found.ok().map(|at| self.sorted[at])
    }
}

impl KeyList {
    fn len(&self) -> usize {
        match self {
            Self::Strings(keys) => keys.len(),
            Self::Ints(keys) => keys.len(),
        }
    }

    fn key(&self, column: usize) -> MapKey<'_> {
        match self {
            Self::Strings(keys) => MapKey::String(&keys[column]),
            Self::Ints(keys) => MapKey::Int(keys[column]),
        }
    }
}

impl fmt::Display for MapKeys {
    /// The text form that [`MapKeys::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.list {
            KeyList::Strings(keys) => serde_json::to_string(keys),
            KeyList::Ints(keys) => serde_json::to_string(keys),
        };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for MapKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(key) => write!(f, "{key:?}"),
            Self::Int(key) => write!(f, "{key}"),
        }
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_read_back() {
        let strings = MapKeys::strings(vec!["a \"b\"".into(), String::new(), "ü\n".into()]);
        let ints = MapKeys::ints(vec![3, -1, i64::MIN]);
        for keys in [strings.unwrap(), ints.unwrap()] {
            assert_eq!(MapKeys::parse(&keys.to_string()).unwrap(), keys);
        }
        assert_eq!(MapKeys::parse("[]").unwrap().len(), 0);
    }

    #[test]
    fn other_texts_are_refused_with_their_entry() {
        let entries = [
            ("tenon.keys.a", r#"["x", 1]"#),
            ("tenon.keys.b", "[1.5]"),
            ("tenon.keys.c", "[7, 8, 7]"),
            ("tenon.keys.d", "[7]"),
            ("tenon.labels", "x"),
        ];
        let metadata = entries.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let error = MapKeys::of_metadata(&metadata.into()).unwrap_err();
        let text = error.to_string();
        for name in ["tenon.keys.a", "tenon.keys.b"] {
            assert!(
                text.contains(&format!("metadata '{name}': the keys of a map")),
                "{text}"
            );
        }
        assert!(
            text.contains("metadata 'tenon.keys.c': elements 0 and 2 are the same key 7"),
            "{text}"
        );
        assert!(!text.contains("tenon.keys.d"), "{text}");
    }

    #[test]
    fn a_key_has_its_column() {
        let keys = MapKeys::strings(vec!["c".into(), "a".into(), "b".into()]).unwrap();
        assert_eq!(keys.column(MapKey::String("b")), Some(2));
        assert_eq!(keys.column(MapKey::String("d")), None);
        assert_eq!(keys.column(MapKey::Int(0)), None);
    }
}
