//! The two factors of a product as their ways bring them together (facts 4), without what the ways
//! only repeat: rows, columns and slices that come again are computed once, and where those of the
//! depth come again in one factor, the other's are added up before they are multiplied.

use super::gather::Gather;
use super::table::Table;
use super::tensor::{TileTensor, wrong_shape};
use std::collections::HashMap;
use std::hash::Hash;
use tenon_base::Result;

/// How to compute a product of two tensors that arrive by tables.
pub(super) struct Factors {
    a: Gather,
    b: Gather,
    /// Whether the second comes as `[t, n, k]`.
    turned: bool,
    /// What the product is multiplied with: what was added up was made so much smaller, for sums of
    /// numbers whose products are finite to be finite too. A power of two, so that it is exact.
    scale: f32,
    /// Makes the whole of what was computed.
    whole: Gather,
}

/// Things of which some are alike: the first of each kind, and the kind of each.
struct Kinds {
    first: Vec<usize>,
    of: Vec<usize>,
}

impl Kinds {
    /// Of `count` things, alike where their keys are.
    fn new<K: Hash + Eq>(count: usize, key: impl Fn(usize) -> K) -> Self {
        let mut known = HashMap::new();
        let mut first = Vec::new();
        let of = (0..count)
            .map(|thing| {
                *known.entry(key(thing)).or_insert_with(|| {
                    first.push(thing);
                    first.len() - 1
                })
            })
            .collect();
        Self { first, of }
    }

    /// All are of a kind of their own.
    fn apart(count: usize) -> Self {
        Self {
            first: (0..count).collect(),
            of: (0..count).collect(),
        }
    }

    /// The things of each kind.
    fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.first.len()];
        for (thing, &kind) in self.of.iter().enumerate() {
            members[kind].push(thing);
        }
        members
    }
}

/// What is left of a factor: its slices, and its rows or columns.
struct Left<'t> {
    table: &'t Table,
    slices: Vec<usize>,
    lines: Vec<usize>,
}

impl Left<'_> {
    /// The tiles of one step of the depth: `at` looks one up by slice, line and step.
    fn step(&self, at: impl Fn(&Table, usize, usize) -> u32) -> Vec<u32> {
        let slices = self.slices.iter();
        let tiles = slices.flat_map(|&z| self.lines.iter().map(move |&line| (z, line)));
        tiles.map(|(z, line)| at(self.table, z, line)).collect()
    }
}

impl Factors {
    /// The product of tensors that arrive by these tables, the second of which has at least as many
    /// slices. `stepwise` leaves the depth as it is, for sums that are rounded on their way.
    pub(super) fn new(a: &Table, b: &Table, stepwise: bool) -> Result<Self> {
        let ([t, m, k], [b_t, b_k, n]) = (a.tiles(), b.tiles());
        if k != b_k || b_t < t {
            return Err(wrong_shape("the factors of a product do not fit")
                .expected(format_args!("[{t}, {k}, any] tiles"))
                .found(format_args!("[{b_t}, {b_k}, {n}]")));
        }
        let repeats = a.repeats() || b.repeats();
        let kinds = |count, key: &dyn Fn(usize) -> Vec<u32>| match repeats {
            true => Kinds::new(count, key),
            false => Kinds::apart(count),
        };
        let a_slices = kinds(t, &|z| slice(a, z).to_vec());
        let b_slices = kinds(t, &|z| slice(b, z).to_vec());
        let slices = Kinds::new(t, |z| (a_slices.of[z], b_slices.of[z]));
        // One slice will do for all where all are alike.
        let own = |kinds: &Kinds| match kinds.first.len() {
            1 => vec![0],
            _ => slices.first.clone(),
        };
        let (a_own, b_own) = (own(&a_slices), own(&b_slices));
        let rows = kinds(m, &|r| {
            let tiles = a_own
                .iter()
                .flat_map(|&z| (0..k).map(move |j| a.at(z, r, j)));
            tiles.collect()
        });
        let columns = kinds(n, &|c| {
            let tiles = b_own
                .iter()
                .flat_map(|&z| (0..k).map(move |j| b.at(z, j, c)));
            tiles.collect()
        });
        let a = Left {
            table: a,
            slices: a_own,
            lines: rows.first,
        };
        let b = Left {
            table: b,
            slices: b_own,
            lines: columns.first,
        };
        let left = [slices.first.len(), a.lines.len(), b.lines.len()];
        let whole = Table::new(left)?.picked([&slices.of, &rows.of, &columns.of])?;
        let (a, b, turned, scale) = match repeats && !stepwise {
            true => shortened(&a, &b, k)?,
            false => {
                let (right, turned) = second(&b, k, !stepwise)?;
                (first(&a, k)?, right, turned, 1.0)
            }
        };
        Ok(Self {
            a,
            b,
            turned,
            scale,
            whole: Gather::of(whole),
        })
    }

    /// What is to be multiplied of a first factor.
    pub(super) fn first(&self, a: &TileTensor) -> Result<TileTensor> {
        self.a.gathered(a)
    }

    /// What is to be multiplied with of a second one.
    pub(super) fn second(&self, b: &TileTensor) -> Result<TileTensor> {
        self.b.gathered(b)
    }

    /// Whether the second comes as `[t, n, k]`.
    pub(super) fn turned(&self) -> bool {
        self.turned
    }

    /// What the product of the two is to be multiplied with.
    pub(super) fn scale(&self) -> f32 {
        self.scale
    }

    /// The width of a tile of the product, of the second as it comes.
    pub(super) fn width(&self, b: &TileTensor) -> usize {
        let [height, width] = b.tile();
        if self.turned { height } else { width }
    }

    /// Whether nothing is left out of the product of the two.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.lies()
    }

    /// The product as it is wanted, of that of the two.
    pub(super) fn whole(&self, product: &TileTensor) -> Result<TileTensor> {
        self.whole.gathered(product)
    }
}

fn slice(table: &Table, z: usize) -> &[u32] {
    let [_, rows, columns] = table.tiles();
    &table.sources()[z * rows * columns..][..rows * columns]
}

/// The first factor with all of its depth.
fn first(a: &Left<'_>, k: usize) -> Result<Gather> {
    let depth: Vec<usize> = (0..k).collect();
    let picked = a.table.picked([&a.slices, &a.lines, &depth])?;
    Ok(Gather::of(picked))
}

/// The second factor with all of its depth, and whether it comes as `[t, n, k]`: tiles that are
/// transposed may stay as they are then.
fn second(b: &Left<'_>, k: usize, may_turn: bool) -> Result<(Gather, bool)> {
    let depth: Vec<usize> = (0..k).collect();
    let mut picked = b.table.picked([&b.slices, &depth, &b.lines])?;
    let turned = may_turn && picked.flipped();
    if turned {
        picked.apply("transpose")?;
    }
    Ok((Gather::of(picked), turned))
}

/// Both factors with the depth as short as it may be.
fn shortened(a: &Left<'_>, b: &Left<'_>, k: usize) -> Result<(Gather, Gather, bool, f32)> {
    let of_a = Kinds::new(k, |step| a.step(|table, z, r| table.at(z, r, step)));
    let of_b = Kinds::new(k, |step| b.step(|table, z, c| table.at(z, step, c)));
    let worth = |kinds: &Kinds| 2 * kinds.first.len() <= k;
    let turned = b.table.flipped();
    if worth(&of_a) && of_a.first.len() <= of_b.first.len() {
        let left = a.table.picked([&a.slices, &a.lines, &of_a.first])?;
        let members = of_a.members();
        let scale = scale(&members);
        let (slices, depth, columns) = (b.slices.len(), members.len(), b.lines.len());
        let sum = |z: usize, step: usize, c: usize| {
            let steps = members[step].iter();
            let tiles = steps.map(|&step| b.table.at(b.slices[z], step, b.lines[c]));
            tiles.collect()
        };
        let right = match turned {
            false => Gather::summed(b.table, [slices, depth, columns], scale, |[z, step, c]| {
                sum(z, step, c)
            }),
            true => Gather::summed(b.table, [slices, columns, depth], scale, |[z, c, step]| {
                sum(z, step, c)
            }),
        };
        return Ok((Gather::of(left), right, turned, scale));
    }
    if worth(&of_b) && !a.table.flipped() {
        let members = of_b.members();
        let scale = scale(&members);
        let tiles = [a.slices.len(), a.lines.len(), members.len()];
        let left = Gather::summed(a.table, tiles, scale, |[z, r, step]| {
            let steps = members[step].iter();
            let tiles = steps.map(|&step| a.table.at(a.slices[z], a.lines[r], step));
            tiles.collect()
        });
        let mut right = b.table.picked([&b.slices, &of_b.first, &b.lines])?;
        if turned {
            right.apply("transpose")?;
        }
        return Ok((left, Gather::of(right), turned, scale));
    }
    let (right, turned) = second(b, k, true)?;
    Ok((first(a, k)?, right, turned, 1.0))
}

/// The power of two that is no less than there are members of a kind.
fn scale(members: &[Vec<usize>]) -> f32 {
    let most = members.iter().map(Vec::len).max();
    most.unwrap_or(1).next_power_of_two() as f32
}

#[cfg(test)]
mod tests {
    use super::super::tensor::map;
    use super::*;

    /// Small whole numbers, whose products f32 holds exactly.
    fn tensor(tiles: [usize; 3], tile: [usize; 2]) -> TileTensor {
        TileTensor::build(tiles, tile, |to| {
            let numbers = to.iter_mut().enumerate();
            numbers.for_each(|(i, v)| *v = ((i * 7 + i / 5) % 11) as f32 - 4.0);
            Ok(())
        })
        .unwrap()
    }

    /// `a` times `b` by the definition, slices taken again where there are fewer.
    fn multiplied(a: &TileTensor, b: &TileTensor, turned: bool) -> TileTensor {
        let ([a_t, m, k], [b_t, second, third]) = (a.shape(), b.shape());
        let n = if turned { second } else { third };
        let t = a_t.max(b_t);
        let width = if turned { b.tile()[0] } else { b.tile()[1] };
        let tile = [a.tile()[0], width];
        TileTensor::build([t, m / tile[0], n / width], tile, |to| {
            for (i, to) in to.iter_mut().enumerate() {
                let (z, r, c) = (i / n / m, i / n % m, i % n);
                let left = &a.values()[(z % a_t * m + r) * k..][..k];
                let b = &b.values()[z % b_t * k * n..][..k * n];
                let right = |j: usize| if turned { b[c * k + j] } else { b[j * n + c] };
                *to = (0..k).map(|j| left[j] * right(j)).sum();
            }
            Ok(())
        })
        .unwrap()
    }

    /// Ways to `[t, m, 4]` and `[t, 4, n]` tiles of one column or row of the depth, or many.
    const WAYS: [([usize; 3], &str, [usize; 3], &str); 12] = [
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
    fn what_is_left_out_makes_no_difference() {
        for stepwise in [false, true] {
            for (a_tiles, a_steps, b_tiles, b_steps) in WAYS {
                let (a, b) = (tensor(a_tiles, [2, 3]), tensor(b_tiles, [3, 2]));
                let left = Table::through(a_tiles, a_steps).unwrap();
                let right = Table::through(b_tiles, b_steps).unwrap();
                // Where one tile is turned, so is the other, for the depth to fit.
                let turn = |of: &TileTensor, flipped| match flipped {
                    true => of
                        .reshaped(of.tiles(), [of.tile()[1], of.tile()[0]])
                        .unwrap(),
                    false => of.clone(),
                };
                let (a, b) = (turn(&a, left.flipped()), turn(&b, right.flipped()));
                let factors = Factors::new(&left, &right, stepwise).unwrap();
                let (first, second) = (factors.first(&a).unwrap(), factors.second(&b).unwrap());
                let part = multiplied(&first, &second, factors.turned());
                let part = map(&part, |x| x * factors.scale()).unwrap();
                let made = factors.whole(&part).unwrap();

                let all = |table: Table, of: &TileTensor| Gather::of(table).gathered(of).unwrap();
                let (a, b) = (all(left, &a), all(right, &b));
                let b = b
                    .part(0, [a.tiles()[0], b.tiles()[1], b.tiles()[2]])
                    .unwrap();
                let wanted = multiplied(&a, &b, false);
                assert_eq!((made.tiles(), made.tile()), (wanted.tiles(), wanted.tile()));
                assert_eq!(made.values(), wanted.values(), "{a_steps} and {b_steps}");
            }
        }
    }

    #[test]
    fn what_is_added_up_stays_finite() {
        let left = Table::through([1, 1, 3], "broadcast_c 2").unwrap();
        let right = Table::through([1, 1, 1], "broadcast_r 6").unwrap();
        let factors = Factors::new(&left, &right, false).unwrap();
        let largest = TileTensor::build([1, 1, 3], [1, 1], |to| {
            to.fill(f32::MAX);
            Ok(())
        });
        let sum = factors.first(&largest.unwrap()).unwrap();
        assert_eq!((sum.tiles(), factors.scale()), ([1, 1, 1], 8.0));
        assert_eq!(sum.values(), [f32::MAX / 8.0 * 6.0]);
    }

    #[test]
    fn what_repeats_is_multiplied_once() {
        let shapes = |a: [usize; 3], a_steps: &str, b: [usize; 3], b_steps: &str| {
            let left = Table::through(a, a_steps).unwrap();
            let right = Table::through(b, b_steps).unwrap();
            let factors = Factors::new(&left, &right, false).unwrap();
            let first = factors.first(&tensor(a, [1, 1])).unwrap();
            let second = factors.second(&tensor(b, [1, 1])).unwrap();
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
        let turned = shapes([2, 2, 3], "", [2, 5, 3], "transpose");
        assert_eq!(turned, ([2, 2, 3], [2, 5, 3]));
    }

    #[test]
    fn factors_that_do_not_fit_are_refused() {
        let table = |tiles| Table::new(tiles).unwrap();
        assert!(Factors::new(&table([1, 2, 3]), &table([1, 4, 2]), false).is_err());
        assert!(Factors::new(&table([2, 2, 3]), &table([1, 3, 2]), false).is_err());
    }
}
