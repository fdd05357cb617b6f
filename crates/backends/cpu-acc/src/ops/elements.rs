//! Operands that a kernel reads and writes in blocks: of one element type, or of f32, f16 and bf16, which
//! it computes in f32.

use crate::floats::{Floats, FloatsMut, for_each_float_chunk};
use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk;
use std::ops::Range;
use tenon_tensor::Element;

/// The elements of an input.
pub(super) trait Source: Copy + Send + Sync {
    /// The type that the kernel computes with.
    type Element: Element;

    /// The elements of a range: the memory itself, or converted into `buffer`, which has at least the
    /// length of the range.
    fn load<'b>(
        &self,
        level: Level,
        range: Range<usize>,
        buffer: &'b mut [Self::Element],
    ) -> &'b [Self::Element]
    where
        Self: 'b;
}

impl<'a, T: Element> Source for &'a [T] {
    type Element = T;

    #[inline(always)]
    fn load<'b>(&self, _: Level, range: Range<usize>, _: &'b mut [T]) -> &'b [T]
    where
        Self: 'b,
    {
        let elements: &'a [T] = self;
        &elements[range]
    }
}

impl<'a> Source for Floats<'a> {
    type Element = f32;

    #[inline(always)]
    fn load<'b>(&self, level: Level, range: Range<usize>, buffer: &'b mut [f32]) -> &'b [f32]
    where
        Self: 'b,
    {
        Floats::load(self, level, range, buffer)
    }
}

/// The elements of an output.
pub(super) trait Sink: Sized {
    /// The type that the kernel computes with.
    type Element: Element;
    /// A chunk of the output.
    type Part<'p>: Sink<Element = Self::Element>;

    /// Writes the elements of a range, which has the length of `from`.
    fn write(&mut self, level: Level, range: Range<usize>, from: &[Self::Element]);

    /// Memory for the elements of a range: the output itself, or `buffer`, which has at least the length of
    /// the range. [`Sink::write_results`] follows.
    fn results<'b>(
        &'b mut self,
        range: Range<usize>,
        buffer: &'b mut [Self::Element],
    ) -> &'b mut [Self::Element];

    /// Writes the elements of a range that are in `buffer`, where [`Sink::results`] returned it.
    fn write_results(&mut self, level: Level, range: Range<usize>, buffer: &[Self::Element]);

    fn len(&self) -> usize;

    /// Calls `body` with each chunk of `chunk` elements.
    fn for_each(
        self,
        chunk: usize,
        parallel: bool,
        body: impl for<'p> Fn(usize, Self::Part<'p>) + Sync,
    );
}

impl<T: Element> Sink for &mut [T] {
    type Element = T;
    type Part<'p> = &'p mut [T];

    #[inline(always)]
    fn write(&mut self, _: Level, range: Range<usize>, from: &[T]) {
        self[range].copy_from_slice(from);
    }

    #[inline(always)]
    fn results<'b>(&'b mut self, range: Range<usize>, _: &'b mut [T]) -> &'b mut [T] {
        &mut self[range]
    }

    #[inline(always)]
    fn write_results(&mut self, _: Level, _: Range<usize>, _: &[T]) {}

    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn for_each(
        self,
        chunk: usize,
        parallel: bool,
        body: impl for<'p> Fn(usize, Self::Part<'p>) + Sync,
    ) {
        for_each_chunk(self, chunk, parallel, body);
    }
}

impl Sink for FloatsMut<'_> {
    type Element = f32;
    type Part<'p> = FloatsMut<'p>;

    #[inline(always)]
    fn write(&mut self, level: Level, range: Range<usize>, from: &[f32]) {
        FloatsMut::write(self, level, range, from);
    }

    #[inline(always)]
    fn results<'b>(&'b mut self, range: Range<usize>, buffer: &'b mut [f32]) -> &'b mut [f32] {
        match self {
            Self::F32(elements) => &mut elements[range],
            _ => &mut buffer[..range.len()],
        }
    }

    #[inline(always)]
    fn write_results(&mut self, level: Level, range: Range<usize>, buffer: &[f32]) {
        if !matches!(self, Self::F32(_)) {
            let results = &buffer[..range.len()];
            FloatsMut::write(self, level, range, results);
        }
    }

    fn len(&self) -> usize {
        FloatsMut::len(self)
    }

    fn for_each(
        self,
        chunk: usize,
        parallel: bool,
        body: impl for<'p> Fn(usize, Self::Part<'p>) + Sync,
    ) {
        for_each_float_chunk(self, chunk, parallel, body);
    }
}
