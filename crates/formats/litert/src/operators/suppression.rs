//! Non-maximum suppression of boxes, with outputs of a fixed size.

use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The maximum number of boxes that are kept.
pub(super) const MAX_KEPT: i64 = 1 << 20;

/// The operands of a NonMaxSuppression of ONNX.
pub(super) struct Suppression<'s> {
    /// f32 [1, N, 4]
    pub boxes: &'s str,
    /// f32 [1, classes, N]
    pub scores: &'s str,
    /// The maximum number of kept boxes of each class.
    pub each: i64,
    /// Boxes that overlap with a better one by more are left out.
    pub overlap: f32,
    /// Boxes with a lesser score are left out.
    pub least: f32,
}

/// The kept boxes in rows of a fixed number, of which the first ones are valid.
pub(super) struct KeptBoxes {
    /// i64 [rows]: the class; 0 in other rows.
    pub classes: String,
    /// i64 [rows]: the index of the box; 0 in other rows.
    pub boxes: String,
    /// bool [rows]
    pub is_valid: String,
    /// i64 [1]: the number of valid rows.
    pub count: String,
}

impl Suppression<'_> {
    /// Adds the nodes. `rows` is at least the number of kept boxes.
    pub fn emit(&self, op: &mut Operation<'_, '_>, rows: i64) -> Result<KeptBoxes> {
        let each = op.i64_constant(&[self.each]);
        let [overlap, least] = [self.overlap, self.least].map(|value| {
            let label = format!("{}/constant", op.label);
            op.conversion.constant(&label, proto::f32s(&[1], &[value]))
        });
        let inputs = [self.boxes, self.scores, &each, &overlap, &least];
        let found = op.emit("NonMaxSuppression", &inputs, Vec::new())?;
        // Its rows depend on data; scattered, they have the sizes of the table.
        let [zero, one] = [0, 1].map(|value| op.i64_scalar(value));
        let shape = op.emit("Shape", &[&found], Vec::new())?;
        let count = op.emit("Gather", &[&shape, &zero], Vec::new())?;
        let positions = op.emit("Range", &[&zero, &count, &one], Vec::new())?;
        let axes = op.i64_constant(&[1]);
        let positions = op.emit("Unsqueeze", &[&positions, &axes], Vec::new())?;
        let shape = op.i64_constant(&[rows, 3]);
        let table = op.emit("Expand", &[&zero, &shape], Vec::new())?;
        let table = op.emit("ScatterND", &[&table, &positions, &found], Vec::new())?;
        let [_, classes, boxes] = column_parts(op, &table)?;
        let rows = op.i64_scalar(rows);
        let positions = op.emit("Range", &[&zero, &rows, &one], Vec::new())?;
        let is_valid = op.emit("Less", &[&positions, &count], Vec::new())?;
        let list = op.i64_constant(&[1]);
        let count = op.emit("Reshape", &[&count, &list], Vec::new())?;
        Ok(KeptBoxes {
            classes,
            boxes,
            is_valid,
            count,
        })
    }
}

/// The columns of a table of three.
fn column_parts(op: &mut Operation<'_, '_>, table: &str) -> Result<[String; 3]> {
    let mut columns = [0, 1, 2].map(|_| String::new());
    for (index, column) in columns.iter_mut().enumerate() {
        let index = op.i64_scalar(index as i64);
        *column = op.emit("Gather", &[table, &index], vec![proto::int("axis", 1)])?;
    }
    Ok(columns)
}

/// Inputs: boxes, scores, maximum number, overlap, least score. Outputs: kept boxes, their number.
pub(super) fn hard(op: &mut Operation<'_, '_>) -> Result<()> {
    let (kept, count) = suppressed(op)?;
    let dtype = op.output_info(0)?.dtype;
    let boxes = op.cast(&kept.boxes, data_type::INT64, dtype)?;
    op.set_stored(0, boxes)?;
    let count = op.cast(&count, data_type::INT64, data_type::INT32)?;
    op.set_stored(1, count)
}

/// The same with scores of the kept boxes as output 1; input 5 is the deviation by which scores are reduced.
pub(super) fn soft(op: &mut Operation<'_, '_>) -> Result<()> {
    if constant_f32(op, 5, "deviation of the soft suppression")? != 0.0 {
        return Err(
            unsupported("soft suppression, which reduces scores, is not supported")
                .help("convert the model with soft_nms_sigma = 0"),
        );
    }
    let (kept, count) = suppressed(op)?;
    let dtype = op.output_info(0)?.dtype;
    let boxes = op.cast(&kept.boxes, data_type::INT64, dtype)?;
    op.set_stored(0, boxes)?;
    let scores = op.real(1)?;
    let scores = op.emit("Gather", &[&scores, &kept.boxes], Vec::new())?;
    let zero = op.scalar_of(data_type::FLOAT, 0.0)?;
    let scores = op.emit("Where", &[&kept.is_valid, &scores, &zero], Vec::new())?;
    op.set(1, scores)?;
    let count = op.cast(&count, data_type::INT64, data_type::INT32)?;
    op.set_stored(2, count)
}

/// The kept boxes of one class, and their number as a scalar.
fn suppressed(op: &mut Operation<'_, '_>) -> Result<(KeptBoxes, String)> {
    op.expect_rank(0, 2)?;
    op.expect_rank(1, 1)?;
    let most = op.scalar(2, "maximum number of boxes")?;
    if !(0..=MAX_KEPT).contains(&most) {
        return Err(invalid("the maximum number of boxes is out of range")
            .expected(format_args!("0 to {MAX_KEPT}"))
            .found(most));
    }
    let overlap = constant_f32(op, 3, "overlap")?;
    let least = constant_f32(op, 4, "least score")?;
    let (boxes, scores) = (op.real(0)?, op.real(1)?);
    let [first, both] = [vec![0], vec![0, 1]].map(|axes| op.i64_constant(&axes));
    let boxes = op.emit("Unsqueeze", &[&boxes, &first], Vec::new())?;
    let scores = op.emit("Unsqueeze", &[&scores, &both], Vec::new())?;
    // ONNX keeps boxes with the least score and suppresses above the overlap; LiteRT keeps above and suppresses from it on.
    let suppression = Suppression {
        boxes: &boxes,
        scores: &scores,
        each: most,
        overlap: overlap.next_down(),
        least: least.next_up(),
    };
    let kept = suppression.emit(op, most)?;
    let shape = op.i64_constant(&[]);
    let count = op.emit("Reshape", &[&kept.count, &shape], Vec::new())?;
    Ok((kept, count))
}

/// One element of input `index` of f32, which must be a constant.
fn constant_f32(op: &mut Operation<'_, '_>, index: usize, what: &str) -> Result<f32> {
    let info = op.info(index)?;
    let data = info
        .data
        .as_deref()
        .filter(|_| info.dtype == data_type::FLOAT);
    let data = data
        .ok_or_else(|| unsupported(format!("input {index} ({what}) is not a constant of f32")))?;
    match data.as_chunks::<4>().0 {
        [value] => Ok(f32::from_le_bytes(*value)),
        other => Err(invalid(format!("input {index} ({what}) is no scalar"))
            .expected("one element")
            .found(other.len())),
    }
}
