//! The measured graphs.

use std::io::Write;
use std::path::Path;
use tenon_base::Result;
use tenon_bef::{FunctionBuilder, FunctionKind, Module};
use tenon_executor::{Program, Registry, Services};

/// Nodes in topological order, each with its operands. Only the first node has none.
pub struct Graph {
    pub name: &'static str,
    sources: Vec<Vec<u32>>,
}

impl Graph {
    /// A chain: each node takes the value of the previous one.
    pub fn chain(nodes: usize) -> Self {
        let sources = (0..nodes as u32).map(|node| node.checked_sub(1).into_iter().collect());
        Self {
            name: "chain",
            sources: sources.collect(),
        }
    }

    /// Fan-out and fan-in: all nodes but the last take the first one's value, the last takes the
    /// values of all.
    pub fn fan(nodes: usize) -> Self {
        let mut sources = vec![vec![0]; nodes];
        sources[0] = Vec::new();
        sources[nodes - 1] = (1..nodes as u32 - 1).collect();
        Self {
            name: "fan-out and fan-in",
            sources,
        }
    }

    /// A random graph: each node takes the values of one to five earlier nodes, drawn uniformly
    /// (duplicates are dropped), three in the mean; the last node takes all values without a user.
    pub fn random(nodes: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |bound: u64| {
            // xorshift (Marsaglia 2003), the high half.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (((state >> 32) * bound) >> 32) as u32
        };
        let sources = (0..nodes).map(|node| {
            let degree = if node == 0 { 0 } else { 1 + below(5) };
            let mut from: Vec<u32> = (0..degree).map(|_| below(node as u64)).collect();
            from.sort_unstable();
            from.dedup();
            from
        });
        let mut sources: Vec<Vec<u32>> = sources.take(nodes - 1).collect();
        let mut taken = vec![false; nodes - 1];
        let all = sources.iter().flatten();
        all.for_each(|&source| taken[source as usize] = true);
        sources.push(
            (0u32..)
                .zip(taken)
                .filter(|(_, taken)| !taken)
                .map(|(node, _)| node)
                .collect(),
        );
        Self {
            name: "random",
            sources,
        }
    }

    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// The graph as a function that takes the first node's value and returns the last one's.
    pub fn program(&self, registry: &Registry) -> Result<Program> {
        let mut main = FunctionBuilder::new("main", FunctionKind::Async);
        let argument = main.argument("i32");
        let mut registers = Vec::with_capacity(self.len());
        for sources in &self.sources {
            let name = match sources.len() {
                0 | 1 => "bench.pass.i32",
                _ => "bench.first.i32",
            };
            let kernel = main.kernel(name);
            let kernel = if sources.is_empty() {
                kernel.operands([argument])
            } else {
                kernel.operands(sources.iter().map(|&source| registers[source as usize]))
            };
            registers.push(kernel.result("i32"));
        }
        let mut module = Module::new();
        module.add(main.returns(registers.last().copied()));
        Program::decode(&module, registry, &Services::new())
    }

    /// Writes the graph in the format that tbb_graph.cc reads.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        file.write_all(&(self.len() as u32).to_le_bytes())?;
        for sources in &self.sources {
            for number in std::iter::once(&(sources.len() as u32)).chain(sources) {
                file.write_all(&number.to_le_bytes())?;
            }
        }
        file.flush()
    }
}
