//! Pictures as inputs: read, scaled to the shape of the input, normalised.

use super::picture::Picture;
use std::collections::BTreeMap;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{DataType, Tensor, TensorType, convert};

/// Normalisation of a picture: a value v in 0..255 becomes `(v - mean) * scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// One value, or one for each channel.
    pub mean: Vec<f32>,
    /// One value, or one for each channel.
    pub scale: Vec<f32>,
    /// The position of the channels; derived from the shape if `None`.
    pub layout: Option<ImageLayout>,
}

/// The position of the channels in the shape of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageLayout {
    /// Channels before rows.
    Nchw,
    /// Channels last.
    Nhwc,
}

impl Default for ImageOptions {
    /// No normalisation.
    fn default() -> Self {
        Self {
            mean: vec![0.0],
            scale: vec![1.0],
            layout: None,
        }
    }
}

impl ImageOptions {
    /// The options in the metadata of a model (docs/package.md): `tenon.image.mean`, `.scale` and
    /// `.layout`; the default where one is absent.
    pub fn from_metadata(metadata: &BTreeMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        if let Some(mean) = float_list(metadata, "tenon.image.mean")? {
            options.mean = mean;
        }
        if let Some(scale) = float_list(metadata, "tenon.image.scale")? {
            options.scale = scale;
        }
        options.layout = match metadata.get("tenon.image.layout").map(String::as_str) {
            None => None,
            Some("nchw") => Some(ImageLayout::Nchw),
            Some("nhwc") => Some(ImageLayout::Nhwc),
            Some(other) => {
                return Err(
                    Error::new(ErrorKind::InvalidModel, "an unknown picture layout")
                        .expected("nchw or nhwc")
                        .found(other)
                        .at(Location::field("tenon.image.layout")),
                );
            }
        };
        Ok(options)
    }
}

/// The comma-separated floats of a metadata entry.
fn float_list(metadata: &BTreeMap<String, String>, key: &str) -> Result<Option<Vec<f32>>> {
    let Some(text) = metadata.get(key) else {
        return Ok(None);
    };
    let parsed: Result<Vec<f32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    parsed.map(Some).map_err(|_| {
        Error::new(
            ErrorKind::InvalidModel,
            "not a comma-separated list of floats",
        )
        .found(text)
        .at(Location::field(key))
    })
}

/// The three extents of a picture inside an input's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extents {
    layout: ImageLayout,
    channels: usize,
    height: usize,
    width: usize,
}

/// Reads a PNG or JPEG, scales it to the input's height and width (triangle filter), takes one or
/// three channels as the input has, and normalises.
pub fn read_image(path: &Path, ty: &TensorType, options: &ImageOptions) -> Result<Tensor> {
    let extents = extents(ty, options.layout).map_err(|error| error.at(Location::file(path)))?;
    let picture = Picture::read(path)?.scaled(extents.width, extents.height)?;
    let bytes = picture.into_channels(extents.channels);
    let values = normalise(&bytes, extents, options)?;
    let values = Tensor::from_slice(ty.shape().clone(), &values)?;
    match ty.dtype() {
        DataType::F32 => Ok(values),
        other => convert(&values, other),
    }
}

/// Finds height, width and channels in a shape of one picture.
fn extents(ty: &TensorType, layout: Option<ImageLayout>) -> Result<Extents> {
    let refused = || {
        Error::new(ErrorKind::InvalidArgument, "a picture does not fit the input")
            .expected("a shape [1, C, H, W], [1, H, W, C], [C, H, W], [H, W, C] or [H, W] with 1 or 3 channels")
            .found(ty)
    };
    let dims: &[usize] = ty.shape();
    let dims = match dims {
        [1, rest @ ..] if rest.len() == 3 => rest,
        [height, width] => {
            let (height, width) = (*height, *width);
            return Ok(Extents {
                layout: ImageLayout::Nchw,
                channels: 1,
                height,
                width,
            });
        }
        other => other,
    };
    let &[a, b, c] = dims else {
        return Err(refused());
    };
    let layout = layout.unwrap_or(match (a, c) {
        (1 | 3, _) => ImageLayout::Nchw,
        _ => ImageLayout::Nhwc,
    });
    let (channels, height, width) = match layout {
        ImageLayout::Nchw => (a, b, c),
        ImageLayout::Nhwc => (c, a, b),
    };
    let fits = |extent: usize| (1..=u16::MAX as usize).contains(&extent);
    if !matches!(channels, 1 | 3) || !fits(height) || !fits(width) {
        return Err(refused());
    }
    Ok(Extents {
        layout,
        channels,
        height,
        width,
    })
}

/// Interleaved bytes to normalised values in the input's layout.
fn normalise(bytes: &[u8], extents: Extents, options: &ImageOptions) -> Result<Vec<f32>> {
    let Extents {
        layout,
        channels,
        height,
        width,
    } = extents;
    let a_channel = |values: &[f32], what: &str| match values.len() {
        1 => Ok(vec![values[0]; channels]),
        n if n == channels => Ok(values.to_vec()),
        n => Err(Error::new(
            ErrorKind::Usage,
            format!("the {what} does not fit the channels"),
        )
        .expected(format_args!("1 number or {channels}"))
        .found(n)),
    };
    let mean = a_channel(&options.mean, "mean")?;
    let scale = a_channel(&options.scale, "scale")?;
    let area = height * width;
    let mut values = vec![0.0; area * channels];
    for (pixel, sample) in bytes.chunks_exact(channels).enumerate() {
        for (channel, &byte) in sample.iter().enumerate() {
            let value = (f32::from(byte) - mean[channel]) * scale[channel];
            let index = match layout {
                ImageLayout::Nchw => channel * area + pixel,
                ImageLayout::Nhwc => pixel * channels + channel,
            };
            values[index] = value;
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_png(path: &Path, [width, height]: [u32; 2], color: png::ColorType, bytes: &[u8]) {
        let file = std::fs::File::create(path).unwrap();
        let mut encoder = png::Encoder::new(file, width, height);
        encoder.set_color(color);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(bytes).unwrap();
    }

    fn picture(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("p.png");
        write_png(
            &path,
            [2, 1],
            png::ColorType::Rgb,
            &[10, 20, 30, 40, 50, 60],
        );
        path
    }

    #[test]
    fn channels_follow_the_layout() {
        let folder = tempfile::tempdir().unwrap();
        let path = picture(folder.path());
        let read = |shape: [usize; 4], scale: &[f32], layout| {
            let options = ImageOptions {
                mean: vec![10.0],
                scale: scale.to_vec(),
                layout,
            };
            let ty = TensorType::new(DataType::F32, shape).unwrap();
            read_image(&path, &ty, &options)
        };
        let values = |tensor: Result<Tensor>| tensor.unwrap().as_slice::<f32>().unwrap().to_vec();
        let planes = read([1, 3, 1, 2], &[0.5, 1.0, 2.0], None);
        assert_eq!(values(planes), [0.0, 15.0, 10.0, 40.0, 40.0, 100.0]);
        let pixels = read([1, 1, 2, 3], &[1.0], Some(ImageLayout::Nhwc));
        assert_eq!(values(pixels), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert!(read([1, 1, 1, 2], &[0.5, 1.0, 2.0], None).is_err());
    }

    #[test]
    fn a_shape_that_is_no_picture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = picture(folder.path());
        let ty = TensorType::new(DataType::F32, [2, 5, 7, 9]).unwrap();
        let error = read_image(&path, &ty, &ImageOptions::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a picture does not fit the input"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_no_picture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\nnothing").unwrap();
        let ty = TensorType::new(DataType::F32, [1, 1, 8, 8]).unwrap();
        let error = read_image(&path, &ty, &ImageOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let missing = read_image(&folder.path().join("none"), &ty, &ImageOptions::default());
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// A triangle filter halves the size by the weights 1, 3, 3, 1 of an axis, fewer at the edges.
    #[test]
    fn a_picture_of_another_size_is_scaled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.png");
        write_png(&path, [4, 1], png::ColorType::Grayscale, &[0, 80, 160, 240]);
        let ty = TensorType::new(DataType::F32, [1, 1, 1, 2]).unwrap();
        let scaled = read_image(&path, &ty, &ImageOptions::default()).unwrap();
        let halves = [
            (3.0 * 80.0 + 160.0) / 7.0,
            (80.0 + 3.0 * 160.0 + 3.0 * 240.0) / 7.0,
        ];
        for (found, expected) in scaled.as_slice::<f32>().unwrap().iter().zip(halves) {
            assert!((found - expected).abs() <= 1.0, "{found}, not {expected}");
        }
    }

    #[test]
    fn transparency_is_ignored_and_grey_becomes_colour() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.png");
        write_png(&path, [1, 1], png::ColorType::GrayscaleAlpha, &[77, 9]);
        let ty = TensorType::new(DataType::F32, [1, 3, 1, 1]).unwrap();
        let tensor = read_image(&path, &ty, &ImageOptions::default()).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [77.0; 3]);
    }

    /// The values of a picture without normalisation.
    fn values(path: &Path, shape: [usize; 4]) -> Vec<f32> {
        let ty = TensorType::new(DataType::F32, shape).unwrap();
        let tensor = read_image(path, &ty, &ImageOptions::default()).unwrap();
        tensor.as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn samples_of_16_bits_are_rounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.png");
        let write = |color, width, samples: &[u16]| {
            let file = std::fs::File::create(&path).unwrap();
            let mut encoder = png::Encoder::new(file, width, 1);
            encoder.set_color(color);
            encoder.set_depth(png::BitDepth::Sixteen);
            let bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_be_bytes()).collect();
            let mut writer = encoder.write_header().unwrap();
            writer.write_image_data(&bytes).unwrap();
        };
        // sample / 257: 0.498, 0.502, 0.992, 127.498, 127.502 and 254.498.
        let grey = [0, 128, 129, 255, 32_767, 32_768, 65_406, 65_535];
        write(png::ColorType::Grayscale, 8, &grey);
        let expected = [0.0, 0.0, 1.0, 1.0, 127.0, 128.0, 254.0, 255.0];
        assert_eq!(values(&path, [1, 1, 1, 8]), expected);
        write(
            png::ColorType::Rgba,
            1,
            &[10 * 257, 20 * 257 + 129, 30 * 257 - 129, 7],
        );
        assert_eq!(values(&path, [1, 3, 1, 1]), [10.0, 21.0, 29.0]);
    }

    /// Files of libjpeg with the values that libjpeg decodes; decoders may differ by rounding.
    #[test]
    fn a_jpeg_has_the_values_of_libjpeg() {
        let file = |name| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data")
                .join(name)
        };
        let assert_near = |found: f32, expected: f32| {
            assert!((found - expected).abs() <= 1.0, "{found}, not {expected}");
        };
        // Two blocks of one colour each.
        let colours = values(&file("blocks.jpg"), [1, 8, 16, 3]);
        for (index, pixel) in colours.chunks_exact(3).enumerate() {
            let block = [[200.0, 30.0, 59.0], [19.0, 120.0, 250.0]][index / 8 % 2];
            pixel
                .iter()
                .zip(block)
                .for_each(|(&found, expected)| assert_near(found, expected));
        }
        // A gradient: 16 a column, 8 a row.
        let grey = values(&file("grey.jpg"), [1, 1, 8, 8]);
        for (index, &found) in grey.iter().enumerate() {
            assert_near(found, (16 * (index % 8) + 8 * (index / 8)) as f32);
        }
    }
}
