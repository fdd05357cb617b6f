//! Convolutions of f32 by weights of f16 or bf16: the image is read in pairs of channels, see `pairs`.

use super::conv::{BoundConv, Conv, ConvOperands, pad};
use super::pairs::{write_pairs, write_some_pairs};
use super::prepared::Weights;
use super::{split_scratch, total_len};
use crate::floats::FloatType;
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::{Gemm, RowWords, multiply};
use crate::simd::products::ProductKind;
use crate::simd::rows::{Geometry, Im2col, Matrix, PaddedIm2col, RowSource};
use tenon_backend::{Inputs, Outputs};
use tenon_base::Result;

impl Conv {
    /// The product with pairs of weights, where all other operands are of f32.
    pub(super) fn product_of_pairs(&self) -> Option<ProductKind> {
        let is_mixed = self.float == FloatType::F32 && self.packed_type() != FloatType::F32;
        is_mixed.then(|| self.level.product_of(self.packed_type()))
    }

    /// The shape of the image in pairs of channels, with its padding where that is stored.
    fn paired(&self) -> Geometry {
        Geometry {
            channels: self.shape.channels.div_ceil(2),
            ..self.padded().unwrap_or(self.shape)
        }
    }

    /// Whether pairs of f32 are read in place.
    fn has_pairs_in_place(&self) -> bool {
        self.padded().is_none() && self.shape.channels.is_multiple_of(2)
    }

    /// Words of the image in pairs of channels, of bf16, or of f32 where these are not read in place.
    pub(super) fn paired_image(&self) -> usize {
        let pairs = self.paired().input_len();
        pairs.saturating_mul(if self.has_pairs_in_place() { 1 } else { 2 })
    }

    /// Writes the image in pairs of channels.
    fn pair_image(&self, product: ProductKind, from: &[f32], to: &mut [f32]) {
        let channels = self.shape.channels;
        let Some(padded) = self.padded() else {
            return write_pairs(self.level, product, from, channels, to);
        };
        // In words.
        let each = channels.div_ceil(2)
            * if product == ProductKind::Bf16Pairs {
                1
            } else {
                2
            };
        let padded = Geometry {
            channels: each,
            ..padded
        };
        pad(&self.shape, &padded, 0.0, to, &|range, to| {
            write_some_pairs(self.level, product, &from[range], channels, to);
        });
    }

    /// Computes the output from the image in pairs of channels.
    fn run_paired<E: RowWords>(
        &self,
        image: &[E],
        weights: &[f32],
        operands: &ConvOperands<'_, f32>,
        output: &mut [f32],
    ) {
        let (shape, filters, rows) = (self.paired(), self.group_filters(), self.shape.pixels());
        let (depth, packed) = (
            shape.channels / self.groups,
            self.packed_group(self.positions()),
        );
        let origin = shape.before.map(|before| -(before as i32));
        for group in 0..self.groups {
            let first = group * filters;
            let bias = operands.bias.map(|bias| &bias[first..]);
            let gemm = Gemm {
                addend: operands.addend.map(|addend| &addend[first..]),
                ..self.gemm(&weights[group * packed..][..packed], self.positions(), bias)
            };
            let output = MatrixMut::new(&mut output[first..], rows, filters, self.filters);
            let (padded, matrix, windows);
            let a: &dyn RowSource<Element = E> = if self.padded().is_some() {
                padded = PaddedIm2col::new(image, shape);
                &padded
            } else if shape.is_pointwise() && self.groups == 1 {
                matrix = Matrix::new(image, rows, depth, depth);
                &matrix
            } else {
                windows = Im2col::new(image, shape, origin, group * depth, depth);
                &windows
            };
            multiply(self.level, a, &gemm, output);
        }
    }
}

impl BoundConv {
    /// f32 by weights of 16 bits.
    pub(super) fn run_pairs(
        &self,
        product: ProductKind,
        weights: &Weights,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        let conv = &self.conv;
        let sizes = conv.scratch();
        let scratch = super::scratch(outputs, total_len(sizes))?;
        let [.., image] = split_scratch(scratch, sizes);
        let operands = conv.float_operands(inputs)?;
        let output = outputs.slice::<f32>(0)?;
        let weights = weights.elements();
        if product == ProductKind::Bf16Pairs {
            let image = &mut image[..conv.paired().input_len()];
            conv.pair_image(product, operands.input, image);
            conv.run_paired(&*image, weights, &operands, output);
        } else if conv.has_pairs_in_place() {
            let pairs = operands.input.as_chunks::<2>().0;
            conv.run_paired(pairs, weights, &operands, output);
        } else {
            conv.pair_image(product, operands.input, image);
            conv.run_paired(image.as_chunks::<2>().0, weights, &operands, output);
        }
        Ok(())
    }
}
