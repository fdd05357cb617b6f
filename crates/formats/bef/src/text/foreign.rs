//! Operations of any dialect in a compiled module: conversion between the generic form, which BEF
//! stores, and the custom form of modules, functions, calls and returns (bef 1.4, 4.4).
//!
//! Operations are not interpreted: names, values and types are kept as text.

use crate::MAX_NESTING;
use crate::syntax::{Cursor, Type, print_function_type};
use tenon_base::Result;

/// An attribute: its name as text, and the text of its value, if any.
pub(super) type Entry<'a> = (&'a str, Option<String>);

/// An operation.
#[derive(Debug, Default)]
pub(super) struct Operation<'a> {
    /// The text before `=`, if any.
    pub(super) results: &'a str,
    pub(super) name: String,
    pub(super) operands: Vec<&'a str>,
    /// The list of successor blocks with its brackets.
    pub(super) successors: &'a str,
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) regions: Vec<Vec<Block<'a>>>,
    pub(super) operand_types: Vec<Type<'a>>,
    pub(super) result_types: Vec<Type<'a>>,
    /// `loc(..)`, if any.
    pub(super) location: &'a str,
}

/// A block: a label and operations.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// With its `^`; `None` for a first block without arguments.
    pub(super) label: &'a str,
    pub(super) arguments: Vec<(&'a str, Type<'a>)>,
    pub(super) operations: Vec<Operation<'a>>,
}

impl Operation<'_> {
    /// The text of an attribute's value.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|(known, _)| *known == name);
        entry.and_then(|(_, value)| value.as_deref())
    }

    /// The value of a string attribute.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        let mut cursor = Cursor::of(self.text(name)?);
        let text = cursor.string().ok()?;
        cursor.rest().is_empty().then_some(text)
    }
}

/// Parses one operation. An unknown custom form is an error.
pub(super) fn operation<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Operation<'a>> {
    if depth > MAX_NESTING {
        return Err(cursor.error("operations are nested too deep"));
    }
    cursor.skip();
    let start = cursor.position();
    let mut results = "";
    if cursor.sees("%") {
        cursor.some(|cursor| {
            cursor.value_use()?;
            if cursor.rest().starts_with(':') {
                cursor.expect(":")?;
                cursor.take_while(|c| c.is_ascii_digit());
            }
            Ok(())
        })?;
        results = cursor.since(start).trim_end();
        cursor.expect("=")?;
    }
    let mut operation = if cursor.sees("\"") {
        generic(cursor, depth)?
    } else {
        let place = *cursor;
        match cursor.word() {
            Some("module" | "builtin.module") => module(cursor, depth)?,
            Some("func.func") => function(cursor, depth)?,
            Some("func.return" | "return") => r#return(cursor)?,
            Some("func.call" | "call") => call(cursor)?,
            _ => return Err(place.error("expected an operation in the generic form")),
        }
    };
    cursor.skip();
    let at = cursor.position();
    if cursor.eat_word("loc") {
        cursor.balanced()?;
        operation.location = cursor.since(at);
    }
    operation.results = results;
    Ok(operation)
}

fn generic<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Operation<'a>> {
    let name = cursor.string()?;
    let operands = cursor.parenthesized_uses()?;
    let mut this = Operation {
        name,
        operands: operands.into_iter().map(|value| value.name).collect(),
        ..Operation::default()
    };
    if cursor.sees("[") {
        this.successors = cursor.balanced()?;
    }
    if cursor.eat("<") {
        this.entries = dictionary(cursor)?;
        cursor.expect(">")?;
    }
    if cursor.eat("(") {
        this.regions = cursor.list(")", |cursor| region(cursor, depth, Vec::new()))?;
        cursor.expect(")")?;
    }
    if cursor.sees("{") {
        this.entries.extend(dictionary(cursor)?);
    }
    cursor.expect(":")?;
    (this.operand_types, this.result_types) = cursor.function_type()?;
    this.entries.sort();
    Ok(this)
}

/// `@name attributes {..} { .. }`, after the first word.
fn module<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Operation<'a>> {
    let mut this = named("builtin.module");
    if cursor.sees("@") {
        this.entries
            .push(("sym_name", Some(symbol_string(cursor)?)));
    }
    if cursor.eat_word("attributes") {
        this.entries.extend(dictionary(cursor)?);
    }
    this.regions.push(region(cursor, depth, Vec::new())?);
    this.entries.sort();
    Ok(this)
}

/// `private @name(%a: T) -> U attributes {..} { .. }`, after the first word.
fn function<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<Operation<'a>> {
    let mut this = named("func.func");
    for word in ["private", "public", "nested"] {
        if cursor.eat_word(word) {
            this.entries
                .push(("sym_visibility", Some(format!("\"{word}\""))));
        }
    }
    this.entries
        .push(("sym_name", Some(symbol_string(cursor)?)));
    let mut names = Vec::new();
    cursor.expect("(")?;
    let arguments = cursor.list(")", |cursor| {
        if cursor.sees("%") {
            names.push(cursor.value_use()?.name);
            cursor.expect(":")?;
        }
        cursor.r#type()
    })?;
    cursor.expect(")")?;
    let results = if cursor.eat("->") {
        cursor.type_list()?
    } else {
        Vec::new()
    };
    let r#type = print_function_type(&arguments, &results);
    this.entries.push(("function_type", Some(r#type)));
    if cursor.eat_word("attributes") {
        this.entries.extend(dictionary(cursor)?);
    }
    let body = if cursor.sees("{") {
        region(cursor, depth, names.into_iter().zip(arguments).collect())?
    } else {
        Vec::new()
    };
    this.regions.push(body);
    this.entries.sort();
    Ok(this)
}

/// `%a, %b : T, U`, after the first word.
fn r#return<'a>(cursor: &mut Cursor<'a>) -> Result<Operation<'a>> {
    let mut this = named("func.return");
    if cursor.sees("%") {
        this.operands = cursor.some(|cursor| Ok(cursor.value_use()?.name))?;
        cursor.expect(":")?;
        this.operand_types = cursor.some(Cursor::r#type)?;
    }
    Ok(this)
}

/// `@f(%a) : (T) -> U`, after the first word.
fn call<'a>(cursor: &mut Cursor<'a>) -> Result<Operation<'a>> {
    let mut this = named("func.call");
    cursor.skip();
    let start = cursor.position();
    cursor.symbol()?;
    this.entries
        .push(("callee", Some(cursor.since(start).to_owned())));
    let operands = cursor.parenthesized_uses()?;
    this.operands = operands.into_iter().map(|value| value.name).collect();
    cursor.expect(":")?;
    (this.operand_types, this.result_types) = cursor.function_type()?;
    Ok(this)
}

fn named<'a>(name: &str) -> Operation<'a> {
    Operation {
        name: name.to_owned(),
        ..Operation::default()
    }
}

/// `@name` as the string of the generic form.
fn symbol_string(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut text = String::new();
    super::print_attributes::print_string(&mut text, &cursor.symbol()?);
    Ok(text)
}

/// `{..}` with the values as text.
fn dictionary<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Entry<'a>>> {
    cursor.expect("{")?;
    let entries = cursor.list("}", |cursor| {
        cursor.skip();
        let start = cursor.position();
        if cursor.sees("\"") {
            cursor.string()?;
        } else {
            let place = *cursor;
            cursor
                .word()
                .ok_or_else(|| place.error("expected attribute name"))?;
        }
        let name = cursor.since(start);
        let value = if cursor.eat("=") {
            Some(value(cursor)?)
        } else {
            None
        };
        Ok((name, value))
    })?;
    cursor.expect("}")?;
    Ok(entries)
}

/// The text up to the `,` or `}` that ends a value.
fn value(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.skip();
    let start = cursor.position();
    let mut end = start;
    loop {
        match cursor.rest().as_bytes() {
            [b',' | b'}' | b')' | b']', ..] | [] => break,
            [b'(' | b'[' | b'{' | b'<', ..] => {
                cursor.balanced()?;
            }
            [b'"', ..] => {
                cursor.string()?;
            }
            [b'-', b'>', ..] => *cursor = cursor.at(cursor.position() + 2),
            _ => {
                let length = cursor.rest().chars().next().map_or(1, char::len_utf8);
                *cursor = cursor.at(cursor.position() + length);
            }
        }
        end = cursor.position();
        cursor.skip();
    }
    if end == start {
        return Err(cursor.error("expected a value"));
    }
    Ok(cursor.at(end).since(start).to_owned())
}

/// `{ .. }`: blocks, of which the first has `arguments` if it has no label.
fn region<'a>(
    cursor: &mut Cursor<'a>,
    depth: usize,
    arguments: Vec<(&'a str, Type<'a>)>,
) -> Result<Vec<Block<'a>>> {
    cursor.expect("{")?;
    let mut blocks: Vec<Block<'a>> = Vec::new();
    if !arguments.is_empty() {
        blocks.push(Block {
            label: "^bb0",
            arguments,
            operations: Vec::new(),
        });
    }
    while !cursor.eat("}") {
        if cursor.sees("^") {
            blocks.push(label(cursor)?);
            continue;
        }
        if blocks.is_empty() {
            blocks.push(Block::default());
        }
        let inside = operation(cursor, depth + 1)?;
        if let Some(block) = blocks.last_mut() {
            block.operations.push(inside);
        }
    }
    Ok(blocks)
}

fn label<'a>(cursor: &mut Cursor<'a>) -> Result<Block<'a>> {
    let start = cursor.position();
    cursor.sigil('^')?;
    let label = cursor.since(start);
    let mut arguments = Vec::new();
    if cursor.sees("(") {
        let (names, types) = cursor.typed_uses()?;
        arguments = names.iter().map(|value| value.name).zip(types).collect();
    }
    cursor.expect(":")?;
    Ok(Block {
        label,
        arguments,
        operations: Vec::new(),
    })
}
