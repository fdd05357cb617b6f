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
    for class in 0..batches * classes {
        let batch = class / classes;
        if class % classes == 0 {
            let boxes = coordinates[4 * batch * count..].chunks_exact(4).take(count);
            corners = boxes
                .map(|coordinates| Corners::new(coordinates, center))
                .collect();
        }
        let score = |at: usize| scores[class * count + at];
        let mut order: Vec<usize> = (0..count).filter(|&at| score(at) >= threshold).collect();
        // Stable: of equal scores the first box precedes.
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let mut kept: Vec<usize> = Vec::new();
        let mut kept_corners: Vec<Corners> = Vec::new();
        for at in order {
            if kept.len() as f64 >= max_boxes {
                break;
            }
            let own = corners[at];
            if kept_corners
                .iter()
                .all(|&other| own.overlap(other) <= limit)
            {
                kept.push(at);
                kept_corners.push(own);
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
