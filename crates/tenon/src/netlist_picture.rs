//! Netlists as pictures: a graph of ops from left to right, and the grid of cores below it.

use crate::file_name;
use std::collections::HashMap;
use tenon_draw::{Anchor, Color, Picture, Shape};
use tenon_netlist::{Device, Graph, Netlist, Op, OpKind, Queue, temporal_graphs};

/// Width and height of the box of a node, and the room around it, in pixels.
const BOX: [f64; 2] = [150.0, 34.0];
const GAP: [f64; 2] = [50.0, 14.0];
/// Side of a core, in pixels.
const CORE: f64 = 64.0;
const MARGIN: f64 = 30.0;
/// Characters of a name that fit a box, and a core.
const LETTERS: usize = 24;

/// One picture for each set of graphs that run together, with the name of its first graph.
pub fn netlist_pictures(netlist: &Netlist, device: &Device) -> Vec<(String, Picture)> {
    let groups = temporal_graphs(netlist);
    let picture = |graphs: Vec<&Graph>| {
        (
            file_name(&graphs[0].name.value),
            draw(netlist, &graphs, device),
        )
    };
    groups.into_iter().map(picture).collect()
}

/// A node of the drawn graph.
enum Drawn<'n> {
    Queue(&'n Queue),
    Op(&'n Op),
}

/// Nodes with their columns, and edges between them.
struct Layout<'n> {
    nodes: Vec<(Drawn<'n>, usize)>,
    edges: Vec<(usize, usize)>,
    /// Corner of each node's box.
    corners: Vec<[f64; 2]>,
    size: [f64; 2],
}

impl<'n> Layout<'n> {
    fn of(netlist: &'n Netlist, graphs: &[&'n Graph]) -> Self {
        let queues: HashMap<&str, &Queue> = netlist
            .queues
            .iter()
            .map(|queue| (queue.name.value.as_str(), queue))
            .collect();
        let mut layout = Self {
            nodes: Vec::new(),
            edges: Vec::new(),
            corners: Vec::new(),
            size: [0.0; 2],
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        for op in graphs.iter().flat_map(|graph| &graph.ops) {
            places.insert(&op.name.value, layout.nodes.len());
            layout.nodes.push((Drawn::Op(op), 0));
        }
        for op in graphs.iter().flat_map(|graph| &graph.ops) {
            let reader = places[op.name.value.as_str()];
            for input in &op.inputs {
                let name = input.name.value.as_str();
                let source = places.get(name).copied().or_else(|| {
                    let queue = queues.get(name)?;
                    places.insert(name, layout.nodes.len());
                    layout.nodes.push((Drawn::Queue(queue), 0));
                    Some(layout.nodes.len() - 1)
                });
                layout.edges.extend(source.map(|source| (source, reader)));
            }
        }
        // Queues that are written stand behind their ops, even if an op here reads them too.
        for queue in &netlist.queues {
            if let Some(&op) = places.get(queue.input.value.as_str()) {
                layout.edges.push((op, layout.nodes.len()));
                layout.nodes.push((Drawn::Queue(queue), 0));
            }
        }
        layout.columns();
        layout.places();
        layout
    }

    /// Each node behind all it reads; edges of a circle are followed once around at most.
    fn columns(&mut self) {
        for _ in 0..self.nodes.len() {
            let mut moved = false;
            for &(from, to) in &self.edges {
                let least = self.nodes[from].1 + 1;
                if self.nodes[to].1 < least && least < self.nodes.len() {
                    self.nodes[to].1 = least;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        // A queue that is only read stands right before its first reader.
        for node in 0..self.nodes.len() {
            let is_source = self.edges.iter().all(|&(_, to)| to != node);
            let readers = self.edges.iter().filter(|&&(from, _)| from == node);
            if let Some(first) = readers.map(|&(_, to)| self.nodes[to].1).min()
                && is_source
            {
                self.nodes[node].1 = first.saturating_sub(1);
            }
        }
    }

    /// Nodes of a column one below the other, in the order of what they read.
    fn places(&mut self) {
        let columns = self
            .nodes
            .iter()
            .map(|(_, column)| column + 1)
            .max()
            .unwrap_or(0);
        self.corners = vec![[0.0; 2]; self.nodes.len()];
        for column in 0..columns {
            let all = 0..self.nodes.len();
            let mut members: Vec<usize> =
                all.filter(|&node| self.nodes[node].1 == column).collect();
            let height = |node: usize| {
                let sources = self.edges.iter().filter(|&&(_, to)| to == node);
                let heights: Vec<f64> = sources.map(|&(from, _)| self.corners[from][1]).collect();
                heights.iter().sum::<f64>() / heights.len().max(1) as f64
            };
            let mut keyed: Vec<(f64, usize)> =
                members.iter().map(|&node| (height(node), node)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            members = keyed.into_iter().map(|(_, node)| node).collect();
            for (row, node) in members.into_iter().enumerate() {
                let x = MARGIN + column as f64 * (BOX[0] + GAP[0]);
                let y = MARGIN + row as f64 * (BOX[1] + GAP[1]);
                self.corners[node] = [x, y];
                self.size = [self.size[0].max(x + BOX[0]), self.size[1].max(y + BOX[1])];
            }
        }
    }

    fn draw(&self, picture: &mut Picture) {
        for &(from, to) in &self.edges {
            let ([x, y], [u, v]) = (self.corners[from], self.corners[to]);
            let line = Shape::line((x + BOX[0], y + BOX[1] / 2.0), (u, v + BOX[1] / 2.0));
            picture.add(line.stroke(Color::GRAY, 1.0).arrow());
        }
        for ((node, _), [x, y]) in self.nodes.iter().zip(&self.corners) {
            let (name, below, color, round, title) = match node {
                Drawn::Op(op) => (
                    &op.name.value,
                    op.kind.value.to_string(),
                    color(op.kind.value),
                    0.0,
                    op_title(op),
                ),
                Drawn::Queue(queue) => {
                    let below = format!("{} of {}", queue.kind.value, queue.entries.value);
                    (
                        &queue.name.value,
                        below,
                        Color::WHITE,
                        BOX[1] / 2.0,
                        queue_title(queue),
                    )
                }
            };
            let form = Shape::rect(*x, *y, BOX[0], BOX[1])
                .fill(color)
                .stroke(Color::BLACK, 1.0);
            picture.add(form.rounded(round).title(title));
            let middle = x + BOX[0] / 2.0;
            picture.add(
                Shape::text(middle, y + 14.0, short(name))
                    .size(10.0)
                    .anchor(Anchor::Middle)
                    .bold(),
            );
            picture.add(
                Shape::text(middle, y + 27.0, below)
                    .size(10.0)
                    .anchor(Anchor::Middle),
            );
        }
    }
}

fn draw(netlist: &Netlist, graphs: &[&Graph], device: &Device) -> Picture {
    let layout = Layout::of(netlist, graphs);
    let grid = [
        f64::from(device.columns) * CORE,
        f64::from(device.rows) * CORE,
    ];
    let width = layout.size[0].max(MARGIN + grid[0]) + MARGIN;
    let below = layout.size[1] + 2.0 * MARGIN;
    let height = below + graphs.len() as f64 * (grid[1] + 2.0 * MARGIN);
    let names: Vec<&str> = graphs
        .iter()
        .map(|graph| graph.name.value.as_str())
        .collect();
    let mut picture = Picture::new(width, height).title(names.join(", "));
    layout.draw(&mut picture);
    for (number, graph) in graphs.iter().enumerate() {
        let top = below + number as f64 * (grid[1] + 2.0 * MARGIN);
        cores(&mut picture, graph, device, top);
    }
    picture
}

/// The grid of cores of one device, each op on those it has.
fn cores(picture: &mut Picture, graph: &Graph, device: &Device, top: f64) {
    let devices: Vec<String> = graph
        .target_device
        .iter()
        .map(|device| device.value.to_string())
        .collect();
    let text = format!(
        "{} on device {}: {} rows and {} columns of cores of {}",
        graph.name.value,
        devices.join(", "),
        device.rows,
        device.columns,
        device.name
    );
    picture.add(Shape::text(MARGIN, top - 8.0, text).size(12.0).bold());
    let cell = |row: u32, column: u32, size: [u32; 2]| {
        let (x, y) = (
            MARGIN + f64::from(column) * CORE,
            top + f64::from(row) * CORE,
        );
        Shape::rect(x, y, f64::from(size[1]) * CORE, f64::from(size[0]) * CORE)
    };
    for row in 0..device.rows {
        for column in 0..device.columns {
            picture.add(
                cell(row, column, [1, 1])
                    .fill(Color::WHITE)
                    .stroke(Color::GRAY, 0.5),
            );
        }
    }
    for op in &graph.ops {
        let Some(at) = op.grid_loc else { continue };
        let mut size = op.blocking.grid_size.value;
        if op.grid_transpose.is_some_and(|flag| flag.value) {
            size.reverse();
        }
        // Beyond the grid nothing is to be seen: a check says so.
        let [row, column] = at.value;
        if row >= device.rows || column >= device.columns {
            continue;
        }
        let size = [
            size[0].min(device.rows - row),
            size[1].min(device.columns - column),
        ];
        let form = cell(row, column, size)
            .fill(color(op.kind.value))
            .stroke(Color::BLACK, 1.0);
        picture.add(form.title(op_title(op)));
        let (x, y) = (
            MARGIN + f64::from(column) * CORE + 3.0,
            top + f64::from(row) * CORE,
        );
        let letters = (f64::from(size[1]) * CORE / 5.0) as usize;
        picture.add(Shape::text(x, y + 14.0, clipped(&op.name.value, letters)).size(8.0));
        picture.add(Shape::text(x, y + 26.0, op.kind.value.to_string()).size(8.0));
    }
}

/// One colour a family of ops.
fn color(kind: OpKind) -> Color {
    Color::of(match kind {
        OpKind::Matmul | OpKind::Depthwise => 0,
        OpKind::FusedOp => 1,
        _ if kind.is_binary() => 2,
        _ if kind.is_sfpu() => 3,
        OpKind::Reduce | OpKind::Topk => 4,
        _ if kind.is_copy() => 7,
        _ => 6,
    })
}

fn op_title(op: &Op) -> String {
    let b = &op.blocking;
    format!(
        "{} ({}): grid {:?}, t {}, mblock {:?}, ublock {:?}, {}",
        op.name.value,
        op.kind.value,
        b.grid_size.value,
        b.t.value,
        b.mblock.value,
        b.ublock.value,
        op.out_df.value
    )
}

fn queue_title(queue: &Queue) -> String {
    let b = &queue.blocking;
    format!(
        "{} ({} of {} in {}): grid {:?}, t {}, mblock {:?}, ublock {:?}, {}",
        queue.name.value,
        queue.kind.value,
        queue.entries.value,
        queue.loc.value,
        b.grid_size.value,
        b.t.value,
        b.mblock.value,
        b.ublock.value,
        queue.df.value
    )
}

fn short(name: &str) -> String {
    clipped(name, LETTERS)
}

/// The end of a name that is too long: names of one graph begin alike.
fn clipped(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    match count > letters {
        true => format!(
            "…{}",
            name.chars()
                .skip(count + 1 - letters.max(1))
                .collect::<String>()
        ),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_netlist::{Source, read};

    #[test]
    fn a_picture_has_every_op_twice_and_every_queue() {
        let text = "\
devices: {arch: wormhole_b0}
queues:
  a: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: 0, loc: dram, dram: [[0, 0x1000]]}
  b: {type: queue, input: y, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: 0, loc: dram, dram: [[0, 0x9000]]}
graphs:
  g/1:
    target_device: 0
    input_count: 1
    x: {type: exp, grid_loc: [0, 0], grid_size: [1, 2], inputs: [a], in_df: [Float16], out_df: Float16, intermed_df: Float16, math_fidelity: LoFi, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}
    y: {type: add, grid_loc: [99, 0], grid_size: [1, 1], inputs: [x, x], in_df: [Float16, Float16], out_df: Float16, intermed_df: Float16, math_fidelity: LoFi, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}
";
        let netlist = read(&Source::new("n.yaml", text)).netlist;
        let device = Device::find("wormhole_b0").unwrap();
        let pictures = netlist_pictures(&netlist, &device);
        let [(name, picture)] = &pictures[..] else {
            panic!("one picture")
        };
        assert_eq!(name, "g_1");
        let svg = picture.to_string();
        let count = |text: &str| svg.matches(text).count();
        assert_eq!(count("x (exp)"), 2);
        // What lies beyond the grid is not drawn on it.
        assert_eq!(count("y (add)"), 1);
        assert_eq!((count("a (queue"), count("b (queue")), (1, 1));
        // Columns: a, x, y, b.
        let layout = Layout::of(&netlist, &[&netlist.graphs[0]]);
        let columns: Vec<usize> = layout.nodes.iter().map(|(_, column)| *column).collect();
        assert_eq!(columns, [1, 2, 0, 3]);
    }
}
