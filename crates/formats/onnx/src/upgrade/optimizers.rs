//! The optimizers of `ai.onnx.preview.training`, composed of operators of ONNX.

use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

pub(super) const DOMAIN: &str = "ai.onnx.preview.training";

/// The operator set of the domain.
const VERSION: i64 = 1;

/// Emits the updates of one tensor: from its operands to its results.
type Update = fn(&mut Updates<'_>, &[ValueId]) -> Result<Vec<ValueId>>;

/// Operators, the operands of each tensor that is updated (the tensor, its gradient, its state), and the update, of
/// which the results are the tensor and its state.
const OPTIMIZERS: &[(&str, usize, Update)] = &[
    ("Adagrad", 3, adagrad),
    ("Adam", 4, adam),
    ("Momentum", 3, momentum),
];

/// The operators of an optimizer; other nodes are unchanged.
pub(super) fn newest(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let row = OPTIMIZERS.iter().find(|row| row.0 == node.operator);
    let Some(&(_, operands, update)) = row.filter(|_| node.version == VERSION) else {
        return Ok(node);
    };
    let given = node
        .inputs
        .iter()
        .copied()
        .collect::<Option<Vec<ValueId>>>();
    let given = given.unwrap_or_default();
    let [rate, step, tensors @ ..] = given.as_slice() else {
        return Err(invalid("an optimizer without a learning rate and a step"));
    };
    let count = tensors.len() / operands;
    if count == 0 || tensors.len() % operands != 0 {
        return Err(invalid("the number of tensors of an optimizer")
            .expected(format_args!("a multiple of {operands}"))
            .found(tensors.len()));
    }
    let results = count * (operands - 1);
    if node.outputs.len() > results {
        return Err(invalid("the number of outputs of an optimizer")
            .expected(format_args!("at most {results}"))
            .found(node.outputs.len()));
    }
    let mut updates = Updates {
        draft,
        node: &node,
        like: tensors[0],
        rate: *rate,
        step: *step,
    };
    let mut results = Vec::new();
    for at in 0..count {
        let of_tensor: Vec<ValueId> = tensors.iter().skip(at).step_by(count).copied().collect();
        updates.like = of_tensor[0];
        results.push(update(&mut updates, &of_tensor)?);
    }
    // The tensors first, then their states.
    let ordered = (0..operands - 1).flat_map(|which| results.iter().map(move |all| all[which]));
    let mut pairs: Vec<(ValueId, ValueId)> = node
        .outputs
        .iter()
        .zip(ordered)
        .filter_map(|(output, value)| Some(((*output)?, value)))
        .collect();
    let (output, value) = pairs
        .pop()
        .ok_or_else(|| invalid("an optimizer without outputs"))?;
    for (output, value) in pairs {
        let inputs = [Some(value)];
        draft.step_into(&node, "Identity", Attributes::new(), &inputs, output);
    }
    Ok(DraftNode {
        domain: String::new(),
        operator: "Identity".to_owned(),
        version: super::NEWEST,
        attributes: Attributes::new(),
        inputs: vec![Some(value)],
        outputs: vec![Some(output)],
        ..node
    })
}

/// Emits the nodes of an optimizer.
struct Updates<'a> {
    draft: &'a mut Draft,
    node: &'a DraftNode,
    /// The tensor that is updated, in whose type its update is computed.
    like: ValueId,
    /// The learning rate.
    rate: ValueId,
    /// The number of updates before this one.
    step: ValueId,
}

impl Updates<'_> {
    fn make(&mut self, operator: &str, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.draft
            .step(self.node, operator, Attributes::new(), &inputs)
    }

    /// A value in the type of the tensor.
    fn typed(&mut self, value: ValueId) -> ValueId {
        self.make("CastLike", &[value, self.like])
    }

    fn constant(&mut self, what: &str, value: f32) -> Result<ValueId> {
        let value = self
            .draft
            .constant_for(self.node, what, Tensor::scalar(value)?);
        Ok(self.typed(value))
    }

    /// A value times a constant.
    fn scaled(&mut self, value: ValueId, what: &str, factor: f32) -> Result<ValueId> {
        let factor = self.constant(what, factor)?;
        Ok(self.make("Mul", &[value, factor]))
    }

    /// `before` times `share` plus `now` times `1 - share`.
    fn average(
        &mut self,
        before: ValueId,
        now: ValueId,
        what: &str,
        share: f32,
    ) -> Result<ValueId> {
        let before = self.scaled(before, what, share)?;
        let now = self.scaled(now, what, 1.0 - share)?;
        Ok(self.make("Add", &[before, now]))
    }

    /// The gradient with that of the regularization.
    fn gradient(&mut self, tensor: ValueId, gradient: ValueId) -> Result<ValueId> {
        let norm = self.float("norm_coefficient", Some(0.0))?;
        let regularization = self.scaled(tensor, "norm_coefficient", norm)?;
        Ok(self.make("Add", &[regularization, gradient]))
    }

    /// `momentum` divided by the root of the squared gradients, which is never 0.
    fn normalised(&mut self, momentum: ValueId, squares: ValueId) -> Result<ValueId> {
        let epsilon = self.float("epsilon", Some(1e-6))?;
        let epsilon = self.constant("epsilon", epsilon)?;
        let root = self.make("Sqrt", &[squares]);
        let root = self.make("Add", &[root, epsilon]);
        Ok(self.make("Div", &[momentum, root]))
    }

    /// `first` for the first update, else `later`.
    fn by_step(&mut self, first: ValueId, later: ValueId) -> Result<ValueId> {
        let zero = self.constant("zero", 0.0)?;
        let step = self.typed(self.step);
        let is_later = self.make("Greater", &[step, zero]);
        Ok(self.make("Where", &[is_later, later, first]))
    }

    /// An attribute; without a default it is required.
    fn float(&self, name: &str, default: Option<f32>) -> Result<f32> {
        if default.is_none() && self.node.attributes.value(name).is_none() {
            return Err(invalid(format!("attribute '{name}' is missing")));
        }
        self.node
            .attributes
            .float(name, default.unwrap_or_default())
    }
}

/// The learning rate decays with the steps, and is divided by the root of the sum of the squared gradients (Duchi,
/// Hazan and Singer, "Adaptive subgradient methods", 2011).
fn adagrad(updates: &mut Updates<'_>, operands: &[ValueId]) -> Result<Vec<ValueId>> {
    let &[tensor, gradient, squares] = operands else {
        return Ok(Vec::new());
    };
    let gradient = updates.gradient(tensor, gradient)?;
    let square = updates.make("Mul", &[gradient, gradient]);
    let squares = updates.make("Add", &[squares, square]);
    let decay = updates.float("decay_factor", Some(0.0))?;
    let step = updates.typed(updates.step);
    let decay = updates.scaled(step, "decay_factor", decay)?;
    let one = updates.constant("one", 1.0)?;
    let divisor = updates.make("Add", &[one, decay]);
    let rate = updates.typed(updates.rate);
    let rate = updates.make("Div", &[rate, divisor]);
    let change = updates.make("Mul", &[rate, gradient]);
    let change = updates.normalised(change, squares)?;
    let updated = updates.make("Sub", &[tensor, change]);
    Ok(vec![updated, squares])
}

/// Averages of the gradients and of their squares, the rate corrected for their initial zeros (Kingma and Ba, "Adam: a
/// method for stochastic optimization", 2015).
fn adam(updates: &mut Updates<'_>, operands: &[ValueId]) -> Result<Vec<ValueId>> {
    let &[tensor, gradient, mean, squares] = operands else {
        return Ok(Vec::new());
    };
    let alpha = updates.float("alpha", Some(0.9))?;
    let beta = updates.float("beta", Some(0.999))?;
    let gradient = updates.gradient(tensor, gradient)?;
    let mean = updates.average(mean, gradient, "alpha", alpha)?;
    let square = updates.make("Mul", &[gradient, gradient]);
    let squares = updates.average(squares, square, "beta", beta)?;
    let step = updates.typed(updates.step);
    let one = updates.constant("one", 1.0)?;
    let mut remainder = |what, share| -> Result<ValueId> {
        let share = updates.constant(what, share)?;
        let power = updates.make("Pow", &[share, step]);
        Ok(updates.make("Sub", &[one, power]))
    };
    let (of_mean, of_squares) = (remainder("alpha", alpha)?, remainder("beta", beta)?);
    let root = updates.make("Sqrt", &[of_squares]);
    let rate = updates.typed(updates.rate);
    let corrected = updates.make("Mul", &[rate, root]);
    let corrected = updates.make("Div", &[corrected, of_mean]);
    let rate = updates.by_step(rate, corrected)?;
    let change = updates.normalised(mean, squares)?;
    let change = updates.make("Mul", &[rate, change]);
    let updated = updates.make("Sub", &[tensor, change]);
    let norm = updates.float("norm_coefficient_post", Some(0.0))?;
    let updated = updates.scaled(updated, "norm_coefficient_post", 1.0 - norm)?;
    Ok(vec![updated, mean, squares])
}

/// The gradients decay in the momentum; with Nesterov's form the change looks ahead (Sutskever et al., "On the
/// importance of initialization and momentum in deep learning", 2013).
fn momentum(updates: &mut Updates<'_>, operands: &[ValueId]) -> Result<Vec<ValueId>> {
    let &[tensor, gradient, momentum] = operands else {
        return Ok(Vec::new());
    };
    let alpha = updates.float("alpha", None)?;
    let beta = updates.float("beta", None)?;
    updates.float("norm_coefficient", None)?;
    let is_nesterov = match updates.node.attributes.value("mode") {
        Some(Attribute::String(mode)) if mode == "standard" => false,
        Some(Attribute::String(mode)) if mode == "nesterov" => true,
        _ => {
            let error = Error::new(
                ErrorKind::InvalidModel,
                "attribute 'mode' has an unknown value",
            );
            return Err(error.expected("standard or nesterov"));
        }
    };
    let gradient = updates.gradient(tensor, gradient)?;
    let one = updates.constant("one", 1.0)?;
    let beta = updates.constant("beta", beta)?;
    let beta = updates.by_step(one, beta)?;
    let before = updates.scaled(momentum, "alpha", alpha)?;
    let now = updates.make("Mul", &[beta, gradient]);
    let momentum = updates.make("Add", &[before, now]);
    let mut change = momentum;
    if is_nesterov {
        let ahead = updates.scaled(momentum, "alpha", alpha)?;
        change = updates.make("Add", &[gradient, ahead]);
    }
    let rate = updates.typed(updates.rate);
    let change = updates.make("Mul", &[rate, change]);
    Ok(vec![updates.make("Sub", &[tensor, change]), momentum])
}
