//! Input data of a netlist (netlist 6.8).

use super::encoding;
use super::fields;
use super::random::Random;
use crate::Findings;
use crate::attributes::AttributeKey as Key;
use crate::netlist::{Netlist, Op, Queue};
use crate::shape::TileShape;
use crate::words::OpKind;
use crate::yaml::Node;
use tenon_tile::DataFormat;

/// The distribution of generated elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform between two bounds.
    Uniform,
    /// Normal.
    Normal,
    /// A constant.
    Constant,
    /// The index of the tile.
    DebugTileId,
    /// Increasing, tile by tile.
    Step,
    /// Increasing along each row of a tile.
    StepRowwise,
    /// Increasing along each column of a tile.
    StepColumnwise,
    /// The tiles of a sparse matmul: one nonzero element per row.
    Sparse,
    /// The encoding of a sparse matmul.
    SparseEncoding,
}

/// The stimulus of a queue: the parameters of its generated data.
#[derive(Debug, Clone, PartialEq)]
pub struct Stimulus {
    /// The distribution of elements.
    pub distribution: Distribution,
    /// Bounds of the uniform distribution.
    pub bounds: [f64; 2],
    /// Mean of the normal distribution.
    pub mean: f64,
    /// Standard deviation of the normal distribution.
    pub deviation: f64,
    /// The constant.
    pub constant: f64,
    /// Value of the first tile, and the increment per tile.
    pub tile_id: [f64; 2],
    /// Value of the first step, and the increment per step.
    pub step: [f64; 2],
    /// First and last row of each tile that are generated, from 1; the rest is 0.
    pub tile_rows: Option<[u32; 2]>,
    /// First and last column of each tile that are generated, from 1; the rest is 0.
    pub tile_columns: Option<[u32; 2]>,
    /// Probabilities that a strip, a ublock and a tile of a sparse matrix are zero.
    pub zeros: [f64; 3],
}

impl Default for Stimulus {
    /// The stimulus for netlists without a stimulus-config: uniform from 0.001 to 1.
    fn default() -> Self {
        Self {
            distribution: Distribution::Uniform,
            bounds: [0.001, 1.0],
            mean: 0.0,
            deviation: 1.0,
            constant: 0.0,
            tile_id: [0.0, 1.0],
            step: [0.0, 1.0],
            tile_rows: None,
            tile_columns: None,
            zeros: [0.5; 3],
        }
    }
}

const DISTRIBUTIONS: &[(&str, Distribution)] = &[
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("constant", Distribution::Constant),
    ("debugtileid", Distribution::DebugTileId),
    ("step", Distribution::Step),
    ("steprowwise", Distribution::StepRowwise),
    ("stepcolumnwise", Distribution::StepColumnwise),
    ("sparse", Distribution::Sparse),
    ("sparse_encoding", Distribution::SparseEncoding),
    ("sparse_encoding_nz_counts", Distribution::SparseEncoding),
];

impl Stimulus {
    pub(super) fn read(node: &Node, findings: &mut Findings) -> Self {
        let mut stimulus = Self::default();
        for (key, node) in fields::entries(node) {
            let parameter = match key {
                "type" => {
                    let text = node.text().unwrap_or_default().to_ascii_lowercase();
                    let found = DISTRIBUTIONS.iter().find(|(name, _)| *name == text);
                    match found {
                        Some((_, distribution)) => stimulus.distribution = *distribution,
                        None => fields::wrong(node, "a distribution", findings),
                    }
                    continue;
                }
                "set_tile_rows" => {
                    stimulus.tile_rows = fields::range(node, findings);
                    continue;
                }
                "set_tile_cols" => {
                    stimulus.tile_columns = fields::range(node, findings);
                    continue;
                }
                "uniform_lower_bound" => &mut stimulus.bounds[0],
                "uniform_upper_bound" => &mut stimulus.bounds[1],
                "normal_mean" => &mut stimulus.mean,
                "normal_stddev" => &mut stimulus.deviation,
                "constant_value" => &mut stimulus.constant,
                "debug_tile_id_base" => &mut stimulus.tile_id[0],
                "debug_tile_id_step" => &mut stimulus.tile_id[1],
                "step_start" => &mut stimulus.step[0],
                "step_increment" => &mut stimulus.step[1],
                "zero_strip_freq" => &mut stimulus.zeros[0],
                "zero_ublock_freq" => &mut stimulus.zeros[1],
                "zero_tile_freq" => &mut stimulus.zeros[2],
                // Determined by the sizes of the netlist, or generated at random.
                "nz_strips" | "nz_ublocks" | "nz_tiles" | "enc_tile_byte_size"
                | "matmul_ident_name" | "overrides" => continue,
                _ => {
                    fields::unknown(key, node, findings);
                    continue;
                }
            };
            if let Some(number) = fields::number(node, findings) {
                *parameter = number;
            }
        }
        stimulus
    }

    /// One element: `tile` is the index of its tile, `row` and `column` are its position in the tile.
    fn element(
        &self,
        tile: usize,
        [row, column]: [usize; 2],
        per_tile: usize,
        random: &mut Random,
    ) -> f64 {
        let inside = |range: Option<[u32; 2]>, index: usize| {
            range
                .is_none_or(|[first, last]| (first as usize..=last as usize).contains(&(index + 1)))
        };
        if !inside(self.tile_rows, row) || !inside(self.tile_columns, column) {
            return 0.0;
        }
        let stepped = |count: usize| self.step[0] + self.step[1] * count as f64;
        let [low, high] = self.bounds;
        match self.distribution {
            Distribution::Normal => self.mean + self.deviation * random.normal(),
            Distribution::Constant => self.constant,
            Distribution::DebugTileId => self.tile_id[0] + self.tile_id[1] * tile as f64,
            Distribution::Step => stepped(tile * per_tile + row * 32 + column),
            Distribution::StepRowwise => stepped(column),
            Distribution::StepColumnwise => stepped(row),
            _ => low + (high - low) * random.unit(),
        }
    }
}

/// Generates entry `number` of `queue` for a seed: `[t, rows, columns]` elements in row-major order.
/// Inputs with a required structure have it: encoding and tiles of a sparse matmul, indices of an
/// embedding and of topk.
///
/// `None` when memory cannot hold it.
pub fn generate_entry(
    netlist: &Netlist,
    queue: &Queue,
    stimulus: &Stimulus,
    seed: u64,
    number: u64,
) -> Option<Vec<f32>> {
    let mut random = Random::new(seed.wrapping_add(number << 32), &queue.name.value);
    let shape = TileShape::of(&queue.blocking);
    let tile = queue.blocking.tile().map(|size| size as usize);
    let sizes = [shape.t, shape.rows, shape.columns].map(|size| usize::try_from(size).ok());
    let [Some(t), Some(rows), Some(columns)] = sizes else {
        return None;
    };
    let (height, width) = (rows.checked_mul(tile[0])?, columns.checked_mul(tile[1])?);
    let length = t.checked_mul(height)?.checked_mul(width)?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).ok()?;
    values.resize(length, 0.0f32);
    let user = netlist.ops().find_map(|(_, op)| {
        let input = op
            .inputs
            .iter()
            .position(|input| input.name.value == queue.name.value)?;
        Some((op, input))
    });
    match user {
        Some((op, 2)) if op.attributes.is(Key::Identity) => {
            encoding::fill(
                &mut values,
                [rows, columns],
                op,
                queue.df.value,
                stimulus.zeros,
                &mut random,
            );
            return Some(values);
        }
        Some((op, 1)) if op.kind.value == OpKind::Embedding => {
            let table = table_rows(netlist, op);
            values.fill_with(|| f32::from_bits(random.below(table) as u32));
            return Some(values);
        }
        Some((op, 1)) if op.kind.value == OpKind::Topk => {
            let integer = queue.df.value.is_raw();
            for (index, value) in values.iter_mut().enumerate() {
                let column = index % width;
                *value = if integer {
                    f32::from_bits(column as u32)
                } else {
                    column as f32
                };
            }
            return Some(values);
        }
        _ => {}
    }
    let sparse = matches!(user, Some((op, 0)) if op.attributes.is(Key::Identity));
    for z in 0..t {
        for number in 0..rows * columns {
            let (i, j) = (number / columns, number % columns);
            for row in 0..tile[0] {
                let start = (z * height + i * tile[0] + row) * width + j * tile[1];
                let line = &mut values[start..start + tile[1]];
                if sparse || stimulus.distribution == Distribution::Sparse {
                    line[random.below(tile[1])] = 1.0;
                    continue;
                }
                for (column, value) in line.iter_mut().enumerate() {
                    let id = z * rows * columns + number;
                    let chosen =
                        stimulus.element(id, [row, column], tile[0] * tile[1], &mut random);
                    *value = as_format(queue.df.value, chosen);
                }
            }
        }
    }
    Some(values)
}

/// Rounds for integer formats; raw formats are bit patterns.
fn as_format(format: DataFormat, value: f64) -> f32 {
    match format {
        _ if format.is_integer() => value.round() as f32,
        _ if format.is_raw() => f32::from_bits(value.round().max(0.0) as u32),
        _ => value as f32,
    }
}

/// Number of rows of the table of an embedding.
fn table_rows(netlist: &Netlist, op: &Op) -> usize {
    let name = &op.inputs[0].name.value;
    let table = netlist
        .queues
        .iter()
        .find(|queue| queue.name.value == *name);
    let rows = table.map_or(1, |table| {
        table
            .blocking
            .rows()
            .saturating_mul(table.blocking.tile()[0].into())
    });
    usize::try_from(rows).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, read};

    fn netlist(df: &str, tile: &str) -> Netlist {
        let text = format!(
            "devices: {{arch: wormhole_b0}}\nqueues:\n  q: {{type: queue, input: HOST, entries: 1, \
             grid_size: [1, 1], t: 2, mblock: [1, 1], ublock: [2, 1], {tile} df: {df}, target_device: 0, \
             loc: dram, dram: [[0, 0x100]]}}\n"
        );
        read(&Source::new("q.yaml", text)).netlist
    }

    fn generate(netlist: &Netlist, stimulus: &Stimulus) -> Vec<f32> {
        generate_entry(netlist, &netlist.queues[0], stimulus, 1, 0).unwrap()
    }

    #[test]
    fn uniform_values_are_in_bounds_and_reproducible() {
        let netlist = netlist("Float32", "");
        let stimulus = Stimulus {
            bounds: [-2.0, 3.0],
            ..Stimulus::default()
        };
        let values = generate(&netlist, &stimulus);
        assert_eq!(values.len(), 2 * 64 * 32);
        assert!(values.iter().all(|value| (-2.0..3.0).contains(value)));
        assert!(values.iter().any(|value| *value < -1.5));
        assert_eq!(values, generate(&netlist, &stimulus));
        let other = generate_entry(&netlist, &netlist.queues[0], &stimulus, 1, 1).unwrap();
        assert_ne!(values, other);
    }

    #[test]
    fn tile_indices_run_over_slices() {
        let netlist = netlist("Float32", "tile_dim: [16, 32],");
        let distribution = Distribution::DebugTileId;
        let stimulus = Stimulus {
            distribution,
            tile_id: [10.0, 2.0],
            ..Stimulus::default()
        };
        let values = generate(&netlist, &stimulus);
        let tiles: Vec<f32> = values.chunks(16 * 32).map(|tile| tile[0]).collect();
        assert_eq!(tiles, [10.0, 12.0, 14.0, 16.0]);
    }

    #[test]
    fn only_the_rows_of_the_range_are_generated() {
        let netlist = netlist("Int8", "");
        let distribution = Distribution::Constant;
        let stimulus = Stimulus {
            distribution,
            constant: 2.6,
            tile_rows: Some([1, 1]),
            tile_columns: Some([2, 3]),
            ..Stimulus::default()
        };
        let values = generate(&netlist, &stimulus);
        assert_eq!(values[..5], [0.0, 3.0, 3.0, 0.0, 0.0]);
        assert!(values[32..32 * 32].iter().all(|value| *value == 0.0));
        assert_eq!(values[32 * 32 + 1], 3.0);
    }
}
