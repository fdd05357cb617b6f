//! Rows of a table (facts 3.5).

use super::sparse::words;
use crate::tensor::Tensor;

/// An index that stands for a row of zeros.
const NONE: u32 = u32::MAX;

/// The rows of `table` that the first `count` indices of each of `grid` parts name.
pub fn embedding(
    table: &Tensor,
    indices: &Tensor,
    count: usize,
    grid: usize,
) -> Result<Tensor, String> {
    if !count.is_multiple_of(crate::TILE) || !indices.rows.is_multiple_of(grid) {
        return Err(format!("{count} indices for each of {grid} rows of cores"));
    }
    let mut output = Tensor::zeros(1, grid * count / crate::TILE, table.columns);
    for part in 0..grid {
        let words = words(&indices.part([part, 0], [grid, 1]));
        for (row, &index) in words.iter().take(count).enumerate() {
            if index == NONE {
                continue;
            }
            let index = index as usize;
            if index >= table.height() {
                return Err(format!(
                    "index {index} in a table of {} rows",
                    table.height()
                ));
            }
            output
                .row_mut(0, part * count + row)
                .copy_from_slice(table.row(0, index));
        }
    }
    Ok(output)
}
