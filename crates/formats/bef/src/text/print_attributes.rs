//! Printing of attributes and locations.

use super::number::print_number;
use crate::bytes::{Reader, read_number};
use crate::{Attribute, DType, Dense, KernelLocation};

/// Dense attributes with at least this number of elements are printed as hexadecimal bytes.
const HEX_ABOVE: usize = 100;

/// Prints a symbol of a compiled module, in a form that depends on the whole Module.
pub(crate) type PrintSymbol<'a> = dyn Fn(&mut String, &[String], &str) + 'a;

/// Appends the text of `attribute`.
pub(crate) fn print_attribute(out: &mut String, attribute: &Attribute, symbol: &PrintSymbol<'_>) {
    match attribute {
        Attribute::String(text) => print_string(out, text),
        Attribute::Type(dtype) => out.push_str(dtype.mlir()),
        Attribute::Array(elements) | Attribute::Aggregate(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                separate(out, index);
                print_attribute(out, element, symbol);
            }
            out.push(']');
        }
        Attribute::Shape(extents) => print_shape(out, extents.as_deref()),
        Attribute::Dense(dense) => print_dense(out, dense),
        Attribute::Symbol { path, module } => symbol(out, path, module),
        Attribute::Unit => out.push_str("unit"),
        Attribute::Foreign(text) => out.push_str(text),
        number => print_typed_number(out, number),
    }
}

/// i1 is printed without a type; i64 and f64 are the defaults.
fn print_typed_number(out: &mut String, number: &Attribute) {
    out.push_str(&print_number(number).unwrap_or_default());
    let float = matches!(number, Attribute::F64(value) if value.is_finite());
    let default = float || matches!(number, Attribute::I1(_) | Attribute::I64(_));
    if let Some(dtype) = number.number_type().filter(|_| !default) {
        out.push_str(" : ");
        out.push_str(dtype.mlir());
    }
}

pub(crate) fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

/// A quoted string: bytes other than printable ASCII are escaped.
pub(crate) fn print_string(out: &mut String, text: &str) {
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'"' => out.push_str("\\22"),
            b' '..=b'~' => out.push(byte.into()),
            other => out.push_str(&format!("\\{other:02X}")),
        }
    }
    out.push('"');
}

/// A symbol name, quoted where needed.
pub(crate) fn print_symbol_name(out: &mut String, name: &str) {
    out.push('@');
    if is_bare(name) {
        out.push_str(name)
    } else {
        print_string(out, name)
    }
}

/// The path of a symbol: `@a::@b`.
pub(crate) fn print_symbol_path(out: &mut String, path: &[String]) {
    for (index, name) in path.iter().enumerate() {
        if index > 0 {
            out.push_str("::");
        }
        print_symbol_name(out, name);
    }
}

/// Whether a name needs no quotes.
pub(crate) fn is_bare(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'))
}

fn print_shape(out: &mut String, extents: Option<&[Option<i64>]>) {
    let inner = match extents {
        None => "*".to_owned(),
        Some(extents) => {
            let extents = extents
                .iter()
                .map(|e| e.map_or("?".to_owned(), |e| e.to_string()));
            extents.collect::<Vec<_>>().join("x")
        }
    };
    out.push_str(&format!("#corert.shape<{inner}>"));
}

fn print_dense(out: &mut String, dense: &Dense) {
    let size = dense.dtype.size().unwrap_or(1);
    let count = dense.data.len() / size;
    let first = dense.data.get(..size).unwrap_or_default();
    out.push_str("dense<");
    if count > 0
        && dense
            .data
            .chunks_exact(size)
            .all(|element| element == first)
    {
        print_element(out, dense.dtype, first);
    } else if count > HEX_ABOVE && dense.dtype != DType::I1 {
        out.push_str("\"0x");
        dense
            .data
            .iter()
            .for_each(|byte| out.push_str(&format!("{byte:02X}")));
        out.push('"');
    } else if count > 0 {
        let mut elements = dense.data.chunks_exact(size);
        print_nested(out, dense.dtype, &dense.shape, &mut elements);
    }
    out.push_str("> : tensor<");
    dense
        .shape
        .iter()
        .for_each(|extent| out.push_str(&format!("{extent}x")));
    out.push_str(dense.dtype.mlir());
    out.push('>');
}

fn print_nested<'a>(
    out: &mut String,
    dtype: DType,
    shape: &[i64],
    elements: &mut impl Iterator<Item = &'a [u8]>,
) {
    let Some((extent, inner)) = shape.split_first() else {
        elements
            .next()
            .into_iter()
            .for_each(|element| print_element(out, dtype, element));
        return;
    };
    out.push('[');
    for index in 0..usize::try_from(*extent).unwrap_or(0) {
        separate(out, index);
        print_nested(out, dtype, inner, elements);
    }
    out.push(']');
}

fn print_element(out: &mut String, dtype: DType, bytes: &[u8]) {
    let Some(part) = dtype.part() else {
        let number = read_number(&mut Reader::new("", 0, bytes), dtype as u8).ok();
        out.push_str(&number.as_ref().and_then(print_number).unwrap_or_default());
        return;
    };
    let (real, imaginary) = bytes.split_at(bytes.len() / 2);
    out.push('(');
    print_element(out, part, real);
    out.push(',');
    print_element(out, part, imaginary);
    out.push(')');
}

/// Appends ` loc(..)`.
pub(crate) fn print_location(out: &mut String, location: &KernelLocation) {
    out.push_str(" loc(");
    print_location_inside(out, location);
    out.push(')');
}

fn print_location_inside(out: &mut String, location: &KernelLocation) {
    match location {
        KernelLocation::Unknown => out.push_str("unknown"),
        KernelLocation::FileLineCol { file, line, column } => {
            print_string(out, file);
            out.push_str(&format!(":{line}:{column}"));
        }
        KernelLocation::Name { name, child } => {
            print_string(out, name);
            if **child != KernelLocation::Unknown {
                out.push('(');
                print_location_inside(out, child);
                out.push(')');
            }
        }
        KernelLocation::CallSite { callee, caller } => {
            out.push_str("callsite(");
            print_location_inside(out, callee);
            out.push_str(" at ");
            print_location_inside(out, caller);
            out.push(')');
        }
        KernelLocation::Fused(parts) => {
            out.push_str("fused[");
            for (index, part) in parts.iter().enumerate() {
                separate(out, index);
                print_location_inside(out, part);
            }
            out.push(']');
        }
    }
}
