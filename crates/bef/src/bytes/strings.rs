//! Sections of NUL-terminated strings (facts 1.5).

use super::wire::{Budget, Reader};
use crate::Name;
use std::collections::{BTreeSet, HashMap};
use tenon_base::{Error, ErrorKind, Result};

/// The Strings section under construction: a set, sorted by bytes.
#[derive(Debug, Default)]
pub(crate) struct StringSet<'a>(BTreeSet<&'a str>);

impl<'a> StringSet<'a> {
    pub(crate) fn add(&mut self, text: &'a str) {
        self.0.insert(text);
    }

    /// The bytes, and where each string stands.
    pub(crate) fn finish(self) -> (Vec<u8>, StringOffsets<'a>) {
        let mut bytes = Vec::new();
        let mut offsets = HashMap::with_capacity(self.0.len());
        for text in self.0 {
            offsets.insert(text, bytes.len() as u64);
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        (bytes, StringOffsets(offsets))
    }
}

/// Where each string of a finished section stands.
#[derive(Debug)]
pub(crate) struct StringOffsets<'a>(HashMap<&'a str, u64>);

impl StringOffsets<'_> {
    pub(crate) fn of(&self, text: &str) -> Result<u64> {
        self.0.get(text).copied().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("string '{text}' was not collected"),
            )
        })
    }
}

/// Reads a section of strings. The ends are found once, so that many offsets into one long string
/// do not each scan it.
#[derive(Debug)]
pub(crate) struct StringsReader<'a> {
    reader: Reader<'a>,
    bytes: &'a [u8],
    ends: Vec<usize>,
}

impl<'a> StringsReader<'a> {
    pub(crate) fn new(mut reader: Reader<'a>) -> Result<Self> {
        let start = reader;
        let bytes = reader.take(reader.remaining())?;
        let ends = (0..bytes.len()).filter(|i| bytes[*i] == 0).collect();
        Ok(Self {
            reader: start,
            bytes,
            ends,
        })
    }

    /// The string at `offset`, owned and paid for.
    pub(crate) fn text(&self, offset: u64, budget: &mut Budget) -> Result<Name> {
        let at = self.reader.at(offset)?;
        let start = at.position();
        let end = self.ends.get(self.ends.partition_point(|end| *end < start));
        let Some(bytes) = end.and_then(|end| self.bytes.get(start..*end)) else {
            return Err(at.error("a string without an end"));
        };
        budget.spend_on::<String>(1, bytes.len())?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(at.error("a string that is not UTF-8").source(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_sorted_and_found_again() {
        let mut set = StringSet::default();
        ["b", "a", "", "b"]
            .into_iter()
            .for_each(|text| set.add(text));
        let (bytes, offsets) = set.finish();
        assert_eq!(bytes, b"\0a\0b\0");
        assert_eq!(offsets.of("b").unwrap(), 3);
        let strings = StringsReader::new(Reader::new("Strings", 0, &bytes)).unwrap();
        let mut budget = Budget::for_file(bytes.len());
        assert_eq!(strings.text(1, &mut budget).unwrap(), "a");
        assert_eq!(strings.text(0, &mut budget).unwrap(), "");
        assert!(
            strings
                .text(5, &mut budget)
                .unwrap_err()
                .to_string()
                .contains("without an end")
        );
        assert!(strings.text(6, &mut budget).is_err());
    }
}
