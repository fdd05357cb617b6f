//! The trees of TreeEnsembleClassifier and TreeEnsembleRegressor: lists of nodes, which have ids in their tree, and of the
//! weights of leaves.

use super::super::{Composition, invalid, wrong_length};
use super::forest::{Branch, Forest, column};
use std::collections::HashMap;
use tenon_base::{Error, Result};
use tenon_graph::Attributes;
use tenon_graph::trees::{Child, Problems};

/// The modes of comparisons, at the index that is their mode.
const MODES: [&str; 6] = [
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
];

/// The attributes of nodes.
struct NodeLists<'a> {
    trees: &'a [i64],
    ids: &'a [i64],
    features: &'a [i64],
    values: Vec<f64>,
    modes: &'a [String],
    then: &'a [i64],
    otherwise: &'a [i64],
    missing: &'a [i64],
}

/// The trees; `kind` is the prefix of the attributes of weights, "class" or "target".
pub(super) fn forest(composition: &Composition<'_>, kind: &str, targets: usize) -> Result<Forest> {
    let attributes = composition.attributes();
    let lists = NodeLists::of(composition, attributes)?;
    let mut problems = Problems::default();
    let index = lists.index(&mut problems);
    // Where each node of the lists is: a comparison or a leaf.
    let mut places = Vec::with_capacity(lists.ids.len());
    let (mut branches, mut leaves) = (0, 0);
    for mode in lists.modes {
        let counter = if mode == "LEAF" {
            &mut leaves
        } else {
            &mut branches
        };
        places.push(match mode.as_str() {
            "LEAF" => Child::Leaf(*counter),
            _ => Child::Node(*counter),
        });
        *counter += 1;
    }
    let mut has_parent = vec![false; places.len()];
    let mut nodes = Vec::with_capacity(branches);
    for at in (0..places.len()).filter(|&at| lists.modes[at] != "LEAF") {
        nodes.push(lists.branch(at, &index, &places, &mut has_parent, &mut problems));
    }
    let leaves = weights(
        composition,
        kind,
        targets,
        &index,
        &places,
        leaves,
        &mut problems,
    )?;
    let roots = lists.roots(&places, &has_parent, &mut problems);
    Forest::new(nodes, leaves, roots, problems)
}

impl<'a> NodeLists<'a> {
    fn of(composition: &Composition<'_>, attributes: &'a Attributes) -> Result<Self> {
        let ints = |name: &str| Ok::<_, Error>(attributes.ints(name)?.unwrap_or_default());
        let lists = Self {
            trees: ints("nodes_treeids")?,
            ids: ints("nodes_nodeids")?,
            features: ints("nodes_featureids")?,
            values: composition.floats("nodes_values")?.unwrap_or_default(),
            modes: attributes.strings("nodes_modes")?.unwrap_or_default(),
            then: ints("nodes_truenodeids")?,
            otherwise: ints("nodes_falsenodeids")?,
            missing: ints("nodes_missing_value_tracks_true")?,
        };
        let count = lists.ids.len();
        if count == 0 {
            return Err(invalid("attribute 'nodes_nodeids' is missing or empty"));
        }
        let missing = if lists.missing.is_empty() {
            count
        } else {
            lists.missing.len()
        };
        let lengths = [
            ("nodes_treeids", lists.trees.len()),
            ("nodes_featureids", lists.features.len()),
            ("nodes_values", lists.values.len()),
            ("nodes_modes", lists.modes.len()),
            ("nodes_truenodeids", lists.then.len()),
            ("nodes_falsenodeids", lists.otherwise.len()),
            ("nodes_missing_value_tracks_true", missing),
        ];
        let wrong = lengths.into_iter().filter(|row| row.1 != count);
        super::super::checked(
            wrong
                .map(|(name, found)| wrong_length(name, count, found))
                .collect(),
        )?;
        Ok(lists)
    }

    /// The index of each tree's nodes by their ids.
    fn index(&self, problems: &mut Problems) -> HashMap<(i64, i64), usize> {
        let mut index = HashMap::with_capacity(self.ids.len());
        for (at, (&tree, &id)) in self.trees.iter().zip(self.ids).enumerate() {
            if let Some(before) = index.insert((tree, id), at) {
                problems.add(|| {
                    invalid(format!(
                        "element {at} of attribute 'nodes_nodeids' is the id of another node"
                    ))
                    .found(format_args!(
                        "node {id} of tree {tree}, also element {before}"
                    ))
                });
            }
        }
        index
    }

    fn branch(
        &self,
        at: usize,
        index: &HashMap<(i64, i64), usize>,
        places: &[Child],
        has_parent: &mut [bool],
        problems: &mut Problems,
    ) -> Branch {
        let mode = MODES.iter().position(|mode| *mode == self.modes[at]);
        if mode.is_none() {
            problems.add(|| {
                invalid(format!(
                    "element {at} of attribute 'nodes_modes' is unknown"
                ))
                .expected(format_args!("{} or LEAF", MODES.join(", ")))
                .found(format_args!("'{}'", self.modes[at]))
            });
        }
        let feature = column(self.features, at, problems);
        if self.values[at].is_nan() {
            problems.add(|| {
                invalid(format!("element {at} of attribute 'nodes_values' is NaN"))
                    .expected("a threshold")
            });
        }
        let mut child = |name: &str, id: i64| match index.get(&(self.trees[at], id)) {
            Some(&child) => {
                has_parent[child] = true;
                places[child]
            }
            None => {
                problems.add(|| {
                    invalid(format!(
                        "element {at} of attribute '{name}' is no node of tree {}",
                        self.trees[at]
                    ))
                    .found(id)
                });
                Child::Leaf(0)
            }
        };
        Branch {
            children: [
                child("nodes_truenodeids", self.then[at]),
                child("nodes_falsenodeids", self.otherwise[at]),
            ],
            feature,
            threshold: self.values[at],
            mode: mode.unwrap_or(0) as u8,
            nan_passes: self.missing.get(at).is_some_and(|&missing| missing != 0),
            members: Vec::new(),
            index: at,
        }
    }

    /// The node of each tree that is no child, in the order of the trees' first nodes.
    fn roots(&self, places: &[Child], has_parent: &[bool], problems: &mut Problems) -> Vec<Child> {
        let mut order = Vec::new();
        let mut roots: HashMap<i64, Vec<usize>> = HashMap::new();
        for (at, &tree) in self.trees.iter().enumerate() {
            let of_tree = roots.entry(tree).or_insert_with(|| {
                order.push(tree);
                Vec::new()
            });
            if !has_parent[at] {
                of_tree.push(at);
            }
        }
        let mut found = Vec::with_capacity(order.len());
        for tree in order {
            match roots[&tree].as_slice() {
                &[root] => found.push(places[root]),
                [] => problems.add(|| {
                    invalid(format!(
                        "tree {tree} has no root: every node is a child, so that it has a cycle"
                    ))
                }),
                several => problems.add(|| {
                    invalid(format!("tree {tree} has more than one root")).found(format_args!(
                        "elements {several:?} of attribute 'nodes_nodeids'"
                    ))
                }),
            }
        }
        found
    }
}

/// The entries of the leaves.
fn weights(
    composition: &Composition<'_>,
    kind: &str,
    targets: usize,
    index: &HashMap<(i64, i64), usize>,
    places: &[Child],
    leaves: usize,
    problems: &mut Problems,
) -> Result<Vec<Vec<(usize, f64)>>> {
    let attributes = composition.attributes();
    let name = |part: &str| format!("{kind}_{part}");
    let ints = |part: &str| Ok::<_, Error>(attributes.ints(&name(part))?.unwrap_or_default());
    let (trees, nodes, ids) = (ints("treeids")?, ints("nodeids")?, ints("ids")?);
    let weights = composition.floats(&name("weights"))?.unwrap_or_default();
    let lengths = [
        ("treeids", trees.len()),
        ("nodeids", nodes.len()),
        ("ids", ids.len()),
    ];
    let wrong = lengths.into_iter().filter(|row| row.1 != weights.len());
    let wrong = wrong.map(|(part, found)| wrong_length(&name(part), weights.len(), found));
    super::super::checked(wrong.collect())?;
    let mut entries = vec![Vec::new(); leaves];
    for (at, weight) in weights.into_iter().enumerate() {
        let target = usize::try_from(ids[at])
            .ok()
            .filter(|&target| target < targets);
        if target.is_none() {
            problems.add(|| {
                invalid(format!(
                    "element {at} of attribute '{}' is out of range",
                    name("ids")
                ))
                .expected(format_args!("0 to {}", targets - 1))
                .found(ids[at])
            });
        }
        match index.get(&(trees[at], nodes[at])).map(|&node| places[node]) {
            Some(Child::Leaf(leaf)) => entries[leaf].extend(target.map(|target| (target, weight))),
            // onnxruntime ignores the weights of comparisons.
            Some(Child::Node(_)) => {}
            None => problems.add(|| {
                invalid(format!(
                    "element {at} of attribute '{}' is no node",
                    name("nodeids")
                ))
                .found(format_args!("node {} of tree {}", nodes[at], trees[at]))
            }),
        }
    }
    Ok(entries)
}
