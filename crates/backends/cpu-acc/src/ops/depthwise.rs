//! Depthwise convolution: each filter is applied to one channel.

use super::Kernel;
use super::conv::Conv;
use super::prepared::{Preparation, Weights};
use crate::simd::depthwise::Depthwise;
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Operands, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, pool};
use tenon_tensor::Tensor;

/// The tag of the prepared layout: `[kernel position][channel]`.
const LAYOUT: &str = "taps_c:f32"; // words: allow

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// The kernel of a depthwise convolution.
pub(super) struct DepthwiseConv(pub(super) Conv);

impl DepthwiseConv {
    fn preparation<'a>(&self, fill: &'a dyn Fn(&[f32], &mut [f32])) -> Preparation<'a> {
        Preparation {
            input: 1,
            layout: LAYOUT,
            len: self.0.positions() * self.0.filters,
            fill,
        }
    }

    /// Transposes weights `[channel][position]`.
    fn fill(&self, from: &[f32], to: &mut [f32]) {
        let positions = self.0.positions();
        for (channel, weights) in from.chunks_exact(positions).enumerate() {
            for (position, &weight) in weights.iter().enumerate() {
                to[position * self.0.filters + channel] = weight;
            }
        }
    }
}

impl Kernel for DepthwiseConv {
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let prepared = self
            .preparation(&|from, to| self.fill(from, to))
            .prepare(spec)?;
        Ok(WorkloadPlan {
            prepared: vec![prepared],
            ..WorkloadPlan::default()
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
        Ok(Box::new(BoundDepthwiseConv {
            conv: self.0,
            weights,
        }))
    }
}

/// A depthwise convolution with its weights, ready to execute.
struct BoundDepthwiseConv {
    conv: Conv,
    weights: Weights,
}

impl Workload for BoundDepthwiseConv {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Conv {
            level,
            shape,
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
        let line = shape.out_width * shape.channels;
        if output.is_empty() {
            return Ok(());
        }
        let rows = shape.images * shape.out_height;
        let parallel = 2 * self.conv.positions() * output.len() >= PARALLEL_OPERATIONS;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk_rows = rows.div_ceil(chunks);
        for_each_chunk(output, chunk_rows * line, parallel, |chunk, output| {
            let start = chunk * chunk_rows * line;
            level.run(Depthwise {
                input,
                shape,
                weights: self.weights.elements(),
                bias,
                addend: addend.map(|addend| &addend[start..][..output.len()]),
                limits: activation.limits,
                function: activation.function,
                first_row: chunk * chunk_rows,
                output,
            });
        });
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1
    }
}
