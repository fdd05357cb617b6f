//! Recurrent layers: LSTM, GRU and plain RNN over a sequence.
//!
//! With S steps, a batch of N, I features in and H out, and D directions (2 when bidirectional):
//! X [S, N, I], W [D, g H, I], R [D, g H, H], B [D, 2 g H], initial states [D, N, H], where g is the
//! number of gates; Y [S, D, N, H], Y_h and Y_c [D, N, H]. With `layout` 1 the batch comes first:
//! X [N, S, I], states [N, D, H], Y [N, S, D, H]. All have one type, or W and R are f16 or bf16 and the others are f32
//! (an extension of ONNX); then products may round the other operand to the type of W and R.

use super::rows::*;
use super::shapes::{
    Inferred, choice, dtype_beside_weights, expect_optional_shape, expect_shape, extent, invalid,
    product, rank,
};
use crate::Inference;
use crate::operator::{AttributeDef, OperandDef};
use tenon_base::Result;
use tenon_tensor::TensorType;

const X: OperandDef = required("X", FLOATS);
const W: OperandDef = required("W", FLOATS);
const R: OperandDef = required("R", FLOATS);
const B: OperandDef = optional("B", FLOATS);
const LENGTHS: OperandDef = optional("sequence_lens", I32);
const INITIAL_H: OperandDef = optional("initial_h", FLOATS);
const Y: OperandDef = optional("Y", FLOATS);
const Y_H: OperandDef = optional("Y_h", FLOATS);
const ALPHA: AttributeDef = floats(
    "activation_alpha",
    "first parameters of the activations with one, in order",
);
const BETA: AttributeDef = floats(
    "activation_beta",
    "second parameters of the activations with one, in order",
);
const CLIP: AttributeDef = float("clip", "bound of the inputs of activations; default none");
const DIRECTION: AttributeDef = string(
    "direction",
    "forward, reverse or bidirectional; default forward",
);
const HIDDEN: AttributeDef = int("hidden_size", "number of features H; default that of R");
const LAYOUT: AttributeDef = int("layout", "1: the batch comes first; default 0");

operators! { "recurrent"
    /// Long short-term memory; gates in the order input, output, forget, cell. Beside f32, W and R may be f16 or bf16; then
    /// products may round X and the hidden state to that type.
    Compute "LSTM"
        (X, W, R, B, LENGTHS, INITIAL_H, optional("initial_c", FLOATS), optional("P", FLOATS))
        -> (Y, Y_H, optional("Y_c", FLOATS))
        [
            ALPHA, BETA,
            strings("activations", "f, g, h of each direction; default Sigmoid, Tanh, Tanh"),
            CLIP, DIRECTION, HIDDEN,
            int("input_forget", "1: the forget gate is 1 minus the input gate; default 0"),
            LAYOUT,
        ] lstm;
    /// Gated recurrent unit; gates in the order update, reset, hidden. W and R may be f16 or bf16 as in LSTM.
    Compute "GRU" (X, W, R, B, LENGTHS, INITIAL_H) -> (Y, Y_H)
        [
            ALPHA, BETA,
            strings("activations", "f, g of each direction; default Sigmoid, Tanh"),
            CLIP, DIRECTION, HIDDEN, LAYOUT,
            int("linear_before_reset", "1: the reset gate is applied after the matmul; default 0"),
        ] gru;
    /// Y = activation(X W' + H R' + B), step by step. W and R may be f16 or bf16 as in LSTM.
    Compute "RNN" (X, W, R, B, LENGTHS, INITIAL_H) -> (Y, Y_H)
        [
            ALPHA, BETA,
            strings("activations", "the function of each direction; default Tanh"),
            CLIP, DIRECTION, HIDDEN, LAYOUT,
        ] rnn;
}

/// The extents of a recurrent layer.
struct Sizes {
    steps: usize,
    batch: usize,
    directions: usize,
    hidden: usize,
    batch_first: bool,
}

impl Sizes {
    fn new(node: &Inference<'_>) -> Result<Self> {
        let (x, r) = (node.input(0)?, node.input(2)?);
        rank(x, "X", 3..=3)?;
        rank(r, "R", 3..=3)?;
        let batch_first = node.attributes.flag("layout", false)?;
        let (steps, batch) = if batch_first {
            (x.shape()[1], x.shape()[0])
        } else {
            (x.shape()[0], x.shape()[1])
        };
        let directions = ["forward", "reverse", "bidirectional"];
        let direction = choice(node, "direction", "forward", &directions)?;
        let hidden = r.shape()[2];
        let given = node.attributes.int("hidden_size", hidden as i64)?;
        if extent(given, "attribute 'hidden_size'")? != hidden {
            return Err(invalid("attribute 'hidden_size' is not that of R")
                .expected(hidden)
                .found(given));
        }
        let directions = if direction == "bidirectional" { 2 } else { 1 };
        Ok(Self {
            steps,
            batch,
            directions,
            hidden,
            batch_first,
        })
    }

    fn state(&self) -> [usize; 3] {
        if self.batch_first {
            [self.batch, self.directions, self.hidden]
        } else {
            [self.directions, self.batch, self.hidden]
        }
    }

    fn whole(&self) -> [usize; 4] {
        if self.batch_first {
            [self.batch, self.steps, self.directions, self.hidden]
        } else {
            [self.steps, self.directions, self.batch, self.hidden]
        }
    }
}

/// Checks the operands of all layers, and returns the types of Y and Y_h.
fn layer(node: &Inference<'_>, gates: usize) -> Result<(Sizes, Vec<TensorType>)> {
    // sequence_lens is not of the common type.
    let dtype = dtype_beside_weights(node, &["X", "W", "R", "B"], 2)?;
    let sizes = Sizes::new(node)?;
    let rows = product(gates, sizes.hidden, "input 'R'")?;
    let features = node.input(0)?.shape()[2];
    expect_shape(node.input(1)?, "W", &[sizes.directions, rows, features])?;
    expect_shape(node.input(2)?, "R", &[sizes.directions, rows, sizes.hidden])?;
    let biases = product(2, rows, "input 'B'")?;
    expect_optional_shape(node, 3, "B", &[sizes.directions, biases])?;
    expect_optional_shape(node, 4, "sequence_lens", &[sizes.batch])?;
    expect_optional_shape(node, 5, "initial_h", &sizes.state())?;
    let whole = TensorType::new(dtype, sizes.whole())?;
    let state = TensorType::new(dtype, sizes.state())?;
    Ok((sizes, vec![whole, state]))
}

/// Checks the names of the activations, `each` for every direction.
fn functions(node: &Inference<'_>, sizes: &Sizes, each: usize) -> Result<()> {
    const KNOWN: &[&str] = &[
        "Relu",
        "Tanh",
        "Sigmoid",
        "Affine",
        "LeakyRelu",
        "ThresholdedRelu",
        "ScaledTanh",
        "HardSigmoid",
        "Elu",
        "Softsign",
        "Softplus",
    ];
    let Some(names) = node.attributes.strings("activations")? else {
        return Ok(());
    };
    // Excess names are allowed: ONNX's default for RNN lists two for one direction.
    if names.len() < each * sizes.directions {
        return Err(invalid("attribute 'activations' is too short")
            .expected(each * sizes.directions)
            .found(names.len()));
    }
    // The names are case-insensitive in ONNX.
    let unknown = |name: &&String| !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name));
    match names.iter().find(unknown) {
        None => Ok(()),
        Some(name) => Err(invalid("attribute 'activations' names an unknown function")
            .expected(KNOWN.join(", "))
            .found(name)),
    }
}

fn lstm(node: &Inference<'_>) -> Inferred {
    let (sizes, mut types) = layer(node, 4)?;
    functions(node, &sizes, 3)?;
    expect_optional_shape(node, 6, "initial_c", &sizes.state())?;
    expect_optional_shape(
        node,
        7,
        "P",
        &[sizes.directions, product(3, sizes.hidden, "input 'P'")?],
    )?;
    types.push(types[1].clone());
    Ok(types)
}

fn gru(node: &Inference<'_>) -> Inferred {
    let (sizes, types) = layer(node, 3)?;
    functions(node, &sizes, 2)?;
    Ok(types)
}

fn rnn(node: &Inference<'_>) -> Inferred {
    let (sizes, types) = layer(node, 1)?;
    functions(node, &sizes, 1)?;
    Ok(types)
}
