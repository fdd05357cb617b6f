//! Tensors of strings: the end of each string as a little-endian u64, then the UTF-8 bytes of all, in row-major order.

use crate::{Buffer, BufferMut, DataType, Shape, Tensor, TensorType};
use tenon_base::{Error, ErrorKind, Result};

/// Bytes of the end of a string.
const END: usize = 8;

impl Tensor {
    /// A tensor of copies of `strings`.
    ///
    /// # Errors
    /// Another number of strings than the shape has elements.
    pub fn from_strings<S: AsRef<str>>(shape: impl Into<Shape>, strings: &[S]) -> Result<Self> {
        let ty = TensorType::new(DataType::String, shape)?;
        if strings.len() != ty.elements() {
            let error = misfit(&ty);
            return Err(error
                .expected(format_args!("{} strings", ty.elements()))
                .found(strings.len()));
        }
        let texts = || strings.iter().map(|text| text.as_ref().as_bytes());
        let total = texts().map(<[u8]>::len).sum::<usize>();
        let mut buffer = BufferMut::zeroed(strings.len() * END + total)?;
        let (ends, data) = buffer.split_at_mut(strings.len() * END);
        let mut end = 0;
        for (place, text) in ends.as_chunks_mut::<END>().0.iter_mut().zip(texts()) {
            data[end..end + text.len()].copy_from_slice(text);
            end += text.len();
            *place = (end as u64).to_le_bytes();
        }
        Self::new(ty, buffer.freeze())
    }

    /// The strings in row-major order; `None` for other types.
    pub fn strings(&self) -> Option<impl Iterator<Item = &str>> {
        (self.dtype() == DataType::String).then(|| Strings::new(self.bytes(), self.ty().elements()))
    }
}

/// Checks that the bytes are strings of this type.
pub(crate) fn check(ty: &TensorType, buffer: &Buffer) -> Result<()> {
    let count = ty.elements();
    let ends = count.checked_mul(END).filter(|&ends| ends <= buffer.len());
    let malformed = || misfit(ty).expected("the end of each string, then the UTF-8 bytes of all");
    let ends = ends.ok_or_else(malformed)?;
    let mut start = 0;
    let data = &buffer[ends..];
    for end in buffer[..ends].as_chunks::<END>().0 {
        let end = usize::try_from(u64::from_le_bytes(*end)).map_err(|_| malformed())?;
        let text = data.get(start..end).ok_or_else(malformed)?;
        std::str::from_utf8(text).map_err(|_| malformed())?;
        start = end;
    }
    match start == data.len() {
        true => Ok(()),
        false => Err(malformed()),
    }
}

fn misfit(ty: &TensorType) -> Error {
    let text = format!("the bytes do not fit a tensor {ty}");
    Error::new(ErrorKind::InvalidArgument, text)
}

/// The strings of checked bytes.
struct Strings<'a> {
    ends: std::slice::Iter<'a, [u8; END]>,
    data: &'a [u8],
    start: usize,
}

impl<'a> Strings<'a> {
    fn new(bytes: &'a [u8], count: usize) -> Self {
        let (ends, data) = bytes.split_at((count * END).min(bytes.len()));
        Self {
            ends: ends.as_chunks().0.iter(),
            data,
            start: 0,
        }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = u64::from_le_bytes(*self.ends.next()?) as usize;
        let text = self.data.get(self.start..end).unwrap_or_default();
        self.start = end;
        Some(std::str::from_utf8(text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(buffer: &[u8]) -> Buffer {
        BufferMut::copy_of(buffer).unwrap().freeze()
    }

    #[test]
    fn strings_are_kept_in_order() {
        let tensor = Tensor::from_strings([2, 2], &["a", "", "été", "b"]).unwrap();
        assert_eq!(tensor.ty().to_string(), "string[2, 2]");
        let found: Vec<&str> = tensor.strings().unwrap().collect();
        assert_eq!(found, ["a", "", "été", "b"]);
        let same = Tensor::new(tensor.ty().clone(), tensor.buffer().clone()).unwrap();
        assert_eq!(same, tensor);
        assert!(Tensor::scalar(1i64).unwrap().strings().is_none());
        assert!(Tensor::from_strings([2], &["a"]).is_err());
        let empty = Tensor::zeroed(tensor.ty().clone()).unwrap();
        assert_eq!(empty.strings().unwrap().collect::<String>(), "");
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let ty = TensorType::new(DataType::String, [1]).unwrap();
        let refused = |buffer: &[u8]| Tensor::new(ty.clone(), bytes(buffer)).is_err();
        let with_end = |end: u64, text: &[u8]| [&end.to_le_bytes(), text].concat();
        assert!(!refused(&with_end(2, b"ab")));
        assert!(refused(b"ab"));
        assert!(refused(&with_end(3, b"ab")));
        assert!(refused(&with_end(1, b"ab")));
        assert!(refused(&with_end(u64::MAX, b"ab")));
        assert!(refused(&with_end(1, b"\xff")));
        let two = TensorType::new(DataType::String, [2]).unwrap();
        let falling = [1u64.to_le_bytes(), 0u64.to_le_bytes()].concat();
        assert!(Tensor::new(two, bytes(&[&falling[..], b"a"].concat())).is_err());
        let huge = TensorType::new(DataType::String, [1 << 47]).unwrap();
        assert!(Tensor::new(huge, bytes(b"")).is_err());
    }
}
