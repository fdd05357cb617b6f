//! The matrix product: tiles of the output computed by the micro-kernels, in an order that keeps the
//! panels of B near, on as many threads as the work is worth.

use super::copies::{Copies, places_come_again};
use super::disjoint::MatrixMut;
use super::math::{Curve, curve_in_place};
use super::pieces::Pieces;
use super::rows::Rows;
use super::sections::{MAX_TAPS, Section, Sections, share};
use super::tile::{MAX_ROWS, RowPointers, Tile};
use super::{Level, Simd, VectorOp};
use crate::panels::{Panels, WIDTH};
use std::ops::Range;
use tenon_base::{pool, stop};

/// Bytes of the panels that stay in the second level cache while all rows pass.
const GROUP_BYTES: usize = 256 << 10;

/// Bytes of one of the 16 ways of the second level cache: what lies a multiple of it apart shares
/// its places.
const WAY_BYTES: usize = 64 << 10;

/// Panels from which on rows pass often enough to be copied.
const OFTEN: usize = 4;

/// Panels that stay where they share their places: as many of the next group come beside them.
const ALIKE_PANELS: usize = 4;

/// Numbers of an output from which on it is written past the caches, where it would take the place of
/// all else.
const STREAMED: usize = 4 << 20;

/// Products of fewer operations are not worth a second thread: with this limit
/// 784-256-128-10 takes 5.1 microseconds on two threads of a Zen 5, 8.9 on one.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// Numbers of B above which a second thread is worth it for what it has of caches, however few the
/// rows.
const PARALLEL_NUMBERS: usize = 1 << 18;

/// Operations of a piece of work that one thread takes at a time, where there are that many.
const GRAIN_OPERATIONS: usize = 8 << 20;

/// Operations of the last pieces, when the threads come to their end: a piece begins with memory
/// that nobody has asked for yet.
const LEAST_OPERATIONS: usize = 4 << 20;

/// Tiles of a group of panels between two places to stop.
const STOP_TILES: usize = 64;

/// `C = activation(scale * (A x B) + bias + addend)`: all but A.
pub(crate) struct Product<'a> {
    /// B.
    pub(crate) panels: Panels<'a>,
    /// A number for each column.
    pub(crate) bias: Option<&'a [f32]>,
    /// Numbers that lie as C's do.
    pub(crate) addend: Option<&'a [f32]>,
    /// What the sum is multiplied with.
    pub(crate) scale: f32,
    /// The least and the greatest result.
    pub(crate) limits: [f32; 2],
    /// What is done to each number after that.
    pub(crate) curve: Option<Curve>,
}

/// Computes all of `output`.
///
/// # Panics
/// When the sizes of `output`, bias, addend and panels do not fit the rows.
pub(crate) fn multiply<R: Rows>(
    level: Level,
    a: &R,
    product: &Product<'_>,
    mut output: MatrixMut<'_>,
) {
    let (rows, columns, stride) = (a.rows(), product.panels.columns(), output.stride());
    assert!(output.rows() == rows && output.columns() == columns);
    if rows == 0 || columns == 0 {
        return;
    }
    let reach = (rows - 1) * stride + columns;
    assert!(product.bias.is_none_or(|bias| bias.len() >= columns));
    assert!(product.addend.is_none_or(|addend| addend.len() >= reach));
    assert!(product.panels.depth() == a.taps() * a.depth());
    let whole = Whole {
        a,
        product,
        output: output.as_mut_ptr(),
        stride,
        stream: product.curve.is_none()
            && rows.saturating_mul(stride) >= STREAMED
            && stride.is_multiple_of(WIDTH)
            && (output.as_mut_ptr() as usize).is_multiple_of(WIDTH * size_of::<f32>()),
    };
    level.run(Start {
        whole: &whole,
        level,
    });
}

/// A product with its output, shared by the threads that compute it.
struct Whole<'a, R> {
    a: &'a R,
    product: &'a Product<'a>,
    output: *mut f32,
    stride: usize,
    /// Whether it is written past the caches where the sum is not cut.
    stream: bool,
}

// SAFETY: the threads write disjoint tiles of the output; everything else is only read.
unsafe impl<R: Rows> Sync for Whole<'_, R> {}

/// Decides how to split a product, and computes it.
struct Start<'a, R> {
    whole: &'a Whole<'a, R>,
    level: Level,
}

impl<R: Rows> VectorOp for Start<'_, R> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let (a, panels) = (self.whole.a, &self.whole.product.panels);
        let tiles = Cut::new(a.rows(), S::TILE_ROWS);
        let pairs = panels.count().div_ceil(S::TILE_PANELS);
        let operations = a
            .rows()
            .saturating_mul(panels.columns())
            .saturating_mul(2 * panels.depth());
        let threads = pool::threads();
        let small = operations < PARALLEL_OPERATIONS && panels.numbers().len() < PARALLEL_NUMBERS;
        if threads == 1 || small {
            let part = Part {
                whole: self.whole,
                tiles,
                tile: 0..tiles.count,
                panel: 0..panels.count(),
                after: None,
            };
            return part.eval(simd);
        }
        let pieces = (operations / GRAIN_OPERATIONS).clamp(threads, 4 * threads);
        // What all threads read is what is not split: let it be the smaller of A and B, and split
        // only where the other has too few parts.
        let by_pair = panels.numbers().len() > a.footprint();
        let (things, others) = match by_pair {
            true => (pairs, tiles.count),
            false => (tiles.count, pairs),
        };
        let parts = pieces.div_ceil(things).min(others);
        let least = (things.saturating_mul(LEAST_OPERATIONS) / operations).max(1);
        let cut = match parts == 1 && things / least >= 4 * threads {
            true => Pieces::shrinking(things, threads, least),
            false => Pieces::alike(things, pieces),
        };
        let ranges = |piece: usize| {
            let (split, other) = (
                cut.piece(piece / parts),
                share(others, parts, piece % parts),
            );
            if by_pair {
                (other, split)
            } else {
                (split, other)
            }
        };
        let count = cut.count() * parts;
        let (whole, level) = (self.whole, self.level);
        pool::for_each(count, |piece| {
            let (tile, pair) = ranges(piece);
            let end = (pair.end * S::TILE_PANELS).min(whole.product.panels.count());
            // The threads take the pieces in turn, more or less.
            let next = Some(piece + threads).filter(|&next| next < count);
            level.run(Part {
                whole,
                tiles,
                tile,
                panel: pair.start * S::TILE_PANELS..end,
                after: next.map(|next| ranges(next).1.start * S::TILE_PANELS),
            });
        });
    }
}

/// Rows cut in tiles as equal as can be.
#[derive(Clone, Copy)]
struct Cut {
    rows: usize,
    count: usize,
}

impl Cut {
    fn new(rows: usize, most: usize) -> Self {
        Self {
            rows,
            count: rows.div_ceil(most),
        }
    }
}

/// Some tiles of some panels: what one thread computes.
struct Part<'a, R> {
    whole: &'a Whole<'a, R>,
    tiles: Cut,
    tile: Range<usize>,
    panel: Range<usize>,
    /// The first panel of the part that this thread is likely to compute next.
    after: Option<usize>,
}

/// Where in B what is wanted next begins.
#[derive(Clone, Copy)]
struct Ahead {
    panel: usize,
    /// Numbers from the start of each panel.
    offset: usize,
    /// Lines of each panel.
    lines: usize,
}

impl<R: Rows> VectorOp for Part<'_, R> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let sections = Sections::new(self.whole.a.taps(), self.whole.a.depth());
        let mut table = [[std::ptr::null(); MAX_ROWS]; MAX_TAPS];
        for index in 0..sections.count() {
            let ends = Ends {
                first: index == 0,
                last: index + 1 == sections.count(),
            };
            let next = match ends.last {
                false => Some(self.ahead(&sections.section(index + 1), self.panel.start)),
                true => self
                    .after
                    .map(|panel| self.ahead(&sections.section(0), panel)),
            };
            self.section(simd, &sections.section(index), ends, next, &mut table);
        }
        if self.whole.stream {
            simd.settle();
        }
    }
}

/// Whether a section begins or ends the sum.
#[derive(Clone, Copy)]
struct Ends {
    first: bool,
    last: bool,
}

impl<R: Rows> Part<'_, R> {
    /// A section of the panels from one on.
    fn ahead(&self, section: &Section, panel: usize) -> Ahead {
        Ahead {
            panel,
            offset: section.first(self.whole.a.depth()) * WIDTH,
            lines: section.lines(),
        }
    }

    /// Adds one section of the sum to all tiles of the part; `next` is what comes after it.
    #[inline(always)]
    fn section<S: Simd>(
        &self,
        simd: S,
        section: &Section,
        ends: Ends,
        next: Option<Ahead>,
        table: &mut [RowPointers; MAX_TAPS],
    ) {
        let panel_bytes = section.lines().max(1) * WIDTH * size_of::<f32>();
        let apart = self.whole.product.panels.depth() * WIDTH * size_of::<f32>();
        let most = match apart.is_multiple_of(WAY_BYTES) {
            true => ALIKE_PANELS,
            false => usize::MAX,
        };
        let fitting = (GROUP_BYTES / panel_bytes).min(most).max(S::TILE_PANELS);
        let group = fitting - fitting % S::TILE_PANELS;
        let mut copies = self.copies(section, table);
        let most = match copies {
            Some(_) => Copies::TILES,
            None => usize::MAX,
        };
        let mut first = self.tile.start;
        while first < self.tile.end {
            let tiles = first..self.tile.end.min(first.saturating_add(most));
            if let Some(copies) = &mut copies {
                self.copy(section, tiles.clone(), table, copies);
            }
            let mut start = self.panel.start;
            while start < self.panel.end {
                let panels = start..(start + group).min(self.panel.end);
                let ahead = match (panels.end < self.panel.end, tiles.end < self.tile.end) {
                    (true, _) => Some(self.ahead(section, panels.end)),
                    (false, true) => Some(self.ahead(section, self.panel.start)),
                    (false, false) => next,
                };
                for tile in tiles.clone() {
                    if (tile - first).is_multiple_of(STOP_TILES) {
                        stop::checkpoint();
                    }
                    let table = &mut table[..section.taps.len()];
                    match &copies {
                        Some(copies) => copies.point(tile - first, &mut table[0]),
                        None => self.point(section, tile, table),
                    }
                    let (rows, share) = (self.rows(tile), [tile - first, tiles.len()]);
                    let part = (rows.clone(), panels.clone());
                    self.row_of_tiles::<S>(section, part, (share, ahead), ends, table);
                    if let (true, Some(curve)) = (ends.last, self.whole.product.curve) {
                        self.bend(simd, curve, rows, panels.clone());
                    }
                }
                start = panels.end;
            }
            first = tiles.end;
        }
    }

    /// The rows of a tile.
    fn rows(&self, tile: usize) -> Range<usize> {
        share(self.tiles.rows, self.tiles.count, tile)
    }

    /// Points at a section of the rows of a tile.
    #[inline(always)]
    fn point(&self, section: &Section, tile: usize, table: &mut [RowPointers]) {
        let (taps, depth) = (section.taps.clone(), section.depth.clone());
        self.whole.a.point(self.rows(tile), taps, depth, table);
    }

    /// Room for copies, where the rows of a section push each other out of the cache and pass often
    /// enough.
    fn copies(&self, section: &Section, table: &mut [RowPointers]) -> Option<Copies> {
        let rows = self.rows(self.tile.start).len();
        let often = self.panel.len() >= OFTEN;
        if !often || section.taps.len() != 1 || section.depth.len() > Copies::DEPTH {
            return None;
        }
        self.point(section, self.tile.start, &mut table[..1]);
        places_come_again(&table[0][..rows]).then(Copies::lend)
    }

    /// Copies a section of the rows of tiles.
    fn copy(
        &self,
        section: &Section,
        tiles: Range<usize>,
        table: &mut [RowPointers],
        copies: &mut Copies,
    ) {
        let depth = section.depth.len();
        for (place, tile) in tiles.enumerate() {
            self.point(section, tile, &mut table[..1]);
            let rows = table[0].iter().take(self.rows(tile).len());
            for (&row, to) in rows.zip(copies.rows(place)) {
                // SAFETY: `point` made the row valid for the section.
                let row = unsafe { std::slice::from_raw_parts(row, depth) };
                to[..depth].copy_from_slice(row);
            }
        }
    }

    /// Applies the curve to rows of the output just written.
    #[inline(always)]
    fn bend<S: Simd>(&self, simd: S, curve: Curve, rows: Range<usize>, panels: Range<usize>) {
        let columns =
            panels.start * WIDTH..(panels.end * WIDTH).min(self.whole.product.panels.columns());
        for row in rows {
            // SAFETY: these columns of this row are this part's own, and inside the output.
            let numbers = unsafe {
                let start = self
                    .whole
                    .output
                    .add(row * self.whole.stride + columns.start);
                std::slice::from_raw_parts_mut(start, columns.len())
            };
            curve_in_place(simd, curve, numbers);
        }
    }

    /// Computes one tile in each of `panels`, and fetches its share of what comes next.
    #[inline(always)]
    fn row_of_tiles<S: Simd>(
        &self,
        section: &Section,
        (rows, panels): (Range<usize>, Range<usize>),
        ([index, tiles], ahead): ([usize; 2], Option<Ahead>),
        ends: Ends,
        table: &[RowPointers],
    ) {
        let Whole {
            a,
            product,
            output,
            stride,
            ..
        } = *self.whole;
        let all = &product.panels;
        let panel_stride = all.depth() * WIDTH;
        let offset = section.first(a.depth()) * WIDTH;
        let mut panel = panels.start;
        while panel < panels.end {
            let count = (panels.end - panel).min(S::TILE_PANELS);
            let column = panel * WIDTH;
            let at = rows.start * stride + column;
            let numbers = all.numbers().as_ptr();
            // What comes next comes into the cache while this group's panels are used, each tile
            // fetching its share.
            let within = panel - panels.start;
            let next = ahead.filter(|ahead| ahead.panel + within < all.count());
            let (ahead, ahead_lines) = next.map_or((std::ptr::null(), 0), |next| {
                let share = |index: usize| index * next.lines / tiles;
                let first = (next.panel + within) * panel_stride + next.offset;
                let from = numbers.wrapping_add(first + share(index) * WIDTH);
                (from, share(index + 1) - share(index))
            });
            let tile = Tile {
                rows: table,
                depth: section.depth.len(),
                panel: numbers.wrapping_add(panel * panel_stride + offset),
                panel_stride,
                output: output.wrapping_add(at),
                output_stride: stride,
                columns: (count * WIDTH).min(all.columns() - column),
                bias: product
                    .bias
                    .map_or(std::ptr::null(), |bias| bias[column..].as_ptr()),
                addend: product
                    .addend
                    .map_or(std::ptr::null(), |addend| addend[at..].as_ptr()),
                addend_stride: stride,
                scale: product.scale,
                low: product.limits[0],
                high: product.limits[1],
                first: ends.first,
                last: ends.last,
                stream: self.whole.stream && ends.first && ends.last,
                ahead,
                ahead_stride: panel_stride,
                ahead_lines,
            };
            // SAFETY: the CPU has the instructions of `S`, whose code this is. `point` made the
            // rows valid for the section; `Panels` holds `depth` rows in each panel; `multiply`
            // checked that output, bias and addend reach the last row and column; the output is
            // borrowed mutably for the whole product and tiles do not overlap.
            unsafe { S::tile(rows.len(), count)(&tile) };
            panel += count;
        }
    }
}
