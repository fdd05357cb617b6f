//! Greedy non-maximum suppression of boxes.

use crate::Inference;
use crate::ops::shapes::{choice_of, expect_shape, invalid, rank};
use tenon_base::Result;

/// A box: its lower and its upper corner.
#[derive(Debug, Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
    area: f64,
}

impl Corners {
    /// From the center and the extents (`center`), or from any two opposite corners.
    fn new(coordinates: &[f64], center: bool) -> Self {
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| coordinates[at]);
        let (low, high) = if center {
            ([a - c / 2.0, b - d / 2.0], [a + c / 2.0, b + d / 2.0])
        } else {
            ([a.min(c), b.min(d)], [a.max(c), b.max(d)])
        };
        let area = (high[0] - low[0]) * (high[1] - low[1]);
        Self { low, high, area }
    }

    /// Intersection over union, rounded to the type of boxes and threshold.
    fn overlap(self, other: Self) -> f32 {
        let side = |at: usize| {
            let low = self.low[at].max(other.low[at]);
            (self.high[at].min(other.high[at]) - low).max(0.0)
        };
        let both = side(0) * side(1);
        let union = self.area + other.area - both;
        if both > 0.0 && union > 0.0 {
            (both / union) as f32
        } else {
            0.0
        }
    }
}

/// Kept boxes by their lower corner along one dimension, in buckets as wide as the widest box: a box overlaps only with
/// those of its bucket and of the two beside it. Detectors shift the boxes of each class apart.
struct KeptBoxes {
    dimension: usize,
    first: f64,
    /// Buckets per unit of length; 0 for a single bucket.
    scale: f64,
    buckets: Vec<Vec<Corners>>,
}

impl KeptBoxes {
    /// The most buckets.
    const MOST: f64 = 4096.0;

    /// Buckets for these boxes, along the dimension that gives more. Boxes that are not finite share a bucket.
    fn new(boxes: &[Corners]) -> Self {
        let along = |dimension: usize| {
            let lowest = |least: f64, it: &Corners| least.min(it.low[dimension]);
            let highest = |most: f64, it: &Corners| most.max(it.low[dimension]);
            let widest = |most: f64, it: &Corners| most.max(it.high[dimension] - it.low[dimension]);
            let first = boxes.iter().fold(f64::INFINITY, lowest);
            let span = boxes.iter().fold(f64::NEG_INFINITY, highest) - first;
            // Wider by a thousandth, so that rounding moves no box beyond the bucket beside its own.
            let width = boxes.iter().fold(span / Self::MOST, widest) * 1.001;
            (dimension, first, width, span / width)
        };
        let is_finite = |it: &Corners| (it.low.iter().chain(&it.high)).all(|side| side.is_finite());
        let [a, b] = [along(0), along(1)];
        let (dimension, first, width, ratio) = if b.3 > a.3 { b } else { a };
        let is_divided = ratio.is_finite() && width > 0.0;
        if !is_divided || !boxes.iter().all(is_finite) {
            return Self {
                dimension: 0,
                first: 0.0,
                scale: 0.0,
                buckets: vec![Vec::new()],
            };
        }
        Self {
            dimension,
            first,
            scale: 1.0 / width,
            buckets: vec![Vec::new(); ratio as usize + 1],
        }
    }

    fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
    }

    fn bucket(&self, own: Corners) -> usize {
        let place = (own.low[self.dimension] - self.first) * self.scale;
        (place as usize).min(self.buckets.len() - 1)
    }

    fn keep(&mut self, own: Corners) {
        let bucket = self.bucket(own);
        self.buckets[bucket].push(own);
    }

    /// Whether this box overlaps with each kept one by at most `limit`.
    fn is_apart(&self, own: Corners, limit: f32) -> bool {
        let bucket = self.bucket(own);
        let mut near = bucket.saturating_sub(1)..(bucket + 2).min(self.buckets.len());
        if limit.is_nan() || limit < 0.0 {
            // Boxes that do not overlap are suppressed, too.
            near = 0..self.buckets.len();
        }
        let mut near = self.buckets[near].iter().flatten();
        near.all(|&other| own.overlap(other) <= limit)
    }
}

/// The rows of the output of `NonMaxSuppression`: batch, class and box. All inputs must be constant.
pub fn selected_boxes(node: &Inference<'_>) -> Result<Vec<[i64; 3]>> {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    rank(boxes, "boxes", 3..=3)?;
    rank(scores, "scores", 3..=3)?;
    let (batches, classes) = (boxes.shape()[0], scores.shape()[1]);
    let count = boxes.shape()[1];
    expect_shape(boxes, "boxes", &[batches, count, 4])?;
    expect_shape(scores, "scores", &[batches, classes, count])?;
    let center = choice_of(node, "center_point_box", 0, 0..=1)? == 1;
    let max_boxes = scalar(node, 2, "max_output_boxes_per_class")?.unwrap_or(0.0);
    let limit = scalar(node, 3, "iou_threshold")?.unwrap_or(0.0) as f32;
    let threshold = scalar(node, 4, "score_threshold")?.unwrap_or(f64::NEG_INFINITY);
    let coordinates = node.float_values(0)?.unwrap_or_default();
    let scores = node.float_values(1)?.unwrap_or_default();
    let mut rows = Vec::new();
    let mut corners: Vec<Corners> = Vec::new();
    let mut kept_boxes = KeptBoxes::new(&[]);
    for class in 0..batches * classes {
        let batch = class / classes;
        if class % classes == 0 {
            let boxes = coordinates[4 * batch * count..].chunks_exact(4).take(count);
            corners = boxes
                .map(|coordinates| Corners::new(coordinates, center))
                .collect();
            kept_boxes = KeptBoxes::new(&corners);
        }
        kept_boxes.clear();
        let score = |at: usize| scores[class * count + at];
        let mut order: Vec<usize> = (0..count).filter(|&at| score(at) >= threshold).collect();
        // Stable: of equal scores the first box precedes.
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let mut kept: Vec<usize> = Vec::new();
        for at in order {
            if kept.len() as f64 >= max_boxes {
                break;
            }
            let own = corners[at];
            if kept_boxes.is_apart(own, limit) {
                kept.push(at);
                kept_boxes.keep(own);
            }
        }
        let row = |at: usize| [batch as i64, (class % classes) as i64, at as i64];
        rows.extend(kept.into_iter().map(row));
    }
    Ok(rows)
}

fn scalar(node: &Inference<'_>, index: usize, name: &str) -> Result<Option<f64>> {
    match node.float_values(index)?.as_deref() {
        None => Ok(None),
        Some(&[value]) => Ok(Some(value)),
        Some(other) => Err(invalid(format!("input '{name}' is not a scalar"))
            .expected("one element")
            .found(other.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boxes of three classes that are shifted apart by `shift`, with sides up to `side`.
    fn boxes(shift: f64, side: f64, seed: u64) -> Vec<Corners> {
        let mut state = seed;
        let mut random = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1 << 24) as f64
        };
        let mut next = |class: usize| {
            let [x, y] = [0, 1].map(|_| 100.0 * random() + class as f64 * shift);
            let coordinates = [x, y, x + side * random(), y + side * random()];
            Corners::new(&coordinates.map(|it| f64::from(it as f32)), false)
        };
        (0..600).map(|at| next(at % 3)).collect()
    }

    #[test]
    fn boxes_of_distant_buckets_do_not_overlap() {
        let mut several = 0;
        for (shift, side) in [
            (0.0, 30.0),
            (0.0, 3.0),
            (150.0, 20.0),
            (1e6, 0.01),
            (0.0, 0.0),
        ] {
            for limit in [0.0, 0.3, -1.0, f32::NAN] {
                for extra in [None, Some(f64::NAN), Some(f64::INFINITY)] {
                    let mut all = boxes(shift, side, 7);
                    let extra = extra.map(|x| Corners::new(&[0.0, 0.0, x, 1.0], false));
                    all.extend(extra);
                    let mut kept = KeptBoxes::new(&all);
                    several += usize::from(kept.buckets.len() > 2);
                    let mut plain: Vec<Corners> = Vec::new();
                    for own in all {
                        let expected = plain.iter().all(|&it| own.overlap(it) <= limit);
                        assert_eq!(kept.is_apart(own, limit), expected, "{own:?} {limit}");
                        if expected {
                            plain.push(own);
                            kept.keep(own);
                        }
                    }
                }
            }
        }
        assert!(several > 0);
    }
}
