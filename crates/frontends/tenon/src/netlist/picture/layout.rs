//! Positions of the nodes of a graph, and routes of its edges.
//!
//! The layered layout of Sugiyama, Tagawa and Toda (1981): each node is in a column right of all
//! its inputs. An edge that skips columns has a lane in each, a narrow dummy row, so that it crosses a
//! column between boxes and changes its height only in the gaps between columns.

use std::collections::{BTreeSet, HashMap, HashSet};
use tenon_netlist::{Graph, Netlist, Op, Queue};

/// Width and height of the box of a node, and the gaps around it, in pixels.
pub(super) const BOX: [f64; 2] = [150.0, 34.0];
const GAP: [f64; 2] = [50.0, 14.0];
/// Height of a lane.
const LANE: f64 = 12.0;
/// How far an edge that runs backwards leaves its boxes before it turns.
const TURN: f64 = 18.0;
pub(super) const MARGIN: f64 = 30.0;

/// A node of the picture.
pub(super) enum PictureNode<'n> {
    Queue(&'n Queue),
    Op(&'n Op),
}

/// Nodes with their columns, and edges between them.
pub(super) struct Layout<'n> {
    pub nodes: Vec<(PictureNode<'n>, usize)>,
    edges: Vec<(usize, usize)>,
    /// Corner of each node's box.
    pub corners: Vec<[f64; 2]>,
    /// The height of the lane of the edges of a node in a column.
    lanes: HashMap<Lane, f64>,
    pub size: [f64; 2],
}

/// A lane: its edges leave one node in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lane {
    from: usize,
    backward: bool,
    column: usize,
}

/// A row of a column: a node or a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Row {
    Node(usize),
    Lane(Lane),
}

impl Row {
    fn height(self) -> f64 {
        match self {
            Row::Node(_) => BOX[1] + GAP[1],
            Row::Lane(_) => LANE,
        }
    }
}

impl<'n> Layout<'n> {
    pub fn of(netlist: &'n Netlist, graphs: &[&'n Graph]) -> Self {
        let queues: HashMap<&str, &Queue> = netlist
            .queues
            .iter()
            .map(|queue| (queue.name.value.as_str(), queue))
            .collect();
        let mut layout = Self {
            nodes: Vec::new(),
            edges: Vec::new(),
            corners: Vec::new(),
            lanes: HashMap::new(),
            size: [0.0; 2],
        };
        let mut indices: HashMap<&str, usize> = HashMap::new();
        for op in graphs.iter().flat_map(|graph| &graph.ops) {
            indices.insert(&op.name.value, layout.nodes.len());
            layout.nodes.push((PictureNode::Op(op), 0));
        }
        for op in graphs.iter().flat_map(|graph| &graph.ops) {
            let reader = indices[op.name.value.as_str()];
            for input in &op.inputs {
                let name = input.name.value.as_str();
                let source = indices.get(name).copied().or_else(|| {
                    let queue = queues.get(name)?;
                    indices.insert(name, layout.nodes.len());
                    layout.nodes.push((PictureNode::Queue(queue), 0));
                    Some(layout.nodes.len() - 1)
                });
                layout.edges.extend(source.map(|source| (source, reader)));
            }
        }
        // Queues that ops write are right of their ops, even if an op of this graph reads them too.
        for queue in &netlist.queues {
            if let Some(&op) = indices.get(queue.input.value.as_str()) {
                layout.edges.push((op, layout.nodes.len()));
                layout.nodes.push((PictureNode::Queue(queue), 0));
            }
        }
        layout.columns();
        layout.heights();
        layout
    }

    /// Assigns columns: each node right of its inputs (longest-path layering). Cycles end after one
    /// round.
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
        // A queue that is only read is in the column before its first reader.
        let read: HashSet<usize> = self.edges.iter().map(|&(_, to)| to).collect();
        let mut first: HashMap<usize, usize> = HashMap::new();
        for &(from, to) in &self.edges {
            let column = self.nodes[to].1;
            let least = first.entry(from).or_insert(column);
            *least = (*least).min(column);
        }
        for (node, column) in first {
            if !read.contains(&node) {
                self.nodes[node].1 = column.saturating_sub(1);
            }
        }
    }

    /// Whether an edge ends in an earlier or the same column, as in a cycle.
    fn is_backward(&self, (from, to): (usize, usize)) -> bool {
        self.nodes[to].1 <= self.nodes[from].1
    }

    /// The lanes of an edge, from its start to its end: one in each column between, for an edge
    /// that runs backwards in those of its ends too.
    fn lanes_of(&self, (from, to): (usize, usize)) -> Vec<Lane> {
        let [start, end] = [from, to].map(|node| self.nodes[node].1);
        let backward = self.is_backward((from, to));
        let lane = |column| Lane {
            from,
            backward,
            column,
        };
        if backward {
            (end..=start).rev().map(lane).collect()
        } else {
            (start + 1..end).map(lane).collect()
        }
    }

    /// Assigns the heights of the rows of each column, by the heights of their predecessors.
    fn heights(&mut self) {
        let columns = self.nodes.iter().map(|(_, column)| column + 1).max();
        let mut rows: Vec<BTreeSet<Row>> = vec![BTreeSet::new(); columns.unwrap_or(0)];
        for (node, (_, column)) in self.nodes.iter().enumerate() {
            rows[*column].insert(Row::Node(node));
        }
        // The predecessors of a row on its edges.
        let mut before: HashMap<Row, Vec<Row>> = HashMap::new();
        for &edge in &self.edges {
            let mut previous = Row::Node(edge.0);
            let lanes = self.lanes_of(edge).into_iter().map(Row::Lane);
            for row in lanes.chain([Row::Node(edge.1)]) {
                if let Row::Lane(lane) = row {
                    rows[lane.column].insert(row);
                }
                before.entry(row).or_default().push(previous);
                previous = row;
            }
        }
        let stacked = |rows: &BTreeSet<Row>| rows.iter().map(|row| row.height()).sum::<f64>();
        let tallest = rows.iter().map(stacked).fold(0.0, f64::max);
        self.corners = vec![[0.0; 2]; self.nodes.len()];
        let mut middles: HashMap<Row, f64> = HashMap::new();
        for (column, rows) in rows.into_iter().enumerate() {
            let x = MARGIN + column as f64 * (BOX[0] + GAP[0]);
            let barycenter = |row: &Row| {
                let all = before.get(row).into_iter().flatten();
                let known: Vec<f64> = all.filter_map(|row| middles.get(row)).copied().collect();
                known.iter().sum::<f64>() / known.len().max(1) as f64
            };
            let mut keyed: Vec<(f64, Row)> =
                rows.iter().map(|row| (barycenter(row), *row)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            // As near to the barycenter as the rows above and below allow.
            let (mut top, mut left) = (0.0, stacked(&rows));
            for (middle, row) in keyed {
                let height = row.height();
                top = f64::max(top, (middle - height / 2.0).min(tallest - left));
                middles.insert(row, top + height / 2.0);
                if let Row::Node(node) = row {
                    self.corners[node] = [x, MARGIN + top + GAP[1] / 2.0];
                }
                top += height;
                left -= height;
            }
            self.size[0] = x + BOX[0];
        }
        let lanes = middles.into_iter().filter_map(|(row, middle)| match row {
            Row::Lane(lane) => Some((lane, MARGIN + middle)),
            Row::Node(_) => None,
        });
        self.lanes = lanes.collect();
        self.size[1] = MARGIN + tallest;
    }

    /// The points of each edge, each edge once.
    pub fn routes(&self) -> Vec<Vec<(f64, f64)>> {
        let mut seen = HashSet::new();
        let edges = self.edges.iter().filter(|&&edge| seen.insert(edge));
        edges.map(|&edge| self.route(edge)).collect()
    }

    fn route(&self, edge: (usize, usize)) -> Vec<(f64, f64)> {
        let [[x, y], [u, v]] = [edge.0, edge.1].map(|node| self.corners[node]);
        let start = (x + BOX[0], y + BOX[1] / 2.0);
        let end = (u, v + BOX[1] / 2.0);
        let mut points = vec![start];
        for lane in self.lanes_of(edge) {
            let left = MARGIN + lane.column as f64 * (BOX[0] + GAP[0]);
            let height = self.lanes[&lane];
            let mut ends = [(left, height), (left + BOX[0], height)];
            if lane.backward {
                ends.reverse();
            }
            points.extend(ends);
        }
        if self.is_backward(edge) {
            // Around the corners of both boxes, in the gaps beside them.
            let (out, back) = (start.0 + TURN, end.0 - TURN);
            let (first, last) = (points[1].1, points[points.len() - 1].1);
            points.splice(1..1, [(out, start.1), (out, first)]);
            points.extend([(back, last), (back, end.1)]);
        }
        points.push(end);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use tenon_netlist::{Source, read, temporal_graphs};

    /// A chain of ops, some of which also read a distant op.
    fn chain(count: usize, far: impl Fn(usize) -> Option<usize>) -> Netlist {
        let shape = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1]";
        let mut ops = String::new();
        for at in 0..count {
            let name = |at: usize| {
                at.checked_sub(1)
                    .map_or("q".to_owned(), |at| format!("o{at}"))
            };
            let other = far(at).map_or(name(at), |at| format!("o{at}"));
            writeln!(
                ops,
                "    o{at}: {{type: add, grid_loc: [0, {at}], inputs: [{}, {other}], in_df: [Float16, Float16], \
                 out_df: Float16, intermed_df: Float16, math_fidelity: LoFi, {shape}}}",
                name(at)
            )
            .unwrap();
        }
        let queue = |name, input| {
            format!(
                "  {name}: {{type: queue, input: {input}, entries: 1, {shape}, df: Float16, \
                 target_device: 0, loc: dram, dram: [[0, 0x1000]]}}\n"
            )
        };
        let text = format!(
            "devices: {{arch: grayskull}}\nqueues:\n{}{}graphs:\n  g:\n    target_device: 0\n    \
             input_count: 1\n{ops}programs: []\n",
            queue("q", "HOST"),
            queue("out", "o0"),
        );
        let read = read(&Source::new("n.yaml", text));
        assert!(!read.findings.has_errors());
        read.netlist
    }

    /// Whether a segment meets the inside of a box: the box clips it (Liang and Barsky 1984).
    fn meets(from: (f64, f64), to: (f64, f64), corner: [f64; 2]) -> bool {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let sides = [
            (-dx, from.0 - corner[0] - 1.0),
            (dx, corner[0] + BOX[0] - 1.0 - from.0),
            (-dy, from.1 - corner[1] - 1.0),
            (dy, corner[1] + BOX[1] - 1.0 - from.1),
        ];
        let (mut first, mut last) = (0.0f64, 1.0f64);
        for (along, distance) in sides {
            match along {
                0.0 if distance < 0.0 => return false,
                0.0 => {}
                along if along < 0.0 => first = first.max(distance / along),
                along => last = last.min(distance / along),
            }
        }
        first < last
    }

    /// No box overlaps another, and no edge passes through one; all stay inside the picture.
    fn check(layout: &Layout<'_>) {
        for (index, corner) in layout.corners.iter().enumerate() {
            for other in &layout.corners[..index] {
                let apart = |axis: usize| (corner[axis] - other[axis]).abs() >= BOX[axis];
                assert!(apart(0) || apart(1), "{corner:?} {other:?}");
            }
        }
        for points in layout.routes() {
            for pair in points.windows(2) {
                let hit = layout
                    .corners
                    .iter()
                    .find(|box_| meets(pair[0], pair[1], **box_));
                assert!(hit.is_none(), "{pair:?} passes through {hit:?}");
            }
            for (x, y) in points {
                let [width, height] = layout.size.map(|size| size + MARGIN);
                assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y));
            }
        }
    }

    #[test]
    fn edges_pass_between_boxes() {
        for netlist in [
            chain(12, |_| None),
            chain(12, |at| at.checked_sub(3)),
            chain(12, |at| at.checked_sub(1 + at % 5)),
            // Cycles, which a check refuses, are drawn too.
            chain(5, |at| Some(4 - at)),
        ] {
            let layout = Layout::of(&netlist, &[&netlist.graphs[0]]);
            assert!(!layout.routes().is_empty());
            check(&layout);
        }
    }

    #[test]
    fn an_edge_that_skips_columns_has_a_lane_in_each() {
        // o4 reads o0: over the columns of o1, o2 and o3, and one lane for both its readers.
        let netlist = chain(6, |at| (at >= 4).then_some(0));
        let layout = Layout::of(&netlist, &[&netlist.graphs[0]]);
        let far = layout.route((0, 4));
        assert_eq!(far.len(), 2 + 2 * 3);
        assert_eq!(layout.route((0, 5))[..7], far[..7]);
        assert_eq!(layout.route((0, 1)).len(), 2);
    }

    #[test]
    fn edges_of_real_netlists_pass_between_boxes() {
        for path in tenon_test_data::good_netlists() {
            let text = std::fs::read_to_string(&path).unwrap();
            let netlist = read(&Source::new(&path, text)).netlist;
            for graphs in temporal_graphs(&netlist) {
                check(&Layout::of(&netlist, &graphs));
            }
        }
    }
}
