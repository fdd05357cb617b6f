//! `netlist.matmul` and `netlist.depthwise` (netlist 3.1).

use super::attributes::{flag, optional_format, size_or, sizes, text_or_empty, wrong};
use super::backend::{BatchMatMul, MatMulAddends};
use super::convert::round_to_format;
use super::epilogue::{Epilogue, bias_row_of};
use super::matmul_operands::MatMulOperands;
use super::op::{Compute, ConstantCache, tensor_kernel};
use super::table::Table;
use super::tensor::{TileTensor, added_to, for_each_chunk, wrong_shape, zip};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};
use tenon_tile::{DataFormat, TensorMovement};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel("netlist.matmul", 2, bind_matmul).doc(
            "The matrix product, slice by slice, of the first two operands after the TMs \
             `steps_0` and `steps_1` (as in netlist.move); then the sum of each `z` slices, \
             bias, scale and activation. With `sums` it is added to the last operand, a sum of \
             netlist.sum.",
        ),
        tensor_kernel("netlist.depthwise", 2, bind_depthwise).doc(
            "The sum over the column blocks of input 0, each times the row of tiles of input 1 \
             of the same index.",
        ),
    ]
}

/// The formats of partial sums, where elements are rounded between ops.
#[derive(Clone, Copy)]
struct Formats {
    /// The format of the accumulator registers.
    accumulate: DataFormat,
    /// The format of partial sums that are spilled between K blocks.
    intermediate: DataFormat,
}

impl Formats {
    fn read(site: &Site<'_>) -> Result<Option<Self>> {
        let attributes = site.attributes();
        let accumulate = optional_format(attributes, "accumulate")?;
        let intermediate = optional_format(attributes, "intermediate")?;
        let both = accumulate.zip(intermediate);
        Ok(both.map(|(accumulate, intermediate)| Self {
            accumulate,
            intermediate,
        }))
    }
}

/// A matrix product of two operands with TMs.
struct MatMul {
    operands: MatMulOperands,
    product: BatchMatMul,
    /// For each operand that is constant, its last tensor after the TMs.
    caches: [Option<ConstantCache>; 2],
}

impl MatMul {
    /// Each `z` slices of both operands are one slice of `z` times the depth. `adds`: the product may
    /// have a bias or a sum.
    fn new(site: &Site<'_>, z: usize, keep_depth: bool, adds: bool) -> Result<Self> {
        let attributes = site.attributes();
        let moved = |tiles: &str, steps: &str| {
            Table::through(sizes(attributes, tiles)?, text_or_empty(attributes, steps)?)
        };
        let mut a = moved("tiles_0", "steps_0")?;
        let mut b = moved("tiles_1", "steps_1")?;
        if z > 1 {
            let [t, ..] = a.tiles();
            b = b.first_slices(t)?;
            let stacked = u32::try_from(z).map_err(|_| wrong("z", "a size of 32 bits"))?;
            a.apply(TensorMovement::Hstack(stacked))?;
            b.apply(TensorMovement::Vstack(stacked))?;
        }
        let operands = MatMulOperands::new(&a, &b, keep_depth)?;
        let constants = [
            flag(attributes, "constant_0")?,
            flag(attributes, "constant_1")?,
        ];
        Ok(Self {
            product: BatchMatMul::new(
                site,
                [operands.transposed_b(), constants[1], adds],
                operands.scale(),
            )?,
            operands,
            caches: constants.map(|constant| constant.then(ConstantCache::default)),
        })
    }

    /// Operand `index` after its TMs.
    fn operand(&self, index: usize, from: &TileTensor) -> Result<TileTensor> {
        let make = || match index {
            0 => self.operands.a(from),
            _ => self.operands.b(from),
        };
        match &self.caches[index] {
            Some(cache) => cache.get_or_compute(from, make),
            None => make(),
        }
    }

    fn run(
        &self,
        [a, b]: [&TileTensor; 2],
        multiply: impl FnOnce(&BatchMatMul, &TileTensor, &TileTensor) -> Result<TileTensor>,
    ) -> Result<TileTensor> {
        let (a, b) = (self.operand(0, a)?, self.operand(1, b)?);
        self.operands.output(&multiply(&self.product, &a, &b)?)
    }
}

fn bind_matmul(site: &Site<'_>) -> Result<Compute> {
    let epilogue = Epilogue::read(site)?;
    let z = size_or(site.attributes(), "z", 1)?.max(1);
    let blocks = size_or(site.attributes(), "m_k", 1)?.max(1);
    let formats = Formats::read(site)?;
    let slices = if formats.is_some() { 1 } else { z };
    let sums = flag(site.attributes(), "sums")?;
    let fuses = formats.is_none() && !epilogue.integer && (epilogue.bias || sums);
    let multiply = MatMul::new(site, slices, formats.is_some(), fuses)?;
    let fuses = fuses && multiply.operands.is_complete();
    Ok(Box::new(move |operands| {
        let (mut sum, operands) = match operands.split_last() {
            Some((sum, operands)) if sums => (sum.non_empty(), operands),
            _ => (None, operands),
        };
        let [a, b, rest @ ..] = operands else {
            return Err(wrong_shape("a matrix product requires two operands"));
        };
        let (mut bias, rest) = epilogue.split(rest)?;
        let product = match formats {
            None => {
                // A bias of one row, and then the sum, are fused into the product's epilogue.
                let bias_row = match bias.filter(|_| fuses) {
                    Some(bias) => bias_row_of(bias, multiply.operands.width(b))?,
                    None => None,
                };
                bias = bias.filter(|_| bias_row.is_none());
                let fused_sum = sum.take_if(|_| fuses && bias.is_none() && epilogue.is_bias_only());
                let addends = MatMulAddends {
                    bias: bias_row.as_ref(),
                    sum: fused_sum,
                };
                multiply.run([a, b], |product, a, b| product.run(a, b, addends))?
            }
            Some(formats) => {
                let in_blocks = |product: &BatchMatMul, a: &_, b: &_| {
                    in_k_blocks(product, a, b, blocks, formats)
                };
                sum_of_slices(&multiply.run([a, b], in_blocks)?, z)?
            }
        };
        added_to(sum, epilogue.apply(product, bias, rest)?)
    }))
}

/// The product in K blocks, whose partial sums are rounded as on a core: to the accumulator's format,
/// then to the format that they are spilled in until the next block.
fn in_k_blocks(
    product: &BatchMatMul,
    a: &TileTensor,
    b: &TileTensor,
    blocks: usize,
    formats: Formats,
) -> Result<TileTensor> {
    let depth = a.tiles()[2];
    let is_divided = (2..=depth).contains(&blocks) && depth.is_multiple_of(blocks);
    if !is_divided || b.tiles()[1] != depth {
        return round_to_format(
            &product.run(a, b, MatMulAddends::default())?,
            formats.accumulate,
        );
    }
    let part = depth / blocks;
    let mut sum: Option<TileTensor> = None;
    for block in 0..blocks {
        let a = columns_of(a, block * part, part)?;
        let b = rows_of(b, block * part, part)?;
        let mut partial = product.run(&a, &b, MatMulAddends::default())?;
        if let Some(sum) = sum {
            let spilled = round_to_format(&sum, formats.intermediate)?;
            partial = zip(&partial, &spilled, |a, b| a + b)?;
        }
        sum = Some(round_to_format(&partial, formats.accumulate)?);
    }
    sum.ok_or_else(|| wrong_shape("a matrix product requires an inner dimension"))
}

/// `count` columns of tiles from `first` on.
fn columns_of(from: &TileTensor, first: usize, count: usize) -> Result<TileTensor> {
    let [t, rows, _] = from.tiles();
    let (width, line) = (from.tile()[1], from.shape()[2]);
    let values = from.values();
    TileTensor::build_whole([t, rows, count], from.tile(), |to| {
        for_each_chunk(to, count * width, |y, to| {
            to.copy_from_slice(&values[y * line + first * width..][..to.len()]);
        });
        Ok(())
    })
}

/// `count` rows of tiles from `first` on.
fn rows_of(from: &TileTensor, first: usize, count: usize) -> Result<TileTensor> {
    let [t, rows, columns] = from.tiles();
    let (height, line) = (from.tile()[0], from.shape()[2]);
    let values = from.values();
    TileTensor::build_whole([t, count, columns], from.tile(), |to| {
        let slice = count * height * line;
        for_each_chunk(to, slice, |z, to| {
            let start = (z * rows + first) * height * line;
            to.copy_from_slice(&values[start..][..slice]);
        });
        Ok(())
    })
}

/// The sum of each group of `z` slices.
fn sum_of_slices(from: &TileTensor, z: usize) -> Result<TileTensor> {
    let [t, rows, columns] = from.tiles();
    if z == 1 {
        return Ok(from.clone());
    }
    if t % z != 0 {
        return Err(wrong_shape("the slices are not divisible into groups")
            .expected(z)
            .found(t));
    }
    let mut sum = TileTensor::zeroed([t / z, rows, columns], from.tile())?;
    let slice = from.shape()[1] * from.shape()[2];
    for part in 0..z {
        let values = from.values();
        let before = sum.values();
        sum = TileTensor::build(sum.tiles(), sum.tile(), |to| {
            for_each_chunk(to, slice, |group, to| {
                let values = &values[(group * z + part) * slice..][..slice];
                let pairs = values.iter().zip(&before[group * slice..][..slice]);
                to.iter_mut()
                    .zip(pairs)
                    .for_each(|(to, (a, b))| *to = a + b);
            });
            Ok(())
        })?;
    }
    Ok(sum)
}

fn bind_depthwise(site: &Site<'_>) -> Result<Compute> {
    let product = BatchMatMul::new(site, [false; 3], 1.0)?;
    let epilogue = Epilogue::read(site)?;
    Ok(Box::new(move |operands| {
        let [a, b, rest @ ..] = operands else {
            return Err(wrong_shape("a matrix product requires two operands"));
        };
        let (bias, rest) = epilogue.split(rest)?;
        epilogue.apply(depthwise(&product, a, b)?, bias, rest)
    }))
}

/// `out[r, c] = sum over b of a[r, c + C * b] x w[b, c]`, products of single tiles (netlist 3.1): one
/// matrix product for each column of tiles, of its blocks in a row and its weights in a column.
fn depthwise(product: &BatchMatMul, a: &TileTensor, w: &TileTensor) -> Result<TileTensor> {
    let ([t, rows, all], [w_t, blocks, columns]) = (a.tiles(), w.tiles());
    if w_t < t || columns == 0 || all != blocks * columns {
        return Err(
            wrong_shape("the operands of a depthwise product differ in columns or slices")
                .expected(format!("{} columns of tiles in input 0", blocks * columns))
                .found(all),
        );
    }
    let (tile, weights_tile) = (a.tile(), w.tile());
    let lines = [a.shape()[2], w.shape()[2]];
    let mut parts = Vec::with_capacity(columns);
    for column in 0..columns {
        let left = TileTensor::build([t, rows, blocks], tile, |to| {
            for_each_chunk(to, blocks * tile[1], |y, to| {
                let from = &a.values()[y * lines[0]..][..lines[0]];
                for (block, to) in to.chunks_mut(tile[1]).enumerate() {
                    to.copy_from_slice(&from[(column + columns * block) * tile[1]..][..tile[1]]);
                }
            });
            Ok(())
        })?;
        let right = columns_of(&w.part(0, [t, blocks, columns])?, column, 1)?;
        parts.push(product.run(&left, &right, MatMulAddends::default())?);
    }
    let width = weights_tile[1];
    TileTensor::build([t, rows, columns], [tile[0], width], |to| {
        for_each_chunk(to, columns * width, |y, to| {
            for (part, to) in parts.iter().zip(to.chunks_mut(width)) {
                to.copy_from_slice(&part.values()[y * width..][..width]);
            }
        });
        Ok(())
    })
}
