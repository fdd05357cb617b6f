//! Shapes in tiles, and the shape inference of TMs (netlist 4.1).

use crate::netlist::{Blocking, Input, Tm};
use crate::source::Span;
use crate::{Finding, Rule};
use std::fmt;

/// A shape: slices, rows and columns of tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileShape {
    /// Number of slices.
    pub t: u64,
    /// Number of rows of tiles.
    pub rows: u64,
    /// Number of columns of tiles.
    pub columns: u64,
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}]", self.t, self.rows, self.columns)
    }
}

impl TileShape {
    /// The shape of a blocking.
    pub fn of(blocking: &Blocking) -> Self {
        Self {
            t: u64::from(blocking.t.value),
            rows: blocking.rows(),
            columns: blocking.columns(),
        }
    }

    /// The shape after the unpad, TMs and pad of an input, in that order (netlist 3.8).
    pub fn after_input(self, input: &Input) -> Result<Self, Finding> {
        let mut shape = self;
        if let Some(unpad) = &input.unpad {
            let [rows, columns] = unpad.value.map(u64::from);
            if rows >= shape.rows || columns >= shape.columns {
                let finding =
                    Finding::new(Rule::TmShape, unpad.span, "the unpad removes all tiles");
                let expected = format!("fewer rows and columns than {shape}");
                return Err(finding
                    .expected(expected)
                    .found(format!("{rows} and {columns}")));
            }
            shape.rows -= rows;
            shape.columns -= columns;
        }
        for tm in &input.tms {
            shape = shape.after_tm(tm.value, tm.span)?;
        }
        if let Some(pad) = input.pad {
            shape.rows = shape.rows.saturating_add(pad.value.rows.into());
            shape.columns = shape.columns.saturating_add(pad.value.columns.into());
        }
        Ok(shape)
    }

    /// The shape after one TM.
    pub fn after_tm(self, tm: Tm, span: Span) -> Result<Self, Finding> {
        let Self { t, rows, columns } = self;
        let divide = |size: u64, parts: u64, what: &str| match size % parts {
            0 => Ok(size / parts),
            _ => {
                let message = format!("{what} of {self} are not divisible by {parts}");
                Err(Finding::new(Rule::TmShape, span, message)
                    .expected(format!("a divisor of {size}"))
                    .found(parts))
            }
        };
        // A stack of 0 takes all slices (netlist 4.1).
        let all = |parts: u32| match parts {
            0 => t,
            _ => u64::from(parts),
        };
        let times = |size: u64, times: u32| size.saturating_mul(times.into());
        Ok(match tm {
            Tm::BroadcastRows(n) => Self {
                rows: times(rows, n),
                ..self
            },
            Tm::BroadcastColumns(n) => Self {
                columns: times(columns, n),
                ..self
            },
            Tm::BroadcastSlices(n) => Self {
                t: times(t, n),
                ..self
            },
            Tm::Transpose => Self {
                t,
                rows: columns,
                columns: rows,
            },
            Tm::Hslice(n) => Self {
                t: times(t, n),
                rows,
                columns: divide(columns, n.into(), "columns")?,
            },
            Tm::Vslice(n) => Self {
                t: times(t, n),
                rows: divide(rows, n.into(), "rows")?,
                columns,
            },
            Tm::Hstack(n) => Self {
                t: divide(t, all(n), "slices")?,
                rows,
                columns: columns.saturating_mul(all(n)),
            },
            Tm::Vstack(n) => Self {
                t: divide(t, all(n), "slices")?,
                rows: rows.saturating_mul(all(n)),
                columns,
            },
            Tm::Pad(pad) => Self {
                t,
                rows: rows.saturating_add(pad.rows.into()),
                columns: columns.saturating_add(pad.columns.into()),
            },
            Tm::TileBroadcast(_) => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(shape: [u64; 3], tms: &[Tm]) -> TileShape {
        let [t, rows, columns] = shape;
        tms.iter()
            .fold(TileShape { t, rows, columns }, |shape, &tm| {
                shape.after_tm(tm, Span::default()).unwrap()
            })
    }

    #[test]
    fn shapes_after_tms_are_the_published_ones() {
        let shape = |t, rows, columns| TileShape { t, rows, columns };
        assert_eq!(after([2, 4, 6], &[Tm::Hslice(3)]), shape(6, 4, 2));
        assert_eq!(
            after([2, 4, 6], &[Tm::Hslice(3), Tm::Vstack(6)]),
            shape(1, 24, 2)
        );
        assert_eq!(after([12, 4, 2], &[Tm::Hstack(12)]), shape(1, 4, 24));
        assert_eq!(
            after([1, 8, 24], &[Tm::Hslice(12), Tm::Transpose]),
            shape(12, 2, 8)
        );
    }

    #[test]
    fn a_tm_that_does_not_divide_is_a_finding() {
        let shape = TileShape {
            t: 1,
            rows: 4,
            columns: 6,
        };
        let finding = shape.after_tm(Tm::Hslice(4), Span::default()).unwrap_err();
        assert_eq!(
            finding.sentence(),
            "columns of [1, 4, 6] are not divisible by 4: expected a divisor of 6, found 4"
        );
    }
}
