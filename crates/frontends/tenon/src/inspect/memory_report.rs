//! The memory plan of a package: offsets and lifetimes of its intermediate values.

use serde_json::{Value, json};
use tenon_base::Result;
use tenon_bef::Module;
use tenon_draw::{Axis, Color, Picture, Shape, Side};
use tenon_neff::{Contents, LiveRange, MemoryPlan};

/// The variables of the arena, with offsets and lifetimes.
#[derive(Debug, Clone)]
pub struct MemoryReport {
    /// The strategy of the plan; empty if the package does not name it.
    pub strategy: String,
    /// The arena's size in bytes.
    pub arena_bytes: u64,
    /// The most bytes that are live at one kernel: a lower bound of the arena in this order of kernels.
    pub live_bytes: u64,
    /// The first kernel at which that many bytes are live.
    pub live_kernel: u64,
    /// The graph node of each kernel, in order.
    pub kernels: Vec<String>,
    /// The variables, by first kernel, then offset.
    pub rows: Vec<MemoryRow>,
}

/// One variable of the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// The variable's name.
    pub name: String,
    /// Its offset, size and lifetime.
    pub range: LiveRange,
}

impl MemoryReport {
    /// The report of a package.
    pub fn new(contents: &Contents) -> Result<Self> {
        Self::of(contents, &contents.tenon.plan)
    }

    /// The report of a package with symbolic dimensions, for the sizes of `plan`: the
    /// [`memory_plan`](crate::Model::memory_plan) of [`Model::at`](crate::Model::at).
    pub fn of(contents: &Contents, plan: &MemoryPlan) -> Result<Self> {
        let module = super::decode_program(contents)?;
        let name = |range: &LiveRange| {
            let variable = contents.variable(range.var_id);
            variable.map_or_else(String::new, |variable| variable.name.clone())
        };
        let row = |range: &LiveRange| MemoryRow {
            name: name(range),
            range: *range,
        };
        let mut rows: Vec<MemoryRow> = plan.variables.iter().map(row).collect();
        rows.sort_by_key(|row| (row.range.first, row.range.offset, row.range.var_id));
        let (live_kernel, live_bytes) = peak(plan);
        Ok(Self {
            strategy: plan.strategy.clone(),
            arena_bytes: plan.arena_bytes,
            live_bytes,
            live_kernel,
            kernels: nodes(&module),
            rows,
        })
    }

    /// The arena size over the live bytes, less 1: 0.05 for 5 %.
    pub fn excess(&self) -> f64 {
        match self.live_bytes {
            0 => 0.0,
            live => self.arena_bytes as f64 / live as f64 - 1.0,
        }
    }

    /// The node of a kernel.
    pub fn node(&self, kernel: u64) -> &str {
        let at = usize::try_from(kernel).ok();
        at.and_then(|at| self.kernels.get(at))
            .map_or("", String::as_str)
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let row = |row: &MemoryRow| {
            let LiveRange {
                var_id,
                offset,
                size,
                first,
                last,
            } = row.range;
            json!({"var_id": var_id.0, "name": row.name, "offset": offset, "bytes": size,
                   "first": first, "last": last,
                   "first_node": self.node(first), "last_node": self.node(last)})
        };
        json!({
            "strategy": self.strategy,
            "arena_bytes": self.arena_bytes,
            "live_bytes": self.live_bytes,
            "live_kernel": self.live_kernel,
            "excess": self.excess(),
            "kernels": self.kernels,
            "variables": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// Kernels to the right, bytes of the arena upwards: a rectangle for each variable, with a
    /// tooltip.
    pub fn picture(&self, title: &str) -> Picture {
        const LEFT: f64 = 90.0;
        const TOP: f64 = 40.0;
        const HEIGHT: f64 = 440.0;
        let kernels = self.kernels.len().max(1) as f64;
        // At least as wide as its title.
        let width = (kernels * 8.0).clamp(640.0, 1600.0);
        let (right, bottom) = (LEFT + width, TOP + HEIGHT);
        let arena = self.arena_bytes as f64;
        let x = Axis::new(Side::Bottom, 0.0..=kernels, LEFT..=right, bottom).label("kernel");
        let y = Axis::new(Side::Left, 0.0..=arena, bottom..=TOP, LEFT)
            .label("byte of the arena")
            .tick_format(|value| format!("{value:.0}"))
            .grid(right);
        let mut picture = Picture::new(right + 30.0, bottom + 50.0).title(title);
        picture.add(Shape::text(14.0, 22.0, title).bold());
        picture.extend(y.shapes());
        for (index, row) in self.rows.iter().enumerate() {
            let LiveRange {
                offset,
                size,
                first,
                last,
                ..
            } = row.range;
            let (from, to) = (x.at(first as f64), x.at(last as f64 + 1.0));
            let (low, high) = (y.at(offset as f64), y.at((offset + size) as f64));
            let tooltip = format!(
                "{}: {size} bytes at {offset}, kernels {first} to {last} ({} to {})",
                row.name,
                self.node(first),
                self.node(last)
            );
            let rect =
                Shape::rect(from, high, to - from, low - high).fill(Color::categorical(index));
            picture.add(rect.stroke(Color::WHITE, 0.5).opacity(0.8).title(tooltip));
        }
        let live = y.at(self.live_bytes as f64);
        let most = Shape::line((LEFT, live), (right, live)).dashed();
        picture.add(most.title(format!(
            "{} bytes are alive at kernel {}",
            self.live_bytes, self.live_kernel
        )));
        picture.extend(x.shapes());
        picture
    }
}

/// The node of each kernel of `main`.
fn nodes(module: &Module) -> Vec<String> {
    let main = module
        .functions
        .iter()
        .find(|function| &*function.name == "main");
    let kernels = main.map_or(&[][..], |main| &main.kernels);
    kernels
        .iter()
        .map(|kernel| {
            let node = kernel.attributes.iter().find(|(name, _)| name == "node");
            let node = node.and_then(|(_, value)| value.as_str());
            node.unwrap_or(&kernel.name).to_owned()
        })
        .collect()
}

/// The first kernel at which the most bytes are live, and their count. Bytes that a view or an output in
/// place shares count once.
fn peak(plan: &MemoryPlan) -> (u64, u64) {
    let mut order: Vec<&LiveRange> = plan.variables.iter().collect();
    order.sort_by_key(|range| (range.first, range.offset));
    let mut alive: Vec<&LiveRange> = Vec::new();
    let mut most = (0, 0);
    let mut rest = order.into_iter().peekable();
    // The count grows only at kernels where a lifetime begins.
    while let Some(kernel) = rest.peek().map(|range| range.first) {
        alive.retain(|range| range.last >= kernel);
        while let Some(range) = rest.next_if(|range| range.first == kernel) {
            alive.push(range);
        }
        alive.sort_by_key(|range| range.offset);
        let (mut bytes, mut end) = (0, 0);
        for range in &alive {
            let stop = range.offset.saturating_add(range.size);
            bytes += stop.saturating_sub(range.offset.max(end));
            end = end.max(stop);
        }
        if bytes > most.1 {
            most = (kernel, bytes);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_dma::VariableId;

    fn range(var_id: u32, offset: u64, size: u64, first: u64, last: u64) -> LiveRange {
        LiveRange {
            var_id: VariableId(var_id),
            offset,
            size,
            first,
            last,
        }
    }

    #[test]
    fn shared_bytes_count_once() {
        // 1 is a view of 0; 2 uses the bytes of both; 3 is disjoint.
        let plan = MemoryPlan {
            strategy: "packed".into(),
            arena_bytes: 192,
            variables: vec![
                range(0, 0, 100, 0, 2),
                range(1, 0, 100, 1, 2),
                range(2, 0, 100, 2, 4),
                range(3, 128, 64, 2, 3),
                range(4, 128, 50, 4, 4),
            ],
        };
        assert_eq!(peak(&plan), (2, 164));
        assert_eq!(peak(&MemoryPlan::default()), (0, 0));
    }
}
