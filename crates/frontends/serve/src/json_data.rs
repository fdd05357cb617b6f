//! The elements of a tensor in JSON: nested or flat arrays, in row-major order.

use crate::datatype;
use crate::status::Refusal;
use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use tenon::tensor::{BufferMut, Element};
use tenon::{DataType, Tensor, TensorType};

/// The greatest depth of nested arrays, which is the greatest rank of an input in JSON.
const MAX_DEPTH: usize = 32;

/// The elements of one input. They are read before the type is known: an object of JSON has no order.
#[derive(Debug, Default, PartialEq)]
pub struct JsonData {
    elements: Elements,
    /// The length of the arrays at each depth.
    extents: Vec<Option<usize>>,
    /// The depth of the elements; `None` without elements.
    depth: Option<usize>,
}

/// Elements in the narrowest form that has all of them. Each takes at most 8 bytes (a text: its
/// bytes), and at least two of the request's.
#[derive(Debug, Default, PartialEq)]
enum Elements {
    #[default]
    None,
    Unsigned(Vec<u64>),
    Signed(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

/// One element.
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl JsonData {
    /// The tensor of these elements.
    ///
    /// # Errors
    /// Another count or nesting than the shape, elements of another kind or outside of the range of the type;
    /// `FP16` and `BF16`, which the protocol has in binary form only.
    pub fn to_tensor(&self, ty: TensorType) -> Result<Tensor, Refusal> {
        self.check_extents(&ty)?;
        match ty.dtype() {
            DataType::Bool => self.bools(ty),
            DataType::U8 => self.integers::<u8>(ty),
            DataType::U16 => self.integers::<u16>(ty),
            DataType::U32 => self.integers::<u32>(ty),
            DataType::U64 => self.integers::<u64>(ty),
            DataType::I8 => self.integers::<i8>(ty),
            DataType::I16 => self.integers::<i16>(ty),
            DataType::I32 => self.integers::<i32>(ty),
            DataType::I64 => self.integers::<i64>(ty),
            DataType::F32 => self.floats(ty, |value| value as f32),
            DataType::F64 => self.floats(ty, |value| value),
            DataType::String => self.texts(ty),
            other => {
                let name = datatype::name(other).unwrap_or(other.name());
                let text = format!(
                    "{name} has no form in JSON; send it as binary data (binary_data_size)"
                );
                Err(Refusal::invalid(text))
            }
        }
    }

    fn check_extents(&self, ty: &TensorType) -> Result<(), Refusal> {
        let shape = &ty.shape()[..];
        let found: Vec<usize> = self.extents.iter().map(|e| e.unwrap_or(0)).collect();
        let is_flat = found.len() <= 1 && self.count() == ty.elements();
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

    fn count(&self) -> usize {
        match &self.elements {
            Elements::None => 0,
            Elements::Unsigned(list) => list.len(),
            Elements::Signed(list) => list.len(),
            Elements::Floats(list) => list.len(),
            Elements::Bools(list) => list.len(),
            Elements::Texts(list) => list.len(),
        }
    }

    fn integers<T>(&self, ty: TensorType) -> Result<Tensor, Refusal>
    where
        T: Element + TryFrom<u64> + TryFrom<i64>,
    {
        let out_of_range = |at: usize, value: &dyn fmt::Display| {
            let name = datatype::name(ty.dtype()).unwrap_or_default();
            Refusal::invalid(format!("element {at}, {value}, is outside of {name}"))
        };
        let fill = |elements: &mut [T]| match &self.elements {
            Elements::Unsigned(list) => fill(elements, list, |at, value| {
                T::try_from(value).map_err(|_| out_of_range(at, &value))
            }),
            Elements::Signed(list) => fill(elements, list, |at, value| {
                T::try_from(value).map_err(|_| out_of_range(at, &value))
            }),
            Elements::None => Ok(()),
            _ => Err(self.other_kind(ty.dtype(), "integers")),
        };
        tensor(&ty, fill)
    }

    fn floats<T: Element>(
        &self,
        ty: TensorType,
        convert: impl Fn(f64) -> T + Copy,
    ) -> Result<Tensor, Refusal> {
        tensor(&ty, |elements: &mut [T]| match &self.elements {
            Elements::Unsigned(list) => fill(elements, list, |_, value| Ok(convert(value as f64))),
            Elements::Signed(list) => fill(elements, list, |_, value| Ok(convert(value as f64))),
            Elements::Floats(list) => fill(elements, list, |_, value| Ok(convert(value))),
            Elements::None => Ok(()),
            _ => Err(self.other_kind(ty.dtype(), "floats")),
        })
    }

    fn bools(&self, ty: TensorType) -> Result<Tensor, Refusal> {
        let bools = match &self.elements {
            Elements::Bools(list) => list.clone(),
            Elements::Unsigned(list) if list.iter().all(|&value| value <= 1) => {
                list.iter().map(|&value| value == 1).collect()
            }
            Elements::None => Vec::new(),
            _ => return Err(self.other_kind(ty.dtype(), "true, false, 1 or 0")),
        };
        Ok(Tensor::from_bools(ty.shape().clone(), &bools)?)
    }

    fn texts(&self, ty: TensorType) -> Result<Tensor, Refusal> {
        match &self.elements {
            Elements::Texts(list) => Ok(Tensor::from_strings(ty.shape().clone(), list)?),
            Elements::None => Ok(Tensor::zeroed(ty)?),
            _ => Err(self.other_kind(ty.dtype(), "strings")),
        }
    }

    fn other_kind(&self, dtype: DataType, expected: &str) -> Refusal {
        let found = match &self.elements {
            Elements::None => "no elements",
            Elements::Unsigned(_) | Elements::Signed(_) => "integers",
            Elements::Floats(_) => "floats",
            Elements::Bools(_) => "booleans",
            Elements::Texts(_) => "strings",
        };
        let name = datatype::name(dtype).unwrap_or_default();
        Refusal::invalid(format!("{name}: expected {expected}, found {found}"))
    }

    fn push(&mut self, value: Value, depth: usize) -> Result<(), &'static str> {
        const MIXED: &str = "elements of several kinds in one tensor";
        if *self.depth.get_or_insert(depth) != depth || self.extents.len() > depth {
            return Err("elements at several depths of the nested arrays");
        }
        let float = |value: f64, list: &mut Vec<f64>| list.push(value);
        match (&mut self.elements, value) {
            (Elements::None, value) => {
                self.elements = match value {
                    Value::Unsigned(value) => Elements::Unsigned(vec![value]),
                    Value::Signed(value) => Elements::Signed(vec![value]),
                    Value::Float(value) => Elements::Floats(vec![value]),
                    Value::Bool(value) => Elements::Bools(vec![value]),
                    Value::Text(value) => Elements::Texts(vec![value]),
                }
            }
            (Elements::Unsigned(list), Value::Unsigned(value)) => list.push(value),
            (Elements::Unsigned(list), Value::Signed(value)) => {
                let signed: Result<Vec<i64>, _> = list.iter().map(|&v| i64::try_from(v)).collect();
                let mut signed = signed.map_err(|_| "integers outside of 64 bits")?;
                signed.push(value);
                self.elements = Elements::Signed(signed);
            }
            (Elements::Unsigned(list), Value::Float(value)) => {
                let mut floats: Vec<f64> = list.iter().map(|&v| v as f64).collect();
                floats.push(value);
                self.elements = Elements::Floats(floats);
            }
            (Elements::Signed(list), Value::Signed(value)) => list.push(value),
            (Elements::Signed(list), Value::Unsigned(value)) => {
                list.push(i64::try_from(value).map_err(|_| "integers outside of 64 bits")?);
            }
            (Elements::Signed(list), Value::Float(value)) => {
                let mut floats: Vec<f64> = list.iter().map(|&v| v as f64).collect();
                floats.push(value);
                self.elements = Elements::Floats(floats);
            }
            (Elements::Floats(list), Value::Float(value)) => float(value, list),
            (Elements::Floats(list), Value::Unsigned(value)) => float(value as f64, list),
            (Elements::Floats(list), Value::Signed(value)) => float(value as f64, list),
            (Elements::Bools(list), Value::Bool(value)) => list.push(value),
            (Elements::Texts(list), Value::Text(value)) => list.push(value),
            _ => return Err(MIXED),
        }
        Ok(())
    }

    /// Ends an array of `length` elements or arrays; those of a depth have one length.
    fn end_array(&mut self, length: usize, depth: usize) -> Result<(), &'static str> {
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
}

/// A tensor whose elements `write` sets.
fn tensor<T: Element>(
    ty: &TensorType,
    write: impl FnOnce(&mut [T]) -> Result<(), Refusal>,
) -> Result<Tensor, Refusal> {
    let mut buffer = BufferMut::zeroed(ty.bytes())?;
    if let Some(elements) = buffer.as_slice_mut::<T>() {
        write(elements)?;
    }
    Ok(Tensor::new(ty.clone(), buffer.freeze())?)
}

fn fill<T, V: Copy>(
    elements: &mut [T],
    list: &[V],
    convert: impl Fn(usize, V) -> Result<T, Refusal>,
) -> Result<(), Refusal> {
    for (at, (element, &value)) in elements.iter_mut().zip(list).enumerate() {
        *element = convert(at, value)?;
    }
    Ok(())
}

impl<'de> Deserialize<'de> for JsonData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut data = JsonData::default();
        let row = Row {
            data: &mut data,
            depth: 0,
        };
        row.deserialize(deserializer)?;
        Ok(data)
    }
}

/// An array or an element at a depth.
struct Row<'a> {
    data: &'a mut JsonData,
    depth: usize,
}

impl Row<'_> {
    fn push<E: serde::de::Error>(self, value: Value) -> Result<(), E> {
        if self.depth == 0 {
            return Err(E::custom("the data is no array"));
        }
        self.data.push(value, self.depth).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of elements")
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.push(Value::Unsigned(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.push(Value::Signed(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.push(Value::Float(value))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.push(Value::Bool(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.push(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        if self.depth == MAX_DEPTH {
            return Err(A::Error::custom("the data is nested too deeply"));
        }
        let mut length = 0;
        loop {
            let row = Row {
                data: &mut *self.data,
                depth: self.depth + 1,
            };
            match array.next_element_seed(row)? {
                Some(()) => length += 1,
                None => break,
            }
        }
        let ended = self.data.end_array(length, self.depth);
        ended.map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests;
