//! Parts of several tensors, one after the other (facts 3.4).

use super::triple;
use crate::tensor::{TILE, Tensor};
use std::borrow::Borrow;
use tenon_netlist::{AttributeKey as Key, Op, UblockOrder};

/// What is taken of one input in each round, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Units skipped first.
    pub index: usize,
    /// Units copied.
    pub length: usize,
    /// Units gone forward after the skip.
    pub stride: usize,
}

impl Part {
    /// The parts of an op's inputs.
    pub fn of(op: &Op) -> Result<Vec<Part>, String> {
        let part = |input: usize| {
            let value = op.attributes.splice_input(input);
            let [index, length, stride] = value.and_then(|value| triple(&value.value))?;
            (length > 0 && stride >= length).then_some(Part {
                index,
                length,
                stride,
            })
        };
        (0..op.inputs.len())
            .map(|input| part(input).ok_or(format!("input{input} is no [index, length, stride]")))
            .collect()
    }
}

/// One unit: where it is in a core's part of a tensor, and its size, in elements.
#[derive(Clone, Copy)]
struct Unit {
    z: usize,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
}

/// The units of a tensor in their order: whole slices, or ublocks.
fn units(tensor: &Tensor, ublock: Option<([usize; 2], UblockOrder)>) -> Vec<Unit> {
    let (height, width) = (tensor.height(), tensor.width());
    let Some(([rows, columns], order)) = ublock else {
        return (0..tensor.t)
            .map(|z| Unit {
                z,
                top: 0,
                left: 0,
                height,
                width,
            })
            .collect();
    };
    let (down, across) = (tensor.rows / rows, tensor.columns / columns);
    let mut units = Vec::new();
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
    units
}

/// In rounds: of each input in turn the next part, until the output is full.
pub fn splice<T: Borrow<Tensor>>(op: &Op, parts: &[Part], inputs: &[T]) -> Result<Tensor, String> {
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
    );
    for core in (0..grid[0] * grid[1]).map(|core| [core / grid[1], core % grid[1]]) {
        let mut target = output.part(core, grid);
        let inputs = inputs.iter().map(Borrow::borrow);
        let sources: Vec<Tensor> = inputs.map(|input| input.part(core, grid)).collect();
        let lists: Vec<Vec<Unit>> = sources.iter().map(|source| units(source, unit)).collect();
        let mut starts = vec![0; sources.len()];
        let wanted = units(&target, unit);
        let mut next = wanted.iter();
        'full: loop {
            for (input, part) in parts.iter().enumerate() {
                let start = starts[input] + part.index;
                for place in start..start + part.length {
                    let Some(to) = next.next() else { break 'full };
                    let from = lists[input].get(place);
                    let from = from.ok_or(format!(
                        "input {input} is used up before the output is full"
                    ))?;
                    copy(&sources[input], *from, &mut target, *to)?;
                }
                starts[input] = start + part.stride;
            }
        }
        output.place(&target, core);
    }
    Ok(output)
}

fn copy(source: &Tensor, from: Unit, target: &mut Tensor, to: Unit) -> Result<(), String> {
    if (from.height, from.width) != (to.height, to.width) {
        return Err("parts of another size than the output's".to_owned());
    }
    for y in 0..from.height {
        let line = &source.row(from.z, from.top + y)[from.left..from.left + from.width];
        target.row_mut(to.z, to.top + y)[to.left..to.left + to.width].copy_from_slice(line);
    }
    Ok(())
}
