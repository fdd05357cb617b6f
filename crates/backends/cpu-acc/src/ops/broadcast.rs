//! NumPy broadcasting of elementwise operators. Adjacent dimensions are coalesced where all operands
//! have a uniform stride over them, so that the innermost loop is long; short innermost loops are
//! combined, with the broadcast operands expanded into a buffer of the first-level cache.

use crate::signature::refuse;
use crate::simd::disjoint;
use tenon_backend::{Inputs, Refusal};
use tenon_base::{Result, pool};
use tenon_tensor::{Element, Shape};

/// Bytes of a part of an operand: a few of them fit the first-level cache.
const PART_BYTES: usize = 8192;
/// Most elements of a part.
pub(super) const PART: usize = 2048;
/// Innermost loops below this extent are combined.
const SHORT: usize = 64;
/// The same for elements of two bytes, which take longer to start with: a product of f16 with a row of 144 elements takes
/// 62 us instead of 109. One of f32 would take 65 instead of 50.
const SHORT_HALVES: usize = 256;
/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;
/// Most elements of a chunk, between two checkpoints for cancellation.
const CHUNK: usize = 1 << 16;

/// A coalesced dimension: its extent, and the stride of each operand, 0 where it is broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LoopDim<const N: usize> {
    extent: usize,
    strides: [usize; N],
}

/// The loops over an output and the `N` operands that are broadcast to its shape.
#[derive(Debug)]
pub(super) struct Broadcast<const N: usize> {
    /// All dimensions but the innermost, outermost first.
    outer: Vec<LoopDim<N>>,
    /// Its strides are 0 or 1.
    inner: LoopDim<N>,
    /// Whether each operand has the output's elements in the same order.
    dense: [bool; N],
}

/// A part of the output.
#[derive(Clone, Copy)]
pub(super) struct Part<const N: usize> {
    start: usize,
    len: usize,
    /// The offset of each operand; `None` for a part of several inner loops.
    offsets: Option<[usize; N]>,
}

impl<const N: usize> Part<N> {
    /// The number of its elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The offset of operand `n`; `None` for a part of several inner loops.
    pub(super) fn offset(&self, n: usize) -> Option<usize> {
        self.offsets.map(|offsets| offsets[n])
    }
}

/// An operand of a part.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a, T> {
    Elements(&'a [T]),
    /// One element, broadcast.
    Scalar(T),
    /// The output's memory.
    InPlace,
}

/// The elements of a part where they are not contiguous in memory; initialised when first used, which
/// most operators do not.
pub(super) struct PartBuffer<T, const LEN: usize = PART> {
    elements: Option<[T; LEN]>,
    /// The offset of the element that is repeated, and how many times.
    repeated: Option<(usize, usize)>,
}

impl<T: Copy + Default> PartBuffer<T> {
    pub(super) fn new() -> Self {
        Self::of_len()
    }
}

impl<T: Copy + Default, const LEN: usize> PartBuffer<T, LEN> {
    /// A buffer of `LEN` elements.
    pub(super) fn of_len() -> Self {
        Self {
            elements: None,
            repeated: None,
        }
    }

    /// The first `len` elements, which have been written.
    pub(super) fn elements(&self, len: usize) -> &[T] {
        self.elements
            .as_ref()
            .map_or(&[], |elements| &elements[..len])
    }

    /// The first `len` elements, to write.
    pub(super) fn elements_mut(&mut self, len: usize) -> &mut [T] {
        self.repeated = None;
        &mut self.elements.get_or_insert_with(|| [T::default(); LEN])[..len]
    }

    /// Forgets which element is repeated, before other tensors are read.
    pub(super) fn forget(&mut self) {
        self.repeated = None;
    }

    /// `len` times the element at `offset` of `elements`.
    fn repeat(&mut self, elements: &[T], offset: usize, len: usize) -> &[T] {
        let is_repeated =
            matches!(self.repeated, Some((at, count)) if at == offset && count >= len);
        if !is_repeated {
            self.elements_mut(len).fill(elements[offset]);
            self.repeated = Some((offset, len));
        }
        self.elements(len)
    }
}

/// The elements of two inputs; `None` for one that the output replaces.
pub(super) fn unless_replaced<'a, T: Element>(
    inputs: &Inputs<'a>,
    indices: [usize; 2],
) -> Result<[Option<&'a [T]>; 2]> {
    let elements = |index: usize| -> Result<Option<&'a [T]>> {
        if inputs.is_replaced(index) {
            Ok(None)
        } else {
            inputs.slice(index).map(Some)
        }
    };
    Ok([elements(indices[0])?, elements(indices[1])?])
}

/// Calls `body` with chunks of `output` and the position of the first element of each, in parallel when
/// it is long.
pub(super) fn for_each_chunk<C: Send>(output: &mut [C], body: impl Fn(usize, &mut [C]) + Sync) {
    let parallel = output.len() >= PARALLEL;
    let chunks = if parallel { 2 * pool::threads() } else { 1 };
    let chunk = output.len().div_ceil(chunks);
    let chunk = chunk.next_multiple_of(PART).min(CHUNK);
    disjoint::for_each_chunk(output, chunk, parallel, |index, output| {
        body(index * chunk, output);
    });
}

impl<const N: usize> Broadcast<N> {
    /// The loops over `output`; refused when an operand does not broadcast to it.
    pub(super) fn new(output: &Shape, operands: [&Shape; N]) -> Result<Self, Refusal> {
        if operands.iter().any(|shape| !broadcasts(shape, output)) {
            return Err(refuse("the shapes do not fit"));
        }
        let mut outer = merge(output, operands);
        let inner = outer.pop().unwrap_or(LoopDim {
            extent: 1,
            strides: [0; N],
        });
        let dense = operands.map(|shape| shape.elements() == output.elements());
        Ok(Self {
            outer,
            inner,
            dense,
        })
    }

    /// The operands that have the output's shape.
    pub(super) fn dense(&self) -> impl Iterator<Item = usize> {
        (0..N).filter(|&operand| self.dense[operand])
    }

    /// The part of `len` elements from `start` on.
    pub(super) fn part(&self, start: usize, len: usize) -> Part<N> {
        let (line, within) = (start / self.inner.extent, start % self.inner.extent);
        let is_in_line = within + len <= self.inner.extent;
        Part {
            start,
            len,
            offsets: is_in_line.then(|| self.offsets(line, within)),
        }
    }

    /// Calls `body` with the parts of a chunk whose first element is `start`. A part has at most
    /// [`PART`] elements, and is in one inner loop where these are long.
    #[inline(always)]
    pub(super) fn for_each_part<C>(
        &self,
        mut start: usize,
        mut chunk: &mut [C],
        mut body: impl FnMut(Part<N>, &mut [C]),
    ) {
        let extent = self.inner.extent;
        let short = if size_of::<C>() == 2 {
            SHORT_HALVES
        } else {
            SHORT
        };
        let combined = extent < short && !self.outer.is_empty();
        let most = PART.min(PART_BYTES / size_of::<C>());
        while !chunk.is_empty() {
            let (len, offsets) = if combined {
                (chunk.len().min(most), None)
            } else {
                let within = start % extent;
                let len = (extent - within).min(chunk.len()).min(most);
                (len, Some(self.offsets(start / extent, within)))
            };
            let (output, rest) = chunk.split_at_mut(len);
            body(
                Part {
                    start,
                    len,
                    offsets,
                },
                output,
            );
            chunk = rest;
            start += len;
        }
    }

    /// Operand `n` of a part; `elements` is `None` when the output is computed in place of it.
    #[inline(always)]
    pub(super) fn operand<'a, T: Copy + Default, const LEN: usize>(
        &self,
        n: usize,
        elements: Option<&'a [T]>,
        part: Part<N>,
        buffer: &'a mut PartBuffer<T, LEN>,
    ) -> Operand<'a, T> {
        let Some(elements) = elements else {
            return Operand::InPlace;
        };
        match part.offsets {
            Some(offsets) if self.inner.strides[n] == 0 => Operand::Scalar(elements[offsets[n]]),
            Some(offsets) => Operand::Elements(&elements[offsets[n]..][..part.len]),
            None if self.dense[n] => Operand::Elements(&elements[part.start..][..part.len]),
            None => {
                let to = buffer.elements_mut(part.len);
                self.expand(n, elements, part.start, to);
                Operand::Elements(to)
            }
        }
    }

    /// Operand `n` of a part as contiguous elements; `output` are those of the part when it is computed
    /// in place of the operand.
    #[inline(always)]
    pub(super) fn elements<'a, T: Copy + Default, const LEN: usize>(
        &self,
        n: usize,
        elements: Option<&'a [T]>,
        part: Part<N>,
        output: &[T],
        buffer: &'a mut PartBuffer<T, LEN>,
    ) -> &'a [T] {
        let len = part.len;
        match (elements, part.offsets) {
            (None, _) => {
                let copy = buffer.elements_mut(len);
                copy.copy_from_slice(&output[..len]);
                copy
            }
            (Some(elements), Some(offsets)) if self.inner.strides[n] == 0 => {
                buffer.repeat(elements, offsets[n], len)
            }
            (Some(_), _) => match self.operand(n, elements, part, buffer) {
                Operand::Elements(elements) => elements,
                // Not returned for an operand that is neither in place nor broadcast in the inner loop.
                Operand::Scalar(_) | Operand::InPlace => &[],
            },
        }
    }

    /// The offsets of the operands at an element of an inner loop.
    #[inline(always)]
    fn offsets(&self, line: usize, within: usize) -> [usize; N] {
        let (mut rest, mut offsets) = (line, self.inner.strides.map(|stride| stride * within));
        for dim in self.outer.iter().rev() {
            let index = rest % dim.extent;
            rest /= dim.extent;
            for (offset, stride) in offsets.iter_mut().zip(dim.strides) {
                *offset += index * stride;
            }
        }
        offsets
    }

    /// The elements of the output for which the first operand has one element, if these are several rows.
    pub(super) fn row(&self) -> Option<usize> {
        let is_repeated = self.inner.strides[0] == 0 && !self.outer.is_empty();
        is_repeated.then_some(self.inner.extent)
    }

    /// The elements of operand `n` from the output's element `start` on, for several inner loops.
    fn expand<T: Copy>(&self, n: usize, elements: &[T], start: usize, mut to: &mut [T]) {
        let LoopDim { extent, strides } = self.inner;
        let Some(rows) = self.outer.last() else {
            return;
        };
        let mut at = start;
        while !to.is_empty() {
            // One division for each pass over the innermost two dimensions.
            let (line, mut within) = (at / extent, at % extent);
            let mut offset = self.offsets(line, 0)[n];
            for _ in line % rows.extent..rows.extent {
                let count = (extent - within).min(to.len());
                let (run, rest) = to.split_at_mut(count);
                if strides[n] == 0 {
                    let element = elements[offset];
                    run.iter_mut().for_each(|to| *to = element);
                } else {
                    let from = &elements[offset + within..][..count];
                    run.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
                (to, within, at) = (rest, 0, at + count);
                if to.is_empty() {
                    break;
                }
                offset += rows.strides[n];
            }
        }
    }
}

fn broadcasts(shape: &Shape, output: &Shape) -> bool {
    let pairs = shape.iter().rev().zip(output.iter().rev());
    shape.len() <= output.len()
        && pairs
            .into_iter()
            .all(|(&own, &extent)| own == 1 || own == extent)
}

/// The dimensions of `output`, coalesced where all operands have a uniform stride.
fn merge<const N: usize>(output: &Shape, operands: [&Shape; N]) -> Vec<LoopDim<N>> {
    let all_strides = operands.map(Shape::strides);
    let stride = |n: usize, axis: usize| {
        let own = (axis + operands[n].len()).checked_sub(output.len());
        own.filter(|&own| operands[n][own] > 1)
            .map_or(0, |own| all_strides[n][own])
    };
    let mut merged: Vec<LoopDim<N>> = Vec::new();
    let extents = output.iter().enumerate();
    for (axis, &extent) in extents.filter(|(_, extent)| **extent != 1) {
        let strides = std::array::from_fn(|n| stride(n, axis));
        match merged.last_mut() {
            Some(last) if (0..N).all(|n| last.strides[n] == strides[n] * extent) => {
                *last = LoopDim {
                    extent: last.extent * extent,
                    strides,
                };
            }
            _ => merged.push(LoopDim { extent, strides }),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(a: &[usize], b: &[usize]) -> Vec<(usize, [usize; 2])> {
        let (a, b) = (Shape::new(a), Shape::new(b));
        let output = a.broadcast(&b).unwrap();
        merge(&output, [&a, &b])
            .iter()
            .map(|dim| (dim.extent, dim.strides))
            .collect()
    }

    #[test]
    fn dimensions_coalesce_where_both_strides_are_uniform() {
        assert_eq!(dims(&[2, 3, 4], &[2, 3, 4]), [(24, [1, 1])]);
        assert_eq!(dims(&[2, 3, 4], &[]), [(24, [1, 0])]);
        assert_eq!(dims(&[2, 3, 4], &[4]), [(6, [4, 0]), (4, [1, 1])]);
        assert_eq!(
            dims(&[2, 3, 4], &[2, 1, 4]),
            [(2, [12, 4]), (3, [4, 0]), (4, [1, 1])]
        );
        assert_eq!(
            dims(&[1, 8, 5, 5], &[8, 1, 1]),
            [(8, [25, 1]), (25, [1, 0])]
        );
        assert_eq!(dims(&[2, 1], &[1, 3]), [(2, [1, 0]), (3, [0, 1])]);
        assert_eq!(dims(&[], &[1, 1]), []);
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_refused() {
        let output = Shape::new([2, 3]);
        for shape in [vec![3, 1], vec![2], vec![1, 2, 3], vec![0]] {
            assert!(Broadcast::new(&output, [&Shape::new(shape)]).is_err());
        }
    }

    #[test]
    fn parts_of_every_position_have_the_operands_elements() {
        let shapes: [(&[usize], &[usize]); 5] = [
            (&[5, 3, 4], &[3, 1]),
            (&[5, 3, 4], &[5, 1, 4]),
            (&[4, 70], &[4, 1]),
            (&[40, 3, 30], &[3, 1]),
            (&[7], &[]),
        ];
        for (output, operand) in shapes {
            let (output, operand) = (Shape::new(output), Shape::new(operand));
            let loops = Broadcast::new(&output, [&operand]).unwrap();
            let from: Vec<u32> = (0..operand.elements() as u32).collect();
            let whole = |start: usize, count: usize| {
                let mut to = vec![0u32; count];
                let mut buffer = PartBuffer::new();
                loops.for_each_part(start, &mut to, |part, to| {
                    let found = loops.elements(0, Some(&from), part, &[], &mut buffer);
                    to.copy_from_slice(found);
                });
                to
            };
            let expected: Vec<u32> = (0..output.elements())
                .map(|i| loops.offsets(i / loops.inner.extent, i % loops.inner.extent)[0] as u32)
                .collect();
            for start in 0..output.elements().min(300) {
                assert_eq!(whole(start, output.elements() - start), expected[start..]);
            }
        }
    }
}
