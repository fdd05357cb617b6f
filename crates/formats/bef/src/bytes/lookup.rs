//! The lookup tables of a file: names of functions and kernels, types, attributes.

use super::budget::Budget;
use super::index::{Entry, Index};
use super::section::{SectionId, Sections};
use super::strings::StringsReader;
use super::wire::Reader;
use crate::Name;
use crate::syntax::is_type;
use tenon_base::{Error, Result};

/// Maximum number of problems; decoding ends there.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// The tables of a file, read with the first function.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// The name of every function; that of a region is empty.
    pub(crate) functions: Vec<Name>,
    pub(crate) kernels: Vec<Name>,
    pub(crate) types: Vec<Name>,
    /// Offset and type code of every attribute, by offset; `None` without the section.
    pub(crate) attributes: Option<Vec<(u32, u8)>>,
}

impl Lookup {
    /// Reads and checks all tables.
    pub(crate) fn read(
        sections: &Sections,
        bytes: &[u8],
        index: &Index,
        budget: &mut Budget,
    ) -> Result<Self> {
        let mut tables = TableReader {
            strings: StringsReader::new(sections.reader(SectionId::Strings, bytes)),
            budget,
            problems: Vec::new(),
        };
        let this = Self {
            functions: tables.function_names(&index.entries)?,
            kernels: tables.kernel_names(sections.reader(SectionId::Kernels, bytes))?,
            types: tables.types(sections.reader(SectionId::Types, bytes))?,
            attributes: match sections.optional(SectionId::AttributeTypes, bytes) {
                Some(reader) => Some(tables.attribute_types(reader)?),
                None => None,
            },
        };
        Error::from_all(tables.problems).map_or(Ok(this), Err)
    }
}

struct TableReader<'s, 'a> {
    strings: StringsReader<'a>,
    budget: &'s mut Budget,
    problems: Vec<Error>,
}

impl<'a> TableReader<'_, 'a> {
    fn function_names(&mut self, entries: &[Entry]) -> Result<Vec<Name>> {
        self.budget.spend_on::<Name>(entries.len(), 0)?;
        let names = entries.iter().map(|entry| self.text(entry.name));
        Ok(names.collect())
    }

    fn kernel_names(&mut self, mut reader: Reader<'a>) -> Result<Vec<Name>> {
        self.table(&mut reader, |name| {
            name.is_empty().then_some("a kernel without a name")
        })
    }

    fn types(&mut self, mut reader: Reader<'a>) -> Result<Vec<Name>> {
        self.table(&mut reader, |r#type| {
            (!is_type(r#type)).then_some("a type that is none")
        })
    }

    /// A table of string offsets, each checked.
    fn table(
        &mut self,
        reader: &mut Reader<'a>,
        problem: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Vec<Name>> {
        let count = reader.count(1)?;
        self.budget.spend_on::<Name>(count, 0)?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let start = *reader;
            let found = self.problems.len();
            let name = self.text(reader.vbr()?);
            if found == self.problems.len()
                && let Some(problem) = problem(&name)
            {
                let name = name.escape_debug();
                self.report(start.error(problem).found(format!("'{name}'")));
            }
            names.push(name);
        }
        Ok(names)
    }

    /// The entries of AttributeTypes, sorted by offset. Of duplicate offsets the first is valid.
    fn attribute_types(&mut self, mut reader: Reader<'a>) -> Result<Vec<(u32, u8)>> {
        let count = reader.count(2)?;
        self.budget.spend_on::<(u32, u8)>(count, 0)?;
        let mut types = Vec::with_capacity(count);
        for _ in 0..count {
            let offset = reader.vbr32()?;
            let start = reader;
            match u8::try_from(reader.vbr()?) {
                Ok(code) => types.push((offset, code)),
                Err(_) => self.report(start.error("an attribute type of more than 8 bits")),
            }
        }
        types.sort_by_key(|(offset, _)| *offset);
        types.dedup_by_key(|(offset, _)| *offset);
        Ok(types)
    }

    /// A string; empty if malformed.
    fn text(&mut self, offset: u64) -> Name {
        match self.strings.text(offset, self.budget) {
            Ok(name) => name,
            Err(error) => {
                self.report(error);
                Name::default()
            }
        }
    }

    fn report(&mut self, problem: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}
