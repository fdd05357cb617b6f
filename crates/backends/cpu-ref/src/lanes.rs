//! Tensors as lanes along some axes, and their reductions.

use crate::chunks::{for_each_chunk_of, for_each_chunk_with};
use crate::loop_nest::{BLOCK, LoopNest, strides};
use crate::number::{Number, WidenedArithmetic, read_reals, read_widened};
use tenon_base::stop;
use tenon_tensor::Shape;

/// A tensor as lanes along some axes: the first position of each lane, and the positions of a lane's
/// elements relative to it.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    /// Operand 0: the position in a tensor of the other dimensions; operand 1: in the tensor itself.
    pub(crate) starts: LoopNest<2>,
    /// Positions in a lane.
    pub(crate) lane: LoopNest<1>,
    /// Elements of a lane.
    pub(crate) len: usize,
}

impl Lanes {
    /// The lanes of `shape` along the axes for which `along` is true.
    pub(crate) fn new(shape: &Shape, along: impl Fn(usize) -> bool) -> Self {
        let strides = strides(shape);
        let select = |in_lane: bool| -> (Vec<usize>, Vec<isize>) {
            (0..shape.len())
                .filter(|&axis| along(axis) == in_lane)
                .map(|axis| (shape[axis], strides[axis]))
                .unzip()
        };
        let ((kept, kept_strides), (lane, lane_strides)) = (select(false), select(true));
        let dense = self::strides(&Shape::new(kept.clone()));
        Self {
            starts: LoopNest::new(&kept, [&dense, &kept_strides]),
            len: lane.iter().product(),
            lane: LoopNest::new(&lane, [&lane_strides]),
        }
    }
}

/// How elements are reduced to one total. Several totals are independent, so that they are computed in vectors.
#[derive(Clone, Copy)]
pub(crate) struct Fold<W> {
    pub(crate) start: W,
    /// Adds elements to totals: the first to the first total, and again from it when all have one.
    pub(crate) add: fn(&mut [W], &[W]),
    /// Joins totals.
    pub(crate) join: fn(&mut [W; TOTALS]) -> W,
}

/// A [`Fold`] from its start, the function of two totals that joins them, and the total after an element.
macro_rules! fold {
    ($start:expr, |$a:ident, $b:ident| $join:expr, |$total:ident, $x:ident| $next:expr) => {
        $crate::lanes::Fold {
            start: $start,
            add: |totals, values| {
                tenon_base::vectorized!(for values in values.chunks(totals.len()) {
                    for (total, &$x) in totals.iter_mut().zip(values) {
                        let $total = *total;
                        *total = $next;
                    }
                });
            },
            join: |totals| {
                let mut half = totals.len() / 2;
                while half > 0 {
                    let (first, second) = totals.split_at_mut(half);
                    for (first, second) in first.iter_mut().zip(second) {
                        let ($a, $b) = (*first, *second);
                        *first = $join;
                    }
                    half /= 2;
                }
                totals[0]
            },
        }
    };
}
pub(crate) use fold;

/// The sum.
pub(crate) const SUM: Fold<f64> = fold!(0.0, |a, b| a + b, |total, x| total + x);

/// The maximum; NaN if any element is NaN.
pub(crate) const MAXIMUM: Fold<f64> =
    fold!(f64::NEG_INFINITY, |a, b| a.nan_max(b), |total, x| total
        .nan_max(x));

/// Most lanes that are in scratch memory at a time.
const MAPPED: usize = 16;

/// Independent totals of a lane, a power of two.
pub(crate) const TOTALS: usize = 32;

impl<W: Copy> Fold<W> {
    /// The total of all elements.
    pub(crate) fn of(&self, values: &[W]) -> W {
        let mut totals = [self.start; TOTALS];
        (self.add)(&mut totals, values);
        (self.join)(&mut totals)
    }
}

impl Lanes {
    /// Reduces each lane; `finish` makes an element of the lane's total.
    pub(crate) fn fold<T: Number, R: Send>(
        &self,
        from: &[T],
        to: &mut [R],
        fold: Fold<T::Widened>,
        finish: impl Fn(T::Widened) -> R + Sync,
    ) {
        let operations = to.len().saturating_mul(self.len);
        for_each_chunk_of(to, 1, operations, |first, mut to| {
            self.starts
                .for_each_run(first, to.len(), |[_, start], [_, stride], count| {
                    let run = to.split_off_mut(..count).unwrap_or_default();
                    if stride != 1 || self.lane.stride() == 1 {
                        for (nth, to) in run.iter_mut().enumerate() {
                            let start = start.wrapping_add_signed(nth as isize * stride);
                            *to = finish(self.fold_lane(start, fold, |at, stride, values| {
                                read_widened(from, at, stride, values);
                            }));
                        }
                        return;
                    }
                    // Adjacent lanes: a total for each.
                    for (nth, run) in run.chunks_mut(BLOCK).enumerate() {
                        let mut totals = [fold.start; BLOCK];
                        let mut values = [fold.start; BLOCK];
                        let values = &mut values[..run.len()];
                        self.lane.for_each(|[at]| {
                            T::widens(&from[start + nth * BLOCK + at..][..run.len()], values);
                            (fold.add)(&mut totals[..run.len()], values);
                        });
                        run.iter_mut()
                            .zip(totals)
                            .for_each(|(to, total)| *to = finish(total));
                    }
                });
        });
    }

    /// Reduces the lane at `start` in f64. `prepare` may change the elements first.
    pub(crate) fn fold_reals<T: Number>(
        &self,
        from: &[T],
        start: usize,
        fold: Fold<f64>,
        prepare: impl Fn(&mut [f64]),
    ) -> f64 {
        self.fold_lane(start, fold, |at, stride, values| {
            read_reals(from, at, stride, values);
            prepare(values);
        })
    }

    /// Reduces the lane at `start`, whose elements `read` writes: those at a position and from there with a stride.
    fn fold_lane<W: Copy>(
        &self,
        start: usize,
        fold: Fold<W>,
        read: impl Fn(usize, isize, &mut [W]),
    ) -> W {
        let mut totals = [fold.start; TOTALS];
        let mut values = [fold.start; BLOCK];
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                for first in (0..count).step_by(BLOCK) {
                    let values = &mut values[..BLOCK.min(count - first)];
                    let at = (start + at).wrapping_add_signed(first as isize * stride);
                    read(at, stride, values);
                    (fold.add)(&mut totals, values);
                }
            });
        (fold.join)(&mut totals)
    }

    /// Reads the lane at `start` as f64.
    fn read<T: Number>(&self, from: &[T], start: usize, mut to: &mut [f64]) {
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                let run = to.split_off_mut(..count).unwrap_or_default();
                read_reals(from, start + at, stride, run);
            });
    }

    /// Writes the lane at `start`; `to` starts with element `first` of the tensor.
    fn write<T: Number>(&self, mut from: &[f64], start: usize, to: &mut [T], first: usize) {
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                let run = from.split_off(..count).unwrap_or_default();
                let to = &mut to[start + at - first..];
                if stride == 1 {
                    T::from_reals(run, &mut to[..count]);
                } else {
                    // Lanes of one element may have a stride of 0.
                    let to = to.iter_mut().step_by(stride.max(1) as usize);
                    to.zip(run).for_each(|(to, &x)| *to = T::of_f64(x));
                }
            });
    }

    /// Elements of scratch memory that [`map`](Self::map) requires.
    pub(crate) fn scratch(&self, elements: usize) -> usize {
        let lanes = elements.checked_div(self.len).unwrap_or(0);
        lanes.min(MAPPED).saturating_mul(self.len)
    }

    /// Writes `apply` of each lane, which replaces the lane's elements.
    pub(crate) fn map<T: Number>(
        &self,
        from: &[T],
        to: &mut [T],
        scratch: &mut [f64],
        apply: impl Fn(&mut [f64]) + Sync,
    ) {
        let is_contiguous = self.lane.is_contiguous();
        let (unit, operations) = if is_contiguous {
            (self.len, to.len().saturating_mul(4))
        } else {
            (to.len(), 0)
        };
        for_each_chunk_with(
            to,
            unit,
            operations,
            scratch,
            self.len,
            |first, to, scratch| {
                let values = &mut scratch[..self.len];
                let mut one = |start: usize, to: &mut [T]| {
                    stop::checkpoint();
                    self.read(from, start, values);
                    apply(values);
                    self.write(values, start, to, first);
                };
                if is_contiguous {
                    (first..first + to.len())
                        .step_by(self.len)
                        .for_each(|start| one(start, to));
                } else {
                    self.starts.for_each(|[_, start]| one(start, to));
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_any_length_are_folded() {
        for len in [0, 1, TOTALS - 1, TOTALS, TOTALS + 1, BLOCK, 3 * BLOCK + 5] {
            let values: Vec<f32> = (0..2 * len).map(|at| (at % 17) as f32).collect();
            for axis in [0, 1] {
                let shape = Shape::new(if axis == 1 { [2, len] } else { [len, 2] });
                let lanes = Lanes::new(&shape, |at| at == axis);
                let lane = |nth: usize| {
                    let at = move |at: usize| {
                        if axis == 1 {
                            nth * len + at
                        } else {
                            2 * at + nth
                        }
                    };
                    (0..len)
                        .map(at)
                        .map(|at| f64::from(values[at]))
                        .collect::<Vec<f64>>()
                };
                let mut found = [-1.0; 2];
                lanes.fold(&values, &mut found, SUM, |total| total);
                assert_eq!(
                    found,
                    [0, 1].map(|nth| lane(nth).iter().sum::<f64>()),
                    "{len}"
                );
                let mut nth = 0;
                lanes.starts.for_each(|[_, start]| {
                    let max = lane(nth).into_iter().fold(f64::NEG_INFINITY, f64::max);
                    assert_eq!(
                        lanes.fold_reals(&values, start, MAXIMUM, |_| {}),
                        max,
                        "{len}"
                    );
                    nth += 1;
                });
                let mut scratch = vec![0.0; lanes.scratch(values.len())];
                let mut mapped = values.clone();
                lanes.map(&values, &mut mapped, &mut scratch, |lane| lane.reverse());
                let mut again = values.clone();
                lanes.map(&mapped, &mut again, &mut scratch, |lane| lane.reverse());
                assert_eq!(again, values);
                assert!(len < 2 || mapped != values);
            }
        }
    }

    #[test]
    fn lanes_along_the_first_axis() {
        let lanes = Lanes::new(&Shape::new([2, 3]), |axis| axis == 0);
        let mut sums = [0; 3];
        lanes.starts.for_each(|[to, start]| {
            lanes
                .lane
                .for_each(|[at]| sums[to] += [1, 2, 3, 10, 20, 30][start + at]);
        });
        assert_eq!(sums, [11, 22, 33]);
    }
}
