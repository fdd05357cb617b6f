//! The operators whose output extents are computed from extents of inputs or from elements that are sizes.

use super::{SymbolicNode, position};
use crate::geometry::Window;
use tenon_base::Result;
use tenon_tensor::size::SizeExpr;

/// The extents of one tensor.
type Extents = Vec<SizeExpr>;

impl SymbolicNode<'_> {
    /// The extents of all outputs; `None` for an operator without a rule.
    pub(super) fn computed_extents(&self) -> Result<Option<Vec<Extents>>> {
        let one = |extents: Extents| Ok(Some(vec![extents]));
        match self.op.name {
            "Reshape" => one(self.reshape()?),
            "Flatten" => one(self.flatten()?),
            "Expand" => one(self.broadcast(&self.input(0)?.extents, self.sizes(1)?)?),
            "ConstantOfShape" => one(self.sizes(0)?.to_vec()),
            "Range" => one(vec![self.range_length()?]),
            "Tile" => one(self.tile()?),
            "Slice" => one(self.slice()?),
            "Split" => self.split().map(Some),
            "Concat" => one(self.concat()?),
            "Pad" => one(self.pad()?),
            "CenterCropPad" => one(self.center_crop_pad()?),
            "Resize" => one(self.resize()?),
            "DepthToSpace" => one(self.depth_to_space()?),
            "SpaceToDepth" => one(self.space_to_depth()?),
            "TopK" => self.top_k().map(Some),
            "Conv" | "ConvInteger" | "DeformConv" => {
                one(self.window(1, Layout::ChannelsFirst, false)?)
            }
            "QLinearConv" => one(self.window(3, Layout::ChannelsFirst, false)?),
            "ConvTranspose" => one(self.window(1, Layout::ChannelsFirst, true)?),
            "tenon.Conv" => one(self.window(1, Layout::ChannelsLast, false)?),
            "tenon.QuantizedConv" => one(self.window(3, Layout::ChannelsLast, false)?),
            "tenon.ConvTranspose" => one(self.window(1, Layout::ChannelsLast, true)?),
            "MaxPool" | "AveragePool" | "LpPool" => {
                let extents = self.pool(Layout::ChannelsFirst)?;
                Ok(Some(vec![extents; self.outputs.len()]))
            }
            "tenon.MaxPool" | "tenon.AveragePool" => one(self.pool(Layout::ChannelsLast)?),
            "Attention" => self.attention(),
            _ => Ok(None),
        }
    }

    /// The product of extents.
    pub(super) fn product(&self, extents: &[SizeExpr]) -> Result<SizeExpr> {
        extents
            .iter()
            .try_fold(SizeExpr::from(1), |product, extent| product.times(extent))
    }

    fn reshape(&self) -> Result<Extents> {
        let data = &self.input(0)?.extents;
        let keeps_zero = self.attributes.flag("allowzero", false)?;
        let mut open = None;
        let mut extents = Extents::new();
        for (index, size) in self.sizes(1)?.iter().enumerate() {
            extents.push(match size.constant() {
                Some(-1) => {
                    open = Some(index);
                    1.into()
                }
                Some(0) if !keeps_zero => data.get(index).cloned().unwrap_or_default(),
                _ => size.clone(),
            });
        }
        if let Some(index) = open {
            // Extents that occur on both sides cancel even if they may be 0.
            let (mut all, mut known) = (data.clone(), extents.clone());
            known.retain(
                |extent| match all.iter().position(|other| other == extent) {
                    Some(position) => {
                        all.remove(position);
                        false
                    }
                    None => true,
                },
            );
            let (all, known) = (self.product(&all)?, self.product(&known)?);
            extents[index] = self.symbols.floor_div(&all, &known)?;
        }
        Ok(extents)
    }

    fn flatten(&self) -> Result<Extents> {
        let extents = &self.input(0)?.extents;
        let axis = self.attributes.int("axis", 1)?;
        let signed = extents.len() as i64;
        let at = if axis < 0 { axis + signed } else { axis };
        let (rows, columns) = extents.split_at(at.clamp(0, signed) as usize);
        Ok(vec![self.product(rows)?, self.product(columns)?])
    }

    /// The shape that both broadcast to: an extent that is not 1 for all sizes decides.
    fn broadcast(&self, a: &[SizeExpr], b: &[SizeExpr]) -> Result<Extents> {
        let rank = a.len().max(b.len());
        let extent = |list: &[SizeExpr], axis: usize| {
            let index = (axis + list.len()).checked_sub(rank);
            index.map_or_else(|| SizeExpr::from(1), |index| list[index].clone())
        };
        (0..rank)
            .map(|axis| self.broadcast_extent(extent(a, axis), extent(b, axis)))
            .collect()
    }

    fn broadcast_extent(&self, a: SizeExpr, b: SizeExpr) -> Result<SizeExpr> {
        match (a.constant(), b.constant()) {
            (Some(1), _) => Ok(b),
            (_, Some(1)) => Ok(a),
            _ => self.either(a, b),
        }
    }

    /// Two extents that must be equal, and are for the example sizes; executions check them.
    fn equal(&self, a: SizeExpr, b: SizeExpr) -> Result<SizeExpr> {
        let values = [&a, &b].map(|extent| extent.evaluate(self.example_sizes));
        let [left, right] = values;
        if left? != right? {
            return Err(self.no_rule());
        }
        let length = |extent: &SizeExpr| self.symbols.text(extent).len();
        Ok(if length(&b) < length(&a) { b } else { a })
    }

    fn range_length(&self) -> Result<SizeExpr> {
        let scalar = |index: usize| -> Result<SizeExpr> {
            let sizes = self.sizes(index)?;
            sizes.first().cloned().ok_or_else(|| self.no_rule())
        };
        let (start, limit, delta) = (scalar(0)?, scalar(1)?, scalar(2)?);
        let delta = delta.constant().ok_or_else(|| self.no_rule())?;
        let span = if delta > 0 {
            limit.minus(&start)?
        } else {
            start.minus(&limit)?
        };
        let step = i64::try_from(delta.unsigned_abs()).map_err(|_| self.no_rule())?;
        if step == 0 {
            return Err(self.no_rule());
        }
        let count = self.symbols.ceil_div(&span, &step.into())?;
        self.symbols.max(&count, &0.into())
    }

    fn tile(&self) -> Result<Extents> {
        let extents = self.input(0)?.extents.iter();
        let pairs = extents.zip(self.sizes(1)?);
        pairs
            .map(|(extent, repeats)| extent.times(repeats))
            .collect()
    }

    fn slice(&self) -> Result<Extents> {
        let mut extents = self.input(0)?.extents.clone();
        let (starts, ends) = (self.sizes(1)?, self.sizes(2)?);
        let axes = self.integers(3)?;
        let steps = self.integers(4)?;
        for (index, (start, end)) in starts.iter().zip(ends).enumerate() {
            let axis = match &axes {
                Some(axes) => position(axes.get(index).copied().unwrap_or(0), extents.len()),
                None => index,
            };
            let step = steps.as_ref().and_then(|steps| steps.get(index).copied());
            let Some(extent) = extents.get_mut(axis) else {
                return Err(self.no_rule());
            };
            *extent = self.slice_length(start, end, step.unwrap_or(1), extent)?;
        }
        Ok(extents)
    }

    /// The number of elements of a slice of one dimension, as ONNX clamps its ends.
    fn slice_length(
        &self,
        start: &SizeExpr,
        end: &SizeExpr,
        step: i64,
        extent: &SizeExpr,
    ) -> Result<SizeExpr> {
        let span = if step > 0 {
            let first = self.clamped(start, extent)?;
            self.clamped(end, extent)?.minus(&first)?
        } else {
            // Backwards: a start at or after the last element, an end before the first.
            let starts_last = start.constant().is_some_and(|start| start == -1)
                || self.symbols.is_at_least(start, &extent.minus(&1.into())?);
            let ends_first = end.constant().is_some_and(|end| end < -i64::from(i32::MAX));
            if !starts_last || !ends_first {
                return Err(self.no_rule());
            }
            extent.clone()
        };
        let step = i64::try_from(step.unsigned_abs()).map_err(|_| self.no_rule())?;
        if step == 0 {
            return Err(self.no_rule());
        }
        let count = self.symbols.ceil_div(&span, &step.into())?;
        self.symbols.max(&count, &0.into())
    }

    /// An index of a slice, negative from the end, clamped to 0..=extent.
    fn clamped(&self, index: &SizeExpr, extent: &SizeExpr) -> Result<SizeExpr> {
        let symbols = self.symbols;
        if let Some(constant) = index.constant() {
            // Exporters write the end of a dimension as a large number.
            if constant >= i64::from(i32::MAX) {
                return Ok(extent.clone());
            }
            if constant <= -i64::from(i32::MAX) {
                return Ok(0.into());
            }
        }
        let range = symbols.range(index);
        let position = if range.is_at_least(0) {
            index.clone()
        } else if range.is_at_most(-1) {
            index.plus(extent)?
        } else {
            return Err(self.no_rule());
        };
        symbols.max(&symbols.min(&position, extent)?, &0.into())
    }

    fn split(&self) -> Result<Vec<Extents>> {
        let extents = &self.input(0)?.extents;
        let axis = position(self.attributes.int("axis", 0)?, extents.len());
        let count = self.outputs.len();
        let sizes = match self.optional(1) {
            Some(_) => self.sizes(1)?.to_vec(),
            None => {
                let extent = &extents[axis];
                let part = self
                    .symbols
                    .ceil_div(extent, &(count.max(1) as i64).into())?;
                let part_of = |index: usize| {
                    let before = part.times(&(index as i64).into())?;
                    match index {
                        0 => Ok(part.clone()),
                        // What rounding up leaves of two parts.
                        1 if count == 2 => self.symbols.floor_div(extent, &2.into()),
                        _ => {
                            let rest = self.symbols.max(&extent.minus(&before)?, &0.into())?;
                            self.symbols.min(&part, &rest)
                        }
                    }
                };
                (0..count).map(part_of).collect::<Result<_>>()?
            }
        };
        let with = |size: SizeExpr| {
            let mut extents = extents.clone();
            extents[axis] = size;
            extents
        };
        Ok(sizes.into_iter().map(with).collect())
    }

    fn concat(&self) -> Result<Extents> {
        let mut extents = self.input(0)?.extents.clone();
        let axis = position(self.attributes.int("axis", 0)?, extents.len());
        for input in self.inputs.iter().skip(1).flatten() {
            for (index, extent) in extents.iter_mut().enumerate() {
                let other = input.extents.get(index).ok_or_else(|| self.no_rule())?;
                *extent = if index == axis {
                    extent.plus(other)?
                } else {
                    self.either(extent.clone(), other.clone())?
                };
            }
        }
        Ok(extents)
    }

    /// Two extents that must be equal.
    fn either(&self, a: SizeExpr, b: SizeExpr) -> Result<SizeExpr> {
        match (a.constant(), b.constant()) {
            _ if a == b => Ok(a),
            (Some(_), _) => Ok(a),
            (_, Some(_)) => Ok(b),
            _ => self.equal(a, b),
        }
    }

    fn pad(&self) -> Result<Extents> {
        let mut extents = self.input(0)?.extents.clone();
        let pads = self.sizes(1)?;
        let axes = self.integers(3)?;
        let axes = axes.unwrap_or_else(|| (0..extents.len() as i64).collect());
        for (index, &axis) in axes.iter().enumerate() {
            let ends = pads.get(index).zip(pads.get(index + axes.len()));
            let (before, after) = ends.ok_or_else(|| self.no_rule())?;
            let axis = position(axis, extents.len());
            extents[axis] = extents[axis].plus(before)?.plus(after)?;
        }
        Ok(extents)
    }

    fn center_crop_pad(&self) -> Result<Extents> {
        let mut extents = self.input(0)?.extents.clone();
        let all: Vec<i64> = (0..extents.len() as i64).collect();
        let axes = self.attributes.ints("axes")?.unwrap_or(&all);
        for (&axis, size) in axes.iter().zip(self.sizes(1)?) {
            let axis = position(axis, extents.len());
            extents[axis] = size.clone();
        }
        Ok(extents)
    }

    fn resize(&self) -> Result<Extents> {
        let mut extents = self.input(0)?.extents.clone();
        let mode = self
            .attributes
            .string("coordinate_transformation_mode", "half_pixel")?;
        let policy = self
            .attributes
            .string("keep_aspect_ratio_policy", "stretch")?;
        if mode == "tf_crop_and_resize" || policy != "stretch" {
            return Err(self.no_rule());
        }
        let all: Vec<i64> = (0..extents.len() as i64).collect();
        let axes = self.attributes.ints("axes")?.unwrap_or(&all);
        let by_sizes = self
            .optional(3)
            .is_some_and(|input| input.ty.elements() > 0);
        if by_sizes {
            for (&axis, size) in axes.iter().zip(self.sizes(3)?) {
                let axis = position(axis, extents.len());
                extents[axis] = size.clone();
            }
            return Ok(extents);
        }
        let scales = self.input(2)?.constant;
        let scales = scales.and_then(|scales| scales.as_slice::<f32>());
        let scales = scales.ok_or_else(|| self.no_rule())?;
        for (&axis, &scale) in axes.iter().zip(scales) {
            let axis = position(axis, extents.len());
            let (numerator, denominator) = ratio(scale).ok_or_else(|| self.no_rule())?;
            let scaled = extents[axis].times(&numerator.into())?;
            extents[axis] = self.symbols.floor_div(&scaled, &denominator.into())?;
        }
        Ok(extents)
    }

    fn depth_to_space(&self) -> Result<Extents> {
        let block = self.attributes.int("blocksize", 1)?;
        let [n, c, h, w] = self.image()?;
        let area = block.checked_mul(block).ok_or_else(|| self.no_rule())?;
        Ok(vec![
            n,
            self.symbols.floor_div(&c, &area.into())?,
            h.times(&block.into())?,
            w.times(&block.into())?,
        ])
    }

    fn space_to_depth(&self) -> Result<Extents> {
        let block = self.attributes.int("blocksize", 1)?;
        let [n, c, h, w] = self.image()?;
        let area = block.checked_mul(block).ok_or_else(|| self.no_rule())?;
        Ok(vec![
            n,
            c.times(&area.into())?,
            self.symbols.floor_div(&h, &block.into())?,
            self.symbols.floor_div(&w, &block.into())?,
        ])
    }

    fn image(&self) -> Result<[SizeExpr; 4]> {
        let extents = self.input(0)?.extents.clone();
        extents.try_into().map_err(|_| self.no_rule())
    }

    fn top_k(&self) -> Result<Vec<Extents>> {
        let mut extents = self.input(0)?.extents.clone();
        let axis = position(self.attributes.int("axis", -1)?, extents.len());
        let k = self
            .sizes(1)?
            .first()
            .cloned()
            .ok_or_else(|| self.no_rule())?;
        extents[axis] = k;
        Ok(vec![extents; self.outputs.len()])
    }

    /// The output of a convolution whose weights are input `weights`.
    fn window(&self, weights: usize, layout: Layout, transposed: bool) -> Result<Extents> {
        let w = &self.input(weights)?.extents;
        let kernel = w[2..]
            .iter()
            .map(|extent| extent.constant().ok_or_else(|| self.no_rule()))
            .collect::<Result<Vec<_>>>()?;
        let group = self.attributes.int("group", 1)?;
        let filters = if transposed {
            w[1].times(&group.into())?
        } else {
            w[0].clone()
        };
        self.slide(layout, &kernel, Some(filters), transposed)
    }

    fn pool(&self, layout: Layout) -> Result<Extents> {
        let kernel = self
            .attributes
            .ints("kernel_shape")?
            .unwrap_or_default()
            .to_vec();
        self.slide(layout, &kernel, None, false)
    }

    /// Batch, channels and the windows over the spatial dimensions.
    fn slide(
        &self,
        layout: Layout,
        kernel: &[i64],
        filters: Option<SizeExpr>,
        transposed: bool,
    ) -> Result<Extents> {
        let x = &self.input(0)?.extents;
        let rank = x.len().saturating_sub(2);
        let (first, channel) = match layout {
            Layout::ChannelsFirst => (2, 1),
            Layout::ChannelsLast => (1, x.len() - 1),
        };
        let spatial = &x[first..first + rank];
        let output = if transposed {
            self.transposed_windows(spatial, kernel)?
        } else {
            self.windows(spatial, kernel)?
        };
        let channels = filters.unwrap_or_else(|| x[channel].clone());
        Ok(match layout {
            Layout::ChannelsFirst => [vec![x[0].clone(), channels], output].concat(),
            Layout::ChannelsLast => [vec![x[0].clone()], output, vec![channels]].concat(),
        })
    }

    /// floor((extent + pads - dilated kernel) / stride) + 1
    fn windows(&self, spatial: &[SizeExpr], kernel: &[i64]) -> Result<Extents> {
        let window = self.window_attributes(kernel, false)?;
        let auto_pad = self.attributes.string("auto_pad", "NOTSET")?;
        let same = auto_pad.starts_with("SAME");
        let ceil = self.attributes.flag("ceil_mode", false)?;
        let mut output = Extents::new();
        for (axis, extent) in spatial.iter().enumerate() {
            let stride: SizeExpr = (window.strides[axis] as i64).into();
            if same {
                output.push(self.symbols.ceil_div(extent, &stride)?);
                continue;
            }
            let begin = window.pads_begin[axis] as i64;
            let pads = begin + window.pads_end[axis] as i64;
            let space = extent.plus(&(pads - window.dilated_kernel(axis) as i64).into())?;
            output.push(if ceil {
                // The last window must not start in the padding after the input.
                let windows = self.symbols.ceil_div(&space, &stride)?.plus(&1.into())?;
                let inside = self
                    .symbols
                    .ceil_div(&extent.plus(&begin.into())?, &stride)?;
                self.symbols.min(&windows, &inside)?
            } else {
                self.symbols.floor_div(&space, &stride)?.plus(&1.into())?
            });
        }
        Ok(output)
    }

    /// stride (extent - 1) + dilated kernel + output_padding - pads
    fn transposed_windows(&self, spatial: &[SizeExpr], kernel: &[i64]) -> Result<Extents> {
        let auto_pad = self.attributes.string("auto_pad", "NOTSET")?;
        let declared = self.attributes.ints("output_shape")?.unwrap_or_default();
        if auto_pad.starts_with("SAME") || !declared.is_empty() {
            return Err(self.no_rule());
        }
        let window = self.window_attributes(kernel, true)?;
        let extra = self.attributes.ints("output_padding")?.unwrap_or_default();
        let extent = |(axis, extent): (usize, &SizeExpr)| {
            let stride = window.strides[axis] as i64;
            let pads = (window.pads_begin[axis] + window.pads_end[axis]) as i64;
            let extra = extra.get(axis).copied().unwrap_or(0);
            let constant = window.dilated_kernel(axis) as i64 + extra - pads - stride;
            extent.times(&stride.into())?.plus(&constant.into())
        };
        spatial.iter().enumerate().map(extent).collect()
    }

    /// Strides, dilations and explicit pads, read by the shape function's own reader over the example.
    fn window_attributes(&self, kernel: &[i64], transposed: bool) -> Result<Window> {
        let shape = self.input(0)?.ty.shape();
        let first = if self.op.name.starts_with("tenon.") {
            1
        } else {
            2
        };
        let spatial = &shape[first..first + shape.len().saturating_sub(2)];
        let kernel: Vec<usize> = kernel
            .iter()
            .map(|&extent| extent.max(0) as usize)
            .collect();
        if transposed {
            Window::transposed(self.attributes, spatial, &kernel)
        } else {
            Window::sliding(self.attributes, spatial, &kernel)
        }
    }

    /// With past keys and values, the present ones are both in sequence; else matching finds the extents.
    fn attention(&self) -> Result<Option<Vec<Extents>>> {
        let (Some(past), key) = (self.optional(4), self.input(1)?) else {
            return Ok(None);
        };
        let present_of = |past: &[SizeExpr], new: &SizeExpr| -> Result<Extents> {
            let [batch, heads, length, size] = past else {
                return Err(self.no_rule());
            };
            Ok(vec![
                batch.clone(),
                heads.clone(),
                length.plus(new)?,
                size.clone(),
            ])
        };
        let query = self.input(0)?;
        let new = key.extents.get(key.extents.len().saturating_sub(2));
        let new = new.ok_or_else(|| self.no_rule())?;
        let present_key = present_of(&past.extents, new)?;
        let value = self.optional(5).unwrap_or(past);
        let present_value = present_of(&value.extents, new)?;
        // The output has the queries' layout, with the size of the values.
        let example = &self.outputs[0];
        let mut output = query.extents.clone();
        if let (Some(last), Some(&size)) = (output.last_mut(), example.shape().last()) {
            *last = (size as i64).into();
        }
        let mut all = vec![output, present_key, present_value.clone()];
        if self.outputs.len() > 3 {
            let scores = match query.extents.len() {
                4 => vec![
                    query.extents[0].clone(),
                    query.extents[1].clone(),
                    query.extents[2].clone(),
                    present_value[2].clone(),
                ],
                _ => vec![
                    query.extents[0].clone(),
                    self.attributes.int("q_num_heads", 0)?.into(),
                    query.extents[1].clone(),
                    present_value[2].clone(),
                ],
            };
            all.push(scores);
        }
        all.truncate(self.outputs.len());
        Ok(Some(all))
    }
}

/// The position of the channels of an image.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    ChannelsFirst,
    ChannelsLast,
}

/// A scale as a fraction of small integers; `None` if it is none exactly.
fn ratio(scale: f32) -> Option<(i64, i64)> {
    // Powers of two: the products with extents below 2^20 are exact in f32, as the shape function computes.
    (0..4)
        .map(|power| 1i64 << power)
        .map(|denominator| (scale * denominator as f32, denominator))
        .find(|(numerator, _)| numerator.fract() == 0.0 && (0.0..=64.0).contains(numerator))
        .map(|(numerator, denominator)| (numerator as i64, denominator))
}
