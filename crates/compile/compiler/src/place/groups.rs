//! Convex partitioning: maximal subgraphs of one owner whose quotient graph has no cycle.
//!
//! The phase of a node is the maximum number of owner changes on a path to it. Connected nodes of one
//! owner and phase are a group; an edge between two groups leads to a later phase, so that the
//! quotient graph is acyclic. Groups that remain separate (a node that could run in a later phase) are
//! merged over an edge when no other path leads from one to the other; their order is kept by dynamic
//! topological sorting (Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic
//! graphs, 2007). Both steps are linear: merging has a budget proportional to the graph.

use std::collections::BTreeMap;
use tenon_graph::{Graph, NodeId};

/// The budget of search steps for each node and edge of the graph.
const STEPS: usize = 64;

/// The groups in topological order. Nodes of a group keep the order of the graph, which must be
/// topological. `owners` has the owner of each node.
pub(crate) fn groups(graph: &Graph, owners: &[u32]) -> Vec<Vec<NodeId>> {
    let edges = edges(graph);
    let mut clusters = Clusters::new(owners, &edges);
    clusters.merge(STEPS * (owners.len() + edges.len()));
    clusters.groups()
}

/// Pairs of a producer and a consumer of a value, sorted by consumer and distinct.
fn edges(graph: &Graph) -> Vec<(u32, u32)> {
    let producers = graph.producers();
    let mut edges = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let start = edges.len();
        let inputs = node.inputs.iter().flatten();
        let sources = inputs.filter_map(|input| producers[input.index()]);
        edges.extend(sources.map(|source| (source.0, index as u32)));
        edges[start..].sort_unstable();
        let mut kept = start;
        for at in start..edges.len() {
            if at == start || edges[at] != edges[at - 1] {
                edges[kept] = edges[at];
                kept += 1;
            }
        }
        edges.truncate(kept);
    }
    edges
}

/// A union-find forest of nodes. The root of a cluster is its first node; the other fields hold the
/// data of a cluster at its root.
struct Clusters {
    /// For each node an ancestor in the forest; a root is its own parent.
    parent: Vec<u32>,
    owner: Vec<u32>,
    /// The position of each cluster in a topological order; all differ.
    rank: Vec<u32>,
    /// Successors and predecessors of each cluster, as nodes that may have ceased to be roots.
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// The last search that visited a cluster.
    seen: Vec<u32>,
    search: u32,
}

impl Clusters {
    /// The clusters of connected nodes of one owner and phase.
    fn new(owners: &[u32], edges: &[(u32, u32)]) -> Self {
        let count = owners.len();
        let mut phase = vec![0u32; count];
        // Edges are sorted by their second node, whose phase is final after its last edge.
        for &(from, to) in edges {
            let (from, to) = (from as usize, to as usize);
            let reached = phase[from] + u32::from(owners[from] != owners[to]);
            phase[to] = phase[to].max(reached);
        }
        let mut clusters = Self {
            parent: (0..count as u32).collect(),
            owner: owners.to_vec(),
            rank: vec![0; count],
            after: vec![Vec::new(); count],
            before: vec![Vec::new(); count],
            seen: vec![0; count],
            search: 0,
        };
        for &(from, to) in edges {
            let (a, b) = (from as usize, to as usize);
            if owners[a] == owners[b] && phase[a] == phase[b] {
                let (a, b) = (clusters.root(from), clusters.root(to));
                clusters.parent[a.max(b) as usize] = a.min(b);
            }
        }
        let mut order: Vec<u32> = (0..count as u32)
            .filter(|&node| clusters.parent[node as usize] == node)
            .collect();
        order.sort_by_key(|&node| (phase[node as usize], node));
        for (rank, &node) in order.iter().enumerate() {
            clusters.rank[node as usize] = rank as u32;
        }
        let mut between: Vec<(u32, u32)> = edges
            .iter()
            .map(|&(from, to)| (clusters.root(from), clusters.root(to)))
            .filter(|(from, to)| from != to)
            .collect();
        between.sort_unstable();
        between.dedup();
        for (from, to) in between {
            clusters.after[from as usize].push(to);
            clusters.before[to as usize].push(from);
        }
        clusters
    }

    /// The root of a node's cluster.
    fn root(&mut self, node: u32) -> u32 {
        let mut at = node as usize;
        while self.parent[at] != at as u32 {
            // Path halving.
            self.parent[at] = self.parent[self.parent[at] as usize];
            at = self.parent[at] as usize;
        }
        at as u32
    }

    /// Merges clusters of one owner over every edge that is the only path between them, until none is
    /// left or the budget `steps` is spent.
    fn merge(&mut self, mut steps: usize) {
        loop {
            let mut changed = false;
            let mut order: Vec<u32> = (0..self.parent.len() as u32)
                .filter(|&node| self.parent[node as usize] == node)
                .collect();
            order.sort_by_key(|&node| self.rank[node as usize]);
            for from in order {
                while let Some(to) = self.mergeable(from, &mut steps) {
                    self.join(from, to, &mut steps);
                    changed = true;
                    if self.root(from) != from {
                        break;
                    }
                }
            }
            if !changed || steps == 0 {
                return;
            }
        }
    }

    /// A successor of `from` with the same owner to which no other path leads.
    fn mergeable(&mut self, from: u32, steps: &mut usize) -> Option<u32> {
        if self.root(from) != from {
            return None;
        }
        let mut after = std::mem::take(&mut self.after[from as usize]);
        *steps = steps.saturating_sub(after.len());
        for next in &mut after {
            *next = self.root(*next);
        }
        after.retain(|&next| next != from);
        after.sort_unstable_by_key(|&next| self.rank[next as usize]);
        after.dedup();
        let same = |this: &Self, next: u32| this.owner[next as usize] == this.owner[from as usize];
        let candidates: Vec<u32> = after.iter().copied().filter(|&n| same(self, n)).collect();
        self.after[from as usize] = after;
        candidates
            .into_iter()
            .find(|&to| *steps > 0 && self.reachable(from, to, true, steps).is_some())
    }

    /// The clusters between both in rank that are reachable from `from` (forwards), or from which
    /// `to` is reachable (backwards); `None` when a path besides their edge connects the two, or the
    /// budget is spent.
    fn reachable(
        &mut self,
        from: u32,
        to: u32,
        forwards: bool,
        steps: &mut usize,
    ) -> Option<Vec<u32>> {
        let (start, end) = if forwards { (from, to) } else { (to, from) };
        let limit = self.rank[end as usize];
        self.search += 1;
        let mut found = Vec::new();
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            let list = if forwards { &self.after } else { &self.before };
            let next: Vec<u32> = list[at as usize].clone();
            for cluster in next {
                *steps = steps.checked_sub(1)?;
                let cluster = self.root(cluster);
                if cluster == at || (at == start && cluster == end) {
                    continue;
                }
                if cluster == end {
                    return None;
                }
                let rank = self.rank[cluster as usize];
                let between = if forwards { rank < limit } else { rank > limit };
                let seen = &mut self.seen[cluster as usize];
                if between && *seen != self.search {
                    *seen = self.search;
                    found.push(cluster);
                    open.push(cluster);
                }
            }
        }
        Some(found)
    }

    /// Merges two clusters and restores the topological order of the ranks between them: predecessors
    /// first, then the merged cluster, then successors (Pearce and Kelly 2007).
    fn join(&mut self, from: u32, to: u32, steps: &mut usize) {
        let mut unlimited = usize::MAX;
        let Some(mut successors) = self.reachable(from, to, true, &mut unlimited) else {
            return;
        };
        let Some(mut predecessors) = self.reachable(from, to, false, &mut unlimited) else {
            return;
        };
        *steps = steps.saturating_sub(usize::MAX - unlimited);
        let by_rank = |list: &mut Vec<u32>, rank: &[u32]| {
            list.sort_unstable_by_key(|&cluster| rank[cluster as usize]);
        };
        by_rank(&mut successors, &self.rank);
        by_rank(&mut predecessors, &self.rank);
        let (kept, absorbed) = (from.min(to), from.max(to));
        let order: Vec<u32> = predecessors
            .into_iter()
            .chain([kept, absorbed])
            .chain(successors)
            .collect();
        let mut ranks: Vec<u32> = order.iter().map(|&at| self.rank[at as usize]).collect();
        ranks.sort_unstable();
        for (cluster, rank) in order.into_iter().zip(ranks) {
            self.rank[cluster as usize] = rank;
        }
        self.parent[absorbed as usize] = kept;
        for lists in [&mut self.after, &mut self.before] {
            let (mut long, mut short) = (
                std::mem::take(&mut lists[kept as usize]),
                std::mem::take(&mut lists[absorbed as usize]),
            );
            if long.len() < short.len() {
                std::mem::swap(&mut long, &mut short);
            }
            long.extend(short);
            lists[kept as usize] = long;
        }
    }

    fn groups(&mut self) -> Vec<Vec<NodeId>> {
        let mut by_rank: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for node in 0..self.parent.len() as u32 {
            let root = self.root(node);
            let rank = self.rank[root as usize];
            by_rank.entry(rank).or_default().push(NodeId(node));
        }
        by_rank.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
