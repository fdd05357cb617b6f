//! Rows of elements worked on by several threads: every op is a loop over the rows of its output,
//! which do not depend on each other.

use crate::tensor::{TILE, Tensor};
use std::num::NonZeroUsize;
use std::thread;

/// Steps of a loop that a thread must have to be worth its start.
const LEAST: usize = 1 << 18;

/// Calls `fill` with bands of the rows of `output`, each once, with the number of their first row
/// over all slices. A band is whole rows of tiles; `steps` says what an element costs, as a number
/// of additions. Where all are worth it, several threads each take a band.
pub(crate) fn in_bands(output: &mut Tensor, steps: usize, fill: impl Fn(usize, &mut [f32]) + Sync) {
    let line = TILE * output.width().max(1);
    let tile_rows = output.values.len() / line;
    let worth = output.values.len().saturating_mul(steps) / LEAST;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let count = threads.min(worth).min(tile_rows);
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
            let mut tensor = Tensor::zeros(2, 3, 1);
            in_bands(&mut tensor, steps, |first, rows| {
                for (index, row) in rows.chunks_exact_mut(TILE).enumerate() {
                    row.iter_mut()
                        .for_each(|value| *value += (first + index) as f32);
                }
            });
            let right =
                |(index, row): (usize, &[f32])| row.iter().all(|value| *value == index as f32);
            assert!(tensor.values.chunks_exact(TILE).enumerate().all(right));
        }
    }
}
