//! MaxPool with the indices of the maxima: kernel positions are joined in order.

use super::element::PoolElement;
use super::geometry::PoolGeometry;
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::ops::elements::{Sink, Source};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk2;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, stop};
use tenon_tensor::{DataType, Element};

/// Elements of a block of columns of the input.
const BLOCK: usize = 2048;

/// Most columns of the output whose indices are computed at once.
const COLUMNS: usize = 512;

/// MaxPool with the indices of the maxima.
pub(super) struct IndexedPool {
    level: Level,
    shape: PoolGeometry,
    dtype: DataType,
    /// Whether indices are in column-major order.
    by_columns: bool,
}

impl IndexedPool {
    pub(super) fn of(
        signature: &Signature<'_>,
        shape: PoolGeometry,
        dtype: DataType,
    ) -> Result<Box<dyn Kernel>, Refusal> {
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
        let most = ((BLOCK - 1) / width.stride + 1).min(COLUMNS);
        let mut buffer = [I::Element::LOWEST; BLOCK];
        for (row, indices) in rows.indices.chunks_exact_mut(line).enumerate() {
            let [image, d, h] = shape.row(rows.first + row);
            let base = image * image_len;
            for first in (0..line).step_by(most) {
                stop::checkpoint();
                let end = (first + most).min(line);
                let mut best = [I::Element::LOWEST; COLUMNS];
                let mut best_at = [-1i32; COLUMNS];
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
