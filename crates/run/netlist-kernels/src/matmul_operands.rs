//! The operands of a matrix product after their TMs (netlist 4.1), without redundant work: broadcast rows,
//! columns and slices are multiplied once, and where one operand repeats along the inner dimension,
//! the matching parts of the other are summed first (distributivity).

use super::gather::Gather;
use super::table::Table;
use super::tensor::{TileTensor, wrong_shape};
use std::collections::HashMap;
use std::hash::Hash;
use tenon_base::Result;
use tenon_tile::TensorMovement;

/// The operands of a product of two tensors that are moved by tables of tiles.
pub(super) struct MatMulOperands {
    a: Gather,
    b: Gather,
    /// Whether B is `[t, n, k]`.
    transposed_b: bool,
    /// The scale of the product. Sums of an operand are divided by it, so that they are finite where
    /// the products are. A power of two, so that it is exact.
    scale: f32,
    /// Repeats the computed slices, rows and columns in the output.
    output: Gather,
}

/// The equivalence classes of indices: the first index of each class, and the class of each index.
struct IndexClasses {
    first: Vec<usize>,
    class_of: Vec<usize>,
}

impl IndexClasses {
    /// The classes of `0..count`: indices of equal keys are equivalent.
    fn new<K: Hash + Eq>(count: usize, key: impl Fn(usize) -> K) -> Self {
        let mut known = HashMap::new();
        let mut first = Vec::new();
        let class_of = (0..count)
            .map(|index| {
                *known.entry(key(index)).or_insert_with(|| {
                    first.push(index);
                    first.len() - 1
                })
            })
            .collect();
        Self { first, class_of }
    }

    /// One class for each index.
    fn distinct(count: usize) -> Self {
        Self {
            first: (0..count).collect(),
            class_of: (0..count).collect(),
        }
    }

    /// The indices of each class.
    fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.first.len()];
        for (index, &class) in self.class_of.iter().enumerate() {
            members[class].push(index);
        }
        members
    }
}

/// The distinct parts of an operand: its slices, and its rows (of A) or columns (of B).
struct DistinctParts<'t> {
    table: &'t Table,
    slices: Vec<usize>,
    lines: Vec<usize>,
}

impl DistinctParts<'_> {
    /// The tiles at one step of the inner dimension: `at` returns the tile of a slice and line.
    fn step(&self, at: impl Fn(&Table, usize, usize) -> u32) -> Vec<u32> {
        let slices = self.slices.iter();
        let tiles = slices.flat_map(|&z| self.lines.iter().map(move |&line| (z, line)));
        tiles.map(|(z, line)| at(self.table, z, line)).collect()
    }
}

impl MatMulOperands {
    /// The operands of the product of tensors that are moved by these tables; `b` has at least as many
    /// slices as `a`. `keep_depth` keeps the inner dimension, for sums with intermediate rounding.
    pub(super) fn new(a: &Table, b: &Table, keep_depth: bool) -> Result<Self> {
        let ([t, m, k], [b_t, b_k, n]) = (a.tiles(), b.tiles());
        if k != b_k || b_t < t {
            return Err(
                wrong_shape("the operands of a matrix product differ in depth or slices")
                    .expected(format_args!("[{t}, {k}, any] tiles"))
                    .found(format_args!("[{b_t}, {b_k}, {n}]")),
            );
        }
        let repeats = a.repeats() || b.repeats();
        let classes = |count, key: &dyn Fn(usize) -> Vec<u32>| {
            if repeats {
                IndexClasses::new(count, key)
            } else {
                IndexClasses::distinct(count)
            }
        };
        let a_classes = classes(t, &|z| slice(a, z).to_vec());
        let b_classes = classes(t, &|z| slice(b, z).to_vec());
        let slices = IndexClasses::new(t, |z| (a_classes.class_of[z], b_classes.class_of[z]));
        // One slice is broadcast where all are equal.
        let distinct = |classes: &IndexClasses| match classes.first.len() {
            1 => vec![0],
            _ => slices.first.clone(),
        };
        let (a_slices, b_slices) = (distinct(&a_classes), distinct(&b_classes));
        let rows = classes(m, &|r| {
            let tiles = a_slices
                .iter()
                .flat_map(|&z| (0..k).map(move |j| a.at(z, r, j)));
            tiles.collect()
        });
        let columns = classes(n, &|c| {
            let tiles = b_slices
                .iter()
                .flat_map(|&z| (0..k).map(move |j| b.at(z, j, c)));
            tiles.collect()
        });
        let a = DistinctParts {
            table: a,
            slices: a_slices,
            lines: rows.first,
        };
        let b = DistinctParts {
            table: b,
            slices: b_slices,
            lines: columns.first,
        };
        let computed = [slices.first.len(), a.lines.len(), b.lines.len()];
        let output =
            Table::new(computed)?.picked([&slices.class_of, &rows.class_of, &columns.class_of])?;
        let (a, b, transposed_b, scale) = if repeats && !keep_depth {
            with_short_depth(&a, &b, k)?
        } else {
            let (right, transposed_b) = gather_b(&b, k, !keep_depth)?;
            (gather_a(&a, k)?, right, transposed_b, 1.0)
        };
        Ok(Self {
            a,
            b,
            transposed_b,
            scale,
            output: Gather::of(output),
        })
    }

    /// A without repetitions, from the tensor before its TMs.
    pub(super) fn a(&self, a: &TileTensor) -> Result<TileTensor> {
        self.a.apply(a)
    }

    /// B without repetitions, from the tensor before its TMs.
    pub(super) fn b(&self, b: &TileTensor) -> Result<TileTensor> {
        self.b.apply(b)
    }

    /// Whether B is `[t, n, k]`.
    pub(super) fn transposed_b(&self) -> bool {
        self.transposed_b
    }

    /// The scale of the product of [`Self::a`] and [`Self::b`].
    pub(super) fn scale(&self) -> f32 {
        self.scale
    }

    /// The width of a tile of the product, from the tensor of B before its TMs.
    pub(super) fn width(&self, b: &TileTensor) -> usize {
        let [height, width] = b.tile();
        if self.transposed_b { height } else { width }
    }

    /// Whether the product of [`Self::a`] and [`Self::b`] is the output.
    pub(super) fn is_complete(&self) -> bool {
        self.output.is_view()
    }

    /// The output, from the product of [`Self::a`] and [`Self::b`].
    pub(super) fn output(&self, product: &TileTensor) -> Result<TileTensor> {
        self.output.apply(product)
    }
}

fn slice(table: &Table, z: usize) -> &[u32] {
    let [_, rows, columns] = table.tiles();
    &table.sources()[z * rows * columns..][..rows * columns]
}

/// A, with its whole inner dimension.
fn gather_a(a: &DistinctParts<'_>, k: usize) -> Result<Gather> {
    let depth: Vec<usize> = (0..k).collect();
    let picked = a.table.picked([&a.slices, &a.lines, &depth])?;
    Ok(Gather::of(picked))
}

/// B with its whole inner dimension, and whether it is `[t, n, k]`: transposed tiles need no copy then.
fn gather_b(b: &DistinctParts<'_>, k: usize, may_transpose: bool) -> Result<(Gather, bool)> {
    let depth: Vec<usize> = (0..k).collect();
    let mut picked = b.table.picked([&b.slices, &depth, &b.lines])?;
    let transposed_b = may_transpose && picked.flipped();
    if transposed_b {
        picked.apply(TensorMovement::Transpose)?;
    }
    Ok((Gather::of(picked), transposed_b))
}

/// Both operands with the shortest inner dimension.
fn with_short_depth(
    a: &DistinctParts<'_>,
    b: &DistinctParts<'_>,
    k: usize,
) -> Result<(Gather, Gather, bool, f32)> {
    let of_a = IndexClasses::new(k, |step| a.step(|table, z, r| table.at(z, r, step)));
    let of_b = IndexClasses::new(k, |step| b.step(|table, z, c| table.at(z, step, c)));
    let halves_depth = |classes: &IndexClasses| 2 * classes.first.len() <= k;
    let transposed_b = b.table.flipped();
    if halves_depth(&of_a) && of_a.first.len() <= of_b.first.len() {
        let left = a.table.picked([&a.slices, &a.lines, &of_a.first])?;
        let members = of_a.members();
        let scale = scale(&members);
        let (slices, depth, columns) = (b.slices.len(), members.len(), b.lines.len());
        let sum = |z: usize, step: usize, c: usize| {
            let steps = members[step].iter();
            let tiles = steps.map(|&step| b.table.at(b.slices[z], step, b.lines[c]));
            tiles.collect()
        };
        let right = if transposed_b {
            Gather::summed(b.table, [slices, columns, depth], scale, |[z, c, step]| {
                sum(z, step, c)
            })
        } else {
            Gather::summed(b.table, [slices, depth, columns], scale, |[z, step, c]| {
                sum(z, step, c)
            })
        };
        return Ok((Gather::of(left), right, transposed_b, scale));
    }
    if halves_depth(&of_b) && !a.table.flipped() {
        let members = of_b.members();
        let scale = scale(&members);
        let tiles = [a.slices.len(), a.lines.len(), members.len()];
        let left = Gather::summed(a.table, tiles, scale, |[z, r, step]| {
            let steps = members[step].iter();
            let tiles = steps.map(|&step| a.table.at(a.slices[z], a.lines[r], step));
            tiles.collect()
        });
        let mut right = b.table.picked([&b.slices, &of_b.first, &b.lines])?;
        if transposed_b {
            right.apply(TensorMovement::Transpose)?;
        }
        return Ok((left, Gather::of(right), transposed_b, scale));
    }
    let (right, transposed_b) = gather_b(b, k, true)?;
    Ok((gather_a(a, k)?, right, transposed_b, 1.0))
}

/// The least power of two that is not less than the members of any class.
fn scale(members: &[Vec<usize>]) -> f32 {
    let most = members.iter().map(Vec::len).max();
    most.unwrap_or(1).next_power_of_two() as f32
}

#[cfg(test)]
mod tests {
    use super::super::tensor::map;
    use super::*;

    /// Small integers, whose products are exact in f32.
    fn tensor(tiles: [usize; 3], tile: [usize; 2]) -> TileTensor {
        TileTensor::build(tiles, tile, |to| {
            let elements = to.iter_mut().enumerate();
            elements.for_each(|(i, v)| *v = ((i * 7 + i / 5) % 11) as f32 - 4.0);
            Ok(())
        })
        .unwrap()
    }

    /// `a` times `b` by the definition, with the slices of the shorter operand broadcast.
    fn multiplied(a: &TileTensor, b: &TileTensor, transposed_b: bool) -> TileTensor {
        let ([a_t, m, k], [b_t, second, third]) = (a.shape(), b.shape());
        let n = if transposed_b { second } else { third };
        let t = a_t.max(b_t);
        let width = if transposed_b {
            b.tile()[0]
        } else {
            b.tile()[1]
        };
        let tile = [a.tile()[0], width];
        TileTensor::build([t, m / tile[0], n / width], tile, |to| {
            for (i, to) in to.iter_mut().enumerate() {
                let (z, r, c) = (i / n / m, i / n % m, i % n);
                let left = &a.values()[(z % a_t * m + r) * k..][..k];
                let b = &b.values()[z % b_t * k * n..][..k * n];
                let right = |j: usize| {
                    if transposed_b {
                        b[c * k + j]
                    } else {
                        b[j * n + c]
                    }
                };
                *to = (0..k).map(|j| left[j] * right(j)).sum();
            }
            Ok(())
        })
        .unwrap()
    }

    /// Tiles and TMs of operands that become `[t, m, k]` and `[t, k, n]` tiles.
    const CASES: [([usize; 3], &str, [usize; 3], &str); 12] = [
        ([2, 3, 4], "", [3, 4, 2], ""),
        ([1, 2, 4], "broadcast_z 3", [1, 4, 2], "broadcast_z 3"),
        ([1, 2, 4], "broadcast_z 3", [3, 4, 2], ""),
        ([3, 2, 4], "", [1, 4, 2], "broadcast_z 3"),
        ([2, 2, 1], "broadcast_c 4", [2, 4, 1], "broadcast_c 3"),
        (
            [2, 2, 4],
            "broadcast_r 2; hstack 2; hslice 2",
            [2, 2, 1],
            "broadcast_c 2; broadcast_r 2",
        ),
        ([4, 1, 2], "broadcast_r 3; hstack 2", [2, 2, 4], "transpose"),
        (
            [4, 1, 2],
            "vslice 1; broadcast_c 6",
            [4, 4, 3],
            "broadcast_r 3",
        ),
        (
            [2, 4, 1],
            "transpose; broadcast_r 2",
            [2, 1, 4],
            "transpose; broadcast_c 2",
        ),
        (
            [2, 12, 1],
            "transpose",
            [2, 2, 6],
            "transpose; broadcast_r 2",
        ),
        ([2, 2, 1], "pad 0 3 2.5", [2, 2, 3], "pad 2 0 1.5"),
        ([6, 1, 2], "vstack 3", [4, 1, 5], "vstack 2"),
    ];

    #[test]
    fn products_without_repetitions_equal_the_definition() {
        for keep_depth in [false, true] {
            for (a_tiles, a_steps, b_tiles, b_steps) in CASES {
                let (a, b) = (tensor(a_tiles, [2, 3]), tensor(b_tiles, [3, 2]));
                let left = Table::through(a_tiles, a_steps).unwrap();
                let right = Table::through(b_tiles, b_steps).unwrap();
                // Transposed operands have transposed tiles, so that the inner dimensions match.
                let transpose = |of: &TileTensor, flipped| {
                    if flipped {
                        of.reshaped(of.tiles(), [of.tile()[1], of.tile()[0]])
                            .unwrap()
                    } else {
                        of.clone()
                    }
                };
                let (a, b) = (
                    transpose(&a, left.flipped()),
                    transpose(&b, right.flipped()),
                );
                let operands = MatMulOperands::new(&left, &right, keep_depth).unwrap();
                let (first, second) = (operands.a(&a).unwrap(), operands.b(&b).unwrap());
                let part = multiplied(&first, &second, operands.transposed_b());
                let part = map(&part, |x| x * operands.scale()).unwrap();
                let output = operands.output(&part).unwrap();

                let all = |table: Table, of: &TileTensor| Gather::of(table).apply(of).unwrap();
                let (a, b) = (all(left, &a), all(right, &b));
                let b = b
                    .part(0, [a.tiles()[0], b.tiles()[1], b.tiles()[2]])
                    .unwrap();
                let expected = multiplied(&a, &b, false);
                assert_eq!(
                    (output.tiles(), output.tile()),
                    (expected.tiles(), expected.tile())
                );
                assert_eq!(
                    output.values(),
                    expected.values(),
                    "{a_steps} and {b_steps}"
                );
            }
        }
    }

    #[test]
    fn sums_along_the_inner_dimension_stay_finite() {
        let left = Table::through([1, 1, 3], "broadcast_c 2").unwrap();
        let right = Table::through([1, 1, 1], "broadcast_r 6").unwrap();
        let operands = MatMulOperands::new(&left, &right, false).unwrap();
        let largest = TileTensor::build([1, 1, 3], [1, 1], |to| {
            to.fill(f32::MAX);
            Ok(())
        });
        let sum = operands.a(&largest.unwrap()).unwrap();
        assert_eq!((sum.tiles(), operands.scale()), ([1, 1, 1], 8.0));
        assert_eq!(sum.values(), [f32::MAX / 8.0 * 6.0]);
    }

    #[test]
    fn repeated_parts_are_multiplied_once() {
        let shapes = |a: [usize; 3], a_steps: &str, b: [usize; 3], b_steps: &str| {
            let left = Table::through(a, a_steps).unwrap();
            let right = Table::through(b, b_steps).unwrap();
            let operands = MatMulOperands::new(&left, &right, false).unwrap();
            let first = operands.a(&tensor(a, [1, 1])).unwrap();
            let second = operands.b(&tensor(b, [1, 1])).unwrap();
            (first.tiles(), second.tiles())
        };
        let one = shapes([1, 2, 4], "broadcast_z 3", [1, 4, 2], "broadcast_z 3");
        assert_eq!(one, ([1, 2, 4], [1, 4, 2]));
        let shared = shapes([1, 2, 4], "broadcast_z 3", [3, 4, 2], "");
        assert_eq!(shared, ([1, 2, 4], [3, 4, 2]));
        let rows = shapes([4, 1, 2], "broadcast_r 3; hstack 2", [2, 4, 2], "");
        assert_eq!(rows, ([2, 1, 4], [2, 4, 2]));
        let depth = shapes(
            [2, 2, 3],
            "broadcast_c 4",
            [2, 2, 5],
            "broadcast_c 2; broadcast_r 6",
        );
        assert_eq!(depth, ([2, 2, 2], [2, 2, 5]));
        let transposed = shapes([2, 2, 3], "", [2, 5, 3], "transpose");
        assert_eq!(transposed, ([2, 2, 3], [2, 5, 3]));
    }

    #[test]
    fn operands_of_different_depth_or_slices_are_refused() {
        let table = |tiles| Table::new(tiles).unwrap();
        assert!(MatMulOperands::new(&table([1, 2, 3]), &table([1, 4, 2]), false).is_err());
        assert!(MatMulOperands::new(&table([2, 2, 3]), &table([1, 3, 2]), false).is_err());
    }
}
