//! Lowering of data movement to DMA descriptors: the copies of a movement node.

mod pad;

use tenon_base::Result;
use tenon_dma::{Descriptor, StridedView, VariableId, cast_contiguous, copy_strided};
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// The limit for one node: with more descriptors a loop in a workload is faster.
const MAX_DESCRIPTORS: usize = 64;

/// The reason why descriptors cannot express a node, as a sentence without full stop.
type RefusalText = String;

/// A data movement: an operator applied to tensors in variables.
pub struct MovementNode<'a> {
    /// The operator.
    pub op: &'static OperatorDef,
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Its inputs; `None` for an omitted one.
    pub inputs: Vec<Option<MovementOperand<'a>>>,
    /// Its outputs; `None` for an omitted one.
    pub outputs: Vec<Option<MovementOperand<'a>>>,
}

/// An operand of a data movement.
#[derive(Clone, Copy)]
pub struct MovementOperand<'a> {
    /// Its variable; `None` for a constant that only determines shapes.
    pub variable: Option<VariableId>,
    /// Its type.
    pub ty: &'a TensorType,
    /// Its elements, if it is a constant.
    pub constant: Option<&'a Tensor>,
}

/// The descriptors that execute `node`, in order.
///
/// # Errors
/// The reason why descriptors cannot express it, as a sentence without full stop.
pub fn descriptors(node: &MovementNode<'_>) -> Result<Vec<Descriptor>, RefusalText> {
    let list = node.descriptors()?;
    if list.len() > MAX_DESCRIPTORS {
        return Err(format!("it would take {} descriptors", list.len()));
    }
    Ok(list)
}

/// The bytes that descriptors write.
pub fn bytes_written(descriptors: &[Descriptor]) -> u64 {
    descriptors
        .iter()
        .map(|d| d.to.sizes.iter().product::<u64>())
        .sum()
}

/// The source or destination of a copy: a tensor in a variable.
struct CopyOperand<'a> {
    variable: VariableId,
    ty: &'a TensorType,
    strides: Vec<i64>,
}

impl CopyOperand<'_> {
    /// The region that starts at `start`, with these strides.
    fn place(&self, start: &[usize], strides: Vec<i64>) -> StridedView {
        let offset: i64 = start
            .iter()
            .zip(&self.strides)
            .map(|(&index, &stride)| index as i64 * stride)
            .sum();
        StridedView::new(self.variable, offset as u64, strides)
    }

    fn whole(&self) -> StridedView {
        StridedView::new(self.variable, 0, self.strides.clone())
    }
}

impl<'a> MovementNode<'a> {
    fn descriptors(&self) -> Result<Vec<Descriptor>, RefusalText> {
        let attributes = self.attributes;
        match self.op.name {
            "Transpose" => self.transpose(attributes),
            "Concat" => self.concat(attributes),
            "Split" => self.split(attributes),
            "Slice" => self.slice(),
            "Expand" => self.expand(),
            "Tile" => self.tile(),
            "Pad" => self.pad(attributes),
            "DepthToSpace" => self.depth_to_space(attributes, true),
            "SpaceToDepth" => self.depth_to_space(attributes, false),
            "Cast" | "CastLike" => self.cast(attributes),
            _ if self.op.class == tenon_graph::operator::OperatorClass::View => self.copy(),
            other => Err(format!(
                "{other} is no data movement that descriptors express"
            )),
        }
    }

    fn side(operand: Option<MovementOperand<'a>>) -> Result<CopyOperand<'a>, RefusalText> {
        let operand = operand.ok_or("an operand is left out")?;
        let variable = operand.variable.ok_or("an operand has no memory")?;
        let ty = operand.ty;
        let bytes = element_bytes(ty.dtype())? as i64;
        let strides = ty.shape().strides();
        Ok(CopyOperand {
            variable,
            ty,
            strides: strides
                .iter()
                .map(|&stride| stride as i64 * bytes)
                .collect(),
        })
    }

    fn input(&self, index: usize) -> Result<CopyOperand<'a>, RefusalText> {
        Self::side(self.inputs.get(index).copied().flatten())
    }

    fn output(&self, index: usize) -> Result<CopyOperand<'a>, RefusalText> {
        Self::side(self.outputs.get(index).copied().flatten())
    }

    /// The integers of a constant input; `None` when it is left out.
    fn ints(&self, index: usize) -> Result<Option<Vec<i64>>, RefusalText> {
        let Some(operand) = self.inputs.get(index).copied().flatten() else {
            return Ok(None);
        };
        let known = operand.constant.and_then(Tensor::to_i64s);
        Ok(Some(known.ok_or("an input is not known when compiling")?))
    }

    fn axis(
        &self,
        attributes: &Attributes,
        default: i64,
        rank: usize,
    ) -> Result<usize, RefusalText> {
        let axis = attributes.int("axis", default).map_err(text)?;
        wrap(axis, rank)
    }

    /// A view that is copied: bytes, for every element type.
    fn copy(&self) -> Result<Vec<Descriptor>, RefusalText> {
        let first = |operands: &[Option<MovementOperand<'a>>]| {
            let operand = operands.first().copied().flatten();
            operand.ok_or("an operand is left out")
        };
        let place = |operand: MovementOperand<'_>| -> Result<StridedView, RefusalText> {
            let variable = operand.variable.ok_or("an operand has no memory")?;
            Ok(StridedView::new(variable, 0, [1]))
        };
        let (from, to) = (first(&self.inputs)?, first(&self.outputs)?);
        copy_strided(1, &[to.ty.bytes()], &place(from)?, &place(to)?).map_err(text)
    }

    fn transpose(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let rank = from.ty.shape().len();
        let perm: Vec<usize> = match attributes.ints("perm").map_err(text)? {
            Some(perm) => perm
                .iter()
                .map(|&axis| wrap(axis, rank))
                .collect::<Result<_, _>>()?,
            None => (0..rank).rev().collect(),
        };
        let strides = perm.iter().map(|&axis| from.strides[axis]).collect();
        copy(&to, to.ty.shape(), from.place(&[], strides), to.whole())
    }

    fn concat(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, RefusalText> {
        let to = self.output(0)?;
        let rank = to.ty.shape().len();
        let axis = self.axis(attributes, 0, rank)?;
        let mut start = vec![0; rank];
        let mut list = Vec::new();
        for index in 0..self.inputs.len() {
            let from = self.input(index)?;
            let target = to.place(&start, to.strides.clone());
            list.extend(copy(&to, from.ty.shape(), from.whole(), target)?);
            start[axis] += from.ty.shape()[axis];
        }
        Ok(list)
    }

    fn split(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, RefusalText> {
        let from = self.input(0)?;
        let rank = from.ty.shape().len();
        let axis = self.axis(attributes, 0, rank)?;
        let mut start = vec![0; rank];
        let mut list = Vec::new();
        for output in &self.outputs {
            // The extent of an omitted output is unknown.
            let to = Self::side(*output)?;
            let source = from.place(&start, from.strides.clone());
            list.extend(copy(&to, to.ty.shape(), source, to.whole())?);
            start[axis] += to.ty.shape()[axis];
        }
        Ok(list)
    }

    fn slice(&self) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let rank = from.ty.shape().len();
        let starts = self.ints(1)?.ok_or("the starts are left out")?;
        let axes = self
            .ints(3)?
            .unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
        let mut start = vec![0usize; rank];
        let mut strides = from.strides.clone();
        for ((&first, &axis), &step) in starts.iter().zip(&axes).zip(&steps) {
            let axis = wrap(axis, rank)?;
            let extent = from.ty.shape()[axis] as i64;
            let first = if first < 0 {
                first.saturating_add(extent)
            } else {
                first
            };
            // A negative step starts at the last element at most.
            let last = if step < 0 { extent - 1 } else { extent };
            start[axis] = first.clamp(0, last.max(0)) as usize;
            strides[axis] = strides[axis].saturating_mul(step);
        }
        if to.ty.elements() == 0 {
            return Ok(Vec::new());
        }
        copy(&to, to.ty.shape(), from.place(&start, strides), to.whole())
    }

    fn expand(&self) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let shape = to.ty.shape();
        let lead = shape
            .len()
            .checked_sub(from.ty.shape().len())
            .ok_or("ranks do not fit")?;
        let strides = (0..shape.len()).map(|axis| match axis.checked_sub(lead) {
            Some(inner) if from.ty.shape()[inner] != 1 => from.strides[inner],
            _ => 0,
        });
        copy(&to, shape, from.place(&[], strides.collect()), to.whole())
    }

    fn tile(&self) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let (mut shape, mut source, mut target) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, &extent) in from.ty.shape().iter().enumerate() {
            let repeats = to.ty.shape()[axis].checked_div(extent).unwrap_or(0);
            shape.extend([repeats, extent]);
            source.extend([0, from.strides[axis]]);
            target.extend([to.strides[axis] * extent as i64, to.strides[axis]]);
        }
        copy(&to, &shape, from.place(&[], source), to.place(&[], target))
    }

    /// DepthToSpace and SpaceToDepth: both are a transpose of six axes.
    fn depth_to_space(
        &self,
        attributes: &Attributes,
        to_space: bool,
    ) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let block = attributes.int("blocksize", 0).map_err(text)? as usize;
        // DCR: depth is (block row, block column, channel); CRD: (channel, block row, block column).
        let mode = attributes.string("mode", "DCR").map_err(text)?;
        let channel_last = mode == "DCR";
        let (deep, wide) = if to_space { (&from, &to) } else { (&to, &from) };
        let (&[n, depth, h, w], &[_, channels, ..]) = (&**deep.ty.shape(), &**wide.ty.shape())
        else {
            return Err("an image must have 4 dimensions".into());
        };
        let depth_stride = deep.strides[1];
        let (per_channel, per_row, per_column) = if channel_last {
            (
                depth_stride,
                depth_stride * (block * channels) as i64,
                depth_stride * channels as i64,
            )
        } else {
            (
                depth_stride * (block * block) as i64,
                depth_stride * block as i64,
                depth_stride,
            )
        };
        if depth != channels * block * block {
            return Err("the block size does not fit the depth".into());
        }
        // In the order of the wide side: n, channel, row, block row, column, block column.
        let shape = [n, channels, h, block, w, block];
        let deep_strides = vec![
            deep.strides[0],
            per_channel,
            deep.strides[2],
            per_row,
            deep.strides[3],
            per_column,
        ];
        let (row, column) = (wide.strides[2], wide.strides[3]);
        let wide_strides = vec![
            wide.strides[0],
            wide.strides[1],
            row * block as i64,
            row,
            column * block as i64,
            column,
        ];
        let (source, target) = if to_space {
            (deep_strides, wide_strides)
        } else {
            (wide_strides, deep_strides)
        };
        copy(&to, &shape, from.place(&[], source), to.place(&[], target))
    }

    fn cast(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let saturates = attributes.flag("saturate", true).map_err(text)?;
        if !casts(from.ty.dtype(), to.ty.dtype(), saturates) {
            return Err(format!(
                "a descriptor does not cast {} to {}",
                from.ty.dtype(),
                to.ty.dtype()
            ));
        }
        if to.ty.elements() == 0 {
            return Ok(Vec::new());
        }
        let end = |side: &CopyOperand<'_>| (side.variable, 0, side.ty.dtype());
        cast_contiguous(from.ty.elements(), end(&from), end(&to))
            .map(|d| vec![d])
            .map_err(text)
    }
}

/// Whether a descriptor casts as the operator does: between all real types of whole bytes, except
/// saturating casts to 8-bit floating-point types, and casts to exponents, which have a rounding mode.
fn casts(from: DataType, to: DataType, saturates: bool) -> bool {
    let is_real = |dtype: DataType| {
        dtype.bits() >= 8 && !matches!(dtype, DataType::C64 | DataType::C128 | DataType::String)
    };
    let is_saturating = to.is_float() && to.bits() == 8 && from != to && saturates;
    let is_rounded = to == DataType::F8E8M0Fnu && from != to;
    is_real(from) && is_real(to) && !is_saturating && !is_rounded
}

fn copy(
    to: &CopyOperand<'_>,
    shape: &[usize],
    from: StridedView,
    target: StridedView,
) -> Result<Vec<Descriptor>, RefusalText> {
    copy_strided(element_bytes(to.ty.dtype())?, shape, &from, &target).map_err(text)
}

fn element_bytes(dtype: DataType) -> Result<usize, RefusalText> {
    match dtype.bits() {
        bits if bits >= 8 => Ok(bits / 8),
        _ => Err(format!("elements {dtype} are not whole bytes")),
    }
}

fn wrap(axis: i64, rank: usize) -> Result<usize, RefusalText> {
    let signed = rank as i64;
    let axis = if axis < 0 { axis + signed } else { axis };
    if (0..signed).contains(&axis) {
        Ok(axis as usize)
    } else {
        Err("an axis is out of range".into())
    }
}

fn text(error: tenon_base::Error) -> RefusalText {
    error.to_string()
}
