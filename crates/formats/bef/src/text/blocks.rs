//! Parsing of blocks: operations up to the return, with error recovery.

use super::parser::Parser;
use crate::syntax::Cursor;
use crate::{Function, FunctionKind, KernelLocation, Name, RegisterId};
use tenon_base::Result;

/// The return of a block.
#[derive(Debug)]
pub(crate) struct BlockReturn<'a> {
    /// `None` if the return is malformed.
    pub(crate) registers: Option<Vec<RegisterId>>,
    pub(crate) place: Cursor<'a>,
    pub(crate) location: KernelLocation,
}

impl<'a> Parser<'a> {
    /// Operations up to the `}` after `tfrt.return`, which is not consumed.
    pub(crate) fn block(&mut self) -> Result<BlockReturn<'a>> {
        let depth = self.scopes.len();
        let mut returned: Option<BlockReturn<'a>> = None;
        let (mut last, mut failed) = (None, false);
        loop {
            self.cursor.skip();
            let start = self.cursor;
            if self.cursor.sees("}") {
                // After malformed operations, the return may have been skipped.
                let place: Cursor<'a> = last.unwrap_or(start);
                let unknown = failed.then_some(BlockReturn {
                    registers: None,
                    place,
                    location: KernelLocation::Unknown,
                });
                let missing = || place.error("all functions need to have a tfrt.return");
                return returned.or(unknown).ok_or_else(missing);
            }
            if self.cursor.sees("^") {
                return Err(start.error("multi-block regions cannot be emitted to BEF files"));
            }
            if self.cursor.at_end() {
                return Err(start.error("expected '}'"));
            }
            if let Some(BlockReturn { place, .. }) = returned.take() {
                self.report(place.error("return op must be at the end of its block"));
            }
            last = Some(start);
            match self.operation(start) {
                Ok(found) => returned = found,
                Err(error) => {
                    self.report_unless_silent(error);
                    self.scopes.truncate(depth);
                    failed = true;
                    self.recover(start)?;
                }
            }
        }
    }

    /// Error recovery: skips to the next operation of the block.
    fn recover(&mut self, start: Cursor<'a>) -> Result<()> {
        let reached = start.position() + self.cursor.since(start.position()).trim_end().len();
        self.cursor = start;
        let mut open = 0usize;
        loop {
            let rest = self.cursor.rest();
            match rest.as_bytes() {
                [] => break,
                [b'"', ..] => {
                    // An unterminated string ends at the end of its line.
                    if self.cursor.string().is_err() {
                        self.cursor.take_while(|c| c != '\n');
                    }
                    continue;
                }
                [b'/', b'/', ..] => {
                    self.cursor.take_while(|c| c != '\n');
                    continue;
                }
                [b'{', ..] => open += 1,
                [b'}', ..] if open == 0 => break,
                [b'}', ..] => open -= 1,
                [b'\n', ..] if open == 0 && self.cursor.position() >= reached => {
                    let mut next = self.cursor;
                    next.skip();
                    if starts_operation(next.rest()) {
                        break;
                    }
                }
                _ => {}
            }
            let length = rest.chars().next().map_or(1, char::len_utf8);
            self.cursor = self.cursor.at(self.cursor.position() + length);
        }
        self.stop_at_error_limit()
    }

    /// The operands of `tfrt.return`, and its position.
    pub(crate) fn r#return(&mut self, quoted: bool, start: Cursor<'a>) -> Result<BlockReturn<'a>> {
        let (mut uses, mut types) = (Vec::new(), Vec::new());
        if quoted {
            uses = self.cursor.parenthesized_uses()?;
            self.cursor.expect(":")?;
            types = self.cursor.function_type()?.0;
        } else if self.cursor.sees("%") {
            uses = self.cursor.some(Cursor::value_use)?;
            self.cursor.expect(":")?;
            types = self.cursor.some(Cursor::r#type)?;
        }
        let registers = self.resolve_uses(&uses, &types)?;
        let implicit = self.implicit_location(start);
        let location = self.locations.optional(&mut self.cursor)?;
        Ok(BlockReturn {
            registers: Some(registers),
            place: start,
            location: location.unwrap_or(implicit),
        })
    }

    /// Checks the returned types of a function at its return.
    pub(crate) fn check_results(&mut self, function: &Function, place: Cursor<'a>) {
        let (found, expected) = (function.results.len(), function.result_types.len());
        if found != expected {
            let message = format!(
                "'tfrt.return' op has {found} operands, but enclosing function returns {expected}"
            );
            return self.report(place.error(message));
        }
        let pairs = function.results.iter().zip(&function.result_types);
        for (index, (register, expected)) in pairs.enumerate() {
            let found = function.registers.get(register.0 as usize);
            let found = found.map_or("none", Name::as_str);
            if found != expected {
                self.report(place.error(format!(
                    "type of return operand {index} ('{found}') doesn't match function result \
                     type ('{expected}')"
                )));
            }
        }
        if function.kind == FunctionKind::Sync && self.purpose.is_bef() {
            self.check_sync_results(function, place);
        }
    }

    /// A sync function moves its results out, so each result must be a distinct register
    /// (bef 2.7).
    fn check_sync_results(&mut self, function: &Function, place: Cursor<'a>) {
        let mut seen = std::collections::HashSet::new();
        for (index, register) in function.results.iter().enumerate() {
            let problem = if register.0 < function.arguments {
                "an argument"
            } else if !seen.insert(register) {
                "duplicated"
            } else {
                continue;
            };
            self.report(place.error(format!(
                "return value {index} is {problem} in a sync function"
            )));
        }
    }
}

/// Whether a line starts like an operation: `%r = `, `ns.op`, `"ns.op"` or the end.
fn starts_operation(line: &str) -> bool {
    let line = line.lines().next().unwrap_or_default();
    if line.starts_with('%') {
        let names = |c: char| c.is_ascii_alphanumeric() || "%_$.-:, ".contains(c);
        return line.trim_start_matches(names).starts_with('=');
    }
    let word = line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_$.".contains(c));
    let word = &line[..line.len() - word.len()];
    line.is_empty() || line.starts_with(['"', '}', '^']) || word.contains('.')
}
