//! Parts of tensors that are replaced.

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;

/// Inputs: tensor, update, start. The update replaces elements from the start on, which is moved so that all are inside.
pub(super) fn update_slice(op: &mut Operation<'_, '_>) -> Result<()> {
    if !op.has_one_form(&[0, 1], &[0])? {
        return Err(unsupported(
            "an update of another type or quantisation is not supported",
        ));
    }
    let (whole, part) = (op.info(0)?, op.info(1)?);
    let (whole, part) = (&whole.shape, &part.shape);
    if whole.iter().chain(part).any(|&extent| extent < 0) {
        return Err(unsupported("sizes that are not known are not supported")
            .help("fix them with --dim when compiling"));
    }
    let fits = whole.len() == part.len() && part.iter().zip(whole).all(|(a, b)| a <= b);
    if !fits {
        return Err(invalid("the update does not fit into the tensor")
            .expected(format_args!("at most {whole:?}"))
            .found(format_args!("{part:?}")));
    }
    let (x, update) = (op.stored(0)?, op.stored(1)?);
    let partial: Vec<usize> = (0..whole.len())
        .filter(|&axis| part[axis] < whole[axis])
        .collect();
    let Some(&last) = partial.last() else {
        return op.set_stored(0, update);
    };
    let start = op.i64_list(2)?;
    let zero = op.i64_constant(&[0]);
    let most: Vec<i64> = whole.iter().zip(part).map(|(a, b)| a - b).collect();
    let most = op.i64_constant(&most);
    let start = op.emit("Max", &[&start, &zero], Vec::new())?;
    let start = op.emit("Min", &[&start, &most], Vec::new())?;
    if partial.len() == 1 && last > 0 {
        // A cache that is written along one dimension.
        let at = op.i64_constant(&[last as i64]);
        let start = op.emit("Gather", &[&start, &at], Vec::new())?;
        let batch = op.i64_constant(&[whole[0]]);
        let start = op.emit("Expand", &[&start, &batch], Vec::new())?;
        let attributes = vec![proto::int("axis", last as i64)];
        let y = op.emit("TensorScatter", &[&x, &update, &start], attributes)?;
        return op.set_stored(0, y);
    }
    let positions = positions(op, &part[..=last], &start)?;
    let y = op.emit("ScatterND", &[&x, &positions, &update], Vec::new())?;
    op.set_stored(0, y)
}

/// The coordinates of all elements of a shape from `start` on, in the dimensions up to the last one that is not replaced
/// as a whole. They are computed from a range for each dimension, so that no size of the file is allocated here.
fn positions(op: &mut Operation<'_, '_>, shape: &[i64], start: &str) -> Result<String> {
    let rows: Vec<i64> = shape.iter().copied().chain([1]).collect();
    let rows = op.i64_constant(&rows);
    let [zero, one] = [0, 1].map(|value| op.i64_scalar(value));
    let mut coordinates = Vec::with_capacity(shape.len());
    for (axis, &extent) in shape.iter().enumerate() {
        let end = op.i64_scalar(extent);
        let range = op.emit("Range", &[&zero, &end, &one], Vec::new())?;
        let at = op.i64_constant(&[axis as i64]);
        let first = op.emit("Gather", &[start, &at], Vec::new())?;
        let range = op.emit("Add", &[&range, &first], Vec::new())?;
        let mut along = vec![1; shape.len() + 1];
        along[axis] = extent;
        let along = op.i64_constant(&along);
        let range = op.emit("Reshape", &[&range, &along], Vec::new())?;
        coordinates.push(op.emit("Expand", &[&range, &rows], Vec::new())?);
    }
    let coordinates: Vec<&str> = coordinates.iter().map(String::as_str).collect();
    op.emit("Concat", &coordinates, vec![proto::int("axis", -1)])
}
