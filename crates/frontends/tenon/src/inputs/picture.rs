//! Pictures: PNG and JPEG files as interleaved bytes, and scaling with a triangle filter.

use std::io::Cursor;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The largest picture that is decoded, in bytes.
const MAX_DECODED_BYTES: usize = 1 << 30;

/// The first bytes of every JPEG file.
const JPEG_SIGNATURE: [u8; 3] = [0xff, 0xd8, 0xff];

/// A decoded picture: rows of pixels of 8 bits a channel, without transparency.
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// 1 (luminance) or 3 (red, green, blue).
    pub(super) channels: usize,
    pub(super) bytes: Vec<u8>,
}

impl Picture {
    /// Reads a PNG or JPEG file.
    ///
    /// # Errors
    /// The file cannot be read; [`ErrorKind::InvalidArgument`]: it is neither, or broken, or decodes
    /// to more than 1 GiB.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, "read", error))?;
        let decoded = if bytes.starts_with(&JPEG_SIGNATURE) {
            Self::from_jpeg(&bytes)
        } else {
            Self::from_png(&bytes)
        };
        decoded.map_err(|text| {
            // Some decoders end their message with a line feed or a full stop.
            let text = text.trim_end_matches(['\n', '.']);
            Error::new(
                ErrorKind::InvalidArgument,
                format!("cannot decode the picture: {text}"),
            )
            .help("give a PNG or JPEG file")
            .at(Location::file(path))
        })
    }

    fn from_png(file: &[u8]) -> std::result::Result<Self, String> {
        let limits = png::Limits {
            bytes: MAX_DECODED_BYTES,
        };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
        // Palettes and fewer bits become 8 bits a channel.
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
        let size = reader.output_buffer_size().unwrap_or(usize::MAX);
        let mut bytes = zeros(size)?;
        let frame = reader.next_frame(&mut bytes).map_err(|e| e.to_string())?;
        bytes.truncate(frame.buffer_size());
        if frame.bit_depth == png::BitDepth::Sixteen {
            let samples = bytes.chunks_exact(2);
            bytes = samples
                .map(|sample| nearest_byte(u16::from_be_bytes([sample[0], sample[1]])))
                .collect();
        }
        let (stored, channels) = match frame.color_type {
            png::ColorType::Grayscale => (1, 1),
            png::ColorType::GrayscaleAlpha => (2, 1),
            png::ColorType::Rgba => (4, 3),
            png::ColorType::Rgb | png::ColorType::Indexed => (3, 3),
        };
        if stored != channels {
            let pixels = bytes.chunks_exact(stored);
            bytes = pixels
                .flat_map(|pixel| &pixel[..channels])
                .copied()
                .collect();
        }
        Ok(Self {
            width: frame.width as usize,
            height: frame.height as usize,
            channels,
            bytes,
        })
    }

    fn from_jpeg(file: &[u8]) -> std::result::Result<Self, String> {
        let options = DecoderOptions::default()
            .set_max_width(usize::from(u16::MAX))
            .set_max_height(usize::from(u16::MAX))
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        decoder
            .decode_headers()
            .map_err(|error| error.to_string())?;
        if decoder.input_colorspace() == Some(ColorSpace::Luma) {
            decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
        }
        let info = decoder.info().ok_or("it has no header")?;
        let mut bytes = zeros(decoder.output_buffer_size().unwrap_or(usize::MAX))?;
        let decoded = decoder.decode_into(&mut bytes);
        decoded.map_err(|error| error.to_string())?;
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        Ok(Self {
            width,
            height,
            channels: bytes.len() / (width * height).max(1),
            bytes,
        })
    }

    /// The picture in another size, each channel scaled with a triangle filter.
    pub(super) fn scaled(self, width: usize, height: usize) -> Result<Self> {
        if (self.width, self.height) == (width, height) {
            return Ok(self);
        }
        let failed = |error: resize::Error| {
            let text = format!("cannot scale the picture: {error}");
            Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!("{width} x {height} pixels"))
                .found(format_args!("{} x {}", self.width, self.height))
        };
        let (filter, format) = (resize::Type::Triangle, resize::Pixel::Gray8);
        let mut scaler =
            resize::new(self.width, self.height, width, height, format, filter).map_err(failed)?;
        let mut bytes = vec![0; width * height * self.channels];
        let mut scaled = vec![resize::px::Gray::new(0); width * height];
        for channel in 0..self.channels {
            let values = self.bytes.iter().skip(channel).step_by(self.channels);
            let plane: Vec<_> = values.map(|&value| resize::px::Gray::new(value)).collect();
            scaler.resize(&plane, &mut scaled).map_err(failed)?;
            let target = bytes.iter_mut().skip(channel).step_by(self.channels);
            target
                .zip(&scaled)
                .for_each(|(to, value)| *to = value.value());
        }
        Ok(Self {
            width,
            height,
            channels: self.channels,
            bytes,
        })
    }

    /// The bytes with this many channels: 1, of luminance as in ITU-R BT.709, or 3.
    pub(super) fn into_channels(self, channels: usize) -> Vec<u8> {
        match (self.channels, channels) {
            (3, 1) => {
                let pixels = self.bytes.chunks_exact(3);
                let luminance = pixels.map(|pixel| {
                    let [red, green, blue] = [0, 1, 2].map(|index| u32::from(pixel[index]));
                    ((2126 * red + 7152 * green + 722 * blue) / 10_000) as u8
                });
                luminance.collect()
            }
            (1, 3) => self.bytes.iter().flat_map(|&value| [value; 3]).collect(),
            _ => self.bytes,
        }
    }
}

/// A sample of 16 bits in 8 bits: both ranges end at 1, so that the byte is `sample / 257`, rounded.
fn nearest_byte(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}

/// Zeros for a decoder to fill.
fn zeros(size: usize) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if size > MAX_DECODED_BYTES || bytes.try_reserve_exact(size).is_err() {
        return Err(format!(
            "it decodes to {size} bytes, more than {MAX_DECODED_BYTES}"
        ));
    }
    bytes.resize(size, 0);
    Ok(bytes)
}
