//! The decision trees of `tenon.TreeEnsemble`: the constants of a node, checked, so that every walk from a root ends
//! at a leaf.

use crate::Attributes;
use crate::ops::shapes::invalid;
use std::ops::Range;
use tenon_base::{Error, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// The inputs of `tenon.TreeEnsemble` after X, in order.
pub const TREE_INPUTS: [&str; 10] = [
    "features",
    "thresholds",
    "modes",
    "children",
    "roots",
    "leaf_starts",
    "targets",
    "weights",
    "members",
    "member_starts",
];

/// The bit of a mode that sends NaN to the first child.
pub const NAN_PASSES: u8 = 8;

/// The values of attribute `aggregate`.
const AGGREGATES: [&str; 4] = ["SUM", "AVERAGE", "MIN", "MAX"];

/// The most problems that are listed.
const PROBLEMS: usize = 16;

/// The trees of a node. The thresholds and weights of f32 are exact in f64, and so are their comparisons.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeEnsemble {
    /// The nodes of all trees; children come after their parents.
    pub nodes: Vec<TreeNode>,
    /// The first node of each tree.
    pub roots: Vec<usize>,
    /// The entries of each leaf.
    pub leaves: Vec<Range<usize>>,
    /// The target and weight of each entry.
    pub entries: Vec<(usize, f64)>,
    /// The elements of the sets of [`Test::Member`].
    pub members: Vec<f64>,
    /// The number of targets.
    pub targets: usize,
    /// How the weights of the leaves of a row become one value of a target.
    pub aggregate: Aggregate,
}

/// A node, which compares a feature.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// The column of X.
    pub feature: usize,
    /// The comparison.
    pub test: Test,
    /// Whether NaN passes the test.
    pub nan_passes: bool,
    /// Where rows go that pass the test, and where the others go.
    pub children: [Child; 2],
}

/// A comparison of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `x <= threshold`
    LessOrEqual(f64),
    /// `x < threshold`
    Less(f64),
    /// `x >= threshold`
    GreaterOrEqual(f64),
    /// `x > threshold`
    Greater(f64),
    /// `x == threshold`
    Equal(f64),
    /// `x != threshold`, also for NaN
    NotEqual(f64),
    /// x is one of these members.
    Member(Range<usize>),
}

/// What follows a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Another comparison.
    Node(usize),
    /// The end of the walk.
    Leaf(usize),
}

/// How the weights of the leaves of a row become one value of a target. A target without weights is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The sum.
    Sum,
    /// The sum, divided by the number of trees.
    Average,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Aggregate {
    /// Two weights of a target as one, before the division of [`Aggregate::Average`].
    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum | Self::Average => a + b,
            Self::Min if b < a => b,
            Self::Max if b > a => b,
            Self::Min | Self::Max => a,
        }
    }
}

impl TreeEnsemble {
    /// The trees of a node whose X has a number of features, from the constants after X. They must have the types and
    /// shapes that shape inference expects.
    ///
    /// # Errors
    /// All indices that are out of range, up to a limit.
    pub fn new(
        attributes: &Attributes,
        features: usize,
        constants: &[Option<&Tensor>],
    ) -> Result<Self> {
        let constants = Constants(constants);
        let targets = attributes.int("targets", 0)?;
        let targets = usize::try_from(targets)
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(|| invalid("attribute 'targets' is not positive").found(targets))?;
        let mut problems = Problems::default();
        let entries: Vec<(usize, f64)> = {
            let weights = constants.floats(7)?;
            let found = constants.ints(6)?;
            problems.check("targets", &found, 0..targets as i64);
            let found = found.into_iter().map(|target| target as usize);
            found.zip(weights).collect()
        };
        let leaves = ranges(
            "leaf_starts",
            &constants.ints(5)?,
            entries.len(),
            &mut problems,
        );
        let members = constants.optional_floats(8)?;
        let starts = constants.optional_ints(9)?;
        let sets = ranges("member_starts", &starts, members.len(), &mut problems);
        let nodes = nodes(&constants, features, leaves.len(), &sets, &mut problems)?;
        let roots = constants.ints(4)?;
        problems.check("roots", &roots, 0..nodes.len() as i64);
        problems.result()?;
        Ok(Self {
            nodes,
            roots: roots.into_iter().map(|root| root as usize).collect(),
            leaves,
            entries,
            members,
            targets,
            aggregate: Aggregate::of(attributes)?,
        })
    }

    /// The leaf of a tree for a row of features.
    pub fn leaf(&self, root: usize, row: impl Fn(usize) -> f64) -> usize {
        let mut at = root;
        loop {
            let node = &self.nodes[at];
            let passes = self.passes(node, row(node.feature));
            match node.children[usize::from(!passes)] {
                Child::Node(next) => at = next,
                Child::Leaf(leaf) => return leaf,
            }
        }
    }

    fn passes(&self, node: &TreeNode, x: f64) -> bool {
        let passes = match &node.test {
            Test::LessOrEqual(threshold) => x <= *threshold,
            Test::Less(threshold) => x < *threshold,
            Test::GreaterOrEqual(threshold) => x >= *threshold,
            Test::Greater(threshold) => x > *threshold,
            Test::Equal(threshold) => x == *threshold,
            Test::NotEqual(threshold) => x != *threshold,
            Test::Member(set) => self.members[set.clone()].contains(&x),
        };
        passes || node.nan_passes && x.is_nan()
    }
}

impl Aggregate {
    /// The aggregate that an attribute names.
    ///
    /// # Errors
    /// An unknown name.
    pub fn of(attributes: &Attributes) -> Result<Self> {
        let name = attributes.string("aggregate", "SUM")?;
        let all = [Self::Sum, Self::Average, Self::Min, Self::Max];
        let found = AGGREGATES.iter().position(|known| *known == name);
        found.map(|at| all[at]).ok_or_else(|| {
            invalid("attribute 'aggregate' has an unknown value")
                .expected(AGGREGATES.join(" or "))
                .found(format_args!("'{name}'"))
        })
    }
}

/// The problems of trees that are found, up to a limit.
#[derive(Debug, Default)]
pub struct Problems(Vec<Error>);

impl Problems {
    /// Adds a problem, unless there are many.
    pub fn add(&mut self, error: impl FnOnce() -> Error) {
        if self.0.len() < PROBLEMS {
            self.0.push(error());
        }
    }

    /// Checks that the elements of an input are in a range.
    fn check(&mut self, name: &str, elements: &[i64], range: Range<i64>) {
        for (at, &element) in elements.iter().enumerate() {
            if !range.contains(&element) {
                self.add(|| out_of_range(name, at, element, range.clone()));
            }
        }
    }

    /// An error of all problems.
    ///
    /// # Errors
    /// Where there are any.
    pub fn result(self) -> Result<()> {
        Error::from_all(self.0).map_or(Ok(()), Err)
    }
}

fn out_of_range(name: &str, at: usize, found: i64, range: Range<i64>) -> Error {
    invalid(format!("element {at} of input '{name}' is out of range"))
        .expected(format_args!("{} to {}", range.start, range.end - 1))
        .found(found)
}

/// The constants after X.
struct Constants<'a>(&'a [Option<&'a Tensor>]);

impl Constants<'_> {
    fn tensor(&self, index: usize) -> Result<&Tensor> {
        let tensor = self.0.get(index).copied().flatten();
        tensor.ok_or_else(|| invalid(format!("input '{}' is missing", TREE_INPUTS[index])))
    }

    fn ints(&self, index: usize) -> Result<Vec<i64>> {
        let ints = self.tensor(index)?.to_i64s();
        ints.ok_or_else(|| invalid(format!("input '{}' has no integers", TREE_INPUTS[index])))
    }

    fn floats(&self, index: usize) -> Result<Vec<f64>> {
        let wide = convert(self.tensor(index)?, DataType::F64)?;
        Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
    }

    fn is_given(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(Option::is_some)
    }

    fn optional_ints(&self, index: usize) -> Result<Vec<i64>> {
        match self.is_given(index) {
            true => self.ints(index),
            false => Ok(Vec::new()),
        }
    }

    fn optional_floats(&self, index: usize) -> Result<Vec<f64>> {
        match self.is_given(index) {
            true => self.floats(index),
            false => Ok(Vec::new()),
        }
    }
}

/// The ranges between the elements of an input, which ascend from 0 to `end`.
fn ranges(name: &str, starts: &[i64], end: usize, problems: &mut Problems) -> Vec<Range<usize>> {
    problems.check(name, starts, 0..end as i64 + 1);
    let bounds = starts.first().zip(starts.last());
    if bounds.is_some_and(|(&first, &last)| first != 0 || last != end as i64) {
        problems.add(|| {
            invalid(format!(
                "input '{name}' does not start at 0 and end at {end}"
            ))
            .found(format_args!("{starts:?}"))
        });
    }
    for (at, pair) in starts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            problems.add(|| {
                invalid(format!(
                    "element {} of input '{name}' is less than the one before",
                    at + 1
                ))
                .expected(format_args!("at least {}", pair[0]))
                .found(pair[1])
            });
        }
    }
    let pairs = starts.windows(2);
    pairs
        .map(|pair| pair[0] as usize..pair[1] as usize)
        .collect()
}

/// The nodes; `sets` are those of the nodes that test for members, in the order of these nodes.
fn nodes(
    constants: &Constants<'_>,
    features: usize,
    leaves: usize,
    sets: &[Range<usize>],
    problems: &mut Problems,
) -> Result<Vec<TreeNode>> {
    let columns = constants.ints(0)?;
    problems.check("features", &columns, 0..features as i64);
    let (thresholds, modes) = (constants.floats(1)?, constants.ints(2)?);
    let children = constants.ints(3)?;
    let count = columns.len() as i64;
    let mut sets = sets.iter();
    let mut nodes = Vec::with_capacity(columns.len());
    let each = columns
        .iter()
        .zip(thresholds)
        .zip(modes)
        .zip(children.chunks_exact(2));
    for (at, (((&feature, threshold), mode), pair)) in each.enumerate() {
        for (side, &child) in pair.iter().enumerate() {
            // Later nodes, so that walks end; or leaves, from -1 downwards.
            let range = if child < 0 {
                -(leaves as i64)..0
            } else {
                at as i64 + 1..count
            };
            if !range.contains(&child) {
                problems.add(|| {
                    let text = format!(
                        "element {} of input 'children' is out of range",
                        2 * at + side
                    );
                    invalid(text)
                        .expected(format_args!(
                            "a later node, up to {}, or a leaf, -1 to -{leaves}",
                            count - 1
                        ))
                        .found(child)
                });
            }
        }
        let child = |index: i64| match usize::try_from(index) {
            Ok(node) => Child::Node(node),
            Err(_) => Child::Leaf((-1 - index) as usize),
        };
        let test = match mode & !i64::from(NAN_PASSES) {
            0 => Test::LessOrEqual(threshold),
            1 => Test::Less(threshold),
            2 => Test::GreaterOrEqual(threshold),
            3 => Test::Greater(threshold),
            4 => Test::Equal(threshold),
            5 => Test::NotEqual(threshold),
            6 => Test::Member(sets.next().cloned().unwrap_or_else(|| {
                problems.add(|| invalid(format!("node {at} has no set in input 'member_starts'")));
                0..0
            })),
            _ => {
                problems.add(|| out_of_range("modes", at, mode, 0..15));
                Test::Equal(threshold)
            }
        };
        nodes.push(TreeNode {
            feature: feature as usize,
            test,
            nan_passes: mode & i64::from(NAN_PASSES) != 0,
            children: [child(pair[0]), child(pair[1])],
        });
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    /// The constants of a tree of two comparisons and three leaves.
    fn constants() -> Vec<Tensor> {
        vec![
            Tensor::from_slice([2], &[0i32, 1]).unwrap(),
            Tensor::from_slice([2], &[0.5f32, 0.0]).unwrap(),
            Tensor::from_slice([2], &[NAN_PASSES, 6]).unwrap(),
            Tensor::from_slice([2, 2], &[1i32, -1, -2, -3]).unwrap(),
            Tensor::from_slice([1], &[0i32]).unwrap(),
            Tensor::from_slice([4], &[0i32, 1, 2, 3]).unwrap(),
            Tensor::from_slice([3], &[0i32, 1, 0]).unwrap(),
            Tensor::from_slice([3], &[1f32, 2.0, 3.0]).unwrap(),
            Tensor::from_slice([2], &[4f32, 5.0]).unwrap(),
            Tensor::from_slice([2], &[0i32, 2]).unwrap(),
        ]
    }

    fn read(constants: &[Tensor]) -> Result<TreeEnsemble> {
        let attributes = Attributes::new().with("targets", Attribute::Int(2));
        let constants: Vec<_> = constants.iter().map(Some).collect();
        TreeEnsemble::new(&attributes, 2, &constants)
    }

    #[test]
    fn rows_end_at_their_leaf() {
        let trees = read(&constants()).unwrap();
        let leaf = |row: [f64; 2]| trees.leaf(0, |feature| row[feature]);
        assert_eq!(leaf([0.6, 4.0]), 0);
        assert_eq!(leaf([0.5, 4.0]), 1);
        assert_eq!(leaf([f64::NAN, 4.5]), 2);
        assert_eq!(leaf([0.0, f64::NAN]), 2);
    }

    #[test]
    fn trees_have_targets() {
        let all = constants();
        let all: Vec<_> = all.iter().map(Some).collect();
        for targets in [0, -1, i64::MIN] {
            let attributes = Attributes::new().with("targets", Attribute::Int(targets));
            let error = TreeEnsemble::new(&attributes, 2, &all).unwrap_err();
            assert!(error.to_string().contains("'targets' is not positive"));
        }
    }

    #[test]
    fn indices_out_of_range_are_reported_together() {
        let wrong = [
            (
                0,
                vec![0, 2],
                "element 1 of input 'features' is out of range",
            ),
            (
                3,
                vec![1, -1, 1, -4],
                "element 2 of input 'children' is out of range",
            ),
            (4, vec![-1], "element 0 of input 'roots' is out of range"),
            (
                5,
                vec![0, 2, 1, 3],
                "element 2 of input 'leaf_starts' is less than the one before",
            ),
            (
                6,
                vec![0, 1, 2],
                "element 2 of input 'targets' is out of range",
            ),
            (
                9,
                vec![0, 1],
                "input 'member_starts' does not start at 0 and end at 2",
            ),
        ];
        let mut all = constants();
        for (at, elements, _) in &wrong {
            all[*at] = Tensor::from_slice(all[*at].shape().clone(), elements.as_slice()).unwrap();
        }
        all[2] = Tensor::from_slice([2], &[7u8, 6]).unwrap();
        let error = read(&all).unwrap_err();
        let found: Vec<String> = error
            .all()
            .map(|error| error.message().to_owned())
            .collect();
        for (_, _, text) in &wrong {
            assert!(found.contains(&(*text).to_owned()), "{text}: {found:?}");
        }
        assert!(found.contains(&"element 0 of input 'modes' is out of range".to_owned()));
        all[2] = Tensor::from_slice([2], &[6u8, 6]).unwrap();
        let error = read(&all).unwrap_err().to_string();
        assert!(
            error.contains("node 1 has no set in input 'member_starts'"),
            "{error}"
        );
    }
}
