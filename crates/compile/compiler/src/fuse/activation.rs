//! Activations that exporters write as several nodes, and activations in the epilogue of a matmul or
//! convolution.

use crate::quantize::{PRODUCTS as QUANTIZED_PRODUCTS, is_open_product};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, ValueId};

/// The product of several values and a scalar: a flattened tree of Mul and Div.
struct ScaledProduct {
    values: Vec<ValueId>,
    number: f32,
}

impl ScaledProduct {
    /// Flattens the tree under `node`; inner nodes must have no other use.
    fn of(rewriter: &Rewriter<'_>, node: &Node) -> Option<Self> {
        let mut factors = Self {
            values: Vec::new(),
            number: 1.0,
        };
        factors.add(rewriter, node, 0).then_some(factors)
    }

    fn add(&mut self, rewriter: &Rewriter<'_>, node: &Node, depth: usize) -> bool {
        let &[Some(left), Some(right)] = node.inputs.as_slice() else {
            return false;
        };
        match (node.op.name, rewriter.scalar(Some(right))) {
            ("Div", Some(number)) if number != 0.0 => {
                self.number /= number;
                self.add_value(rewriter, left, depth);
                true
            }
            ("Mul", _) => {
                self.add_value(rewriter, left, depth);
                self.add_value(rewriter, right, depth);
                true
            }
            _ => false,
        }
    }

    fn add_value(&mut self, rewriter: &Rewriter<'_>, value: ValueId, depth: usize) {
        if let Some(number) = rewriter.scalar(Some(value)) {
            self.number *= number;
            return;
        }
        let inner = rewriter
            .producer(value)
            .filter(|_| rewriter.uses(value) == 1 && depth < 4);
        let whole = inner.is_some_and(|inner| {
            let mut copy = Self {
                values: self.values.clone(),
                number: self.number,
            };
            let fits = copy.add(rewriter, inner, depth + 1);
            if fits {
                *self = copy;
            }
            fits
        });
        if !whole {
            self.values.push(value);
        }
    }
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-3 * b.abs()
}

/// The input of the producer of `value`, if that is a unary `op`.
fn under(rewriter: &Rewriter<'_>, value: ValueId, op: &str) -> Option<ValueId> {
    let node = rewriter.producer(value).filter(|node| node.op.name == op)?;
    rewriter.input(node, 0)
}

/// The other operand of an Add with a scalar close to `number`.
fn plus(rewriter: &Rewriter<'_>, value: ValueId, number: f32) -> Option<ValueId> {
    let node = rewriter
        .producer(value)
        .filter(|node| node.op.name == "Add")?;
    rewriter
        .scalar_operand(node)
        .filter(|side| near(side.1, number))
        .map(|side| side.0)
}

/// The other operand of a Mul with a scalar close to `number`.
fn times(rewriter: &Rewriter<'_>, value: ValueId, number: f32) -> Option<ValueId> {
    let factors = ScaledProduct::of(rewriter, rewriter.producer(value)?)?;
    match factors.values.as_slice() {
        &[one] if near(factors.number, number) => Some(one),
        _ => None,
    }
}

/// 0.5 x (1 + erf(x / sqrt 2)), and its approximation by tanh.
pub(crate) fn gelu(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(factors) = product(rewriter, node) else {
        return Ok(Outcome::Keep);
    };
    let &[a, b] = factors.values.as_slice() else {
        return Ok(Outcome::Keep);
    };
    if !near(factors.number, 0.5) {
        return Ok(Outcome::Keep);
    }
    for (x, gate) in [(a, b), (b, a)] {
        let Some(inner) = plus(rewriter, gate, 1.0) else {
            continue;
        };
        let by_erf = under(rewriter, inner, "Erf")
            .and_then(|y| times(rewriter, y, std::f32::consts::FRAC_1_SQRT_2));
        let approximate = if by_erf == Some(x) {
            "none"
        } else if under(rewriter, inner, "Tanh").is_some_and(|y| is_tanh_argument(rewriter, y, x)) {
            "tanh"
        } else {
            continue;
        };
        let attributes =
            Attributes::new().with("approximate", Attribute::String(approximate.into()));
        return Ok(Outcome::Replace(rewriter.node_like(
            node,
            "Gelu",
            attributes,
            vec![Some(x)],
        )?));
    }
    Ok(Outcome::Keep)
}

/// Whether `value` is sqrt(2 / pi) (x + 0.044715 x^3).
fn is_tanh_argument(rewriter: &Rewriter<'_>, value: ValueId, x: ValueId) -> bool {
    let Some(sum) = times(rewriter, value, 0.797_884_6) else {
        return false;
    };
    let Some(node) = rewriter.producer(sum).filter(|node| node.op.name == "Add") else {
        return false;
    };
    let &[Some(a), Some(b)] = node.inputs.as_slice() else {
        return false;
    };
    let cube = if a == x { b } else { a };
    if a != x && b != x {
        return false;
    }
    let factors = rewriter
        .producer(cube)
        .and_then(|node| ScaledProduct::of(rewriter, node));
    let Some(factors) = factors.filter(|factors| near(factors.number, 0.044715)) else {
        return false;
    };
    match factors.values.as_slice() {
        &[power] => rewriter.producer(power).is_some_and(|node| {
            node.op.name == "Pow"
                && rewriter.input(node, 0) == Some(x)
                && rewriter.scalar(rewriter.input(node, 1)) == Some(3.0)
        }),
        // x * x * x, or x * x^2 with another use of x^2.
        values => {
            let square = |value: ValueId| {
                rewriter.producer(value).is_some_and(|node| {
                    node.op.name == "Mul" && node.inputs.iter().all(|input| *input == Some(x))
                })
            };
            let powers = values.iter().map(|&value| match value {
                _ if value == x => 1,
                _ if square(value) => 2,
                _ => 9,
            });
            powers.sum::<usize>() == 3
        }
    }
}

/// x sigmoid(x), x hardsigmoid(x), x clip(x + 3, 0, 6) / 6, x tanh(softplus x).
pub(crate) fn times_gate(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(factors) = product(rewriter, node) else {
        return Ok(Outcome::Keep);
    };
    let &[a, b] = factors.values.as_slice() else {
        return Ok(Outcome::Keep);
    };
    for (x, gate) in [(a, b), (b, a)] {
        let Some(gate_node) = rewriter.producer(gate) else {
            continue;
        };
        let one = factors.number == 1.0;
        let inner = rewriter.input(gate_node, 0);
        let op = match gate_node.op.name {
            "Sigmoid" if one && inner == Some(x) => "Swish",
            "HardSigmoid" if one && inner == Some(x) && is_hard_gate(gate_node)? => "HardSwish",
            "Clip" if near(factors.number, 1.0 / 6.0) && is_relu6(rewriter, gate_node, x) => {
                "HardSwish"
            }
            "Tanh" if one && inner.and_then(|y| under(rewriter, y, "Softplus")) == Some(x) => {
                "Mish"
            }
            _ => continue,
        };
        let new = rewriter.node_like(node, op, Attributes::new(), vec![Some(x)])?;
        return Ok(Outcome::Replace(new));
    }
    Ok(Outcome::Keep)
}

/// The factors of a Mul or Div of floating point.
fn product(rewriter: &Rewriter<'_>, node: &Node) -> Option<ScaledProduct> {
    let output = node.outputs.first().copied().flatten()?;
    let product = matches!(node.op.name, "Mul" | "Div") && rewriter.is_float(output);
    product.then(|| ScaledProduct::of(rewriter, node)).flatten()
}

fn is_hard_gate(node: &Node) -> Result<bool> {
    let (alpha, beta) = (
        node.attributes.float("alpha", 0.2)?,
        node.attributes.float("beta", 0.5)?,
    );
    Ok(near(alpha, 1.0 / 6.0) && near(beta, 0.5))
}

/// Whether a Clip is that of x + 3 between 0 and 6.
fn is_relu6(rewriter: &Rewriter<'_>, clip: &Node, x: ValueId) -> bool {
    let bound = |index| rewriter.scalar(rewriter.input(clip, index));
    let inner = rewriter.input(clip, 0);
    bound(1) == Some(0.0)
        && bound(2) == Some(6.0)
        && inner.and_then(|inner| plus(rewriter, inner, 3.0)) == Some(x)
}

/// clip(x + 3, 0, 6) / 6.
pub(crate) fn hard_sigmoid(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(factors) = product(rewriter, node) else {
        return Ok(Outcome::Keep);
    };
    let &[clip] = factors.values.as_slice() else {
        return Ok(Outcome::Keep);
    };
    let Some(clip_node) = rewriter
        .producer(clip)
        .filter(|node| node.op.name == "Clip")
    else {
        return Ok(Outcome::Keep);
    };
    let sum = rewriter.input(clip_node, 0);
    let Some(x) = sum.and_then(|sum| plus(rewriter, sum, 3.0)) else {
        return Ok(Outcome::Keep);
    };
    if !near(factors.number, 1.0 / 6.0) || !is_relu6(rewriter, clip_node, x) {
        return Ok(Outcome::Keep);
    }
    let attributes = Attributes::new()
        .with("alpha", Attribute::Float(1.0 / 6.0))
        .with("beta", Attribute::Float(0.5));
    Ok(Outcome::Replace(rewriter.node_like(
        node,
        "HardSigmoid",
        attributes,
        vec![Some(x)],
    )?))
}

/// Fuses an activation into the epilogue of a matmul or convolution with no other user.
pub(crate) fn into_product(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((name, parameters)) = activation(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let products = super::convolution::PRODUCTS.iter();
    for op in products.chain(&QUANTIZED_PRODUCTS) {
        let Some(product) = rewriter.sole_producer_of(node, 0, op) else {
            continue;
        };
        let is_quantized = QUANTIZED_PRODUCTS.contains(op) && !is_open_product(product);
        if is_quantized || product.attributes.string("activation", "none")? != "none" {
            continue;
        }
        let mut new = product.clone();
        new.outputs.clone_from(&node.outputs);
        new.attributes
            .set("activation", Attribute::String(name.into()));
        for (key, number) in ["alpha", "beta"].into_iter().zip(parameters) {
            if let Some(number) = number {
                new.attributes.set(key, Attribute::Float(number));
            }
        }
        return Ok(Outcome::Replace(new));
    }
    Ok(Outcome::Keep)
}

/// Whether [`into_product`] can fuse a node.
pub(crate) fn is_activation(rewriter: &Rewriter<'_>, node: &Node) -> Result<bool> {
    Ok(activation(rewriter, node)?.is_some())
}

type Parameters = [Option<f32>; 2];

/// The value of the attribute `activation`, and its parameters.
fn activation(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<(&'static str, Parameters)>> {
    let attributes = &node.attributes;
    let none = [None, None];
    Ok(Some(match node.op.name {
        "Relu" => ("relu", none),
        "Sigmoid" => ("sigmoid", none),
        "Tanh" => ("tanh", none),
        "HardSwish" => ("hardswish", none),
        "Swish" if attributes.float("alpha", 1.0)? == 1.0 => ("silu", none),
        "LeakyRelu" => ("leakyrelu", [Some(attributes.float("alpha", 0.01)?), None]),
        "HardSigmoid" => {
            let (alpha, beta) = (
                attributes.float("alpha", 0.2)?,
                attributes.float("beta", 0.5)?,
            );
            ("hardsigmoid", [Some(alpha), Some(beta)])
        }
        "Gelu" if attributes.string("approximate", "none")? == "tanh" => ("gelu_tanh", none),
        "Gelu" => ("gelu", none),
        "Clip" => {
            let bound = |index: usize, open: f32| match rewriter.input(node, index) {
                None => Some(open),
                bound => rewriter.scalar(bound),
            };
            match (bound(1, f32::MIN), bound(2, f32::MAX)) {
                (Some(low), Some(high)) => ("clip", [Some(low), Some(high)]),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}
