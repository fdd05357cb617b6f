//! Parsing of dense attributes.

use super::number::{Literal, literal};
use crate::bytes::put_number;
use crate::syntax::Cursor;
use crate::{Attribute, DType, Dense, MAX_NESTING};
use tenon_base::Result;

/// Maximum size of an expanded splat in bytes: a short text must not exhaust memory.
const MAX_SPLAT: usize = 1 << 26;

/// Maximum total size of the expanded splats of one text.
pub(super) const MAX_SPLATS: usize = 1 << 28;

/// An element before its type is known.
#[derive(Debug, Clone, Copy)]
enum Element<'a> {
    Number(Literal<'a>),
    Bool(bool),
    Complex(Literal<'a>, Literal<'a>),
}

/// `dense<..> : tensor<..>`; `None` if BEF cannot encode it.
pub(crate) fn dense(cursor: &mut Cursor<'_>) -> Result<Option<Attribute>> {
    let start = *cursor;
    cursor.expect("dense")?;
    cursor.expect("<")?;
    let hex = if cursor.sees("\"") {
        Some(cursor.string()?)
    } else {
        None
    };
    let mut elements = Vec::new();
    let mut shape = Vec::new();
    let empty = cursor.sees(">");
    if hex.is_none() && !empty {
        nested(cursor, 0, &mut elements, &mut shape)?;
    }
    cursor.expect(">")?;
    cursor.expect(":")?;
    let Some((expected, dtype)) = tensor_type(&cursor.r#type()?) else {
        return Ok(None);
    };
    let Some(size) = dtype.size() else {
        return Ok(None);
    };
    let wrong = |message: &str| start.error(message);
    let too_large = || {
        wrong("a splat too large: expected at most 64 MiB, and 256 MiB for all splats of a text")
    };
    let mut dense = Dense {
        dtype,
        shape: expected,
        data: Vec::new(),
    };
    let count = dense
        .count()
        .ok_or_else(|| wrong("the shape is too large"))?;
    if let Some(hex) = hex {
        dense.data = hex_bytes(&hex).ok_or_else(|| wrong("expected hexadecimal bytes"))?;
        // The bytes of one element are a splat.
        if dense.data.len() == size && count > 1 {
            dense.data = splat(cursor, &dense.data, count).ok_or_else(too_large)?;
        }
    } else {
        for element in &elements {
            put(&mut dense.data, *element, dtype)
                .ok_or_else(|| wrong("an element does not fit the element type"))?;
        }
        if shape.is_empty() && !empty {
            dense.data = splat(cursor, &dense.data, count).ok_or_else(too_large)?;
        } else if !empty && shape != dense.shape {
            return Err(wrong("the elements do not have the shape of the type"));
        }
    }
    if count.checked_mul(size) != Some(dense.data.len()) {
        return Err(wrong("the number of elements differs from the type"));
    }
    Ok(Some(Attribute::Dense(dense)))
}

fn splat(cursor: &Cursor<'_>, element: &[u8], count: usize) -> Option<Vec<u8>> {
    let bytes = element.len().checked_mul(count)?;
    (bytes <= MAX_SPLAT && cursor.take_splat(bytes)).then(|| element.repeat(count))
}

/// Parses nested lists into `elements`, and their extents into `shape`.
fn nested<'a>(
    cursor: &mut Cursor<'a>,
    depth: usize,
    elements: &mut Vec<Element<'a>>,
    shape: &mut Vec<i64>,
) -> Result<()> {
    if !cursor.sees("[") {
        if shape.len() != depth {
            return Err(cursor.error("lists of different depth"));
        }
        elements.push(element(cursor)?);
        return Ok(());
    }
    if depth >= MAX_NESTING {
        return Err(cursor.error(format!("lists are nested deeper than {MAX_NESTING}")));
    }
    let start = *cursor;
    let first = elements.is_empty() && shape.len() == depth;
    if first {
        shape.push(0);
    } else if shape.len() <= depth {
        return Err(start.error("lists of different depth"));
    }
    cursor.expect("[")?;
    let count = cursor
        .list("]", |cursor| nested(cursor, depth + 1, elements, shape))?
        .len() as i64;
    cursor.expect("]")?;
    if first {
        shape[depth] = count;
    } else if shape[depth] != count {
        return Err(start.error("lists of different lengths"));
    }
    Ok(())
}

fn element<'a>(cursor: &mut Cursor<'a>) -> Result<Element<'a>> {
    if cursor.eat_word("true") {
        return Ok(Element::Bool(true));
    }
    if cursor.eat_word("false") {
        return Ok(Element::Bool(false));
    }
    if !cursor.eat("(") {
        return literal(cursor).map(Element::Number);
    }
    let real = literal(cursor)?;
    cursor.expect(",")?;
    let imaginary = literal(cursor)?;
    cursor.expect(")")?;
    Ok(Element::Complex(real, imaginary))
}

fn put(data: &mut Vec<u8>, element: Element<'_>, dtype: DType) -> Option<()> {
    match (element, dtype) {
        (Element::Complex(real, imaginary), _) => {
            let part = dtype.part()?;
            put_number(data, &real.typed(part)?);
            put_number(data, &imaginary.typed(part)?);
        }
        (Element::Bool(value), DType::I1) => data.push(u8::from(value)),
        (Element::Bool(_), _) => return None,
        (Element::Number(literal), _) => put_number(data, &literal.typed(dtype)?),
    }
    Some(())
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// Shape and element type of a printed `tensor<2x3xf32>`; `None` for other types and unknown
/// extents.
fn tensor_type(text: &str) -> Option<(Vec<i64>, DType)> {
    let mut inner = text.strip_prefix("tensor<")?.strip_suffix('>')?;
    let mut shape = Vec::new();
    while inner.starts_with(|c: char| c.is_ascii_digit()) {
        let (extent, rest) = inner.split_once('x')?;
        shape.push(extent.trim().parse().ok()?);
        inner = rest;
    }
    Some((shape, DType::from_mlir(inner.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Attribute>> {
        dense(&mut Cursor::of(text))
    }

    fn data(text: &str) -> Vec<u8> {
        match read(text).unwrap() {
            Some(Attribute::Dense(dense)) => dense.data,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_splats_and_bytes() {
        assert_eq!(
            data("dense<[[1, 2], [3, -1]]> : tensor<2x2xi8>"),
            [1, 2, 3, 255]
        );
        assert_eq!(data("dense<true> : tensor<3xi1>"), [1, 1, 1]);
        assert_eq!(data("dense<\"0x0aFF\"> : tensor<2xui8>"), [10, 255]);
        assert_eq!(data("dense<> : tensor<2x0xi32>"), []);
        assert_eq!(data("dense<[]> : tensor<0xi32>"), []);
        assert_eq!(data("dense<7> : tensor<i16>"), [7, 0]);
        let complex = data("dense<(1.0, 0x40000000)> : tensor<1xcomplex<f32>>");
        assert_eq!(complex, [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat());
    }

    #[test]
    fn wrong_lists_are_refused() {
        for text in [
            "dense<[1, 2]> : tensor<3xi32>",
            "dense<[[1], 2]> : tensor<2x1xi32>",
            "dense<[1, [2]]> : tensor<2x1xi32>",
            "dense<[[1], [2, 3]]> : tensor<2x1xi32>",
            "dense<300> : tensor<1xi8>",
            "dense<1> : tensor<99999999999xi64>",
            "dense<1> : tensor<9999999999x9999999999xi64>",
            "dense<\"0x0\"> : tensor<1xi8>",
            "dense<1.5> : tensor<1xi32>",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("dense<1> : tensor<?xi32>").unwrap(), None);
        assert_eq!(read("dense<1> : vector<1xi32>").unwrap(), None);
    }
}
