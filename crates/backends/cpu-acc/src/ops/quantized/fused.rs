//! `tenon.QuantizedConv`, `tenon.QuantizedMatMul` and `MatMulInteger` with constant weights: products of quantised operands
//! as sums of integers, which the epilogue converts to the quantised output or to f32, with a residual where there is one.
//!
//! With the zero points `x0` and `w0` the sum of `(x - x0) (w - w0)` over `K` elements is that of `x w`, less
//! `x0` times the sum of `w`, less `w0` times the sum of `x`, plus `K x0 w0` (Jacob et al., "Quantization and Training
//! of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018). The kernels multiply u8 by i8: elements of i8
//! on the left and of u8 on the right are moved by 128, and so are their zero points.

mod conversion;

use self::conversion::{Conversion, Converted, Parameters};
use super::{ByteType, MOST_DEPTH, Parameter};
use crate::activation::Activation;
use crate::floats::FloatType;
use crate::ops::conv::{pad, padded};
use crate::ops::prepared::{Fill, Preparation, Weights};
use crate::ops::{Kernel, scratch, split_scratch, total_len};
use crate::panels::{Panels, WIDTH, pack_words, packed_len};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::Gemm;
use crate::simd::row_elements::{RowPacking, bytes_mut, bytes_of};
use crate::simd::rows::{Geometry, Im2col, Matrix, PaddedIm2col, RowSource};
use crate::simd::typed_gemm::{Sink, TypedGemm};
use std::marker::PhantomData;
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::{DataType, Tensor};

/// The tag of the prepared layout: `[group][N / 16][K / 4][16][4]`, i8.
const LAYOUT: &str = "panels16x4:i8";

/// Elements of a word.
const QUAD: usize = 4;

/// The left operand of all operators.
const X: usize = 0;

/// The positions of the other inputs.
#[derive(Clone, Copy)]
struct InputPositions {
    x_scale: usize,
    x_zero: usize,
    w: usize,
    w_scale: usize,
    w_zero: usize,
    bias: usize,
    y_scale: usize,
    y_zero: usize,
    z: usize,
    z_scale: usize,
    z_zero: usize,
    /// Of the sums before Z is added.
    s_scale: usize,
    s_zero: usize,
}

/// Those of the fused operators.
const FUSED: InputPositions = InputPositions {
    x_scale: 1,
    x_zero: 2,
    w: 3,
    w_scale: 4,
    w_zero: 5,
    bias: 6,
    y_scale: 7,
    y_zero: 8,
    z: 9,
    z_scale: 10,
    z_zero: 11,
    s_scale: 12,
    s_zero: 13,
};

/// A position that no operator has an input at.
const NONE: usize = usize::MAX;

/// Those of `MatMulInteger`.
const INTEGERS: InputPositions = InputPositions {
    x_scale: NONE,
    x_zero: 2,
    w: 1,
    w_scale: NONE,
    w_zero: 3,
    bias: NONE,
    y_scale: NONE,
    y_zero: NONE,
    z: NONE,
    z_scale: NONE,
    z_zero: NONE,
    s_scale: NONE,
    s_zero: NONE,
};

/// The rows of the product.
#[derive(Debug, Clone, Copy)]
enum Rows {
    /// Of a matrix.
    Matrix(usize),
    /// The windows of images with the channels last.
    Windows(Geometry),
}

/// The elements of the output.
#[derive(Clone, Copy)]
enum Output {
    /// The sums.
    Integers,
    Floats,
    Quantized(ByteType),
}

/// The elements of the addend.
#[derive(Clone, Copy)]
enum AddendType {
    Floats,
    Bytes(ByteType),
}

/// A product of quantised operands.
#[derive(Clone, Copy)]
struct QuantizedProduct {
    level: Level,
    rows: Rows,
    /// Elements of a row that are multiplied, of one group.
    depth: usize,
    groups: usize,
    /// Columns of all groups.
    columns: usize,
    /// Elements of W from a column to the next, from a channel to the next and from a kernel position to the next.
    strides: [usize; 3],
    inputs: InputPositions,
    types: [ByteType; 2],
    output: Output,
    addend: Option<AddendType>,
    /// The type that the sums are rounded to before the addition, if they are.
    sum_type: ByteType,
    activation: Activation,
}

/// The kernel of `tenon.QuantizedConv`.
pub(in crate::ops) fn convolution(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let weights = signature.input(FUSED.w)?.shape();
    let &[filters, channels, ref kernel @ ..] = &weights[..] else {
        return Err(refuse("no kernel for weights without a kernel"));
    };
    let shape = signature.geometry(signature.input(X)?.shape(), kernel, false)?;
    let groups = usize::try_from(signature.int("group", 1)?).unwrap_or(1);
    if groups > 1 && filters / groups < WIDTH {
        return Err(refuse("no kernel for groups of less than 16 filters"));
    }
    let positions = shape.positions();
    let product = QuantizedProduct {
        rows: Rows::Windows(shape),
        depth: channels * positions,
        groups,
        columns: filters,
        strides: [channels * positions, positions, 1],
        ..QuantizedProduct::of(signature, FUSED)?
    };
    product.checked(signature)
}

/// The kernel of `tenon.QuantizedMatMul`.
pub(in crate::ops) fn matmul(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    product_of_matrices(signature, FUSED)
}

/// The kernel of `MatMulInteger` with constant weights.
pub(in crate::ops) fn integer_matmul(
    signature: &Signature<'_>,
) -> Result<Box<dyn Kernel>, Refusal> {
    product_of_matrices(signature, INTEGERS)
}

fn product_of_matrices(
    signature: &Signature<'_>,
    inputs: InputPositions,
) -> Result<Box<dyn Kernel>, Refusal> {
    let (a, b) = (
        signature.input(X)?.shape(),
        signature.input(inputs.w)?.shape(),
    );
    let transposed = signature.flag("trans_b", false)?;
    let ([rows @ .., depth], &[first, second]) = (&a[..], &b[..]) else {
        return Err(refuse("no kernel for operands of these ranks"));
    };
    let (columns, strides) = if transposed {
        (first, [*depth, 1, 0])
    } else {
        (second, [1, second, 0])
    };
    let product = QuantizedProduct {
        rows: Rows::Matrix(rows.iter().product()),
        depth: *depth,
        columns,
        strides,
        ..QuantizedProduct::of(signature, inputs)?
    };
    product.checked(signature)
}

impl QuantizedProduct {
    /// What both operators have.
    fn of(signature: &Signature<'_>, inputs: InputPositions) -> Result<Self, Refusal> {
        let output = match signature.output(0)?.dtype() {
            DataType::I32 => Output::Integers,
            DataType::F32 => Output::Floats,
            dtype => Output::Quantized(
                ByteType::of(dtype)
                    .ok_or_else(|| refuse("no kernel for the type of the output"))?,
            ),
        };
        let byte_type = |dtype: DataType| {
            ByteType::of(dtype).ok_or_else(|| refuse("no kernel for the type of the addend"))
        };
        let addend = match signature.optional(inputs.z).map(|ty| ty.dtype()) {
            None => None,
            Some(DataType::F32) => Some(AddendType::Floats),
            Some(dtype) => Some(AddendType::Bytes(byte_type(dtype)?)),
        };
        let sum_zero = signature.optional(inputs.s_zero);
        Ok(Self {
            level: signature.level,
            rows: Rows::Matrix(0),
            depth: 0,
            groups: 1,
            columns: 0,
            strides: [0; 3],
            inputs,
            types: [
                ByteType::of_input(signature, X)?,
                ByteType::of_input(signature, inputs.w)?,
            ],
            output,
            addend,
            sum_type: byte_type(sum_zero.map_or(DataType::U8, |ty| ty.dtype()))?,
            activation: Activation::of(signature)?,
        })
    }

    fn checked(self, signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
        let InputPositions {
            x_scale,
            x_zero,
            w,
            w_scale,
            w_zero,
            bias,
            y_scale,
            z,
            z_scale,
            z_zero,
            s_scale,
            s_zero,
            ..
        } = self.inputs;
        if !signature.is_constant(w) {
            return Err(Reason::NotConstant { input: w }.into());
        }
        if self.depth > MOST_DEPTH {
            return Err(refuse("no kernel for sums beyond 32 bits"));
        }
        Parameter::of(signature, x_scale, 1)?;
        Parameter::zero_point(signature, x_zero, X, 1)?;
        Parameter::of(signature, w_scale, self.columns)?;
        Parameter::zero_point(signature, w_zero, w, self.columns)?;
        Parameter::of(signature, y_scale, 1)?;
        for input in [x_scale, w_scale, bias, y_scale, z_scale, s_scale] {
            signature.float_input(input, FloatType::F32)?;
        }
        if let Some(addend) = signature.optional(z) {
            if addend.elements() != signature.output(0)?.elements() {
                return Err(refuse("no kernel for an addend of another shape"));
            }
            Parameter::of(signature, z_scale, 1)?;
            Parameter::zero_point(signature, z_zero, z, 1)?;
            Parameter::of(signature, s_scale, 1)?;
            Parameter::of(signature, s_zero, 1)?;
        }
        Ok(Box::new(self))
    }

    /// Columns of a group.
    fn group_columns(&self) -> usize {
        self.columns / self.groups
    }

    /// Rows of B in words.
    fn words(&self) -> usize {
        self.depth.div_ceil(QUAD)
    }

    /// Words of the packed weights of a group.
    fn packed_group(&self) -> usize {
        packed_len(self.words(), self.group_columns())
    }

    /// The columns of a group with those that complete its last panel.
    fn padded_columns(&self) -> usize {
        self.group_columns().next_multiple_of(WIDTH)
    }

    fn preparation<'a>(&self, fill: &'a dyn Fn(&[u8], &mut [u8])) -> Preparation<'a> {
        let offset = if self.types[1].is_signed() { 0 } else { 0x80 };
        Preparation {
            input: self.inputs.w,
            layout: LAYOUT,
            len: self.packed_group().saturating_mul(self.groups),
            fill: Fill::Integers {
                fill,
                offset,
                bits: 8,
            },
        }
    }

    /// Packs the weights: along the depth channels are innermost.
    fn fill(&self, from: &[u8], to: &mut [u8]) {
        let columns = self.group_columns();
        let [column_stride, channel_stride, position_stride] = self.strides;
        let channels = match self.rows {
            Rows::Matrix(_) => self.depth,
            Rows::Windows(shape) => shape.channels / self.groups,
        };
        let groups = to.chunks_exact_mut((self.packed_group() * QUAD).max(1));
        for (group, to) in groups.enumerate() {
            let source = |k: usize, column: usize| {
                let (position, channel) = (k / channels, k % channels);
                let first = (group * columns + column) * column_stride;
                first + channel * channel_stride + position * position_stride
            };
            pack_words::<QUAD>(from, [self.depth, columns], source, to);
        }
    }

    /// For each column of packed weights the sum of its elements.
    fn column_sums(&self, weights: &[f32]) -> Vec<i32> {
        let mut sums = Vec::with_capacity(self.groups * self.padded_columns());
        for panel in bytes_of(weights).chunks_exact((self.words() * WIDTH * QUAD).max(1)) {
            let mut panel_sums = [0i32; WIDTH];
            for (word, row) in panel.chunks_exact(WIDTH * QUAD).enumerate() {
                let count = (self.depth - word * QUAD).min(QUAD);
                for (sum, quad) in panel_sums.iter_mut().zip(row.as_chunks::<QUAD>().0) {
                    *sum += quad[..count]
                        .iter()
                        .map(|&byte| i32::from(byte as i8))
                        .sum::<i32>();
                }
            }
            sums.extend(panel_sums);
        }
        sums
    }

    /// The shape of the image with its padding, when whole kernel rows are read from a padded copy.
    fn padded(&self) -> Option<Geometry> {
        match self.rows {
            Rows::Windows(shape) if self.groups == 1 => padded(&shape),
            _ => None,
        }
    }

    /// Words of scratch memory: for each column its correction, factor, summand and zero point; for the padded image, or a
    /// pixel of the padding.
    fn scratch(&self) -> [usize; 5] {
        let columns = self.groups.saturating_mul(self.padded_columns());
        let padding = match (self.padded(), self.rows) {
            (Some(padded), _) => padded.input_len(),
            (None, Rows::Windows(shape)) => shape.channels / self.groups,
            (None, Rows::Matrix(_)) => 0,
        };
        [columns, columns, columns, columns, padding.div_ceil(QUAD)]
    }
}

impl Kernel for QuantizedProduct {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let fill = |from: &[u8], to: &mut [u8]| self.fill(from, to);
        let elements = total_len(self.scratch());
        Ok(WorkloadPlan {
            scratch_bytes: elements.saturating_mul(size_of::<f32>()),
            prepared: Vec::from_iter(self.preparation(&fill).planned(spec)?),
            ..WorkloadPlan::default()
        })
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        if input != self.inputs.w {
            return Ok(None);
        }
        self.preparation(&|from, to| self.fill(from, to))
            .plain(spec)
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let fill = |from: &[u8], to: &mut [u8]| self.fill(from, to);
        let weights = self.preparation(&fill).find(spec)?;
        Ok(Box::new(BoundProduct {
            sums: self.column_sums(weights.elements()),
            weights,
            product: *self,
        }))
    }
}

/// A product with its weights, ready to execute.
struct BoundProduct {
    product: QuantizedProduct,
    weights: Weights,
    /// Of each column of the packed weights.
    sums: Vec<i32>,
}

impl Workload for BoundProduct {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let product = &self.product;
        let (inputs, mut outputs) = operands.split();
        let scratch = scratch::<f32>(&mut outputs, total_len(product.scratch()))?;
        let [a, b, c, d, copy] = split_scratch(scratch, product.scratch());
        let parameters = Parameters::read(self, &inputs, [a, b, c, d])?;
        let mut input = inputs.slice::<u8>(X)?;
        let mut pixel: &[u8] = &[];
        let padded = product.padded();
        if let (Rows::Windows(shape), Some(padded)) = (product.rows, &padded) {
            let copy = &mut bytes_mut(copy)[..padded.input_len()];
            pad(&shape, padded, parameters.padding, copy, &|range, to| {
                to.copy_from_slice(&input[range]);
            });
            input = copy;
        } else {
            bytes_mut(copy).fill(parameters.padding);
            pixel = bytes_of(copy);
        }
        let images = (input, padded, pixel);
        match product.output {
            Output::Integers => self.run(images, &parameters, outputs.slice::<i32>(0)?),
            Output::Floats => self.run(images, &parameters, outputs.slice::<f32>(0)?),
            Output::Quantized(_) => self.run(images, &parameters, outputs.slice::<u8>(0)?),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != self.product.inputs.w
    }
}

impl BoundProduct {
    /// Computes all groups; with `padded` the input is the padded copy, else padding is read from `pixel`.
    fn run<T: Converted>(
        &self,
        (input, padded, pixel): (&[u8], Option<Geometry>, &[u8]),
        parameters: &Parameters<'_>,
        output: &mut [T],
    ) {
        let product = &self.product;
        let (packed, columns) = (product.packed_group(), product.group_columns());
        for group in 0..product.groups {
            let weights = &self.weights.elements()[group * packed..][..packed];
            let gemm = Gemm::new(Panels::new(weights, product.words(), columns));
            let sink = Conversion {
                parameters,
                first: group * product.padded_columns(),
                first_column: group * columns,
                element: PhantomData,
            };
            let packing = RowPacking {
                product: product.level.product_of_bytes(),
                signed: product.types[0].is_signed(),
                padding: parameters.padding,
                sums: parameters.w_zeros.is_some(),
            };
            let output = &mut output[group * columns..];
            match product.rows {
                Rows::Matrix(rows) => {
                    let a = Matrix::new(input, rows, product.depth, product.depth);
                    let output = MatrixMut::new(output, rows, columns, product.columns);
                    run(product.level, &a, &gemm, packing, &sink, output);
                }
                Rows::Windows(shape) => {
                    let depth = shape.channels / product.groups;
                    let origin = shape.before.map(|before| -(before as i32));
                    let output = MatrixMut::new(output, shape.pixels(), columns, product.columns);
                    let windows;
                    let rows;
                    let a: &dyn RowSource<Element = u8> = match padded {
                        Some(padded) => {
                            rows = PaddedIm2col::new(input, padded);
                            &rows
                        }
                        None => {
                            windows = Im2col::new(input, shape, origin, group * depth, depth)
                                .with_padding(pixel);
                            &windows
                        }
                    };
                    run(product.level, a, &gemm, packing, &sink, output);
                }
            }
        }
    }
}

/// Computes the product of one group.
fn run<K: Sink>(
    level: Level,
    a: &dyn RowSource<Element = u8>,
    gemm: &Gemm<'_>,
    packing: RowPacking,
    sink: &K,
    output: MatrixMut<'_, K::Element>,
) {
    let product = TypedGemm {
        a,
        gemm,
        packing,
        sink,
    };
    product.run(level, output);
}
