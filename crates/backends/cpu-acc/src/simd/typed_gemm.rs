//! GEMM of operands of other types than f32, or with another result. Rows of A are packed as words of 32 bits
//! ([`RowElement`], [`ProductKind`]), the micro-kernels of `tile` write sums to a buffer that stays in the first or second level
//! cache, and a [`Sink`] converts them to elements of the output. Panels of 16 bits that several tiles are multiplied by are
//! widened to f32 before, a K block of a group at a time.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::disjoint::{MatrixMut, RowLayout};
use super::division::{Division, RowTiles};
use super::gemm::{GROUP_BYTES, Gemm};
use super::k_blocks::{KBlock, KBlocks, KC, MAX_POSITIONS, balanced_part};
use super::packed_rows::rows_alias;
use super::products::{Product, ProductKind, WidenedBf16, WidenedF16};
use super::row_elements::{RowElement, RowPacking};
use super::rows::{MAX_DEPTH, RowSource, padding};
use super::tile::{Epilogue, MAX_ROWS, Prefetch, RowPointers, Tile};
use super::{Level, Simd, VectorOp};
use crate::panels::WIDTH;
use std::cell::Cell;
use std::ops::Range;
use tenon_base::stop;

/// Bytes of packed rows, or of the sums of rows read in place, which stay in the second level cache beside the panels.
const PACKED_BYTES: usize = 256 << 10;

/// Most panels of a group: the sums of a tile stay in the first level cache.
const GROUP_PANELS: usize = 16;

/// Row tiles from which on panels of 16 bits are widened once for all of them. Widened by the micro-kernels, for each tile,
/// f16 takes the time of panels in f32 for 32 rows (3 tiles), 1.18 of it for 128 and 1.21 for 384 (AVX-512, 1024 × 4096);
/// widened once 1.12 and 1.07. Without instructions that convert f16 panels are widened for two tiles.
const TILES_TO_WIDEN: usize = 5;

/// Words between packed rows besides their own, so that no two start in the same cache set.
const GAP: usize = 16;

/// Converts sums to elements of the output.
pub(crate) trait Sink: Sync {
    /// The type of the output's elements.
    type Element: Send;

    /// Converts sums of f32 after the epilogue, or of i32, and writes them to the output.
    fn write<S: Simd>(&self, s: S, tile: &mut SumTile<'_, Self::Element>);
}

/// The sums of a tile and the elements of the output that they become.
pub(crate) struct SumTile<'a, T> {
    /// Of each row, in the output.
    offsets: [usize; MAX_ROWS],
    columns: Range<usize>,
    row_sums: &'a [i32],
    sums: &'a mut [f32],
    stride: usize,
    /// The first element of the output.
    output: *mut T,
}

impl<T> SumTile<'_, T> {
    pub(crate) fn rows(&self) -> usize {
        self.row_sums.len()
    }

    pub(crate) fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// The offset of a row in the output, of which the columns are written.
    #[inline(always)]
    pub(crate) fn offset(&self, row: usize) -> usize {
        self.offsets[row]
    }

    /// The sum of a row of A, where [`RowPacking::sums`] is set.
    #[inline(always)]
    pub(crate) fn row_sum(&self, row: usize) -> i32 {
        self.row_sums[row]
    }

    /// A row of sums, which has whole panels, and the columns of the output that exist.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> (&mut [f32], &mut [T]) {
        let columns = &self.columns;
        let sums = &mut self.sums[row * self.stride..][..columns.len().next_multiple_of(WIDTH)];
        // SAFETY: `Part::write`, which alone makes tiles, guarantees that the output has these columns of each row, and that
        // this is the only reference to them.
        let to = unsafe {
            let start = self.output.add(self.offsets[row] + columns.start);
            std::slice::from_raw_parts_mut(start, columns.len())
        };
        (sums, to)
    }
}

/// A product with its operands.
pub(crate) struct TypedGemm<'a, T, K> {
    /// A trait object, so that the code is compiled once for all sources of rows.
    pub(crate) a: &'a dyn RowSource<Element = T>,
    /// B in words, and for sums of f32 the epilogue but for addend and function.
    pub(crate) gemm: &'a Gemm<'a>,
    pub(crate) packing: RowPacking,
    pub(crate) sink: &'a K,
}

impl<T: RowElement, K: Sink> TypedGemm<'_, T, K> {
    /// Computes all of `output`.
    ///
    /// # Panics
    /// When the sizes of `output`, bias and panels do not match the rows.
    pub(crate) fn run(&self, level: Level, mut output: MatrixMut<'_, K::Element>) {
        let (rows, columns) = (self.a.rows(), self.gemm.panels.columns());
        assert!(output.rows() == rows && output.columns() == columns);
        assert!(self.gemm.bias.is_none_or(|bias| bias.len() >= columns));
        assert!(self.gemm.addend.is_none() && self.gemm.function.is_none());
        assert!(self.gemm.panels.depth() == self.words());
        assert!(level.has(self.packing.product));
        if rows == 0 || columns == 0 {
            return;
        }
        level.run(ParallelGemm {
            product: self,
            level,
            in_place: self.reads_in_place(),
            output: output.as_mut_ptr(),
            layout: output.layout(),
        });
    }

    /// Elements of a row.
    fn depth(&self) -> usize {
        self.a.positions() * self.a.depth()
    }

    /// Words of a row.
    fn words(&self) -> usize {
        self.depth()
            .div_ceil(self.packing.product.elements_per_word())
    }

    /// Whether rows are read where they are: packed rows would have the same words, the rows of a tile do not alias in
    /// the first level cache, and few panels are multiplied by each row. Packed rows are faster for many.
    fn reads_in_place(&self) -> bool {
        let depth = self.a.depth();
        let per_word = self.packing.product.elements_per_word();
        if T::IS_WORD {
            // Each element is a word of its row, if the product does not split them.
            return self.packing.product.row_words() == per_word && depth.is_multiple_of(per_word);
        }
        let is_packed = T::is_packed(&self.packing)
            && depth > 0
            && depth.is_multiple_of(per_word)
            && self.a.positions() > 0
            && self.gemm.panels.count() <= GROUP_PANELS
            // The padding of bytes is their zero point.
            && (size_of::<T>() > 1 || !self.a.pads_with_zeros());
        if !is_packed {
            return false;
        }
        let mut table = [[std::ptr::null(); MAX_ROWS]];
        // In the middle, where fewer rows are padding.
        let start = self.a.rows() / 2;
        let rows = start..self.a.rows().min(start + MAX_ROWS);
        let count = rows.len();
        let position = self.a.positions() / 2;
        self.a
            .point(rows, position..position + 1, 0..per_word, &mut table);
        !rows_alias(&table[0][..count])
    }
}

/// A product divided among threads.
struct ParallelGemm<'a, T, K: Sink> {
    product: &'a TypedGemm<'a, T, K>,
    level: Level,
    /// Whether rows of A are read where they are.
    in_place: bool,
    output: *mut K::Element,
    layout: RowLayout,
}

// SAFETY: `TypedGemm::run` borrows the output mutably until all threads are done, and each writes the tiles of
// different chunks, which are disjoint.
unsafe impl<T, K: Sink> Sync for ParallelGemm<'_, T, K> {}

impl<T: RowElement, K: Sink> VectorOp for ParallelGemm<'_, T, K> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        // The largest tile leaves no register for the bits that are inverted.
        let spared = usize::from(self.kernel() == ProductKind::SignedQuads);
        let row_tiles = RowTiles::new(self.product.a.rows(), S::TILE_ROWS - spared);
        let panels = &self.product.gemm.panels;
        let all = &self;
        let part = |(tiles, panels)| Part {
            all,
            row_tiles,
            tiles,
            panels,
        };
        match Division::new::<S, _>(self.product.a, row_tiles.count, panels) {
            None => part((0..row_tiles.count, 0..panels.count())).eval(s),
            Some(division) => division.for_each(|_, ranges| self.level.run(part(ranges))),
        }
    }
}

impl<T: RowElement, K: Sink> ParallelGemm<'_, T, K> {
    /// The product of the kernels: packed rows of i8 are u8.
    fn kernel(&self) -> ProductKind {
        let packing = &self.product.packing;
        if self.in_place && packing.signed {
            ProductKind::SignedQuads
        } else {
            packing.product
        }
    }
}

/// Some row tiles of some panels, computed by one thread.
struct Part<'a, T, K: Sink> {
    all: &'a ParallelGemm<'a, T, K>,
    row_tiles: RowTiles,
    tiles: Range<usize>,
    panels: Range<usize>,
}

/// Buffers that a thread keeps for its next product.
#[derive(Default)]
struct Buffers {
    /// Packed rows: of each tile [`MAX_ROWS`].
    packed: Vec<f32>,
    /// The sums of a group of panels: of each tile [`MAX_ROWS`] rows.
    sums: Vec<f32>,
    /// The sums of the elements of packed rows.
    row_sums: Vec<i32>,
    /// A K block of a group of panels in f32.
    widened: Vec<f32>,
}

thread_local! {
    static BUFFERS: Cell<Buffers> = Cell::default();
}

/// The division of the sum and of the output, and the strides of the buffers.
#[derive(Clone, Copy)]
struct Sizes {
    /// K blocks.
    blocks: usize,
    /// Panels of a group.
    group: usize,
    /// Row tiles that each group of panels is multiplied by.
    tiles: usize,
    /// Words from a packed row to the next.
    packed_stride: usize,
    /// Words from a row of sums to the next.
    sums_stride: usize,
    /// Words of a packed row for each row of B in words.
    row_words: usize,
    /// Where rows of A are read where they are, the K blocks in words, whose rows are those of some kernel positions.
    in_place: Option<KBlocks>,
    /// Whether panels are widened before they are multiplied.
    widens: bool,
}

impl Sizes {
    fn new<S: Simd, T: RowElement, K: Sink>(part: &Part<'_, T, K>) -> Self {
        let tile_panels = S::TILE_PANELS;
        let product = part.all.product;
        let words = product.words();
        let row_words = product.packing.product.row_words();
        let in_place = part.all.in_place.then(|| {
            let depth = product.a.depth() / product.packing.product.elements_per_word();
            KBlocks::new(product.a.positions(), depth)
        });
        let least = match product.packing.product {
            ProductKind::WidenedF16 if !S::CONVERTS_F16 => 2,
            ProductKind::WidenedBf16 | ProductKind::WidenedF16 => TILES_TO_WIDEN,
            _ => usize::MAX,
        };
        let widens = part.tiles.len() >= least;
        // Rows that a row of words becomes.
        let factor = if widens { row_words } else { 1 };
        let blocks = match in_place {
            Some(blocks) => blocks.count(),
            None => (words * factor).div_ceil(KC).max(1),
        };
        let block = words.div_ceil(blocks);
        let fitting = GROUP_BYTES / (block.max(1) * factor * WIDTH * size_of::<f32>());
        let group = fitting.clamp(tile_panels, GROUP_PANELS);
        let group =
            (group - group % tile_panels).min(part.panels.len().next_multiple_of(tile_panels));
        let packed_stride = block * row_words + GAP;
        let sums_stride = group * WIDTH + GAP;
        // What is kept of each tile while panels are multiplied by it: rows or sums.
        let kept = match in_place {
            Some(_) if T::IS_WORD || blocks > 1 => sums_stride,
            _ => packed_stride,
        };
        // Twice the rows halve the time of widening.
        let tiles = PACKED_BYTES * factor / (MAX_ROWS * kept * size_of::<f32>());
        Self {
            blocks,
            group,
            tiles: tiles.clamp(1, part.tiles.len().max(1)),
            packed_stride,
            sums_stride,
            row_words,
            in_place,
            widens,
        }
    }

    /// The rows of B of a K block, in words, of which there are `words` in all.
    fn words(&self, words: usize, block: usize, depth: usize) -> Range<usize> {
        match self.in_place {
            Some(blocks) => {
                let block = blocks.block(block);
                block.first(depth)..block.first(depth) + block.len()
            }
            None => balanced_part(words, self.blocks, block),
        }
    }
}

impl<T: RowElement, K: Sink> VectorOp for Part<'_, T, K> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let sizes = Sizes::new::<S, _, _>(&self);
        let Buffers {
            mut packed,
            mut sums,
            mut row_sums,
            mut widened,
        } = BUFFERS.take();
        let several = sizes.blocks > 1;
        let sums_of_tile = MAX_ROWS * sizes.sums_stride;
        packed.resize(
            packed
                .len()
                .max(sizes.tiles * MAX_ROWS * sizes.packed_stride),
            0.0,
        );
        let kept = if several { sizes.tiles } else { 1 };
        sums.resize(sums.len().max(kept * sums_of_tile), 0.0);
        row_sums.resize(row_sums.len().max(sizes.tiles * MAX_ROWS), 0);
        let product = self.all.product;
        let depth = product.a.depth() / product.packing.product.elements_per_word();
        let words = |block| sizes.words(product.words(), block, depth);
        let mut table = [[std::ptr::null(); MAX_ROWS]; MAX_POSITIONS];
        for first in self.tiles.clone().step_by(sizes.tiles) {
            let tiles = first..self.tiles.end.min(first + sizes.tiles);
            for start in self.panels.clone().step_by(sizes.group) {
                stop::checkpoint();
                let panels = start..self.panels.end.min(start + sizes.group);
                for block in 0..sizes.blocks {
                    let mut step = Step {
                        panels: panels.clone(),
                        words: words(block),
                        ends: [block == 0, block + 1 == sizes.blocks],
                        next: self
                            .next(&sizes, (tiles.end, &panels, block))
                            .map(|(panel, block)| (panel, words(block))),
                        share: 0..0,
                    };
                    let in_place = sizes.in_place.map(|blocks| blocks.block(block));
                    if in_place.is_none() && (several || start == self.panels.start) {
                        let packed = (&mut *packed, &mut *row_sums);
                        self.pack(s, (&tiles, &step.words, sizes), packed, block == 0);
                    }
                    if sizes.widens {
                        self.widen(s, &step, &mut widened);
                    }
                    for (index, tile) in tiles.clone().enumerate() {
                        let sums = &mut sums[if several { index } else { 0 } * sums_of_tile..];
                        let sums = &mut sums[..sums_of_tile];
                        let lines = step.next.as_ref().map_or(0, |(_, words)| words.len());
                        step.share = index * lines / tiles.len()..(index + 1) * lines / tiles.len();
                        let rows = self.row_tiles.rows(tile);
                        let table = if let Some(block) = &in_place {
                            self.point(rows.clone(), block, &mut table)
                        } else {
                            let packed = &packed[index * MAX_ROWS * sizes.packed_stride..];
                            let packed = packed.chunks_exact(sizes.packed_stride);
                            for (pointer, row) in table[0].iter_mut().zip(packed.take(rows.len())) {
                                *pointer = row.as_ptr();
                            }
                            &table[..1]
                        };
                        let widened = sizes.widens.then_some(&widened[..]);
                        self.multiply::<S>(rows.len(), &step, (table, widened), sums, sizes);
                        if step.ends[1] {
                            let row_sums = &row_sums[index * MAX_ROWS..];
                            self.write(s, (rows, &panels), sums, row_sums, sizes);
                        }
                    }
                }
            }
        }
        BUFFERS.set(Buffers {
            packed,
            sums,
            row_sums,
            widened,
        });
    }
}

/// A K block of the sums of a group of panels.
struct Step {
    panels: Range<usize>,
    /// Rows of B in words.
    words: Range<usize>,
    /// Whether it is the first and the last block.
    ends: [bool; 2],
    /// The first panel and the rows of the step after it, which are prefetched.
    next: Option<(usize, Range<usize>)>,
    /// The rows that a tile prefetches.
    share: Range<usize>,
}

impl<T: RowElement, K: Sink> Part<'_, T, K> {
    /// The first panel and the K block of the step after block `block` of `panels`, in row tiles that end at `tile`.
    fn next(
        &self,
        sizes: &Sizes,
        (tile, panels, block): (usize, &Range<usize>, usize),
    ) -> Option<(usize, usize)> {
        if block + 1 < sizes.blocks {
            Some((panels.start, block + 1))
        } else if panels.end < self.panels.end {
            Some((panels.end, 0))
        } else {
            (tile < self.tiles.end).then_some((self.panels.start, 0))
        }
    }

    /// Pointers to a K block of rows of A where they are, which have whole words.
    #[inline(always)]
    fn point<'t>(
        &self,
        rows: Range<usize>,
        block: &KBlock,
        table: &'t mut [RowPointers; MAX_POSITIONS],
    ) -> &'t [RowPointers] {
        let table = &mut table[..block.positions.len()];
        // SAFETY: pointers to elements have the size and the alignment of pointers to words, and are initialised.
        let pointers = unsafe {
            std::slice::from_raw_parts_mut(table.as_mut_ptr().cast::<RowPointers<T>>(), table.len())
        };
        let positions = block.positions.clone();
        let per_word = self.all.product.packing.product.elements_per_word();
        let depth = block.depth.start * per_word..block.depth.end * per_word;
        self.all.product.a.point(rows, positions, depth, pointers);
        table
    }

    /// Packs some words of the rows of tiles.
    #[inline(always)]
    fn pack<S: Simd>(
        &self,
        s: S,
        (tiles, words, sizes): (&Range<usize>, &Range<usize>, Sizes),
        (packed, row_sums): (&mut [f32], &mut [i32]),
        is_first: bool,
    ) {
        let product = self.all.product;
        let (a, depth) = (product.a, product.a.depth());
        let per_word = product.packing.product.elements_per_word();
        let elements = words.start * per_word..(words.end * per_word).min(product.depth());
        let mut table: [RowPointers<T>; MAX_POSITIONS] =
            [[std::ptr::null(); MAX_ROWS]; MAX_POSITIONS];
        for (index, tile) in tiles.clone().enumerate() {
            let rows = self.row_tiles.rows(tile);
            let packed = &mut packed[index * MAX_ROWS * sizes.packed_stride..];
            let mut at = elements.start;
            while at < elements.end {
                let (position, start) = (at / depth, at % depth);
                let whole = start == 0 && depth <= MAX_DEPTH && at + depth <= elements.end;
                let (positions, range) = if whole {
                    let count = ((elements.end - at) / depth).min(MAX_POSITIONS);
                    (position..position + count, 0..depth)
                } else {
                    let end = depth.min(start + MAX_DEPTH).min(start + elements.end - at);
                    (position..position + 1, start..end)
                };
                let table = &mut table[..positions.len()];
                a.point(rows.clone(), positions, range.clone(), table);
                let packed = packed.chunks_exact_mut(sizes.packed_stride);
                for (r, to) in packed.take(rows.len()).enumerate() {
                    for (position, pointers) in table.iter().enumerate() {
                        let at = at - elements.start + position * range.len();
                        if pointers[r] == padding() {
                            T::pad(&product.packing, range.len(), to, at);
                            continue;
                        }
                        // SAFETY: `point` wrote a pointer to the elements of the range for each of the rows (the
                        // contract of `RowSource`), which A borrows.
                        let from = unsafe { std::slice::from_raw_parts(pointers[r], range.len()) };
                        T::pack(s, &product.packing, from, to, at);
                    }
                }
                at += table.len() * range.len();
            }
            let packed = packed
                .chunks_exact_mut(sizes.packed_stride)
                .take(rows.len());
            for (to, sum) in packed.zip(&mut row_sums[index * MAX_ROWS..]) {
                // Elements of the last word that do not exist: B has zeros there.
                let end = elements.len();
                if !end.is_multiple_of(per_word) {
                    let missing = words.len() * per_word - end;
                    let padding = if product.packing.signed { 0x80 } else { 0 };
                    let none = RowPacking {
                        padding,
                        ..product.packing
                    };
                    T::pad(&none, missing, to, end);
                }
                let part = T::complete(&product.packing, to, words.len());
                *sum = if is_first { part } else { *sum + part };
            }
        }
    }

    /// Writes the panels of a step in f32, one after the other.
    #[inline(always)]
    fn widen<S: Simd>(&self, s: S, step: &Step, widened: &mut Vec<f32>) {
        let panels = &self.all.product.gemm.panels;
        let (words, stride) = (&step.words, panels.depth() * WIDTH);
        let len = step.panels.len() * words.len() * 2 * WIDTH;
        widened.resize(widened.len().max(len), 0.0);
        let is_f16 = self.all.product.packing.product == ProductKind::WidenedF16;
        let to = widened[..len].chunks_exact_mut((words.len() * 2 * WIDTH).max(1));
        for (panel, to) in step.panels.clone().zip(to) {
            let from = &panels.elements()[panel * stride..][words.start * WIDTH..words.end * WIDTH];
            let rows = from.chunks_exact(WIDTH).zip(to.chunks_exact_mut(2 * WIDTH));
            for (from, to) in rows {
                for (nth, to) in to.chunks_exact_mut(WIDTH).enumerate() {
                    for (vector, to) in to.chunks_exact_mut(S::LANES).enumerate() {
                        let (row, column) = (from.as_ptr(), vector * S::LANES);
                        // SAFETY: `from` has `WIDTH` words, of which this is one of the vectors.
                        let wide = unsafe {
                            match is_f16 {
                                true => WidenedF16::columns(s, row, column, nth),
                                false => WidenedBf16::columns(s, row, column, nth),
                            }
                        };
                        s.store(wide, to);
                    }
                }
            }
        }
    }

    /// Adds a K block to the sums of a tile of `count` rows, which `table` points to, of the panels or of those that were
    /// widened.
    #[inline(always)]
    fn multiply<S: Simd>(
        &self,
        count: usize,
        step: &Step,
        (table, widened): (&[RowPointers], Option<&[f32]>),
        sums: &mut [f32],
        sizes: Sizes,
    ) {
        let TypedGemm { gemm, .. } = *self.all.product;
        let (all, panels, words) = (&gemm.panels, &step.panels, &step.words);
        let panel_stride = all.depth() * WIDTH;
        let mut offsets = [0; MAX_ROWS];
        for (row, offset) in offsets.iter_mut().enumerate() {
            *offset = row * sizes.sums_stride;
        }
        assert!(sizes.in_place.is_some() || words.len() * sizes.row_words <= sizes.packed_stride);
        assert!(
            panels.len() * WIDTH <= sizes.sums_stride && sums.len() >= count * sizes.sums_stride
        );
        let mut kind = self.all.kernel();
        // Rows of B, in words or of f32.
        let mut block = words.len();
        if let Some(widened) = widened {
            block *= sizes.row_words;
            kind = ProductKind::Floats;
            assert!(widened.len() >= panels.len() * block * WIDTH);
        }
        // Of each kernel position; a packed row is one.
        let depth = block / table.len().max(1);
        for panel in panels.clone().step_by(S::TILE_PANELS) {
            let column = panel * WIDTH;
            let columns =
                ((panels.end - panel).min(S::TILE_PANELS) * WIDTH).min(all.columns() - column);
            let kernel = S::tile(kind, count, columns);
            let elements = all.elements();
            let (first, stride) = match widened {
                None => {
                    let at = panel * panel_stride + words.start * WIDTH;
                    (&elements[at..], panel_stride)
                }
                Some(widened) => {
                    let stride = block * WIDTH;
                    (&widened[(panel - panels.start) * stride..], stride)
                }
            };
            let next = step.next.as_ref().map(|(next, words)| {
                let next = next + (panel - panels.start);
                next * panel_stride + (words.start + step.share.start) * WIDTH
            });
            let next = next.filter(|&next| next < elements.len());
            let tile = Tile {
                rows: table,
                depth,
                panel: first.as_ptr(),
                panel_stride: stride,
                output: sums[column - panels.start * WIDTH..].as_mut_ptr(),
                offsets: &offsets,
                columns,
                first: step.ends[0],
                last: step.ends[1],
                epilogue: Epilogue {
                    bias: gemm
                        .bias
                        .map_or(std::ptr::null(), |bias| bias[column..].as_ptr()),
                    addend: std::ptr::null(),
                    scale: gemm.scale,
                    low: gemm.limits[0],
                    high: gemm.limits[1],
                    stream: false,
                },
                prefetch: Prefetch {
                    address: next.map_or(std::ptr::null(), |next| elements[next..].as_ptr()),
                    stride: panel_stride,
                    lines: next.map_or(0, |_| step.share.len()),
                },
                next_rows: 0,
            };
            // SAFETY: a value of `S` exists only on a CPU with its instructions, and `run` checked that
            // the level has the product. Packed rows have `row_words` words for each of `words`
            // (asserted above), rows in place `depth` elements at each position of the K block. Panels have a word for
            // each in each column, widened ones an element (asserted above); the sums have whole panels of each row (asserted above), and `run` checked the bias.
            unsafe { kernel(&tile) };
        }
    }

    /// Converts the sums of a tile and writes them to the output.
    #[inline(always)]
    fn write<S: Simd>(
        &self,
        s: S,
        (rows, panels): (Range<usize>, &Range<usize>),
        sums: &mut [f32],
        row_sums: &[i32],
        sizes: Sizes,
    ) {
        let TypedGemm { gemm, sink, .. } = *self.all.product;
        // `run` checked that the output has these rows and columns; no other part has the same tile, and this part has no
        // other reference to it.
        let mut tile = SumTile {
            offsets: self.all.layout.offsets(rows.start),
            columns: panels.start * WIDTH..(panels.end * WIDTH).min(gemm.panels.columns()),
            row_sums: &row_sums[..rows.len()],
            sums,
            stride: sizes.sums_stride,
            output: self.all.output,
        };
        sink.write(s, &mut tile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panels::{Panels, pack_rows, packed_len};
    use crate::simd::rows::{Geometry, Im2col, Matrix};
    use tenon_backend::CpuLevel;

    /// Keeps sums of i32, and the sums of rows.
    struct Integers;

    impl Sink for Integers {
        type Element = [i32; 2];

        fn write<S: Simd>(&self, _: S, tile: &mut SumTile<'_, [i32; 2]>) {
            for row in 0..tile.rows() {
                let (columns, row_sum) = (tile.columns().len(), tile.row_sum(row));
                let (sums, to) = tile.row(row);
                assert_eq!(
                    (sums.len(), to.len()),
                    (columns.next_multiple_of(WIDTH), columns)
                );
                for (to, sum) in to.iter_mut().zip(&*sums) {
                    *to = [sum.to_bits() as i32, row_sum];
                }
            }
        }
    }

    /// Bytes of all values.
    fn bytes(len: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(next).collect()
    }

    /// The panels of a matrix of i8, in words of four rows.
    fn panels_of_bytes(b: &[u8], depth: usize, columns: usize) -> Vec<f32> {
        let words = depth.div_ceil(4);
        let mut to = vec![0.0; packed_len(words, columns)];
        let matrix: Vec<f32> = (0..words * columns)
            .map(|at| {
                let (k, column) = (at / columns * 4, at % columns);
                let byte = |k: usize| {
                    if k < depth {
                        b[k * columns + column]
                    } else {
                        0
                    }
                };
                f32::from_bits(u32::from_le_bytes([
                    byte(k),
                    byte(k + 1),
                    byte(k + 2),
                    byte(k + 3),
                ]))
            })
            .collect();
        pack_rows(&matrix, columns, words, columns, &mut to);
        to
    }

    /// The products of bytes that each level has; AVX-VNNI also on a CPU with AVX-512.
    fn levels() -> impl Iterator<Item = (Level, ProductKind)> {
        let mut levels: Vec<Level> = CpuLevel::ALL.map(Level::detect).to_vec();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avxvnni") && CpuLevel::in_use() >= CpuLevel::Avx2 {
            levels.push(Level {
                level: CpuLevel::Avx2,
                quads: true,
                bf16_pairs: false,
            });
        }
        levels
            .into_iter()
            .flat_map(|level| {
                [ProductKind::Pairs, ProductKind::Quads].map(|product| (level, product))
            })
            .filter(|(level, product)| level.has(*product))
    }

    #[test]
    fn products_of_bytes_are_exact() {
        for (rows, depth, columns) in [
            (1, 1, 1),
            (3, 5, 17),
            (33, 64, 40),
            (31, 3331, 35),
            (200, 130, 300),
        ] {
            let (a, b) = (bytes(rows * depth, 1), bytes(depth * columns, 2));
            let panels = panels_of_bytes(&b, depth, columns);
            for (level, kind) in levels() {
                for signed in [false, true] {
                    let packing = RowPacking {
                        signed,
                        padding: 0,
                        sums: true,
                        product: kind,
                    };
                    let mut output = vec![[0; 2]; rows * columns];
                    let product = TypedGemm {
                        a: &Matrix::new(&a, rows, depth, depth),
                        gemm: &Gemm::new(Panels::new(&panels, depth.div_ceil(4), columns)),
                        packing,
                        sink: &Integers,
                    };
                    product.run(level, MatrixMut::new(&mut output, rows, columns, columns));
                    for (row, output) in output.chunks_exact(columns).enumerate() {
                        let a = a[row * depth..][..depth].iter().map(|&a| {
                            if signed {
                                i64::from(a as i8) + 128
                            } else {
                                a.into()
                            }
                        });
                        for (column, &found) in output.iter().enumerate() {
                            let terms = a
                                .clone()
                                .enumerate()
                                .map(|(k, a)| a * i64::from(b[k * columns + column] as i8));
                            let expected =
                                [terms.sum::<i64>() as i32, a.clone().sum::<i64>() as i32];
                            assert_eq!(
                                found, expected,
                                "{level:?} {kind:?} {signed} [{row}, {column}] of {rows}x{depth}x{columns}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Packed rows, and rows in place where pixels are whole words and padding is a pixel.
    #[test]
    fn windows_of_bytes_have_the_padding_of_their_zero_point() {
        for channels in [6, 8, 24] {
            let shape = Geometry {
                images: 2,
                size: [1, 7, 5],
                channels,
                kernel: [1, 3, 3],
                strides: [1, 2, 1],
                dilations: [1, 1, 1],
                before: [0, 1, 1],
                after: [0, 1, 1],
                output: [1, 4, 5],
            };
            for (level, kind) in levels() {
                for signed in [false, true] {
                    for has_pixel in [false, true] {
                        check_windows(shape, (level, kind), signed, has_pixel);
                    }
                }
            }
        }
    }

    fn check_windows(
        shape: Geometry,
        (level, kind): (Level, ProductKind),
        signed: bool,
        pixel: bool,
    ) {
        let channels = shape.channels;
        let (depth, columns, padding) = (channels * 9, 20, 77);
        let (input, b) = (bytes(shape.input_len(), 3), bytes(depth * columns, 4));
        let panels = panels_of_bytes(&b, depth, columns);
        let flip = if signed { 0x80 } else { 0 };
        let at = |image: usize, y: i64, x: i64, channel: usize| {
            let inside = (0..7).contains(&y) && (0..5).contains(&x);
            let index = ((image * 7 + y as usize % 8) * 5 + x as usize % 8) * channels + channel;
            flip ^ if inside { input[index] } else { padding }
        };
        let mut output = vec![[0; 2]; shape.pixels() * columns];
        let windows = Im2col::new(&input, shape, [0, -1, -1], 0, channels);
        let pixel_of_padding = vec![padding; channels];
        let a = if pixel {
            windows.with_padding(&pixel_of_padding)
        } else {
            windows
        };
        let product = TypedGemm {
            a: &a,
            gemm: &Gemm::new(Panels::new(&panels, depth.div_ceil(4), columns)),
            packing: RowPacking {
                product: kind,
                signed,
                padding,
                sums: false,
            },
            sink: &Integers,
        };
        assert_eq!(
            product.reads_in_place(),
            pixel && kind == ProductKind::Quads && channels.is_multiple_of(4)
        );
        product.run(
            level,
            MatrixMut::new(&mut output, shape.pixels(), columns, columns),
        );
        for (index, found) in output.iter().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let (image, y, x) = (row / 20, row % 20 / 5, row % 5);
            let terms = (0..depth).map(|k| {
                let (position, channel) = (k / channels, k % channels);
                let (ky, kx) = (position / 3, position % 3);
                let a = at(
                    image,
                    2 * y as i64 + ky as i64 - 1,
                    x as i64 + kx as i64 - 1,
                    channel,
                );
                i32::from(a) * i32::from(b[k * columns + column] as i8)
            });
            let case = (level, kind, signed, pixel, index);
            assert_eq!(found[0], terms.sum::<i32>(), "{case:?}");
        }
    }
}
