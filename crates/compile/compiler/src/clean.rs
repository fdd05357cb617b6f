//! Cleaning: identity nodes, chains of views and transposes, constants folded into weights, and common
//! subexpressions.

mod center;
mod common;
mod einsum;
mod scale;
mod trivial;
mod views;

pub(crate) use common::merge_equal;
pub(crate) use views::perm_of;

use crate::rewrite::Rule;

/// The rules for every graph.
pub(crate) const RULES: &[Rule] = &[
    trivial::pass_through,
    trivial::simpler_operator,
    trivial::unused_outputs,
    trivial::explicit_fill,
    center::crop_pad,
    einsum::einsum,
    views::as_reshape,
    views::chain,
    scale::normalization,
    scale::into_weights,
    scale::padding_into_window,
];

/// The rules for views and transposes, for passes that emit such nodes.
pub(crate) const VIEW_RULES: &[Rule] = &[trivial::pass_through, views::as_reshape, views::chain];
