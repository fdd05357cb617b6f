//! Trees in the form of `tenon.TreeEnsemble`.

use super::Scored;
use crate::import::invalid;
use std::collections::HashMap;
use tenon_base::Result;
use tenon_graph::trees::{Child, NAN_PASSES, Problems, TREE_INPUTS};
use tenon_tensor::{DataType, Tensor, convert};

/// The number of the mode that tests for members.
pub(super) const MEMBER: u8 = 6;

/// Trees, whose nodes are in the order of the model.
pub(super) struct Forest {
    pub nodes: Vec<Branch>,
    /// The entries of each leaf: target and weight.
    pub leaves: Vec<Vec<(usize, f64)>>,
    pub roots: Vec<Child>,
}

/// A comparison.
pub(super) struct Branch {
    pub feature: i32,
    pub threshold: f64,
    pub mode: u8,
    pub nan_passes: bool,
    pub members: Vec<f64>,
    pub children: [Child; 2],
    /// Its index in the attributes.
    pub index: usize,
}

impl Forest {
    /// Trees whose comparisons follow each other without a cycle. `problems` are those of reading them.
    pub fn new(
        nodes: Vec<Branch>,
        leaves: Vec<Vec<(usize, f64)>>,
        roots: Vec<Child>,
        problems: Problems,
    ) -> Result<Self> {
        problems.result()?;
        let mut forest = Self {
            nodes,
            leaves,
            roots,
        };
        forest.give_each_root_a_node();
        forest.sort()?;
        Ok(forest)
    }

    /// A tree of one leaf becomes a comparison, after which every row is at that leaf.
    fn give_each_root_a_node(&mut self) {
        for root in &mut self.roots {
            if let Child::Leaf(_) = root {
                let index = self.nodes.len();
                self.nodes.push(Branch {
                    feature: 0,
                    threshold: 0.0,
                    mode: 0,
                    nan_passes: false,
                    members: Vec::new(),
                    children: [*root; 2],
                    index,
                });
                *root = Child::Node(index);
            }
        }
    }

    /// Sorts the nodes topologically, by depth-first search.
    fn sort(&mut self) -> Result<()> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut states = vec![State::New; self.nodes.len()];
        let mut problems = Problems::default();
        for root in &self.roots {
            if let Child::Node(root) = *root {
                self.visit(root, &mut states, &mut order, &mut problems);
            }
        }
        // Nodes that no root reaches are left out, but their cycles are errors, too.
        let reached = order.len();
        for node in 0..self.nodes.len() {
            self.visit(node, &mut states, &mut order, &mut problems);
        }
        problems.result()?;
        order.truncate(reached);
        order.reverse();
        let mut position = vec![0; self.nodes.len()];
        for (at, &node) in order.iter().enumerate() {
            position[node] = at;
        }
        let moved = |child: Child| match child {
            Child::Node(node) => Child::Node(position[node]),
            leaf @ Child::Leaf(_) => leaf,
        };
        let mut old: Vec<Option<Branch>> = self.nodes.drain(..).map(Some).collect();
        let sorted = order.iter().filter_map(|&node| old[node].take());
        self.nodes = sorted
            .map(|node| Branch {
                children: node.children.map(moved),
                ..node
            })
            .collect();
        self.roots = self.roots.iter().map(|&root| moved(root)).collect();
        Ok(())
    }

    fn visit(
        &self,
        root: usize,
        states: &mut [State],
        order: &mut Vec<usize>,
        problems: &mut Problems,
    ) {
        // A node, and the number of its children that were visited.
        let mut stack = vec![(root, 0)];
        while let Some((node, visited)) = stack.pop() {
            if visited == 0 && states[node] != State::New {
                continue;
            }
            states[node] = State::Open;
            // The second child first: the order is reversed.
            let Some(&child) = self.nodes[node].children.iter().rev().nth(visited) else {
                states[node] = State::Done;
                order.push(node);
                continue;
            };
            stack.push((node, visited + 1));
            let Child::Node(child) = child else { continue };
            match states[child] {
                State::New => stack.push((child, 0)),
                State::Open => problems.add(|| {
                    invalid(format!(
                        "node {} follows itself: the tree has a cycle",
                        self.nodes[child].index
                    ))
                    .found(format_args!("child of node {}", self.nodes[node].index))
                }),
                _ => {}
            }
        }
    }

    /// The constants of the operator.
    pub fn constants(&self, dtype: DataType) -> Result<Vec<(&'static str, Tensor)>> {
        let int = |value: usize| {
            i32::try_from(value).map_err(|_| invalid("the trees have too many nodes").found(value))
        };
        let ints = |values: Vec<i32>| Tensor::from_slice([values.len()], &values);
        let reals =
            |values: Vec<f64>| convert(&Tensor::from_slice([values.len()], &values)?, dtype);
        let child = |child: Child| match child {
            Child::Node(node) => int(node),
            Child::Leaf(leaf) => int(leaf).map(|leaf| -1 - leaf),
        };
        let nodes = &self.nodes;
        let children = nodes.iter().flat_map(|node| node.children).map(child);
        let children = children.collect::<Result<Vec<i32>>>()?;
        let mode = |node: &Branch| node.mode | if node.nan_passes { NAN_PASSES } else { 0 };
        let modes: Vec<u8> = nodes.iter().map(mode).collect();
        let leaves = self.leaves.iter().map(Vec::len);
        let sets = || nodes.iter().filter(|node| node.mode == MEMBER);
        let starts = |lengths: &mut dyn Iterator<Item = usize>| -> Result<Tensor> {
            let mut starts = vec![0];
            let mut end = 0;
            for length in lengths {
                end += length;
                starts.push(int(end)?);
            }
            ints(starts)
        };
        let entries = || self.leaves.iter().flatten();
        let roots = self.roots.iter().map(|&root| child(root));
        let mut tensors = vec![
            ints(nodes.iter().map(|node| node.feature).collect())?,
            reals(nodes.iter().map(|node| node.threshold).collect())?,
            Tensor::from_slice([modes.len()], &modes)?,
            Tensor::from_slice([nodes.len(), 2], &children)?,
            ints(roots.collect::<Result<_>>()?)?,
            starts(&mut leaves.into_iter())?,
            ints(entries().map(|entry| int(entry.0)).collect::<Result<_>>()?)?,
            reals(entries().map(|entry| entry.1).collect())?,
        ];
        if sets().next().is_some() {
            let members = sets().flat_map(|node| node.members.iter().copied());
            tensors.push(reals(members.collect())?);
            tensors.push(starts(&mut sets().map(|node| node.members.len()))?);
        }
        Ok(TREE_INPUTS.into_iter().zip(tensors).collect())
    }

    /// The same trees with weights of 1.
    pub fn counts(&self) -> Self {
        let ones =
            |leaf: &Vec<(usize, f64)>| leaf.iter().map(|&(target, _)| (target, 1.0)).collect();
        let branch = |node: &Branch| Branch {
            members: node.members.clone(),
            ..*node
        };
        Self {
            nodes: self.nodes.iter().map(branch).collect(),
            leaves: self.leaves.iter().map(ones).collect(),
            roots: self.roots.clone(),
        }
    }

    pub fn has_no_negative_weight(&self) -> bool {
        self.leaves.iter().flatten().all(|entry| entry.1 >= 0.0)
    }

    /// Whether the leaves that rows reach have weights of each class: always, if each leaf of a tree has one.
    pub fn scored(&self, classes: usize) -> Vec<Scored> {
        let mut scored = vec![Scored::Never; classes];
        for &(class, _) in self.leaves.iter().flatten() {
            scored[class] = Scored::Sometimes;
        }
        // The node after which a tree's nodes were counted, so that shared nodes are counted for each tree.
        let mut seen = vec![usize::MAX; self.nodes.len()];
        for (tree, root) in self.roots.iter().enumerate() {
            let mut counts: HashMap<usize, usize> = HashMap::new();
            let mut leaves = 0;
            let mut stack = vec![*root];
            while let Some(child) = stack.pop() {
                match child {
                    Child::Node(node) if seen[node] == tree => {}
                    Child::Node(node) => {
                        seen[node] = tree;
                        stack.extend(self.nodes[node].children);
                    }
                    Child::Leaf(leaf) => {
                        leaves += 1;
                        let mut classes: Vec<usize> =
                            self.leaves[leaf].iter().map(|entry| entry.0).collect();
                        classes.sort_unstable();
                        classes.dedup();
                        for class in classes {
                            *counts.entry(class).or_default() += 1;
                        }
                    }
                }
            }
            for (class, count) in counts {
                if count == leaves {
                    scored[class] = Scored::Always;
                }
            }
        }
        scored
    }
}

/// The column of X that node `at` compares.
pub(super) fn column(features: &[i64], at: usize, problems: &mut Problems) -> i32 {
    let found = i32::try_from(features[at]).ok();
    found.filter(|&column| column >= 0).unwrap_or_else(|| {
        problems.add(|| {
            invalid(format!(
                "element {at} of attribute 'nodes_featureids' is no column of the input"
            ))
            .found(features[at])
        });
        0
    })
}

/// What depth-first search knows of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}
