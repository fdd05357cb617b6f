//! GEMM, blocked as in GotoBLAS and BLIS (Goto and van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication", 2008; Van Zee and van de Geijn, "BLIS", 2015): micro-kernels compute tiles of the
//! output, K block by K block, in an order that keeps groups of panels of B in the second level cache.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::disjoint::{MatrixMut, RowLayout};
use super::division::{Division, RowTiles};
use super::k_blocks::{KBlock, KBlocks, MAX_POSITIONS};
use super::math::{UnaryFunction, map_in_place};
use super::packed_rows::{PackedRows, rows_alias};
use super::products::ProductKind;
use super::rows::{RowSource, padding};
use super::tile::{Epilogue, MAX_ROWS, Prefetch, RowPointers, Tile};
use super::{Level, Simd, VectorOp};
use crate::panels::{Panels, WIDTH};
use std::ops::Range;
use tenon_base::stop;

/// Bytes of a group of panels: it stays in the second level cache while all rows are multiplied by it.
pub(super) const GROUP_BYTES: usize = 256 << 10;

/// Bytes of one of the 16 ways of the second level cache: addresses a multiple of it apart map to the
/// same cache set.
const L2_WAY_BYTES: usize = 64 << 10;

/// Panels from which on packing rows of A pays for itself: each row is read once a panel.
const MIN_PANELS_TO_PACK: usize = 4;

/// Panels of a group where the panels alias in the second level cache: the cache set also holds as
/// many of the next group.
const ALIASING_PANELS: usize = 4;

/// Elements of an output from which on it is written with non-temporal stores: through the caches it
/// would evict the operands.
const STREAMING_ELEMENTS: usize = 4 << 20;

/// Elements of an output from which on its lines are prefetched before they are written, in a sum of at most
/// [`SHORT_SUM`] elements: else a tile takes less time than its lines do to arrive in the cache.
const PREFETCHED_ELEMENTS: usize = 1 << 20;
const SHORT_SUM: usize = 64;

/// Tiles of a group of panels between two checkpoints for cancellation.
const CHECKPOINT_TILES: usize = 64;

/// `C = function(clamp(scale * (A x B) + bias + addend))`: all parameters but A and C.
pub(crate) struct Gemm<'a> {
    /// B.
    pub(crate) panels: Panels<'a>,
    /// One element per column.
    pub(crate) bias: Option<&'a [f32]>,
    /// A matrix of the layout of C.
    pub(crate) addend: Option<&'a [f32]>,
    /// The factor of the sum.
    pub(crate) scale: f32,
    /// The lower and the upper bound of the clamp.
    pub(crate) limits: [f32; 2],
    /// The elementwise function applied after the clamp.
    pub(crate) function: Option<UnaryFunction>,
    /// Panels of the same sizes that are multiplied after this product: prefetched.
    pub(crate) next: Option<Panels<'a>>,
}

impl<'a> Gemm<'a> {
    /// The product alone.
    pub(crate) fn new(panels: Panels<'a>) -> Self {
        Self {
            panels,
            bias: None,
            addend: None,
            scale: 1.0,
            limits: [f32::NEG_INFINITY, f32::INFINITY],
            function: None,
            next: None,
        }
    }
}

/// What the micro-kernels read of a row of A for a row of B in words.
pub(crate) trait RowWords: Copy + Send + Sync + 'static {
    /// Words: [`ProductKind::row_words`].
    const COUNT: usize;
}

/// An element of f32, or two of bf16.
impl RowWords for f32 {
    const COUNT: usize = 1;
}

/// Two elements, for a pair of B.
impl RowWords for [f32; 2] {
    const COUNT: usize = 2;
}

/// Computes all of `output`: the product for panels of their type, whose rows are as many as the words of a row of A.
///
/// # Panics
/// When the sizes of `output`, bias, addend and panels do not match the rows, or the rows the product.
pub(crate) fn multiply<R: RowSource<Element: RowWords> + ?Sized>(
    level: Level,
    a: &R,
    gemm: &Gemm<'_>,
    mut output: MatrixMut<'_>,
) {
    let (rows, columns, layout) = (a.rows(), gemm.panels.columns(), output.layout());
    let product = level.product_of(gemm.panels.float());
    assert!(output.rows() == rows && output.columns() == columns);
    assert!(product.row_words() == R::Element::COUNT);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(gemm.bias.is_none_or(|bias| bias.len() >= columns));
    assert!(
        gemm.addend
            .is_none_or(|addend| addend.len() >= output.span())
    );
    assert!(gemm.panels.depth() == a.positions() * a.depth());
    let stride_from = |elements: usize| {
        let stride = layout.stride();
        stride.filter(|&stride| rows.saturating_mul(stride) >= elements)
    };
    let stream = gemm.function.is_none()
        && stride_from(STREAMING_ELEMENTS).is_some_and(|stride| stride.is_multiple_of(WIDTH))
        && (output.as_mut_ptr() as usize).is_multiple_of(WIDTH * size_of::<f32>());
    let is_short = gemm.panels.depth() <= SHORT_SUM;
    let shared = SharedGemm {
        a,
        product,
        gemm,
        output: output.as_mut_ptr(),
        layout,
        stream,
        prefetched_stride: stride_from(PREFETCHED_ELEMENTS).filter(|_| is_short && !stream),
    };
    level.run(ParallelGemm {
        shared: &shared,
        level,
    });
}

/// A product with its operands and its output, shared by the threads that compute it.
struct SharedGemm<'a, R: ?Sized> {
    a: &'a R,
    product: ProductKind,
    gemm: &'a Gemm<'a>,
    output: *mut f32,
    layout: RowLayout,
    /// Whether the output is written with non-temporal stores where the sum is one K block.
    stream: bool,
    /// Elements from a row of the output to the next, where the rows of the next tile are prefetched.
    prefetched_stride: Option<usize>,
}

// SAFETY: `output` is borrowed mutably by `multiply` until all threads are done, and each thread
// writes the tiles of different chunks, which are disjoint; all other fields are only read.
unsafe impl<R: RowSource<Element: RowWords> + ?Sized> Sync for SharedGemm<'_, R> {}

/// Divides a product among threads, and computes it.
struct ParallelGemm<'a, R: ?Sized> {
    shared: &'a SharedGemm<'a, R>,
    level: Level,
}

impl<R: RowSource<Element: RowWords> + ?Sized> VectorOp for ParallelGemm<'_, R> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Self { shared, level } = self;
        let row_tiles = RowTiles::new(shared.a.rows(), S::TILE_ROWS);
        let part = |(tiles, panels), next_panel| GemmPart {
            shared,
            row_tiles,
            tiles,
            panels,
            next_panel,
        };
        let panels = &shared.gemm.panels;
        let Some(division) = Division::new::<S, _>(shared.a, row_tiles.count, panels) else {
            return part((0..row_tiles.count, 0..panels.count()), None).eval(simd);
        };
        division.for_each(|chunk, ranges| {
            // A thread takes the chunks of its part in order.
            let next = Some(chunk + 1).filter(|&next| next < division.count());
            level.run(part(ranges, next.map(|next| division.chunk(next).1.start)));
        });
    }
}

/// A chunk of the schedule: some row tiles of some panels, computed by one thread.
struct GemmPart<'a, R: ?Sized> {
    shared: &'a SharedGemm<'a, R>,
    row_tiles: RowTiles,
    tiles: Range<usize>,
    panels: Range<usize>,
    /// The first panel of the chunk that this thread is likely to compute next.
    next_panel: Option<usize>,
}

/// The part of B that is multiplied next, to be prefetched.
#[derive(Clone, Copy)]
struct NextPanels<'a> {
    elements: &'a [f32],
    /// The first panel.
    panel: usize,
    /// Elements from the start of each panel.
    offset: usize,
    /// Cache lines of each panel.
    lines: usize,
}

impl<'a, R: RowSource<Element: RowWords> + ?Sized> VectorOp for GemmPart<'a, R> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let blocks = KBlocks::new(self.shared.a.positions(), self.shared.a.depth());
        // Small products at one position take less time than the initialisation of all of them.
        let (mut of_one, mut of_all);
        let table: &mut [RowPointers] = if self.shared.a.positions() == 1 {
            of_one = [[std::ptr::null(); MAX_ROWS]; 1];
            &mut of_one
        } else {
            of_all = [[std::ptr::null(); MAX_ROWS]; MAX_POSITIONS];
            &mut of_all
        };
        for index in 0..blocks.count() {
            let ends = SumEnds {
                first: index == 0,
                last: index + 1 == blocks.count(),
            };
            let next = if ends.last {
                let elements = |panels: Panels<'a>| panels.elements();
                let after = self
                    .shared
                    .gemm
                    .next
                    .map(elements)
                    .map(|elements| NextPanels {
                        elements,
                        ..self.next_panels(&blocks.block(0), 0)
                    });
                self.next_panel
                    .map(|panel| self.next_panels(&blocks.block(0), panel))
                    .or(after)
            } else {
                Some(self.next_panels(&blocks.block(index + 1), self.panels.start))
            };
            self.add_k_block(simd, &blocks.block(index), ends, next, table);
        }
        if self.shared.stream {
            simd.store_fence();
        }
    }
}

/// Whether all rows are padding.
#[inline(always)]
fn is_padding(rows: &[*const f32]) -> bool {
    rows.iter().all(|&row| row == padding())
}

/// Whether a K block is the first or the last of the sum.
#[derive(Clone, Copy)]
struct SumEnds {
    first: bool,
    last: bool,
}

impl<'a, R: RowSource<Element: RowWords> + ?Sized> GemmPart<'a, R> {
    /// A K block of the panels from `panel` on.
    fn next_panels(&self, block: &KBlock, panel: usize) -> NextPanels<'a> {
        NextPanels {
            elements: self.shared.gemm.panels.elements(),
            panel,
            offset: block.first(self.shared.a.depth()) * WIDTH,
            lines: block.len(),
        }
    }

    /// Adds one K block of the sum to all tiles of the part; `next` is multiplied after it.
    #[inline(always)]
    fn add_k_block<S: Simd>(
        &self,
        simd: S,
        block: &KBlock,
        ends: SumEnds,
        next: Option<NextPanels<'a>>,
        table: &mut [RowPointers],
    ) {
        let panel_bytes = block.len().max(1) * WIDTH * size_of::<f32>();
        let panel_stride = self.shared.gemm.panels.depth() * WIDTH * size_of::<f32>();
        let most = if panel_stride.is_multiple_of(L2_WAY_BYTES) {
            ALIASING_PANELS
        } else {
            usize::MAX
        };
        let fitting = (GROUP_BYTES / panel_bytes).min(most).max(S::TILE_PANELS);
        let group = fitting - fitting % S::TILE_PANELS;
        let mut packed = self.packed_rows(block, table);
        let most = match packed {
            Some(_) => PackedRows::TILES,
            None => usize::MAX,
        };
        let mut first = self.tiles.start;
        while first < self.tiles.end {
            let tiles = first..self.tiles.end.min(first.saturating_add(most));
            if let Some(packed) = &mut packed {
                self.pack(block, tiles.clone(), table, packed);
            }
            let mut start = self.panels.start;
            while start < self.panels.end {
                let panels = start..(start + group).min(self.panels.end);
                let next = match (panels.end < self.panels.end, tiles.end < self.tiles.end) {
                    (true, _) => Some(self.next_panels(block, panels.end)),
                    (false, true) => Some(self.next_panels(block, self.panels.start)),
                    (false, false) => next,
                };
                for tile in tiles.clone() {
                    if (tile - first).is_multiple_of(CHECKPOINT_TILES) {
                        stop::checkpoint();
                    }
                    let (rows, share) = (self.rows(tile), [tile - first, tiles.len()]);
                    let table = &mut table[..block.positions.len()];
                    let inside = match &packed {
                        Some(packed) => packed.point(tile - first, &mut table[0]),
                        None => {
                            self.point(block, tile, table);
                            self.inside(table, rows.len())
                        }
                    };
                    if inside.is_empty() && !ends.first && !ends.last {
                        continue;
                    }
                    let (block, table) = (block.part(inside.clone()), &table[inside]);
                    let offsets = self.shared.layout.offsets(rows.start);
                    let part = (rows.len(), panels.clone());
                    self.row_of_tiles::<S>(&block, part, (share, next), ends, (table, &offsets));
                    if let (true, Some(function)) = (ends.last, self.shared.gemm.function) {
                        self.map_unary(simd, function, &offsets[..rows.len()], panels.clone());
                    }
                }
                start = panels.end;
            }
            first = tiles.end;
        }
    }

    /// The rows of a tile.
    fn rows(&self, tile: usize) -> Range<usize> {
        self.row_tiles.rows(tile)
    }

    /// Writes pointers to a K block of the rows of a tile.
    #[inline(always)]
    fn point(&self, block: &KBlock, tile: usize, table: &mut [RowPointers]) {
        let (positions, depth) = (block.positions.clone(), block.depth.clone());
        // SAFETY: pointers have the same size and representation, whatever they point to.
        let table = unsafe {
            std::slice::from_raw_parts_mut(
                table.as_mut_ptr().cast::<RowPointers<R::Element>>(),
                table.len(),
            )
        };
        self.shared
            .a
            .point(self.rows(tile), positions, depth, table);
    }

    /// The kernel positions from the first to the last at which one of the rows is not padding: products with zeros add
    /// nothing. Large dilations and small images have many of them.
    #[inline(always)]
    fn inside(&self, table: &[RowPointers], rows: usize) -> Range<usize> {
        if !self.shared.a.pads_with_zeros() {
            return 0..table.len();
        }
        let is_inside = |position: &RowPointers| !is_padding(&position[..rows]);
        let Some(first) = table.iter().position(is_inside) else {
            return 0..0;
        };
        let last = table.iter().rposition(is_inside).unwrap_or(first);
        first..last + 1
    }

    /// A buffer for packed rows, where the rows of a K block alias in the cache and are multiplied by
    /// enough panels.
    fn packed_rows(&self, block: &KBlock, table: &mut [RowPointers]) -> Option<PackedRows> {
        let often = self.panels.len() >= MIN_PANELS_TO_PACK;
        if !often
            || block.positions.len() != 1
            || block.depth.len() * R::Element::COUNT > PackedRows::DEPTH
        {
            return None;
        }
        // Rows of padding are one row.
        let alias = self.tiles.clone().find_map(|tile| {
            self.point(block, tile, &mut table[..1]);
            let rows = &table[0][..self.rows(tile).len()];
            (!is_padding(rows)).then(|| rows_alias(rows))
        });
        alias.unwrap_or(false).then(PackedRows::of_thread)
    }

    /// Packs a K block of the rows of tiles.
    fn pack(
        &self,
        block: &KBlock,
        tiles: Range<usize>,
        table: &mut [RowPointers],
        packed: &mut PackedRows,
    ) {
        let words = block.depth.len() * R::Element::COUNT;
        for (index, tile) in tiles.enumerate() {
            self.point(block, tile, &mut table[..1]);
            let rows = &table[0][..self.rows(tile).len()];
            let is_padding = self.inside(&table[..1], rows.len()).is_empty();
            packed.set_padding(index, is_padding);
            if is_padding {
                continue;
            }
            for (&row, to) in rows.iter().zip(packed.rows(index)) {
                // SAFETY: `point` wrote a pointer to `words` words of this row for each of the
                // tile's rows (the contract of `RowSource`), which A borrows.
                let row = unsafe { std::slice::from_raw_parts(row, words) };
                to[..words].copy_from_slice(row);
            }
        }
    }

    /// Applies the elementwise function to rows of the output just written.
    #[inline(always)]
    fn map_unary<S: Simd>(
        &self,
        simd: S,
        function: UnaryFunction,
        offsets: &[usize],
        panels: Range<usize>,
    ) {
        let columns =
            panels.start * WIDTH..(panels.end * WIDTH).min(self.shared.gemm.panels.columns());
        for offset in offsets {
            // SAFETY: `multiply` checked that the output has the row at this offset and these columns;
            // no other part has the same tile, and this part has no other reference to it.
            let elements = unsafe {
                let start = self.shared.output.add(offset + columns.start);
                std::slice::from_raw_parts_mut(start, columns.len())
            };
            map_in_place(simd, function, elements);
        }
    }

    /// Computes one row tile in each of `panels`, and prefetches its share of `next`.
    #[inline(always)]
    fn row_of_tiles<S: Simd>(
        &self,
        block: &KBlock,
        (rows, panels): (usize, Range<usize>),
        ([index, tiles], next): ([usize; 2], Option<NextPanels<'a>>),
        ends: SumEnds,
        (table, offsets): (&[RowPointers], &[usize; MAX_ROWS]),
    ) {
        let SharedGemm {
            a, gemm, output, ..
        } = *self.shared;
        let all = &gemm.panels;
        let panel_stride = all.depth() * WIDTH;
        let offset = block.first(a.depth()) * WIDTH;
        // The next panels are prefetched while this group is multiplied: each tile prefetches an equal
        // share of their lines.
        let share = next.map_or(0..0, |next| {
            index * next.lines / tiles..(index + 1) * next.lines / tiles
        });
        let next_rows = match self.shared.prefetched_stride {
            Some(stride) if ends.first => rows * stride,
            _ => 0,
        };
        let mut panel = panels.start;
        while panel < panels.end {
            let count = (panels.end - panel).min(S::TILE_PANELS);
            let column = panel * WIDTH;
            let elements = all.elements().as_ptr();
            let within = panel - panels.start;
            let next = next.filter(|next| next.panel + within < all.count());
            let (address, lines) = next.map_or((std::ptr::null(), 0), |next| {
                let first = (next.panel + within) * panel_stride + next.offset;
                let from = next
                    .elements
                    .as_ptr()
                    .wrapping_add(first + share.start * WIDTH);
                (from, share.len())
            });
            let columns = (count * WIDTH).min(all.columns() - column);
            let tile = Tile {
                rows: table,
                depth: block.depth.len(),
                panel: elements.wrapping_add(panel * panel_stride + offset),
                panel_stride,
                output: output.wrapping_add(column),
                offsets,
                columns,
                first: ends.first,
                last: ends.last,
                epilogue: Epilogue {
                    bias: gemm
                        .bias
                        .map_or(std::ptr::null(), |bias| bias[column..].as_ptr()),
                    addend: gemm
                        .addend
                        .map_or(std::ptr::null(), |addend| addend[column..].as_ptr()),
                    scale: gemm.scale,
                    low: gemm.limits[0],
                    high: gemm.limits[1],
                    stream: self.shared.stream && ends.first && ends.last,
                },
                prefetch: Prefetch {
                    address,
                    stride: panel_stride,
                    lines,
                },
                next_rows,
            };
            // SAFETY: `eval` received a value of `S`, which exists only on a CPU with its instructions, and the level has
            // those of the product (`Level::product_of`). `point` wrote pointers that are valid for the K block (the contract
            // of `RowSource`), whose elements have the words that the product reads (checked by `multiply`); `Panels` holds
            // `depth` rows in each panel; `multiply` checked that output, bias and addend contain the last row and column,
            // and that the output is aligned where `stream` is set; the output is borrowed mutably for the whole product and
            // tiles do not overlap.
            unsafe { S::tile(self.shared.product, rows, columns)(&tile) };
            panel += count;
        }
    }
}
