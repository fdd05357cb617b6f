//! Unrolling of Loop and Scan with a trip count that is constant at import.

use super::control::ScanOperands;
use super::{Import, invalid};
use crate::draft::{DraftNode, Origin};
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::scope::Scope;
use std::rc::Rc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// The greatest number of iterations that are unrolled; longer loops are executed as loops.
pub(super) const MAX_UNROLLED: i64 = 64;

/// The inputs or outputs of a body in one iteration.
pub(super) type Values = Vec<Option<ValueId>>;

/// The axis and direction of a Scan over one of its inputs or outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanAxis {
    pub axis: i64,
    pub backwards: bool,
}

impl<'m> Import<'m> {
    /// Unrolls a Loop or a Scan, or reports that it is not supported.
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

    /// Unrolls a Loop whose trip count and conditions are constant.
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
            // The condition alone ends the loop.
            None => Some(vec![i64::MAX]),
        };
        let states = inputs.len().saturating_sub(2);
        expect_body(body, states + 2, states + 1, node.output.len() + 1)?;
        let start = self.draft.nodes.len();
        let truth = input(1).map_or(Some(true), |condition| self.truth(condition, start));
        let (Some([count]), Some(mut open)) = (count.as_deref(), truth) else {
            return self.run_time_loop(body, node, inputs, label, scope);
        };
        let conditional = input(0).is_none();
        if *count > MAX_UNROLLED && !conditional {
            return self.run_time_loop(body, node, inputs, label, scope);
        }
        let mut state: Values = inputs.iter().skip(2).copied().collect();
        let mut rows = vec![Vec::new(); body.output.len() - 1 - states];
        for at in 0..(*count).max(0) {
            if !open {
                break;
            }
            if at >= MAX_UNROLLED {
                self.draft.nodes.truncate(start);
                return self.run_time_loop(body, node, inputs, label, scope);
            }
            let before = self.draft.nodes.len();
            let number = self.constant_for_step(&step, Tensor::scalar(at)?);
            let truth = self.constant_for_step(&step, Tensor::from_bools([], &[true])?);
            let given = [Some(number), Some(truth)].into_iter().chain(state);
            let mut made =
                self.body_step(body, given.collect(), &format!("{label}/{at}/"), scope)?;
            let condition = made.remove(0);
            open = match self.truth(condition, before) {
                Some(open) => open,
                None => {
                    // The iterations so far are not used.
                    self.draft.nodes.truncate(start);
                    return self.run_time_loop(body, node, inputs, label, scope);
                }
            };
            let scanned = made.split_off(states);
            state = made.into_iter().map(Some).collect();
            rows.iter_mut()
                .zip(scanned)
                .for_each(|(row, value)| row.push(value));
        }
        let scan_axis = ScanAxis {
            axis: 0,
            backwards: false,
        };
        let scan_axes = vec![scan_axis; rows.len()];
        self.bind_results(node, &step, state, rows, &scan_axes, scope)
    }

    /// Unrolls a Scan whose scanned extent is known.
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
            return self.scan_batches(node, body, inputs, &step, label, scope);
        }
        let states = state_count(node, inputs.len(), scope)?;
        expect_body(body, inputs.len(), states, node.output.len())?;
        let along = scan_axes(node, scope, "input", inputs.len() - states)?;
        let back = scan_axes(node, scope, "output", body.output.len() - states)?;
        let extent = self.extent(inputs.get(states).copied().flatten(), along.first());
        let short = |count: &usize| *count as i64 <= MAX_UNROLLED;
        let in_order = back.iter().all(|axis| axis.axis == 0);
        let Some(count) = extent.filter(|count| short(count) || !in_order) else {
            let operands = ScanOperands {
                states: &inputs[..states],
                scanned: &inputs[states..],
                along: &along,
                back: &back,
            };
            return self.run_time_scan(body, node, operands, label, scope);
        };
        let (state, rows) = self.scan_steps(
            body,
            inputs.split_at(states),
            (&along, count),
            &step,
            label,
            scope,
        )?;
        self.bind_results(node, &step, state, rows, &back, scope)
    }

    /// The iterations of a Scan over `count` parts of the scanned inputs: the final states, and the results of each
    /// iteration.
    pub(super) fn scan_steps(
        &mut self,
        body: &'m GraphProto,
        (states, scanned): (&[Option<ValueId>], &[Option<ValueId>]),
        (along, count): (&[ScanAxis], usize),
        step: &DraftNode,
        label: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<(Values, Vec<Vec<ValueId>>)> {
        let mut state: Values = states.to_vec();
        let mut rows = vec![Vec::new(); body.output.len() - states.len()];
        for at in 0..count {
            let mut given = state;
            for (scan_axis, input) in along.iter().zip(scanned) {
                let place = if scan_axis.backwards {
                    count - 1 - at
                } else {
                    at
                };
                given.push(Some(self.part(step, *input, scan_axis.axis, place)?));
            }
            let mut made = self.body_step(body, given, &format!("{label}/{at}/"), scope)?;
            let scanned = made.split_off(states.len());
            state = made.into_iter().map(Some).collect();
            rows.iter_mut()
                .zip(scanned)
                .for_each(|(row, value)| row.push(value));
        }
        Ok((state, rows))
    }

    /// Position `place` of a value along an axis.
    pub(super) fn part(
        &mut self,
        step: &DraftNode,
        value: Option<ValueId>,
        axis: i64,
        place: usize,
    ) -> Result<ValueId> {
        let place = self.constant_for_step(step, Tensor::scalar(place as i64)?);
        let axis = Attributes::new().with("axis", Attribute::Int(axis));
        let inputs = [value, Some(place)];
        Ok(self.draft.step(step, "Gather", axis, &inputs))
    }

    /// Inlines one iteration with the inputs `given`; returns the outputs of the body.
    pub(super) fn body_step(
        &mut self,
        body: &'m GraphProto,
        given: Values,
        prefix: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<Vec<ValueId>> {
        // An empty body counts too.
        self.spend(256 * (1 + body.output.len()))?;
        let mut inner = Scope::of_subgraph(body, scope, prefix.to_owned());
        let names = body.input.iter().map(|input| input.name.as_str());
        inner.values.extend(names.zip(given));
        self.initialisers(body, |_| None, &mut inner)?;
        self.nested(|import| import.nodes(&body.node, &mut inner))?;
        let made = |name: &str| {
            let value = inner.value(name).flatten();
            value.ok_or_else(|| invalid(format!("the body does not make its output '{name}'")))
        };
        body.output
            .iter()
            .map(|output| made(&output.name))
            .collect()
    }

    /// Binds the outputs of the node: the final states, then the stacked results of the iterations.
    pub(super) fn bind_results(
        &mut self,
        node: &'m NodeProto,
        step: &DraftNode,
        state: Values,
        rows: Vec<Vec<ValueId>>,
        scan_axes: &[ScanAxis],
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let mut made = state;
        for (row, scan_axis) in rows.into_iter().zip(scan_axes) {
            let index = made.len();
            let is_used = node.output.get(index).is_some_and(|name| !name.is_empty());
            if !is_used {
                made.push(None);
                continue;
            }
            if row.is_empty() {
                let error = "an output of no iterations has an unknown shape";
                return self.refuse(&step.origin, Error::new(ErrorKind::Unsupported, error));
            }
            made.push(Some(self.stacked(step, row, scan_axis)?));
        }
        let outputs = node.output.iter().zip(made);
        for (name, value) in outputs.filter(|(name, _)| !name.is_empty()) {
            scope.values.insert(name, value);
        }
        Ok(())
    }

    /// Values in a new dimension.
    pub(super) fn stacked(
        &mut self,
        step: &DraftNode,
        values: Vec<ValueId>,
        scan_axis: &ScanAxis,
    ) -> Result<ValueId> {
        let axes = self.draft.ints_for(step, "axes", &[scan_axis.axis])?;
        let mut parts: Values = Vec::with_capacity(values.len());
        for value in values {
            let inputs = [Some(value), Some(axes)];
            let part = self
                .draft
                .step(step, "Unsqueeze", Attributes::new(), &inputs);
            parts.push(Some(part));
        }
        if scan_axis.backwards {
            parts.reverse();
        }
        let axis = Attributes::new().with("axis", Attribute::Int(scan_axis.axis));
        Ok(self.draft.step(step, "Concat", axis, &parts))
    }

    /// A template for the nodes of iterations.
    pub(super) fn step_node(
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

    fn constant_for_step(&mut self, step: &DraftNode, tensor: Tensor) -> ValueId {
        self.draft.constant_for(step, "step", tensor)
    }

    /// The value of a condition, if it is constant; nodes from `first` on may forward it.
    fn truth(&mut self, value: ValueId, first: usize) -> Option<bool> {
        if self.is_true(value, first) {
            return Some(true);
        }
        self.known(Some(value)).map(|truth| truth.bytes() == [1])
    }

    /// Whether a value is the constant true, possibly through Identity nodes from `first` on.
    fn is_true(&self, value: ValueId, first: usize) -> bool {
        let mut value = value;
        // In topological order, reversed.
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

    /// The scanned extent, when the type is known.
    fn extent(&mut self, value: Option<ValueId>, scan_axis: Option<&ScanAxis>) -> Option<usize> {
        let ty = self.known_type(value?)?;
        let shape = ty.shape();
        let axis = scan_axis?.axis;
        let at = if axis < 0 {
            axis + shape.len() as i64
        } else {
            axis
        };
        shape.get(usize::try_from(at).ok()?).copied()
    }
}

/// An attribute after resolution of references.
pub(super) fn named<'m>(
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

/// The number of states of a Scan with this number of states and scanned inputs.
pub(super) fn state_count<'m>(
    node: &'m NodeProto,
    inputs: usize,
    scope: &Scope<'m, '_>,
) -> Result<usize> {
    let scanned = named(node, scope, "num_scan_inputs")?.and_then(|attribute| attribute.i);
    let scanned = scanned.and_then(|count| usize::try_from(count).ok());
    let states = scanned.and_then(|count| inputs.checked_sub(count));
    states.ok_or_else(|| invalid("attribute 'num_scan_inputs' is missing or too large"))
}

pub(super) fn body<'m>(node: &'m NodeProto, scope: &Scope<'m, '_>) -> Result<&'m GraphProto> {
    let body = named(node, scope, "body")?.and_then(|attribute| attribute.g.as_deref());
    body.ok_or_else(|| invalid("attribute 'body' is missing"))
}

/// Checks that a body has `inputs` inputs, and at least `least` and the node's count of outputs.
pub(super) fn expect_body(
    body: &GraphProto,
    inputs: usize,
    least: usize,
    outputs: usize,
) -> Result<()> {
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

/// The axes and directions of a Scan; by default forwards along the first dimension.
fn scan_axes<'m>(
    node: &'m NodeProto,
    scope: &Scope<'m, '_>,
    side: &str,
    count: usize,
) -> Result<Vec<ScanAxis>> {
    let list = |name: &str| -> Result<&'m [i64]> {
        let attribute = named(node, scope, &format!("scan_{side}_{name}"))?;
        Ok(attribute.map_or(&[], |attribute| attribute.ints.as_slice()))
    };
    let (axes, directions) = (list("axes")?, list("directions")?);
    let scan_axis = |at: usize| ScanAxis {
        axis: axes.get(at).copied().unwrap_or(0),
        backwards: directions.get(at).copied().unwrap_or(0) == 1,
    };
    Ok((0..count).map(scan_axis).collect())
}
