//! The NaN check.

use crate::{Tap, TapParts, TapValue};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_kernels::Variables;
use tenon_tensor::{DataType, TensorType};

/// Fails an execution at the first NaN in the values of its nodes, with its position.
#[derive(Debug, Clone, Copy, Default)]
pub struct NanCheck;

impl Tap for NanCheck {
    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let Some(ty) = tapped.ty else {
            return Ok(());
        };
        match first_nan(ty.dtype(), tapped.bytes) {
            None => Ok(()),
            Some(element) => {
                Err(not_a_number(tapped.value, ty, element).at(Location::node(tapped.node)))
            }
        }
    }
}

/// A [`NanCheck`] before another tap.
pub(crate) struct NanCheckedTap<'a>(pub Option<&'a dyn Tap>);

impl Tap for NanCheckedTap<'_> {
    fn on_subgraph(&self, name: &str, variables: &Arc<Variables>) -> Result<()> {
        self.0
            .map_or(Ok(()), |tap| tap.on_subgraph(name, variables))
    }

    fn on_input(&self, tapped: TapValue<'_>) -> Result<()> {
        self.0.map_or(Ok(()), |tap| tap.on_input(tapped))
    }

    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        NanCheck.on_value(tapped)?;
        let other = self.0.filter(|tap| tap.selects(tapped.node));
        other.map_or(Ok(()), |tap| tap.on_value(tapped))
    }

    fn on_parts(&self, tapped: TapParts<'_>) -> Result<()> {
        let other = self.0.filter(|tap| tap.selects(tapped.node));
        other.map_or(Ok(()), |tap| tap.on_parts(tapped))
    }
}

/// Whether the environment enables the check for all executions.
pub(crate) fn is_enabled_by_environment() -> bool {
    std::env::var_os("TENON_CHECK_NAN").is_some_and(|value| value == "1")
}

fn not_a_number(value: &str, ty: &TensorType, element: usize) -> Error {
    let text = format!(
        "'{value}' holds NaN at {:?}, element {element} of {ty}",
        coordinates(ty.shape(), element)
    );
    Error::new(ErrorKind::NotANumber, text)
        .help("it is the first value with NaN: check the inputs of this node")
}

/// The first element that is NaN.
pub(crate) fn first_nan(dtype: DataType, bytes: &[u8]) -> Option<usize> {
    // A bit pattern above that of infinity, without the sign, is NaN (IEEE 754).
    let above = |bytes: &[u8], infinity: u64| {
        let mut pattern = [0; 8];
        pattern[..bytes.len()].copy_from_slice(bytes);
        let sign = 1 << (bytes.len() * 8 - 1);
        u64::from_le_bytes(pattern) & (sign - 1) > infinity
    };
    let (size, infinity) = match dtype {
        DataType::F16 => (2, 0x7c00),
        DataType::BF16 => (2, 0x7f80),
        DataType::F32 => (4, 0x7f80_0000),
        DataType::F64 => (8, 0x7ff0_0000_0000_0000),
        _ => return None,
    };
    bytes
        .chunks_exact(size)
        .position(|element| above(element, infinity))
}

/// The coordinates of an element of a row-major tensor, outermost first.
fn coordinates(shape: &[usize], mut element: usize) -> Vec<usize> {
    let mut coordinates: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let at = element % extent.max(1);
            element /= extent.max(1);
            at
        })
        .collect();
    coordinates.reverse();
    coordinates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_found_in_every_floating_point_type() {
        let f32s: Vec<u8> = [1.0f32, f32::INFINITY, -0.0, -f32::NAN, f32::NAN]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        assert_eq!(first_nan(DataType::F32, &f32s), Some(3));
        let f64s: Vec<u8> = [f64::MIN, f64::NEG_INFINITY, f64::NAN]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        assert_eq!(first_nan(DataType::F64, &f64s), Some(2));
        // 0x7c00 is infinity of f16, 0x7e00 its quiet NaN; 0x7f80 and 0x7fc0 of bf16.
        let halves = [0x00, 0x7c, 0x00, 0x7e];
        assert_eq!(first_nan(DataType::F16, &halves), Some(1));
        let brains = [0x80, 0xff, 0xc0, 0x7f];
        assert_eq!(first_nan(DataType::BF16, &brains), Some(1));
        assert_eq!(first_nan(DataType::BF16, &halves), None);
        assert_eq!(first_nan(DataType::I32, &[0xff; 8]), None);
    }

    #[test]
    fn errors_have_the_coordinates_of_the_element() {
        assert_eq!(coordinates(&[2, 3, 4], 23), [1, 2, 3]);
        assert_eq!(coordinates(&[2, 3, 4], 4), [0, 1, 0]);
        assert!(coordinates(&[], 0).is_empty());
        let ty = TensorType::new(DataType::F32, [2, 2]).unwrap();
        let error = not_a_number("y", &ty, 3).to_string();
        assert!(
            error.starts_with("'y' holds NaN at [1, 1], element 3 of f32[2, 2]"),
            "{error}"
        );
    }
}
