//! `netlist.splice`: concatenates parts of the inputs in turn (netlist 3.4).

use super::attributes::{sizes, wrong};
use super::op::{Compute, tensor_kernel};
use super::table::Table;
use super::tensor::{TileTensor, reserved, wrong_shape};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![tensor_kernel("netlist.splice", 1, bind).doc(
        "Concatenates `length` units of each input in turn, from unit `index` on, with a stride of \
         `stride` units: slices, or ublocks of each core.",
    )]
}

/// The units that are taken from one input in each turn.
#[derive(Clone, Copy)]
struct InputPattern {
    index: usize,
    length: usize,
    stride: usize,
}

/// The blocking of an input or output: grid, mblock and ublock.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Blocks {
    grid: [usize; 2],
    mblock: [usize; 2],
    ublock: [usize; 2],
}

fn bind(site: &Site<'_>) -> Result<Compute> {
    let attributes = site.attributes();
    let fields = attributes.i32s("takings")?;
    let mut inputs = Vec::new();
    for fields in fields.chunks(3) {
        let [index, length, stride] = fields else {
            return Err(wrong("takings", "three integers for each input"));
        };
        let size = |n: &i32| usize::try_from(*n).map_err(|_| wrong("takings", "at least 0"));
        let pattern = InputPattern {
            index: size(index)?,
            length: size(length)?,
            stride: size(stride)?,
        };
        if pattern.length == 0 || pattern.stride < pattern.length {
            return Err(wrong("takings", "0 < length <= stride"));
        }
        inputs.push(pattern);
    }
    let tiles: [usize; 3] = sizes(attributes, "tiles")?;
    let blocks = Blocks {
        grid: sizes(attributes, "grid")?,
        mblock: sizes(attributes, "mblock")?,
        ublock: sizes(attributes, "ublock")?,
    };
    Table::check(tiles)?;
    let blocked = [0, 1].map(|axis| {
        let core = blocks.mblock[axis].checked_mul(blocks.ublock[axis]);
        core.and_then(|core| core.checked_mul(blocks.grid[axis]))
    });
    if blocked != [Some(tiles[1]), Some(tiles[2])] {
        return Err(wrong("tiles", "the product of grid, mblock and ublock"));
    }
    let by_slice = attributes.string("granularity")? == "t";
    let by_column = attributes.string("order")? == "c";
    Ok(Box::new(move |operands| {
        if operands.len() != inputs.len() {
            return Err(wrong_shape("a splice requires a pattern for each input"));
        }
        let sources: Vec<(&TileTensor, InputPattern)> = operands
            .iter()
            .copied()
            .zip(inputs.iter().copied())
            .collect();
        if by_slice {
            slices(&sources, tiles)
        } else {
            ublocks(&sources, tiles, blocks, by_column)
        }
    }))
}

/// The input and the unit of each unit of the output. Every input must be used up at the end.
fn order(limits: &[usize], patterns: &[InputPattern], count: usize) -> Result<Vec<(usize, usize)>> {
    let mut order = reserved(count)?;
    let mut positions = vec![0; patterns.len()];
    while order.len() < count {
        for (input, pattern) in patterns.iter().enumerate() {
            let start = positions[input] + pattern.index;
            if start + pattern.length > limits[input] {
                return Err(wrong_shape("a splice reads beyond its input")
                    .expected(format_args!(
                        "{} units of input {input}",
                        start + pattern.length
                    ))
                    .found(limits[input]));
            }
            order.extend((start..start + pattern.length).map(|unit| (input, unit)));
            positions[input] += pattern.index + pattern.stride;
        }
    }
    if order.len() != count {
        return Err(
            wrong_shape("the turns of a splice do not end with its output").expected(count),
        );
    }
    for (input, (&position, &limit)) in positions.iter().zip(limits).enumerate() {
        if position < limit {
            return Err(
                wrong_shape(format!("a splice does not use all of input {input}"))
                    .expected(limit)
                    .found(position),
            );
        }
    }
    Ok(order)
}

fn slices(sources: &[(&TileTensor, InputPattern)], tiles: [usize; 3]) -> Result<TileTensor> {
    let tile = sources
        .first()
        .map_or([32, 32], |(tensor, _)| tensor.tile());
    let patterns: Vec<InputPattern> = sources.iter().map(|(_, pattern)| *pattern).collect();
    let mut limits = Vec::new();
    for (tensor, _) in sources {
        let [t, rows, columns] = tensor.tiles();
        if [rows, columns] != tiles[1..] || tensor.tile() != tile {
            return Err(
                wrong_shape("an input differs in shape from the output").found(tensor.describe())
            );
        }
        limits.push(t);
    }
    let order = order(&limits, &patterns, tiles[0])?;
    TileTensor::build(tiles, tile, |to| {
        let slice = tiles[1] * tile[0] * tiles[2] * tile[1];
        for ((input, unit), to) in order.into_iter().zip(to.chunks_mut(slice)) {
            to.copy_from_slice(&sources[input].0.values()[unit * slice..][..slice]);
        }
        Ok(())
    })
}

/// Concatenates ublocks, in the same order in every core and slice.
fn ublocks(
    sources: &[(&TileTensor, InputPattern)],
    tiles: [usize; 3],
    blocks: Blocks,
    by_column: bool,
) -> Result<TileTensor> {
    let tile = sources
        .first()
        .map_or([32, 32], |(tensor, _)| tensor.tile());
    let Blocks { grid, ublock, .. } = blocks;
    let patterns: Vec<InputPattern> = sources.iter().map(|(_, pattern)| *pattern).collect();
    let mut mblocks = Vec::new();
    for (tensor, _) in sources {
        let [t, rows, columns] = tensor.tiles();
        let unit = [grid[0] * ublock[0], grid[1] * ublock[1]];
        if t != tiles[0] || rows % unit[0] != 0 || columns % unit[1] != 0 || tensor.tile() != tile {
            return Err(
                wrong_shape("an input is not divisible into ublocks of the output")
                    .found(tensor.describe()),
            );
        }
        mblocks.push([rows / unit[0], columns / unit[1]]);
    }
    let limits: Vec<usize> = mblocks.iter().map(|[m, n]| m * n).collect();
    let order = order(&limits, &patterns, blocks.mblock[0] * blocks.mblock[1])?;
    // Row and column of a ublock in its mblock.
    let position = |unit: usize, [m, n]: [usize; 2]| {
        if by_column {
            [unit % m, unit / m]
        } else {
            [unit / n, unit % n]
        }
    };
    let size = [ublock[0] * tile[0], ublock[1] * tile[1]];
    // The first row and column of elements of a core's ublock.
    let corner = |core: [usize; 2], position: [usize; 2], mblock: [usize; 2]| {
        [0, 1].map(|axis| (core[axis] * mblock[axis] + position[axis]) * size[axis])
    };
    TileTensor::build(tiles, tile, |to| {
        let shape = [tiles[1] * tile[0], tiles[2] * tile[1]];
        for z in 0..tiles[0] {
            for core in 0..grid[0] * grid[1] {
                let core = [core / grid[1], core % grid[1]];
                for (at, &(input, unit)) in order.iter().enumerate() {
                    let [y, x] = corner(core, position(at, blocks.mblock), blocks.mblock);
                    let from = corner(core, position(unit, mblocks[input]), mblocks[input]);
                    let source = sources[input].0;
                    let [_, rows, line] = source.shape();
                    for row in 0..size[0] {
                        let from = (z * rows + from[0] + row) * line + from[1];
                        let at = (z * shape[0] + y + row) * shape[1] + x;
                        to[at..][..size[1]].copy_from_slice(&source.values()[from..][..size[1]]);
                    }
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(tiles: [usize; 3], first: f32) -> TileTensor {
        TileTensor::build(tiles, [1, 1], |to| {
            to.iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v = first + i as f32);
            Ok(())
        })
        .unwrap()
    }

    fn pattern(index: usize, length: usize, stride: usize) -> InputPattern {
        InputPattern {
            index,
            length,
            stride,
        }
    }

    /// `np.stack([a[0], b[0], a[1], b[1]])`.
    #[test]
    fn slices_alternate() {
        let (a, b) = (filled([2, 1, 2], 0.0), filled([2, 1, 2], 10.0));
        let spliced = slices(&[(&a, pattern(0, 1, 1)), (&b, pattern(0, 1, 1))], [4, 1, 2]).unwrap();
        assert_eq!(
            spliced.values(),
            [0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]
        );
    }

    /// Two cores in a row: each has its half of the inputs (`np.hsplit`).
    #[test]
    fn each_core_concatenates_its_own_ublocks() {
        let (a, b) = (filled([1, 1, 2], 0.0), filled([1, 1, 2], 10.0));
        let blocks = Blocks {
            grid: [1, 2],
            mblock: [1, 2],
            ublock: [1, 1],
        };
        let sources = [(&a, pattern(0, 1, 1)), (&b, pattern(0, 1, 1))];
        let spliced = ublocks(&sources, [1, 1, 4], blocks, false).unwrap();
        assert_eq!(spliced.values(), [0.0, 10.0, 1.0, 11.0]);
    }

    #[test]
    fn an_input_that_is_not_used_up_is_an_error() {
        let limits = [4, 1];
        let patterns = [pattern(0, 1, 1), pattern(0, 1, 1)];
        let error = order(&limits, &patterns, 2).unwrap_err();
        assert!(error.message().contains("does not use all of input 0"));
        assert!(order(&[1, 1], &patterns, 4).is_err());
        let skipping = [pattern(1, 1, 3)];
        assert_eq!(order(&[8], &skipping, 2).unwrap(), [(0, 1), (0, 5)]);
    }
}
