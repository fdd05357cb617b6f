//! The elements of a tensor as bytes: the binary extension of REST, and raw contents of gRPC.

use crate::datatype;
use crate::status::Refusal;
use tenon::tensor::BufferMut;
use tenon::{DataType, Tensor, TensorType};

/// The bytes before a string: its length, little-endian.
const LENGTH: usize = 4;

/// The tensor of these bytes, which are compared with the size of the type before anything is allocated.
///
/// # Errors
/// Another size; strings whose lengths do not fit the bytes, or that are no UTF-8; booleans other than 0 and 1.
pub fn read(bytes: &[u8], ty: TensorType) -> Result<Tensor, Refusal> {
    match ty.dtype() {
        DataType::String => return read_strings(bytes, &ty),
        DataType::Bool if bytes.iter().any(|&byte| byte > 1) => {
            return Err(Refusal::invalid("BOOL: expected bytes of 0 or 1"));
        }
        _ => {}
    }
    if bytes.len() != ty.bytes() {
        let name = datatype::name(ty.dtype()).unwrap_or_default();
        let (shape, expected, found) = (&ty.shape()[..], ty.bytes(), bytes.len());
        let text = format!("{name} {shape:?} has {expected} bytes, found {found}");
        return Err(Refusal::invalid(text));
    }
    Ok(Tensor::new(ty, BufferMut::copy_of(bytes)?.freeze())?)
}

fn read_strings(bytes: &[u8], ty: &TensorType) -> Result<Tensor, Refusal> {
    let count = ty.elements();
    let misfit = || {
        let text = format!("BYTES: expected {count} strings, each after its length of 4 bytes");
        Refusal::invalid(text)
    };
    if count > bytes.len() / LENGTH {
        return Err(misfit());
    }
    let mut texts = Vec::with_capacity(count);
    let mut rest = bytes;
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<LENGTH>().ok_or_else(misfit)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, after) = after.split_at_checked(length).ok_or_else(misfit)?;
        texts.push(text_of(text)?);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(misfit());
    }
    Ok(Tensor::from_strings(ty.shape().clone(), &texts)?)
}

/// A string of a model, which is UTF-8.
pub fn text_of(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::invalid("BYTES: a string is not UTF-8"))
}

/// The bytes of a tensor, after those of `bytes`.
pub fn write(tensor: &Tensor, bytes: &mut Vec<u8>) {
    match tensor.strings() {
        None => bytes.extend_from_slice(tensor.bytes()),
        Some(texts) => {
            for text in texts {
                bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(text: &str) -> TensorType {
        text.parse().expect(text)
    }

    #[test]
    fn sizes_that_lie_are_refused() {
        assert!(read(&[0; 8], ty("f32[2]")).is_ok());
        for length in [0, 7, 9] {
            let refusal = read(&vec![0; length], ty("f32[2]")).unwrap_err();
            assert!(refusal.text.contains("8 bytes"), "{refusal}");
        }
        // 4 TB: refused by the size of the bytes, before memory is allocated.
        assert!(read(&[0; 4], ty("f32[1000000, 1000000]")).is_err());
        assert!(read(&[0; 4], ty("string[1000000, 1000000]")).is_err());
        assert!(read(&[0, 2], ty("bool[2]")).is_err());
    }

    #[test]
    fn strings_are_read_as_they_are_written() {
        let tensor = Tensor::from_strings([2, 2], &["a", "", "été", "b"]).unwrap();
        let mut bytes = Vec::new();
        write(&tensor, &mut bytes);
        assert_eq!(bytes[..9], [1, 0, 0, 0, b'a', 0, 0, 0, 0]);
        assert_eq!(read(&bytes, tensor.ty().clone()).unwrap(), tensor);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], tensor.ty().clone()).is_err(), "{cut}");
        }
        bytes.push(0);
        assert!(read(&bytes, tensor.ty().clone()).is_err());
        let huge = [255, 255, 255, 255, b'a'];
        assert!(read(&huge, ty("string[1]")).is_err());
        assert!(read(&[1, 0, 0, 0, 255], ty("string[1]")).is_err());
    }
}
