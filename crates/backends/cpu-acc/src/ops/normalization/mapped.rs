//! The elements of a normalization: each is a function of one element of the input.

use crate::floats::{Floats, FloatsMut};
use crate::ops::blocks::{Buffers, blocks};
use crate::simd::Level;
use std::ops::Range;

/// Elements that are computed from an input, or in place where they are f32.
pub(super) struct Mapped<'a> {
    pub(super) level: Level,
    /// The input; `to` itself when `None`.
    pub(super) from: Option<Floats<'a>>,
    pub(super) to: FloatsMut<'a>,
}

impl Mapped<'_> {
    /// The elements that are read.
    #[inline(always)]
    pub(super) fn input(&self) -> Floats<'_> {
        match (self.from, &self.to) {
            (Some(from), _) => from,
            (None, FloatsMut::F32(to)) => Floats::F32(to),
            (None, FloatsMut::F16(to)) => Floats::F16(to),
            (None, FloatsMut::Bf16(to)) => Floats::Bf16(to),
        }
    }

    /// Applies `f` to each element of a range.
    #[inline(always)]
    pub(super) fn map(
        &mut self,
        range: Range<usize>,
        buffers: &mut Buffers,
        f: impl Fn(f32) -> f32,
    ) {
        if let FloatsMut::F32(to) = &mut self.to {
            let to = &mut to[range.clone()];
            if let Some(Floats::F32(from)) = self.from {
                for (to, &x) in to.iter_mut().zip(&from[range]) {
                    *to = f(x);
                }
            } else {
                for to in to {
                    *to = f(*to);
                }
            }
            return;
        }
        for block in blocks(range) {
            let results = &mut buffers.to[..block.len()];
            let from = self
                .input()
                .load(self.level, block.clone(), &mut buffers.from);
            for (to, &x) in results.iter_mut().zip(from) {
                *to = f(x);
            }
            self.to.write(self.level, block, results);
        }
    }

    /// Applies `f` to each element of a range and the elements of two lists of its length.
    #[inline(always)]
    pub(super) fn map_with(
        &mut self,
        range: Range<usize>,
        [a, b]: [&[f32]; 2],
        buffers: &mut Buffers,
        f: impl Fn(f32, f32, f32) -> f32,
    ) {
        if let FloatsMut::F32(to) = &mut self.to {
            let to = &mut to[range.clone()];
            if let Some(Floats::F32(from)) = self.from {
                for (((to, &x), &a), &b) in to.iter_mut().zip(&from[range]).zip(a).zip(b) {
                    *to = f(x, a, b);
                }
            } else {
                for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
                    *to = f(*to, a, b);
                }
            }
            return;
        }
        let start = range.start;
        for block in blocks(range) {
            let results = &mut buffers.to[..block.len()];
            let lists = block.start - start..block.end - start;
            let from = self
                .input()
                .load(self.level, block.clone(), &mut buffers.from);
            let lists = a[lists.clone()].iter().zip(&b[lists]);
            for ((to, &x), (&a, &b)) in results.iter_mut().zip(from).zip(lists) {
                *to = f(x, a, b);
            }
            self.to.write(self.level, block, results);
        }
    }
}
