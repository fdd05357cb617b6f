//! Matrix products: `tenon.MatMul`, `MatMul`, `Gemm`. A is read in place; B is packed in panels: when
//! compiling if it is a constant, else into scratch memory. Of f16 and bf16 rows of A are converted when they
//! are packed, B and bias before; a constant B stays so.

mod run;

use super::Kernel;
use super::element_types::of_float;
use super::float_gemm::GemmElement;
use super::prepared::{Fill, Preparation, Weights};
use super::{split_scratch, total_len};
use crate::activation::Activation;
use crate::floats::{FloatType, Floats};
use crate::ops::pairs::{PairedRows, paired_words};
use crate::panels::{Panels, layout, pack_columns, pack_rows, packed_len, word_rows};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Level;
use crate::simd::products::ProductKind;
use run::{MatMulRun, PairedRun};
use tenon_backend::{Inputs, Operands, Outputs, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, bounded};
use tenon_tensor::{Shape, Tensor, TensorType};

/// Most packed matrices of B in scratch memory; more threads than that do not help.
const SLOTS: usize = 16;

/// Elements of a row of A from which on it is converted once: the packed rows of a K block would be converted for each
/// group of panels.
const LONG_ROW: usize = 1024;

/// A batched matrix product, `[batch, M, K] x [batch, K, N]`.
#[derive(Debug, Clone)]
pub(super) struct MatMul {
    pub(super) level: Level,
    /// The type of all operands but a constant B; sums are of f32.
    pub(super) float: FloatType,
    /// The type of B.
    pub(super) weights: FloatType,
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    /// Whether B is stored as `[N, K]`.
    pub(super) transposed: bool,
    /// Matrices of the output.
    pub(super) count: usize,
    /// The batch dimensions of the output, of A and of B.
    pub(super) batches: [Shape; 3],
    /// Matrices of B.
    pub(super) b_count: usize,
    /// Whether B is a constant.
    pub(super) constant: bool,
    pub(super) scale: f32,
    pub(super) activation: Activation,
    /// The index of the bias input.
    pub(super) bias: Option<usize>,
    /// The index of the addend input.
    pub(super) addend: Option<usize>,
}

/// `tenon.MatMul`.
pub(super) fn fused(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if signature.flag("trans_a", false)? {
        return Err(refuse_attribute("trans_a", 1));
    }
    let mut matmul = MatMul::of(signature, signature.flag("trans_b", false)?)?;
    matmul.scale = signature.float("scale", 1.0)?;
    matmul.activation = Activation::of(signature)?;
    matmul.bias = signature.optional(2).map(|_| 2);
    matmul.addend = signature.optional(3).map(|_| 3);
    Ok(Box::new(matmul))
}

/// ONNX `MatMul`.
pub(super) fn plain(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if FloatType::of(signature.input(0)?.dtype()).is_none() {
        return super::plain_matmul::kernel(signature);
    }
    Ok(Box::new(MatMul::of(signature, false)?))
}

/// ONNX `Gemm`.
pub(super) fn gemm(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    if FloatType::of(signature.input(0)?.dtype()).is_none() {
        return super::plain_matmul::kernel(signature);
    }
    if signature.flag("transA", false)? {
        return Err(refuse_attribute("transA", 1));
    }
    let mut matmul = MatMul::of(signature, signature.flag("transB", false)?)?;
    matmul.scale = signature.float("alpha", 1.0)?;
    if let Some(c) = signature.optional(2).map(TensorType::shape) {
        let beta = signature.float("beta", 1.0)?;
        if beta != 1.0 {
            return Err(refuse_attribute("beta", beta));
        }
        if c == signature.output(0)?.shape() {
            matmul.addend = Some(2);
        } else {
            matmul.check_bias(c)?;
            matmul.bias = Some(2);
        }
    }
    Ok(Box::new(matmul))
}

impl MatMul {
    /// The product of inputs 0 and 1.
    fn of(signature: &Signature<'_>, transposed: bool) -> Result<Self, Refusal> {
        let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
        let weights = signature.type_of_weights(1, float)?;
        let (mut a, mut b) = (
            signature.float_shape(0, float)?.to_vec(),
            signature.float_shape(1, weights)?.to_vec(),
        );
        extend_vectors(&mut a, &mut b);
        let ([a_batch @ .., rows, depth], [b_batch @ .., first, second]) = (&a[..], &b[..]) else {
            return Err(refuse("no kernel for scalars as operands"));
        };
        let columns = if transposed { *first } else { *second };
        let (a_batch, b_batch) = (Shape::new(a_batch), Shape::new(b_batch));
        let batch = a_batch.broadcast(&b_batch);
        let batch = batch.ok_or_else(|| refuse("no kernel for batches that are not broadcast"))?;
        let mut matmul = Self {
            level: signature.level,
            float,
            weights,
            rows: *rows,
            depth: *depth,
            columns,
            transposed,
            count: batch.elements(),
            b_count: b_batch.elements(),
            batches: [batch, a_batch, b_batch],
            constant: signature.is_constant(1),
            scale: 1.0,
            activation: Activation::NONE,
            bias: None,
            addend: None,
        };
        if matmul.b_count == 1 && matmul.batches[1].elements() == matmul.count {
            // One B for all: the matrices of A, which are contiguous, are one matrix.
            matmul.rows *= matmul.count;
            matmul.count = 1;
            matmul.batches = std::array::from_fn(|_| Shape::default());
        }
        Ok(matmul)
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
            layout: layout(self.packed_type()),
            len: self.b_count.saturating_mul(self.packed()),
            fill: match self.packed_type() {
                FloatType::F32 => Fill::Floats(fill),
                float => Fill::Pairs {
                    fill,
                    depth: self.depth,
                    float,
                },
            },
        }
    }

    /// The type of packed matrices of B.
    fn packed_type(&self) -> FloatType {
        match self.constant {
            true => self.weights,
            false => FloatType::F32,
        }
    }

    /// Packed columns of B.
    pub(super) fn panels<'a>(&self, words: &'a [f32], columns: usize) -> Panels<'a> {
        Panels::of(self.packed_type(), words, self.depth, columns)
    }

    /// The product with pairs of B, where all other operands are of f32.
    fn product_of_pairs(&self) -> Option<ProductKind> {
        let is_mixed = self.float == FloatType::F32 && self.packed_type() != FloatType::F32;
        is_mixed.then(|| self.level.product_of(self.packed_type()))
    }

    /// Packs all matrices of B.
    fn fill(&self, from: &[f32], to: &mut [f32]) {
        let size = self.depth * self.columns;
        let packed = packed_len(self.depth, self.columns);
        if size == 0 {
            return;
        }
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(packed)) {
            self.pack(from, to);
        }
    }

    /// Packs one matrix of B.
    pub(super) fn pack(&self, from: &[f32], to: &mut [f32]) {
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

    /// Words of a packed matrix of B.
    pub(super) fn packed(&self) -> usize {
        let rows = word_rows(self.packed_type(), self.depth);
        packed_len(rows, self.columns)
    }

    /// Elements of A.
    fn a_len(&self) -> usize {
        let matrices = self.batches[1].elements();
        matrices
            .saturating_mul(self.rows)
            .saturating_mul(self.depth)
    }

    /// Whether all rows of A are converted to f32 before.
    fn converts_rows(&self) -> bool {
        let is_half = self.float != FloatType::F32;
        is_half && self.constant && self.rows > 1 && self.depth > LONG_ROW
    }

    /// Whether rows of bf16 are multiplied in pairs, without conversion.
    fn keeps_bf16(&self) -> bool {
        let product = self.level.product_of(self.packed_type());
        self.float == FloatType::Bf16 && product == ProductKind::Bf16Pairs
    }

    /// Elements of scratch memory at any level, since a package runs on every CPU: for one packed matrix of B in each
    /// slot, and for B, bias and A in f32 where they are not, or A in pairs.
    fn scratch(&self) -> [usize; 4] {
        let if_used = |is_used: bool, len: usize| if is_used { len } else { 0 };
        let is_half = self.float != FloatType::F32;
        let matrix = self.depth.saturating_mul(self.columns);
        [
            if_used(
                !self.constant,
                self.count.min(SLOTS).saturating_mul(self.packed()),
            ),
            if_used(
                !self.constant && is_half,
                self.b_count.saturating_mul(matrix),
            ),
            if_used(self.bias.is_some() && is_half, self.columns),
            match self.product_of_pairs() {
                Some(_) => {
                    let rows = self.batches[1].elements().saturating_mul(self.rows);
                    rows.saturating_mul(paired_words(self.depth))
                }
                None => if_used(self.converts_rows(), self.a_len()),
            },
        ]
    }
}

/// A vector on the left is a row, one on the right a column.
pub(super) fn extend_vectors(a: &mut Vec<usize>, b: &mut Vec<usize>) {
    if a.len() == 1 {
        a.insert(0, 1);
    }
    if b.len() == 1 {
        b.push(1);
    }
}

/// For each matrix of the broadcast batch, the indices of its matrices of A and B.
pub(super) fn pair_batches([batch, a, b]: &[Shape; 3]) -> Result<Vec<(usize, usize)>> {
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
            scratch_bytes: total_len(self.scratch()).saturating_mul(size_of::<f32>()),
            ..WorkloadPlan::default()
        };
        if self.constant {
            let fill = |from: &[f32], to: &mut [f32]| self.fill(from, to);
            plan.prepared.extend(self.preparation(&fill).planned(spec)?);
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
        Ok(Box::new(BoundMatMul {
            pairs: pair_batches(&self.batches)?,
            matmul: *self,
            weights,
        }))
    }
}

/// A product with its packed weights, ready to execute.
struct BoundMatMul {
    matmul: MatMul,
    /// For each matrix of the output, the indices of its matrices of A and B.
    pairs: Vec<(usize, usize)>,
    weights: Option<Weights>,
}

impl Workload for BoundMatMul {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        if let (Some(product), Some(weights)) = (self.matmul.product_of_pairs(), &self.weights) {
            return self.run_pairs(product, weights, &inputs, &mut outputs);
        }
        of_float!(self.matmul.float, T => self.run::<T>(&inputs, &mut outputs))
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.weights.is_none()
    }
}

impl BoundMatMul {
    /// f32 by weights of 16 bits.
    fn run_pairs(
        &self,
        product: ProductKind,
        weights: &Weights,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        let matmul = &self.matmul;
        let sizes = matmul.scratch();
        let scratch = super::scratch(outputs, total_len(sizes))?;
        let [.., scratch] = split_scratch(scratch, sizes);
        let a = &inputs.slice::<f32>(0)?[..matmul.a_len()];
        let bias = matmul.bias.map(|index| inputs.slice::<f32>(index));
        let addend = matmul.addend.map(|index| inputs.slice::<f32>(index));
        let run = PairedRun {
            matmul,
            pairs: &self.pairs,
            weights: weights.elements(),
            bias: bias.transpose()?,
            addend: addend.transpose()?,
        };
        let output = outputs.slice::<f32>(0)?;
        let rows = PairedRows::new(matmul.level, product, (a, matmul.depth), scratch);
        run.run(rows, output);
        Ok(())
    }

    fn run<T: GemmElement>(&self, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<()> {
        let matmul = &self.matmul;
        let (level, float) = (matmul.level, matmul.float);
        let sizes = matmul.scratch();
        let scratch = super::scratch(outputs, total_len(sizes))?;
        let [packed, b, bias, a] = split_scratch(scratch, sizes);
        let bias = match matmul.bias {
            Some(index) => {
                let elements = Floats::input(inputs, index, float)?;
                Some(elements.range(0..matmul.columns).load_all(level, bias))
            }
            None => None,
        };
        let addend = matmul.addend.map(|index| inputs.slice::<T>(index));
        let rows = inputs.slice::<T>(0)?;
        let floats = (matmul.converts_rows() && !matmul.keeps_bf16())
            .then(|| T::floats(&rows[..matmul.a_len()]).load_all(level, a));
        let run = MatMulRun {
            matmul,
            pairs: &self.pairs,
            a: rows,
            floats,
            bias,
            addend: addend.transpose()?,
        };
        let output = outputs.slice::<T>(0)?;
        match &self.weights {
            Some(weights) => run.with_weights(weights.elements(), output),
            None => {
                let b = Floats::input(inputs, 1, float)?.load_all(level, b);
                run.with_packing(b, packed, output);
            }
        }
        Ok(())
    }
}
