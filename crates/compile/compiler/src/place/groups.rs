//! Maximal subgraphs of one owner that make no cycle among each other.
//!
//! First every node gets a phase: the most changes of owner on a way that leads to it. Connected
//! nodes of one owner and phase are a group; an edge between two groups always leads to a later
//! phase, so that no cycle can be. What this leaves apart (a node that could as well run later)
//! is merged edge by edge, as long as no other way leads from one group to the other. Both steps
//! are linear: merging stops after a number of steps that is proportional to the graph.

use std::collections::BTreeMap;
use tenon_graph::{Graph, NodeId};

/// Steps of looking for other ways, for each node and edge of the graph.
const STEPS: usize = 64;

/// The groups, in an order in which each comes behind those it needs. Nodes of a group keep the
/// order of the graph, which must be one in which values are made before they are used. `owners`
/// has a number for each node.
pub(crate) fn groups(graph: &Graph, owners: &[u32]) -> Vec<Vec<NodeId>> {
    let edges = edges(graph);
    let mut clusters = Clusters::new(owners, &edges);
    clusters.merge(STEPS * (owners.len() + edges.len()));
    clusters.groups()
}

/// Pairs of a node that makes a value and one that uses it.
fn edges(graph: &Graph) -> Vec<(u32, u32)> {
    let producers = graph.producers();
    let mut edges = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let start = edges.len();
        let makers = node.inputs.iter().flatten();
        let makers = makers.filter_map(|input| producers[input.index()]);
        edges.extend(makers.map(|maker| (maker.0, index as u32)));
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

/// Nodes drawn together, by the first of them.
struct Clusters {
    /// For each node one nearer to the cluster's first; itself for the first.
    parent: Vec<u32>,
    owner: Vec<u32>,
    /// For each first node its place in the order of clusters; all differ.
    rank: Vec<u32>,
    /// For each first node those that need it, and those that it needs; some no longer first.
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// When a node was last seen in a search.
    seen: Vec<u32>,
    search: u32,
}

impl Clusters {
    /// Connected nodes of one owner and phase.
    fn new(owners: &[u32], edges: &[(u32, u32)]) -> Self {
        let count = owners.len();
        let mut phase = vec![0u32; count];
        // Edges come by their second node, whose phase is settled when its last edge was seen.
        for &(from, to) in edges {
            let (from, to) = (from as usize, to as usize);
            let here = phase[from] + u32::from(owners[from] != owners[to]);
            phase[to] = phase[to].max(here);
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
                let (a, b) = (clusters.first(from), clusters.first(to));
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
            .map(|&(from, to)| (clusters.first(from), clusters.first(to)))
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

    fn first(&mut self, node: u32) -> u32 {
        let mut at = node as usize;
        while self.parent[at] != at as u32 {
            // Halves the way for the next time.
            self.parent[at] = self.parent[self.parent[at] as usize];
            at = self.parent[at] as usize;
        }
        at as u32
    }

    /// Merges clusters of one owner over every edge that is the only way between them, until none
    /// is left or `steps` are done.
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
                    if self.first(from) != from {
                        break;
                    }
                }
            }
            if !changed || steps == 0 {
                return;
            }
        }
    }

    /// A cluster of the same owner behind `from` to which no other way leads.
    fn mergeable(&mut self, from: u32, steps: &mut usize) -> Option<u32> {
        if self.first(from) != from {
            return None;
        }
        let mut after = std::mem::take(&mut self.after[from as usize]);
        *steps = steps.saturating_sub(after.len());
        for next in &mut after {
            *next = self.first(*next);
        }
        after.retain(|&next| next != from);
        after.sort_unstable_by_key(|&next| self.rank[next as usize]);
        after.dedup();
        let same = |this: &Self, next: u32| this.owner[next as usize] == this.owner[from as usize];
        let candidates: Vec<u32> = after.iter().copied().filter(|&n| same(self, n)).collect();
        self.after[from as usize] = after;
        candidates
            .into_iter()
            .find(|&to| *steps > 0 && self.reached(from, to, true, steps).is_some())
    }

    /// The clusters between both that a way leads to from `from` (forwards), or from which one
    /// leads to `to` (backwards); `None` when a way other than their own edge joins the two.
    fn reached(
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
                let cluster = self.first(cluster);
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

    /// Draws two clusters together and keeps the ranks an order: what leads to them moves before,
    /// what they lead to behind (Pearce and Kelly: A dynamic topological sort algorithm, 2007).
    fn join(&mut self, from: u32, to: u32, steps: &mut usize) {
        let mut unlimited = usize::MAX;
        let Some(mut behind) = self.reached(from, to, true, &mut unlimited) else {
            return;
        };
        let Some(mut ahead) = self.reached(from, to, false, &mut unlimited) else {
            return;
        };
        *steps = steps.saturating_sub(usize::MAX - unlimited);
        let by_rank = |list: &mut Vec<u32>, rank: &[u32]| {
            list.sort_unstable_by_key(|&cluster| rank[cluster as usize]);
        };
        by_rank(&mut behind, &self.rank);
        by_rank(&mut ahead, &self.rank);
        let (kept, gone) = (from.min(to), from.max(to));
        let order: Vec<u32> = ahead
            .into_iter()
            .chain([kept, gone])
            .chain(behind)
            .collect();
        let mut ranks: Vec<u32> = order.iter().map(|&at| self.rank[at as usize]).collect();
        ranks.sort_unstable();
        for (cluster, rank) in order.into_iter().zip(ranks) {
            self.rank[cluster as usize] = rank;
        }
        self.parent[gone as usize] = kept;
        for lists in [&mut self.after, &mut self.before] {
            let (mut long, mut short) = (
                std::mem::take(&mut lists[kept as usize]),
                std::mem::take(&mut lists[gone as usize]),
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
            let first = self.first(node);
            let rank = self.rank[first as usize];
            by_rank.entry(rank).or_default().push(NodeId(node));
        }
        by_rank.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
