//! `netlist.matmul` and `netlist.depthwise` (facts 3.1).

use super::attributes::{flag, optional_format, size_or, sizes, text_or_empty};
use super::backend::{Added, Product};
use super::convert::round_to_format;
use super::factors::Factors;
use super::finish::{Finish, line};
use super::op::{Compute, Kept, tensor_kernel};
use super::table::Table;
use super::tensor::{TileTensor, added_to, for_each_chunk, wrong_shape, zip};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};
use tenon_tile::DataFormat;

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel(
            "netlist.matmul",
            2,
            "The product of each slice of what `steps_0` and `steps_1` make of the first two, in the \
             words of netlist.move; then sums of `z` slices, bias, scale and curve. With `sums` it \
             is added to the last operand, a sum of netlist.sum.",
            bind_matmul,
        ),
        tensor_kernel(
            "netlist.depthwise",
            2,
            "The sum over the blocks of input 0 side by side, each times the row of tiles of \
             input 1 that is its own.",
            bind_depthwise,
        ),
    ]
}

/// The formats of what a product spills, where numbers are rounded between ops.
#[derive(Clone, Copy)]
struct Formats {
    /// Of the registers that accumulate.
    accumulate: DataFormat,
    /// Of what is spilled between blocks of the depth.
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

/// The two factors on their way, and their product.
struct Multiply {
    factors: Factors,
    product: Product,
    /// Of each factor, where it comes again.
    kept: [Option<Kept>; 2],
}

impl Multiply {
    /// `z` slices of both become one with the depth of all of them.
    fn new(site: &Site<'_>, z: usize, stepwise: bool, adds: bool) -> Result<Self> {
        let attributes = site.attributes();
        let way = |tiles: &str, steps: &str| {
            Table::through(sizes(attributes, tiles)?, text_or_empty(attributes, steps)?)
        };
        let mut a = way("tiles_0", "steps_0")?;
        let mut b = way("tiles_1", "steps_1")?;
        if z > 1 {
            let [t, ..] = a.tiles();
            b = b.first_slices(t)?;
            a.apply(&format!("hstack {z}"))?;
            b.apply(&format!("vstack {z}"))?;
        }
        let factors = Factors::new(&a, &b, stepwise)?;
        let constants = [
            flag(attributes, "constant_0")?,
            flag(attributes, "constant_1")?,
        ];
        Ok(Self {
            product: Product::new(
                site,
                [factors.turned(), constants[1], adds],
                factors.scale(),
            )?,
            factors,
            kept: constants.map(|constant| constant.then(Kept::default)),
        })
    }

    /// What is made of the factor of that number.
    fn factor(&self, index: usize, came: &TileTensor) -> Result<TileTensor> {
        let make = || match index {
            0 => self.factors.first(came),
            _ => self.factors.second(came),
        };
        match &self.kept[index] {
            Some(kept) => kept.made(came, make),
            None => make(),
        }
    }

    fn run(
        &self,
        [a, b]: [&TileTensor; 2],
        multiply: impl FnOnce(&Product, &TileTensor, &TileTensor) -> Result<TileTensor>,
    ) -> Result<TileTensor> {
        let (a, b) = (self.factor(0, a)?, self.factor(1, b)?);
        self.factors.whole(&multiply(&self.product, &a, &b)?)
    }
}

fn bind_matmul(site: &Site<'_>) -> Result<Compute> {
    let finish = Finish::read(site)?;
    let z = size_or(site.attributes(), "z", 1)?.max(1);
    let blocks = size_or(site.attributes(), "m_k", 1)?.max(1);
    let formats = Formats::read(site)?;
    let together = if formats.is_some() { 1 } else { z };
    let sums = flag(site.attributes(), "sums")?;
    let joins = formats.is_none() && !finish.integer && (finish.bias || sums);
    let multiply = Multiply::new(site, together, formats.is_some(), joins)?;
    let joins = joins && multiply.factors.is_whole();
    Ok(Box::new(move |operands| {
        let (mut sum, operands) = match operands.split_last() {
            Some((sum, operands)) if sums => (sum.any(), operands),
            _ => (None, operands),
        };
        let [a, b, rest @ ..] = operands else {
            return Err(wrong_shape("a product of fewer than two operands"));
        };
        let (mut bias, rest) = finish.split(rest)?;
        let made = match formats {
            None => {
                // A bias for each column is added while the product is made, then the sum.
                let line = match bias.filter(|_| joins) {
                    Some(bias) => line(bias, multiply.factors.width(b))?,
                    None => None,
                };
                bias = bias.filter(|_| line.is_none());
                let joined = sum.take_if(|_| joins && bias.is_none() && finish.only_adds());
                let added = Added {
                    bias: line.as_ref(),
                    sum: joined,
                };
                multiply.run([a, b], |product, a, b| product.run(a, b, added))?
            }
            Some(formats) => {
                let spilled =
                    |product: &Product, a: &_, b: &_| spilled(product, a, b, blocks, formats);
                summed(&multiply.run([a, b], spilled)?, z)?
            }
        };
        added_to(sum, finish.apply(made, bias, rest)?)
    }))
}

/// The product block by block of the depth, each partial sum rounded as cores hold it: in the
/// registers, then where it is spilled until the next block.
fn spilled(
    product: &Product,
    a: &TileTensor,
    b: &TileTensor,
    blocks: usize,
    formats: Formats,
) -> Result<TileTensor> {
    let depth = a.tiles()[2];
    let is_cut = (2..=depth).contains(&blocks) && depth.is_multiple_of(blocks);
    if !is_cut || b.tiles()[1] != depth {
        return round_to_format(&product.run(a, b, Added::default())?, formats.accumulate);
    }
    let part = depth / blocks;
    let mut sum: Option<TileTensor> = None;
    for block in 0..blocks {
        let a = columns_of(a, block * part, part)?;
        let b = rows_of(b, block * part, part)?;
        let mut partial = product.run(&a, &b, Added::default())?;
        if let Some(sum) = sum {
            let spilled = round_to_format(&sum, formats.intermediate)?;
            partial = zip(&partial, &spilled, |a, b| a + b)?;
        }
        sum = Some(round_to_format(&partial, formats.accumulate)?);
    }
    sum.ok_or_else(|| wrong_shape("a product without depth"))
}

/// Columns of tiles from `first` on.
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

/// Rows of tiles from `first` on.
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

/// Groups of `z` slices become their sums.
fn summed(from: &TileTensor, z: usize) -> Result<TileTensor> {
    let [t, rows, columns] = from.tiles();
    if z == 1 {
        return Ok(from.clone());
    }
    if t % z != 0 {
        return Err(wrong_shape("slices do not fall into groups")
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
    let product = Product::new(site, [false; 3], 1.0)?;
    let finish = Finish::read(site)?;
    Ok(Box::new(move |operands| {
        let [a, b, rest @ ..] = operands else {
            return Err(wrong_shape("a product of fewer than two operands"));
        };
        let (bias, rest) = finish.split(rest)?;
        finish.apply(depthwise(&product, a, b)?, bias, rest)
    }))
}

/// `out[r, c] = sum over b of a[r, c + C * b] x w[b, c]`, products of single tiles (facts 3.1): for
/// each column of tiles one product of its blocks side by side with its weights below each other.
fn depthwise(product: &Product, a: &TileTensor, w: &TileTensor) -> Result<TileTensor> {
    let ([t, rows, all], [w_t, blocks, columns]) = (a.tiles(), w.tiles());
    if w_t < t || columns == 0 || all != blocks * columns {
        return Err(
            wrong_shape("the operands of a depthwise product do not fit")
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
        parts.push(product.run(&left, &right, Added::default())?);
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
