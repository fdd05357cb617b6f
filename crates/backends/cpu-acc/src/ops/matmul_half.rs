//! Matrix products of f16 and bf16, computed in f32: blocks of rows, which are converted into scratch
//! memory that stays in the second level cache.

use super::matmul::MatMul;
use super::prepared::Weights;
use super::total_len;
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::panels::Panels;
use crate::simd::disjoint::MatrixMut;
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::rows::Matrix;
use tenon_backend::{Inputs, Outputs};
use tenon_base::{Result, stop};

/// Elements of A and of the output in a block, which stay in the second level cache.
const BLOCK: usize = 1 << 17;

/// The division into blocks, and the elements of scratch memory for each operand in f32.
pub(super) struct HalfBuffers {
    /// Rows of a block.
    rows: usize,
    packed: usize,
    b: usize,
    bias: usize,
    a: usize,
    output: usize,
    addend: usize,
}

impl HalfBuffers {
    /// The buffers of a product; `None` for f32.
    pub(super) fn of(matmul: &MatMul) -> Option<Self> {
        if matmul.float == FloatType::F32 {
            return None;
        }
        let (depth, columns) = (matmul.depth, matmul.columns);
        // All of B is read for each block.
        let elements = BLOCK.max(matmul.packed() / 2);
        let rows = elements / depth.saturating_add(columns).max(1);
        let rows = rows.clamp(1, matmul.rows.max(1));
        let output = rows.saturating_mul(columns);
        let if_variable = |len: usize| if matmul.constant { 0 } else { len };
        Some(Self {
            rows,
            packed: if_variable(matmul.packed()),
            b: if_variable(depth.saturating_mul(columns)),
            bias: matmul.bias.map_or(0, |_| columns),
            a: rows.saturating_mul(depth),
            output,
            addend: matmul.addend.map_or(0, |_| output),
        })
    }

    /// Elements of all buffers.
    pub(super) fn len(&self) -> usize {
        let Self {
            packed,
            b,
            bias,
            a,
            output,
            addend,
            ..
        } = *self;
        total_len([packed, b, bias, a, output, addend])
    }

    /// Computes the product. `pairs` has the indices of the matrices of A and B for each of the output.
    pub(super) fn run(
        &self,
        (matmul, pairs): (&MatMul, &[(usize, usize)]),
        weights: Option<&Weights>,
        (inputs, outputs): (&Inputs<'_>, &mut Outputs<'_>),
        scratch: &mut [f32],
    ) -> Result<()> {
        let MatMul {
            level,
            float,
            rows,
            depth,
            columns,
            activation,
            ..
        } = *matmul;
        let (packed, scratch) = scratch.split_at_mut(self.packed);
        let (b_buffer, scratch) = scratch.split_at_mut(self.b);
        let (bias_buffer, scratch) = scratch.split_at_mut(self.bias);
        let (a_buffer, scratch) = scratch.split_at_mut(self.a);
        let (output_buffer, addend_buffer) = scratch.split_at_mut(self.output);
        let optional = |index: Option<usize>| {
            let input = index.map(|index| Floats::input(inputs, index, float));
            input.transpose()
        };
        let a = Floats::input(inputs, 0, float)?;
        let b = optional(weights.is_none().then_some(1))?;
        let addend = optional(matmul.addend)?;
        let bias = optional(matmul.bias)?;
        if let Some(bias) = bias {
            bias.copy(level, 0..columns, bias_buffer);
        }
        let mut output = FloatsMut::output(outputs, 0, float)?;
        let mut packed_matrix = None;
        for (index, &(a_index, b_index)) in pairs.iter().enumerate() {
            let size = matmul.packed();
            if let Some(b) = b
                && packed_matrix != Some(b_index)
            {
                let first = b_index * b_buffer.len();
                b.copy(level, first..first + b_buffer.len(), b_buffer);
                matmul.pack(b_buffer, packed);
                packed_matrix = Some(b_index);
            }
            let panels = match weights {
                Some(weights) => &weights.elements()[b_index * size..][..size],
                None => packed,
            };
            for first in (0..rows).step_by(self.rows) {
                stop::checkpoint();
                let count = self.rows.min(rows - first);
                let from = (a_index * rows + first) * depth;
                let a = a.load(level, from..from + count * depth, a_buffer);
                let to = (index * rows + first) * columns;
                let to = to..to + count * columns;
                if let Some(addend) = addend {
                    addend.copy(level, to.clone(), &mut addend_buffer[..to.len()]);
                }
                let gemm = Gemm {
                    panels: Panels::new(panels, depth, columns),
                    bias: bias.map(|_| &*bias_buffer),
                    addend: addend.map(|_| &addend_buffer[..to.len()]),
                    scale: matmul.scale,
                    limits: activation.limits,
                    function: activation.function,
                };
                let block = &mut output_buffer[..to.len()];
                let a = Matrix::new(a, count, depth, depth);
                multiply(
                    level,
                    &a,
                    &gemm,
                    MatrixMut::new(block, count, columns, columns),
                );
                output.write(level, to, block);
            }
        }
        Ok(())
    }
}
