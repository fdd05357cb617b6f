//! NumPy's file formats: `.npy`, one array, and `.npz`, a zip archive of named arrays (NEP 1).
//!
//! Arrays in Fortran order or big-endian are converted when read; an aligned little-endian array in
//! C order is used in the mapped file without a copy. Types unknown to NumPy are stored as
//! ml_dtypes stores them: `bf16` as `V2`, all float8 types as `V1`, which is ambiguous and
//! therefore only written. `tf32` and `f32r` are stored as `f4`.

use crate::atomic_file::AtomicFile;
use crate::{Buffer, BufferMut, DataType, Shape, Tensor, TensorType, View};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Maximum length of the header's text; that of a plain array has about a hundred bytes.
const HEADER_LIMIT: usize = 64 << 10;

/// Maximum rank, as in NumPy.
const RANK_LIMIT: usize = 64;

/// Reads an `.npy` file.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let map = || Buffer::map(&File::open(path)?);
    let file = map().map_err(|error| Error::io(path, "read", error))?;
    parse(&file).map_err(|error| error.at(Location::file(path)))
}

/// Reads the names and arrays of an `.npz` file, in file order.
pub fn read_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| Error::io(path, "read", error))?;
    parse_npz(io::BufReader::new(file)).map_err(|error| error.at(Location::file(path)))
}

/// Writes an `.npy` file atomically.
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let header = header(tensor)?;
    write_atomically(path.as_ref(), |file| {
        file.write_all(&header)?;
        file.write_all(tensor.bytes())
    })
}

/// Writes an `.npz` file atomically, without compression. Equal arrays give equal bytes.
pub fn write_npz(path: impl AsRef<Path>, arrays: &[(&str, &Tensor)]) -> Result<()> {
    let headers = arrays
        .iter()
        .map(|(_, tensor)| header(tensor))
        .collect::<Result<Vec<_>>>()?;
    write_atomically(path.as_ref(), |file| {
        let mut zip = ZipWriter::new(file);
        for ((name, tensor), header) in arrays.iter().zip(&headers) {
            // The default modification time is the earliest of the zip format, not now.
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .large_file(tensor.bytes().len() as u64 >= u64::from(u32::MAX) / 2);
            zip.start_file(format!("{name}.npy"), options)?;
            zip.write_all(header)?;
            zip.write_all(tensor.bytes())?;
        }
        zip.finish()?;
        Ok(())
    })
}

fn write_atomically(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let written = || {
        let mut file = AtomicFile::create(path)?;
        write(file.file())?;
        file.commit()
    };
    written().map_err(|error| Error::io(path, "write", error))
}

fn parse_npz(file: impl Read + Seek) -> Result<Vec<(String, Tensor)>> {
    let broken = |error: zip::result::ZipError| {
        invalid(format!("not a readable archive: {error}")).source(error)
    };
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut arrays = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        let full = entry.name().map_err(broken)?.into_owned();
        let Some(name) = full.strip_suffix(".npy").map(str::to_owned) else {
            continue;
        };
        let array = parse_entry(&mut entry);
        arrays.push((
            name.clone(),
            array.map_err(|error| error.at(Location::member(name)))?,
        ));
    }
    Ok(arrays)
}

/// Maximum size that is allocated before as many bytes were read.
const MAX_PREALLOCATION: usize = 16 << 20;

/// Reads one array of an archive: the header, then as many bytes as the header declares.
fn parse_entry(entry: &mut impl Read) -> Result<Tensor> {
    let failed = |error: io::Error| invalid(format!("cannot read: {error}")).source(error);
    let mut start = Vec::new();
    entry
        .take((HEADER_LIMIT + 12) as u64)
        .read_to_end(&mut start)
        .map_err(failed)?;
    let (array, offset) = Header::read(&start)?;
    let total = array.ty.bytes() + offset;
    // The declared length is untrusted: beyond the limit the vector grows with the bytes read.
    let rest = total - total.min(start.len());
    start.reserve_exact(rest.min(MAX_PREALLOCATION) + 1);
    entry
        .take(rest as u64 + 1)
        .read_to_end(&mut start)
        .map_err(failed)?;
    let data = start.get(offset..).unwrap_or_default();
    array.tensor(&BufferMut::copy_of(data)?.freeze())
}

/// Parses the bytes of an `.npy` file.
pub fn parse(file: &Buffer) -> Result<Tensor> {
    let (array, offset) = Header::read(file)?;
    let data = file.slice(offset..file.len());
    array.tensor(&data.ok_or_else(|| invalid("the header is cut short"))?)
}

/// The header of an `.npy` file.
struct Header {
    ty: TensorType,
    big_endian: bool,
    fortran_order: bool,
}

impl Header {
    /// The header of `file` and the offset of the data.
    fn read(file: &[u8]) -> Result<(Self, usize)> {
        let cut = || invalid("the header is cut short");
        let rest = file.strip_prefix(MAGIC);
        let rest = rest.ok_or_else(|| invalid("not an .npy file"))?;
        let ([major, _minor], rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let (length, width) = match major {
            1 => {
                let bytes = rest.first_chunk().ok_or_else(cut)?;
                (usize::from(u16::from_le_bytes(*bytes)), 2)
            }
            2 | 3 => {
                let bytes = rest.first_chunk().ok_or_else(cut)?;
                (u32::from_le_bytes(*bytes) as usize, 4)
            }
            _ => {
                let error = Error::new(ErrorKind::UnsupportedVersion, "an unknown .npy version");
                return Err(error.expected("1 to 3").found(major));
            }
        };
        if length > HEADER_LIMIT {
            let error = invalid("the header is too long for a plain array");
            return Err(error
                .expected(format_args!("at most {HEADER_LIMIT}"))
                .found(length));
        }
        let text = rest.get(width..width + length).ok_or_else(cut)?;
        Ok((Dictionary(text).read()?, MAGIC.len() + 2 + width + length))
    }

    /// The tensor of `data`, whose length must be that of the header's type.
    fn tensor(self, data: &Buffer) -> Result<Tensor> {
        if data.len() != self.ty.bytes() {
            return Err(
                invalid(format!("the data does not fill an array {}", self.ty))
                    .expected(format_args!("{} bytes", self.ty.bytes()))
                    .found(data.len()),
            );
        }
        let dtype = self.ty.dtype();
        if dtype == DataType::Bool && data.iter().any(|&byte| byte > 1) {
            return Err(invalid("a bool that is neither 0 nor 1"));
        }
        // The size of a scalar: half an element of a complex type.
        let scalar = dtype.alignment();
        let mut data = data.clone();
        if self.big_endian && scalar > 1 {
            let mut swapped = BufferMut::copy_of(&data)?;
            swapped.chunks_exact_mut(scalar).for_each(<[u8]>::reverse);
            data = swapped.freeze();
        } else if !(data.as_ptr() as usize).is_multiple_of(scalar) {
            data = BufferMut::copy_of(&data)?.freeze();
        }
        if !self.fortran_order || self.ty.shape().len() < 2 {
            return Tensor::new(self.ty, data);
        }
        // In Fortran order, the bytes are the transposed array in C order.
        let reversed: Vec<usize> = self.ty.shape().iter().rev().copied().collect();
        let order: Vec<usize> = (0..reversed.len()).rev().collect();
        let reversed = Tensor::new(TensorType::new(dtype, reversed)?, data)?;
        View::new(&reversed)?.permute(&order)?.to_tensor()
    }
}

/// Parser of the header's text, a Python dictionary of three keys.
struct Dictionary<'a>(&'a [u8]);

impl<'a> Dictionary<'a> {
    fn read(mut self) -> Result<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            match key {
                b"descr" => descr = Some(self.descr()?),
                b"fortran_order" => fortran_order = Some(self.boolean()?),
                b"shape" => shape = Some(self.shape()?),
                other => {
                    let error = invalid("an unknown key in the header");
                    return Err(error.found(other.escape_ascii()));
                }
            }
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        let missing = |key: &'static str| move || invalid(format!("the header lacks {key}"));
        let (dtype, big_endian) = descr.ok_or_else(missing("descr"))?;
        let ty = TensorType::new(dtype, shape.ok_or_else(missing("shape"))?)?;
        let fortran_order = fortran_order.ok_or_else(missing("fortran_order"))?;
        Ok(Header {
            ty,
            big_endian,
            fortran_order,
        })
    }

    fn space(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        match self.0.split_first() {
            Some((&first, rest)) if first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) {
            return Ok(());
        }
        let found = self
            .0
            .first()
            .map_or("the end".to_owned(), |b| b.escape_ascii().to_string());
        let error = invalid("the header is not a dictionary of three keys");
        Err(error
            .expected(format_args!("'{}'", byte.escape_ascii()))
            .found(found))
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        self.space();
        let quote = if self.take(b'"') { b'"' } else { b'\'' };
        if quote == b'\'' {
            self.expect(quote)?;
        }
        let end = self.0.iter().position(|&byte| byte == quote);
        let end = end.ok_or_else(|| invalid("an unterminated string in the header"))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(text)
    }

    fn word(&mut self) -> &'a [u8] {
        self.space();
        let end = self.0.iter().position(|byte| !byte.is_ascii_alphanumeric());
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    fn boolean(&mut self) -> Result<bool> {
        match self.word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            other => Err(invalid("fortran_order is not a bool").found(other.escape_ascii())),
        }
    }

    fn shape(&mut self) -> Result<Shape> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while !self.take(b')') {
            // Python 2 writes long integers with the suffix L.
            let word = self.word();
            let digits = word.strip_suffix(b"L").unwrap_or(word);
            let extent = std::str::from_utf8(digits)
                .ok()
                .and_then(|text| text.parse().ok());
            shape.push(extent.ok_or_else(|| {
                invalid("an extent is not an unsigned integer").found(word.escape_ascii())
            })?);
            if shape.len() > RANK_LIMIT {
                return Err(invalid("too many dimensions"));
            }
            if !self.take(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(Shape::new(shape))
    }

    /// The element type, and whether it is big-endian.
    fn descr(&mut self) -> Result<(DataType, bool)> {
        use DataType::*;
        self.space();
        if matches!(self.0.first(), Some(b'[' | b'(')) {
            return Err(unsupported("a structured array"));
        }
        let text = self.string()?;
        let (order, name) = match text.split_first() {
            Some((order @ (b'<' | b'>' | b'|' | b'='), name)) => (*order, name),
            _ => (b'|', text),
        };
        let dtype = match name {
            b"f2" => F16,
            b"f4" => F32,
            b"f8" => F64,
            b"i1" => I8,
            b"i2" => I16,
            b"i4" => I32,
            b"i8" => I64,
            b"u1" => U8,
            b"u2" => U16,
            b"u4" => U32,
            b"u8" => U64,
            b"b1" => Bool,
            b"c8" => C64,
            b"c16" => C128,
            b"V2" => BF16,
            b"V1" => {
                return Err(unsupported("an array of type V1, which is ambiguous")
                    .help("store a float8 array as float32, or its bits as uint8"));
            }
            [b'O', ..] => return Err(unsupported("an array of Python objects")),
            [b'U' | b'S' | b'a', ..] => return Err(unsupported("an array of strings")),
            [b'm' | b'M', ..] => return Err(unsupported("an array of datetime or timedelta")),
            other => {
                let error = unsupported("an array of an unknown type");
                return Err(error.found(other.escape_ascii()));
            }
        };
        Ok((dtype, order == b'>'))
    }
}

/// Magic, version and header of a tensor's file, padded so that the data is aligned to 64 bytes.
fn header(tensor: &Tensor) -> Result<Vec<u8>> {
    use DataType::*;
    let descr = match tensor.dtype() {
        F16 => "<f2",
        F32 | F32r | Tf32 => "<f4",
        F64 => "<f8",
        I8 => "|i1",
        I16 => "<i2",
        I32 => "<i4",
        I64 => "<i8",
        U8 => "|u1",
        U16 => "<u2",
        U32 => "<u4",
        U64 => "<u8",
        Bool => "|b1",
        C64 => "<c8",
        C128 => "<c16",
        BF16 => "<V2",
        F8E3M4 | F8E4M3 | F8E4M3Fn | F8E4M3FnUz | F8E5M2 | F8E5M2FnUz | F8E8M0Fnu => "<V1",
        I2 | U2 | I4 | U4 | F4E2M1Fn | String => {
            let text = format!("elements of type {} in .npy", tensor.dtype());
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    };
    let extents = tensor
        .shape()
        .iter()
        .map(|extent| format!("{extent}, "))
        .collect::<Vec<_>>();
    let shape = match &extents[..] {
        [one] => one.trim_end().to_owned(),
        many => many.concat().trim_end_matches(", ").to_owned(),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let length = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    text.extend(std::iter::repeat_n(' ', length - text.len() - 1));
    text.push('\n');
    // Fits for NumPy's 64 dimensions of 20 digits.
    let length = u16::try_from(length).map_err(|_| invalid("too many dimensions"))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn unsupported(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).help("save it as a plain numeric array")
}

#[cfg(test)]
#[path = "npy_tests.rs"]
mod tests;
