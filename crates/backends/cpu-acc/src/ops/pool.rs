//! Pools of one to three spatial dimensions over images with the channels first or last, as separable
//! reductions: the rows of a window are joined, then its columns. MaxPool with indices joins kernel
//! positions in order.

mod element;
mod geometry;
mod indexed;
mod strip;
mod unpool;
mod window;

use self::element::{Greatest, Join, PoolElement, Total};
use self::geometry::PoolGeometry;
use self::indexed::IndexedPool;
use self::window::PoolRows;
use super::elements::{Sink, Source};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::Signature;
use crate::simd::{Level, Simd};
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::DataType;

pub(super) use self::unpool::kernel as unpool;

/// Elements read below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Most elements that a strided read of columns extends beyond a block.
const SLACK: usize = 4;

/// The reduction of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PoolKind {
    Max,
    /// The mean, over the padding too when it counts.
    Average {
        padding_counts: bool,
    },
    /// The p-norm.
    Norm(f64),
}

/// A pool with one output.
struct WindowPool {
    level: Level,
    kind: PoolKind,
    dtype: DataType,
    shape: PoolGeometry,
    /// For a mean, the positions of the kernel that count at each position of the output, along each axis.
    counts: [Vec<usize>; 3],
}

/// The kernel of a pool.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let kind = match signature.op.name {
        "MaxPool" | "tenon.MaxPool" => PoolKind::Max,
        "AveragePool" | "tenon.AveragePool" => PoolKind::Average {
            padding_counts: signature.flag("count_include_pad", false)?,
        },
        _ => PoolKind::Norm(signature.int("p", 2)? as f64),
    };
    let channels_last = signature.op.name.starts_with("tenon.");
    let shape = PoolGeometry::of(signature, channels_last)?;
    let dtype = signature.input(0)?.dtype();
    signature.output(0)?;
    let supported = match dtype {
        DataType::I8 | DataType::U8 => kind == PoolKind::Max,
        DataType::F64 => true,
        _ => FloatType::of(dtype).is_some(),
    };
    if !supported {
        return Err(Reason::InputType {
            input: 0,
            found: dtype,
        }
        .into());
    }
    let level = signature.level;
    if signature.has_output(1) {
        return IndexedPool::of(signature, shape, dtype);
    }
    let counts = shape.axes.map(|axis| match kind {
        PoolKind::Average { padding_counts } => (0..axis.output)
            .map(|x| match padding_counts {
                true => axis.padded(x),
                false => axis.inside(x).len(),
            })
            .collect(),
        _ => Vec::new(),
    });
    Ok(Box::new(WindowPool {
        level,
        kind,
        dtype,
        shape,
        counts,
    }))
}

impl UnpreparedWorkload for WindowPool {}

impl Workload for WindowPool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        if let Some(float) = FloatType::of(self.dtype) {
            let (inputs, mut outputs) = operands.split();
            let input = Floats::input(&inputs, 0, float)?;
            let output = FloatsMut::output(&mut outputs, 0, float)?;
            match self.kind {
                PoolKind::Max => self.rows::<_, _, Greatest>(input, output),
                _ => self.rows::<_, _, Total>(input, output),
            }
            return Ok(());
        }
        match (self.kind, self.dtype) {
            (PoolKind::Max, DataType::F64) => self.run::<f64, Greatest>(operands),
            (PoolKind::Max, DataType::I8) => self.run::<i8, Greatest>(operands),
            (PoolKind::Max, _) => self.run::<u8, Greatest>(operands),
            _ => self.run::<f64, Total>(operands),
        }
    }
}

impl WindowPool {
    fn run<T: PoolElement, J: Join<T>>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        self.rows::<_, _, J>(inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        Ok(())
    }

    fn rows<I, O, J>(&self, input: I, output: O)
    where
        I: Source<Element: PoolElement>,
        O: Sink<Element = I::Element>,
        J: Join<I::Element>,
    {
        let (rows, parallel) = self.shape.chunks();
        output.for_each(rows * self.shape.line(), parallel, |chunk, output| {
            self.level.run(PoolRows::<I, O::Part<'_>, J> {
                pool: self,
                input,
                first: chunk * rows,
                output,
                join: PhantomData,
            });
        });
    }

    /// Joins `count` runs of the input, one to three, into `to`, see [`WindowPool::join_runs`].
    #[inline(always)]
    fn join_loaded<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        (input, ranges): (&I, [Range<usize>; 3]),
        count: usize,
        [buffer_a, buffer_b, buffer_c]: [&mut [I::Element]; 3],
        first: bool,
        to: &mut [I::Element],
    ) {
        let [range_a, range_b, range_c] = ranges;
        let a = input.load(self.level, range_a, buffer_a);
        let (mut b, mut c) = (a, a);
        if count > 1 {
            b = input.load(self.level, range_b, buffer_b);
        }
        if count > 2 {
            c = input.load(self.level, range_c, buffer_c);
        }
        self.join_runs::<S, I::Element, J>(s, [a, b, c], count, first, to);
    }

    /// Joins `count` runs into `to`, which they replace when they are the first; the powers of their
    /// elements for a norm.
    #[inline(always)]
    fn join_runs<S: Simd, T: PoolElement, J: Join<T>>(
        &self,
        s: S,
        from: [&[T]; 3],
        count: usize,
        first: bool,
        to: &mut [T],
    ) {
        let PoolKind::Norm(p) = self.kind else {
            return T::join_runs::<S, J>(s, from, count, first, to);
        };
        if first {
            to.fill(J::START);
        }
        for from in &from[..count] {
            for (to, &x) in to.iter_mut().zip(*from) {
                *to = J::join(*to, x.power(p));
            }
        }
    }

    /// The elements of each column of a window that count for the mean.
    fn counted_rows(&self, [_, d, h]: [usize; 3]) -> usize {
        self.counts[0][d] * self.counts[1][h]
    }

    /// Divides the sums of a block from output column `first` on by the number of elements, or takes
    /// their root.
    #[inline(always)]
    fn finish<T: PoolElement>(&self, at: [usize; 3], first: usize, run: usize, block: &mut [T]) {
        match self.kind {
            PoolKind::Max => {}
            PoolKind::Norm(p) => block.iter_mut().for_each(|x| *x = x.root(p)),
            PoolKind::Average { .. } => {
                let rows = self.counted_rows(at) as f32;
                let counts = &self.counts[2][first..];
                if run == 1 {
                    for (x, &count) in block.iter_mut().zip(counts) {
                        *x = x.over(rows * count as f32);
                    }
                    return;
                }
                for (pixel, &count) in block.chunks_exact_mut(run).zip(counts) {
                    for x in pixel {
                        *x = x.over(rows * count as f32);
                    }
                }
            }
        }
    }
}
