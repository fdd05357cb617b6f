//! How closely two arrays agree (facts 6.8).

use super::fields;
use crate::Findings;
use crate::yaml::Node;

/// What is asked of every pair of elements, or of most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonKind {
    /// Equal.
    Exact,
    /// Close.
    AllClose,
    /// Close, and correlated.
    AllCloseHw,
}

/// What is looked at together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The elements in the order of the array.
    Flat,
    /// Tile by tile.
    Tiles,
}

/// How two arrays are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What is asked.
    pub kind: ComparisonKind,
    /// What is looked at together.
    pub method: Method,
    /// Largest absolute difference.
    pub atol: f64,
    /// Largest difference relative to the larger of two.
    pub rtol: f64,
    /// Part of the elements that must be close.
    pub check_pct: f64,
    /// Least correlation.
    pub check_pcc: f64,
    /// First and last row of each tile that are looked at, from 1.
    pub tile_rows: Option<[u32; 2]>,
    /// First and last column of each tile that are looked at, from 1.
    pub tile_columns: Option<[u32; 2]>,
}

impl Default for Comparison {
    /// What stands for a netlist without a block of its own.
    fn default() -> Self {
        Self {
            kind: ComparisonKind::AllCloseHw,
            atol: 0.01,
            rtol: 0.15,
            ..Self::of_block()
        }
    }
}

/// How an array agrees with the one it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonResult {
    /// Whether the comparison is passed.
    pub passed: bool,
    /// The least part of close elements in a group.
    pub close: f64,
    /// The least correlation of a group; 1 where none is asked for.
    pub correlation: f64,
    /// The largest absolute difference.
    pub largest: f64,
    /// The first element that is not close.
    pub first: Option<usize>,
}

/// Elements that AllCloseHw looks at together, and parts that AllClose cuts an array into.
const GROUP: usize = 1024;
const CHUNKS: usize = 8;

impl Comparison {
    /// What a block leaves out.
    fn of_block() -> Self {
        Self {
            kind: ComparisonKind::AllCloseHw,
            method: Method::Flat,
            atol: 1e-3,
            rtol: 1e-4,
            check_pct: 1.0,
            check_pcc: 0.999,
            tile_rows: None,
            tile_columns: None,
        }
    }

    pub(super) fn read(node: &Node, findings: &mut Findings) -> Self {
        let mut comparison = Self::of_block();
        for (key, node) in fields::entries(node) {
            let text = node.text().unwrap_or_default().to_ascii_lowercase();
            match key {
                "type" => match text.as_str() {
                    "exact" => comparison.kind = ComparisonKind::Exact,
                    "allclose" => comparison.kind = ComparisonKind::AllClose,
                    "allclosehw" => comparison.kind = ComparisonKind::AllCloseHw,
                    _ => fields::wrong(node, "Exact, AllClose or AllCloseHw", findings),
                },
                "method" => match text.as_str() {
                    "flattensor" => comparison.method = Method::Flat,
                    "tilizedtensor" => comparison.method = Method::Tiles,
                    _ => fields::wrong(node, "FlatTensor or TilizedTensor", findings),
                },
                "verbosity" => match text.as_str() {
                    // A verbose comparison is decided tile by tile.
                    "verbose" => comparison.method = Method::Tiles,
                    "concise" | "allfails" => {}
                    _ => fields::wrong(node, "Concise, AllFails or Verbose", findings),
                },
                "atol" => set(&mut comparison.atol, node, findings),
                "rtol" => set(&mut comparison.rtol, node, findings),
                "check_pct" => set(&mut comparison.check_pct, node, findings),
                "check_pcc" => set(&mut comparison.check_pcc, node, findings),
                "check_tile_rows_range" => comparison.tile_rows = fields::range(node, findings),
                "check_tile_cols_range" => comparison.tile_columns = fields::range(node, findings),
                "lhs_header" | "rhs_header" | "overrides" => {}
                _ => fields::unknown(key, node, findings),
            }
        }
        comparison
    }

    /// Compares entries of `columns` elements a row and tiles of `tile` rows and columns.
    ///
    /// The whole inclusive range of rows and columns of a tile is compared; the original leaves
    /// out the last of each.
    ///
    /// # Panics
    /// Panics if the arrays differ in length.
    pub fn compare(
        &self,
        expected: &[f32],
        found: &[f32],
        columns: usize,
        tile: [usize; 2],
    ) -> ComparisonResult {
        assert_eq!(expected.len(), found.len(), "arrays of one shape");
        let pairs = |indices: &mut dyn Iterator<Item = usize>| -> Vec<(f32, f32)> {
            indices
                .map(|index| (expected[index], found[index]))
                .collect()
        };
        let mut agreement = ComparisonResult {
            passed: true,
            close: 1.0,
            correlation: 1.0,
            largest: 0.0,
            first: None,
        };
        for index in 0..expected.len() {
            let (a, b) = (expected[index], found[index]);
            let looked_at = self.looks_at(index, columns, tile);
            let difference = (f64::from(a) - f64::from(b)).abs();
            if looked_at && difference > agreement.largest {
                agreement.largest = difference;
            }
            if looked_at && agreement.first.is_none() && !self.is_close(a, b) {
                agreement.first = Some(index);
            }
        }
        match (self.kind, self.method) {
            (ComparisonKind::Exact, _) => agreement.passed = agreement.first.is_none(),
            (_, Method::Tiles) => {
                let [height, width] = tile.map(|size| size.max(1));
                let (rows, across) = (expected.len() / columns.max(1), columns / width);
                for number in 0..rows / height * across {
                    let (top, left) = (number / across * height, number % across * width);
                    let mut indices = (0..height * width)
                        .map(|at| (top + at / width) * columns + left + at % width)
                        .filter(|&index| self.looks_at(index, columns, tile));
                    self.group(&pairs(&mut indices), &mut agreement);
                }
            }
            (kind, Method::Flat) => {
                let size = match kind {
                    ComparisonKind::AllClose => expected.len().div_ceil(CHUNKS),
                    _ => GROUP,
                };
                for start in (0..expected.len()).step_by(size.max(1)) {
                    let mut indices = (start..expected.len().min(start + size))
                        .filter(|&index| self.looks_at(index, columns, tile));
                    self.group(&pairs(&mut indices), &mut agreement);
                }
            }
        }
        agreement
    }

    fn looks_at(&self, index: usize, columns: usize, [height, width]: [usize; 2]) -> bool {
        let inside = |range: Option<[u32; 2]>, place: usize| {
            range
                .is_none_or(|[first, last]| (first as usize..=last as usize).contains(&(place + 1)))
        };
        let (row, column) = (index / columns.max(1), index % columns.max(1));
        inside(self.tile_rows, row % height.max(1))
            && inside(self.tile_columns, column % width.max(1))
    }

    /// Takes one group into account.
    fn group(&self, pairs: &[(f32, f32)], agreement: &mut ComparisonResult) {
        if pairs.is_empty() {
            return;
        }
        let close = pairs.iter().filter(|(a, b)| self.is_close(*a, *b)).count();
        let close = close as f64 / pairs.len() as f64;
        agreement.close = agreement.close.min(close);
        agreement.passed &= close >= self.check_pct;
        if self.kind == ComparisonKind::AllCloseHw && self.check_pcc > 0.0 {
            let correlation = self.correlation(pairs);
            agreement.correlation = agreement.correlation.min(correlation);
            // Rounding may take a correlation a little beyond 1, nothing else may.
            agreement.passed &= (self.check_pcc..=1.000_000_1).contains(&correlation);
        }
    }

    /// Whether two elements are close.
    pub fn is_close(&self, a: f32, b: f32) -> bool {
        if self.kind == ComparisonKind::Exact {
            return a == b || (a.is_nan() && b.is_nan());
        }
        if a.is_nan() || b.is_nan() {
            return a.is_nan() && b.is_nan();
        }
        if a.is_infinite() || b.is_infinite() {
            // A number with the largest exponent stands for infinity.
            let huge = |x: f32| x.is_infinite() || (x.to_bits() >> 23) & 0xff > 126 + 127;
            return huge(a) && huge(b) && a.is_sign_negative() == b.is_sign_negative();
        }
        let (a, b) = (f64::from(a), f64::from(b));
        (a - b).abs() <= self.atol + self.rtol * a.abs().max(b.abs())
    }

    /// The correlation of Pearson, as hardware results are held against it: NaN counts as 0,
    /// infinity as the largest number; two constants correlate when their means are close.
    fn correlation(&self, pairs: &[(f32, f32)]) -> f64 {
        let number = |x: f32| match x {
            _ if x.is_nan() => 0.0,
            _ => f64::from(x.clamp(f32::MIN, f32::MAX)),
        };
        let pairs: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (number(a), number(b))).collect();
        let n = pairs.len() as f64;
        let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / n;
        let (mean_a, mean_b) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let (mut cross, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
        for (a, b) in &pairs {
            let (a, b) = (a - mean_a, b - mean_b);
            cross += a * b;
            square_a += a * a;
            square_b += b * b;
        }
        let near =
            (mean_a - mean_b).abs() <= self.atol + self.rtol * mean_a.abs().max(mean_b.abs());
        // Deviations that are rounding, not data, count as none.
        let flat = |square: f64, mean: f64| (square / n).sqrt() <= 1e-6 * mean.abs();
        if near && flat(square_a, mean_a) && flat(square_b, mean_b) {
            return 1.0;
        }
        let deviation = |square: f64| match (square / n).sqrt() {
            0.0 => 1e-5,
            deviation => deviation,
        };
        let scale = n * deviation(square_a) * deviation(square_b);
        cross / scale
    }
}

fn set(value: &mut f64, node: &Node, findings: &mut Findings) {
    if let Some(number) = fields::number(node, findings) {
        *value = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(comparison: &Comparison, a: &[f32], b: &[f32]) -> ComparisonResult {
        comparison.compare(a, b, a.len(), [1, a.len()])
    }

    #[test]
    fn close_is_relative_to_the_larger() {
        let comparison = Comparison {
            rtol: 0.1,
            atol: 0.0,
            ..Comparison::default()
        };
        assert!(comparison.is_close(100.0, 91.0));
        assert!(!comparison.is_close(100.0, 89.0));
        assert!(comparison.is_close(f32::NAN, f32::NAN));
        assert!(comparison.is_close(f32::INFINITY, 3e38));
        assert!(!comparison.is_close(f32::INFINITY, f32::NEG_INFINITY));
    }

    /// numpy.corrcoef([1, 2, 3, 4], [2, 1, 4, 3])[0, 1] is 0.6.
    #[test]
    fn correlation_is_that_of_numpy() {
        let comparison = Comparison {
            check_pct: 0.0,
            check_pcc: 0.5,
            ..Comparison::default()
        };
        let agreement = compare(&comparison, &[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]);
        assert!((agreement.correlation - 0.6).abs() < 1e-12, "{agreement:?}");
        assert!(agreement.passed);
        let strict = Comparison {
            check_pcc: 0.7,
            ..comparison
        };
        assert!(!compare(&strict, &[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]).passed);
    }

    #[test]
    fn a_part_may_be_off_where_the_file_allows_it() {
        let mut found = vec![1.0f32; 100];
        found[7] = 9.0;
        let expected = vec![1.0f32; 100];
        let comparison = Comparison {
            check_pct: 0.9,
            check_pcc: 0.0,
            ..Comparison::default()
        };
        let agreement = compare(&comparison, &expected, &found);
        assert!(agreement.passed);
        assert_eq!((agreement.first, agreement.largest), (Some(7), 8.0));
        let exact = Comparison {
            kind: ComparisonKind::Exact,
            ..comparison
        };
        assert!(!compare(&exact, &expected, &found).passed);
    }

    #[test]
    fn only_the_rows_of_a_range_count() {
        let comparison = Comparison {
            tile_rows: Some([1, 1]),
            ..Comparison::default()
        };
        let expected = [1.0, 2.0, 3.0, 4.0];
        let found = [1.0, 2.0, 30.0, 40.0];
        assert!(comparison.compare(&expected, &found, 2, [2, 2]).passed);
        assert!(
            !Comparison::default()
                .compare(&expected, &found, 2, [2, 2])
                .passed
        );
    }
}
