//! Loop and Scan, written out step by step where the number of steps is known when importing.

use super::{Import, invalid};
use crate::draft::{DraftNode, Origin};
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::scope::Scope;
use std::collections::BTreeMap;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// What stands for an input or output of a body in one step.
type Values = Vec<Option<ValueId>>;

/// How a Scan walks along one of its inputs or outputs.
#[derive(Debug, Clone, Copy)]
struct Walk {
    axis: i64,
    backwards: bool,
}

impl<'m> Import<'m> {
    /// Writes out a Loop or a Scan, or reports that it is not supported.
    pub(super) fn unroll(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        match node.op_type.as_str() {
            "Loop" => self.unroll_loop(node, inputs, label, scope),
            _ => self.unroll_scan(node, inputs, label, scope),
        }
    }

    /// Writes out a Loop: its number of steps is known, and its condition after each.
    fn unroll_loop(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let body = body(node, scope)?;
        let step = self.step_node(node, label, scope)?;
        let input = |index: usize| inputs.get(index).copied().flatten();
        let count = match input(0) {
            Some(count) => self.known(Some(count)).and_then(|count| count.to_i64s()),
            // As many as the condition lets.
            None => Some(vec![i64::MAX]),
        };
        let Some([count]) = count.as_deref() else {
            return self.refuse(&step.origin, unknown("number of steps"));
        };
        let before = self.draft.nodes.len();
        let truth = input(1).map_or(Some(true), |condition| self.truth(condition, before));
        let Some(mut open) = truth else {
            return self.refuse(&step.origin, unknown("condition"));
        };
        let states = inputs.len().saturating_sub(2);
        expect_body(body, states + 2, states + 1, node.output.len() + 1)?;
        let mut state: Values = inputs.iter().skip(2).copied().collect();
        let mut rows = vec![Vec::new(); body.output.len() - 1 - states];
        for at in 0..(*count).max(0) {
            if !open {
                break;
            }
            let before = self.draft.nodes.len();
            let number = self.number_for(&step, Tensor::scalar(at)?);
            let truth = self.number_for(&step, Tensor::from_bools([], &[true])?);
            let given = [Some(number), Some(truth)].into_iter().chain(state);
            let mut made =
                self.body_step(body, given.collect(), &format!("{label}/{at}/"), scope)?;
            let condition = made.remove(0);
            open = match self.truth(condition, before) {
                Some(open) => open,
                None => return self.refuse(&step.origin, unknown("condition after a step")),
            };
            let scanned = made.split_off(states);
            state = made.into_iter().map(Some).collect();
            rows.iter_mut()
                .zip(scanned)
                .for_each(|(row, value)| row.push(value));
        }
        let walk = Walk {
            axis: 0,
            backwards: false,
        };
        let walks = vec![walk; rows.len()];
        self.hand_on_steps(node, &step, state, rows, &walks, scope)
    }

    /// Writes out a Scan: the extent of what it walks along is known.
    fn unroll_scan(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let body = body(node, scope)?;
        let step = self.step_node(node, label, scope)?;
        if step.version < 9 {
            let error = Error::new(ErrorKind::Unsupported, "a Scan over batches (version 8)");
            return self.refuse(&step.origin, error);
        }
        let scanned = named(node, scope, "num_scan_inputs")?.and_then(|attribute| attribute.i);
        let scanned = scanned.and_then(|count| usize::try_from(count).ok());
        let states = scanned.and_then(|count| inputs.len().checked_sub(count));
        let Some(states) = states else {
            return Err(invalid(
                "attribute 'num_scan_inputs' is missing or too large",
            ));
        };
        expect_body(body, inputs.len(), states, node.output.len())?;
        let along = walks(node, scope, "input", inputs.len() - states)?;
        let back = walks(node, scope, "output", body.output.len() - states)?;
        let extent = self.extent(inputs.get(states).copied().flatten(), along.first());
        let Some(count) = extent else {
            return self.refuse(&step.origin, unknown("number of steps"));
        };
        let mut state: Values = inputs[..states].to_vec();
        let mut rows = vec![Vec::new(); body.output.len() - states];
        for at in 0..count {
            let mut given = state;
            for (walk, input) in along.iter().zip(&inputs[states..]) {
                let place = if walk.backwards { count - 1 - at } else { at };
                let place = self.number_for(&step, Tensor::scalar(place as i64)?);
                let axis = Attributes::new().with("axis", Attribute::Int(walk.axis));
                let part = self
                    .draft
                    .step(&step, "Gather", axis, &[*input, Some(place)]);
                given.push(Some(part));
            }
            let mut made = self.body_step(body, given, &format!("{label}/{at}/"), scope)?;
            let scanned = made.split_off(states);
            state = made.into_iter().map(Some).collect();
            rows.iter_mut()
                .zip(scanned)
                .for_each(|(row, value)| row.push(value));
        }
        self.hand_on_steps(node, &step, state, rows, &back, scope)
    }

    /// One step: the body's nodes with `given` as its inputs; answers its outputs.
    fn body_step(
        &mut self,
        body: &'m GraphProto,
        given: Values,
        prefix: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<Vec<ValueId>> {
        // A body without nodes takes memory too.
        self.spend(256 * (1 + body.output.len()))?;
        let mut inner = Scope::of_subgraph(body, scope, prefix.to_owned());
        let names = body.input.iter().map(|input| input.name.as_str());
        inner.values.extend(names.zip(given));
        self.initialisers(body, &BTreeMap::new(), &mut inner)?;
        self.deeper(|import| import.nodes(&body.node, &mut inner))?;
        let made = |name: &str| {
            let value = inner.value(name).flatten();
            value.ok_or_else(|| invalid(format!("the body does not make its output '{name}'")))
        };
        body.output
            .iter()
            .map(|output| made(&output.name))
            .collect()
    }

    /// Makes the last states and what the steps made, stacked, the outputs of the node.
    fn hand_on_steps(
        &mut self,
        node: &'m NodeProto,
        step: &DraftNode,
        state: Values,
        rows: Vec<Vec<ValueId>>,
        walks: &[Walk],
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let mut made = state;
        for (row, walk) in rows.into_iter().zip(walks) {
            let index = made.len();
            let wanted = node.output.get(index).is_some_and(|name| !name.is_empty());
            if !wanted {
                made.push(None);
                continue;
            }
            if row.is_empty() {
                let error = "no step makes the output, whose shape is not known then";
                return self.refuse(&step.origin, Error::new(ErrorKind::Unsupported, error));
            }
            let axes = self.draft.ints_for(step, "axes", &[walk.axis])?;
            let mut parts: Values = Vec::with_capacity(row.len());
            for value in row {
                let inputs = [Some(value), Some(axes)];
                let part = self
                    .draft
                    .step(step, "Unsqueeze", Attributes::new(), &inputs);
                parts.push(Some(part));
            }
            if walk.backwards {
                parts.reverse();
            }
            let axis = Attributes::new().with("axis", Attribute::Int(walk.axis));
            made.push(Some(self.draft.step(step, "Concat", axis, &parts)));
        }
        let outputs = node.output.iter().zip(made);
        for (name, value) in outputs.filter(|(name, _)| !name.is_empty()) {
            scope.values.insert(name, value);
        }
        Ok(())
    }

    /// The node as steps of it name it.
    fn step_node(
        &mut self,
        node: &'m NodeProto,
        label: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<DraftNode> {
        let version = scope.version("")?;
        let name = self.draft.node_names.unique(label);
        Ok(DraftNode {
            origin: Rc::new(Origin::new("", &node.op_type, version, &name)),
            name,
            domain: String::new(),
            operator: node.op_type.clone(),
            version,
            attributes: Attributes::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        })
    }

    fn number_for(&mut self, step: &DraftNode, tensor: Tensor) -> ValueId {
        self.draft.constant_for(step, "step", tensor)
    }

    /// A condition, where it is known; nodes from `first` on may hand it on.
    fn truth(&mut self, value: ValueId, first: usize) -> Option<bool> {
        if self.is_true(value, first) {
            return Some(true);
        }
        self.known(Some(value)).map(|truth| truth.bytes() == [1])
    }

    /// Whether a value is the constant true, itself or handed on by nodes from `first` on.
    fn is_true(&self, value: ValueId, first: usize) -> bool {
        let mut value = value;
        // Makers stand before users.
        for node in self.draft.nodes.iter().skip(first).rev() {
            if node.outputs.contains(&Some(value)) {
                match node.inputs.first() {
                    Some(&Some(source)) if node.operator == "Identity" => value = source,
                    _ => return false,
                }
            }
        }
        let constant = self.draft.constant(Some(value));
        constant
            .is_some_and(|constant| constant.dtype() == DataType::Bool && constant.bytes() == [1])
    }

    /// The extent of what a Scan walks along, when its type is known.
    fn extent(&mut self, value: Option<ValueId>, walk: Option<&Walk>) -> Option<usize> {
        let ty = self.known_type(value?)?;
        let shape = ty.shape();
        let axis = walk?.axis;
        let at = if axis < 0 {
            axis + shape.len() as i64
        } else {
            axis
        };
        shape.get(usize::try_from(at).ok()?).copied()
    }
}

fn unknown(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("its {what} is not known when importing"),
    )
}

/// An attribute, references followed.
fn named<'m>(
    node: &'m NodeProto,
    scope: &Scope<'m, '_>,
    name: &str,
) -> Result<Option<&'m AttributeProto>> {
    let attribute = node
        .attribute
        .iter()
        .find(|attribute| attribute.name == name);
    let resolved = attribute
        .map(|attribute| scope.resolve(attribute))
        .transpose()?;
    Ok(resolved.flatten())
}

fn body<'m>(node: &'m NodeProto, scope: &Scope<'m, '_>) -> Result<&'m GraphProto> {
    let body = named(node, scope, "body")?.and_then(|attribute| attribute.g.as_deref());
    body.ok_or_else(|| invalid("attribute 'body' is missing"))
}

/// A body must take `inputs` and make at least `least` outputs, and as many as the node names.
fn expect_body(body: &GraphProto, inputs: usize, least: usize, outputs: usize) -> Result<()> {
    let least = least.max(outputs);
    if body.input.len() == inputs && body.output.len() >= least {
        return Ok(());
    }
    Err(invalid("a body that does not fit its node")
        .expected(format_args!("{inputs} inputs and at least {least} outputs"))
        .found(format_args!(
            "{} and {}",
            body.input.len(),
            body.output.len()
        )))
}

/// How a Scan walks along its inputs or outputs; forwards along the first dimension unless told.
fn walks<'m>(
    node: &'m NodeProto,
    scope: &Scope<'m, '_>,
    side: &str,
    count: usize,
) -> Result<Vec<Walk>> {
    let list = |name: &str| -> Result<&'m [i64]> {
        let attribute = named(node, scope, &format!("scan_{side}_{name}"))?;
        Ok(attribute.map_or(&[], |attribute| attribute.ints.as_slice()))
    };
    let (axes, directions) = (list("axes")?, list("directions")?);
    let walk = |at: usize| Walk {
        axis: axes.get(at).copied().unwrap_or(0),
        backwards: directions.get(at).copied().unwrap_or(0) == 1,
    };
    Ok((0..count).map(walk).collect())
}
