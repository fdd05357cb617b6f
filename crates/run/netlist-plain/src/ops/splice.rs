//! Splice: interleaves parts of several tensors (netlist 3.4).

use super::triple;
use crate::error::failed;
use crate::tensor::{TILE, Tensor, with_capacity};
use std::borrow::Borrow;
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, Op, UblockOrder};

/// The part of one input that each round copies, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplicePart {
    /// Number of units skipped.
    pub index: usize,
    /// Number of units copied.
    pub length: usize,
    /// Number of units advanced after the skip.
    pub stride: usize,
}

impl SplicePart {
    /// The parts of an op's inputs.
    pub fn of(op: &Op) -> Result<Vec<SplicePart>> {
        let part = |input: usize| {
            let value = op.attributes.splice_input(input);
            let [index, length, stride] = value.and_then(|value| triple(&value.value))?;
            (length > 0 && stride >= length).then_some(SplicePart {
                index,
                length,
                stride,
            })
        };
        (0..op.inputs.len())
            .map(|input| {
                part(input)
                    .ok_or_else(|| failed(format!("input{input} is no [index, length, stride]")))
            })
            .collect()
    }
}

/// The position and size of a unit in the core part of a tensor, in elements.
#[derive(Clone, Copy)]
struct Unit {
    z: usize,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
}

/// The units of a tensor in order: slices, or ublocks.
fn units(tensor: &Tensor, ublock: Option<([usize; 2], UblockOrder)>) -> Result<Vec<Unit>> {
    let (height, width) = (tensor.height(), tensor.width());
    let Some(([rows, columns], order)) = ublock else {
        let mut units = with_capacity("list of slices", tensor.t)?;
        units.extend((0..tensor.t).map(|z| Unit {
            z,
            top: 0,
            left: 0,
            height,
            width,
        }));
        return Ok(units);
    };
    let (down, across) = (tensor.rows / rows, tensor.columns / columns);
    let mut units = with_capacity("list of ublocks", tensor.t * down * across)?;
    for z in 0..tensor.t {
        for number in 0..down * across {
            let (i, j) = match order {
                UblockOrder::Row => (number / across, number % across),
                UblockOrder::Column => (number % down, number / down),
            };
            let (height, width) = (rows * TILE, columns * TILE);
            units.push(Unit {
                z,
                top: i * height,
                left: j * width,
                height,
                width,
            });
        }
    }
    Ok(units)
}

/// Copies in rounds the next part of each input in turn, until the output is full.
pub fn splice<T: Borrow<Tensor>>(op: &Op, parts: &[SplicePart], inputs: &[T]) -> Result<Tensor> {
    let blocking = &op.blocking;
    let size = |pair: [u32; 2]| pair.map(|size| size as usize);
    let (grid, ublock) = (size(blocking.grid_size.value), size(blocking.ublock.value));
    let order = blocking.order();
    let by_slice = op.attributes.word(Key::Granularity) == Some("t");
    let unit = (!by_slice).then_some((ublock, order));
    let mut output = Tensor::zeros(
        blocking.t.value as usize,
        blocking.rows() as usize,
        blocking.columns() as usize,
    )?;
    for core in (0..grid[0] * grid[1]).map(|core| [core / grid[1], core % grid[1]]) {
        let mut target = output.core_part(core, grid)?;
        let inputs = inputs.iter().map(Borrow::borrow);
        let sources = inputs.map(|input| input.core_part(core, grid));
        let sources: Vec<Tensor> = sources.collect::<Result<_>>()?;
        let lists = sources.iter().map(|source| units(source, unit));
        let lists: Vec<Vec<Unit>> = lists.collect::<Result<_>>()?;
        let mut starts = vec![0; sources.len()];
        let targets = units(&target, unit)?;
        let mut next = targets.iter();
        'full: loop {
            for (input, part) in parts.iter().enumerate() {
                let start = starts[input] + part.index;
                for source in start..start + part.length {
                    let Some(to) = next.next() else { break 'full };
                    let from = lists[input].get(source);
                    let from = from.ok_or_else(|| {
                        failed(format!("input {input} ends before the output is full"))
                    })?;
                    copy(&sources[input], *from, &mut target, *to)?;
                }
                starts[input] = start + part.stride;
            }
        }
        output.set_core_part(&target, core);
    }
    Ok(output)
}

fn copy(source: &Tensor, from: Unit, target: &mut Tensor, to: Unit) -> Result<()> {
    if (from.height, from.width) != (to.height, to.width) {
        return Err(failed("the units of input and output differ in size"));
    }
    for y in 0..from.height {
        let line = &source.row(from.z, from.top + y)[from.left..from.left + from.width];
        target.row_mut(to.z, to.top + y)[to.left..to.left + to.width].copy_from_slice(line);
    }
    Ok(())
}
