//! Cleaning: nodes that do nothing, chains of views and transposes, constants folded into weights,
//! and computations made twice.

mod common;
mod scale;
mod trivial;
mod views;

pub(crate) use common::merge_equal;
pub(crate) use views::perm_of;

use crate::rewrite::Rule;

/// The rules that hold for every graph.
pub(crate) const RULES: &[Rule] = &[
    trivial::pass_through,
    trivial::simpler_operator,
    trivial::unused_outputs,
    trivial::explicit_fill,
    views::as_reshape,
    views::chain,
    scale::normalization,
    scale::into_weights,
    scale::padding_into_window,
];

/// The rules for views and transposes alone, for passes that make such nodes.
pub(crate) const VIEW_RULES: &[Rule] = &[trivial::pass_through, views::as_reshape, views::chain];
