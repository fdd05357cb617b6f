//! The trees of TreeEnsemble: lists of comparisons, whose children are indices of comparisons or leaves.

use super::super::{invalid, wide, wrong_length};
use super::forest::{Branch, Forest, MEMBER, column};
use tenon_base::{Error, Result};
use tenon_graph::Attributes;
use tenon_graph::trees::{Child, Problems};

/// The trees.
pub(super) fn forest(attributes: &Attributes, targets: usize) -> Result<Forest> {
    let ints = |name: &str| Ok::<_, Error>(attributes.ints(name)?.unwrap_or_default());
    let (features, roots) = (ints("nodes_featureids")?, ints("tree_roots")?);
    let [then, then_leaf] = [ints("nodes_truenodeids")?, ints("nodes_trueleafs")?];
    let [otherwise, otherwise_leaf] = [ints("nodes_falsenodeids")?, ints("nodes_falseleafs")?];
    let missing = ints("nodes_missing_value_tracks_true")?;
    let splits = tensor(attributes, "nodes_splits")?;
    let modes = match attributes.tensor("nodes_modes")? {
        Some(modes) => modes.to_i64s().unwrap_or_default(),
        None => Vec::new(),
    };
    let leaf_targets = ints("leaf_targetids")?;
    let leaf_weights = tensor(attributes, "leaf_weights")?;
    let count = features.len();
    let given = |list: &[i64]| if list.is_empty() { count } else { list.len() };
    let mut problems = Problems::default();
    for (name, found) in [
        ("nodes_truenodeids", then.len()),
        ("nodes_trueleafs", then_leaf.len()),
        ("nodes_falsenodeids", otherwise.len()),
        ("nodes_falseleafs", otherwise_leaf.len()),
        ("nodes_splits", splits.len()),
        ("nodes_modes", modes.len()),
        ("nodes_missing_value_tracks_true", given(missing)),
    ] {
        if found != count {
            problems.add(|| wrong_length(name, count, found));
        }
    }
    if leaf_targets.len() != leaf_weights.len() {
        problems.add(|| wrong_length("leaf_targetids", leaf_weights.len(), leaf_targets.len()));
    }
    std::mem::take(&mut problems).result()?;
    let mut sets = sets(attributes)?.into_iter();
    let mut nodes = Vec::with_capacity(count);
    for at in 0..count {
        let mut child = |name: &str, index: i64, is_leaf: i64| {
            let most = if is_leaf != 0 {
                leaf_weights.len()
            } else {
                count
            };
            match usize::try_from(index).ok().filter(|&index| index < most) {
                Some(leaf) if is_leaf != 0 => Child::Leaf(leaf),
                Some(node) => Child::Node(node),
                None => {
                    problems.add(|| {
                        invalid(format!(
                            "element {at} of attribute '{name}' is out of range"
                        ))
                        .expected(format_args!("0 to {}", most as i64 - 1))
                        .found(index)
                    });
                    Child::Leaf(0)
                }
            }
        };
        let children = [
            child("nodes_truenodeids", then[at], then_leaf[at]),
            child("nodes_falsenodeids", otherwise[at], otherwise_leaf[at]),
        ];
        let mode = u8::try_from(modes[at]).ok().filter(|&mode| mode <= MEMBER);
        if mode.is_none() {
            problems.add(|| {
                invalid(format!(
                    "element {at} of attribute 'nodes_modes' is unknown"
                ))
                .expected("0 to 6")
                .found(modes[at])
            });
        }
        let feature = column(features, at, &mut problems);
        let mut members = Vec::new();
        if mode == Some(MEMBER) {
            match sets.next() {
                Some(set) => members = set,
                None => problems.add(|| {
                    invalid(format!(
                        "node {at} has no set in attribute 'membership_values'"
                    ))
                }),
            }
        } else if splits[at].is_nan() {
            problems.add(|| invalid(format!("element {at} of attribute 'nodes_splits' is NaN")));
        }
        nodes.push(Branch {
            feature,
            threshold: if mode == Some(MEMBER) {
                0.0
            } else {
                splits[at]
            },
            mode: mode.unwrap_or(0),
            nan_passes: missing.get(at).is_some_and(|&missing| missing != 0),
            members,
            children,
            index: at,
        });
    }
    let left = sets.count();
    if left > 0 {
        problems.add(|| {
            invalid("attribute 'membership_values' has more sets than there are nodes of mode 6")
                .found(format_args!("{left} more"))
        });
    }
    let mut leaves = Vec::with_capacity(leaf_weights.len());
    for (at, (&target, weight)) in leaf_targets.iter().zip(leaf_weights).enumerate() {
        let found = usize::try_from(target)
            .ok()
            .filter(|&target| target < targets);
        if found.is_none() {
            problems.add(|| {
                invalid(format!(
                    "element {at} of attribute 'leaf_targetids' is out of range"
                ))
                .expected(format_args!("0 to {}", targets - 1))
                .found(target)
            });
        }
        leaves.push(found.map(|target| (target, weight)).into_iter().collect());
    }
    let mut firsts = Vec::with_capacity(roots.len());
    for (at, &root) in roots.iter().enumerate() {
        match usize::try_from(root).ok().filter(|&root| root < count) {
            Some(root) => firsts.push(Child::Node(root)),
            None => problems.add(|| {
                invalid(format!(
                    "element {at} of attribute 'tree_roots' is out of range"
                ))
                .expected(format_args!("0 to {}", count as i64 - 1))
                .found(root)
            }),
        }
    }
    if roots.is_empty() {
        problems.add(|| invalid("attribute 'tree_roots' is missing or empty"));
    }
    Forest::new(nodes, leaves, firsts, problems)
}

fn tensor(attributes: &Attributes, name: &str) -> Result<Vec<f64>> {
    attributes.tensor(name)?.map_or(Ok(Vec::new()), wide)
}

/// The sets of members, each ended by NaN; the last may lack it.
fn sets(attributes: &Attributes) -> Result<Vec<Vec<f64>>> {
    let mut sets = Vec::new();
    let mut set = Vec::new();
    for value in tensor(attributes, "membership_values")? {
        if value.is_nan() {
            sets.push(std::mem::take(&mut set));
        } else {
            set.push(value);
        }
    }
    if !set.is_empty() {
        sets.push(set);
    }
    Ok(sets)
}
