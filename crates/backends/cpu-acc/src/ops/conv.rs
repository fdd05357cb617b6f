//! `tenon.Conv`: convolution of images with the channels last (NHWC), as implicit GEMM over im2col
//! rows (Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014).

use super::Kernel;
use super::depthwise::DepthwiseConv;
use super::prepared::{Preparation, Weights};
use crate::activation::Activation;
use crate::panels::{LAYOUT, Panels, WIDTH, packed_len};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::{MatrixMut, for_each_chunk};
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::rows::{Geometry, Im2col, Matrix, PaddedIm2col};
use tenon_backend::{Operands, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;
use tenon_tensor::Tensor;

/// Images of fewer channels are copied with their padding, so that whole kernel rows are contiguous.
const FEW_CHANNELS: usize = 12;

/// A dense or grouped convolution.
#[derive(Debug, Clone)]
pub(super) struct Conv {
    pub(super) level: Level,
    pub(super) shape: Geometry,
    pub(super) groups: usize,
    /// Output channels of all groups.
    pub(super) filters: usize,
    pub(super) activation: Activation,
    pub(super) bias: bool,
    pub(super) addend: bool,
}

/// The kernel for a convolution.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let conv = Conv::of(signature)?;
    if conv.groups > 1 && conv.groups == conv.shape.channels && conv.groups == conv.filters {
        return Ok(Box::new(DepthwiseConv(conv)));
    }
    Ok(Box::new(conv))
}

impl Conv {
    fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let image = signature.ranked::<4>(0)?;
        let [filters, group_channels, kernel_height, kernel_width] = signature.ranked::<4>(1)?;
        if !signature.is_constant(1) {
            return Err(Reason::NotConstant { input: 1 }.into());
        }
        let output = signature.ranked_output::<4>()?;
        let shape = signature.geometry(image, [kernel_height, kernel_width])?;
        let groups = usize::try_from(signature.int("group", 1)?).unwrap_or(0);
        let expected = [image[0], shape.out_height, shape.out_width, filters];
        let consistent = groups > 0
            && Some(image[3]) == group_channels.checked_mul(groups)
            && filters.is_multiple_of(groups)
            && output == expected;
        if !consistent {
            return Err(refuse("the shapes do not fit"));
        }
        let bias = signature.optional_f32_shape(2)?;
        if bias.is_some_and(|bias| bias[..] != [filters]) {
            return Err(refuse("the bias requires one element per filter"));
        }
        let addend = signature.optional_f32_shape(3)?;
        if addend.is_some_and(|addend| addend[..] != output) {
            return Err(refuse(
                "no kernel for an addend whose shape differs from the output's",
            ));
        }
        Ok(Self {
            level: signature.level,
            shape,
            groups,
            filters,
            activation: Activation::of(signature)?,
            bias: bias.is_some(),
            addend: addend.is_some(),
        })
    }

    /// Input channels of a group.
    fn depth(&self) -> usize {
        self.shape.channels / self.groups
    }

    pub(super) fn positions(&self) -> usize {
        self.shape.kernel[0] * self.shape.kernel[1]
    }

    /// Output channels of a group.
    fn group_filters(&self) -> usize {
        self.filters / self.groups
    }

    /// Elements of the packed weights of one group.
    fn packed(&self) -> usize {
        packed_len(self.positions() * self.depth(), self.group_filters())
    }

    /// Writes the panels of all groups from weights `[filter][channel][position]`.
    fn fill(&self, from: &[f32], to: &mut [f32]) {
        let (positions, depth, filters) = (self.positions(), self.depth(), self.group_filters());
        let size = filters * depth * positions;
        if size == 0 {
            return;
        }
        let groups = from
            .chunks_exact(size)
            .zip(to.chunks_exact_mut(self.packed()));
        for (from, to) in groups {
            for (panel, to) in to.chunks_exact_mut(positions * depth * WIDTH).enumerate() {
                let first = panel * WIDTH;
                for column in 0..(filters - first).min(WIDTH) {
                    let filter = &from[(first + column) * depth * positions..][..depth * positions];
                    for (channel, weights) in filter.chunks_exact(positions).enumerate() {
                        for (position, &weight) in weights.iter().enumerate() {
                            to[(position * depth + channel) * WIDTH + column] = weight;
                        }
                    }
                }
            }
        }
    }

    fn preparation<'a>(&self, fill: &'a dyn Fn(&[f32], &mut [f32])) -> Preparation<'a> {
        Preparation {
            input: 1,
            layout: LAYOUT,
            len: self.groups.saturating_mul(self.packed()),
            fill,
        }
    }

    /// The shape of the image with its padding, when whole kernel rows are read from a padded copy.
    fn padded(&self) -> Option<Geometry> {
        let shape = &self.shape;
        let whole_rows = self.groups == 1
            && shape.channels < FEW_CHANNELS
            && shape.kernel[1] > 1
            && shape.dilations[1] == 1
            && shape.pixels() > 0;
        let reach = |axis: usize, size: usize, out: usize| {
            let last =
                (out - 1) * shape.strides[axis] + (shape.kernel[axis] - 1) * shape.dilations[axis];
            (last + 1).max(shape.before[axis] + size)
        };
        whole_rows.then(|| Geometry {
            height: reach(0, shape.height, shape.out_height),
            width: reach(1, shape.width, shape.out_width),
            before: [0, 0],
            ..*shape
        })
    }
}

impl Kernel for Conv {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let scratch = self.padded().map_or(0, |padded| padded.input_len());
        Ok(WorkloadPlan {
            scratch_bytes: scratch.saturating_mul(size_of::<f32>()),
            in_place: Vec::new(),
            prepared: vec![
                self.preparation(&|from, to| self.fill(from, to))
                    .prepare(spec)?,
            ],
        })
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
        let weights = self
            .preparation(&|from, to| self.fill(from, to))
            .find(spec)?;
        Ok(Box::new(BoundConv {
            padded: self.padded(),
            conv: *self,
            weights,
        }))
    }
}

/// A convolution with its weights, ready to execute.
struct BoundConv {
    conv: Conv,
    padded: Option<Geometry>,
    weights: Weights,
}

impl Workload for BoundConv {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Conv {
            level,
            shape,
            groups,
            filters,
            activation,
            ..
        } = self.conv;
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<f32>(0)?;
        let bias = if self.conv.bias {
            Some(inputs.slice::<f32>(2)?)
        } else {
            None
        };
        let addend = if self.conv.addend {
            Some(inputs.slice::<f32>(3)?)
        } else {
            None
        };
        let output = outputs.slice::<f32>(0)?;
        if output.is_empty() {
            return Ok(());
        }
        let (positions, depth) = (self.conv.positions(), self.conv.depth());
        let (group_filters, packed) = (self.conv.group_filters(), self.conv.packed());
        let pixels = shape.pixels();
        let gemm = |group: usize| {
            let first = group * group_filters;
            let weights = &self.weights.elements()[group * packed..][..packed];
            Gemm {
                panels: Panels::new(weights, positions * depth, group_filters),
                bias: bias.map(|bias| &bias[first..]),
                addend: addend.map(|addend| &addend[first..]),
                scale: 1.0,
                limits: activation.limits,
                function: activation.function,
            }
        };
        // A padded copy is only made for one group.
        if let Some(padded) = &self.padded {
            let output = MatrixMut::new(output, pixels, filters, filters);
            let copy = super::scratch(&mut outputs, padded.input_len())?;
            pad(input, &shape, padded, copy);
            multiply(level, &PaddedIm2col::new(copy, *padded), &gemm(0), output);
            return Ok(());
        }
        for group in 0..groups {
            let output = &mut output[group * group_filters..];
            let output = MatrixMut::new(output, pixels, group_filters, filters);
            let gemm = gemm(group);
            if shape.is_pointwise() && groups == 1 {
                let a = Matrix::new(input, pixels, depth, depth);
                multiply(level, &a, &gemm, output);
            } else {
                let a = Im2col::new(input, shape, group * depth, depth);
                multiply(level, &a, &gemm, output);
            }
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1
    }
}

/// Copies an image and its padding of zeros.
fn pad(image: &[f32], shape: &Geometry, padded: &Geometry, to: &mut [f32]) {
    let line = shape.width * shape.channels;
    let left = shape.before[1] * shape.channels;
    let parallel = to.len() >= 1 << 17;
    // Several lines in each iteration, which amortises its scheduling.
    let lines = 16;
    let width = padded.width * padded.channels;
    for_each_chunk(to, width * lines, parallel, |chunk, to| {
        for (within, to) in to.chunks_exact_mut(width).enumerate() {
            let row = chunk * lines + within;
            let (image_index, y) = (row / padded.height, row % padded.height);
            let y = y.wrapping_sub(shape.before[0]);
            if y >= shape.height {
                to.fill(0.0);
                continue;
            }
            let from = &image[(image_index * shape.height + y) * line..][..line];
            to[..left].fill(0.0);
            to[left..left + line].copy_from_slice(from);
            to[left + line..].fill(0.0);
        }
    });
}
