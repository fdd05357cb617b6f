//! `MatMulNBits` of `com.microsoft`: a matmul with weights of 2, 4 or 8 bits that have a scale for each block, as
//! DequantizeLinear, Transpose and MatMul. See
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits>.

use super::microsoft::{constant, operand, renamed};
use super::packed::{PackedRows, integer_type};
use crate::attribute::place;
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{DataType, Tensor, convert};

/// The inputs.
const B: usize = 1;
const SCALES: usize = 2;
const ZERO_POINTS: usize = 3;
const GROUPS: usize = 4;
const BIAS: usize = 5;

/// The sizes of the weights.
struct Sizes {
    columns: usize,
    depth: usize,
    bits: usize,
    block: usize,
    blocks: usize,
}

impl Sizes {
    fn of(node: &DraftNode) -> Result<Self> {
        let positive = |name: &str, default: Option<i64>| -> Result<usize> {
            let found = node.attributes.int(name, default.unwrap_or(0))?;
            let size = usize::try_from(found).ok().filter(|&size| size > 0);
            size.ok_or_else(|| {
                invalid(format!("attribute '{name}' is missing or not positive")).found(found)
            })
        };
        let bits = positive("bits", Some(4))?;
        let unsupported = |name: &str, found: usize, supported: &str| {
            let text = format!("{found} (supported: {supported})");
            Error::new(ErrorKind::Unsupported, text).at(place(name))
        };
        if !matches!(bits, 2 | 4 | 8) {
            return Err(unsupported("bits", bits, "2, 4, 8"));
        }
        let (depth, block) = (positive("K", None)?, positive("block_size", None)?);
        if !block.is_multiple_of(8 / bits) {
            let supported = format!("multiples of {}", 8 / bits);
            return Err(unsupported("block_size", block, &supported));
        }
        Ok(Self {
            columns: positive("N", None)?,
            depth,
            bits,
            block,
            blocks: depth.div_ceil(block),
        })
    }
}

/// The constant input `index`, which has `count` elements.
fn sized<'a>(
    draft: &'a Draft,
    node: &DraftNode,
    index: usize,
    (name, count): (&str, usize),
) -> Result<&'a Tensor> {
    let tensor = constant(draft, node, index, name)?;
    if tensor.ty().elements() == count {
        return Ok(tensor);
    }
    Err(invalid(format!("input '{name}' has the wrong size"))
        .expected(format_args!("{count} elements"))
        .found(tensor.shape()))
}

/// MatMulNBits.
pub(super) fn matmul(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let sizes = Sizes::of(&node)?;
    let Sizes {
        columns,
        depth,
        bits,
        block,
        blocks,
    } = sizes;
    let too_large = || invalid("the weights exceed the address space");
    let row_bytes = (block.checked_mul(bits))
        .and_then(|block| block.div_ceil(8).checked_mul(blocks))
        .ok_or_else(too_large)?;
    let (packed, all_blocks) = (
        columns.checked_mul(row_bytes).ok_or_else(too_large)?,
        columns.checked_mul(blocks).ok_or_else(too_large)?,
    );
    check_groups(draft, &node, &sizes)?;
    let zeros = zero_points(draft, &node, &sizes, all_blocks)?;
    // Without zero points they are half of the range: the weights are signed.
    let is_signed = zeros.is_none();
    let weights = sized(draft, &node, B, ("B", packed))?;
    if weights.dtype() != DataType::U8 {
        return Err(invalid("input 'B' has the wrong type")
            .expected(DataType::U8)
            .found(weights.dtype()));
    }
    let rows = PackedRows {
        rows: columns,
        stride: row_bytes,
        count: depth,
        bits,
    };
    let weights = rows.integers(weights.bytes(), is_signed)?;
    let scales = sized(draft, &node, SCALES, ("scales", all_blocks))?;
    let scales = scales.reshaped([columns, blocks])?;
    let mut inputs = vec![
        Some(draft.constant_for(&node, "weights", weights)),
        Some(draft.constant_for(&node, "scales", scales)),
    ];
    if let Some(zeros) = zeros {
        inputs.push(Some(draft.constant_for(&node, "zero_points", zeros)));
    }
    let attributes = Attributes::new()
        .with("axis", Attribute::Int(1))
        .with("block_size", Attribute::Int(block as i64));
    let wide = draft.step(&node, "DequantizeLinear", attributes, &inputs);
    let perm = Attributes::new().with("perm", Attribute::Ints(vec![1, 0]));
    let turned = draft.step(&node, "Transpose", perm, &[Some(wide)]);
    let product = vec![operand(&node, 0), Some(turned)];
    match operand(&node, BIAS) {
        None => Ok(renamed(node, "MatMul", Attributes::new(), product)),
        bias => {
            let product = draft.step(&node, "MatMul", Attributes::new(), &product);
            let inputs = vec![Some(product), bias];
            Ok(renamed(node, "Add", Attributes::new(), inputs))
        }
    }
}

/// The zero points: packed, in rows of whole bytes, or in the type of the scales.
fn zero_points(
    draft: &Draft,
    node: &DraftNode,
    sizes: &Sizes,
    all_blocks: usize,
) -> Result<Option<Tensor>> {
    let Some(value) = operand(node, ZERO_POINTS) else {
        return Ok(None);
    };
    let name = "zero_points";
    if draft.info(value).dtype.is_some_and(DataType::is_float) {
        let zeros = sized(draft, node, ZERO_POINTS, (name, all_blocks))?;
        let zeros = zeros.reshaped([sizes.columns, sizes.blocks])?;
        let wide = convert(&zeros, DataType::F32)?;
        let most = (1 << sizes.bits) as f32;
        let is_integer = |zero: &&f32| zero.fract() == 0.0 && (0.0..most).contains(*zero);
        let values = wide.as_slice::<f32>().unwrap_or_default();
        if let Some(found) = values.iter().find(|zero| !is_integer(zero)) {
            let text =
                format!("input '{name}' has an element that is no integer of the weights' type");
            return Err(Error::new(ErrorKind::Unsupported, text).found(found));
        }
        return convert(&wide, integer_type(sizes.bits, false)).map(Some);
    }
    let stride = sizes.blocks.saturating_mul(sizes.bits).div_ceil(8);
    let count = sizes.columns.saturating_mul(stride);
    let zeros = sized(draft, node, ZERO_POINTS, (name, count))?;
    if zeros.dtype() != DataType::U8 {
        return Err(invalid(format!("input '{name}' has the wrong type"))
            .expected("u8, or the type of the scales")
            .found(zeros.dtype()));
    }
    let rows = PackedRows {
        rows: sizes.columns,
        stride,
        count: sizes.blocks,
        bits: sizes.bits,
    };
    rows.integers(zeros.bytes(), false).map(Some)
}

/// Checks that the block of each row of the weights, if given, is that of its position.
fn check_groups(draft: &Draft, node: &DraftNode, sizes: &Sizes) -> Result<()> {
    if operand(node, GROUPS).is_none() {
        return Ok(());
    }
    let groups = constant(draft, node, GROUPS, "g_idx")?;
    let groups = groups.to_i64s().unwrap_or_default();
    let moved = (0i64..)
        .zip(&groups)
        .find(|&(k, &group)| group != k / sizes.block as i64);
    match moved {
        None => Ok(()),
        Some((k, group)) => {
            let text = format!("row {k} of the weights is in another block than its position");
            Err(Error::new(ErrorKind::Unsupported, text)
                .at(Location::field("input 'g_idx'"))
                .expected(k / sizes.block as i64)
                .found(group))
        }
    }
}
