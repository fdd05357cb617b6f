//! The operators, one file for each family.
//!
//! A definition has the name, inputs, outputs, attributes and semantics of an operator, and its shape
//! function. It is that of the newest ONNX operator set, with one difference:
//! an attribute that names an element type (`to`, `dtype`, `output_dtype`, `output_datatype`) is a
//! string holding Tenon's name of the type (`"f32"`).

#[macro_use]
mod rows;
pub(crate) mod shapes;

mod activation;
mod attention;
mod binary;
mod constant;
mod convolution;
mod gather;
mod image;
mod loss;
mod matmul;
mod movement;
mod normalization;
mod pooling;
mod quantize;
mod random;
mod recurrent;
mod reduction;
mod resize;
mod selection;
mod signal;
mod stateful;
mod tenon;
mod text;
mod trees;
mod unary;
mod view;

use crate::OperatorDef;

/// All families, for [`crate::operator::all`].
pub(crate) static FAMILIES: &[&[OperatorDef]] = &[
    unary::OPERATORS,
    binary::OPERATORS,
    activation::OPERATORS,
    convolution::OPERATORS,
    pooling::OPERATORS,
    matmul::OPERATORS,
    attention::OPERATORS,
    reduction::OPERATORS,
    loss::OPERATORS,
    normalization::OPERATORS,
    recurrent::OPERATORS,
    stateful::OPERATORS,
    view::OPERATORS,
    movement::OPERATORS,
    gather::OPERATORS,
    selection::OPERATORS,
    constant::OPERATORS,
    random::OPERATORS,
    resize::OPERATORS,
    image::OPERATORS,
    signal::OPERATORS,
    text::OPERATORS,
    quantize::OPERATORS,
    tenon::OPERATORS,
    trees::OPERATORS,
];
