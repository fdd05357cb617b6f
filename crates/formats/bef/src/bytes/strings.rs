//! Sections of NUL-terminated strings (bef 1.5).

use super::budget::Budget;
use super::wire::Reader;
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

    /// The bytes, and the offset of each string.
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

/// The offset of each string of a finished section.
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

/// Number of cached strings.
const SLOTS: usize = 64;

/// Reads a section of strings. A direct-mapped cache of recent strings lets references to one
/// string share it.
#[derive(Debug)]
pub(crate) struct StringsReader<'a> {
    reader: Reader<'a>,
    /// The cache: offset and string of each slot.
    slots: Vec<(u64, Name)>,
}

impl<'a> StringsReader<'a> {
    pub(crate) fn new(reader: Reader<'a>) -> Self {
        Self {
            reader,
            // Empty slots: an offset that maps to the next slot.
            slots: (1..)
                .map(|offset| (offset, Name::default()))
                .take(SLOTS)
                .collect(),
        }
    }

    /// The string at `offset`.
    #[inline]
    pub(crate) fn text(&mut self, offset: u64, budget: &mut Budget) -> Result<Name> {
        match self.known(offset) {
            Some(name) => Ok(name.clone()),
            None => self.new_text(offset, budget),
        }
    }

    /// The string at `offset`, if cached.
    #[inline(always)]
    pub(crate) fn known(&self, offset: u64) -> Option<&Name> {
        let (at, name) = &self.slots[slot(offset)];
        (*at == offset).then_some(name)
    }

    /// Decodes the string at `offset`, charges it to the budget and caches it.
    #[inline(never)]
    fn new_text(&mut self, offset: u64, budget: &mut Budget) -> Result<Name> {
        let at = self.reader.at(offset)?;
        let rest = at.ahead();
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return Err(at.error("an unterminated string"));
        };
        budget.spend_on::<Name>(1, length)?;
        let name: Name = match std::str::from_utf8(&rest[..length]) {
            Ok(text) => text.into(),
            Err(error) => return Err(at.error("a string that is not UTF-8").source(error)),
        };
        self.slots[slot(offset)] = (offset, name.clone());
        Ok(name)
    }
}

/// The slot of an offset: its low bits, since offsets of strings differ by few bytes.
fn slot(offset: u64) -> usize {
    (offset ^ (offset >> 6)) as usize % SLOTS
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
        let mut strings = StringsReader::new(Reader::new("Strings", 0, &bytes));
        let mut budget = Budget::for_file(bytes.len());
        assert_eq!(strings.text(1, &mut budget).unwrap(), "a");
        assert_eq!(strings.text(0, &mut budget).unwrap(), "");
        assert!(
            strings
                .text(5, &mut budget)
                .unwrap_err()
                .to_string()
                .contains("unterminated")
        );
        assert!(strings.text(6, &mut budget).is_err());
    }
}
