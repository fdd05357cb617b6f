//! Sliding windows of convolutions and pools: kernel, strides, dilations, padding and output extents.

use crate::Attributes;
use crate::ops::shapes::{extent, invalid, positive, too_large};
use tenon_base::Result;

/// A window that slides over the spatial dimensions of a tensor. Every list has one entry for each
/// spatial dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Extents of the kernel.
    pub kernel: Vec<usize>,
    /// Distances between windows.
    pub strides: Vec<usize>,
    /// Distances between the elements of a window.
    pub dilations: Vec<usize>,
    /// Padding before the first element.
    pub pads_begin: Vec<usize>,
    /// Padding after the last element. With `ceil_mode` the last window may extend further.
    pub pads_end: Vec<usize>,
    /// Extents of the output.
    pub output: Vec<usize>,
}

/// The values of the attribute `auto_pad`.
#[derive(Clone, Copy, PartialEq)]
enum AutoPad {
    NotSet,
    Valid,
    SameUpper,
    SameLower,
}

impl Window {
    /// The window of a convolution or pool over `input` (spatial extents), from the attributes
    /// `strides`, `dilations`, `pads`, `auto_pad` and `ceil_mode`.
    pub fn sliding(attributes: &Attributes, input: &[usize], kernel: &[usize]) -> Result<Self> {
        let auto_pad = auto_pad(attributes)?;
        let mut window = Self::without_output(attributes, auto_pad, kernel, input.len())?;
        let ceil = attributes.flag("ceil_mode", false)?;
        for (axis, &extent) in input.iter().enumerate() {
            window.slide(axis, extent, auto_pad, ceil)?;
        }
        Ok(window)
    }

    /// The window of a transposed convolution over `input`, from the same attributes and
    /// `output_padding` and `output_shape`.
    pub fn transposed(attributes: &Attributes, input: &[usize], kernel: &[usize]) -> Result<Self> {
        let auto_pad = auto_pad(attributes)?;
        let rank = input.len();
        let mut window = Self::without_output(attributes, auto_pad, kernel, rank)?;
        let extra = match attributes.ints("output_padding")? {
            None | Some([]) => vec![0; rank],
            Some(values) => list(values, rank, "output_padding", extent)?,
        };
        let declared = match attributes.ints("output_shape")? {
            None | Some([]) => None,
            // The spatial extents; older exporters include batch and channels.
            Some(values) if values.len() == rank + 2 => {
                Some(list(&values[2..], rank, "output_shape", extent)?)
            }
            Some(values) => Some(list(values, rank, "output_shape", extent)?),
        };
        for (axis, &extent) in input.iter().enumerate() {
            let declared = declared.as_ref().map(|declared| declared[axis]);
            window.transpose(axis, extent, extra[axis], declared, auto_pad)?;
        }
        Ok(window)
    }

    /// The number of spatial dimensions.
    pub fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// The extent of the dilated kernel.
    pub fn dilated_kernel(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1)
            .saturating_mul(self.dilations[axis])
            .saturating_add(1)
    }

    fn without_output(
        attributes: &Attributes,
        auto_pad: AutoPad,
        kernel: &[usize],
        rank: usize,
    ) -> Result<Self> {
        if kernel.len() != rank {
            return Err(invalid("the kernel has the wrong number of dimensions")
                .expected(rank)
                .found(format_args!("{kernel:?}")));
        }
        if kernel.contains(&0) {
            return Err(invalid("the kernel is empty")
                .expected("extents of at least 1")
                .found(format_args!("{kernel:?}")));
        }
        let (pads_begin, pads_end) = match (auto_pad, attributes.ints("pads")?) {
            (AutoPad::NotSet, Some(values)) if !values.is_empty() => {
                let all = list(values, 2 * rank, "pads", extent)?;
                (all[..rank].to_vec(), all[rank..].to_vec())
            }
            _ => (vec![0; rank], vec![0; rank]),
        };
        Ok(Self {
            kernel: kernel.to_vec(),
            strides: steps(attributes, "strides", rank)?,
            dilations: steps(attributes, "dilations", rank)?,
            pads_begin,
            pads_end,
            output: vec![0; rank],
        })
    }

    fn slide(&mut self, axis: usize, input: usize, auto_pad: AutoPad, ceil: bool) -> Result<()> {
        // i128 holds every sum and product of two extents.
        let (input, stride) = (input as i128, self.strides[axis] as i128);
        let kernel = (self.kernel[axis] as i128 - 1) * self.dilations[axis] as i128 + 1;
        if matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
            let output = (input + stride - 1) / stride;
            let total = ((output - 1) * stride + kernel - input).max(0);
            let small = total / 2;
            let (begin, end) = match auto_pad {
                AutoPad::SameUpper => (small, total - small),
                _ => (total - small, small),
            };
            self.pads_begin[axis] = whole(begin, "the padding")?;
            self.pads_end[axis] = whole(end, "the padding")?;
            self.output[axis] = whole(output, "the output")?;
            return Ok(());
        }
        let begin = self.pads_begin[axis] as i128;
        let space = input + begin + self.pads_end[axis] as i128 - kernel;
        if space < 0 {
            return Err(
                invalid(format!("the kernel does not fit spatial dimension {axis}"))
                    .expected(format_args!(
                        "an input of at least {kernel} with its padding"
                    ))
                    .found(space + kernel),
            );
        }
        let mut output = space / stride + 1;
        if ceil {
            output += i128::from(space % stride != 0);
            // The last window must not start in the padding after the input.
            output -= i128::from((output - 1) * stride >= input + begin);
        }
        self.output[axis] = whole(output, "the output")?;
        Ok(())
    }

    fn transpose(
        &mut self,
        axis: usize,
        input: usize,
        extra: usize,
        declared: Option<usize>,
        auto_pad: AutoPad,
    ) -> Result<()> {
        let (input, stride) = (input as i128, self.strides[axis] as i128);
        let kernel = (self.kernel[axis] as i128 - 1) * self.dilations[axis] as i128 + 1;
        let whole_output = stride * (input - 1) + extra as i128 + kernel;
        let same = matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let output = match declared {
            Some(declared) => declared as i128,
            // Padding is not negative: a small kernel does not cover the whole output.
            None if same => whole_output.min(input * stride),
            None => whole_output - self.pads_begin[axis] as i128 - self.pads_end[axis] as i128,
        };
        if output < 0 {
            return Err(invalid(format!(
                "the padding leaves nothing of spatial dimension {axis}"
            ))
            .expected(format_args!("at most {whole_output}"))
            .found(whole_output - output));
        }
        if declared.is_some() || same {
            let total = (whole_output - output).max(0);
            let small = total / 2;
            let (begin, end) = match auto_pad {
                AutoPad::SameUpper => (small, total - small),
                _ => (total - small, small),
            };
            self.pads_begin[axis] = whole(begin, "the padding")?;
            self.pads_end[axis] = whole(end, "the padding")?;
        }
        self.output[axis] = whole(output, "the output")?;
        Ok(())
    }
}

fn auto_pad(attributes: &Attributes) -> Result<AutoPad> {
    Ok(match attributes.string("auto_pad", "NOTSET")? {
        "NOTSET" | "" => AutoPad::NotSet,
        "VALID" => AutoPad::Valid,
        "SAME_UPPER" => AutoPad::SameUpper,
        "SAME_LOWER" => AutoPad::SameLower,
        other => {
            return Err(invalid("attribute 'auto_pad' has an unknown value")
                .expected("NOTSET, VALID, SAME_UPPER or SAME_LOWER")
                .found(format_args!("'{other}'")));
        }
    })
}

fn steps(attributes: &Attributes, name: &str, rank: usize) -> Result<Vec<usize>> {
    match attributes.ints(name)? {
        None | Some([]) => Ok(vec![1; rank]),
        Some(values) => list(values, rank, name, positive),
    }
}

fn list(
    values: &[i64],
    expected: usize,
    name: &str,
    read: impl Fn(i64, &str) -> Result<usize>,
) -> Result<Vec<usize>> {
    if values.len() != expected {
        return Err(invalid(format!("attribute '{name}' has the wrong length"))
            .expected(expected)
            .found(format_args!("{values:?}")));
    }
    let name = format!("attribute '{name}'");
    values.iter().map(|&value| read(value, &name)).collect()
}

fn whole(value: i128, what: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| too_large(what, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    fn ints(values: &[i64]) -> Attribute {
        Attribute::Ints(values.to_vec())
    }

    #[test]
    fn padding_is_resolved_as_onnx_defines_it() {
        let auto = |mode: &str| {
            Attributes::new()
                .with("strides", ints(&[2]))
                .with("auto_pad", Attribute::String(mode.into()))
        };
        let upper = Window::sliding(&auto("SAME_UPPER"), &[6], &[3]).unwrap();
        assert_eq!(
            (upper.pads_begin[0], upper.pads_end[0], upper.output[0]),
            (0, 1, 3)
        );
        let lower = Window::sliding(&auto("SAME_LOWER"), &[6], &[3]).unwrap();
        assert_eq!(
            (lower.pads_begin[0], lower.pads_end[0], lower.output[0]),
            (1, 0, 3)
        );
        let valid = Window::sliding(&auto("VALID"), &[6], &[3]).unwrap();
        assert_eq!((valid.pads_end[0], valid.output[0]), (0, 2));
    }

    #[test]
    fn no_window_starts_after_the_input() {
        let attributes = Attributes::new()
            .with("strides", ints(&[2]))
            .with("pads", ints(&[0, 1]))
            .with("ceil_mode", Attribute::Int(1));
        assert_eq!(
            Window::sliding(&attributes, &[2], &[1]).unwrap().output,
            [1]
        );
        assert_eq!(
            Window::sliding(&attributes, &[5], &[3]).unwrap().output,
            [3]
        );
    }

    #[test]
    fn hostile_attributes_are_errors() {
        for (name, values) in [
            ("strides", vec![0]),
            ("strides", vec![1, 1]),
            ("dilations", vec![i64::MAX]),
            ("pads", vec![-1, 0]),
            ("pads", vec![0, i64::MIN]),
        ] {
            let attributes = Attributes::new().with(name, Attribute::Ints(values));
            assert!(Window::sliding(&attributes, &[5], &[3]).is_err(), "{name}");
        }
        let pads = Attributes::new().with("pads", ints(&[i64::MAX, i64::MAX]));
        assert!(Window::sliding(&pads, &[usize::MAX], &[1]).is_err());
        assert!(Window::sliding(&Attributes::new(), &[5], &[0]).is_err());
        assert!(Window::sliding(&Attributes::new(), &[2], &[3]).is_err());
        let strides = Attributes::new().with("strides", ints(&[i64::MAX]));
        assert!(Window::transposed(&strides, &[usize::MAX], &[1]).is_err());
    }
}
