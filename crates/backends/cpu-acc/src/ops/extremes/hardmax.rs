//! Hardmax: 1 at the first of the greatest elements along a dimension, else 0.

use super::{BLOCK, COLUMNS, PARALLEL};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::ops::axis_extents::AxisExtents;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, pool, stop};

/// 1 at the first of the greatest elements along a dimension, else 0.
struct Hardmax {
    level: Level,
    extents: AxisExtents,
    float: FloatType,
}

/// The kernel of Hardmax.
pub(in crate::ops) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let axis = signature.axis("axis", -1, input.shape().len())?;
    let float = FloatType::of_input(input.dtype(), 0)?;
    signature.output(0)?;
    let extents = AxisExtents::new(input.shape(), axis);
    if extents.extent > i32::MAX as usize {
        return Err(refuse("no kernel for so large a dimension"));
    }
    Ok(Box::new(Hardmax {
        level: signature.level,
        extents,
        float,
    }))
}

impl UnpreparedWorkload for Hardmax {}

impl Workload for Hardmax {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, self.float)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let AxisExtents {
            outer,
            extent,
            inner,
        } = self.extents;
        let slab = extent * inner;
        let parallel = outer * slab >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = outer.div_ceil(chunks);
        for_each_float_chunk(output, lines * slab, parallel, |index, output| {
            self.level.run(HardmaxLines {
                hardmax: self,
                input,
                lines: index * lines..index * lines + output.len() / slab,
                output,
            });
        });
        Ok(())
    }
}

/// Some lines.
struct HardmaxLines<'a> {
    hardmax: &'a Hardmax,
    input: Floats<'a>,
    lines: Range<usize>,
    output: FloatsMut<'a>,
}

impl VectorOp for HardmaxLines<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, _: S) {
        let AxisExtents { extent, inner, .. } = self.hardmax.extents;
        let level = self.hardmax.level;
        let zeros = [0f32; BLOCK];
        let mut buffer = [0f32; BLOCK];
        for (nth, line) in self.lines.enumerate() {
            let (start, to) = (line * extent * inner, nth * extent * inner);
            if inner == 1 {
                let at = self.hardmax.row(&self.input, start, &mut buffer);
                for block in (0..extent).step_by(BLOCK) {
                    let end = (block + BLOCK).min(extent);
                    self.output
                        .write(level, to + block..to + end, &zeros[..end - block]);
                }
                self.output.write(level, to + at..to + at + 1, &[1.0]);
                continue;
            }
            for column in (0..inner).step_by(COLUMNS) {
                let count = (inner - column).min(COLUMNS);
                let mut best = [0f32; COLUMNS];
                let mut best_at = [0i32; COLUMNS];
                for row in 0..extent {
                    stop::checkpoint();
                    let start = start + row * inner + column;
                    let from = self.input.load(level, start..start + count, &mut buffer);
                    if row == 0 {
                        best[..count].copy_from_slice(from);
                    }
                    for ((best, at), &x) in best.iter_mut().zip(&mut best_at).zip(from) {
                        let better = x > *best;
                        *best = if better { x } else { *best };
                        *at = if better { row as i32 } else { *at };
                    }
                }
                for row in 0..extent {
                    let elements = &mut buffer[..count];
                    for (element, &at) in elements.iter_mut().zip(&best_at) {
                        *element = f32::from(u8::from(at == row as i32));
                    }
                    let to = to + row * inner + column;
                    self.output.write(level, to..to + count, elements);
                }
            }
        }
    }
}

impl Hardmax {
    /// The position of the first of the greatest elements of a row; NaN is only the greatest when it is
    /// the first.
    #[inline(always)]
    fn row(&self, input: &Floats<'_>, start: usize, buffer: &mut [f32; BLOCK]) -> usize {
        let extent = self.extents.extent;
        let mut best = input.get(start);
        let mut position = 0;
        for block in (0..extent).step_by(BLOCK) {
            stop::checkpoint();
            let range = start + block..start + (block + BLOCK).min(extent);
            let elements = input.load(self.level, range, buffer);
            let (groups, rest) = elements.as_chunks::<32>();
            let mut greatest = [f32::NEG_INFINITY; 32];
            for group in groups {
                for (greatest, &x) in greatest.iter_mut().zip(group) {
                    *greatest = if x > *greatest { x } else { *greatest };
                }
            }
            let all = greatest.iter().chain(rest);
            let greatest = all.fold(f32::NEG_INFINITY, |a, &x| if x > a { x } else { a });
            if greatest > best {
                best = greatest;
                // The group of 32 first, in a loop that is vectorised.
                let has_greatest = |group: &[f32]| {
                    let equal = group.iter().map(|&x| u32::from(x == greatest));
                    equal.fold(0, |a, b| a | b) != 0
                };
                let group = elements.chunks(32).position(has_greatest).unwrap_or(0) * 32;
                let found = elements[group..].iter().position(|&x| x == greatest);
                position = block + group + found.unwrap_or(0);
            }
        }
        position
    }
}
