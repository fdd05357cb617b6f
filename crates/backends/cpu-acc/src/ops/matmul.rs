//! Matrix products: `tenon.MatMul`, `MatMul`, `Gemm`. A is read where it lies; B is in panels,
//! prepared when it is a constant, else packed into scratch memory.

use super::Kernel;
use super::prepared::{Preparation, Weights};
use crate::activation::Activation;
use crate::panels::{LAYOUT, Panels, WIDTH, pack_columns, pack_rows, packed_len};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Level;
use crate::simd::disjoint::{Blocks, MatrixMut, for_each_block, for_each_chunk, for_each_chunk2};
use crate::simd::gemm::{Product, multiply};
use crate::simd::rows::Matrix;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, bounded, pool};
use tenon_tensor::{Shape, Tensor};

/// Places for packed matrices when there are many: more threads than that do not help.
const SLOTS: usize = 16;

/// Operations of a product that is worth several threads by itself.
const ALONE_OPERATIONS: usize = 16 << 20;

/// So many products keep threads busy however they are dealt out.
const EVEN: usize = 16;
// There is a place for each of fewer.
const _: () = assert!(EVEN <= SLOTS);

/// Numbers below which packing is not shared with other threads.
const PARALLEL_PACKING: usize = 1 << 16;

/// Columns of a tile of the output at least.
const PART_COLUMNS: usize = 2 * WIDTH;

/// A product of stacks of matrices, `[batch, M, K] x [batch, K, N]`.
#[derive(Debug, Clone)]
struct MatMul {
    level: Level,
    rows: usize,
    depth: usize,
    columns: usize,
    /// Whether B is stored as `[N, K]`.
    transposed: bool,
    /// Matrices of the output.
    count: usize,
    /// How those of the output, of A and of B are stacked.
    stacks: [Shape; 3],
    /// Matrices of B.
    b_count: usize,
    /// Whether B is a constant.
    constant: bool,
    scale: f32,
    activation: Activation,
    /// The inputs that hold them.
    bias: Option<usize>,
    addend: Option<usize>,
}

/// `tenon.MatMul`.
pub(super) fn fused(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if signature.flag("trans_a", false)? {
        return Err(refuse_attribute("trans_a", 1));
    }
    let mut product = MatMul::of(signature, signature.flag("trans_b", false)?)?;
    product.scale = signature.float("scale", 1.0)?;
    product.activation = Activation::of(signature)?;
    if let Some(bias) = signature.optional_numbers(2)? {
        product.check_bias(bias)?;
        product.bias = Some(2);
    }
    if let Some(addend) = signature.optional_numbers(3)? {
        if addend != signature.only_output()? {
            return Err(refuse(format!("no kernel for an addend of shape {addend}")));
        }
        product.addend = Some(3);
    }
    Ok(Box::new(product))
}

/// ONNX `MatMul`.
pub(super) fn plain(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(MatMul::of(signature, false)?))
}

/// ONNX `Gemm`.
pub(super) fn gemm(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if signature.flag("transA", false)? {
        return Err(refuse_attribute("transA", 1));
    }
    let mut product = MatMul::of(signature, signature.flag("transB", false)?)?;
    product.scale = signature.float("alpha", 1.0)?;
    if let Some(c) = signature.optional_numbers(2)? {
        let beta = signature.float("beta", 1.0)?;
        if beta != 1.0 {
            return Err(refuse_attribute("beta", beta));
        }
        if c == signature.only_output()? {
            product.addend = Some(2);
        } else {
            product.check_bias(c)?;
            product.bias = Some(2);
        }
    }
    Ok(Box::new(product))
}

impl MatMul {
    /// The product of inputs 0 and 1.
    fn of(signature: &Signature<'_>, transposed: bool) -> Result<Self, Refusal> {
        let (a, b) = (signature.numbers(0)?, signature.numbers(1)?);
        let output = signature.only_output()?;
        let ([a_batch @ .., rows, depth], [b_batch @ .., first, second]) = (&a[..], &b[..]) else {
            return Err(refuse("no kernel for vectors as operands"));
        };
        let (b_depth, columns) = if transposed {
            (*second, *first)
        } else {
            (*first, *second)
        };
        let (a_batch, b_batch) = (Shape::new(a_batch), Shape::new(b_batch));
        let batch = a_batch
            .broadcast(&b_batch)
            .ok_or_else(|| refuse("the shapes do not fit"))?;
        let expected: Vec<usize> = batch.iter().copied().chain([*rows, columns]).collect();
        if b_depth != *depth || output[..] != expected[..] {
            return Err(refuse("the shapes do not fit"));
        }
        let mut product = Self {
            level: signature.level,
            rows: *rows,
            depth: *depth,
            columns,
            transposed,
            count: batch.elements(),
            b_count: b_batch.elements(),
            stacks: [batch, a_batch, b_batch],
            constant: signature.is_constant(1),
            scale: 1.0,
            activation: Activation::NONE,
            bias: None,
            addend: None,
        };
        if product.b_count == 1 && product.stacks[1].elements() == product.count {
            // One B for all: the matrices of A lie one below the other.
            product.rows *= product.count;
            product.count = 1;
            product.stacks = std::array::from_fn(|_| Shape::default());
        }
        Ok(product)
    }

    fn check_bias(&self, bias: &Shape) -> Result<(), Refusal> {
        let along_columns = bias.last() == Some(&self.columns) && bias.elements() == self.columns;
        along_columns
            .then_some(())
            .ok_or_else(|| refuse(format!("no kernel for a bias of shape {bias}")))
    }

    fn preparation<'a>(&self, fill: &'a dyn Fn(&[f32], &mut [f32])) -> Preparation<'a> {
        Preparation {
            input: 1,
            layout: LAYOUT,
            len: self.b_count.saturating_mul(self.packed()),
            fill,
        }
    }

    /// Packs all matrices of B.
    fn fill(&self, from: &[f32], to: &mut [f32]) {
        let (size, packed) = (self.depth * self.columns, self.packed());
        if size == 0 {
            return;
        }
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(packed)) {
            self.pack(from, to);
        }
    }

    /// Packs one matrix of B.
    fn pack(&self, from: &[f32], to: &mut [f32]) {
        if self.transposed {
            pack_columns(from, self.depth, self.depth, self.columns, to);
        } else {
            pack_rows(from, self.columns, self.depth, self.columns, to);
        }
    }

    /// Packs at most `width` columns of a matrix of B from `first` on.
    fn pack_panels(&self, from: &[f32], first: usize, width: usize, to: &mut [f32]) {
        let (depth, columns) = (self.depth, self.columns);
        let count = (columns - first).min(width);
        if self.transposed {
            pack_columns(&from[first * depth..], depth, depth, count, to);
        } else {
            pack_rows(&from[first..], columns, depth, count, to);
        }
    }

    fn packed(&self) -> usize {
        packed_len(self.depth, self.columns)
    }

    /// Numbers of scratch memory: a place for B, or for one of B's matrices for each slot.
    fn scratch(&self) -> usize {
        if self.constant {
            0
        } else {
            self.count.min(SLOTS).saturating_mul(self.packed())
        }
    }
}

/// For each matrix of the broadcast batch the matrix of either operand.
fn pair_batches([batch, a, b]: &[Shape; 3]) -> Result<Vec<(usize, usize)>> {
    let index = |shape: &Shape, flat: usize| {
        let (mut rest, mut stride, mut index) = (flat, 1, 0);
        for (axis, &extent) in batch.iter().enumerate().rev() {
            let own = (axis + shape.len())
                .checked_sub(batch.len())
                .map_or(1, |axis| shape[axis]);
            if own > 1 {
                index += rest % extent * stride;
                stride *= own;
            }
            rest /= extent;
        }
        index
    };
    let pairs = (0..batch.elements()).map(|flat| (index(a, flat), index(b, flat)));
    bounded::collect("matrices of a product", pairs)
}

impl Kernel for MatMul {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let mut plan = WorkloadPlan {
            scratch_bytes: self.scratch().saturating_mul(size_of::<f32>()),
            ..WorkloadPlan::default()
        };
        if self.constant {
            plan.prepared = vec![
                self.preparation(&|from, to| self.fill(from, to))
                    .prepare(spec)?,
            ];
        }
        Ok(plan)
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        match input {
            1 => self
                .preparation(&|from, to| self.fill(from, to))
                .plain(spec),
            _ => Ok(None),
        }
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let weights = if self.constant {
            Some(
                self.preparation(&|from, to| self.fill(from, to))
                    .find(spec)?,
            )
        } else {
            None
        };
        Ok(Box::new(Bound {
            batches: pair_batches(&self.stacks)?,
            product: *self,
            weights,
        }))
    }
}

/// The workload.
struct Bound {
    product: MatMul,
    /// For each matrix of the output that of A and that of B.
    batches: Vec<(usize, usize)>,
    weights: Option<Weights>,
}

impl Workload for Bound {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let product = &self.product;
        let (inputs, mut outputs) = operands.split();
        let a = inputs.slice::<f32>(0)?;
        let bias = product
            .bias
            .map(|index| inputs.slice::<f32>(index))
            .transpose()?;
        let addend = product
            .addend
            .map(|index| inputs.slice::<f32>(index))
            .transpose()?;
        let output = outputs.slice::<f32>(0)?;
        let run = Run {
            product,
            batches: &self.batches,
            a,
            bias,
            addend,
        };
        match &self.weights {
            Some(weights) => run.with_weights(weights.numbers(), output),
            None => {
                let scratch = super::scratch(&mut outputs, product.scratch())?;
                run.with_packing(inputs.slice(1)?, scratch, output);
            }
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.weights.is_none()
    }
}

/// One execution.
struct Run<'a> {
    product: &'a MatMul,
    batches: &'a [(usize, usize)],
    a: &'a [f32],
    bias: Option<&'a [f32]>,
    addend: Option<&'a [f32]>,
}

impl Run<'_> {
    fn with_weights(&self, weights: &[f32], output: &mut [f32]) {
        let packed = self.product.packed();
        let size = self.size();
        if size == 0 {
            return;
        }
        for (index, output) in output.chunks_exact_mut(size).enumerate() {
            let (_, b) = self.batches[index];
            self.one(index, &weights[b * packed..][..packed], output);
        }
    }

    fn with_packing(&self, b: &[f32], scratch: &mut [f32], output: &mut [f32]) {
        let product = self.product;
        let (packed, size) = (product.packed(), self.size());
        let b_size = product.depth * product.columns;
        if size == 0 {
            return;
        }
        let count = self.batches.len();
        let each = 2 * product.depth * size;
        let uneven = !count.is_multiple_of(pool::threads()) && count < EVEN;
        if count == 1 || uneven && each >= ALONE_OPERATIONS {
            let place = &mut scratch[..packed];
            for (index, output) in output.chunks_exact_mut(size).enumerate() {
                let (_, matrix) = self.batches[index];
                let before = index.checked_sub(1).map(|before| self.batches[before].1);
                if before != Some(matrix) {
                    let b = &b[matrix * b_size..][..b_size];
                    self.pack_in_parallel(b, place, b_size >= PARALLEL_PACKING);
                }
                self.one(index, place, output);
            }
            return;
        }
        let parallel = each.saturating_mul(count) >= 1 << 20;
        if let (true, true, Some(parts)) = (uneven, parallel, self.parts()) {
            // Of few small products one thread would have one more than another: each is cut, and
            // every thread packs what it multiplies with.
            let blocks = Blocks {
                stacks: count,
                rows: product.rows,
                blocks: parts,
                width: product.columns / parts,
            };
            let memory = (scratch, packed / parts, count * parts);
            for_each_block(output, blocks, memory, true, |block, output, place| {
                let (index, first) = (block / parts, block % parts * blocks.width);
                let b = &b[self.batches[index].1 * b_size..][..b_size];
                product.pack_panels(b, first, blocks.width, place);
                self.columns_of_one(index, first, place, output);
            });
            return;
        }
        // The slots' matrices lie together, so that a chunk of the output is a slot's.
        let each = count.div_ceil(SLOTS);
        for_each_chunk2(
            (output, each * size),
            (scratch, packed),
            parallel,
            |slot, output, place| {
                let mut held = None;
                for (within, output) in output.chunks_exact_mut(size).enumerate() {
                    let index = slot * each + within;
                    let (_, matrix) = self.batches[index];
                    if held != Some(matrix) {
                        product.pack(&b[matrix * b_size..][..b_size], place);
                        held = Some(matrix);
                    }
                    self.one(index, place, output);
                }
            },
        );
    }

    /// Packs the only matrix of B, a few panels a thread.
    fn pack_in_parallel(&self, b: &[f32], to: &mut [f32], parallel: bool) {
        let width = 4 * WIDTH;
        for_each_chunk(to, width * self.product.depth, parallel, |index, to| {
            self.product.pack_panels(b, index * width, width, to);
        });
    }

    /// Into how many parts of whole tiles the columns of a matrix are cut, one for each thread or
    /// fewer.
    fn parts(&self) -> Option<usize> {
        let columns = self.product.columns;
        (2..=pool::threads()).rfind(|parts| columns.is_multiple_of(parts * PART_COLUMNS))
    }

    /// Numbers of a matrix of the output.
    fn size(&self) -> usize {
        self.product.rows * self.product.columns
    }

    /// One matrix of the output.
    fn one(&self, index: usize, b: &[f32], output: &mut [f32]) {
        let MatMul { rows, columns, .. } = *self.product;
        let output = MatrixMut::new(output, rows, columns, columns);
        self.columns_of_one(index, 0, b, output);
    }

    /// The columns from `first` on of one matrix of the output, as many as `output` has.
    fn columns_of_one(&self, index: usize, first: usize, b: &[f32], output: MatrixMut<'_>) {
        let MatMul {
            level,
            rows,
            depth,
            scale,
            activation,
            ..
        } = *self.product;
        let (a, _) = self.batches[index];
        let product = Product {
            panels: Panels::new(b, depth, output.columns()),
            bias: self.bias.map(|bias| &bias[first..]),
            addend: self
                .addend
                .map(|addend| &addend[index * self.size()..][first..self.size()]),
            scale,
            limits: activation.limits,
            curve: activation.curve,
        };
        let a = &self.a[a * rows * depth..][..rows * depth];
        multiply(level, &Matrix::new(a, rows, depth, depth), &product, output);
    }
}
