//! Primitives of BEF (bef 1.1): VBR integers, little-endian words and padding, and a
//! bounds-checked reader.

use tenon_base::{Error, ErrorKind, Location, Result};

/// The padding byte.
pub(crate) const PADDING: u8 = 0xCC;

/// Bytes under construction.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    /// The greatest alignment so far.
    pub(crate) alignment: usize,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            alignment: 1,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends a VBR integer: seven bits per byte, most significant group first.
    pub(crate) fn vbr(&mut self, value: u64) {
        let groups = vbr_length(value);
        for group in (0..groups).rev() {
            let bits = (value >> (7 * group)) as u8 & 0x7F;
            self.byte(if group == 0 { bits } else { bits | 0x80 });
        }
    }

    /// Pads until the position is a multiple of `alignment`.
    pub(crate) fn align(&mut self, alignment: usize) {
        self.align_after(alignment, 0);
    }

    /// Pads until the position `distance` bytes ahead is a multiple of `alignment`.
    pub(crate) fn align_after(&mut self, alignment: usize, distance: usize) {
        self.alignment = self.alignment.max(alignment);
        while !(self.position() + distance).is_multiple_of(alignment) {
            self.byte(PADDING);
        }
    }
}

/// Length of the VBR form of `value`.
pub(crate) fn vbr_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bounds-checked reader of a section or a part of it. Errors name the section and the byte of the
/// file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    section: &'static str,
    /// Offset of `bytes` in the file.
    base: usize,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(section: &'static str, base: usize, bytes: &'a [u8]) -> Self {
        Self {
            section,
            base,
            bytes,
            position: 0,
        }
    }

    /// An error at the current position.
    #[cold]
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidProgram, message).at(Location {
            field: Some(format!("section {}", self.section)),
            offset: Some((self.base + self.position) as u64),
            ..Location::default()
        })
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// A reader of the same section at `offset`.
    #[inline]
    pub(crate) fn at(&self, offset: u64) -> Result<Reader<'a>> {
        match usize::try_from(offset) {
            Ok(position) if position <= self.bytes.len() => Ok(Reader { position, ..*self }),
            _ => Err(self
                .error("an offset outside of the section")
                .expected(format!("at most {}", self.bytes.len()))
                .found(offset)),
        }
    }

    /// The next `length` bytes, and a reader of the rest.
    pub(crate) fn split(&self, length: usize) -> Result<(Reader<'a>, Reader<'a>)> {
        let end = self.position + self.bounded_count(length as u64, 1)?;
        let inner = Reader {
            bytes: &self.bytes[self.position..end],
            base: self.base + self.position,
            position: 0,
            ..*self
        };
        let rest = Reader {
            bytes: &self.bytes[end..],
            base: self.base + end,
            position: 0,
            ..*self
        };
        Ok((inner, rest))
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let Some(taken) = rest.get(..count) else {
            return Err(self.cut_short(count));
        };
        self.position += count;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.ahead().first_chunk() {
            Some(array) => {
                self.position += N;
                Ok(*array)
            }
            None => Err(self.cut_short(N)),
        }
    }

    #[cold]
    fn cut_short(&self, count: usize) -> Error {
        self.error("the section is truncated")
            .expected(format!("{count} more bytes"))
            .found(self.remaining())
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A VBR integer; most have one or two bytes.
    #[inline]
    pub(crate) fn vbr(&mut self) -> Result<u64> {
        match short_vbr(self.ahead()) {
            Some((value, length)) => {
                self.position += length;
                Ok(value)
            }
            None => self.long_vbr(),
        }
    }

    #[inline(never)]
    fn long_vbr(&mut self) -> Result<u64> {
        let start = *self;
        let mut value = 0u64;
        loop {
            let byte = self.byte()?;
            if value >> 57 != 0 {
                return Err(start.error("an integer of more than 64 bits"));
            }
            value = value << 7 | u64::from(byte & 0x7F);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    }

    /// Skips `count` VBR integers.
    pub(crate) fn skip_vbrs(&mut self, count: usize) -> Result<()> {
        let mut ends = (self.ahead().iter().enumerate()).filter(|(_, byte)| **byte < 0x80);
        let length = match count.checked_sub(1) {
            None => 0,
            Some(before) => match ends.nth(before) {
                Some((last, _)) => last + 1,
                None => return Err(self.cut_short(count)),
            },
        };
        self.position += length;
        Ok(())
    }

    /// A VBR integer that must fit 32 bits.
    #[inline]
    pub(crate) fn vbr32(&mut self) -> Result<u32> {
        let position = self.position;
        let value = self.vbr()?;
        match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => {
                let start = Reader { position, ..*self };
                Err(start.error("an integer of more than 32 bits").found(value))
            }
        }
    }

    /// Checks that `count` items of at least `size` bytes each fit the rest.
    pub(crate) fn bounded_count(&self, count: u64, size: usize) -> Result<usize> {
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / size => Ok(count),
            _ => Err(self
                .error("a count that exceeds the section")
                .expected(format!("at most {}", self.remaining() / size))
                .found(count)),
        }
    }

    /// A VBR count of items of at least `size` bytes each, checked against the rest.
    pub(crate) fn count(&mut self, size: usize) -> Result<usize> {
        let count = self.vbr()?;
        self.bounded_count(count, size)
    }

    /// The remaining bytes.
    #[inline]
    pub(crate) fn ahead(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// The current position in the file.
    pub(crate) fn offset(&self) -> u64 {
        (self.base + self.position) as u64
    }

    /// The same section, truncated at `end`.
    pub(crate) fn until(&self, end: usize) -> Reader<'a> {
        let end = end.clamp(self.position, self.bytes.len());
        Reader {
            bytes: &self.bytes[..end],
            ..*self
        }
    }

    /// Skips padding up to a multiple of `alignment` from the start of the section.
    pub(crate) fn align(&mut self, alignment: usize) -> Result<()> {
        let padding = self.position.next_multiple_of(alignment) - self.position;
        self.take(padding).map(|_| ())
    }
}

/// The value and the length of a VBR integer of at most three bytes.
#[inline(always)]
pub(crate) fn short_vbr(bytes: &[u8]) -> Option<(u64, usize)> {
    let low = |byte: u8| u64::from(byte & 0x7F);
    match *bytes {
        [a, ..] if a < 0x80 => Some((low(a), 1)),
        [a, b, ..] if b < 0x80 => Some((low(a) << 7 | low(b), 2)),
        [a, b, c, ..] if c < 0x80 => Some((low(a) << 14 | low(b) << 7 | low(c), 3)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vbr(value: u64) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.vbr(value);
        writer.bytes
    }

    #[test]
    fn vbr_has_the_most_significant_group_first() {
        assert_eq!(vbr(0), [0]);
        assert_eq!(vbr(0x7F), [0x7F]);
        assert_eq!(vbr(0x80), [0x81, 0x00]);
        assert_eq!(vbr(300), [0x82, 0x2C]);
        assert_eq!(
            vbr(u64::MAX),
            [0x81, 255, 255, 255, 255, 255, 255, 255, 255, 0x7F]
        );
    }

    #[test]
    fn vbr_round_trips() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let bytes = vbr(value);
                assert_eq!(bytes.len(), vbr_length(value));
                let mut reader = Reader::new("Test", 0, &bytes);
                assert_eq!(reader.vbr().unwrap(), value);
                assert_eq!(reader.remaining(), 0);
            }
        }
        assert!(Reader::new("Test", 0, &[0x83; 9]).vbr().is_err());
        let too_long = [0x82, 128, 128, 128, 128, 128, 128, 128, 128, 0];
        assert!(Reader::new("Test", 0, &too_long).vbr().is_err());
    }

    #[test]
    fn padding_is_0xcc() {
        let mut writer = Writer::new();
        writer.byte(1);
        writer.align_after(8, 4);
        assert_eq!(writer.bytes, [1, PADDING, PADDING, PADDING]);
        assert_eq!(writer.alignment, 8);
    }

    #[test]
    fn an_error_names_section_and_byte() {
        let mut reader = Reader::new("Kernels", 100, &[1, 2, 3]);
        reader.byte().unwrap();
        assert_eq!(
            reader.u32().unwrap_err().to_string(),
            "section Kernels: byte 101: the section is truncated: expected 4 more bytes, found 2"
        );
    }
}
