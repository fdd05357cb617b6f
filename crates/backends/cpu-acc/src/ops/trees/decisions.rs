//! The comparisons of a tree ensemble, all rewritten to one: whether a column is greater than a threshold, where a NaN is not.
//! A column is a feature or its negation.

use crate::simd::trees::{Decision, TreeElement};
use std::collections::HashMap;
use tenon_graph::trees::{Child, Test, TreeEnsemble, TreeNode};

/// A feature, or its negation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Column {
    pub(super) feature: usize,
    pub(super) negated: bool,
}

/// The decisions of all trees.
#[derive(Debug)]
pub(super) struct Decisions<T> {
    pub(super) columns: Vec<Column>,
    pub(super) nodes: Vec<Decision<T>>,
    /// Where each tree starts.
    pub(super) roots: Vec<Child>,
    positions: HashMap<Column, usize>,
}

/// Where rows go whose feature is at most a threshold, above it, and NaN.
#[derive(Debug, Clone, Copy)]
struct Exits {
    at_most: Child,
    above: Child,
    nan: Child,
}

impl Column {
    fn mirrored(self) -> Self {
        Self {
            negated: !self.negated,
            ..self
        }
    }
}

impl<T: TreeElement> Decisions<T> {
    /// The decisions of trees. Each node becomes at most four of them, or two for each member of its set.
    pub(super) fn of(trees: &TreeEnsemble) -> Self {
        let mut decisions = Self {
            columns: Vec::new(),
            nodes: Vec::with_capacity(trees.nodes.len()),
            roots: Vec::new(),
            positions: HashMap::new(),
        };
        // Children come after their parents.
        let mut found = vec![Child::Leaf(0); trees.nodes.len()];
        for (at, node) in trees.nodes.iter().enumerate().rev() {
            let children = node.children.map(|child| match child {
                Child::Node(next) => found[next],
                leaf @ Child::Leaf(_) => leaf,
            });
            found[at] = decisions.node(node, children, &trees.members);
        }
        decisions.roots = trees.roots.iter().map(|&root| found[root]).collect();
        decisions
    }

    fn node(&mut self, node: &TreeNode, [yes, no]: [Child; 2], members: &[f64]) -> Child {
        let column = Column {
            feature: node.feature,
            negated: false,
        };
        let nan = if node.nan_passes { yes } else { no };
        let exits = |at_most, above| Exits {
            at_most,
            above,
            nan,
        };
        match &node.test {
            Test::LessOrEqual(threshold) => {
                self.compare(column, *threshold, exits(yes, no), [no, nan])
            }
            Test::Greater(threshold) => self.compare(column, *threshold, exits(no, yes), [no, nan]),
            // x < t is -x > -t.
            Test::Less(threshold) => {
                self.compare(column.mirrored(), -threshold, exits(no, yes), [no, nan])
            }
            Test::GreaterOrEqual(threshold) => {
                self.compare(column.mirrored(), -threshold, exits(yes, no), [no, nan])
            }
            Test::Equal(threshold) => self.equal(column, *threshold, [yes, no], nan),
            Test::NotEqual(threshold) => self.equal(column, *threshold, [no, yes], yes),
            Test::Member(set) => {
                let members = members[set.clone()].iter().copied();
                let mut members: Vec<f64> = members.filter(|member| !member.is_nan()).collect();
                members.sort_by(f64::total_cmp);
                members.dedup();
                self.member(column, &members, [yes, no], nan)
            }
        }
    }

    /// [`Self::above`]; no number compares with a threshold of NaN: they go to the first of `unordered`, NaN to the second.
    fn compare(
        &mut self,
        column: Column,
        threshold: f64,
        exits: Exits,
        [number, nan]: [Child; 2],
    ) -> Child {
        if threshold.is_nan() {
            return self.number(column, number, nan);
        }
        self.above(column, threshold, exits)
    }

    /// Whether a column is above a threshold, which is not NaN.
    fn above(&mut self, column: Column, threshold: f64, exits: Exits) -> Child {
        let Exits {
            at_most,
            above,
            nan,
        } = exits;
        if at_most == above {
            return self.number(column, at_most, nan);
        }
        let threshold = T::of_f64(threshold);
        if nan == at_most {
            return self.push(column, threshold, [at_most, above]);
        }
        // x <= t is -x > -u, of the next number u.
        if threshold == T::INFINITY {
            return self.number(column, at_most, nan);
        }
        self.push(
            column.mirrored(),
            threshold.next_greater().negative(),
            [above, at_most],
        )
    }

    /// Whether a column is a number or NaN.
    fn number(&mut self, column: Column, number: Child, nan: Child) -> Child {
        if number == nan {
            return number;
        }
        let below_one = self.push(column.mirrored(), T::of_f64(-1.0), [nan, number]);
        self.push(column, T::of_f64(0.0), [below_one, number])
    }

    /// Whether a column equals a threshold. `nan` is one of the children.
    fn equal(
        &mut self,
        column: Column,
        threshold: f64,
        [yes, no]: [Child; 2],
        nan: Child,
    ) -> Child {
        if threshold.is_nan() || yes == no {
            return self.number(column, no, nan);
        }
        let not_below = Exits {
            at_most: yes,
            above: no,
            nan: yes,
        };
        let not_above = self.above(column.mirrored(), -threshold, not_below);
        let nan = if nan == no { no } else { not_above };
        let exits = Exits {
            at_most: not_above,
            above: no,
            nan,
        };
        self.above(column, threshold, exits)
    }

    /// Whether a column is one of ascending members, by binary search.
    fn member(
        &mut self,
        column: Column,
        members: &[f64],
        children: [Child; 2],
        nan: Child,
    ) -> Child {
        match members {
            [] => self.number(column, children[1], nan),
            &[member] => self.equal(column, member, children, nan),
            _ => {
                let (low, high) = members.split_at(members.len() / 2);
                let at_most = self.member(column, low, children, nan);
                let above = self.member(column, high, children, nan);
                let exits = Exits {
                    at_most,
                    above,
                    nan: at_most,
                };
                self.above(column, low[low.len() - 1], exits)
            }
        }
    }

    fn push(&mut self, column: Column, threshold: T, children: [Child; 2]) -> Child {
        let column = *self.positions.entry(column).or_insert_with(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.nodes.push(Decision {
            column,
            threshold,
            children,
        });
        Child::Node(self.nodes.len() - 1)
    }
}
