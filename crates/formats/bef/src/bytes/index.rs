//! The function index (bef 1.5): the signatures of functions.

use super::budget::Budget;
use super::section::{SectionId, Sections};
use super::wire::Reader;
use crate::FunctionKind;
use std::ops::Range;
use tenon_base::{Error, Result};

/// An entry of the function index; names and types are offsets and indices.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: FunctionKind,
    /// Range of its body in the Functions section: up to the offset of the next function. Empty for
    /// a native function.
    pub(crate) body: Range<usize>,
    /// Offset of its name in the Strings section.
    pub(crate) name: u64,
    /// Its argument types, as a range of [`Index::types`].
    arguments: Range<usize>,
    results: Range<usize>,
    /// Position of the entry in the file.
    pub(crate) place: u64,
}

/// All entries.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    /// Indexes into the Types table.
    types: Vec<u32>,
}

impl Index {
    /// Reads the section; no other section is accessed.
    pub(crate) fn read(sections: &Sections, bytes: &[u8], budget: &mut Budget) -> Result<Self> {
        let mut reader = sections.reader(SectionId::FunctionIndex, bytes);
        let functions = sections.reader(SectionId::Functions, bytes);
        // Kind, offset, name and two counts: at least five bytes.
        let count = reader.count(5)?;
        budget.spend_on::<Entry>(count, 0)?;
        let mut this = Self {
            entries: Vec::with_capacity(count),
            types: Vec::new(),
        };
        let mut problems = Vec::new();
        for _ in 0..count {
            let start = reader;
            let kind = reader.byte()?;
            let kind = kind_of(kind).ok_or_else(|| {
                let error = start.error("a function of an unknown kind");
                error.expected("0, 1 or 2").found(kind)
            })?;
            let offset = reader.vbr()?;
            let name = reader.vbr()?;
            let arguments = this.type_list(&mut reader, budget)?;
            let results = this.type_list(&mut reader, budget)?;
            // Also checked for native functions, although they have no body.
            let body = match functions.at(offset) {
                Ok(body) => body.position(),
                Err(error) => {
                    problems.push(error);
                    0
                }
            };
            this.entries.push(Entry {
                kind,
                body: body..functions.remaining(),
                name,
                arguments,
                results,
                place: start.offset(),
            });
        }
        problems.extend(this.cut_bodies(&reader));
        Error::from_all(problems).map_or(Ok(this), Err)
    }

    fn type_list(&mut self, reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Range<usize>> {
        let count = reader.count(1)?;
        budget.spend_on::<u32>(count, 0)?;
        let start = self.types.len();
        for _ in 0..count {
            self.types.push(reader.vbr32()?);
        }
        Ok(start..self.types.len())
    }

    /// Limits every body to the start of the next one, so that no bytes are decoded twice.
    fn cut_bodies(&mut self, reader: &Reader<'_>) -> Vec<Error> {
        let mut order: Vec<usize> = (0..self.entries.len())
            .filter(|id| self.entries[*id].kind != FunctionKind::Native)
            .collect();
        order.sort_by_key(|id| self.entries[*id].body.start);
        let mut problems = Vec::new();
        for pair in order.windows(2) {
            let &[one, two] = pair else { continue };
            let end = self.entries[two].body.start;
            if self.entries[one].body.start == end {
                let error = reader.error("two functions with the same body");
                problems.push(error.found(format!("functions {one} and {two}, both at {end}")));
            }
            self.entries[one].body.end = end;
        }
        problems
    }

    /// The types of a function's arguments, as indexes into the Types table.
    pub(crate) fn argument_types(&self, entry: &Entry) -> &[u32] {
        &self.types[entry.arguments.clone()]
    }

    /// The types of a function's results, as indexes into the Types table.
    pub(crate) fn result_types(&self, entry: &Entry) -> &[u32] {
        &self.types[entry.results.clone()]
    }
}

fn kind_of(byte: u8) -> Option<FunctionKind> {
    match byte {
        0 => Some(FunctionKind::Async),
        1 => Some(FunctionKind::Native),
        2 => Some(FunctionKind::Sync),
        _ => None,
    }
}
