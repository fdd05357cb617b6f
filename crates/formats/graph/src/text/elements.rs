//! Exact text of tensor elements.

use crate::ops::shapes::invalid;
use std::fmt::{self, Write};
use tenon_base::Result;
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The maximum size of a tensor from `fill`: a line of text must not allocate all memory.
const FILL_LIMIT: usize = 1 << 30;

/// The text of the elements of a constant.
pub(super) enum ElementsText {
    /// Each element in decimal.
    List(Vec<String>),
    /// One element for all.
    Fill(String),
    /// The bytes, in hexadecimal digits.
    Hex(String),
}

/// The elements of `tensor` in the most readable exact form.
pub(super) fn elements(tensor: &Tensor) -> ElementsText {
    let width = tensor.dtype().bits() / 8;
    if width > 0 && tensor.ty().elements() > 1 && is_uniform(tensor.bytes(), width) {
        let first = decimals(tensor.dtype(), &tensor.bytes()[..width]);
        if let Some(text) = first.and_then(|mut one| one.pop()) {
            return ElementsText::Fill(text);
        }
    }
    match decimals(tensor.dtype(), tensor.bytes()) {
        Some(list) => ElementsText::List(list),
        None => ElementsText::Hex(hex(tensor.bytes())),
    }
}

fn is_uniform(bytes: &[u8], width: usize) -> bool {
    let (first, rest) = bytes.split_at(width.min(bytes.len()));
    rest.chunks(width).all(|chunk| chunk == first)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The elements in decimal; `None` for types where that is not exact.
fn decimals(dtype: DataType, bytes: &[u8]) -> Option<Vec<String>> {
    fn all<const N: usize, T: fmt::Debug>(
        bytes: &[u8],
        read: impl Fn([u8; N]) -> T,
    ) -> Vec<String> {
        bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|&chunk| format!("{:?}", read(chunk)))
            .collect()
    }
    Some(match dtype {
        DataType::F32 => {
            let plain = |chunk| !f32::from_le_bytes(chunk).is_nan();
            if !bytes.as_chunks().0.iter().all(|&chunk| plain(chunk)) {
                return None;
            }
            all(bytes, f32::from_le_bytes)
        }
        DataType::F64 => {
            let plain = |chunk| !f64::from_le_bytes(chunk).is_nan();
            if !bytes.as_chunks().0.iter().all(|&chunk| plain(chunk)) {
                return None;
            }
            all(bytes, f64::from_le_bytes)
        }
        DataType::I8 => all(bytes, i8::from_le_bytes),
        DataType::I16 => all(bytes, i16::from_le_bytes),
        DataType::I32 => all(bytes, i32::from_le_bytes),
        DataType::I64 => all(bytes, i64::from_le_bytes),
        DataType::U8 => all(bytes, u8::from_le_bytes),
        DataType::U16 => all(bytes, u16::from_le_bytes),
        DataType::U32 => all(bytes, u32::from_le_bytes),
        DataType::U64 => all(bytes, u64::from_le_bytes),
        DataType::Bool if bytes.iter().all(|&byte| byte <= 1) => {
            all(bytes, |[byte]: [u8; 1]| byte != 0)
        }
        _ => return None,
    })
}

/// A tensor of the elements in `list`.
pub(super) fn from_list(ty: TensorType, list: &[&str]) -> Result<Tensor> {
    if list.len() != ty.elements() {
        return Err(invalid(format!("the list does not fill a tensor {ty}"))
            .expected(format_args!("{} elements", ty.elements()))
            .found(list.len()));
    }
    let mut bytes = Vec::new();
    for text in list {
        bytes.extend(element(ty.dtype(), text)?);
    }
    Tensor::new(ty, BufferMut::copy_of(&bytes)?.freeze())
}

/// A tensor with one value for all elements.
pub(super) fn from_fill(ty: TensorType, text: &str) -> Result<Tensor> {
    if ty.bytes() > FILL_LIMIT {
        return Err(invalid("too much to fill")
            .expected(format_args!("at most {FILL_LIMIT} bytes"))
            .found(ty.bytes()));
    }
    let one = element(ty.dtype(), text)?;
    let mut buffer = BufferMut::zeroed(ty.bytes())?;
    buffer
        .chunks_exact_mut(one.len())
        .for_each(|chunk| chunk.copy_from_slice(&one));
    Tensor::new(ty, buffer.freeze())
}

/// A tensor of the bytes of the hexadecimal digits `text`.
pub(super) fn from_hex(ty: TensorType, text: &str) -> Result<Tensor> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect();
    let bytes = bytes.ok_or_else(|| {
        invalid("the text is not made of bytes").expected("pairs of hexadecimal digits")
    })?;
    Tensor::new(ty, BufferMut::copy_of(&bytes)?.freeze())
}

/// The bytes of one element.
fn element(dtype: DataType, text: &str) -> Result<Vec<u8>> {
    fn read<T: std::str::FromStr, const N: usize>(
        text: &str,
        write: impl Fn(T) -> [u8; N],
    ) -> Option<Vec<u8>> {
        text.parse().ok().map(|value| write(value).to_vec())
    }
    let bytes = match dtype {
        DataType::F32 => read(text, f32::to_le_bytes),
        DataType::F64 => read(text, f64::to_le_bytes),
        DataType::I8 => read(text, i8::to_le_bytes),
        DataType::I16 => read(text, i16::to_le_bytes),
        DataType::I32 => read(text, i32::to_le_bytes),
        DataType::I64 => read(text, i64::to_le_bytes),
        DataType::U8 => read(text, u8::to_le_bytes),
        DataType::U16 => read(text, u16::to_le_bytes),
        DataType::U32 => read(text, u32::to_le_bytes),
        DataType::U64 => read(text, u64::to_le_bytes),
        DataType::Bool => read(text, |value: bool| [value.into()]),
        other => {
            return Err(
                invalid(format!("elements of type {other} are written as hex")).found(text),
            );
        }
    };
    bytes.ok_or_else(|| {
        invalid("this is not an element of the tensor")
            .expected(dtype)
            .found(text)
    })
}

/// A hash of bytes (FNV-1a over words of 8 bytes), which distinguishes constants in a listing.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &word| {
        step(hash, u64::from_le_bytes(word))
    });
    rest.iter()
        .fold(hash, |hash, &byte| step(hash, byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(dtype: DataType, shape: &[usize]) -> TensorType {
        TensorType::new(dtype, shape).unwrap()
    }

    #[test]
    fn the_text_of_elements_is_exact() {
        let nan = Tensor::from_slice([1], &[f32::from_bits(0x7fc0_0001)]).unwrap();
        assert!(matches!(elements(&nan), ElementsText::Hex(text) if text == "0100c07f"));
        let zeros = Tensor::from_slice([2], &[0.0f32, -0.0]).unwrap();
        assert!(matches!(elements(&zeros), ElementsText::List(list) if list == ["0.0", "-0.0"]));
        let ones = Tensor::from_slice([2, 2], &[1i8; 4]).unwrap();
        assert!(matches!(elements(&ones), ElementsText::Fill(text) if text == "1"));
        let halves = Tensor::zeroed(ty(DataType::I4, &[3])).unwrap();
        assert!(matches!(elements(&halves), ElementsText::Hex(text) if text == "0000"));
    }

    #[test]
    fn wrong_elements_are_errors() {
        assert!(from_list(ty(DataType::I8, &[1]), &["128"]).is_err());
        assert!(from_list(ty(DataType::F32, &[2]), &["1"]).is_err());
        assert!(from_hex(ty(DataType::F16, &[1]), "0f0").is_err());
        assert!(from_hex(ty(DataType::F16, &[1]), "0ü").is_err());
        assert!(from_fill(ty(DataType::F32, &[1 << 40]), "1").is_err());
        assert!(from_fill(ty(DataType::String, &[1]), "1").is_err());
    }
}
