//! Encoding and decoding of source locations (bef 1.7).

use super::budget::Budget;
use super::strings::StringsReader;
use super::wire::{Reader, Writer, short_vbr};
use crate::{KernelLocation, MAX_LOCATION_NESTING};
use std::collections::HashMap;
use tenon_base::Result;

const UNKNOWN: u8 = 0;
const FILE_LINE_COL: u8 = 1;
const NAME: u8 = 2;
const CALL_SITE: u8 = 3;
const FUSED: u8 = 4;

/// The Locations and LocationStrings sections under construction.
#[derive(Debug, Default)]
pub(crate) struct LocationWriter {
    pub(crate) locations: Writer,
    pub(crate) strings: Vec<u8>,
    string_offsets: HashMap<String, u64>,
}

impl LocationWriter {
    /// Appends a record, without sharing equal ones: programs depend on distinct offsets.
    pub(crate) fn add(&mut self, location: &KernelLocation) -> u64 {
        let mut locations = std::mem::take(&mut self.locations);
        let offset = locations.position() as u64;
        self.write_to(&mut locations, location);
        self.locations = locations;
        offset
    }

    /// Writes a record to another section.
    pub(crate) fn write_to(&mut self, out: &mut Writer, location: &KernelLocation) {
        match location {
            KernelLocation::Unknown => out.byte(UNKNOWN),
            KernelLocation::FileLineCol { file, line, column } => {
                let file = self.string(file);
                out.byte(FILE_LINE_COL);
                out.vbr(file);
                out.vbr((*line).into());
                out.vbr((*column).into());
            }
            KernelLocation::Name { name, child } => {
                let name = self.string(name);
                out.byte(NAME);
                out.vbr(name);
                self.write_to(out, child);
            }
            KernelLocation::CallSite { callee, caller } => {
                out.byte(CALL_SITE);
                self.write_to(out, callee);
                self.write_to(out, caller);
            }
            KernelLocation::Fused(parts) => {
                out.byte(FUSED);
                out.vbr(parts.len() as u64);
                parts.iter().for_each(|part| self.write_to(out, part));
            }
        }
    }

    fn string(&mut self, text: &str) -> u64 {
        if let Some(offset) = self.string_offsets.get(text) {
            return *offset;
        }
        let offset = self.strings.len() as u64;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        self.string_offsets.insert(text.to_owned(), offset);
        offset
    }
}

/// Reads records of the Locations section.
#[derive(Debug)]
pub(crate) struct LocationReader<'a> {
    pub(crate) locations: Reader<'a>,
    pub(crate) strings: StringsReader<'a>,
}

impl<'a> LocationReader<'a> {
    /// Sets `to`, which is unknown before, to the location at `offset`; an offset after the section
    /// means no location.
    #[inline(always)]
    pub(crate) fn location(
        &mut self,
        offset: u64,
        budget: &mut Budget,
        to: &mut KernelLocation,
    ) -> Result<()> {
        let record = (usize::try_from(offset).ok())
            .and_then(|offset| self.locations.ahead().get(offset..))
            .unwrap_or_default();
        match record {
            [UNKNOWN, ..] | [] => {}
            [FILE_LINE_COL, place @ ..]
                if let Some((file, line, column)) = short_position(place)
                    && let Some(file) = self.strings.known(file) =>
            {
                *to = KernelLocation::FileLineCol {
                    file: file.clone(),
                    line,
                    column,
                };
            }
            _ => *to = self.long_location(offset, budget)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn long_location(&mut self, offset: u64, budget: &mut Budget) -> Result<KernelLocation> {
        self.record(&mut self.locations.at(offset)?, budget)
    }

    /// Decodes the location at `record`.
    pub(crate) fn record(
        &mut self,
        record: &mut Reader<'a>,
        budget: &mut Budget,
    ) -> Result<KernelLocation> {
        self.read(record, budget, 0)
    }

    fn read(
        &mut self,
        record: &mut Reader<'a>,
        budget: &mut Budget,
        depth: usize,
    ) -> Result<KernelLocation> {
        // The outermost location is part of the function or kernel, which is charged already.
        if depth > 0 {
            budget.spend_on::<KernelLocation>(1, 0)?;
        }
        if depth > MAX_LOCATION_NESTING {
            return Err(record.error(format!(
                "a location is nested deeper than {MAX_LOCATION_NESTING}"
            )));
        }
        let start = record.position();
        Ok(match record.byte()? {
            UNKNOWN => KernelLocation::Unknown,
            FILE_LINE_COL => KernelLocation::FileLineCol {
                file: self.strings.text(record.vbr()?, budget)?,
                line: record.vbr32()?,
                column: record.vbr32()?,
            },
            NAME => {
                let name = record.vbr()?;
                let child = Box::new(self.read(record, budget, depth + 1)?);
                KernelLocation::Name {
                    name: self.strings.text(name, budget)?,
                    child,
                }
            }
            CALL_SITE => KernelLocation::CallSite {
                callee: Box::new(self.read(record, budget, depth + 1)?),
                caller: Box::new(self.read(record, budget, depth + 1)?),
            },
            FUSED => {
                let count = record.count(1)?;
                KernelLocation::Fused(
                    (0..count)
                        .map(|_| self.read(record, budget, depth + 1))
                        .collect::<Result<Vec<_>>>()?,
                )
            }
            kind => {
                let error = record
                    .at(start as u64)?
                    .error("a location of an unknown kind");
                return Err(error.found(kind));
            }
        })
    }
}

/// The offset of a file's name, a line and a column, if each takes at most three bytes.
#[inline(always)]
fn short_position(bytes: &[u8]) -> Option<(u64, u32, u32)> {
    let (file, length) = short_vbr(bytes)?;
    let bytes = bytes.get(length..)?;
    let (line, length) = short_vbr(bytes)?;
    let (column, _) = short_vbr(bytes.get(length..)?)?;
    Some((file, line as u32, column as u32))
}
