//! Depthwise convolution: as many filters as channels, each of which sees its own channel.

use super::Kernel;
use super::conv::Conv;
use super::prepared::{Preparation, Weights};
use crate::simd::depthwise::Depthwise;
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Operands, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Result, pool};
use tenon_tensor::Tensor;

/// The tag of the prepared layout: `[taps][channels]`.
const LAYOUT: &str = "taps_c:f32";

/// Operations below which a second thread is not worth it.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// The kernel.
pub(super) struct DepthwiseConv(pub(super) Conv);

impl DepthwiseConv {
    fn preparation<'a>(&self, fill: &'a dyn Fn(&[f32], &mut [f32])) -> Preparation<'a> {
        Preparation {
            input: 1,
            layout: LAYOUT,
            len: self.0.taps() * self.0.filters,
            fill,
        }
    }

    /// Transposes weights `[channel][tap]`.
    fn fill(&self, from: &[f32], to: &mut [f32]) {
        let taps = self.0.taps();
        for (channel, weights) in from.chunks_exact(taps).enumerate() {
            for (tap, &weight) in weights.iter().enumerate() {
                to[tap * self.0.filters + channel] = weight;
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
        Ok(Box::new(Bound {
            conv: self.0,
            weights,
        }))
    }
}

/// The workload.
struct Bound {
    conv: Conv,
    weights: Weights,
}

impl Workload for Bound {
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
        let parallel = 2 * self.conv.taps() * output.len() >= PARALLEL_OPERATIONS;
        let pieces = if parallel { 4 * pool::threads() } else { 1 };
        let each = rows.div_ceil(pieces);
        for_each_chunk(output, each * line, parallel, |piece, output| {
            let start = piece * each * line;
            level.run(Depthwise {
                input,
                shape,
                weights: self.weights.numbers(),
                bias,
                addend: addend.map(|addend| &addend[start..][..output.len()]),
                limits: activation.limits,
                curve: activation.curve,
                first_row: piece * each,
                output,
            });
        });
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1
    }
}
