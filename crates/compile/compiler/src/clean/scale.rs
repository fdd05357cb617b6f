//! Folding of per-channel scales and shifts into the weights of the preceding operator.

use crate::layout::pads_vary;
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::geometry::Window;
use tenon_graph::{Attribute, Attributes, Node, Tensor, ValueId};

/// BatchNormalization with constant statistics becomes y = x * scale + shift for each channel.
pub(crate) fn normalization(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(x), Some(output)) = (
        rewriter.input(node, 0),
        node.outputs.first().copied().flatten(),
    ) else {
        return Ok(Outcome::Keep);
    };
    if node.op.name != "BatchNormalization" {
        return Ok(Outcome::Keep);
    }
    let known = |index| rewriter.floats(rewriter.input(node, index));
    let (Some(gamma), Some(beta), Some(mean), Some(variance)) =
        (known(1), known(2), known(3), known(4))
    else {
        return Ok(Outcome::Keep);
    };
    let epsilon = f64::from(node.attributes.float("epsilon", 1e-5)?);
    // In f64, so that folding rounds once.
    let scale: Vec<f64> = gamma
        .iter()
        .zip(variance.iter())
        .map(|(&gamma, &variance)| f64::from(gamma) / (f64::from(variance) + epsilon).sqrt())
        .collect();
    let shift: Vec<f32> = beta
        .iter()
        .zip(mean.iter())
        .zip(&scale)
        .map(|((&beta, &mean), &scale)| (f64::from(beta) - f64::from(mean) * scale) as f32)
        .collect();
    let scale: Vec<f32> = scale.into_iter().map(|scale| scale as f32).collect();
    let rank = rewriter.shape(output)?.len();
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(first) = shape.first_mut() {
        *first = scale.len();
    }
    let factor = rewriter.add_floats(&format!("{}.scale", node.name), shape.clone(), &scale, x)?;
    let summand = rewriter.add_floats(&format!("{}.shift", node.name), shape, &shift, x)?;
    if factor.is_none() || summand.is_none() {
        return Ok(Outcome::Keep);
    }
    let inputs = [Some(x), factor];
    let product = rewriter.emit(&node.name, "Mul", Attributes::new(), &inputs)?;
    let sum = rewriter.node_like(node, "Add", Attributes::new(), vec![Some(product), summand])?;
    Ok(Outcome::Replace(sum))
}

/// Folds a per-channel scale or shift into the constant weights and bias of the preceding operator.
pub(crate) fn into_weights(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if !matches!(node.op.name, "Add" | "Sub" | "Mul" | "Div") {
        return Ok(Outcome::Keep);
    }
    let commutes = matches!(node.op.name, "Add" | "Mul");
    for (side, constant) in [(0, 1), (1, 0)] {
        if side == 1 && !commutes {
            break;
        }
        for op in ["Conv", "ConvTranspose", "Gemm"] {
            let Some(producer) = rewriter.sole_producer_of(node, side, op).cloned() else {
                continue;
            };
            if let Some(new) = absorb(rewriter, node, &producer, constant)? {
                return Ok(Outcome::Replace(new));
            }
        }
    }
    Ok(Outcome::Keep)
}

fn absorb(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    producer: &Node,
    constant: usize,
) -> Result<Option<Node>> {
    let Some(output) = node.outputs.first().copied().flatten() else {
        return Ok(None);
    };
    let Some(made) = producer.outputs.first().copied().flatten() else {
        return Ok(None);
    };
    if !rewriter.is_float(output) || rewriter.shape(made)? != rewriter.shape(output)? {
        return Ok(None);
    }
    let shape = rewriter.shape(output)?.to_vec();
    let Some(&channels) = shape.get(1) else {
        return Ok(None);
    };
    let number = rewriter.input(node, constant);
    let Some(elements) = per_channel(rewriter, number, shape.len(), channels)? else {
        return Ok(None);
    };
    let Some(weights) = Weights::of(rewriter, producer, channels)? else {
        return Ok(None);
    };
    let negative: Vec<f32> = elements.iter().map(|element| -element).collect();
    match node.op.name {
        "Add" => weights.with(rewriter, node, None, Some(&elements)),
        "Sub" => weights.with(rewriter, node, None, Some(&negative)),
        "Mul" => weights.with(rewriter, node, Some(&elements), None),
        _ if elements.contains(&0.0) => Ok(None),
        _ => {
            let inverse: Vec<f32> = elements.iter().map(|element| 1.0 / element).collect();
            weights.with(rewriter, node, Some(&inverse), None)
        }
    }
}

/// The elements of a constant with one for each channel (axis 1 of `rank`), or one for all.
fn per_channel(
    rewriter: &Rewriter<'_>,
    value: Option<ValueId>,
    rank: usize,
    channels: usize,
) -> Result<Option<Vec<f32>>> {
    let (Some(value), Some(elements)) = (value, rewriter.floats(value)) else {
        return Ok(None);
    };
    if let [number] = *elements {
        return Ok(Some(vec![number; channels]));
    }
    let shape = rewriter.shape(value)?;
    let axis = (shape.len() + 1)
        .checked_sub(rank)
        .filter(|_| shape.len() <= rank);
    let fits =
        elements.len() == channels && axis.is_some_and(|axis| shape.get(axis) == Some(&channels));
    Ok(fits.then(|| elements.to_vec()))
}

/// The constant weights and bias of a convolution or Gemm, and the channel axis of the weights.
struct Weights {
    node: Node,
    axis: usize,
    weights: ValueId,
    bias: Option<ValueId>,
    channels: usize,
}

impl Weights {
    fn of(rewriter: &Rewriter<'_>, node: &Node, channels: usize) -> Result<Option<Self>> {
        let Some(weights) = rewriter.input(node, 1) else {
            return Ok(None);
        };
        let bias = rewriter.input(node, 2);
        let is_constant = |value| rewriter.constant(Some(value)).is_some();
        if !is_constant(weights) || !bias.is_none_or(is_constant) || !rewriter.is_float(weights) {
            return Ok(None);
        }
        let attributes = &node.attributes;
        let axis = match node.op.name {
            "Conv" => 0,
            "ConvTranspose" if attributes.int("group", 1)? == 1 => 1,
            "Gemm" if plain_gemm(attributes, rewriter.constant(bias), channels)? => {
                if attributes.flag("transB", false)? {
                    0
                } else {
                    1
                }
            }
            _ => return Ok(None),
        };
        let fits = rewriter.shape(weights)?.get(axis) == Some(&channels);
        Ok(fits.then(|| Self {
            node: node.clone(),
            axis,
            weights,
            bias,
            channels,
        }))
    }

    /// The operator with weights and bias times `factor`, plus `summand`, for the outputs of `node`.
    fn with(
        &self,
        rewriter: &mut Rewriter<'_>,
        node: &Node,
        factor: Option<&[f32]>,
        summand: Option<&[f32]>,
    ) -> Result<Option<Node>> {
        let mut inputs = self.node.inputs.clone();
        inputs.resize(3, None);
        if let Some(factor) = factor {
            let Some(old) = rewriter.floats(Some(self.weights)) else {
                return Ok(None);
            };
            let shape = rewriter.shape(self.weights)?.clone();
            let inner: usize = shape[self.axis + 1..].iter().product();
            let channel = |index: usize| index / inner.max(1) % self.channels;
            let new: Vec<f32> = old
                .iter()
                .enumerate()
                .map(|(index, w)| w * factor[channel(index)])
                .collect();
            let name = format!("{}.weight", self.node.name);
            inputs[1] = rewriter.add_floats(&name, shape, &new, self.weights)?;
            if inputs[1].is_none() {
                return Ok(None);
            }
        }
        let bias = rewriter.floats(self.bias);
        if bias.is_some() || summand.is_some() {
            let new: Vec<f32> = (0..self.channels)
                .map(|channel| {
                    let old = bias.as_ref().map_or(0.0, |bias| bias[channel]);
                    old * factor.map_or(1.0, |f| f[channel]) + summand.map_or(0.0, |s| s[channel])
                })
                .collect();
            let name = format!("{}.bias", self.node.name);
            inputs[2] = rewriter.add_floats(&name, [self.channels], &new, self.weights)?;
            if inputs[2].is_none() {
                return Ok(None);
            }
        }
        if inputs[2].is_none() {
            inputs.pop();
        }
        let mut new = self.node.clone();
        new.inputs = inputs;
        new.outputs.clone_from(&node.outputs);
        Ok(Some(new))
    }
}

fn plain_gemm(attributes: &Attributes, bias: Option<&Tensor>, channels: usize) -> Result<bool> {
    let one = |name| Ok::<_, tenon_base::Error>(attributes.float(name, 1.0)? == 1.0);
    let bias_fits = bias.is_none_or(|bias| **bias.shape() == [channels]);
    Ok(one("alpha")? && one("beta")? && bias_fits)
}

/// Folds a Pad with zeros before a convolution into the convolution's padding.
pub(crate) fn padding_into_window(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Conv" {
        return Ok(Outcome::Keep);
    }
    let Some(pad) = rewriter.sole_producer_of(node, 0, "Pad").cloned() else {
        return Ok(Outcome::Keep);
    };
    let (Some(source), Some(padded)) = (rewriter.input(&pad, 0), rewriter.input(node, 0)) else {
        return Ok(Outcome::Keep);
    };
    let fill = rewriter.input(&pad, 2);
    let zero = fill.is_none() || rewriter.scalar(fill) == Some(0.0);
    let rank = rewriter.shape(padded)?.len();
    let fixed = !pads_vary(rewriter, node, padded)?;
    if pad.attributes.string("mode", "constant")? != "constant" || !zero || rank < 3 || !fixed {
        return Ok(Outcome::Keep);
    }
    let ints = |index| {
        rewriter
            .constant(rewriter.input(&pad, index))
            .and_then(Tensor::to_i64s)
    };
    let Some(pads) = ints(1) else {
        return Ok(Outcome::Keep);
    };
    let axes = ints(3).unwrap_or_else(|| (0..rank as i64).collect());
    let Some(weights) = rewriter.input(node, 1) else {
        return Ok(Outcome::Keep);
    };
    let kernel = rewriter.shape(weights)?[2..].to_vec();
    let window = Window::sliding(&node.attributes, &rewriter.shape(padded)?[2..], &kernel)?;
    let mut all: Vec<i64> = window
        .pads_begin
        .iter()
        .chain(&window.pads_end)
        .map(|&pad| pad as i64)
        .collect();
    for (index, &axis) in axes.iter().enumerate() {
        let axis = if axis < 0 { axis + rank as i64 } else { axis } as usize;
        let (Some(&before), Some(&after)) = (pads.get(index), pads.get(index + axes.len())) else {
            return Ok(Outcome::Keep);
        };
        if before < 0 || after < 0 || (axis < 2 && (before, after) != (0, 0)) {
            return Ok(Outcome::Keep);
        }
        if axis >= 2 {
            all[axis - 2] += before;
            all[axis - 2 + rank - 2] += after;
        }
    }
    let mut new = node.clone();
    new.attributes.remove("auto_pad");
    new.attributes.set("pads", Attribute::Ints(all));
    new.inputs[0] = Some(source);
    Ok(Outcome::Replace(new))
}
