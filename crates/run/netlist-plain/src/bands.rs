//! Data parallelism over the rows of an output: every op is a loop over independent rows.

use crate::tensor::{TILE, Tensor};
use std::num::NonZeroUsize;
use std::thread;

/// Minimal number of additions per thread, which amortises its start.
const MIN_STEPS: usize = 1 << 18;

/// Calls `fill` with disjoint bands that cover the rows of `output`, and the index of their first row
/// over all slices. A band is a number of rows of tiles. `steps` is the cost per element in additions;
/// large outputs have one band per thread.
pub(crate) fn in_bands(output: &mut Tensor, steps: usize, fill: impl Fn(usize, &mut [f32]) + Sync) {
    let line = TILE * output.width().max(1);
    let tile_rows = output.values.len() / line;
    let useful = output.values.len().saturating_mul(steps) / MIN_STEPS;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let count = threads.min(useful).min(tile_rows);
    if count <= 1 {
        return fill(0, &mut output.values);
    }
    let band = tile_rows.div_ceil(count);
    thread::scope(|scope| {
        for (index, rows) in output.values.chunks_mut(band * line).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(index * band * TILE, rows));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_filled_once() {
        for steps in [1, 1 << 20] {
            let mut tensor = Tensor::zeros(2, 3, 1).unwrap();
            in_bands(&mut tensor, steps, |first, rows| {
                for (index, row) in rows.chunks_exact_mut(TILE).enumerate() {
                    row.iter_mut()
                        .for_each(|value| *value += (first + index) as f32);
                }
            });
            let is_filled =
                |(index, row): (usize, &[f32])| row.iter().all(|value| *value == index as f32);
            assert!(tensor.values.chunks_exact(TILE).enumerate().all(is_filled));
        }
    }
}
