//! `netlist.move`: the tensor movements (TMs) of an operand (netlist 4.1), unpad and pad among them, as one
//! table of tiles that is computed when the kernel is bound; and movements inside of tiles.

use super::attributes::{sizes, text_or_empty, wrong};
use super::gather::Gather;
use super::moved_operand::BroadcastAxes;
use super::op::{Compute, tensor_kernel};
use super::table::Table;
use super::tensor::{TileTensor, for_each_chunk, wrong_shape};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel("netlist.nop", 1, |_| {
            Ok(Box::new(|operands| Ok(operands[0].clone())))
        })
        .doc("Its operand."),
        tensor_kernel("netlist.move", 1, bind_move).doc(
            "Applies the TMs of `steps` in order: unpad, pad, broadcast_r, broadcast_c, \
             broadcast_z, transpose, hslice, vslice, hstack, vstack.",
        ),
        tensor_kernel("netlist.tile_broadcast", 1, bind_tile_broadcast).doc(
            "Broadcasts row 0 (r), column 0 (c) or element 0 (rc) of each tile over the tile.",
        ),
        tensor_kernel("netlist.resize", 1, bind_resize)
            .doc("Truncates tiles to a height and width, or pads them with zeros."),
    ]
}

fn bind_move(site: &Site<'_>) -> Result<Compute> {
    let tiles: [usize; 3] = sizes(site.attributes(), "tiles")?;
    let gather = Gather::of(Table::through(
        tiles,
        text_or_empty(site.attributes(), "steps")?,
    )?);
    Ok(Box::new(move |operands| {
        let [from] = operands else {
            return Err(wrong_shape("a tensor movement requires one operand"));
        };
        gather.apply(from)
    }))
}

fn bind_tile_broadcast(site: &Site<'_>) -> Result<Compute> {
    let BroadcastAxes { rows, columns } =
        BroadcastAxes::of("dim", site.attributes().string("dim")?)?;
    Ok(Box::new(move |operands| {
        let from = operands[0];
        let [height, width] = from.tile();
        let line = from.shape()[2];
        let values = from.values();
        TileTensor::build_whole(from.tiles(), from.tile(), |to| {
            for_each_chunk(to, line, |y, to| {
                let source = if rows { y - y % height } else { y };
                let source = &values[source * line..][..line];
                if columns {
                    let tiles = to.chunks_mut(width).zip(source.chunks(width));
                    tiles.for_each(|(to, from)| to.fill(from[0]));
                } else {
                    to.copy_from_slice(source);
                }
            });
            Ok(())
        })
    }))
}

fn bind_resize(site: &Site<'_>) -> Result<Compute> {
    let [height, width]: [usize; 2] = sizes(site.attributes(), "tile")?;
    if height == 0 || width == 0 || height > 32 || width > 32 {
        return Err(wrong("tile", "1 to 32 rows and columns"));
    }
    Ok(Box::new(move |operands| {
        resized(operands[0], [height, width])
    }))
}

/// The same tiles, truncated or padded with zeros (netlist 3.8).
pub(super) fn resized(from: &TileTensor, tile: [usize; 2]) -> Result<TileTensor> {
    let [height, width] = from.tile();
    let (values, line) = (from.values(), from.shape()[2]);
    let common = [height.min(tile[0]), width.min(tile[1])];
    TileTensor::build(from.tiles(), tile, |to| {
        let length = from.tiles()[2] * tile[1];
        for_each_chunk(to, length, |y, to| {
            let (row, within) = (y / tile[0], y % tile[0]);
            if within >= common[0] {
                return;
            }
            let source = &values[(row * height + within) * line..][..line];
            let tiles = to.chunks_mut(tile[1]).zip(source.chunks(width));
            tiles.for_each(|(to, from)| to[..common[1]].copy_from_slice(&from[..common[1]]));
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tensor::arange;
    use super::*;

    #[test]
    fn tiles_are_truncated_and_padded() {
        let small = resized(&arange([1, 1, 2], [2, 2]), [1, 1]).unwrap();
        assert_eq!(small.values(), [0.0, 2.0]);
        let large = resized(&small, [2, 2]).unwrap();
        assert_eq!(large.values(), [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
