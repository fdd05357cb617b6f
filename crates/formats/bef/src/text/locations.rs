//! Parsing of source locations, and positions in the text as locations.

use crate::syntax::{Cursor, Source};
use crate::{KernelLocation, MAX_LOCATION_NESTING};
use std::collections::HashMap;
use tenon_base::Result;

/// Aliases of locations (`#loc0 = loc(..)`), which may follow their uses.
#[derive(Debug, Default)]
pub(crate) struct LocationAliases<'a> {
    definitions: HashMap<&'a str, Cursor<'a>>,
    /// Remaining parts of locations: nested aliases grow exponentially when expanded.
    left: usize,
    /// Start offsets of the lines.
    lines: Vec<usize>,
    first_line: u32,
}

impl<'a> LocationAliases<'a> {
    /// Collects the definitions: lines that start with `#NAME = loc`.
    pub(crate) fn scan(source: Source<'a>) -> Self {
        let mut definitions = HashMap::new();
        let mut lines = Vec::new();
        let mut position = 0;
        for line in source.text.split_inclusive('\n') {
            lines.push(position);
            let mut cursor = Cursor::new(source).at(position);
            position += line.len();
            if !line.starts_with('#') {
                continue;
            }
            if let Ok(name) = cursor.sigil('#')
                && cursor.eat("=")
                && cursor.sees("loc")
            {
                definitions.entry(name).or_insert(cursor);
            }
        }
        Self {
            definitions,
            left: source.text.len().saturating_add(1 << 12),
            lines,
            first_line: source.first_line,
        }
    }

    /// Line and column of a byte offset, both from 1; columns count bytes.
    pub(crate) fn line_column(&self, position: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= position);
        let start = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let to_u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (
            to_u32(line.saturating_sub(1)).saturating_add(self.first_line),
            to_u32(position - start + 1),
        )
    }

    /// Consumes `loc(..)`, if it is next.
    pub(crate) fn optional(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<KernelLocation>> {
        if !cursor.eat_word("loc") {
            return Ok(None);
        }
        cursor.expect("(")?;
        let location = self.inside(cursor, 0)?;
        cursor.expect(")")?;
        Ok(Some(location))
    }

    fn inside(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<KernelLocation> {
        if depth > MAX_LOCATION_NESTING {
            let message = format!("locations are nested deeper than {MAX_LOCATION_NESTING}");
            return Err(cursor.error(message));
        }
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return Err(cursor.error("location aliases expand to too many locations")),
        };
        if cursor.sees("\"") {
            return self.name_or_file(cursor, depth);
        }
        if cursor.sees("#") {
            return self.alias(cursor, depth);
        }
        let start = *cursor;
        match cursor.word() {
            Some("unknown") => Ok(KernelLocation::Unknown),
            Some("callsite") => {
                cursor.expect("(")?;
                let callee = Box::new(self.inside(cursor, depth + 1)?);
                if !cursor.eat_word("at") {
                    return Err(cursor.error("expected 'at'"));
                }
                let caller = Box::new(self.inside(cursor, depth + 1)?);
                cursor.expect(")")?;
                Ok(KernelLocation::CallSite { callee, caller })
            }
            Some("fused") => {
                cursor.expect("[")?;
                let parts = cursor.list("]", |cursor| self.inside(cursor, depth + 1))?;
                cursor.expect("]")?;
                Ok(KernelLocation::Fused(parts))
            }
            _ => Err(start.error("expected a location")),
        }
    }

    fn name_or_file(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<KernelLocation> {
        let start = *cursor;
        let text = cursor.string()?;
        if text.contains('\0') {
            return Err(start.error("a location with a NUL character"));
        }
        if cursor.eat(":") {
            let line = line_number(cursor)?;
            cursor.expect(":")?;
            let column = line_number(cursor)?;
            return Ok(KernelLocation::FileLineCol {
                file: text.into(),
                line,
                column,
            });
        }
        let child = if cursor.eat("(") {
            let child = self.inside(cursor, depth + 1)?;
            cursor.expect(")")?;
            child
        } else {
            KernelLocation::Unknown
        };
        Ok(KernelLocation::Name {
            name: text.into(),
            child: Box::new(child),
        })
    }

    fn alias(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<KernelLocation> {
        let start = *cursor;
        let name = cursor.sigil('#')?;
        let Some(mut definition) = self.definitions.get(name).copied() else {
            return Err(start.error(format!(
                "operation location alias '#{name}' was never defined"
            )));
        };
        definition.expect("loc")?;
        definition.expect("(")?;
        let location = self.inside(&mut definition, depth + 1)?;
        definition.expect(")")?;
        Ok(location)
    }
}

fn line_number(cursor: &mut Cursor<'_>) -> Result<u32> {
    cursor.skip();
    let start = *cursor;
    let digits = cursor.take_while(|c| c.is_ascii_digit());
    digits
        .parse()
        .map_err(|_| start.error("expected a line or column number"))
}
