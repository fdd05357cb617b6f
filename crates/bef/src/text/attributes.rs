//! Text to attributes.

use super::compiled::CompiledModules;
use super::cursor::Cursor;
use super::dense::{dense, tensor_type};
use super::number::Literal;
use crate::{Attribute, DType, MAX_NESTING};
use tenon_base::Result;

/// The value of an attribute in a dictionary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// One that BEF stores among the attributes.
    Attribute(Attribute),
    /// A symbol path that goes into no compiled module: a function.
    Symbol(Vec<String>, Cursor<'a>),
    /// A list of nothing but such paths.
    Symbols(Vec<(Vec<String>, Cursor<'a>)>),
    /// A name without a value.
    Unit,
    /// Well-formed, but nothing that BEF can hold.
    Foreign,
}

impl PartialEq for Cursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

/// A name and its value, with the place of the name.
pub(crate) type Entry<'a> = (String, Value<'a>, Cursor<'a>);

/// A dictionary, brackets included: `{a = 1, b}`.
pub(crate) fn dictionary<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules<'a>,
) -> Result<Vec<Entry<'a>>> {
    cursor.expect("{")?;
    let entries = cursor.list("}", |cursor| {
        let mut place = *cursor;
        place.skip();
        let name = match cursor.sees("\"") {
            true => cursor.string()?,
            false => cursor
                .word()
                .ok_or_else(|| place.error("expected attribute name"))?
                .to_owned(),
        };
        let value = if cursor.eat("=") {
            value(cursor, compiled, 0)?
        } else {
            Value::Unit
        };
        Ok((name, value, place))
    })?;
    cursor.expect("}")?;
    Ok(entries)
}

/// The value of an attribute.
fn value<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules<'a>,
    depth: usize,
) -> Result<Value<'a>> {
    if depth > MAX_NESTING {
        return Err(cursor.error(format!("lists are nested deeper than {MAX_NESTING}")));
    }
    cursor.skip();
    let attribute = match cursor.rest().bytes().next() {
        Some(b'"') => {
            let text = Attribute::String(cursor.string()?.into());
            // A string of another type (`"a" : !my.type`) is for other dialects.
            if cursor.eat(":") {
                cursor.r#type()?;
                return Ok(Value::Foreign);
            }
            text
        }
        Some(b'[') => return list(cursor, compiled, depth),
        Some(b'@') => return symbol(cursor, compiled),
        Some(b'#') => return dialect_attribute(cursor),
        Some(b'{') => {
            cursor.balanced()?;
            return Ok(Value::Foreign);
        }
        Some(b'-' | b'0'..=b'9') => return number(cursor),
        _ if cursor.eat_word("true") => Attribute::I1(true),
        _ if cursor.eat_word("false") => Attribute::I1(false),
        _ if cursor.eat_word("unit") => return Ok(Value::Unit),
        _ if cursor.sees("dense<") => return dense(cursor).map(or_foreign),
        _ => {
            let r#type = cursor.r#type()?;
            return Ok(or_foreign(DType::from_mlir(&r#type).map(Attribute::Type)));
        }
    };
    Ok(Value::Attribute(attribute))
}

fn or_foreign<'a>(attribute: Option<Attribute>) -> Value<'a> {
    attribute.map_or(Value::Foreign, Value::Attribute)
}

fn list<'a>(
    cursor: &mut Cursor<'a>,
    compiled: &CompiledModules<'a>,
    depth: usize,
) -> Result<Value<'a>> {
    cursor.expect("[")?;
    let values = cursor.list("]", |cursor| value(cursor, compiled, depth + 1))?;
    cursor.expect("]")?;
    if !values.is_empty()
        && values
            .iter()
            .all(|value| matches!(value, Value::Symbol(..)))
    {
        let symbols = values.into_iter().filter_map(|value| match value {
            Value::Symbol(path, place) => Some((path, place)),
            _ => None,
        });
        return Ok(Value::Symbols(symbols.collect()));
    }
    let elements: Option<Vec<Attribute>> = values
        .into_iter()
        .map(|value| match value {
            Value::Attribute(attribute) => Some(attribute),
            _ => None,
        })
        .collect();
    Ok(or_foreign(elements.map(Attribute::list)))
}

/// A symbol of a compiled module, or else a function.
fn symbol<'a>(cursor: &mut Cursor<'a>, compiled: &CompiledModules<'a>) -> Result<Value<'a>> {
    let place = *cursor;
    let path = symbol_path(cursor)?;
    Ok(match path.first().and_then(|root| compiled.get(root)) {
        Some(module) => Value::Attribute(Attribute::Symbol {
            path,
            module: (*module).to_owned(),
        }),
        None => Value::Symbol(path, place),
    })
}

fn symbol_path(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut path = vec![cursor.symbol()?];
    while cursor.eat("::") {
        path.push(cursor.symbol()?);
    }
    Ok(path)
}

/// `#corert.shape<..>`, and our own form for a symbol whose compiled module has no name.
fn dialect_attribute<'a>(cursor: &mut Cursor<'a>) -> Result<Value<'a>> {
    let start = *cursor;
    let name = cursor.sigil('#')?;
    if name == "corert.shape" {
        return shape(cursor).map(Value::Attribute);
    }
    if name == "tenon.symbol" {
        cursor.expect("<")?;
        let path = symbol_path(cursor)?;
        cursor.expect(",")?;
        let module = cursor.string()?;
        cursor.expect(">")?;
        return Ok(Value::Attribute(Attribute::Symbol { path, module }));
    }
    if !cursor.rest().starts_with('<') {
        return Err(start.error(format!("undefined attribute alias '#{name}'")));
    }
    cursor.balanced()?;
    Ok(Value::Foreign)
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

/// The digits of a number, without its type.
pub(crate) fn literal<'a>(cursor: &mut Cursor<'a>) -> Result<Literal<'a>> {
    cursor.skip();
    let start = *cursor;
    let negative = cursor.eat("-");
    let at = cursor.position();
    if !cursor.rest().starts_with(|c: char| c.is_ascii_digit()) {
        return Err(start.error("expected a number"));
    }
    if cursor.rest().starts_with("0x") {
        cursor.eat("0x");
        cursor.take_while(|c| c.is_ascii_hexdigit());
        return Ok(Literal {
            negative,
            digits: cursor.since(at),
        });
    }
    cursor.take_while(|c| c.is_ascii_digit());
    if cursor.rest().starts_with('.') {
        cursor.eat(".");
        cursor.take_while(|c| c.is_ascii_digit());
        let mut ahead = *cursor;
        if ahead.rest().starts_with(['e', 'E']) {
            ahead.take_while(|c| matches!(c, 'e' | 'E'));
            ahead.take_while(|c| matches!(c, '+' | '-'));
            if !ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
                *cursor = ahead;
            }
        }
    }
    Ok(Literal {
        negative,
        digits: cursor.since(at),
    })
}

fn number<'a>(cursor: &mut Cursor<'a>) -> Result<Value<'a>> {
    let start = *cursor;
    let literal = literal(cursor)?;
    let default = if literal.is_float() {
        DType::F64
    } else {
        DType::I64
    };
    let dtype = if cursor.eat(":") {
        match DType::from_mlir(&cursor.r#type()?) {
            Some(dtype) => dtype,
            None => return Ok(Value::Foreign),
        }
    } else {
        default
    };
    match literal.typed(dtype) {
        Some(attribute) => Ok(Value::Attribute(attribute)),
        None => Err(start.error(format!("the number does not fit type '{}'", dtype.mlir()))),
    }
}

/// The tensor type `tensor<2x3xf32>`, as shape and element type.
pub(crate) fn static_tensor(cursor: &mut Cursor<'_>) -> Result<Option<(Vec<i64>, DType)>> {
    let text = cursor.r#type()?;
    Ok(tensor_type(&text))
}
