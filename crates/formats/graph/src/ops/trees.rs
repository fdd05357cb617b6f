//! Ensembles of decision trees, tables of keys and probabilities of classes: the operators of classical machine learning.

use super::rows::*;
use super::shapes::{Inferred, expect_dtype, expect_scalar, invalid, one, rank};
use crate::operator::Types;
use crate::trees::{TREE_INPUTS, TreeEnsemble};
use crate::{DataType, Inference};

/// The types of features.
const FEATURES: Types = Types::Only(&[DataType::F32, DataType::F64]);

operators! { "trees"
    /// Scores of rows of features by decision trees: X [N, F]; Y [N, targets]. Node i compares column features[i] of X with
    /// thresholds[i]: modes[i] is 0 for <=, 1 for <, 2 for >=, 3 for >, 4 for ==, 5 for !=, 6 for a member of a set,
    /// plus 8 if NaN passes. children[i] are the next node if x passes and otherwise: a later node, or leaf l as
    /// -1 - l. The set of the s-th node of mode 6 is members[member_starts[s]] to members[member_starts[s + 1] - 1]. A leaf
    /// has the entries leaf_starts[l] to leaf_starts[l + 1] - 1, each the weight of a target. `aggregate` makes one value
    /// of the weights of a target of all trees; 0 where there are none.
    Compute "tenon.TreeEnsemble"
        (required("X", FEATURES), known(required("features", I32)), known(required("thresholds", FEATURES)),
         known(required("modes", U8)), known(required("children", I32)), known(required("roots", I32)),
         known(required("leaf_starts", I32)), known(required("targets", I32)),
         known(required("weights", FEATURES)), known(optional("members", FEATURES)),
         known(optional("member_starts", I32)))
        -> (required("Y", FEATURES))
        [
            string("aggregate", "SUM, AVERAGE (the sum divided by the number of trees), MIN or MAX; default SUM"),
            must(int("targets", "columns of Y")),
        ] tree_ensemble;
    /// The value of each element of X: values[i] if the element equals keys[i], otherwise `default`, a scalar. Keys are
    /// distinct; NaN equals NaN. The host program computes it on strings.
    Compute "tenon.LookUp"
        (required("X", ANY), known(required("keys", ANY)), known(required("values", ANY)), known(required("default", ANY)))
        -> (required("Y", ANY)) [] look_up;
    /// The probability of each class, from that of the first class of each pair: P [N, classes (classes - 1) / 2] in the
    /// order (0, 1), (0, 2), .. (1, 2), ..; Y [N, classes]. The second method of Wu, Lin and Weng, "Probability Estimates for
    /// Multi-class Classification by Pairwise Coupling" (2004): at most 100 steps, or as many as classes, until no error
    /// exceeds 0.005 / classes.
    Compute "tenon.CoupleProbabilities"
        (required("P", F32)) -> (required("Y", F32)) [must(int("classes", "columns of Y, at least 2"))] couple;
}

fn tree_ensemble(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    rank(x, "X", 2..=2)?;
    let input = |name: &str| {
        TREE_INPUTS
            .iter()
            .position(|known| *known == name)
            .map(|at| at + 1)
    };
    for name in ["thresholds", "weights", "members"] {
        if let Some(ty) = input(name).and_then(|at| node.optional(at)) {
            expect_dtype(ty, name, x.dtype())?;
        }
    }
    let mut extents = [0; TREE_INPUTS.len()];
    for (at, name) in TREE_INPUTS.iter().enumerate() {
        if let Some(ty) = node.optional(at + 1) {
            let dims = if *name == "children" { 2 } else { 1 };
            rank(ty, name, dims..=dims)?;
            extents[at] = ty.shape()[0];
        }
    }
    let [
        nodes,
        thresholds,
        modes,
        children,
        _,
        _,
        targets,
        weights,
        ..,
    ] = extents;
    for (name, expected, found) in [
        ("thresholds", nodes, thresholds),
        ("modes", nodes, modes),
        ("children", nodes, children),
        ("weights", targets, weights),
    ] {
        if expected != found {
            return Err(
                invalid(format!("input '{name}' has the wrong number of elements"))
                    .expected(expected)
                    .found(found),
            );
        }
    }
    if node.input(4)?.shape()[1] != 2 {
        return Err(invalid("input 'children' does not have two columns"));
    }
    let constants: Vec<_> = (1..=TREE_INPUTS.len())
        .map(|at| node.constant(at))
        .collect();
    let trees = TreeEnsemble::new(node.attributes, x.shape()[1], &constants)?;
    one(x.dtype(), [x.shape()[0], trees.targets])
}

fn couple(node: &Inference<'_>) -> Inferred {
    let pairs = node.input(0)?;
    rank(pairs, "P", 2..=2)?;
    let given = node.attributes.int("classes", 0)?;
    let classes = usize::try_from(given).unwrap_or(0);
    if classes < 2 {
        return Err(invalid("attribute 'classes' is too small")
            .expected("at least 2")
            .found(given));
    }
    let expected = classes.saturating_mul(classes - 1) / 2;
    if pairs.shape()[1] != expected {
        return Err(invalid("input 'P' does not have a column for each pair")
            .expected(expected)
            .found(pairs.shape()[1]));
    }
    one(DataType::F32, [pairs.shape()[0], classes])
}

fn look_up(node: &Inference<'_>) -> Inferred {
    let (x, keys, values) = (node.input(0)?, node.input(1)?, node.input(2)?);
    expect_dtype(keys, "keys", x.dtype())?;
    rank(keys, "keys", 1..=1)?;
    rank(values, "values", 1..=1)?;
    if keys.shape() != values.shape() {
        return Err(invalid("input 'values' does not have a value for each key")
            .expected(keys.shape())
            .found(values.shape()));
    }
    expect_scalar(node, 3, "default")?;
    expect_dtype(node.input(3)?, "default", values.dtype())?;
    one(values.dtype(), x.shape().clone())
}
