//! `tenon.Conv` and `tenon.ConvTranspose`: convolution of images of one to three dimensions with the
//! channels last, as implicit GEMM over im2col rows (Chetlur et al., "cuDNN: Efficient Primitives for
//! Deep Learning", 2014).
//!
//! A transposed convolution is decomposed by the phase of its output pixels (`conv_parts`). Weights are
//! packed when compiling if they are constant, else into scratch memory.

use super::conv_parts::Part;
use super::depthwise;
use super::element_types::of_float;
use super::float_gemm::GemmElement;
use super::prepared::{Fill, Preparation, Weights};
use super::winograd::{Transformed, Winograd};
use super::{Kernel, split_scratch, total_len};
use crate::activation::Activation;
use crate::floats::{FloatType, Floats};
use crate::panels::{Panels, WIDTH, layout, packed_len, word_rows};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::{MatrixMut, for_each_chunk};
use crate::simd::gemm::Gemm;
use crate::simd::products::ProductKind;
use crate::simd::rows::{Geometry, Im2col, Matrix, PaddedIm2col};
use std::ops::Range;
use std::sync::Arc;
use tenon_backend::{Inputs, Operands, Outputs, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::Tensor;

/// Images of fewer channels are copied with their padding, so that whole kernel rows are contiguous.
const FEW_CHANNELS: usize = 12;

/// Elements of weights from which on several threads pack them.
const PARALLEL_PACKING: usize = 1 << 16;

/// Most elements of a short row of the input of a pointwise convolution.
const SHORT_ROW: usize = 256;

/// A dense or grouped convolution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conv {
    pub(super) level: Level,
    /// The type of all operands but constant weights; sums are of f32.
    pub(super) float: FloatType,
    /// The type of the weights.
    pub(super) weights: FloatType,
    pub(super) shape: Geometry,
    /// Whether the shape is of a transposed convolution.
    pub(super) transposed: bool,
    pub(super) groups: usize,
    /// Output channels of all groups.
    pub(super) filters: usize,
    /// Whether the direct algorithm computes the convolution.
    pub(super) direct: bool,
    pub(super) activation: Activation,
    /// Whether the weights are known when compiling.
    pub(super) constant: bool,
    pub(super) bias: bool,
    pub(super) addend: bool,
}

/// The kernel for a convolution.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Conv::of(signature)?))
}

impl Conv {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let transposed = signature.op.name == "tenon.ConvTranspose";
        let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
        let image = signature.float_shape(0, float)?;
        let weights_type = signature.type_of_weights(1, float)?;
        let weights = signature.float_shape(1, weights_type)?;
        let &[first, second, ref kernel @ ..] = &weights[..] else {
            return Err(refuse("no kernel for weights without a kernel"));
        };
        let shape = signature.geometry(image, kernel, transposed)?;
        let groups = usize::try_from(signature.int("group", 1)?).unwrap_or(1);
        let filters = if transposed { second * groups } else { first };
        let mut conv = Self {
            level: signature.level,
            float,
            weights: weights_type,
            shape,
            transposed,
            groups,
            filters,
            direct: false,
            activation: Activation::of(signature)?,
            constant: signature.is_constant(1),
            bias: signature.optional(2).is_some(),
            addend: signature.optional(3).is_some(),
        };
        conv.direct = conv.is_direct();
        if Part::cover_kernel(&conv) {
            Ok(conv)
        } else {
            Err(refuse("no kernel for an output smaller than the stride"))
        }
    }

    /// Input channels of a group.
    pub(super) fn depth(&self) -> usize {
        self.shape.channels / self.groups
    }

    pub(super) fn positions(&self) -> usize {
        self.shape.positions()
    }

    /// Output channels of a group.
    pub(super) fn group_filters(&self) -> usize {
        self.filters / self.groups
    }

    /// The type of packed weights. In pairs the channels of a kernel position are even.
    pub(super) fn packed_type(&self) -> FloatType {
        let is_even = self.depth().is_multiple_of(2);
        let in_pairs = match (self.float, self.weights) {
            // A channel can be added.
            (FloatType::F32, FloatType::F16 | FloatType::Bf16) => is_even || self.groups == 1,
            (_, FloatType::Bf16) => is_even,
            _ => false,
        };
        if in_pairs && self.constant && !self.direct && !self.transposed {
            self.weights
        } else {
            FloatType::F32
        }
    }

    /// Rows of packed weights of one group before they are paired, for some kernel positions.
    fn plain_rows(&self, positions: usize) -> usize {
        let depth = match self.packed_type() {
            FloatType::F32 => self.depth(),
            _ => self.depth().next_multiple_of(2),
        };
        positions.saturating_mul(depth)
    }

    /// Rows of words of packed weights, for some kernel positions.
    fn packed_rows(&self, positions: usize) -> usize {
        word_rows(self.packed_type(), self.plain_rows(positions))
    }

    /// Words of the packed weights of one group, for some kernel positions.
    pub(super) fn packed_group(&self, positions: usize) -> usize {
        packed_len(self.packed_rows(positions), self.group_filters())
    }

    /// Words of the packed weights of all groups, for some kernel positions.
    fn packed(&self, positions: usize) -> usize {
        self.packed_in(self.packed_rows(positions))
    }

    /// The same in panels of `rows` rows.
    fn packed_in(&self, rows: usize) -> usize {
        let each = if self.direct {
            rows.saturating_mul(self.group_filters())
        } else {
            packed_len(rows, self.group_filters())
        };
        each.saturating_mul(self.groups)
    }

    /// Packs the weights of all parts in f32, for each part those of all groups.
    pub(super) fn fill(&self, from: &[f32], to: &mut [f32]) {
        let mut rest = to;
        for part in Part::all(self) {
            let len = self.packed_in(self.plain_rows(part.positions()));
            let to = rest.split_off_mut(..len);
            let to = to.unwrap_or_default();
            if self.direct {
                self.fill_direct(&part, from, to);
            } else {
                self.fill_part(&part, from, to);
            }
        }
    }

    /// Packs the weights of one part, one panel in each iteration.
    fn fill_part(&self, part: &Part, from: &[f32], to: &mut [f32]) {
        let (all, depth, filters) = (self.positions(), self.depth(), self.group_filters());
        let panels = filters.div_ceil(WIDTH);
        let padded_depth = self.plain_rows(1);
        // Elements from a filter to the next, and from a channel to the next.
        let (filter_stride, channel_stride) = if self.transposed {
            (all, filters * all)
        } else {
            (depth * all, all)
        };
        let parallel = to.len() >= PARALLEL_PACKING;
        for_each_chunk(
            to,
            self.plain_rows(part.positions()) * WIDTH,
            parallel,
            |index, to| {
                let (group, first) = (index / panels, index % panels * WIDTH);
                let from = &from[group * filters * depth * all + first * filter_stride..];
                let count = (filters - first).min(WIDTH);
                let to = to.as_chunks_mut::<WIDTH>().0;
                for channel in 0..depth {
                    for (position, source) in part.sources().enumerate() {
                        let to = &mut to[position * padded_depth + channel];
                        let from = from[channel * channel_stride + source..].iter();
                        let from = from.step_by(filter_stride);
                        for (to, &from) in to[..count].iter_mut().zip(from) {
                            *to = from;
                        }
                        to[count..].fill(0.0);
                    }
                }
                for rows in to.chunks_exact_mut(padded_depth) {
                    rows[depth..].as_flattened_mut().fill(0.0);
                }
            },
        );
    }

    /// Packed weights in f32.
    pub(super) fn widened(&self, packed: &Weights) -> Result<Weights> {
        packed.widened(self.packed_type(), self.plain_rows(self.positions()))
    }

    fn preparation<'a>(&self, fill: &'a dyn Fn(&[f32], &mut [f32])) -> Preparation<'a> {
        Preparation {
            input: 1,
            layout: if self.direct {
                depthwise::LAYOUT
            } else {
                layout(self.packed_type())
            },
            len: self.packed(self.positions()),
            fill: match self.packed_type() {
                FloatType::F32 => Fill::Floats(fill),
                float => Fill::Pairs {
                    fill,
                    depth: self.plain_rows(self.positions()),
                    float,
                },
            },
        }
    }

    /// The shape of the image with its padding, when whole kernel rows are read from a padded copy.
    pub(super) fn padded(&self) -> Option<Geometry> {
        let is_plain = self.groups == 1 && !self.transposed;
        is_plain.then(|| padded(&self.shape)).flatten()
    }

    /// Whether the whole input is converted to f32 before: im2col would convert each element at each kernel position,
    /// and short rows are converted faster together. MobileNetV2 takes 0.95 of the time, a detector 0.94.
    fn converts_input(&self) -> bool {
        let is_half = self.float != FloatType::F32;
        is_half && !self.direct && (self.positions() > 1 || self.depth() <= SHORT_ROW)
    }

    /// Whether rows of bf16 are multiplied in pairs, without conversion.
    fn keeps_bf16(&self) -> bool {
        let product = self.level.product_of(self.packed_type());
        self.float == FloatType::Bf16 && product == ProductKind::Bf16Pairs
    }

    /// Elements of scratch memory at any level, since a package runs on every CPU: for packed weights that are not
    /// constant, for weights and bias in f32 where they are not, and for the padded image, the input in f32 or in pairs.
    pub(super) fn scratch(&self) -> [usize; 4] {
        let weights = self.positions().saturating_mul(self.depth());
        let if_used = |is_used: bool, len: usize| if is_used { len } else { 0 };
        let is_half = self.float != FloatType::F32;
        [
            if_used(!self.constant, self.packed(self.positions())),
            if_used(
                !self.constant && is_half,
                weights.saturating_mul(self.filters),
            ),
            if_used(self.bias && is_half, self.filters),
            match self.padded() {
                _ if self.product_of_pairs().is_some() => {
                    self.paired_image().max(Winograd::most_scratch(self))
                }
                Some(padded) => padded.input_len(),
                None if self.converts_input() => self.shape.input_len(),
                None => Winograd::most_scratch(self),
            },
        ]
    }
}

impl Kernel for Conv {
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
            let fill = |from: &[f32], to: &mut [f32]| self.fill(from, to);
            Some(self.preparation(&fill).find(spec)?)
        } else {
            None
        };
        let winograd = match (&weights, Winograd::fastest(&self)) {
            (Some(weights), Some(winograd)) => {
                let weights = winograd.weights(&self, weights)?;
                Some((winograd, weights))
            }
            _ => None,
        };
        Ok(Box::new(BoundConv {
            conv: *self,
            weights,
            winograd,
        }))
    }
}

/// A convolution with its weights, ready to execute.
pub(super) struct BoundConv {
    pub(super) conv: Conv,
    /// `None` where they are not constant.
    weights: Option<Weights>,
    winograd: Option<(Winograd, Arc<Transformed>)>,
}

impl Workload for BoundConv {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        if let Some((winograd, weights)) = &self.winograd {
            return self.run_winograd(winograd, weights.elements(), &inputs, &mut outputs);
        }
        if let (Some(product), Some(weights)) = (self.conv.product_of_pairs(), &self.weights) {
            return self.run_pairs(product, weights, &inputs, &mut outputs);
        }
        of_float!(self.conv.float, T => self.run::<T>(&inputs, &mut outputs))
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.weights.is_none()
    }
}

impl BoundConv {
    fn run_winograd(
        &self,
        winograd: &Winograd,
        weights: &[f32],
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        let conv = &self.conv;
        let memory = super::scratch(outputs, winograd.scratch())?;
        let operands = conv.float_operands(inputs)?;
        let output = outputs.slice::<f32>(0)?;
        winograd.run(conv, weights, &operands, memory, output);
        Ok(())
    }

    fn run<T: GemmElement>(&self, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<()> {
        let conv = &self.conv;
        let sizes = conv.scratch();
        let scratch = super::scratch(outputs, total_len(sizes))?;
        let [packed, plain, bias, image] = split_scratch(scratch, sizes);
        let weights = match &self.weights {
            Some(weights) => weights.elements(),
            None => {
                let len = conv.positions() * conv.depth() * conv.filters;
                let weights = Floats::input(inputs, 1, conv.float)?;
                conv.fill(weights.load(conv.level, 0..len, plain), packed);
                packed
            }
        };
        let optional =
            |is_used: bool, index: usize| is_used.then(|| inputs.slice::<T>(index)).transpose();
        let operands = ConvOperands {
            input: inputs.slice::<T>(0)?,
            bias: if conv.bias {
                let elements = Floats::input(inputs, 2, conv.float)?;
                Some(elements.load(conv.level, 0..conv.filters, bias))
            } else {
                None
            },
            addend: optional(conv.addend, 3)?,
        };
        conv.run(weights, &operands, image, outputs.slice(0)?);
        Ok(())
    }
}

/// The operands of a convolution beside its weights.
pub(super) struct ConvOperands<'a, T> {
    pub(super) input: &'a [T],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) addend: Option<&'a [T]>,
}

impl Conv {
    /// The operands of a convolution of f32.
    pub(super) fn float_operands<'a>(&self, inputs: &Inputs<'a>) -> Result<ConvOperands<'a, f32>> {
        let optional =
            |is_used: bool, index: usize| is_used.then(|| inputs.slice::<f32>(index)).transpose();
        Ok(ConvOperands {
            input: &inputs.slice::<f32>(0)?[..self.shape.input_len()],
            bias: optional(self.bias, 2)?,
            addend: optional(self.addend, 3)?,
        })
    }

    /// Computes the output from packed weights; `scratch` is for the padded image or the input in f32.
    pub(super) fn run<T: GemmElement>(
        &self,
        weights: &[f32],
        operands: &ConvOperands<'_, T>,
        scratch: &mut [f32],
        output: &mut [T],
    ) {
        let level = self.level;
        if let Some(padded) = self.padded() {
            // A padded copy is only made for one group of a convolution of one part.
            let output = MatrixMut::new(output, self.shape.pixels(), self.filters, self.filters);
            let gemm = self.gemm(weights, self.positions(), operands.bias);
            if self.keeps_bf16() {
                let copy = &mut T::of_words(scratch)[..padded.input_len()];
                pad(&self.shape, &padded, T::default(), copy, &|range, to| {
                    to.copy_from_slice(&operands.input[range]);
                });
                let a = PaddedIm2col::new(copy, padded);
                return T::multiply(level, &a, &gemm, operands.addend, output);
            }
            let copy = &mut scratch[..padded.input_len()];
            let input = T::floats(operands.input);
            pad(&self.shape, &padded, 0.0, copy, &|range, to| {
                input.copy(level, range, to);
            });
            let a = PaddedIm2col::new(copy, padded);
            return T::multiply_floats(level, &a, &gemm, operands.addend, output);
        }
        let floats = (self.converts_input() && !self.keeps_bf16())
            .then(|| T::floats(&operands.input[..self.shape.input_len()]).load_all(level, scratch));
        let mut rest = weights;
        for part in Part::all(self) {
            let weights = rest.split_off(..self.packed(part.positions()));
            let weights = weights.unwrap_or_default();
            if self.direct {
                self.run_direct(&part, weights, operands, output);
            } else {
                self.run_part(&part, weights, (operands, floats), output);
            }
        }
    }

    /// Computes the output pixels of one part, from the input or from the input in f32.
    fn run_part<T: GemmElement>(
        &self,
        part: &Part,
        weights: &[f32],
        (operands, floats): (&ConvOperands<'_, T>, Option<&[f32]>),
        output: &mut [T],
    ) {
        let (depth, filters) = (self.depth(), self.group_filters());
        let (rows, packed) = (part.shape.pixels(), self.packed_group(part.positions()));
        for group in 0..self.groups {
            let first = part.first_pixel * self.filters + group * filters;
            let output = &mut output[first..];
            let output = MatrixMut::of_pixels(output, rows, filters, part.output());
            let weights = &weights[group * packed..][..packed];
            let bias = operands.bias.map(|bias| &bias[group * filters..]);
            let addend = operands.addend.map(|addend| &addend[first..]);
            let gemm = self.gemm(weights, part.positions(), bias);
            if part.is_pointwise() && self.groups == 1 {
                if let Some(input) = floats {
                    let a = Matrix::new(input, rows, depth, depth);
                    T::multiply_floats(self.level, &a, &gemm, addend, output);
                } else {
                    let a = Matrix::new(operands.input, rows, depth, depth);
                    T::multiply(self.level, &a, &gemm, addend, output);
                }
            } else if let Some(input) = floats {
                let a = Im2col::new(input, part.shape, part.origin, group * depth, depth);
                T::multiply_floats(self.level, &a, &gemm, addend, output);
            } else {
                let input = operands.input;
                let a = Im2col::new(input, part.shape, part.origin, group * depth, depth);
                T::multiply(self.level, &a, &gemm, addend, output);
            }
        }
    }

    /// The product of one group at some kernel positions.
    pub(super) fn gemm<'a>(
        &self,
        weights: &'a [f32],
        positions: usize,
        bias: Option<&'a [f32]>,
    ) -> Gemm<'a> {
        let depth = self.plain_rows(positions);
        Gemm {
            bias,
            limits: self.activation.limits,
            function: self.activation.function,
            ..Gemm::new(Panels::of(
                self.packed_type(),
                weights,
                depth,
                self.group_filters(),
            ))
        }
    }
}

/// The shape of an image with its padding, when whole kernel rows are read from a padded copy: in images of few channels.
pub(super) fn padded(shape: &Geometry) -> Option<Geometry> {
    let whole_rows = shape.channels < FEW_CHANNELS
        && shape.kernel[2] > 1
        && shape.dilations[2] == 1
        && shape.pixels() > 0;
    let reach = |axis: usize| {
        let last = (shape.output[axis] - 1) * shape.strides[axis]
            + (shape.kernel[axis] - 1) * shape.dilations[axis];
        (last + 1).max(shape.before[axis] + shape.size[axis])
    };
    whole_rows.then(|| Geometry {
        size: std::array::from_fn(reach),
        before: [0; 3],
        ..*shape
    })
}

/// Copies an image and its padding, which has the element `padding`. `copy` copies some elements of the image to pixels
/// with the channels of `padded`.
pub(super) fn pad<T: Copy + Send + Sync>(
    shape: &Geometry,
    padded: &Geometry,
    padding: T,
    to: &mut [T],
    copy: &(dyn Fn(Range<usize>, &mut [T]) + Sync),
) {
    let line = shape.size[2] * shape.channels;
    let left = shape.before[2] * padded.channels;
    let inside = left..left + shape.size[2] * padded.channels;
    let parallel = to.len() >= 1 << 17;
    // Several lines in each iteration, which amortises its scheduling.
    let lines = 16;
    let width = padded.size[2] * padded.channels;
    for_each_chunk(to, width * lines, parallel, |chunk, to| {
        for (within, to) in to.chunks_exact_mut(width).enumerate() {
            let row = chunk * lines + within;
            let (plane, y) = (row / padded.size[1], row % padded.size[1]);
            let (image, z) = (plane / padded.size[0], plane % padded.size[0]);
            let y = y.wrapping_sub(shape.before[1]);
            let z = z.wrapping_sub(shape.before[0]);
            if y >= shape.size[1] || z >= shape.size[0] {
                to.fill(padding);
                continue;
            }
            let from = (image * shape.size[0] + z) * shape.size[1] + y;
            to[..left].fill(padding);
            copy(from * line..(from + 1) * line, &mut to[inside.clone()]);
            to[inside.end..].fill(padding);
        }
    });
}
