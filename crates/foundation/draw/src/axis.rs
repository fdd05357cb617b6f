//! Axes: the mapping from values to pixels, with ticks at round values.

use crate::{Anchor, Color, Shape};
use std::ops::RangeInclusive;

/// The side of the plot on which an axis and its tick labels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Along x, the tick labels below.
    Bottom,
    /// Along y, the tick labels on the left.
    Left,
}

/// A linear axis.
pub struct Axis {
    side: Side,
    values: RangeInclusive<f64>,
    pixels: RangeInclusive<f64>,
    position: f64,
    label: String,
    text: fn(f64) -> String,
    grid: Option<f64>,
}

impl Axis {
    /// An axis that maps the range `values` to the range `pixels` (reversed for an axis that grows
    /// upwards); the axis line is at the pixel `position` of the other direction.
    pub fn new(
        side: Side,
        values: RangeInclusive<f64>,
        pixels: RangeInclusive<f64>,
        position: f64,
    ) -> Self {
        Self {
            side,
            values,
            pixels,
            position,
            label: String::new(),
            text: |value| value.to_string(),
            grid: None,
        }
    }

    /// The axis title.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// The format of tick labels.
    pub fn tick_format(mut self, text: fn(f64) -> String) -> Self {
        self.text = text;
        self
    }

    /// Grid lines from the axis to `end` of the other direction.
    pub fn grid(mut self, end: f64) -> Self {
        self.grid = Some(end);
        self
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = (*self.values.start(), *self.values.end());
        let (first, last) = (*self.pixels.start(), *self.pixels.end());
        if high > low {
            first + (value - low) / (high - low) * (last - first)
        } else {
            first
        }
    }

    /// The axis line, ticks, tick labels, title and grid.
    pub fn shapes(&self) -> Vec<Shape> {
        let (first, last) = (*self.pixels.start(), *self.pixels.end());
        let mut shapes = Vec::new();
        // The space per tick label, in pixels.
        let spacing = match self.side {
            Side::Bottom => 70.0,
            Side::Left => 40.0,
        };
        let most = ((last - first).abs() / spacing).max(1.0) as usize;
        for value in ticks(*self.values.start(), *self.values.end(), most) {
            let at = self.at(value);
            if let Some(end) = self.grid {
                let line = Shape::line(self.point(at, self.position), self.point(at, end));
                shapes.push(line.stroke(Color::GRAY, 0.5));
            }
            let out = match self.side {
                Side::Bottom => self.position + 4.0,
                Side::Left => self.position - 4.0,
            };
            shapes.push(Shape::line(
                self.point(at, self.position),
                self.point(at, out),
            ));
            let text = (self.text)(value);
            shapes.push(match self.side {
                Side::Bottom => Shape::text(at, out + 12.0, text).anchor(Anchor::Middle),
                Side::Left => Shape::text(out - 3.0, at + 4.0, text).anchor(Anchor::End),
            });
        }
        shapes.push(Shape::line(
            self.point(first, self.position),
            self.point(last, self.position),
        ));
        if !self.label.is_empty() {
            let middle = (first + last) / 2.0;
            let label = self.label.as_str();
            shapes.push(match self.side {
                Side::Bottom => Shape::text(middle, self.position + 34.0, label),
                Side::Left => Shape::text(self.position - 66.0, middle, label).rotated(),
            });
            if let Some(label) = shapes.pop() {
                shapes.push(label.anchor(Anchor::Middle));
            }
        }
        shapes
    }

    fn point(&self, along: f64, across: f64) -> (f64, f64) {
        match self.side {
            Side::Bottom => (along, across),
            Side::Left => (across, along),
        }
    }
}

/// Tick positions from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, at most
/// `most + 1`. Empty for an empty or non-finite range.
pub fn ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !(span.is_finite() && span > 0.0 && low.is_finite()) || most == 0 {
        return Vec::new();
    }
    let rough = span / most as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power);
    // Ticks are multiples of the step, so that rounding errors do not accumulate; a range below the
    // resolution of binary64 has no ticks.
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    let count = last - first;
    if count.is_nan() || count > most as f64 + 1.0 {
        return Vec::new();
    }
    // Rounds to the digits of the step, so that 3 times 0.2 is 0.6.
    let scale = 10f64.powi((-power.log10().round() as i32).clamp(0, 300));
    (0..=count.max(-1.0) as i64)
        .map(|index| ((first + index as f64) * step * scale).round() / scale)
        .collect()
}
