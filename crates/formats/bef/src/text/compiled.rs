//! Compiled modules: MLIR of any dialect that a Module contains as text (bef 1.4, 4.4).
//!
//! A Module stores them in the generic form and prints them in the custom form. A compiled module
//! that contains an unknown custom form is left unchanged.

use super::foreign::operation;
use super::print_foreign::print_operation;
use crate::Name;
use crate::syntax::Cursor;
use std::collections::HashMap;
use tenon_base::Result;

/// The generic form of every compiled module, by name.
pub(crate) type CompiledModules = HashMap<String, Name>;

/// Maximum number of candidates that are no compiled modules before the search ends, so that it is
/// linear in the text.
const MAX_FAILURES: usize = 16;

/// Collects the compiled modules of a text before parsing: symbols may precede them.
pub(crate) fn find_compiled(mut cursor: Cursor<'_>) -> CompiledModules {
    let mut modules = HashMap::new();
    let mut failures = 0;
    while let Some(found) = cursor.rest().find("module")
        && failures < MAX_FAILURES
    {
        let generic = cursor.rest()[..found].ends_with("\"builtin.");
        let start = cursor.position() + found - if generic { "\"builtin.".len() } else { 0 };
        let mut ahead = cursor.at(start);
        match compiled_module(&mut ahead) {
            Ok(Some(name)) => {
                let entry = modules.entry(name);
                entry.or_insert_with(|| generic_form(ahead.since(start)).into());
                cursor = ahead;
                continue;
            }
            // Malformed modules are reported when they are parsed.
            Err(_) => failures += 1,
            Ok(None) => failures += usize::from(generic),
        }
        cursor = cursor.at(cursor.position() + found + "module".len());
    }
    modules
}

/// Consumes a compiled module, if one is next, and returns its name: `module @NAME attributes
/// {tfrt.compiled} { .. }` or the generic form of `builtin.module`.
pub(crate) fn compiled_module(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    let mut ahead = *cursor;
    let name = if ahead.sees("\"builtin.module\"") {
        generic_module(&mut ahead)?
    } else {
        custom_module(&mut ahead)?
    };
    if name.is_some() {
        *cursor = ahead;
    }
    Ok(name)
}

fn custom_module(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if !cursor.eat_word("module") || !cursor.sees("@") {
        return Ok(None);
    }
    let name = cursor.symbol()?;
    if !cursor.eat_word("attributes") || !cursor.sees("{") {
        return Ok(None);
    }
    if !cursor.balanced()?.contains("tfrt.compiled") {
        return Ok(None);
    }
    if !cursor.sees("{") {
        return Err(cursor.error("expected '{'"));
    }
    cursor.balanced()?;
    Ok(Some(name))
}

fn generic_module(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    cursor.string()?;
    let (mut name, mut compiled) = (None, false);
    while ["(", "<", "{"].iter().any(|open| cursor.sees(open)) {
        let start = *cursor;
        let region = cursor.sees("({");
        let inside = cursor.balanced()?;
        if !region {
            name = name.or(sym_name(start, cursor.position()));
            compiled |= inside.contains("tfrt.compiled");
        }
    }
    if !compiled {
        return Ok(None);
    }
    cursor.expect(":")?;
    cursor.r#type()?;
    match name {
        Some(name) => Ok(Some(name)),
        None => Err(cursor.error("a compiled module without a 'sym_name'")),
    }
}

/// The value of `sym_name = ".."` between two positions.
fn sym_name(start: Cursor<'_>, end: usize) -> Option<String> {
    let inside = start.at(end).since(start.position());
    let at = start.position() + inside.find("sym_name")?;
    let mut cursor = start.at(at);
    cursor.word()?;
    (cursor.eat("=") && cursor.sees("\"")).then(|| cursor.string().ok())?
}

/// The generic form of a compiled module.
fn generic_form(text: &str) -> String {
    reformed(text, true, 0).unwrap_or_else(|| text.to_owned())
}

/// The printed form of a compiled module at a depth of indentation.
pub(crate) fn printed_form(text: &str, is_generic: bool, depth: usize) -> String {
    // Another form is printed only if it round-trips.
    let printed = reformed(text, is_generic, depth).filter(|other| generic_form(other) == text);
    printed.unwrap_or_else(|| text.to_owned())
}

fn reformed(text: &str, is_generic: bool, depth: usize) -> Option<String> {
    let mut cursor = Cursor::of(text);
    let module = operation(&mut cursor, 0).ok().filter(|_| cursor.at_end())?;
    let mut out = String::new();
    print_operation(&mut out, &module, is_generic, depth);
    Some(out)
}

/// The name of a compiled module given as a complete text.
pub(crate) fn compiled_name(text: &str) -> Option<String> {
    let mut cursor = Cursor::of(text);
    let name = compiled_module(&mut cursor).ok()??;
    (cursor.rest().is_empty() && !text.starts_with(char::is_whitespace)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_known() {
        let custom = "module @k attributes {tfrt.compiled} { any.name \"}\" }";
        assert_eq!(compiled_name(custom).as_deref(), Some("k"));
        let generic = "\"builtin.module\"() ({\n}) {sym_name = \"k\", tfrt.compiled} : () -> ()";
        assert_eq!(compiled_name(generic).as_deref(), Some("k"));
        for other in [
            "",
            "module {}",
            "module @k { }",
            "text",
            " module @k attributes {",
            "{",
        ] {
            assert_eq!(compiled_name(other), None, "{other}");
        }
    }
}
