//! `MatMulInteger` and `QLinearMatMul`.

use super::{
    ByteType, MOST_DEPTH, Parameter, Requantization, WIDTH, ZeroPoints, check_scalar, output_zero,
};
use crate::floats::{FloatType, Floats};
use crate::ops::matmul::{extend_vectors, pair_batches};
use crate::ops::plain_matmul::{MAX_TILE_ROWS, PlainRows};
use crate::ops::{Kernel, chunk_rows, scratch, split_scratch, total_len};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk2;
use tenon_backend::{Inputs, Operands, Outputs, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::{Element, Shape};

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 16;

/// A batched product of integers, `[batch, M, K] x [batch, K, N]`.
struct IntegerMatMul {
    level: Level,
    rows: usize,
    depth: usize,
    columns: usize,
    /// The batch dimensions of the output, of A and of B.
    batches: [Shape; 3],
    /// The input of B.
    b: usize,
    types: [ByteType; 2],
    /// The zero points of A and B.
    zeros: [Parameter; 2],
    quantized: Option<Quantized>,
}

/// The scales of a product whose output is quantised.
#[derive(Clone, Copy)]
struct Quantized {
    /// Of A and B.
    scales: [Parameter; 2],
    /// The types of the scales of A, B and the output.
    floats: [FloatType; 3],
    ty: ByteType,
}

/// The kernel.
pub(in crate::ops) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let quantized = signature.op.name == "QLinearMatMul";
    let [a_zero, b, b_zero] = if quantized { [2, 3, 5] } else { [2, 1, 3] };
    let mut shapes = [0, b].map(|input| signature.input(input).map(|ty| ty.shape().to_vec()));
    let [Ok(a_shape), Ok(b_shape)] = &mut shapes else {
        return Err(refuse("an operand is missing"));
    };
    extend_vectors(a_shape, b_shape);
    let ([a_batch @ .., rows, depth], [b_batch @ .., b_depth, columns]) =
        (&a_shape[..], &b_shape[..])
    else {
        return Err(refuse("no kernel for scalars as operands"));
    };
    let (rows, depth, columns) = (*rows, *depth, *columns);
    let (a_batch, b_batch) = (Shape::new(a_batch), Shape::new(b_batch));
    let batch = a_batch.broadcast(&b_batch);
    let batch = batch.filter(|_| *b_depth == depth);
    let batch = batch.ok_or_else(|| refuse("the operands do not fit"))?;
    let types = [
        ByteType::of_input(signature, 0)?,
        ByteType::of_input(signature, b)?,
    ];
    let zeros = [
        Parameter::zero_point(signature, a_zero, 0, rows)?,
        Parameter::zero_point(signature, b_zero, b, columns)?,
    ];
    let quantized = if quantized {
        if depth > MOST_DEPTH {
            return Err(refuse("no kernel for sums beyond 32 bits"));
        }
        check_scalar(signature, 6)?;
        check_scalar(signature, 7)?;
        let float = |input: usize| FloatType::of_input(signature.input(input)?.dtype(), input);
        Some(Quantized {
            scales: [
                Parameter::of(signature, 1, rows)?,
                Parameter::of(signature, 4, columns)?,
            ],
            floats: [float(1)?, float(4)?, float(6)?],
            ty: ByteType::of_input(signature, 7)?,
        })
    } else {
        None
    };
    Ok(Box::new(IntegerMatMul {
        level: signature.level,
        rows,
        depth,
        columns,
        batches: [batch, a_batch, b_batch],
        b,
        types,
        zeros,
        quantized,
    }))
}

impl IntegerMatMul {
    /// Elements of scratch memory for a packed matrix of B, and for rows of A with their sums.
    fn scratch(&self) -> [usize; 2] {
        let packed = self.columns.div_ceil(WIDTH).saturating_mul(WIDTH);
        let row = self.depth.saturating_add(self.columns);
        [
            packed.saturating_mul(self.depth),
            self.rows.saturating_mul(row),
        ]
    }

    /// Packs one matrix of B.
    fn pack(&self, from: &[u8], zeros: &ZeroPoints<'_>, to: &mut [i32]) {
        for (panel, to) in to.chunks_exact_mut(self.depth * WIDTH).enumerate() {
            let first = panel * WIDTH;
            let count = (self.columns - first).min(WIDTH);
            let mut zero = [0; WIDTH];
            for (column, zero) in zero.iter_mut().enumerate().take(count) {
                *zero = zeros.at(first + column);
            }
            let rows = from.chunks_exact(self.columns);
            for (to, from) in to.chunks_exact_mut(WIDTH).zip(rows) {
                let from = &from[first..first + count];
                for ((to, &byte), zero) in to.iter_mut().zip(from).zip(&zero) {
                    *to = zeros.ty.moved(byte) - zero;
                }
                to[count..].fill(0);
            }
        }
    }
}

impl Kernel for IntegerMatMul {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan {
            scratch_bytes: total_len(self.scratch()).saturating_mul(size_of::<i32>()),
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(BoundIntegerMatMul {
            pairs: pair_batches(&self.batches)?,
            matmul: *self,
        }))
    }
}

/// A product, ready to execute.
struct BoundIntegerMatMul {
    matmul: IntegerMatMul,
    /// For each matrix of the output the indices of its matrices of A and B.
    pairs: Vec<(usize, usize)>,
}

impl Workload for BoundIntegerMatMul {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let Some(quantized) = self.matmul.quantized else {
            let copy = |_, sums: &[i32], to: &mut [i32]| to.copy_from_slice(sums);
            return self.compute(&inputs, &mut outputs, copy);
        };
        let scales =
            |nth: usize, input: usize| Floats::input(&inputs, input, quantized.floats[nth]);
        let (a_scale, b_scale, y_scale) = (scales(0, 1)?, scales(1, 4)?, scales(2, 6)?);
        let signed = quantized.ty.is_signed();
        let y_zero = output_zero(&inputs, 7, signed)?;
        let [a, b] = quantized.scales;
        let level = self.matmul.level;
        self.compute(&inputs, &mut outputs, |row, sums, to: &mut [u8]| {
            let scale = f64::from(a_scale.get(row * a.stride));
            let whole = (b.stride == 0).then(|| f64::from(b_scale.get(0)));
            level.run(Requantization {
                sums,
                bias: 0.0,
                scale: scale * whole.unwrap_or(1.0),
                columns: whole.is_none().then_some(b_scale),
                y_scale: y_scale.get(0).into(),
                y_zero,
                signed,
                to,
            });
        })
    }
}

impl BoundIntegerMatMul {
    /// Computes all sums; `finish` converts those of a row to elements of the output.
    fn compute<Y: Element>(
        &self,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
        finish: impl Fn(usize, &[i32], &mut [Y]) + Sync,
    ) -> Result<()> {
        let matmul = &self.matmul;
        let (a, b) = (inputs.slice::<u8>(0)?, inputs.slice::<u8>(matmul.b)?);
        let [a_type, b_type] = matmul.types;
        let a_zeros = ZeroPoints::new(matmul.zeros[0], a_type, inputs)?;
        let b_zeros = ZeroPoints::new(matmul.zeros[1], b_type, inputs)?;
        let output = outputs.slice::<Y>(0)?;
        let (rows, depth, columns) = (matmul.rows, matmul.depth, matmul.columns);
        let sizes = matmul.scratch();
        let scratch = scratch::<i32>(outputs, total_len(sizes))?;
        let [packed, work] = split_scratch(scratch, sizes);
        let parallel = (rows * columns).saturating_mul(depth) >= PARALLEL_OPERATIONS;
        let chunk = chunk_rows(rows, parallel).next_multiple_of(MAX_TILE_ROWS);
        let mut packed_matrix = None;
        let matrices = output.chunks_exact_mut(rows * columns);
        for (output, &(a_index, b_index)) in matrices.zip(&self.pairs) {
            if packed_matrix != Some(b_index) {
                let b = &b[b_index * depth * columns..][..depth * columns];
                matmul.pack(b, &b_zeros, packed);
                packed_matrix = Some(b_index);
            }
            let (a, panels) = (&a[a_index * rows * depth..][..rows * depth], &*packed);
            let work = (&mut *work, chunk * (depth + columns));
            for_each_chunk2(
                (output, chunk * columns),
                work,
                parallel,
                |index, output, work| {
                    let first = index * chunk;
                    let count = output.len() / columns;
                    let (wide, sums) = work.split_at_mut(count * depth);
                    let sums = &mut sums[..count * columns];
                    let from = a[first * depth..].chunks_exact(depth);
                    for (row, (to, from)) in wide.chunks_exact_mut(depth).zip(from).enumerate() {
                        let zero = a_zeros.at(first + row);
                        for (to, &byte) in to.iter_mut().zip(from) {
                            *to = a_type.moved(byte) - zero;
                        }
                    }
                    matmul.level.run(PlainRows::<i32, WIDTH> {
                        a: wide,
                        panels,
                        depth,
                        columns,
                        output: sums,
                    });
                    let sums = sums.chunks_exact(columns);
                    for (row, (sums, to)) in sums.zip(output.chunks_exact_mut(columns)).enumerate()
                    {
                        finish(first + row, sums, to);
                    }
                },
            );
        }
        Ok(())
    }
}
