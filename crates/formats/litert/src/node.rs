//! An operator of a subgraph during conversion: its operands in the forms that converters need, and its results.

use crate::convert::{Conversion, Form, Scope, place};
use crate::model::{invalid, unsupported};
use crate::proto::{self, Attributes};
use crate::schema::tflite as schema;
use crate::tensor::{Quantisation, TensorInfo};
use schema::ActivationFunctionType as Activation;
use std::rc::Rc;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

/// An operator, and where its nodes are added.
pub(crate) struct Operation<'a, 'm> {
    pub operator: schema::Operator<'m>,
    /// Its name in messages, and the first part of the names of its nodes.
    pub label: String,
    /// The indices of tensors; `None` for an omitted one.
    pub inputs: Vec<Option<usize>>,
    pub outputs: Vec<usize>,
    pub conversion: &'a mut Conversion<'m>,
    pub scope: &'a mut Scope<'m>,
}

/// The orders of the dimensions of images.
pub(crate) fn channels_first(rank: usize) -> Vec<i64> {
    let rank = rank as i64;
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

pub(crate) fn channels_last(rank: usize) -> Vec<i64> {
    let rank = rank as i64;
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

impl<'m> Operation<'_, 'm> {
    /// The tensor of input `index`, which must be there.
    pub fn tensor(&self, index: usize) -> Result<usize> {
        let input = self.inputs.get(index).copied().flatten();
        input.ok_or_else(|| invalid(format!("input {index} is missing")))
    }

    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).copied().flatten().is_some()
    }

    /// Whether input `index` is a constant, or an operator or the caller sets it.
    pub fn has_value(&mut self, index: usize) -> Result<bool> {
        let tensor = self.tensor(index)?;
        Ok(self.info(index)?.data.is_some() || self.conversion.is_set(self.scope, tensor))
    }

    pub fn output(&self, index: usize) -> Result<usize> {
        let output = self.outputs.get(index).copied();
        output.ok_or_else(|| invalid(format!("output {index} is missing")))
    }

    /// The tensor of input `index`.
    pub fn info(&mut self, index: usize) -> Result<Rc<TensorInfo>> {
        let tensor = self.tensor(index)?;
        self.conversion.info(self.scope, tensor)
    }

    pub fn output_info(&mut self, index: usize) -> Result<Rc<TensorInfo>> {
        let tensor = self.output(index)?;
        self.conversion.info(self.scope, tensor)
    }

    /// The integers of input `index`, if it is a constant.
    pub fn constant_ints(&mut self, index: usize) -> Result<Option<Vec<i64>>> {
        Ok(self.info(index)?.ints())
    }

    /// The integers of input `index`, which must be a constant.
    pub fn ints(&mut self, index: usize, what: &str) -> Result<Vec<i64>> {
        let ints = self.constant_ints(index)?;
        ints.ok_or_else(|| unsupported(format!("input {index} ({what}) is not a constant")))
    }

    /// One integer of input `index`, which must be a constant.
    pub fn scalar(&mut self, index: usize, what: &str) -> Result<i64> {
        match self.ints(index, what)?.as_slice() {
            [value] => Ok(*value),
            other => Err(invalid(format!("input {index} ({what}) is no scalar"))
                .expected("one element")
                .found(other.len())),
        }
    }

    /// The value of input `index` as it is stored.
    pub fn stored(&mut self, index: usize) -> Result<String> {
        let tensor = self.tensor(index)?;
        self.conversion.value(self.scope, tensor)
    }

    /// Input `index` with real values.
    pub fn real(&mut self, index: usize) -> Result<String> {
        self.derived(index, Form::Real)
    }

    /// Input `index` as it is stored, or its real values.
    pub fn operand(&mut self, index: usize, is_stored: bool) -> Result<String> {
        if is_stored {
            self.stored(index)
        } else {
            self.real(index)
        }
    }

    /// The image of input `index` with its channels first, as it is stored.
    pub fn stored_image(&mut self, index: usize) -> Result<String> {
        self.derived(index, Form::ChannelsFirst)
    }

    /// The same with real values.
    pub fn image(&mut self, index: usize) -> Result<String> {
        self.derived(index, Form::RealChannelsFirst)
    }

    fn derived(&mut self, index: usize, form: Form) -> Result<String> {
        let key = (self.tensor(index)?, form);
        if let Some(value) = self.scope.derived.get(&key) {
            return Ok(value.clone());
        }
        let info = self.info(index)?;
        let value = match form {
            Form::Real => {
                let stored = self.stored(index)?;
                self.dequantised(stored, &info)?
            }
            Form::ChannelsFirst => {
                let order = channels_first(info.rank());
                let stored = self.stored(index)?;
                self.emit("Transpose", &[&stored], vec![proto::ints("perm", order)])?
            }
            Form::RealChannelsFirst => {
                let stored = self.derived(index, Form::ChannelsFirst)?;
                let order: Vec<usize> = channels_first(info.rank())
                    .iter()
                    .map(|&axis| axis as usize)
                    .collect();
                let mut moved = TensorInfo::clone(&info);
                moved.quantisation = moved.quantisation.map(|it| it.permuted(&order));
                self.dequantised(stored, &moved)?
            }
        };
        self.scope.derived.insert(key, value.clone());
        Ok(value)
    }

    /// The rank of the image of input `index`, which must be `rank`.
    pub fn expect_rank(&mut self, index: usize, rank: usize) -> Result<()> {
        let info = self.info(index)?;
        if info.rank() == rank {
            return Ok(());
        }
        Err(
            invalid(format!("input {index} has the wrong number of dimensions"))
                .expected(rank)
                .found(format_args!("{:?}", info.shape))
                .at(place(&info.name)),
        )
    }

    /// Input `index` with real values and its dimensions in another order: a constant is moved now.
    pub fn weights(&mut self, index: usize, order: &[usize]) -> Result<String> {
        self.expect_rank(index, order.len())?;
        let info = self.info(index)?;
        if let Some(moved) = info.permuted(order)? {
            let data = moved.data.clone().unwrap_or_default();
            let constant = proto::constant(moved.dtype, &moved.shape, data);
            let name = self.conversion.constant(&info.name, constant);
            return self.dequantised(name, &moved);
        }
        let stored = self.stored(index)?;
        let perm: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
        let moved = self.emit("Transpose", &[&stored], vec![proto::ints("perm", perm)])?;
        let mut info = TensorInfo::clone(&info);
        info.quantisation = info.quantisation.map(|it| it.permuted(order));
        self.dequantised(moved, &info)
    }

    /// Input `index` as i64.
    pub fn i64s(&mut self, index: usize) -> Result<String> {
        let info = self.info(index)?;
        if let Some(values) = info.ints() {
            return Ok(self
                .conversion
                .constant(&info.name, proto::i64s(&info.shape, &values)));
        }
        let stored = self.stored(index)?;
        self.cast(&stored, info.dtype, data_type::INT64)
    }

    /// The same as a tensor of one dimension.
    pub fn i64_list(&mut self, index: usize) -> Result<String> {
        let info = self.info(index)?;
        if let Some(values) = info.ints() {
            return Ok(self.i64_constant(&values));
        }
        let value = self.i64s(index)?;
        if info.rank() == 1 {
            return Ok(value);
        }
        let shape = self.i64_constant(&[-1]);
        self.emit("Reshape", &[&value, &shape], Vec::new())
    }

    /// A constant list of integers.
    pub fn i64_constant(&mut self, values: &[i64]) -> String {
        let tensor = proto::i64s(&[values.len() as i64], values);
        self.conversion
            .constant(&format!("{}/constant", self.label), tensor)
    }

    pub fn i64_scalar(&mut self, value: i64) -> String {
        self.conversion.constant(
            &format!("{}/constant", self.label),
            proto::i64s(&[], &[value]),
        )
    }

    /// A scalar of the element type `dtype`.
    pub fn scalar_of(&mut self, dtype: i32, value: f32) -> Result<String> {
        let constant = self.conversion.constant(
            &format!("{}/constant", self.label),
            proto::f32s(&[], &[value]),
        );
        self.cast(&constant, data_type::FLOAT, dtype)
    }

    /// A value of another element type.
    pub fn cast(&mut self, value: &str, from: i32, to: i32) -> Result<String> {
        if from == to {
            return Ok(value.to_owned());
        }
        self.emit("Cast", &[value], vec![proto::int("to", to.into())])
    }

    /// Adds a node, and returns its only output.
    pub fn emit(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Attributes,
    ) -> Result<String> {
        let outputs = self.emit_many(operator, inputs, attributes, 1)?;
        Ok(outputs.into_iter().next().unwrap_or_default())
    }

    /// Adds a node, and returns its outputs.
    pub fn emit_many(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Attributes,
        outputs: usize,
    ) -> Result<Vec<String>> {
        let stem = format!("{}/{operator}", self.label);
        let outputs: Vec<String> = (0..outputs)
            .map(|_| self.conversion.unique(&stem))
            .collect();
        self.conversion
            .emit_to(&stem, operator, inputs, attributes, outputs.clone())?;
        Ok(outputs)
    }

    /// The real values of a quantised value; others as they are.
    pub fn dequantised(&mut self, value: String, info: &TensorInfo) -> Result<String> {
        let Some(quantisation) = info.quantised() else {
            return Ok(value);
        };
        if info.dtype == data_type::INT64 {
            return self.wide_dequantised(value, info, quantisation);
        }
        let (scale, zero, attributes) = self.parameters(info, quantisation)?;
        let mut inputs = vec![value.as_str(), &scale];
        // ONNX has none for i32.
        if info.dtype != data_type::INT32 {
            inputs.push(&zero);
        }
        self.emit("DequantizeLinear", &inputs, attributes)
    }

    /// The real values of i64, which DequantizeLinear does not have: biases of models with activations of i16.
    fn wide_dequantised(
        &mut self,
        value: String,
        info: &TensorInfo,
        quantisation: &Quantisation,
    ) -> Result<String> {
        if quantisation.zero_points.iter().any(|&zero| zero != 0) {
            return Err(unsupported(
                "quantised i64 with zero points is not supported",
            ));
        }
        let mut shape = vec![1i64; info.rank()];
        if let Some(extent) = shape.get_mut(quantisation.axis) {
            *extent = quantisation.scales.len() as i64;
        }
        let wide = self.cast(&value, data_type::INT64, data_type::FLOAT)?;
        let scales = proto::f32s(&shape, &quantisation.scales);
        let scales = self
            .conversion
            .constant(&format!("{}/scale", self.label), scales);
        self.emit("Mul", &[&wide, &scales], Vec::new())
    }

    /// Real values as quantised ones of this tensor; others as they are.
    fn quantised(&mut self, value: String, info: &TensorInfo) -> Result<String> {
        let Some(quantisation) = info.quantised() else {
            return Ok(value);
        };
        if matches!(info.dtype, data_type::INT32 | data_type::INT64) {
            return Err(unsupported(
                "a result of quantised i32 or i64 is not supported",
            ));
        }
        let (scale, zero, attributes) = self.parameters(info, quantisation)?;
        self.emit("QuantizeLinear", &[&value, &scale, &zero], attributes)
    }

    /// The scale and the zero point as constants, and the attribute with their dimension.
    fn parameters(
        &mut self,
        info: &TensorInfo,
        quantisation: &Quantisation,
    ) -> Result<(String, String, Attributes)> {
        let Quantisation {
            scales,
            zero_points,
            axis,
        } = quantisation;
        let wrong =
            || invalid("a zero point is outside the range of its type").at(place(&info.name));
        let bytes: Option<Vec<u8>> = match info.dtype {
            data_type::INT8 => zero_points
                .iter()
                .map(|&zero| Some(i8::try_from(zero).ok()? as u8))
                .collect(),
            data_type::UINT8 => zero_points
                .iter()
                .map(|&zero| u8::try_from(zero).ok())
                .collect(),
            data_type::INT16 => narrow(zero_points, |zero| {
                Some(i16::try_from(zero).ok()?.to_le_bytes())
            }),
            data_type::UINT16 => narrow(zero_points, |zero| {
                Some(u16::try_from(zero).ok()?.to_le_bytes())
            }),
            data_type::INT32 => zero_points.iter().all(|&zero| zero == 0).then(Vec::new),
            data_type::INT4 => packed(zero_points, 4, -8..=7),
            data_type::UINT4 => packed(zero_points, 4, 0..=15),
            data_type::INT2 => packed(zero_points, 2, -2..=1),
            _ => {
                return Err(unsupported(
                    "quantisation of this element type is not supported",
                ));
            }
        };
        let bytes = bytes.ok_or_else(wrong)?;
        let several = scales.len() > 1;
        let shape: Vec<i64> = several.then_some(scales.len() as i64).into_iter().collect();
        let attributes = if several {
            vec![proto::int("axis", *axis as i64)]
        } else {
            Vec::new()
        };
        let scale = self.conversion.constant(
            &format!("{}/scale", self.label),
            proto::f32s(&shape, scales),
        );
        if info.dtype == data_type::INT32 {
            return Ok((scale, String::new(), attributes));
        }
        let zero = proto::constant(info.dtype, &shape, bytes.into());
        let zero = self
            .conversion
            .constant(&format!("{}/zero_point", self.label), zero);
        Ok((scale, zero, attributes))
    }

    /// Sets output `index` to a value of its stored form.
    pub fn set_stored(&mut self, index: usize, value: String) -> Result<()> {
        let tensor = self.output(index)?;
        self.conversion.info(self.scope, tensor)?;
        self.conversion.bind(self.scope, tensor, value);
        Ok(())
    }

    /// Sets output `index` to real values, which are quantised if it is.
    pub fn set(&mut self, index: usize, value: String) -> Result<()> {
        let info = self.output_info(index)?;
        let stored = self.quantised(value, &info)?;
        self.set_stored(index, stored)
    }

    /// Sets output `index` to a value in the form of [`Self::operand`].
    pub fn set_result(&mut self, index: usize, value: String, is_stored: bool) -> Result<()> {
        if is_stored {
            self.set_stored(index, value)
        } else {
            self.set(index, value)
        }
    }

    /// Sets output `index` to an image with its channels first, of stored form.
    pub fn set_stored_image(&mut self, index: usize, value: String, rank: usize) -> Result<()> {
        let tensor = self.output(index)?;
        let last = self.emit(
            "Transpose",
            &[&value],
            vec![proto::ints("perm", channels_last(rank))],
        )?;
        self.set_stored(index, last)?;
        self.scope
            .derived
            .insert((tensor, Form::ChannelsFirst), value);
        Ok(())
    }

    /// The same of real values.
    pub fn set_image(&mut self, index: usize, value: String, rank: usize) -> Result<()> {
        let info = self.output_info(index)?;
        let mut moved = TensorInfo::clone(&info);
        let order: Vec<usize> = channels_first(rank)
            .iter()
            .map(|&axis| axis as usize)
            .collect();
        moved.quantisation = moved.quantisation.map(|it| it.permuted(&order));
        let stored = self.quantised(value, &moved)?;
        self.set_stored_image(index, stored, rank)
    }

    /// Whether inputs and outputs are stored in the same form, so that elements can be moved without their real values.
    pub fn has_one_form(&mut self, inputs: &[usize], outputs: &[usize]) -> Result<bool> {
        let first = self.info(*inputs.first().unwrap_or(&0))?;
        let mut same = true;
        for &index in inputs {
            let info = self.info(index)?;
            same &= info.quantisation == first.quantisation && info.dtype == first.dtype;
        }
        for &index in outputs {
            let info = self.output_info(index)?;
            same &= info.quantisation == first.quantisation && info.dtype == first.dtype;
        }
        // Other dimensions of the output need other scales.
        Ok(same && first.quantised().is_none_or(|it| it.scales.len() == 1))
    }

    /// A real value after an activation; one that the range of output 0 implies is left out.
    pub fn activated(&mut self, value: String, activation: Activation) -> Result<String> {
        let info = self.output_info(0)?;
        let (low, high) = match activation {
            Activation::NONE => return Ok(value),
            Activation::TANH => return self.emit("Tanh", &[&value], Vec::new()),
            Activation::RELU => (0.0, f32::INFINITY),
            Activation::RELU6 => (0.0, 6.0),
            Activation::RELU_N1_TO_1 => (-1.0, 1.0),
            other => {
                let name = other.variant_name().unwrap_or("unknown");
                return Err(unsupported(format!("activation {name} is not supported")));
            }
        };
        if let Some((least, greatest, scale)) = real_range(&info)
            && least >= low - scale * 0.01
            && greatest <= high + scale * 0.5
        {
            return Ok(value);
        }
        self.clipped(value, info.dtype, low, high)
    }

    /// A real value limited to a range; the upper limit may be infinite.
    pub fn clipped(&mut self, value: String, dtype: i32, low: f32, high: f32) -> Result<String> {
        if low == 0.0 && high.is_infinite() {
            return self.emit("Relu", &[&value], Vec::new());
        }
        let info = self.output_info(0)?;
        let dtype = if info.quantised().is_some() {
            data_type::FLOAT
        } else {
            dtype
        };
        let (low, high) = (self.scalar_of(dtype, low)?, self.scalar_of(dtype, high)?);
        self.emit("Clip", &[&value, &low, &high], Vec::new())
    }
}

/// The least and the greatest real value of a quantised tensor with one scale, and the scale.
fn real_range(info: &TensorInfo) -> Option<(f32, f32, f32)> {
    let quantisation = info.quantised()?;
    let (&[scale], &[zero]) = (
        quantisation.scales.as_slice(),
        quantisation.zero_points.as_slice(),
    ) else {
        return None;
    };
    let (least, greatest) = match info.dtype {
        data_type::INT8 => (-128, 127),
        data_type::UINT8 => (0, 255),
        data_type::INT16 => (-32768, 32767),
        _ => return None,
    };
    let real = |integer: i64| integer.saturating_sub(zero) as f32 * scale;
    Some((real(least), real(greatest), scale))
}

fn narrow(values: &[i64], bytes: impl Fn(i64) -> Option<[u8; 2]>) -> Option<Vec<u8>> {
    let pairs: Option<Vec<[u8; 2]>> = values.iter().map(|&value| bytes(value)).collect();
    Some(pairs?.concat())
}

/// Integers of less than a byte, the first in the low bits.
fn packed(values: &[i64], bits: usize, range: std::ops::RangeInclusive<i64>) -> Option<Vec<u8>> {
    let each = 8 / bits;
    let byte = |chunk: &[i64]| {
        chunk.iter().enumerate().try_fold(0u8, |byte, (at, value)| {
            let low = (*value as u8) & ((1 << bits) - 1);
            range.contains(value).then_some(byte | low << (at * bits))
        })
    };
    values.chunks(each).map(byte).collect()
}
