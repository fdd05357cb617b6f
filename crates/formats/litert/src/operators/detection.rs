//! The last operator of detectors of the form of SSD (Liu et al., "SSD: Single Shot MultiBox Detector", 2016).

use super::suppression::{MAX_KEPT, Suppression};
use crate::flexbuffer::Options;
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// The options of TFLite_Detection_PostProcess.
struct DetectionOptions {
    /// The maximum number of detections.
    detections: i64,
    /// The number of classes of a detection, best first.
    classes_each: i64,
    /// The maximum number of boxes of a class, when boxes of each class are suppressed.
    boxes_each: i64,
    by_class: bool,
    classes: i64,
    least: f32,
    overlap: f32,
    /// Divisors of y, x, height and width.
    scales: [f32; 4],
}

/// Detections in rows of a fixed number.
struct Detections {
    /// f32 [rows, classes, 4]
    boxes: String,
    /// f32 [rows, classes]
    classes: String,
    /// f32 [rows, classes]
    scores: String,
    /// i64 [1]
    count: String,
}

impl DetectionOptions {
    fn read(bytes: &[u8]) -> Result<Self> {
        let options = Options::parse(bytes)?;
        let scale = |name: &str| options.float(name);
        let found = Self {
            detections: options.count("max_detections", None, MAX_KEPT)?,
            classes_each: options.count("max_classes_per_detection", None, MAX_KEPT)?,
            boxes_each: options.count("detections_per_class", Some(100), MAX_KEPT)?,
            by_class: options.count("use_regular_nms", Some(0), 1)? == 1,
            classes: options.count("num_classes", None, MAX_KEPT)?,
            least: options.float("nms_score_threshold")?,
            overlap: options.float("nms_iou_threshold")?,
            scales: [
                scale("y_scale")?,
                scale("x_scale")?,
                scale("h_scale")?,
                scale("w_scale")?,
            ],
        };
        let sizes = [found.detections, found.classes_each, found.classes];
        if sizes.contains(&0) {
            return Err(invalid("a number of detections or classes is 0"));
        }
        let rows = [
            found.detections * found.classes_each,
            found.classes * found.boxes_each,
        ];
        if rows.iter().any(|&rows| rows > MAX_KEPT) {
            return Err(unsupported(format!(
                "more than {MAX_KEPT} detections of all classes are not supported"
            )));
        }
        Ok(found)
    }
}

/// Inputs: encoded boxes [1, N, 4 or more], scores [1, N, classes], anchors [N, 4]. Outputs: boxes, classes, scores and
/// number of detections, all f32; rows without a detection are 0.
pub(super) fn post_process(op: &mut Operation<'_, '_>) -> Result<()> {
    let bytes = op.operator.custom_options().map(|it| it.bytes());
    let options = DetectionOptions::read(bytes.unwrap_or_default())?;
    for (index, rank) in [(0, 3), (1, 3), (2, 2)] {
        op.expect_rank(index, rank)?;
    }
    let info = op.info(1)?;
    let found = info.shape[2];
    // The background may be the first class.
    let first = found - options.classes;
    if !(0..=1).contains(&first) {
        return Err(
            invalid("the scores do not fit the number of classes of the options")
                .expected(format_args!("{0} or {0} + 1 columns", options.classes))
                .found(found),
        );
    }
    let boxes = decoded(op, options.scales)?;
    let mut scores = op.real(1)?;
    if first > 0 {
        let bounds = [first, i64::MAX, 2].map(|value| op.i64_constant(&[value]));
        let [first, end, axis] = &bounds;
        scores = op.emit("Slice", &[&scores, first, end, axis], Vec::new())?;
    }
    let detections = if options.by_class {
        detections_by_class(op, &options, &boxes, &scores)?
    } else {
        detections_of_best_class(op, &options, &boxes, &scores)?
    };
    let rows = options.detections * options.classes_each;
    let results = [
        (detections.boxes, vec![1, rows, 4]),
        (detections.classes, vec![1, rows]),
        (detections.scores, vec![1, rows]),
    ];
    for (index, (value, shape)) in results.into_iter().enumerate() {
        let shape = op.i64_constant(&shape);
        let y = op.emit("Reshape", &[&value, &shape], Vec::new())?;
        op.set(index, y)?;
    }
    let count = op.cast(&detections.count, data_type::INT64, data_type::FLOAT)?;
    op.set(3, count)
}

/// The boxes f32 [1, N, 4] of the encoded ones: corners y, x of the least and of the greatest coordinates.
fn decoded(op: &mut Operation<'_, '_>, scales: [f32; 4]) -> Result<String> {
    let (codes, anchors) = (op.real(0)?, op.real(2)?);
    let columns = |op: &mut Operation<'_, '_>, value: &str, axis: i64, from: i64| {
        let bounds = [from, from + 2, axis].map(|value| op.i64_constant(&[value]));
        let [first, end, axis] = &bounds;
        op.emit("Slice", &[value, first, end, axis], Vec::new())
    };
    // Pairs: y and x, height and width.
    let offsets = columns(op, &codes, 2, 0)?;
    let sizes = columns(op, &codes, 2, 2)?;
    let centers = columns(op, &anchors, 1, 0)?;
    let extents = columns(op, &anchors, 1, 2)?;
    let [y, x, height, width] = scales;
    let [positions, logarithms] = [[y, x], [height, width]].map(|pair| {
        let label = format!("{}/scales", op.label);
        op.conversion.constant(&label, proto::f32s(&[2], &pair))
    });
    let offsets = op.emit("Div", &[&offsets, &positions], Vec::new())?;
    let offsets = op.emit("Mul", &[&offsets, &extents], Vec::new())?;
    let centers = op.emit("Add", &[&offsets, &centers], Vec::new())?;
    let sizes = op.emit("Div", &[&sizes, &logarithms], Vec::new())?;
    let sizes = op.emit("Exp", &[&sizes], Vec::new())?;
    let half = op.scalar_of(data_type::FLOAT, 0.5)?;
    let halves = op.emit("Mul", &[&sizes, &half], Vec::new())?;
    let halves = op.emit("Mul", &[&halves, &extents], Vec::new())?;
    let low = op.emit("Sub", &[&centers, &halves], Vec::new())?;
    let high = op.emit("Add", &[&centers, &halves], Vec::new())?;
    op.emit("Concat", &[&low, &high], vec![proto::int("axis", 2)])
}

/// Boxes are suppressed by the score of their best class, and detected with the classes of the greatest scores.
fn detections_of_best_class(
    op: &mut Operation<'_, '_>,
    options: &DetectionOptions,
    boxes: &str,
    scores: &str,
) -> Result<Detections> {
    let each = options.classes_each.min(options.classes);
    let count = op.i64_constant(&[each]);
    let best = op.emit_many("TopK", &[scores, &count], vec![proto::int("axis", 2)], 2)?;
    let bounds = [0, 1, 2].map(|value| op.i64_constant(&[value]));
    let [start, end, axis] = &bounds;
    let greatest = op.emit("Slice", &[&best[0], start, end, axis], Vec::new())?;
    let greatest = op.emit("Transpose", &[&greatest], swapped())?;
    let suppression = Suppression {
        boxes,
        scores: &greatest,
        each: options.detections,
        overlap: options.overlap,
        least: options.least,
    };
    let kept = suppression.emit(op, options.detections)?;
    let boxes = rows(op, boxes, &kept.boxes)?;
    let middle = op.i64_constant(&[1]);
    let boxes = op.emit("Unsqueeze", &[&boxes, &middle], Vec::new())?;
    let shape = op.i64_constant(&[options.detections, each, 4]);
    let boxes = op.emit("Expand", &[&boxes, &shape], Vec::new())?;
    let classes = op.cast(&best[1], data_type::INT64, data_type::FLOAT)?;
    let classes = rows(op, &classes, &kept.boxes)?;
    let scores = rows(op, &best[0], &kept.boxes)?;
    let missing = options.classes_each - each;
    Ok(Detections {
        boxes: filled(op, &boxes, &kept.is_valid, [0, missing, 0].as_slice())?,
        classes: filled(op, &classes, &kept.is_valid, [0, missing].as_slice())?,
        scores: filled(op, &scores, &kept.is_valid, [0, missing].as_slice())?,
        count: kept.count,
    })
}

/// Boxes are suppressed within each class; the detections are the boxes of all classes with the greatest scores.
fn detections_by_class(
    op: &mut Operation<'_, '_>,
    options: &DetectionOptions,
    boxes: &str,
    scores: &str,
) -> Result<Detections> {
    let scores = op.emit("Transpose", &[scores], swapped())?;
    let suppression = Suppression {
        boxes,
        scores: &scores,
        each: options.boxes_each,
        overlap: options.overlap,
        least: options.least,
    };
    let most = options.classes * options.boxes_each;
    let kept = suppression.emit(op, most.max(options.detections))?;
    let last = op.i64_constant(&[1]);
    let columns = [&kept.classes, &kept.boxes];
    let columns = columns.map(|column| op.emit("Unsqueeze", &[column, &last], Vec::new()));
    let [classes, positions] = columns;
    let pairs = [classes?, positions?];
    let pairs = op.emit(
        "Concat",
        &[&pairs[0], &pairs[1]],
        vec![proto::int("axis", 1)],
    )?;
    let zero = op.i64_constant(&[0]);
    let scores = op.emit("Squeeze", &[&scores, &zero], Vec::new())?;
    let scores = op.emit("GatherND", &[&scores, &pairs], Vec::new())?;
    let lowest = op.scalar_of(data_type::FLOAT, f32::NEG_INFINITY)?;
    let scores = op.emit("Where", &[&kept.is_valid, &scores, &lowest], Vec::new())?;
    let count = op.i64_constant(&[options.detections]);
    let best = op.emit_many("TopK", &[&scores, &count], vec![proto::int("axis", 0)], 2)?;
    let by_order = |op: &mut Operation<'_, '_>, value: &str| {
        op.emit("Gather", &[value, &best[1]], vec![proto::int("axis", 0)])
    };
    let is_valid = by_order(op, &kept.is_valid)?;
    let classes = by_order(op, &kept.classes)?;
    let classes = op.cast(&classes, data_type::INT64, data_type::FLOAT)?;
    let positions = by_order(op, &kept.boxes)?;
    let boxes = rows(op, boxes, &positions)?;
    let missing = options.detections * (options.classes_each - 1);
    let most = op.i64_constant(&[options.detections]);
    Ok(Detections {
        boxes: filled(op, &boxes, &is_valid, [missing, 0].as_slice())?,
        classes: filled(op, &classes, &is_valid, [missing].as_slice())?,
        scores: filled(op, &best[0], &is_valid, [missing].as_slice())?,
        count: op.emit("Min", &[&kept.count, &most], Vec::new())?,
    })
}

fn swapped() -> proto::Attributes {
    vec![proto::ints("perm", vec![0, 2, 1])]
}

/// The rows at positions of a value whose first dimension is 1.
fn rows(op: &mut Operation<'_, '_>, value: &str, positions: &str) -> Result<String> {
    let first = op.i64_constant(&[0]);
    let value = op.emit("Squeeze", &[value, &first], Vec::new())?;
    op.emit("Gather", &[&value, positions], vec![proto::int("axis", 0)])
}

/// A value of f32 with 0 in rows that are not valid, and with zeros behind each dimension.
fn filled(
    op: &mut Operation<'_, '_>,
    value: &str,
    is_valid: &str,
    behind: &[i64],
) -> Result<String> {
    let axes: Vec<i64> = (1..behind.len() as i64).collect();
    let zero = op.scalar_of(data_type::FLOAT, 0.0)?;
    let mut condition = is_valid.to_owned();
    if !axes.is_empty() {
        let axes = op.i64_constant(&axes);
        condition = op.emit("Unsqueeze", &[&condition, &axes], Vec::new())?;
    }
    let value = op.emit("Where", &[&condition, value, &zero], Vec::new())?;
    if behind.iter().all(|&count| count == 0) {
        return Ok(value);
    }
    let amounts: Vec<i64> = behind.iter().map(|_| 0).chain(behind.to_vec()).collect();
    let amounts = op.i64_constant(&amounts);
    op.emit("Pad", &[&value, &amounts], Vec::new())
}
