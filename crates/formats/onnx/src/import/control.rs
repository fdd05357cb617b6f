//! If and Loop whose condition or number of iterations is known only when the model runs: their bodies become bodies of
//! the graph.

use super::unroll::ScanAxis;
use super::{Import, invalid};
use crate::draft::{CONTROL, DraftBody, DraftNode, ValueInfo};
use crate::proto::{GraphProto, NodeProto};
use crate::scope::Scope;
use std::collections::{BTreeSet, HashSet};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// The inputs of a Scan, and the axes of its scanned inputs and outputs.
pub(super) struct ScanOperands<'a> {
    pub states: &'a [Option<ValueId>],
    pub scanned: &'a [Option<ValueId>],
    pub along: &'a [ScanAxis],
    pub back: &'a [ScanAxis],
}

impl<'m> Import<'m> {
    /// Adds an If with both branches.
    pub(super) fn run_time_branch(
        &mut self,
        branches: [&'m GraphProto; 2],
        node: &'m NodeProto,
        condition: ValueId,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let mut attributes = Attributes::new();
        let mut read = BTreeSet::new();
        for (name, graph) in ["then", "else"].into_iter().zip(branches) {
            if !graph.input.is_empty() || graph.output.len() != node.output.len() {
                return Err(invalid("a branch of an If")
                    .expected(format_args!("no inputs and {} outputs", node.output.len()))
                    .found(format_args!(
                        "{} and {}",
                        graph.input.len(),
                        graph.output.len()
                    )));
            }
            let body = self.body(graph, Vec::new(), &format!("{label}/{name}/"), scope)?;
            read.extend(self.read_by(&body));
            attributes.set(name, self.add_body(body));
        }
        let template = self.step_node(node, label, scope)?;
        let outputs = self.outputs_of(node, scope);
        self.draft.emit(DraftNode {
            domain: CONTROL.to_owned(),
            operator: "If".to_owned(),
            attributes,
            inputs: [condition].into_iter().chain(read).map(Some).collect(),
            outputs,
            ..template
        });
        Ok(())
    }

    /// Adds a Loop with its body.
    pub(super) fn run_time_loop(
        &mut self,
        graph: &'m GraphProto,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let states = inputs.get(2..).unwrap_or_default();
        let given = states.iter().copied().collect::<Option<Vec<ValueId>>>();
        let states = given.ok_or_else(|| invalid("a Loop cannot leave a state out"))?;
        let infos = [DataType::I64, DataType::Bool].map(|dtype| ValueInfo {
            dtype: Some(dtype),
            rank: Some(0),
        });
        let infos = infos
            .into_iter()
            .chain(states.iter().map(|&state| self.draft.info(state)));
        let infos: Vec<ValueInfo> = infos.collect();
        let prefix = format!("{label}/body/");
        let names = graph.input.iter().zip(infos);
        let arguments = names.map(|(input, info)| {
            let names = &mut self.draft.value_names;
            let name = names.unique(&format!("{prefix}{}", input.name));
            self.draft.add_value(name, info)
        });
        let arguments = arguments.collect();
        let body = self.body(graph, arguments, &prefix, scope)?;
        let formal = [inputs.first(), inputs.get(1)];
        let formal = formal.map(|input| input.copied().flatten());
        let template = self.step_node(node, label, scope)?;
        let outputs = self.outputs_of(node, scope);
        self.loop_node(&template, body, formal, states, outputs);
        Ok(())
    }

    /// Adds a Scan as a Loop over the extent of its first scanned input.
    pub(super) fn run_time_scan(
        &mut self,
        graph: &'m GraphProto,
        node: &'m NodeProto,
        operands: ScanOperands<'_>,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let step = self.step_node(node, label, scope)?;
        let ScanOperands {
            states,
            scanned,
            along,
            back,
        } = operands;
        if back.iter().any(|axis| axis.axis != 0) {
            let text = "a Scan that stacks its outputs along another dimension than the first";
            return self.refuse(&step.origin, Error::new(ErrorKind::Unsupported, text));
        }
        let given = |list: &[Option<ValueId>]| list.iter().copied().collect::<Option<Vec<_>>>();
        let (Some(states), Some(scanned)) = (given(states), given(scanned)) else {
            return Err(invalid("a Scan cannot leave an input out"));
        };
        // The number of iterations.
        let none = Attributes::new;
        let shape = self
            .draft
            .step(&step, "Shape", none(), &[scanned.first().copied()]);
        let axis = along.first().map_or(0, |axis| axis.axis);
        let axis = self
            .draft
            .constant_for(&step, "axis", Tensor::scalar(axis)?);
        let limit = self
            .draft
            .step(&step, "Gather", none(), &[Some(shape), Some(axis)]);
        let scalar = |dtype| ValueInfo {
            dtype: Some(dtype),
            rank: Some(0),
        };
        let prefix = format!("{label}/body/");
        let argument = |import: &mut Self, name: &str, info: ValueInfo| {
            let name = import.draft.value_names.unique(&format!("{prefix}{name}"));
            import.draft.add_value(name, info)
        };
        let number = argument(self, "step", scalar(DataType::I64));
        let condition = argument(self, "condition", scalar(DataType::Bool));
        let mut arguments = vec![number, condition];
        for (&state, input) in states.iter().zip(&graph.input) {
            let info = self.draft.info(state);
            arguments.push(argument(self, &input.name, info));
        }
        let start = self.draft.nodes.len();
        let mut inputs = arguments[2..].to_vec();
        for (axis, &scanned) in along.iter().zip(&scanned) {
            let mut place = number;
            if axis.backwards {
                let one = self.draft.constant_for(&step, "one", Tensor::scalar(1i64)?);
                let last = self
                    .draft
                    .step(&step, "Sub", none(), &[Some(limit), Some(one)]);
                place = self
                    .draft
                    .step(&step, "Sub", none(), &[Some(last), Some(number)]);
            }
            let attributes = Attributes::new().with("axis", Attribute::Int(axis.axis));
            let operands = [Some(scanned), Some(place)];
            inputs.push(self.draft.step(&step, "Gather", attributes, &operands));
        }
        let mut body = self.body_from(start, graph, inputs, &prefix, scope)?;
        body.inputs = arguments;
        body.outputs.insert(0, condition);
        let outputs = self.outputs_of(node, scope);
        let mut results = outputs.clone();
        let mut reversed = Vec::new();
        for (index, axis) in back.iter().enumerate() {
            if let Some(Some(output)) = outputs.get(states.len() + index).copied()
                && axis.backwards
            {
                let stacked = argument(self, "stacked", ValueInfo::default());
                results[states.len() + index] = Some(stacked);
                reversed.push((stacked, output));
            }
        }
        self.loop_node(&step, body, [Some(limit), None], states, results);
        for (stacked, output) in reversed {
            let bounds = [-1, i64::MIN + 1, 0, -1];
            let mut operands = vec![Some(stacked)];
            for bound in bounds {
                operands.push(Some(self.draft.ints_for(&step, "reverse", &[bound])?));
            }
            self.draft
                .step_into(&step, "Slice", none(), &operands, output);
        }
        Ok(())
    }

    /// Adds a Loop with these operands: the limit and the condition, then the states.
    pub(super) fn loop_node(
        &mut self,
        template: &DraftNode,
        body: DraftBody,
        formal: [Option<ValueId>; 2],
        states: Vec<ValueId>,
        outputs: Vec<Option<ValueId>>,
    ) {
        let read = self.read_by(&body);
        let mut attributes = Attributes::new();
        attributes.set("states", Attribute::Int(states.len() as i64));
        attributes.set("body", self.add_body(body));
        let others = states.into_iter().chain(read).map(Some);
        self.draft.emit(DraftNode {
            domain: CONTROL.to_owned(),
            operator: "Loop".to_owned(),
            attributes,
            inputs: formal.into_iter().chain(others).collect(),
            outputs,
            ..template.clone()
        });
    }

    /// The nodes of a body, whose inputs are `arguments`.
    fn body(
        &mut self,
        graph: &'m GraphProto,
        arguments: Vec<ValueId>,
        prefix: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<DraftBody> {
        let start = self.draft.nodes.len();
        self.body_from(start, graph, arguments, prefix, scope)
    }

    /// The same with the nodes from position `start` on before those of the graph.
    pub(super) fn body_from(
        &mut self,
        start: usize,
        graph: &'m GraphProto,
        arguments: Vec<ValueId>,
        prefix: &str,
        scope: &Scope<'m, '_>,
    ) -> Result<DraftBody> {
        let mut inner = Scope::of_subgraph(graph, scope, prefix.to_owned());
        let names = graph.input.iter().map(|input| input.name.as_str());
        let given = arguments.iter().copied().map(Some);
        inner.values.extend(names.zip(given));
        self.initialisers(graph, |_| None, &mut inner)?;
        self.nested(|import| import.nodes(&graph.node, &mut inner))?;
        let made = |name: &str| {
            let value = inner.value(name).flatten();
            value.ok_or_else(|| invalid(format!("the body does not make its output '{name}'")))
        };
        let outputs = graph.output.iter().map(|output| made(&output.name));
        let outputs = outputs.collect::<Result<Vec<ValueId>>>()?;
        Ok(DraftBody {
            nodes: self.draft.nodes.split_off(start),
            inputs: arguments,
            outputs,
        })
    }

    fn add_body(&mut self, body: DraftBody) -> Attribute {
        self.draft.bodies.push(body);
        Attribute::Int(self.draft.bodies.len() as i64 - 1)
    }

    /// The values from outside that a body reads, except constants.
    fn read_by(&self, body: &DraftBody) -> Vec<ValueId> {
        let made = body
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().flatten());
        let made: HashSet<ValueId> = made.chain(&body.inputs).copied().collect();
        let read = body
            .nodes
            .iter()
            .flat_map(|node| node.inputs.iter().flatten());
        let read = read.chain(&body.outputs).copied();
        let outside = read.filter(|id| !made.contains(id));
        let outside: BTreeSet<ValueId> = outside
            .filter(|&id| self.draft.constant(Some(id)).is_none())
            .collect();
        outside.into_iter().collect()
    }
}
