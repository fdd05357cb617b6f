//! The elements of a tensor in JSON: nested or flat arrays, in row-major order.
//!
//! An object of JSON has no order, so that the data may be before its type. The text is kept until the type is known, and
//! each number is then read once, as an element of that type.

use crate::datatype;
use crate::status::Refusal;
use fast_float2::FastFloat;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::str::FromStr;
use tenon::tensor::{BufferMut, Element};
use tenon::{DataType, Tensor, TensorType};

/// The greatest depth of nested arrays, which is the greatest rank of an input in JSON.
const MAX_DEPTH: usize = 32;

/// The elements of one input: JSON whose syntax is correct.
#[derive(Debug, Deserialize)]
pub struct JsonData<'a>(#[serde(borrow)] &'a RawValue);

impl JsonData<'_> {
    /// The tensor of these elements.
    ///
    /// # Errors
    /// Another count or nesting than the shape, elements of another kind or outside of the range of the type;
    /// `FP16` and `BF16`, which the protocol has in binary form only.
    pub fn to_tensor(&self, ty: TensorType) -> Result<Tensor, Refusal> {
        match ty.dtype() {
            DataType::Bool => {
                let bools = self.list(&ty, boolean)?;
                Ok(Tensor::from_bools(ty.shape().clone(), &bools)?)
            }
            DataType::String => {
                let texts = self.list(&ty, text)?;
                Ok(Tensor::from_strings(ty.shape().clone(), &texts)?)
            }
            DataType::U8 => self.numeric(ty, integer::<u8>),
            DataType::U16 => self.numeric(ty, integer::<u16>),
            DataType::U32 => self.numeric(ty, integer::<u32>),
            DataType::U64 => self.numeric(ty, integer::<u64>),
            DataType::I8 => self.numeric(ty, integer::<i8>),
            DataType::I16 => self.numeric(ty, integer::<i16>),
            DataType::I32 => self.numeric(ty, integer::<i32>),
            DataType::I64 => self.numeric(ty, integer::<i64>),
            DataType::F32 => self.numeric(ty, |json| float(json, f32::is_finite)),
            DataType::F64 => self.numeric(ty, |json| float(json, f64::is_finite)),
            other => {
                let name = datatype::name(other).unwrap_or(other.name());
                let text = format!(
                    "{name} has no form in JSON; send it as binary data (binary_data_size)"
                );
                Err(Refusal::invalid(text))
            }
        }
    }

    fn numeric<T: Element>(
        &self,
        ty: TensorType,
        read: impl Fn(&str) -> Result<(T, usize), Mismatch>,
    ) -> Result<Tensor, Refusal> {
        let elements = self.list(&ty, read)?;
        let mut buffer = BufferMut::zeroed(ty.bytes())?;
        if let Some(slice) = buffer.as_slice_mut::<T>() {
            slice.copy_from_slice(&elements);
        }
        Ok(Tensor::new(ty, buffer.freeze())?)
    }

    /// The elements, as many as the shape has. `read` reads the first one of a text, with its length.
    fn list<T>(
        &self,
        ty: &TensorType,
        read: impl Fn(&str) -> Result<(T, usize), Mismatch>,
    ) -> Result<Vec<T>, Refusal> {
        let mut json = self.0.get();
        // A comma separates two elements: the text bounds their number, the shape does not.
        let mut list = Vec::with_capacity(ty.elements().min(json.len() / 2));
        let mut arrays = Arrays::default();
        let failed = |reason: &str| Refusal::invalid(reason.to_owned());
        while let Some(start) = json.bytes().position(|byte| !is_separator(byte)) {
            json = &json[start..];
            let length = match json.as_bytes()[0] {
                b'[' => arrays.start().map(|()| 1).map_err(failed)?,
                b']' => arrays.end().map(|()| 1).map_err(failed)?,
                _ => {
                    arrays.element().map_err(failed)?;
                    let (element, length) =
                        read(json).map_err(|it| it.refusal(list.len(), element(json), ty))?;
                    list.push(element);
                    length
                }
            };
            json = json.get(length..).unwrap_or_default();
        }
        arrays.check(ty, list.len())?;
        Ok(list)
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t')
}

/// The first element of JSON whose syntax is correct. An object is cut: as an element it is refused.
fn element(json: &str) -> &str {
    let bytes = json.as_bytes();
    let length = match bytes.first() {
        Some(b'"') => text_length(bytes),
        _ => {
            let ends = |&byte: &u8| is_separator(byte) || byte == b']';
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    };
    json.get(..length).unwrap_or(json)
}

/// The length of a text with its quotes.
fn text_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The arrays around elements.
#[derive(Debug, Default)]
struct Arrays {
    /// How much each array has that has not ended.
    open: Vec<usize>,
    /// The length of the arrays at each depth.
    extents: Vec<Option<usize>>,
    /// The depth of the elements; `None` without elements.
    depth: Option<usize>,
}

impl Arrays {
    fn start(&mut self) -> Result<(), &'static str> {
        if self.open.len() == MAX_DEPTH {
            return Err("the data is nested too deeply");
        }
        self.open.push(0);
        Ok(())
    }

    fn element(&mut self) -> Result<(), &'static str> {
        let depth = self.open.len();
        let Some(length) = self.open.last_mut() else {
            return Err("the data is no array");
        };
        *length += 1;
        if *self.depth.get_or_insert(depth) != depth || self.extents.len() > depth {
            return Err("elements at several depths of the nested arrays");
        }
        Ok(())
    }

    /// Ends an array; those of a depth have one length.
    fn end(&mut self) -> Result<(), &'static str> {
        let length = self.open.pop().unwrap_or_default();
        let depth = self.open.len();
        if let Some(outer) = self.open.last_mut() {
            *outer += 1;
        }
        if self.extents.len() <= depth {
            if self.depth.is_some_and(|elements| depth >= elements) {
                return Err("arrays and elements at one depth");
            }
            self.extents.resize(depth + 1, None);
        }
        match *self.extents[depth].get_or_insert(length) == length {
            true => Ok(()),
            false => Err("nested arrays of several lengths at one depth"),
        }
    }

    /// Checks that this many elements fill the shape.
    fn check(&self, ty: &TensorType, count: usize) -> Result<(), Refusal> {
        let shape = &ty.shape()[..];
        let found: Vec<usize> = self.extents.iter().map(|e| e.unwrap_or(0)).collect();
        let is_flat = found.len() <= 1 && count == ty.elements();
        // Arrays without elements may end before the last dimension: [] has the shape [0, 3].
        let is_nested = match self.depth {
            Some(_) => found == shape,
            None => ty.elements() == 0 && shape.starts_with(&found),
        };
        if is_flat || is_nested {
            return Ok(());
        }
        let text = format!("the data is {found:?}, its shape {shape:?}");
        Err(Refusal::invalid(text))
    }
}

/// Why JSON is no element of a type.
enum Mismatch {
    /// It is something else than this.
    Kind(&'static str),
    /// The type has no such value.
    Range,
}

impl Mismatch {
    fn refusal(&self, at: usize, json: &str, ty: &TensorType) -> Refusal {
        const SHOWN: usize = 40;
        let name = datatype::name(ty.dtype()).unwrap_or_default();
        let json = match json.char_indices().nth(SHOWN) {
            None => json.to_owned(),
            Some((end, _)) => format!("{}...", &json[..end]),
        };
        Refusal::invalid(match self {
            Self::Kind(expected) => format!("element {at} is {json}: {name} has {expected}"),
            Self::Range => format!("element {at}, {json}, is outside of {name}"),
        })
    }
}

fn is_number(json: &str) -> bool {
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn float<T: FastFloat>(json: &str, is_finite: fn(T) -> bool) -> Result<(T, usize), Mismatch> {
    if !is_number(json) {
        return Err(Mismatch::Kind("numeric elements"));
    }
    let parsed = fast_float2::parse_partial(json).ok();
    parsed
        .filter(|&(value, _)| is_finite(value))
        .ok_or(Mismatch::Range)
}

fn integer<T: FromStr>(json: &str) -> Result<(T, usize), Mismatch> {
    let json = element(json);
    if !is_number(json) || json.contains(['.', 'e', 'E']) {
        return Err(Mismatch::Kind("integers"));
    }
    let value = json.parse().map_err(|_| Mismatch::Range)?;
    Ok((value, json.len()))
}

fn boolean(json: &str) -> Result<(bool, usize), Mismatch> {
    let json = element(json);
    let value = match json {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => return Err(Mismatch::Kind("true, false, 1 and 0")),
    };
    Ok((value, json.len()))
}

fn text(json: &str) -> Result<(String, usize), Mismatch> {
    let json = element(json);
    let text = serde_json::from_str(json).map_err(|_| Mismatch::Kind("strings"))?;
    Ok((text, json.len()))
}

#[cfg(test)]
mod tests;
