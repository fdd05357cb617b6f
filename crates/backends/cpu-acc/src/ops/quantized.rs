//! Products of integers of 8 bits with zero points: `MatMulInteger`, `QLinearMatMul`, `ConvInteger` and
//! `QLinearConv`. Elements less their zero points are i32, which the panels of `plain_matmul` sum.

mod convolution;
mod fused;
mod matmul;

pub(super) use convolution::kernel as convolution;
pub(super) use fused::{convolution as fused_convolution, matmul as fused_matmul};

use crate::floats::Floats;
use crate::ops::Kernel;
use crate::signature::{Signature, refuse};
use crate::simd::{Simd, VectorOp};
use tenon_backend::{Inputs, Reason, Refusal};
use tenon_base::Result;
use tenon_tensor::DataType;

/// The kernel of `MatMulInteger` and `QLinearMatMul`.
pub(super) fn matmul(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if signature.op.name == "MatMulInteger"
        && let Ok(kernel) = fused::integer_matmul(signature)
    {
        return Ok(kernel);
    }
    matmul::kernel(signature)
}

/// Columns of a panel.
const WIDTH: usize = 16;

/// The deepest product whose sums fit i32: the magnitude of a term is at most 255².
const MOST_DEPTH: usize = i32::MAX as usize / (255 * 255);

/// A type of 8 bits. Elements of i8 and their zero points are moved by 128, which leaves their difference.
#[derive(Clone, Copy)]
pub(super) struct ByteType {
    flip: u8,
}

impl ByteType {
    pub(super) fn of_input(signature: &Signature<'_>, input: usize) -> Result<Self, Refusal> {
        let found = signature.input(input)?.dtype();
        Self::of(found).ok_or_else(|| Reason::InputType { input, found }.into())
    }

    pub(super) fn of(dtype: DataType) -> Option<Self> {
        match dtype {
            DataType::U8 => Some(Self { flip: 0 }),
            DataType::I8 => Some(Self { flip: 0x80 }),
            _ => None,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        self.flip != 0
    }

    /// The bit that moves an element where it is flipped.
    pub(super) fn flip(self) -> u8 {
        self.flip
    }

    /// The element, moved to 0..=255.
    #[inline(always)]
    pub(super) fn moved(self, byte: u8) -> i32 {
        (byte ^ self.flip).into()
    }
}

/// A parameter with one element, or one for each row, column or filter.
#[derive(Clone, Copy)]
struct Parameter {
    input: usize,
    stride: usize,
}

impl Parameter {
    /// The parameter at `input`, of one element or of `count`. An omitted one has a stride of 0.
    fn of(signature: &Signature<'_>, input: usize, count: usize) -> Result<Self, Refusal> {
        let stride = match signature.optional(input).map(|ty| ty.elements()) {
            None | Some(1) => 0,
            Some(found) if found == count => 1,
            Some(_) => {
                return Err(refuse(format!(
                    "input {input} requires one element, or one per row, column or filter"
                )));
            }
        };
        Ok(Self { input, stride })
    }

    /// The zero points of the elements of input `of`.
    fn zero_point(
        signature: &Signature<'_>,
        input: usize,
        of: usize,
        count: usize,
    ) -> Result<Self, Refusal> {
        if let Some(zero) = signature.optional(input)
            && zero.dtype() != signature.input(of)?.dtype()
        {
            let found = zero.dtype();
            return Err(Reason::InputType { input, found }.into());
        }
        Self::of(signature, input, count)
    }
}

/// Zero points at run time.
struct ZeroPoints<'a> {
    elements: &'a [u8],
    stride: usize,
    ty: ByteType,
}

impl<'a> ZeroPoints<'a> {
    fn new(parameter: Parameter, ty: ByteType, inputs: &Inputs<'a>) -> Result<Self> {
        Ok(Self {
            elements: inputs.optional::<u8>(parameter.input)?.unwrap_or(&[0]),
            stride: parameter.stride,
            ty,
        })
    }

    /// The zero point, moved as the elements are.
    fn at(&self, index: usize) -> i32 {
        self.ty.moved(self.elements[index * self.stride])
    }
}

/// Checks the only element of a scale or zero point of the output.
fn check_scalar(signature: &Signature<'_>, input: usize) -> Result<(), Refusal> {
    match signature.input(input)?.elements() {
        1 => Ok(()),
        _ => Err(refuse(format!("input {input} requires one element"))),
    }
}

/// A row of sums as quantised elements: multiplied by a scale, rounded to even, the zero point added,
/// saturated.
struct Requantization<'a> {
    sums: &'a [i32],
    bias: f64,
    /// The scale of the row.
    scale: f64,
    /// The scale of each column.
    columns: Option<Floats<'a>>,
    /// The scale and the zero point of the output.
    y_scale: f64,
    y_zero: f64,
    signed: bool,
    to: &'a mut [u8],
}

impl VectorOp for Requantization<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let signed = self.signed;
        let element = |sum: i32, scale: f64| {
            let value = ((f64::from(sum) + self.bias) * scale).round_ties_even() + self.y_zero;
            if signed {
                value as i8 as u8
            } else {
                value as u8
            }
        };
        let elements = self.to.iter_mut().zip(self.sums);
        match self.columns {
            None => {
                let scale = self.scale / self.y_scale;
                for (to, &sum) in elements {
                    *to = element(sum, scale);
                }
            }
            Some(columns) => {
                for (column, (to, &sum)) in elements.enumerate() {
                    let scale = self.scale * f64::from(columns.get(column)) / self.y_scale;
                    *to = element(sum, scale);
                }
            }
        }
    }
}

/// The zero point of the output.
fn output_zero(inputs: &Inputs<'_>, input: usize, signed: bool) -> Result<f64> {
    let byte = inputs.slice::<u8>(input)?[0];
    Ok(if signed {
        f64::from(byte as i8)
    } else {
        f64::from(byte)
    })
}
