//! `ConvInteger` and `QLinearConv`.

use super::{
    ByteType, MOST_DEPTH, Parameter, Requantization, WIDTH, ZeroPoints, check_scalar, output_zero,
};
use crate::ops::columns::{ColumnConvolution, ImageGroup};
use crate::ops::{Kernel, UnpreparedWorkload, scratch, split_scratch, total_len};
use crate::signature::{Signature, refuse};
use tenon_backend::{Inputs, Operands, Outputs, Reason, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// A convolution of integers.
struct IntegerConvolution {
    columns: ColumnConvolution<WIDTH>,
    types: [ByteType; 2],
    /// The zero points of the images and of the weights.
    zeros: [Parameter; 2],
    weights: usize,
    /// The scale of the weights and the type of the output; `None` where the sums are the output.
    quantized: Option<(Parameter, ByteType)>,
    has_bias: bool,
}

/// The kernel.
pub(in crate::ops) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let quantized = signature.op.name == "QLinearConv";
    let [weights, x_zero, w_zero] = if quantized { [3, 2, 5] } else { [1, 2, 3] };
    let columns = ColumnConvolution::of(signature, weights)?;
    let filters = columns.filters * columns.groups;
    let types = [
        ByteType::of_input(signature, 0)?,
        ByteType::of_input(signature, weights)?,
    ];
    let zeros = [
        Parameter::zero_point(signature, x_zero, 0, 1)?,
        Parameter::zero_point(signature, w_zero, weights, filters)?,
    ];
    let has_bias = quantized && signature.optional(8).is_some();
    let quantized = if quantized {
        if columns.depth() > MOST_DEPTH {
            return Err(refuse("no kernel for sums beyond 32 bits"));
        }
        for input in [1, 4, 6] {
            signature.f32_shape(input)?;
        }
        for input in [1, 6, 7] {
            check_scalar(signature, input)?;
        }
        if let Some(bias) = signature.optional(8)
            && (bias.dtype() != DataType::I32 || bias.elements() != filters)
        {
            let found = bias.dtype();
            return Err(Reason::InputType { input: 8, found }.into());
        }
        let scale = Parameter::of(signature, 4, filters)?;
        Some((scale, ByteType::of_input(signature, 7)?))
    } else {
        None
    };
    Ok(Box::new(IntegerConvolution {
        columns,
        types,
        zeros,
        weights,
        quantized,
        has_bias,
    }))
}

impl UnpreparedWorkload for IntegerConvolution {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.columns.scratch_bytes(size_of::<i32>()),
            ..WorkloadPlan::default()
        }
    }
}

impl Workload for IntegerConvolution {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let Some((w_scale, ty)) = self.quantized else {
            let copy = |_, sums: &[i32], to: &mut [i32]| to.copy_from_slice(sums);
            return self.compute(&inputs, &mut outputs, copy);
        };
        let x_scale = f64::from(inputs.slice::<f32>(1)?[0]);
        let w_scales = inputs.slice::<f32>(4)?;
        let y_scale = f64::from(inputs.slice::<f32>(6)?[0]);
        let y_zero = output_zero(&inputs, 7, ty.is_signed())?;
        let bias = if self.has_bias {
            Some(inputs.slice::<i32>(8)?)
        } else {
            None
        };
        let level = self.columns.level;
        self.compute(&inputs, &mut outputs, |filter, sums, to: &mut [u8]| {
            level.run(Requantization {
                sums,
                bias: bias.map_or(0.0, |bias| bias[filter].into()),
                scale: x_scale * f64::from(w_scales[filter * w_scale.stride]),
                columns: None,
                y_scale,
                y_zero,
                signed: ty.is_signed(),
                to,
            });
        })
    }
}

impl IntegerConvolution {
    fn compute<Y: Element>(
        &self,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
        finish: impl Fn(usize, &[i32], &mut [Y]) + Sync,
    ) -> Result<()> {
        let (x, w) = (inputs.slice::<u8>(0)?, inputs.slice::<u8>(self.weights)?);
        let [x_type, w_type] = self.types;
        let x_zero = ZeroPoints::new(self.zeros[0], x_type, inputs)?.at(0);
        let w_zero = ZeroPoints::new(self.zeros[1], w_type, inputs)?;
        let output = outputs.slice::<Y>(0)?;
        let sizes = self.columns.scratch();
        let scratch = scratch::<i32>(outputs, total_len(sizes))?;
        let [weights, panels, sums] = split_scratch(scratch, sizes);
        let depth = self.columns.depth();
        let filters = weights.chunks_exact_mut(depth).zip(w.chunks_exact(depth));
        for (filter, (to, from)) in filters.enumerate() {
            let zero = w_zero.at(filter);
            for (to, &byte) in to.iter_mut().zip(from) {
                *to = w_type.moved(byte) - zero;
            }
        }
        let group = self.columns.channels * self.columns.plane();
        let pack = |at: ImageGroup, first: usize, to: &mut [i32]| {
            let x = &x[(at.image * self.columns.groups + at.group) * group..][..group];
            self.pack(x, first, x_zero, to);
        };
        let parts = [weights, panels, sums];
        self.columns.compute(parts, output, pack, finish);
        Ok(())
    }

    /// Packs the panel of the pixels from `first` on; the padding is the zero point.
    fn pack(&self, x: &[u8], first: usize, zero: i32, to: &mut [i32]) {
        let columns = &self.columns;
        let (origins, count) = columns.origins(first);
        let size = columns.geometry.size.map(|extent| extent as i64);
        let (ty, plane) = (self.types[0], columns.plane());
        let positions = columns.geometry.positions();
        columns.for_each_position(|position, distance| {
            // Beyond every plane where the position is in the padding.
            let mut offsets = [usize::MAX; WIDTH];
            for (offset, origin) in offsets.iter_mut().zip(&origins).take(count) {
                let at: [i64; 3] = std::array::from_fn(|axis| origin[axis] + distance[axis]);
                if (0..3).all(|axis| (0..size[axis]).contains(&at[axis])) {
                    *offset = ((at[0] * size[1] + at[1]) * size[2] + at[2]) as usize;
                }
            }
            let rows = to.chunks_exact_mut(WIDTH).skip(position).step_by(positions);
            for (to, plane) in rows.zip(x.chunks_exact(plane)) {
                for (to, &offset) in to.iter_mut().zip(&offsets) {
                    *to = plane.get(offset).map_or(0, |&byte| ty.moved(byte) - zero);
                }
            }
        });
    }
}
