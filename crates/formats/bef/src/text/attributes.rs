//! Parsing of attributes.

use super::compiled::CompiledModules;
use super::dense::dense;
use super::number::literal;
use super::print_attributes::print_symbol_path;
use crate::syntax::Cursor;
use crate::{Attribute, DType, MAX_NESTING};
use tenon_base::Result;

/// A symbol path outside of compiled modules, and its position.
pub(crate) type SymbolUse<'a> = (Vec<String>, Cursor<'a>);

/// The value of an attribute in a dictionary.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    /// An attribute.
    Attribute(Attribute),
    /// A reference to a function.
    Symbol(SymbolUse<'a>),
    /// A list of references to functions.
    Symbols(Vec<SymbolUse<'a>>),
}

impl Value<'_> {
    /// The attribute in a context without references, where a symbol is foreign text.
    pub(crate) fn into_attribute(self) -> Attribute {
        let text = |(path, _): SymbolUse<'_>| symbol_text(&path);
        match self {
            Value::Attribute(attribute) => attribute,
            Value::Symbol(symbol) => Attribute::Foreign(text(symbol)),
            Value::Symbols(symbols) => Attribute::Foreign(format!(
                "[{}]",
                symbols.into_iter().map(text).collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

/// The text of a symbol path: `@a::@b`.
fn symbol_text(path: &[String]) -> String {
    let mut out = String::new();
    print_symbol_path(&mut out, path);
    out
}

/// Name and value, and the position of the name.
pub(crate) type Entry<'a> = (String, Value<'a>, Cursor<'a>);

/// A dictionary with its braces: `{a = 1, b}`.
pub(crate) fn dictionary<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules,
) -> Result<Vec<Entry<'a>>> {
    cursor.expect("{")?;
    let entries = cursor.list("}", |cursor| {
        let mut place = *cursor;
        place.skip();
        let name = if cursor.sees("\"") {
            cursor.string()?
        } else {
            cursor
                .word()
                .ok_or_else(|| place.error("expected attribute name"))?
                .to_owned()
        };
        let value = if cursor.eat("=") {
            value(cursor, compiled, 0)?
        } else {
            Value::Attribute(Attribute::Unit)
        };
        Ok((name, value, place))
    })?;
    cursor.expect("}")?;
    Ok(entries)
}

/// The value of an attribute.
pub(crate) fn value<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules,
    depth: usize,
) -> Result<Value<'a>> {
    if depth > MAX_NESTING {
        return Err(cursor.error(format!("lists are nested deeper than {MAX_NESTING}")));
    }
    cursor.skip();
    let start = cursor.position();
    let attribute = match cursor.rest().bytes().next() {
        Some(b'"') => Some(Attribute::String(cursor.string()?.into())),
        Some(b'[') => return list(cursor, compiled, depth),
        Some(b'@') => return symbol(cursor, compiled),
        Some(b'#') => dialect_attribute(cursor)?,
        Some(b'{') => {
            cursor.balanced()?;
            None
        }
        Some(b'-' | b'0'..=b'9') => number(cursor)?,
        _ if cursor.eat_word("true") => Some(Attribute::I1(true)),
        _ if cursor.eat_word("false") => Some(Attribute::I1(false)),
        _ if cursor.eat_word("unit") => Some(Attribute::Unit),
        _ if cursor.sees("dense<") => dense(cursor)?,
        _ => DType::from_mlir(&cursor.r#type()?).map(Attribute::Type),
    };
    // Lookahead skips white space, which is not part of the attribute's text.
    let mut end = *cursor;
    // A value with an explicit type (`"a" : !my.type`) is foreign.
    let typed = cursor.eat(":");
    if typed {
        cursor.r#type()?;
        end = *cursor;
    }
    let attribute = attribute.filter(|_| !typed);
    let text = || Attribute::Foreign(end.since(start).to_owned());
    Ok(Value::Attribute(attribute.unwrap_or_else(text)))
}

fn list<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules,
    depth: usize,
) -> Result<Value<'a>> {
    let start = cursor.position();
    cursor.expect("[")?;
    let values = cursor.list("]", |cursor| value(cursor, compiled, depth + 1))?;
    cursor.expect("]")?;
    if !values.is_empty() && values.iter().all(|v| matches!(v, Value::Symbol(..))) {
        let symbols = values.into_iter().filter_map(|value| match value {
            Value::Symbol(symbol) => Some(symbol),
            _ => None,
        });
        return Ok(Value::Symbols(symbols.collect()));
    }
    let elements: Option<Vec<Attribute>> = (values.into_iter())
        .map(|value| match value {
            Value::Attribute(attribute) => Some(attribute).filter(Attribute::is_storable),
            _ => None,
        })
        .collect();
    // A list with a foreign element is foreign as a whole.
    let text = || Attribute::Foreign(cursor.since(start).to_owned());
    Ok(Value::Attribute(
        elements.map_or_else(text, Attribute::list),
    ))
}

/// A symbol of a compiled module, or else of a function.
fn symbol<'a>(cursor: &mut Cursor<'a>, compiled: &CompiledModules) -> Result<Value<'a>> {
    let place = *cursor;
    let path = symbol_path(cursor)?;
    Ok(match path.first().and_then(|root| compiled.get(root)) {
        Some(module) => Value::Attribute(Attribute::Symbol {
            path,
            module: module.clone(),
        }),
        None => Value::Symbol((path, place)),
    })
}

fn symbol_path(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut path = vec![cursor.symbol()?];
    while cursor.eat("::") {
        path.push(cursor.symbol()?);
    }
    Ok(path)
}

/// `#corert.shape<..>`, and `#tenon.symbol<..>` for a symbol of an unnamed compiled module.
fn dialect_attribute(cursor: &mut Cursor<'_>) -> Result<Option<Attribute>> {
    let start = *cursor;
    let name = cursor.sigil('#')?;
    if name == "corert.shape" {
        return shape(cursor).map(Some);
    }
    if name == "tenon.symbol" {
        cursor.expect("<")?;
        let path = symbol_path(cursor)?;
        cursor.expect(",")?;
        let module = cursor.string()?;
        cursor.expect(">")?;
        return Ok(Some(Attribute::Symbol {
            path,
            module: module.into(),
        }));
    }
    if !cursor.rest().starts_with('<') {
        return Err(start.error(format!("undefined attribute alias '#{name}'")));
    }
    cursor.balanced()?;
    Ok(None)
}

fn shape(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    cursor.expect("<")?;
    let start = *cursor;
    let inside = cursor.take_while(|c| c != '>').trim();
    cursor.expect(">")?;
    if inside == "*" {
        return Ok(Attribute::Shape(None));
    }
    let extent = |text: &str| match text.trim() {
        "?" => Some(None),
        digits => digits
            .parse()
            .ok()
            .filter(|extent: &i64| *extent >= 0)
            .map(Some),
    };
    let extents: Option<Vec<Option<i64>>> = if inside.is_empty() {
        Some(Vec::new())
    } else {
        inside.split('x').map(extent).collect()
    };
    match extents {
        Some(extents) => Ok(Attribute::Shape(Some(extents))),
        None => Err(start.error("expected a shape such as 2x?x3")),
    }
}

/// A number with its type; `None` if BEF lacks the type.
fn number(cursor: &mut Cursor<'_>) -> Result<Option<Attribute>> {
    let start = *cursor;
    let literal = literal(cursor)?;
    let mut dtype = if literal.is_float() {
        DType::F64
    } else {
        DType::I64
    };
    if cursor.eat(":") {
        match DType::from_mlir(&cursor.r#type()?) {
            Some(known) => dtype = known,
            None => return Ok(None),
        }
    }
    match literal.typed(dtype) {
        Some(attribute) => Ok(Some(attribute)),
        None => Err(start.error(format!("the number does not fit type '{}'", dtype.mlir()))),
    }
}
