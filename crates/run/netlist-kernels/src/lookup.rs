//! `netlist.embedding`: rows of a table by index (netlist 3.5); `netlist.topk`: the largest elements of each
//! row, by a bitonic sorting network (Batcher, 1968) (netlist 3.6).

use super::attributes::{flag, size_or, sizes, wrong};
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, checked_shape, for_each_chunk, reserved, wrong_shape};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};

/// The index of a row of zeros.
const NO_ROW: u32 = u32::MAX;

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel("netlist.embedding", 2, bind_embedding)
            .doc("Rows of the table of input 0, by the raw integer indices of input 1."),
        tensor_kernel("netlist.topk", 2, bind_topk).doc(
            "The k largest elements of each row of input 0 in each column of cores, or the \
             elements of input 1 at their indices, by a bitonic network.",
        ),
    ]
}

fn bind_embedding(site: &Site<'_>) -> Result<Compute> {
    let attributes = site.attributes();
    let count = size_or(attributes, "num_indices", 0)?;
    let tiles: [usize; 3] = sizes(attributes, "tiles")?;
    let [grid_rows, _]: [usize; 2] = sizes(attributes, "grid")?;
    checked_shape(tiles, [32, 32])?;
    if grid_rows == 0 || Some(tiles[1] * 32) != grid_rows.checked_mul(count) {
        return Err(wrong("num_indices", "32 for each row of tiles of a core"));
    }
    Ok(Box::new(move |operands| {
        let [table, indices] = operands else {
            return Err(wrong_shape("an embedding requires a table and indices"));
        };
        embedding(table, indices, tiles, grid_rows, count)
    }))
}

fn embedding(
    table: &TileTensor,
    indices: &TileTensor,
    tiles: [usize; 3],
    cores: usize,
    count: usize,
) -> Result<TileTensor> {
    let [slices, height, width] = table.shape();
    let rows = slices * height;
    if width != tiles[2] * 32 {
        return Err(wrong_shape("the table differs in width from the result")
            .expected(tiles[2] * 32)
            .found(width));
    }
    // Indices are stored tile by tile (netlist 3.5); each row of cores uses the first of its share.
    let all = tile_by_tile(indices)?;
    let share = all.len() / cores;
    if share < count {
        return Err(wrong_shape("too few indices").expected(count).found(share));
    }
    let result_rows = tiles[0] * cores * count;
    let values = table.values();
    let picked: Vec<u32> = (0..result_rows)
        .map(|i| all[i / count % cores * share + i % count].to_bits())
        .collect();
    if let Some(wrong) = picked.iter().find(|&&i| i != NO_ROW && i as usize >= rows) {
        return Err(
            wrong_shape(format!("index {wrong} is out of the bounds of the table"))
                .expected(format_args!("less than {rows}")),
        );
    }
    TileTensor::build(tiles, [32, 32], |to| {
        for_each_chunk(to, width, |i, to| {
            if picked[i] != NO_ROW {
                to.copy_from_slice(&values[picked[i] as usize * width..][..width]);
            }
        });
        Ok(())
    })
}

/// The elements, tile by tile.
fn tile_by_tile(from: &TileTensor) -> Result<Vec<f32>> {
    let [t, rows, columns] = from.tiles();
    let [height, width] = from.tile();
    let (values, line) = (from.values(), from.shape()[2]);
    let mut all = reserved(values.len())?;
    for row in 0..t * rows {
        for column in 0..columns {
            for y in 0..height {
                let start = (row * height + y) * line + column * width;
                all.extend(&values[start..][..width]);
            }
        }
    }
    Ok(all)
}

fn bind_topk(site: &Site<'_>) -> Result<Compute> {
    let attributes = site.attributes();
    let k = size_or(attributes, "k", 0)?;
    let tiles: [usize; 3] = sizes(attributes, "tiles")?;
    let [_, cores]: [usize; 2] = sizes(attributes, "grid")?;
    let argmax = match attributes.string("sort")? {
        "max" => false,
        "argmax" => true,
        other => return Err(wrong("sort", "max or argmax").found(other)),
    };
    let sorted = flag(attributes, "kreduce")?;
    checked_shape(tiles, [1, 32])?;
    let columns = cores.checked_mul(k.div_ceil(32));
    if !k.is_power_of_two() || cores == 0 || Some(tiles[2]) != columns {
        return Err(wrong(
            "k",
            "a power of two that fits the columns of the result",
        ));
    }
    Ok(Box::new(move |operands| {
        let [values, indices] = operands else {
            return Err(wrong_shape("topk requires values and indices"));
        };
        let topk = Topk {
            k,
            cores,
            argmax,
            sorted,
        };
        topk.run(values, indices, tiles)
    }))
}

#[derive(Clone, Copy)]
struct Topk {
    k: usize,
    cores: usize,
    /// Whether the results are elements of input 1, at the indices of the largest.
    argmax: bool,
    /// Whether runs of `k` are sorted already.
    sorted: bool,
}

impl Topk {
    fn run(
        &self,
        values: &TileTensor,
        indices: &TileTensor,
        tiles: [usize; 3],
    ) -> Result<TileTensor> {
        super::tensor::same_shape(values, indices)?;
        let line = values.shape()[2];
        let share = line / self.cores;
        if values.tiles()[..2] != tiles[..2] {
            return Err(
                wrong_shape("the result of topk differs in rows from its operands")
                    .expected(format_args!("{:?}", &tiles[..2]))
                    .found(values.describe()),
            );
        }
        if !line.is_multiple_of(self.cores) || !share.is_power_of_two() || share < self.k {
            return Err(wrong_shape(
                "topk requires a power of two of columns in each core, and at least k",
            )
            .found(share));
        }
        let width = tiles[2] / self.cores * 32;
        let (keys, indices) = (values.values(), indices.values());
        TileTensor::build(tiles, [values.tile()[0], 32], |to| {
            for_each_chunk(to, width * self.cores, |y, to| {
                for core in 0..self.cores {
                    let from = y * line + core * share;
                    let pairs = keys[from..][..share].iter().zip(&indices[from..][..share]);
                    let mut pairs: Vec<(f32, f32)> = pairs.map(|(&a, &b)| (a, b)).collect();
                    self.select(&mut pairs);
                    for (to, (value, index)) in to[core * width..].iter_mut().zip(&pairs[..self.k])
                    {
                        *to = if self.argmax { *index } else { *value };
                    }
                }
            });
            Ok(())
        })
    }

    /// Moves the `k` largest to the front, in descending order.
    fn select(&self, pairs: &mut [(f32, f32)]) {
        let n = pairs.len();
        let mut size = if self.sorted { 2 * self.k } else { 2 };
        while size <= n {
            let mut distance = size / 2;
            while distance > 0 {
                for i in (0..n).filter(|i| i & distance == 0) {
                    let descending = i & size == 0;
                    let (a, b) = (pairs[i].0, pairs[i + distance].0);
                    if if descending { a < b } else { a > b } {
                        pairs.swap(i, i + distance);
                    }
                }
                distance /= 2;
            }
            size *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(tiles: [usize; 3], value: impl Fn(usize) -> f32) -> TileTensor {
        TileTensor::build(tiles, [32, 32], |to| {
            to.iter_mut().enumerate().for_each(|(i, v)| *v = value(i));
            Ok(())
        })
        .unwrap()
    }

    /// The definition: row i is row `index[i]`, or zeros for `NO_ROW`.
    #[test]
    fn rows_are_selected_by_raw_indices() {
        let table = tensor([1, 2, 1], |i| i as f32);
        let picks = [5u32, 63, NO_ROW, 0];
        let indices = tensor([1, 1, 1], |i| {
            f32::from_bits(picks.get(i).copied().unwrap_or(1))
        });
        let rows_of_table = embedding(&table, &indices, [1, 1, 1], 1, 32).unwrap();
        let row = |i: usize| rows_of_table.values()[i * 32];
        assert_eq!(
            [row(0), row(1), row(2), row(3), row(4)],
            [160.0, 2016.0, 0.0, 0.0, 32.0]
        );
        let far = tensor([1, 1, 1], |_| f32::from_bits(64));
        assert!(embedding(&table, &far, [1, 1, 1], 1, 32).is_err());
    }

    /// `np.sort(x)[::-1][:k]`, and `np.argsort` for indices.
    #[test]
    fn the_largest_are_in_descending_order() {
        let values = tensor([1, 1, 2], |i| ((i % 64) * 37 % 64) as f32);
        let indices = tensor([1, 1, 2], |i| (i % 64) as f32);
        let topk = |argmax| Topk {
            k: 4,
            cores: 1,
            argmax,
            sorted: false,
        };
        let top = topk(false).run(&values, &indices, [1, 1, 1]).unwrap();
        assert_eq!(top.values()[..5], [63.0, 62.0, 61.0, 60.0, 0.0]);
        let top_indices = topk(true).run(&values, &indices, [1, 1, 1]).unwrap();
        assert_eq!(top_indices.values()[..4], [19.0, 38.0, 57.0, 12.0]);
    }
}
