//! `tenon.WeightOnlyMatMul`: products of floating-point rows and weights of 4 or 8 bits, with a scale for each column or
//! for each block along K.
//!
//! Few rows are multiplied by weights that are unpacked in registers, so that memory is read at 4 or 8 bits a weight
//! (`sums`). For many rows a group of columns at a time is unpacked into panels of f32, which the micro-kernels of GEMM
//! multiply: an unpacked panel stays in the cache while all rows are multiplied by it.

mod sums;

use self::sums::{Constants, Parameters, Sums};
use super::element_types::of_float;
use super::float_gemm::GemmElement;
use super::prepared::{Fill, Preparation, Weights};
use super::{Kernel, scratch, split_scratch, total_len};
use crate::activation::Activation;
use crate::floats::{FloatType, Floats};
use crate::panels::{LAYOUT, Panels, WIDTH, pack_columns, pack_rows, pack_words, packed_len};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::{MatrixMut, for_each_chunk};
use crate::simd::gemm::Gemm;
use crate::simd::rows::Matrix;
use tenon_backend::{
    Inputs, Operands, Outputs, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_tensor::{DataType, Tensor, convert};

/// The inputs.
const A: usize = 0;
const B: usize = 1;
const SCALE: usize = 2;
const ZERO: usize = 3;
const BIAS: usize = 4;
const ADDEND: usize = 5;

/// The layouts of weights and zero points: `[N / 16][K / 8][16][8]` or `[N / 16][K / 4][16][4]`, signed.
const NIBBLES: &str = "panels16x8:i4";
const BYTES: &str = "panels16x4:i8";

/// Zero points of a word.
const ZEROS_PER_WORD: usize = 4;

/// Rows from which on weights are unpacked into memory.
const MANY_ROWS: usize = 24;

/// Elements of a group of unpacked panels.
const UNPACKED: usize = 1 << 19;

/// Weights from which on several threads multiply.
const PARALLEL: usize = 1 << 15;

/// A product with quantized weights.
#[derive(Debug, Clone, Copy)]
struct WeightOnly {
    level: Level,
    /// The type of all operands but the weights; sums are of f32.
    float: FloatType,
    rows: usize,
    depth: usize,
    columns: usize,
    /// Whether B is stored as `[N, K]`.
    transposed: bool,
    /// Bits of a weight in memory.
    bits: usize,
    is_signed: bool,
    /// Elements along K with the same scale.
    block: usize,
    /// Whether there is one scale; else one for each column and block.
    one_scale: bool,
    /// Whether there are as many zero points as scales, more than one.
    zeros: bool,
    activation: Activation,
    bias: bool,
    addend: bool,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(A)?.dtype(), A)?;
    let (a, b) = (signature.input(A)?.shape(), signature.input(B)?);
    let transposed = signature.flag("trans_b", false)?;
    let ([rows @ .., depth], &[first, second]) = (&a[..], &b.shape()[..]) else {
        return Err(refuse("no kernel for operands of these ranks"));
    };
    let (bits, is_signed) = match b.dtype() {
        DataType::I4 => (4, true),
        DataType::U4 => (4, false),
        DataType::I8 => (8, true),
        DataType::U8 => (8, false),
        found => return Err(Reason::InputType { input: B, found }.into()),
    };
    let per_word = u32::BITS as usize / bits;
    let block = usize::try_from(signature.int("block_size", 0)?).unwrap_or(0);
    if block != 0 && !block.is_multiple_of(per_word) && block < *depth {
        return Err(refuse(format!(
            "no kernel for blocks that are not a multiple of {per_word}"
        )));
    }
    let constants = [Some(B), Some(SCALE), signature.optional(ZERO).map(|_| ZERO)];
    for input in constants.into_iter().flatten() {
        if !signature.is_constant(input) {
            return Err(Reason::NotConstant { input }.into());
        }
    }
    for input in [SCALE, BIAS, ADDEND] {
        signature.float_input(input, float)?;
    }
    let one_scale = block == 0 && signature.input(SCALE)?.elements() == 1;
    Ok(Box::new(WeightOnly {
        level: signature.level,
        float,
        rows: rows.iter().product(),
        depth: *depth,
        columns: if transposed { first } else { second },
        transposed,
        bits,
        is_signed,
        block: if block == 0 {
            *depth
        } else {
            block.min(*depth)
        },
        one_scale,
        zeros: !one_scale && signature.optional(ZERO).is_some(),
        activation: Activation::of(signature)?,
        bias: signature.optional(BIAS).is_some(),
        addend: signature.optional(ADDEND).is_some(),
    }))
}

impl WeightOnly {
    fn per_word(&self) -> usize {
        u32::BITS as usize / self.bits
    }

    /// Words of a column.
    fn words(&self) -> usize {
        self.depth.div_ceil(self.per_word())
    }

    /// Elements of a row with those that complete its last word.
    fn padded_depth(&self) -> usize {
        self.words() * self.per_word()
    }

    /// Blocks of a column.
    fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block.max(1))
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(WIDTH)
    }

    /// What is subtracted from weights and zero points that are not signed.
    fn offset(&self) -> u8 {
        if self.is_signed {
            0
        } else {
            1 << (self.bits - 1)
        }
    }

    /// The position of the element of a row and a column of a matrix of `rows` rows that is stored as B.
    fn source(&self, rows: usize) -> impl Fn(usize, usize) -> usize + use<> {
        let (transposed, columns) = (self.transposed, self.columns);
        move |k, column| {
            if transposed {
                column * rows + k
            } else {
                k * columns + column
            }
        }
    }

    fn fill(&self, from: &[u8], to: &mut [u8]) {
        let (extents, source) = ([self.depth, self.columns], self.source(self.depth));
        if self.bits == 4 {
            pack_words::<8>(from, extents, source, to);
        } else {
            pack_words::<4>(from, extents, source, to);
        }
    }

    fn fill_scales(&self, from: &[f32], to: &mut [f32]) {
        let (blocks, columns) = (self.blocks(), self.columns);
        if self.transposed {
            pack_columns(from, blocks, blocks, columns, to);
        } else {
            pack_rows(from, columns, blocks, columns, to);
        }
    }

    fn fill_zeros(&self, from: &[u8], to: &mut [u8]) {
        let blocks = self.blocks();
        let extents = [blocks, self.columns];
        pack_words::<ZEROS_PER_WORD>(from, extents, self.source(blocks), to);
    }

    /// Calls `body` with the preparations of the constants: weights, scales, zero points.
    fn preparations<R>(&self, body: impl FnOnce([Option<Preparation<'_>>; 3]) -> R) -> R {
        let weights = |from: &[u8], to: &mut [u8]| self.fill(from, to);
        let scales = |from: &[f32], to: &mut [f32]| self.fill_scales(from, to);
        let zeros = |from: &[u8], to: &mut [u8]| self.fill_zeros(from, to);
        let offset = self.offset();
        let all = [
            Some(Preparation {
                input: B,
                layout: if self.bits == 4 { NIBBLES } else { BYTES },
                len: packed_len(self.words(), self.columns),
                fill: Fill::Integers {
                    fill: &weights,
                    offset,
                    bits: self.bits,
                },
            }),
            (!self.one_scale).then_some(Preparation {
                input: SCALE,
                layout: LAYOUT,
                len: packed_len(self.blocks(), self.columns),
                fill: Fill::Floats(&scales),
            }),
            self.zeros.then_some(Preparation {
                input: ZERO,
                layout: BYTES,
                len: packed_len(self.blocks().div_ceil(ZEROS_PER_WORD), self.columns),
                fill: Fill::Integers {
                    fill: &zeros,
                    offset,
                    bits: 8,
                },
            }),
        ];
        body(all)
    }

    /// Whether weights are unpacked into memory.
    fn unpacks(&self) -> bool {
        self.rows >= MANY_ROWS
    }

    /// Columns that are unpacked at the same time.
    fn group(&self) -> usize {
        let most = UNPACKED / self.depth.max(1);
        let group = (most - most % WIDTH).max(4 * WIDTH);
        group.min(self.panels() * WIDTH)
    }

    /// Elements of scratch memory: for rows of A in f32, for results, for the bias in f32, and for unpacked panels.
    fn scratch(&self) -> [usize; 4] {
        let bias = if self.bias { self.columns } else { 0 };
        if self.unpacks() {
            let panels = packed_len(self.depth, self.group());
            let a = if self.float == FloatType::F32 {
                0
            } else {
                self.rows.saturating_mul(self.depth)
            };
            return [a, 0, bias, panels];
        }
        let results = self.panels().saturating_mul(WIDTH);
        [
            self.rows.saturating_mul(self.padded_depth()),
            self.rows.saturating_mul(results),
            bias,
            0,
        ]
    }
}

impl Kernel for WeightOnly {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let prepared = self.preparations(|all| {
            let all = all.iter().flatten();
            all.filter_map(|it| it.planned(spec).transpose())
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(WorkloadPlan {
            scratch_bytes: total_len(self.scratch()).saturating_mul(size_of::<f32>()),
            prepared,
            ..WorkloadPlan::default()
        })
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        self.preparations(|all| {
            let preparation = all.iter().flatten().find(|it| it.input == input);
            preparation.map_or(Ok(None), |it| it.plain(spec))
        })
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let [weights, scales, zeros] = self.preparations(|all| {
            all.map(|preparation| preparation.map(|it| it.find(spec)).transpose())
        });
        let constant = |input: usize| spec.inputs.get(input)?.as_ref()?.constant.as_ref();
        let first = |input: usize, dtype: DataType| -> Result<f32> {
            let one = constant(input).ok_or_else(|| missing(input))?;
            let one = convert(&convert(one, dtype)?, DataType::F32)?;
            let one = one.as_slice::<f32>().and_then(|list| list.first().copied());
            one.ok_or_else(|| missing(input))
        };
        let whole = if self.is_signed {
            DataType::I8
        } else {
            DataType::U8
        };
        Ok(Box::new(BoundWeightOnly {
            weights: weights?.ok_or_else(|| missing(B))?,
            scales: match scales? {
                Some(each) => Values::Each(each, self.blocks()),
                None => Values::One([first(SCALE, DataType::F32)?; WIDTH]),
            },
            zeros: match zeros? {
                Some(each) => Some(Values::Each(each, self.blocks().div_ceil(ZEROS_PER_WORD))),
                None => {
                    let has_zero = spec.inputs.get(ZERO).is_some_and(Option::is_some);
                    let zero = if has_zero { first(ZERO, whole)? } else { 0.0 };
                    let zero = zero as i32 - i32::from(self.offset());
                    // The four blocks of a word.
                    let word = f32::from_bits(u32::from(zero as u8) * 0x0101_0101);
                    (zero != 0).then_some(Values::One([word; WIDTH]))
                }
            },
            product: *self,
        }))
    }
}

/// The error of a constant that a specification lacks.
fn missing(input: usize) -> Error {
    let text = format!("input {input} requires a constant");
    Error::new(ErrorKind::Unsupported, text)
}

/// Scales or zero points, in panels.
enum Values {
    /// The same of all columns and blocks.
    One([f32; WIDTH]),
    /// Rows of a panel, one for each block, or of zero points for each word of blocks.
    Each(Weights, usize),
}

impl Values {
    fn parameters(&self) -> Parameters<'_> {
        match self {
            Self::One(row) => Parameters {
                rows: std::slice::from_ref(row),
                per_panel: 0,
            },
            Self::Each(values, per_panel) => Parameters {
                rows: values.elements().as_chunks().0,
                per_panel: *per_panel,
            },
        }
    }
}

/// A product with its constants, ready to execute.
struct BoundWeightOnly {
    product: WeightOnly,
    weights: Weights,
    scales: Values,
    /// Moved as the weights are; `None` where all are 0 then.
    zeros: Option<Values>,
}

impl Workload for BoundWeightOnly {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        of_float!(self.product.float, T => self.run::<T>(&inputs, &mut outputs))
    }

    fn reads(&self, input: usize) -> bool {
        match input {
            B => false,
            SCALE => !matches!(self.scales, Values::Each(..)),
            ZERO => !matches!(self.zeros, Some(Values::Each(..))),
            _ => true,
        }
    }
}

impl BoundWeightOnly {
    fn run<T: GemmElement>(&self, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<()> {
        let product = &self.product;
        let sizes = product.scratch();
        let memory = scratch::<f32>(outputs, total_len(sizes))?;
        let [a, results, bias, panels] = split_scratch(memory, sizes);
        let bias = match product.bias {
            true => {
                let from = Floats::input(inputs, BIAS, product.float)?;
                Some(from.load(product.level, 0..product.columns, bias))
            }
            false => None,
        };
        let addend = product.addend.then(|| inputs.slice::<T>(ADDEND));
        let addend = addend.transpose()?;
        let constants = Constants {
            words: self.weights.elements().as_chunks().0,
            column_words: product.words(),
            block_words: product.block.div_ceil(product.per_word()).max(1),
            blocks: product.blocks(),
            scales: self.scales.parameters(),
            zeros: self.zeros.as_ref().map(Values::parameters),
        };
        let input = inputs.slice::<T>(A)?;
        let output = outputs.slice::<T>(0)?;
        if product.unpacks() {
            let input = T::floats(input).load(product.level, 0..input.len(), a);
            self.multiply_unpacked(&constants, input, (bias, addend), panels, output);
        } else {
            self.multiply_rows(&constants, T::floats(input), a, results);
            self.write(results, (bias, addend), output);
        }
        Ok(())
    }

    /// Computes sums of products, panel after panel the rows of each, with weights unpacked in registers.
    fn multiply_rows(
        &self,
        constants: &Constants<'_>,
        input: Floats<'_>,
        a: &mut [f32],
        results: &mut [f32],
    ) {
        let product = &self.product;
        let (level, depth, padded) = (product.level, product.depth, product.padded_depth());
        for (row, to) in a.chunks_exact_mut(padded.max(1)).enumerate() {
            let (to, rest) = to.split_at_mut(depth);
            input.copy(level, row * depth..(row + 1) * depth, to);
            rest.fill(0.0);
        }
        let parallel = product.columns * depth >= PARALLEL;
        // Several chunks a thread, of an even number of panels.
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let panels = product.panels().div_ceil(chunks).next_multiple_of(2);
        let chunk = panels * product.rows * WIDTH;
        for_each_chunk(results, chunk, parallel, |index, results| {
            let sums = Sums {
                constants,
                first: index * panels,
                rows: product.rows,
                a,
                results,
            };
            match product.bits {
                4 => level.run(sums::Nibbles(sums)),
                _ => level.run(sums::Bytes(sums)),
            }
        });
    }

    /// Applies the epilogue to sums and writes them to the output.
    fn write<T: GemmElement>(
        &self,
        results: &mut [f32],
        (bias, addend): (Option<&[f32]>, Option<&[T]>),
        output: &mut [T],
    ) {
        let product = &self.product;
        let (rows, columns) = (product.rows, product.columns);
        let of_panel = results.chunks_exact_mut((rows * WIDTH).max(1));
        for (panel, results) in of_panel.enumerate() {
            let first = panel * WIDTH;
            let count = (columns - first).min(WIDTH);
            for (row, sums) in results.chunks_exact_mut(WIDTH).enumerate() {
                let (sums, at) = (&mut sums[..count], row * columns + first);
                product.level.run(sums::Epilogue {
                    sums,
                    bias: bias.map(|bias| &bias[first..]),
                    addend: addend.map(|addend| &addend[at..]),
                    activation: product.activation,
                    to: &mut output[at..at + count],
                });
            }
        }
    }

    /// Unpacks groups of panels, and multiplies all rows by each.
    fn multiply_unpacked<T: GemmElement>(
        &self,
        constants: &Constants<'_>,
        input: &[f32],
        (bias, addend): (Option<&[f32]>, Option<&[T]>),
        panels: &mut [f32],
        output: &mut [T],
    ) {
        let product = &self.product;
        let WeightOnly {
            level,
            rows,
            depth,
            columns,
            ..
        } = *product;
        let a = Matrix::new(input, rows, depth, depth);
        for first in (0..columns).step_by(product.group().max(1)) {
            let count = product.group().min(columns - first);
            let panels = &mut panels[..packed_len(depth, count)];
            for_each_chunk(panels, depth * WIDTH, true, |index, to| {
                let unpack = sums::Unpack {
                    constants,
                    panel: first / WIDTH + index,
                    per_word: product.per_word(),
                    to,
                };
                level.run(unpack);
            });
            let gemm = Gemm {
                bias: bias.map(|bias| &bias[first..]),
                limits: product.activation.limits,
                function: product.activation.function,
                ..Gemm::new(Panels::new(panels, depth, count))
            };
            let addend = addend.map(|addend| &addend[first..]);
            let output = MatrixMut::new(&mut output[first..], rows, count, columns);
            T::multiply_floats(level, &a, &gemm, addend, output);
        }
    }
}
