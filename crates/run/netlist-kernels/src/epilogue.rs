//! The epilogue of the matrix products of a netlist: bias, scale and activation (netlist 3.1).

use super::attributes::{flag, number_or, text_or_empty, wrong};
use super::backend::Elementwise;
use super::binary::to_int8;
use super::moves::resized;
use super::tensor::{TileTensor, for_each_chunk, same_shape, wrong_shape, zip};
use tenon_base::Result;
use tenon_executor::Site;
use tenon_tensor::{DataType, Tensor, TensorType};

/// The operations on the product, for both kernels.
pub(super) struct Epilogue {
    pub bias: bool,
    /// Whether elements are integers, whose bias is added element by element.
    pub integer: bool,
    /// The use of the scale, when there is one.
    scale: Option<Scale>,
    zero_point: f32,
    gelu: Option<Elementwise>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    /// To Int8.
    Requantize,
    /// To float.
    Dequantize,
}

impl Epilogue {
    pub fn read(site: &Site<'_>) -> Result<Self> {
        let attributes = site.attributes();
        let scale = match (flag(attributes, "requant")?, flag(attributes, "dequant")?) {
            (false, false) => None,
            (true, false) => Some(Scale::Requantize),
            (false, true) => Some(Scale::Dequantize),
            (true, true) => return Err(wrong("requant", "not dequant too")),
        };
        let gelu = match text_or_empty(attributes, "sfpu_op")? {
            "" => None,
            "gelu" => Some(Elementwise::gelu(site)?),
            other => return Err(wrong("sfpu_op", "gelu").found(other)),
        };
        Ok(Self {
            bias: flag(attributes, "bias")?,
            integer: flag(attributes, "integer")?,
            scale,
            zero_point: number_or(attributes, "zero_point", 0.0)?,
            gelu,
        })
    }

    /// The bias among the operands after A and B, and the operands after it.
    pub fn split<'a>(
        &self,
        rest: &'a [&'a TileTensor],
    ) -> Result<(Option<&'a TileTensor>, &'a [&'a TileTensor])> {
        match (self.bias, rest) {
            (false, _) => Ok((None, rest)),
            (true, [bias, more @ ..]) => Ok((Some(bias), more)),
            (true, []) => Err(wrong_shape("the bias operand is missing")),
        }
    }

    /// Whether there is at most a bias.
    pub fn is_bias_only(&self) -> bool {
        self.scale.is_none() && self.gelu.is_none()
    }

    /// Applies the bias, then the scale, which is the next operand, then the activation.
    pub fn apply(
        &self,
        mut product: TileTensor,
        bias: Option<&TileTensor>,
        rest: &[&TileTensor],
    ) -> Result<TileTensor> {
        if let Some(bias) = bias {
            product = add_bias(&product, bias, self.integer)?;
        }
        if let Some(scale) = self.scale {
            let by = rest
                .first()
                .ok_or_else(|| wrong_shape("the scale operand is missing"))?;
            let zero_point = self.zero_point;
            product = match scale {
                Scale::Requantize => to_int8(&zip(&product, by, |a, s| a * s + zero_point)?)?,
                Scale::Dequantize => zip(&product, by, |a, s| (a - zero_point) * s)?,
            };
        }
        match &self.gelu {
            Some(gelu) => gelu.run(&product),
            None => Ok(product),
        }
    }
}

/// Adds row 0 of each tile of the bias to all rows of the tile; a bias of one row of tiles is broadcast
/// to all rows of tiles. Integers are added element by element (netlist 3.1).
pub(super) fn add_bias(
    product: &TileTensor,
    bias: &TileTensor,
    integer: bool,
) -> Result<TileTensor> {
    let bias = &resized(bias, product.tile())?;
    if integer {
        return zip(product, bias, |a, b| a + b);
    }
    let columns = product.tiles()[2];
    let is_row = bias.tiles() == [1, 1, columns];
    if !is_row {
        same_shape(product, bias)?;
    }
    let (height, line) = (product.tile()[0], product.shape()[2]);
    let (values, bias) = (product.values(), bias.values());
    TileTensor::build_whole(product.tiles(), product.tile(), |to| {
        for_each_chunk(to, line, |y, to| {
            let values = &values[y * line..][..line];
            let row = if is_row { 0 } else { y - y % height };
            let bias = &bias[row * line..][..line];
            let pairs = values.iter().zip(bias);
            to.iter_mut()
                .zip(pairs)
                .for_each(|(to, (a, b))| *to = a + b);
        });
        Ok(())
    })
}

/// Row 0 of a bias of one row of tiles: one element per column of a product whose tiles have `width`
/// columns. `None` for any other bias.
pub(super) fn bias_row_of(bias: &TileTensor, width: usize) -> Result<Option<Tensor>> {
    if bias.tiles()[..2] != [1, 1] || bias.tile()[1] != width {
        return Ok(None);
    }
    let ty = TensorType::new(DataType::F32, [bias.shape()[2]])?;
    let bytes = bias.data().buffer().slice(0..ty.bytes());
    bytes.map(|bytes| Tensor::new(ty, bytes)).transpose()
}
