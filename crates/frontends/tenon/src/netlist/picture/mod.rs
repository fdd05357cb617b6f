//! Pictures of netlists: the graph of ops from left to right, and the grid of cores below it.

mod layout;

use crate::files::file_names;
use layout::{BOX, Layout, MARGIN, PictureNode};
use tenon_draw::{Anchor, Color, Picture, Shape};
use tenon_netlist::{Device, Graph, Netlist, Op, OpKind, Queue, temporal_graphs};

/// Side of a core, in pixels.
const CORE: f64 = 64.0;
/// Edges: dark enough beside the outlines of boxes.
const EDGE: Color = Color::new(0x44, 0x44, 0x44);
/// Characters of a name that fit a box, and a core.
const LETTERS: usize = 24;

/// One picture for each set of graphs that run together, with a file name after its first graph.
pub fn pictures(netlist: &Netlist, device: &Device) -> Vec<(String, Picture)> {
    let groups = temporal_graphs(netlist);
    let names = file_names(groups.iter().map(|graphs| graphs[0].name.value.as_str()));
    let pictures = groups
        .into_iter()
        .map(|graphs| draw(netlist, &graphs, device));
    names.into_iter().zip(pictures).collect()
}

impl Layout<'_> {
    fn draw(&self, picture: &mut Picture) {
        for points in self.routes() {
            let line = Shape::polyline(points);
            picture.add(line.stroke(EDGE, 1.2).arrow());
        }
        for ((node, _), [x, y]) in self.nodes.iter().zip(&self.corners) {
            let (name, below, color, round, title) = match node {
                PictureNode::Op(op) => (
                    &op.name.value,
                    op.kind.value.to_string(),
                    color(op.kind.value),
                    0.0,
                    op_title(op),
                ),
                PictureNode::Queue(queue) => {
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
        "{} on device {}: core grid {}x{} of {}",
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
        // Ops beyond the grid are not drawn; `check_device` reports them.
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
    Color::categorical(match kind {
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

/// The end of a long name, since the names of one graph share a prefix.
fn clipped(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    if count <= letters {
        return name.to_owned();
    }
    let end = name.chars().skip(count + 1 - letters.max(1));
    format!("…{}", end.collect::<String>())
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
        let pictures = pictures(&netlist, &device);
        let [(name, picture)] = &pictures[..] else {
            panic!("one picture")
        };
        assert_eq!(name, "g_1");
        let svg = picture.to_string();
        let count = |text: &str| svg.matches(text).count();
        assert_eq!(count("x (exp)"), 2);
        // Ops beyond the grid are not drawn on it.
        assert_eq!(count("y (add)"), 1);
        assert_eq!((count("a (queue"), count("b (queue")), (1, 1));
        // Columns: a, x, y, b.
        let layout = Layout::of(&netlist, &[&netlist.graphs[0]]);
        let columns: Vec<usize> = layout.nodes.iter().map(|(_, column)| *column).collect();
        assert_eq!(columns, [1, 2, 0, 3]);
    }
}
