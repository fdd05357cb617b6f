//! Resizing: the extents and scales of each dimension.

use crate::Inference;
use crate::ops::shapes::{axes, choice, extent, invalid};
use tenon_base::Result;

/// The resizing of one dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizeAxis {
    /// The extent of the output.
    pub output: usize,
    /// The ratio of output and input extent for the computation of coordinates.
    pub scale: f32,
    /// The part of the input that is resized, as `tf_crop_and_resize` reads it (0 to 1).
    pub roi: (f32, f32),
}

/// The resizing of each dimension of the input of `Resize`; dimensions not in `axes` keep their extent.
pub fn resize_axes(node: &Inference<'_>) -> Result<Vec<ResizeAxis>> {
    let shape = node.input(0)?.shape();
    let named = match node.attributes.ints("axes")? {
        Some(values) => axes(values, shape.len(), "attribute 'axes'")?,
        None => (0..shape.len()).collect(),
    };
    let mut all: Vec<ResizeAxis> = shape
        .iter()
        .map(|&output| ResizeAxis {
            output,
            scale: 1.0,
            roi: (0.0, 1.0),
        })
        .collect();
    regions(node, &named, &mut all)?;
    // Older exporters write an omitted input as an empty tensor.
    let given = |index: usize| node.optional(index).is_some_and(|ty| ty.elements() > 0);
    match (given(2), given(3)) {
        (true, false) => by_scales(node, &named, &mut all)?,
        (false, true) => by_sizes(node, &named, &mut all)?,
        (both, _) => {
            return Err(invalid("the new extents are not clear")
                .expected("either input 'scales' or input 'sizes'")
                .found(if both { "both" } else { "none" }));
        }
    }
    Ok(all)
}

fn cropping(node: &Inference<'_>) -> Result<bool> {
    let mode = node
        .attributes
        .string("coordinate_transformation_mode", "half_pixel")?;
    Ok(mode == "tf_crop_and_resize")
}

fn regions(node: &Inference<'_>, named: &[usize], all: &mut [ResizeAxis]) -> Result<()> {
    if !cropping(node)? {
        return Ok(());
    }
    let roi = node.float_values(1)?.unwrap_or_default();
    check_length("roi", roi.len(), 2 * named.len())?;
    for (index, &axis) in named.iter().enumerate() {
        all[axis].roi = (roi[index] as f32, roi[named.len() + index] as f32);
    }
    Ok(())
}

fn by_scales(node: &Inference<'_>, named: &[usize], all: &mut [ResizeAxis]) -> Result<()> {
    let scales = node.float_values(2)?.unwrap_or_default();
    check_length("scales", scales.len(), named.len())?;
    for (&axis, &scale) in named.iter().zip(&scales) {
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(invalid("input 'scales' is out of range")
                .expected("values above 0")
                .found(scale));
        }
        let target = &mut all[axis];
        let scale = scale as f32;
        let part = target.roi.1 - target.roi.0;
        target.output = rounded((target.output as f32 * part * scale).floor(), "scales")?;
        target.scale = scale;
    }
    Ok(())
}

fn by_sizes(node: &Inference<'_>, named: &[usize], all: &mut [ResizeAxis]) -> Result<()> {
    let sizes = node.ints(3)?.unwrap_or_default();
    check_length("sizes", sizes.len(), named.len())?;
    let policies = ["stretch", "not_larger", "not_smaller"];
    let policy = choice(node, "keep_aspect_ratio_policy", "stretch", &policies)?;
    let mut ratios = Vec::with_capacity(named.len());
    for (&axis, &size) in named.iter().zip(&sizes) {
        let target = &mut all[axis];
        let size = extent(size, "input 'sizes'")?;
        if size > 0 && target.output == 0 {
            return Err(invalid("input 'sizes' enlarges an empty dimension").found(size));
        }
        let ratio = if target.output == 0 {
            1.0
        } else {
            size as f32 / target.output as f32
        };
        ratios.push(ratio);
        if policy == "stretch" {
            target.scale = ratio;
            target.output = size;
        }
    }
    let common = match policy {
        "not_larger" => ratios.iter().copied().fold(f32::INFINITY, f32::min),
        "not_smaller" => ratios.iter().copied().fold(0.0, f32::max),
        _ => return Ok(()),
    };
    for &axis in named {
        let target = &mut all[axis];
        target.output = rounded((target.output as f32 * common).round(), "sizes")?;
        target.scale = common;
    }
    Ok(())
}

/// An extent computed in single precision, as in the reference implementation.
fn rounded(length: f32, name: &str) -> Result<usize> {
    // The limit of extents; every smaller integer is exact in usize.
    if !(0.0..9e15).contains(&length) {
        return Err(invalid(format!("input '{name}' determines an invalid extent")).found(length));
    }
    Ok(length as usize)
}

fn check_length(name: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(invalid(format!("input '{name}' has the wrong length"))
        .expected(expected)
        .found(found))
}
