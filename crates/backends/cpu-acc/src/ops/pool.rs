//! Pools of one to three spatial dimensions over images with the channels first or last, in two steps:
//! the rows of a window are joined column by column, then the columns of the window (a separable
//! reduction). MaxPool with indices joins kernel positions in order.

use super::elements::{Sink, Source};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::depthwise::positions_inside;
use crate::simd::disjoint::for_each_chunk2;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, pool, stop};
use tenon_graph::geometry::Window;
use tenon_tensor::{DataType, Element, Shape};

/// Elements read below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Elements of a block of columns, which stay in the first-level cache.
const BLOCK: usize = 2048;

/// Channels of a block, for images with the channels last.
const CHANNELS: usize = 128;

/// Elements of a strip of rows, with their padding.
const STRIP: usize = 4096;

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

/// A spatial dimension.
#[derive(Debug, Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

impl Axis {
    /// A dimension that the images do not have.
    const NONE: Self = Self {
        input: 1,
        output: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
    };

    /// The kernel positions at output position `at` that are inside the image.
    #[inline(always)]
    fn inside(&self, at: usize) -> Range<usize> {
        let start = at * self.stride;
        positions_inside(start, self.before, self.dilation, self.kernel, self.input)
    }

    /// The input position of a kernel position that is inside the image.
    #[inline(always)]
    fn source(&self, at: usize, position: usize) -> usize {
        at * self.stride + position * self.dilation - self.before
    }

    /// The number of kernel positions inside the image or its padding: the last window may extend
    /// beyond both.
    fn padded(&self, at: usize) -> usize {
        let padded = self.before + self.input + self.after;
        let left = padded.saturating_sub(at * self.stride);
        left.div_ceil(self.dilation).min(self.kernel)
    }

    /// The output positions for which a kernel position is inside the image.
    #[inline(always)]
    fn outputs_inside(&self, position: usize) -> Range<usize> {
        let shift = position * self.dilation;
        let count = |limit: usize| limit.saturating_sub(shift).div_ceil(self.stride);
        let end = count(self.input + self.before).min(self.output);
        count(self.before).min(end)..end
    }

    /// Whether all products and sums of coordinates fit 31 bits.
    fn is_small(&self) -> bool {
        let reach = || {
            let windows = self.stride.checked_mul(self.output)?;
            let kernel = self.kernel.checked_mul(self.dilation)?;
            let padded = self
                .input
                .checked_add(self.before)?
                .checked_add(self.after)?;
            windows.checked_add(kernel)?.checked_add(padded)
        };
        reach().is_some_and(|reach| reach <= i32::MAX as usize)
    }
}

/// Images as [images, depth, height, width, run]: with the channels first, a run is one element.
#[derive(Debug, Clone)]
struct Geometry {
    images: usize,
    axes: [Axis; 3],
    run: usize,
}

impl Geometry {
    fn of(signature: &Signature<'_>, channels_last: bool) -> Result<Self, Refusal> {
        let (x, y) = (signature.input(0)?.shape(), signature.output(0)?.shape());
        let rank = x.len();
        if !(3..=5).contains(&rank) {
            return Err(Reason::InputRank {
                input: 0,
                found: rank,
            }
            .into());
        }
        let spatial = if channels_last { 1..rank - 1 } else { 2..rank };
        let kernel = kernel_shape(signature, spatial.len())?;
        let window = Window::sliding(signature.attributes(), &x[spatial.clone()], &kernel)
            .map_err(|error| refuse(error.to_string()))?;
        let mut expected = x.to_vec();
        expected[spatial.clone()].copy_from_slice(&window.output);
        if Shape::new(expected) != *y {
            return Err(refuse("the shapes do not fit"));
        }
        let mut axes = [Axis::NONE; 3];
        let first = 3 - spatial.len();
        for (at, dim) in spatial.enumerate() {
            axes[first + at] = Axis {
                input: x[dim],
                output: y[dim],
                kernel: kernel[at],
                stride: window.strides[at],
                dilation: window.dilations[at],
                before: window.pads_begin[at],
                after: window.pads_end[at],
            };
        }
        if !axes.iter().all(Axis::is_small) {
            return Err(refuse("the image is too large"));
        }
        let (images, run) = if channels_last {
            (x[0], x[rank - 1])
        } else {
            (x[0] * x[1], 1)
        };
        Ok(Self { images, axes, run })
    }

    /// Elements of an image of the input.
    fn image(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product::<usize>() * self.run
    }

    /// Elements of a row of the output.
    fn line(&self) -> usize {
        self.axes[2].output * self.run
    }

    /// Rows of the output.
    fn rows(&self) -> usize {
        self.images * self.axes[0].output * self.axes[1].output
    }

    /// The rows of a chunk of the output, and whether chunks are computed in parallel.
    fn chunks(&self) -> (usize, bool) {
        let kernel: usize = self
            .axes
            .iter()
            .fold(1, |all, axis| all.saturating_mul(axis.kernel));
        let work = self
            .rows()
            .saturating_mul(self.line())
            .saturating_mul(kernel);
        let parallel = work >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        (self.rows().div_ceil(chunks).max(1), parallel)
    }

    /// The image, depth and height of a row of the output.
    #[inline(always)]
    fn row(&self, row: usize) -> [usize; 3] {
        let (depths, heights) = (self.axes[0].output, self.axes[1].output);
        [
            row / heights / depths,
            row / heights % depths,
            row % heights,
        ]
    }
}

/// The attribute `kernel_shape`.
fn kernel_shape(signature: &Signature<'_>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let ints = signature.ints("kernel_shape")?.unwrap_or(&[]);
    let sizes = ints
        .iter()
        .map(|&size| usize::try_from(size).ok().filter(|&size| size > 0))
        .collect::<Option<Vec<usize>>>()
        .filter(|sizes| sizes.len() == rank);
    sizes.ok_or_else(|| refuse_attribute("kernel_shape", format_args!("{ints:?}")))
}

/// The arithmetic of pools on elements of one type.
trait PoolElement: Element + PartialOrd {
    /// The identity of `greater`.
    const LOWEST: Self;
    const ZERO: Self;
    /// The greater; NaN if either is NaN.
    fn greater(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
    fn over(self, divisor: f32) -> Self;
    /// The magnitude to the power `p`.
    fn power(self, p: f64) -> Self;
    /// The root of degree `p`.
    fn root(self, p: f64) -> Self;

    /// Joins `count` of the runs `from`, one to three, into `to`, which they replace when they are the
    /// first. All have the same length.
    #[inline(always)]
    fn join_runs<S: Simd, J: Join<Self>>(
        _: S,
        [a, b, c]: [&[Self]; 3],
        count: usize,
        first: bool,
        to: &mut [Self],
    ) {
        match (count, first) {
            (1, true) => to.copy_from_slice(a),
            (2, true) => {
                for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
                    *to = J::join(a, b);
                }
            }
            (_, true) => {
                for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
                    *to = J::join(J::join(a, b), c);
                }
            }
            (1, false) => {
                for (to, &a) in to.iter_mut().zip(a) {
                    *to = J::join(*to, a);
                }
            }
            (2, false) => {
                for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
                    *to = J::join(J::join(*to, a), b);
                }
            }
            (_, false) => {
                for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
                    *to = J::join(J::join(J::join(*to, a), b), c);
                }
            }
        }
    }
}

/// The vectors of `from`, joined into `to`, see [`PoolElement::join_runs`].
#[inline(always)]
fn join_vectors<S: Simd, J: Join<f32>>(
    s: S,
    [a, b, c]: [&[f32]; 3],
    count: usize,
    first: bool,
    to: &mut [f32],
) {
    let len = to.len();
    let (a, b, c) = (&a[..len], &b[..len], &c[..len]);
    let mut at = 0;
    while at < len {
        let end = (at + S::LANES).min(len);
        let whole = end - at == S::LANES;
        let load = |from: &[f32]| {
            if whole {
                s.load(&from[at..end])
            } else {
                s.load_part(&from[at..end])
            }
        };
        let mut joined = load(a);
        if !first {
            joined = J::join_vectors(s, load(to), joined);
        }
        if count > 1 {
            joined = J::join_vectors(s, joined, load(b));
        }
        if count > 2 {
            joined = J::join_vectors(s, joined, load(c));
        }
        if whole {
            s.store(joined, &mut to[at..end]);
        } else {
            s.store_part(joined, &mut to[at..end]);
        }
        at = end;
    }
}

macro_rules! pool_floats {
    ($($float:ident { $($item:item)? })*) => {$(
        impl PoolElement for $float {
            const LOWEST: Self = $float::NEG_INFINITY;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                if other > self || other.is_nan() { other } else { self }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn over(self, divisor: f32) -> Self {
                self / $float::from(divisor)
            }
            #[inline(always)]
            fn power(self, p: f64) -> Self {
                if p == 2.0 {
                    self * self
                } else if p == 1.0 {
                    self.abs()
                } else {
                    self.abs().powf(p as $float)
                }
            }
            #[inline(always)]
            fn root(self, p: f64) -> Self {
                if p == 2.0 {
                    self.sqrt()
                } else if p == 1.0 {
                    self
                } else {
                    self.powf((1.0 / p) as $float)
                }
            }
            $($item)?
        }
    )*};
}

macro_rules! pool_integers {
    ($($integer:ident)*) => {$(
        impl PoolElement for $integer {
            const LOWEST: Self = $integer::MIN;
            const ZERO: Self = 0;
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn over(self, _: f32) -> Self {
                self
            }
            #[inline(always)]
            fn power(self, _: f64) -> Self {
                self
            }
            #[inline(always)]
            fn root(self, _: f64) -> Self {
                self
            }
        }
    )*};
}

pool_floats! {
    f32 {
        #[inline(always)]
        fn join_runs<S: Simd, J: Join<Self>>(
            s: S,
            from: [&[Self]; 3],
            count: usize,
            first: bool,
            to: &mut [Self],
        ) {
            join_vectors::<S, J>(s, from, count, first, to);
        }
    }
    f64 {}
}
pool_integers! { i8 u8 }

/// The maximum or the sum, as a type, so that loops are compiled for each.
trait Join<T: PoolElement>: Copy + Send + Sync + 'static {
    const START: T;
    fn join(a: T, b: T) -> T;
    /// The same for vectors of f32.
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V;
}

#[derive(Clone, Copy)]
struct Greatest;

#[derive(Clone, Copy)]
struct Total;

impl<T: PoolElement> Join<T> for Greatest {
    const START: T = T::LOWEST;
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.greater(b)
    }
    #[inline(always)]
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V {
        s.nan_max(a, b)
    }
}

impl<T: PoolElement> Join<T> for Total {
    const START: T = T::ZERO;
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a.plus(b)
    }
    #[inline(always)]
    fn join_vectors<S: Simd>(s: S, a: S::V, b: S::V) -> S::V {
        s.add(a, b)
    }
}

/// A pool with one output.
struct WindowPool {
    level: Level,
    kind: PoolKind,
    dtype: DataType,
    shape: Geometry,
    /// For a mean, the kernel columns that count at each column of the output.
    counts: Vec<f32>,
}

/// The kernel of a pool.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let kind = match signature.op.name {
        "MaxPool" | "tenon.MaxPool" => PoolKind::Max,
        "AveragePool" | "tenon.AveragePool" => PoolKind::Average {
            padding_counts: signature.flag("count_include_pad", false)?,
        },
        _ => PoolKind::Norm(exponent(signature)?),
    };
    let channels_last = signature.op.name.starts_with("tenon.");
    let shape = Geometry::of(signature, channels_last)?;
    let dtype = signature.input(0)?.dtype();
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
    if signature.output(0)?.dtype() != dtype {
        return Err(refuse("the type of the output differs from the input's"));
    }
    let level = signature.level;
    if signature.has_output(1) {
        return IndexedPool::of(signature, shape, dtype);
    }
    let width = shape.axes[2];
    let counts = match kind {
        PoolKind::Average { padding_counts } => (0..width.output)
            .map(|x| {
                let count = if padding_counts {
                    width.padded(x)
                } else {
                    width.inside(x).len()
                };
                count as f32
            })
            .collect(),
        _ => Vec::new(),
    };
    Ok(Box::new(WindowPool {
        level,
        kind,
        dtype,
        shape,
        counts,
    }))
}

/// The attribute `p` of a norm.
pub(super) fn exponent(signature: &Signature<'_>) -> Result<f64, Refusal> {
    match signature.int("p", 2)? {
        p if p > 0 => Ok(p as f64),
        p => Err(refuse_attribute("p", p)),
    }
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
}

/// Some rows of the output.
struct PoolRows<'a, I, O, J> {
    pool: &'a WindowPool,
    input: I,
    first: usize,
    output: O,
    join: PhantomData<J>,
}

/// Columns and channels that are computed at once, over some kernel columns.
struct Block {
    /// Columns of the output.
    columns: Range<usize>,
    /// Kernel columns.
    kernel: Range<usize>,
    /// Channels.
    run: Range<usize>,
    /// Columns of the input that the windows extend over, padding included.
    reach: usize,
}

impl<I, O, J> VectorOp for PoolRows<'_, I, O, J>
where
    I: Source<Element: PoolElement>,
    O: Sink<Element = I::Element>,
    J: Join<I::Element>,
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, s: S) {
        let pool = self.pool;
        let shape = &pool.shape;
        let [_, height, width] = shape.axes;
        if let Some(strip) = pool.strip() {
            let mut buffers = StripBuffers::new(J::START);
            let rows = self.output.len() / shape.line();
            let mut row = 0;
            while row < rows {
                stop::checkpoint();
                let at = shape.row(self.first + row);
                let count = strip.rows.min(height.output - at[2]).min(rows - row);
                let operands = (&self.input, &mut self.output);
                let counts = [row, count, strip.columns];
                pool.strip_rows::<S, I, O, J>(s, operands, at, counts, &mut buffers);
                row += count;
            }
            return;
        }
        let run = shape.run.min(CHANNELS);
        let columns = BLOCK / run;
        let reach = (width.kernel - 1) * width.dilation + 1;
        // Kernel columns whose reach is at most half of a block.
        let kernel = if reach <= columns / 2 {
            width.kernel
        } else {
            ((columns / 2).saturating_sub(1) / width.dilation + 1).min(width.kernel)
        };
        let reach = (kernel - 1) * width.dilation + 1;
        let most = (columns.saturating_sub(reach) / width.stride + 1).min(width.output);
        let line = shape.line();
        let mut buffers = PoolBuffers::new(J::START);
        for row in 0..self.output.len() / line {
            let at = shape.row(self.first + row);
            for first in (0..shape.run).step_by(run) {
                let run = first..(first + run).min(shape.run);
                for column in (0..width.output).step_by(most) {
                    stop::checkpoint();
                    let columns = column..(column + most).min(width.output);
                    let count = columns.len() * run.len();
                    buffers.sums[..count].fill(J::START);
                    for position in (0..width.kernel).step_by(kernel) {
                        let kernel = position..(position + kernel).min(width.kernel);
                        let reach = (columns.len() - 1) * width.stride
                            + (kernel.len() - 1) * width.dilation
                            + 1;
                        let block = Block {
                            columns: columns.clone(),
                            kernel,
                            run: run.clone(),
                            reach,
                        };
                        if pool.join_rows::<S, I, J>(s, &self.input, at, &block, &mut buffers) {
                            let PoolBuffers { line, sums, .. } = &mut buffers;
                            let sums = &mut sums[..count];
                            pool.join_columns::<S, I::Element, J>(s, &block, line, sums);
                        }
                    }
                    let sums = &mut buffers.sums[..count];
                    pool.finish(at, column, run.len(), sums);
                    let to = row * line;
                    if run.len() == shape.run {
                        let to = to + columns.start * run.len();
                        self.output.write(pool.level, to..to + count, sums);
                        continue;
                    }
                    for (column, sums) in columns.zip(sums.chunks_exact(run.len())) {
                        let to = to + column * shape.run + run.start;
                        self.output.write(pool.level, to..to + sums.len(), sums);
                    }
                }
            }
        }
    }
}

/// Memory for the blocks of a thread.
struct PoolBuffers<T> {
    /// The joined rows.
    line: [T; BLOCK + SLACK],
    /// The joined columns.
    sums: [T; BLOCK],
    /// Rows of the input, converted.
    rows: [[T; BLOCK]; 3],
}

impl<T: Copy> PoolBuffers<T> {
    #[inline(always)]
    fn new(start: T) -> Self {
        Self {
            line: [start; BLOCK + SLACK],
            sums: [start; BLOCK],
            rows: [[start; BLOCK]; 3],
        }
    }
}

impl WindowPool {
    /// Joins the rows of the windows of output row `at` into the line; returns false, with nothing
    /// written, where no row of the windows is inside the image.
    #[inline(always)]
    fn join_rows<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        input: &I,
        [image, d, h]: [usize; 3],
        block: &Block,
        buffers: &mut PoolBuffers<I::Element>,
    ) -> bool {
        let PoolBuffers { line, rows, .. } = buffers;
        let [buffer_a, buffer_b, buffer_c] = rows;
        let [depths, heights, width] = self.shape.axes;
        let run = block.run.len();
        // The columns of the line that are inside the image.
        let start = block.columns.start * width.stride + block.kernel.start * width.dilation;
        let left = width.before.saturating_sub(start).min(block.reach);
        let right = (width.input + width.before).saturating_sub(start);
        let right = right.clamp(left, block.reach);
        let (planes, rows) = (depths.inside(d), heights.inside(h));
        let count = planes.len() * rows.len();
        if right == left || count == 0 {
            return false;
        }
        line[..left * run].fill(J::START);
        line[right * run..block.reach * run].fill(J::START);
        let line = &mut line[left * run..right * run];
        let first_column = start + left - width.before;
        let row_at = |nth: usize| {
            let (plane, row) = if nth < rows.len() {
                (planes.start, rows.start + nth)
            } else {
                (
                    planes.start + nth / rows.len(),
                    rows.start + nth % rows.len(),
                )
            };
            let row = (image * depths.input + depths.source(d, plane)) * heights.input
                + heights.source(h, row);
            (row * width.input + first_column) * self.shape.run + block.run.start
        };
        // Adjacent runs are one.
        let (length, distance) = if run == self.shape.run {
            (line.len(), line.len())
        } else {
            (run, self.shape.run)
        };
        let mut nth = 0;
        while nth < count {
            let group = (count - nth).min(if nth == 0 { 3 } else { 2 });
            let starts = [0, 1, 2].map(|more| row_at(nth + more.min(group - 1)));
            for (column, line) in line.chunks_exact_mut(length).enumerate() {
                let range = |start: usize| {
                    let start = start + column * distance;
                    start..start + length
                };
                let a = input.load(self.level, range(starts[0]), &mut buffer_a[..]);
                let (mut b, mut c) = (a, a);
                if group > 1 {
                    b = input.load(self.level, range(starts[1]), &mut buffer_b[..]);
                }
                if group > 2 {
                    c = input.load(self.level, range(starts[2]), &mut buffer_c[..]);
                }
                self.join_runs::<S, I::Element, J>(s, [a, b, c], group, nth == 0, line);
            }
            nth += group;
        }
        true
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

    /// Joins the columns of the windows of `line` into the block of the output.
    #[inline(always)]
    fn join_columns<S: Simd, T: PoolElement, J: Join<T>>(
        &self,
        s: S,
        block: &Block,
        line: &[T; BLOCK + SLACK],
        output: &mut [T],
    ) {
        let width = self.shape.axes[2];
        let run = block.run.len();
        if width.stride == 1 {
            join_all::<S, T, J>(s, block.kernel.len(), false, output, |position| {
                &line[position * width.dilation * run..]
            });
            return;
        }
        for (column, to) in output.chunks_exact_mut(run).enumerate() {
            join_all::<S, T, J>(s, block.kernel.len(), false, to, |position| {
                &line[(column * width.stride + position * width.dilation) * run..]
            });
        }
    }

    /// Divides the sums of a block from output column `first` on by the number of elements, or takes
    /// their root.
    #[inline(always)]
    fn finish<T: PoolElement>(
        &self,
        [_, d, h]: [usize; 3],
        first: usize,
        run: usize,
        block: &mut [T],
    ) {
        let [depths, heights, _] = self.shape.axes;
        match self.kind {
            PoolKind::Max => {}
            PoolKind::Norm(p) => block.iter_mut().for_each(|x| *x = x.root(p)),
            PoolKind::Average { padding_counts } => {
                let rows = if padding_counts {
                    depths.padded(d) * heights.padded(h)
                } else {
                    depths.inside(d).len() * heights.inside(h).len()
                } as f32;
                let counts = &self.counts[first..];
                if run == 1 {
                    for (x, &count) in block.iter_mut().zip(counts) {
                        *x = x.over(rows * count);
                    }
                    return;
                }
                for (pixel, &count) in block.chunks_exact_mut(run).zip(counts) {
                    for x in pixel {
                        *x = x.over(rows * count);
                    }
                }
            }
        }
    }
}

/// Joins `count` runs of the length of `to` into it, which they replace when they are the first.
#[inline(always)]
fn join_all<'a, S: Simd, T: PoolElement, J: Join<T>>(
    s: S,
    count: usize,
    mut first: bool,
    to: &mut [T],
    from: impl Fn(usize) -> &'a [T],
) {
    let len = to.len();
    let mut nth = 0;
    while nth < count {
        let group = (count - nth).min(3);
        let runs = [0, 1, 2].map(|more| &from(nth + more.min(group - 1))[..len]);
        T::join_runs::<S, J>(s, runs, group, first, to);
        first = false;
        nth += group;
    }
}

/// Memory for a strip of rows.
struct StripBuffers<T> {
    /// The rows with their padding.
    padded: [T; STRIP],
    /// The joined rows.
    rows: [T; STRIP],
    /// The joined columns.
    columns: [T; STRIP + SLACK],
    /// A row of the output.
    output: [T; STRIP],
    /// Runs of the input, converted.
    runs: [[T; STRIP]; 3],
}

impl<T: Copy> StripBuffers<T> {
    #[inline(always)]
    fn new(start: T) -> Self {
        Self {
            padded: [start; STRIP],
            rows: [start; STRIP],
            columns: [start; STRIP + SLACK],
            output: [start; STRIP],
            runs: [[start; STRIP]; 3],
        }
    }
}

/// Most rows of the output of a strip, and the columns of its rows.
struct Strip {
    rows: usize,
    columns: usize,
}

impl WindowPool {
    /// The strips of images with the channels first; `None` where the rows of one window are too large,
    /// or most elements of a row would be skipped.
    fn strip(&self) -> Option<Strip> {
        let [_, height, width] = self.shape.axes;
        if self.shape.run > 1 || width.stride > SLACK {
            return None;
        }
        let columns = (width.output - 1) * width.stride + (width.kernel - 1) * width.dilation + 1;
        let reach = (height.kernel - 1) * height.dilation + 1;
        let left = (STRIP / columns).checked_sub(reach)?;
        Some(Strip {
            rows: left / height.stride + 1,
            columns,
        })
    }

    /// Joins the planes of the windows of `count` output rows from `[image, d, h]` on into padded rows.
    #[inline(always)]
    fn pad_rows<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        input: &I,
        [image, d, h]: [usize; 3],
        [rows, columns]: [usize; 2],
        buffers: &mut StripBuffers<I::Element>,
    ) {
        let [depths, heights, width] = self.shape.axes;
        let StripBuffers { padded, runs, .. } = buffers;
        let left = width.before.min(columns);
        let right = (width.input + width.before).clamp(left, columns);
        let planes = depths.inside(d);
        let first = h * heights.stride;
        // The rows that are inside the image.
        let top = heights.before.saturating_sub(first).min(rows);
        let bottom = (heights.input + heights.before).saturating_sub(first);
        let bottom = bottom.clamp(top, rows);
        padded[..top * columns].fill(J::START);
        padded[bottom * columns..rows * columns].fill(J::START);
        if planes.is_empty() || left == right {
            padded[..rows * columns].fill(J::START);
            return;
        }
        // Rows without padding are one run.
        let (count, len) = if right - left == columns && columns == width.input {
            (1.min(bottom - top), (bottom - top) * columns)
        } else {
            (bottom - top, right - left)
        };
        for row in top..top + count {
            let line = &mut padded[row * columns..];
            if count > 1 || len < columns {
                line[..left].fill(J::START);
                line[right..columns].fill(J::START);
            }
            let line = &mut line[left..left + len];
            let y = first + row - heights.before;
            let mut nth = 0;
            while nth < planes.len() {
                let group = (planes.len() - nth).min(3);
                let [run_a, run_b, run_c] = &mut *runs;
                let range = |more: usize| {
                    let z = depths.source(d, planes.start + nth + more.min(group - 1));
                    let plane = (image * depths.input + z) * heights.input;
                    let start = (plane + y) * width.input + left.saturating_sub(width.before);
                    start..start + len
                };
                let a = input.load(self.level, range(0), &mut run_a[..]);
                let (mut b, mut c) = (a, a);
                if group > 1 {
                    b = input.load(self.level, range(1), &mut run_b[..]);
                }
                if group > 2 {
                    c = input.load(self.level, range(2), &mut run_c[..]);
                }
                self.join_runs::<S, I::Element, J>(s, [a, b, c], group, nth == 0, line);
                nth += group;
            }
        }
    }

    /// Computes `count` rows of the output from `at` on, the `first` of `output` on.
    #[inline(always)]
    fn strip_rows<S: Simd, I, O, J>(
        &self,
        s: S,
        (input, output): (&I, &mut O),
        [image, d, h]: [usize; 3],
        [first, count, columns]: [usize; 3],
        buffers: &mut StripBuffers<I::Element>,
    ) where
        I: Source<Element: PoolElement>,
        O: Sink<Element = I::Element>,
        J: Join<I::Element>,
    {
        let [_, height, width] = self.shape.axes;
        let rows = (count - 1) * height.stride + (height.kernel - 1) * height.dilation + 1;
        self.pad_rows::<S, I, J>(s, input, [image, d, h], [rows, columns], buffers);
        let StripBuffers {
            padded,
            rows: joined,
            columns: windows,
            output: line,
            ..
        } = buffers;
        // Rows at a distance of one are joined at once.
        let (steps, len) = if height.stride == 1 {
            (1, count * columns)
        } else {
            (count, columns)
        };
        for step in 0..steps {
            let to = &mut joined[step * columns..][..len];
            join_all::<S, I::Element, J>(s, height.kernel, true, to, |row| {
                &padded[(step * height.stride + row * height.dilation) * columns..]
            });
        }
        let len = (count - 1) * columns + (width.output - 1) * width.stride + 1;
        join_all::<S, I::Element, J>(s, width.kernel, true, &mut windows[..len], |column| {
            &joined[column * width.dilation..]
        });
        for row in 0..count {
            let line = &mut line[..width.output];
            let windows = &windows[row * columns..];
            match width.stride {
                1 => line.copy_from_slice(&windows[..line.len()]),
                2 => every::<I::Element, 2>(windows, line),
                3 => every::<I::Element, 3>(windows, line),
                _ => every::<I::Element, 4>(windows, line),
            }
            self.finish([image, d, h + row], 0, 1, line);
            let to = (first + row) * width.output;
            output.write(self.level, to..to + line.len(), line);
        }
    }
}

/// Copies every `STRIDE`th element of `from`.
#[inline(always)]
fn every<T: Copy, const STRIDE: usize>(from: &[T], to: &mut [T]) {
    let (groups, _) = from.as_chunks::<STRIDE>();
    for (to, group) in to.iter_mut().zip(groups) {
        *to = group[0];
    }
}

/// MaxPool with the indices of the maxima.
struct IndexedPool {
    level: Level,
    shape: Geometry,
    dtype: DataType,
    /// Whether indices are in column-major order.
    by_columns: bool,
}

impl IndexedPool {
    fn of(
        signature: &Signature<'_>,
        shape: Geometry,
        dtype: DataType,
    ) -> Result<Box<dyn Kernel>, Refusal> {
        let indices = signature.output(1)?;
        if signature.op.name != "MaxPool"
            || indices.dtype() != DataType::I64
            || indices.shape() != signature.output(0)?.shape()
        {
            return Err(refuse("no kernel for these outputs"));
        }
        if shape.image() > i32::MAX as usize {
            return Err(refuse("the image is too large"));
        }
        Ok(Box::new(Self {
            level: signature.level,
            shape,
            dtype,
            by_columns: signature.flag("storage_order", false)?,
        }))
    }

    /// Calls `rows` with the rows of each chunk, and its output.
    fn run<T: Element, I: Source<Element: PoolElement>>(
        &self,
        input: I,
        output: &mut [T],
        indices: &mut [i64],
        rows: impl Fn(IndexedRows<'_, I>, &mut [T]) + Sync,
    ) {
        let (count, parallel) = self.shape.chunks();
        let chunk = count * self.shape.line();
        for_each_chunk2(
            (output, chunk),
            (indices, chunk),
            parallel,
            |at, output, indices| {
                let some = IndexedRows {
                    pool: self,
                    input,
                    first: at * count,
                    indices,
                };
                rows(some, output);
            },
        );
    }

    fn run_plain<T: PoolElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let output = outputs.slice::<T>(0)?;
        let indices = outputs.slice::<i64>(1)?;
        self.run(inputs.slice::<T>(0)?, output, indices, |rows, output| {
            self.level.run(IndexedOutput { rows, output });
        });
        Ok(())
    }

    fn run_floats(&self, operands: &mut Operands<'_>, float: FloatType) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, float)?;
        let output = FloatsMut::output(&mut outputs, 0, float)?;
        let indices = outputs.slice::<i64>(1)?;
        macro_rules! run {
            ($float:path, $output:ident) => {
                self.run(input, $output, indices, |rows, output| {
                    let output = $float(output);
                    self.level.run(IndexedOutput { rows, output });
                })
            };
        }
        match output {
            FloatsMut::F32(output) => run!(FloatsMut::F32, output),
            FloatsMut::F16(output) => run!(FloatsMut::F16, output),
            FloatsMut::Bf16(output) => run!(FloatsMut::Bf16, output),
        }
        Ok(())
    }
}

impl UnpreparedWorkload for IndexedPool {}

impl Workload for IndexedPool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match (FloatType::of(self.dtype), self.dtype) {
            (Some(float), _) => self.run_floats(operands, float),
            (None, DataType::F64) => self.run_plain::<f64>(operands),
            (None, DataType::I8) => self.run_plain::<i8>(operands),
            _ => self.run_plain::<u8>(operands),
        }
    }
}

/// Some rows of the outputs.
struct IndexedRows<'a, I> {
    pool: &'a IndexedPool,
    input: I,
    first: usize,
    indices: &'a mut [i64],
}

/// Some rows with the output of the maxima.
struct IndexedOutput<'a, I, O> {
    rows: IndexedRows<'a, I>,
    output: O,
}

/// Most columns whose indices are computed at once.
const INDEXED: usize = 512;

impl<I, O> VectorOp for IndexedOutput<'_, I, O>
where
    I: Source<Element: PoolElement>,
    O: Sink<Element = I::Element>,
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let Self { rows, mut output } = self;
        let pool = rows.pool;
        let shape = &pool.shape;
        let [depths, heights, width] = shape.axes;
        let line = shape.line();
        let image_len = shape.image();
        let most = ((BLOCK - 1) / width.stride + 1).min(INDEXED);
        let mut buffer = [I::Element::LOWEST; BLOCK];
        for (row, indices) in rows.indices.chunks_exact_mut(line).enumerate() {
            let [image, d, h] = shape.row(rows.first + row);
            let base = image * image_len;
            for first in (0..line).step_by(most) {
                stop::checkpoint();
                let end = (first + most).min(line);
                let mut best = [I::Element::LOWEST; INDEXED];
                let mut best_at = [-1i32; INDEXED];
                for (kd, kh) in depths
                    .inside(d)
                    .flat_map(|kd| heights.inside(h).map(move |kh| (kd, kh)))
                {
                    let (z, y) = (depths.source(d, kd), heights.source(h, kh));
                    let start = (z * heights.input + y) * width.input;
                    for kw in 0..width.kernel {
                        let inside = width.outputs_inside(kw);
                        let inside = inside.start.max(first)..inside.end.min(end);
                        if inside.is_empty() {
                            continue;
                        }
                        let start = start + width.source(inside.start, kw);
                        let reach = (inside.len() - 1) * width.stride + 1;
                        let range = base + start..base + start + reach;
                        let from = rows.input.load(pool.level, range, &mut buffer);
                        let columns = inside.start - first..inside.end - first;
                        let (best, at) = (&mut best[columns.clone()], &mut best_at[columns]);
                        match width.stride {
                            1 => better::<I::Element, 1>(from, start as i32, best, at),
                            2 => better::<I::Element, 2>(from, start as i32, best, at),
                            stride => {
                                let places = (start as i32..).step_by(stride);
                                let best = best.iter_mut().zip(at);
                                let from = from.iter().step_by(stride);
                                for (((best, at), &x), place) in best.zip(from).zip(places) {
                                    if is_better(x, *best, *at) {
                                        (*best, *at) = (x, place);
                                    }
                                }
                            }
                        }
                    }
                }
                output.write(
                    pool.level,
                    row * line + first..row * line + end,
                    &best[..end - first],
                );
                for (to, &at) in indices[first..end].iter_mut().zip(&best_at) {
                    *to = usize::try_from(at).map_or(-1, |at| {
                        let at = if pool.by_columns {
                            let (z, rest) = (
                                at / (heights.input * width.input),
                                at % (heights.input * width.input),
                            );
                            let (y, x) = (rest / width.input, rest % width.input);
                            (x * heights.input + y) * depths.input + z
                        } else {
                            at
                        };
                        (base + at) as i64
                    });
                }
            }
        }
    }
}

/// Whether a value replaces the maximum: NaN is the greatest, the first of equal ones stays.
#[inline(always)]
fn is_better<T: PoolElement>(x: T, best: T, at: i32) -> bool {
    (x > best) | (x.is_nan() & !best.is_nan()) | (at < 0)
}

/// Replaces maxima by the greater of every `STRIDE`th element of `from`, the first at `start`.
#[inline(always)]
fn better<T: PoolElement, const STRIDE: usize>(
    from: &[T],
    start: i32,
    best: &mut [T],
    at: &mut [i32],
) {
    let whole = from.len() / STRIDE;
    let (groups, rest) = from.as_chunks::<STRIDE>();
    let mut place = start;
    for ((best, at), group) in best.iter_mut().zip(at.iter_mut()).zip(groups) {
        let x = group[0];
        let better = is_better(x, *best, *at);
        *best = if better { x } else { *best };
        *at = if better { place } else { *at };
        place = place.wrapping_add(STRIDE as i32);
    }
    // The last window may have no whole group.
    if let (Some(best), Some(at), Some(&x)) = (best.get_mut(whole), at.get_mut(whole), rest.first())
        && is_better(x, *best, *at)
    {
        (*best, *at) = (x, place);
    }
}

/// MaxUnpool: elements move to their indices, other elements are zero.
struct Unpool {
    bits: usize,
    /// The extents that the indices refer to, where they differ from the output's, with the strides
    /// of the output.
    extents: Option<Vec<(usize, usize)>>,
    count: usize,
}

/// The kernel of MaxUnpool.
pub(super) fn unpool(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (x, indices, output) = (
        signature.input(0)?,
        signature.input(1)?,
        signature.output(0)?,
    );
    let rank = x.shape().len();
    if indices.shape() != x.shape()
        || indices.dtype() != DataType::I64
        || output.dtype() != x.dtype()
        || output.shape().len() != rank
        || rank < 3
    {
        return Err(refuse("the shapes do not fit"));
    }
    let kernel = kernel_shape(signature, rank - 2)?;
    let window = Window::transposed(signature.attributes(), &x.shape()[2..], &kernel)
        .map_err(|error| refuse(error.to_string()))?;
    let pooled: Vec<usize> = x.shape()[..2]
        .iter()
        .chain(&window.output)
        .copied()
        .collect();
    if pooled.iter().zip(&**output.shape()).any(|(a, b)| a > b) {
        return Err(refuse(
            "input 'output_shape' is smaller than the pooled tensor",
        ));
    }
    let extents = (pooled[..] != output.shape()[..]).then(|| {
        pooled
            .iter()
            .copied()
            .zip(output.shape().strides())
            .collect()
    });
    let bits = x.dtype().bits();
    if !matches!(bits, 16 | 32 | 64) {
        return Err(Reason::InputType {
            input: 0,
            found: x.dtype(),
        }
        .into());
    }
    Ok(Box::new(Unpool {
        bits,
        extents,
        count: pooled.iter().product(),
    }))
}

impl UnpreparedWorkload for Unpool {}

impl Workload for Unpool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match self.bits {
            16 => self.run::<u16>(operands),
            32 => self.run::<u32>(operands),
            _ => self.run::<u64>(operands),
        }
    }
}

impl Unpool {
    fn run<T: Element + Default>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, indices) = (inputs.slice::<T>(0)?, inputs.slice::<i64>(1)?);
        let to = outputs.slice::<T>(0)?;
        to.fill(T::default());
        for (from, indices) in from.chunks(1 << 16).zip(indices.chunks(1 << 16)) {
            stop::checkpoint();
            for (&value, &index) in from.iter().zip(indices) {
                let at = usize::try_from(index).ok().filter(|&at| at < self.count);
                let mut at = at.ok_or_else(|| {
                    Error::new(
                        ErrorKind::OutOfBounds,
                        "an index is out of the bounds of the output",
                    )
                    .expected(format_args!("0 to {}", self.count as i64 - 1))
                    .found(index)
                })?;
                if let Some(extents) = &self.extents {
                    let mut rest = at;
                    at = 0;
                    for (extent, stride) in extents.iter().rev() {
                        at += rest % extent * stride;
                        rest /= extent;
                    }
                }
                to[at] = value;
            }
        }
        Ok(())
    }
}
