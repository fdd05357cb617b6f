//! The largest of each row (facts 3.6).

use crate::tensor::{TILE, Tensor};

/// Of each row of each of `parts` parts the `k` largest values, or what `indices` holds at their
/// places; the rest of the output is 0. Of equal values the first comes first: the order that the
/// original's network gives them is not laid down.
pub fn topk(
    values: &Tensor,
    indices: &Tensor,
    k: usize,
    parts: usize,
    places: bool,
) -> Result<Tensor, String> {
    if values.shape() != indices.shape() || !values.columns.is_multiple_of(parts) {
        return Err(format!(
            "values of {:?} with indices of {:?}",
            values.shape(),
            indices.shape()
        ));
    }
    let width = values.width() / parts;
    if k > width {
        return Err(format!("{k} of {width} values"));
    }
    let columns = k.div_ceil(TILE);
    let mut output = Tensor::zeros(values.t, values.rows, parts * columns);
    for z in 0..values.t {
        for y in 0..values.height() {
            for part in 0..parts {
                let row = &values.row(z, y)[part * width..][..width];
                let mut order: Vec<usize> = (0..width).collect();
                order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
                let from = if places {
                    &indices.row(z, y)[part * width..]
                } else {
                    row
                };
                let line = &mut output.row_mut(z, y)[part * columns * TILE..];
                for (to, &place) in line.iter_mut().zip(order.iter().take(k)) {
                    *to = from[place];
                }
            }
        }
    }
    Ok(output)
}
