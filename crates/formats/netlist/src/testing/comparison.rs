//! Comparison of arrays (netlist 6.8).

use super::fields;
use crate::Findings;
use crate::yaml::Node;

/// The criterion of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonKind {
    /// All elements are equal.
    Exact,
    /// The elements are close.
    AllClose,
    /// The elements are close, and the arrays correlate.
    AllCloseHw,
}

/// The grouping of elements for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Groups of consecutive elements of the array.
    Flat,
    /// One group per tile.
    Tiles,
}

/// The parameters of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The criterion.
    pub kind: ComparisonKind,
    /// The grouping of elements.
    pub method: Method,
    /// Absolute tolerance.
    pub atol: f64,
    /// Tolerance relative to the larger magnitude.
    pub rtol: f64,
    /// Minimal fraction of close elements.
    pub check_pct: f64,
    /// Minimal Pearson correlation coefficient.
    pub check_pcc: f64,
    /// First and last row of each tile that are compared, from 1.
    pub tile_rows: Option<[u32; 2]>,
    /// First and last column of each tile that are compared, from 1.
    pub tile_columns: Option<[u32; 2]>,
}

impl Default for Comparison {
    /// The comparison for netlists without a comparison-config.
    fn default() -> Self {
        Self {
            kind: ComparisonKind::AllCloseHw,
            atol: 0.01,
            rtol: 0.15,
            ..Self::block_defaults()
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonResult {
    /// Whether the comparison passed.
    pub passed: bool,
    /// The minimal fraction of close elements of a group.
    pub close: f64,
    /// The minimal correlation of a group; 1 without a correlation check.
    pub correlation: f64,
    /// The maximal absolute difference.
    pub largest: f64,
    /// The first element that is not close.
    pub first: Option<usize>,
}

/// Elements per group of AllCloseHw.
const GROUP: usize = 1024;
/// Number of groups of AllClose.
const CHUNKS: usize = 8;

impl Comparison {
    /// The defaults of the keys of a comparison-config.
    fn block_defaults() -> Self {
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
        let mut comparison = Self::block_defaults();
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
                    // A verbose comparison is per tile.
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
    /// The ranges of rows and columns of a tile are inclusive; the original omits the last of each.
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
        let mut result = ComparisonResult {
            passed: true,
            close: 1.0,
            correlation: 1.0,
            largest: 0.0,
            first: None,
        };
        for index in 0..expected.len() {
            let (a, b) = (expected[index], found[index]);
            let compared = self.is_compared(index, columns, tile);
            let difference = (f64::from(a) - f64::from(b)).abs();
            if compared && difference > result.largest {
                result.largest = difference;
            }
            if compared && result.first.is_none() && !self.is_close(a, b) {
                result.first = Some(index);
            }
        }
        match (self.kind, self.method) {
            (ComparisonKind::Exact, _) => result.passed = result.first.is_none(),
            (_, Method::Tiles) => {
                let [height, width] = tile.map(|size| size.max(1));
                let (rows, across) = (expected.len() / columns.max(1), columns / width);
                for number in 0..rows / height * across {
                    let (top, left) = (number / across * height, number % across * width);
                    let mut indices = (0..height * width)
                        .map(|at| (top + at / width) * columns + left + at % width)
                        .filter(|&index| self.is_compared(index, columns, tile));
                    self.group(&pairs(&mut indices), &mut result);
                }
            }
            (kind, Method::Flat) => {
                let size = match kind {
                    ComparisonKind::AllClose => expected.len().div_ceil(CHUNKS),
                    _ => GROUP,
                };
                for start in (0..expected.len()).step_by(size.max(1)) {
                    let mut indices = (start..expected.len().min(start + size))
                        .filter(|&index| self.is_compared(index, columns, tile));
                    self.group(&pairs(&mut indices), &mut result);
                }
            }
        }
        result
    }

    fn is_compared(&self, index: usize, columns: usize, [height, width]: [usize; 2]) -> bool {
        let inside = |range: Option<[u32; 2]>, index: usize| {
            range
                .is_none_or(|[first, last]| (first as usize..=last as usize).contains(&(index + 1)))
        };
        let (row, column) = (index / columns.max(1), index % columns.max(1));
        inside(self.tile_rows, row % height.max(1))
            && inside(self.tile_columns, column % width.max(1))
    }

    /// Accounts for one group.
    fn group(&self, pairs: &[(f32, f32)], result: &mut ComparisonResult) {
        if pairs.is_empty() {
            return;
        }
        let close = pairs.iter().filter(|(a, b)| self.is_close(*a, *b)).count();
        let close = close as f64 / pairs.len() as f64;
        result.close = result.close.min(close);
        result.passed &= close >= self.check_pct;
        if self.kind == ComparisonKind::AllCloseHw && self.check_pcc > 0.0 {
            let correlation = self.correlation(pairs);
            result.correlation = result.correlation.min(correlation);
            // Rounding errors may exceed 1 slightly.
            result.passed &= (self.check_pcc..=1.000_000_1).contains(&correlation);
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
            // A value of the largest exponent is equivalent to infinity.
            let huge = |x: f32| x.is_infinite() || (x.to_bits() >> 23) & 0xff > 126 + 127;
            return huge(a) && huge(b) && a.is_sign_negative() == b.is_sign_negative();
        }
        let (a, b) = (f64::from(a), f64::from(b));
        (a - b).abs() <= self.atol + self.rtol * a.abs().max(b.abs())
    }

    /// The Pearson correlation coefficient with the conventions for hardware results: NaN is 0,
    /// infinity the largest finite value; two constant arrays correlate if their means are close.
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
        // Deviations within rounding errors are zero.
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
    fn the_relative_tolerance_is_of_the_larger_magnitude() {
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
    fn the_correlation_is_that_of_numpy() {
        let comparison = Comparison {
            check_pct: 0.0,
            check_pcc: 0.5,
            ..Comparison::default()
        };
        let result = compare(&comparison, &[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]);
        assert!((result.correlation - 0.6).abs() < 1e-12, "{result:?}");
        assert!(result.passed);
        let strict = Comparison {
            check_pcc: 0.7,
            ..comparison
        };
        assert!(!compare(&strict, &[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0]).passed);
    }

    #[test]
    fn check_pct_permits_a_fraction_of_differences() {
        let mut found = vec![1.0f32; 100];
        found[7] = 9.0;
        let expected = vec![1.0f32; 100];
        let comparison = Comparison {
            check_pct: 0.9,
            check_pcc: 0.0,
            ..Comparison::default()
        };
        let result = compare(&comparison, &expected, &found);
        assert!(result.passed);
        assert_eq!((result.first, result.largest), (Some(7), 8.0));
        let exact = Comparison {
            kind: ComparisonKind::Exact,
            ..comparison
        };
        assert!(!compare(&exact, &expected, &found).passed);
    }

    #[test]
    fn only_the_rows_of_the_range_are_compared() {
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
