//! Top-k: the largest values of each row (netlist 3.6).

use crate::error::failed;
use crate::tensor::{TILE, Tensor, with_capacity};
use tenon_base::Result;

/// For each row of each of `parts` parts of the columns, the `k` largest values, or the elements of
/// `indices` at their positions; the rest of the output is 0. Equal values are in order of position:
/// the order of the sorting network of the original is not specified.
pub fn topk(
    values: &Tensor,
    indices: &Tensor,
    k: usize,
    parts: usize,
    returns_indices: bool,
) -> Result<Tensor> {
    if values.shape() != indices.shape() || !values.columns.is_multiple_of(parts) {
        return Err(failed(format!(
            "values of shape {:?} and indices of shape {:?} do not match",
            values.shape(),
            indices.shape()
        )));
    }
    let width = values.width() / parts;
    if k > width {
        let error = failed("k exceeds the number of values");
        return Err(error.expected(format!("at most {width}")).found(k));
    }
    let columns = k.div_ceil(TILE);
    let mut output = Tensor::zeros(values.t, values.rows, parts * columns)?;
    let mut order: Vec<usize> = with_capacity("list of columns", width)?;
    for z in 0..values.t {
        for y in 0..values.height() {
            for part in 0..parts {
                let row = &values.row(z, y)[part * width..][..width];
                order.clear();
                order.extend(0..width);
                order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
                let from = if returns_indices {
                    &indices.row(z, y)[part * width..]
                } else {
                    row
                };
                let line = &mut output.row_mut(z, y)[part * columns * TILE..];
                for (to, &column) in line.iter_mut().zip(order.iter().take(k)) {
                    *to = from[column];
                }
            }
        }
    }
    Ok(output)
}
