//! Embedding: gathers rows of a table (netlist 3.5).

use super::sparse::words;
use crate::error::failed;
use crate::tensor::Tensor;
use tenon_base::{Count, Result};

/// The index of a row of zeros.
const NONE: u32 = u32::MAX;

/// The rows of `table` at the first `count` indices of each of `grid` parts of `indices`.
pub fn embedding(table: &Tensor, indices: &Tensor, count: usize, grid: usize) -> Result<Tensor> {
    if !count.is_multiple_of(crate::TILE) || !indices.rows.is_multiple_of(grid) {
        let text =
            "num_indices must be a multiple of 32, and the rows of cores must divide the indices";
        return Err(failed(text).found(format!("num_indices {count}, {}", Count(grid, "row"))));
    }
    let mut output = Tensor::zeros(1, grid * count / crate::TILE, table.columns)?;
    for part in 0..grid {
        let words = words(&indices.core_part([part, 0], [grid, 1])?)?;
        for (row, &index) in words.iter().take(count).enumerate() {
            if index == NONE {
                continue;
            }
            let index = index as usize;
            if index >= table.height() {
                return Err(failed(format!(
                    "index {index} in a table of {} rows",
                    table.height()
                )));
            }
            output
                .row_mut(0, part * count + row)
                .copy_from_slice(table.row(0, index));
        }
    }
    Ok(output)
}
