//! SequenceMap: unrolled when the number of tensors is known, else a Loop.

use super::unroll::{MAX_UNROLLED, body, expect_body};
use super::{Import, invalid};
use crate::draft::{DraftNode, ValueInfo};
use crate::proto::{GraphProto, NodeProto};
use crate::scope::Scope;
use crate::signature::ValueSignature;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

impl<'m> Import<'m> {
    /// Adds a SequenceMap: its body for each tensor of the first input.
    pub(super) fn sequence_map(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<ValueId>],
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let body = body(node, scope)?;
        let step = self.step_node(node, label, scope)?;
        expect_body(body, inputs.len(), node.output.len(), node.output.len())?;
        let given = inputs.iter().copied().collect::<Option<Vec<ValueId>>>();
        let given = given.filter(|given| !given.is_empty());
        let given = given.ok_or_else(|| invalid("a SequenceMap cannot leave an input out"))?;
        let start = self.draft.nodes.len();
        let first = given.first().copied();
        let limit = self
            .draft
            .step(&step, "SequenceLength", Attributes::new(), &[first]);
        let count = self.known(Some(limit)).and_then(|count| count.to_i64s());
        match count.as_deref() {
            Some(&[count]) if count <= MAX_UNROLLED => {
                self.draft.nodes.truncate(start);
                let mut made = vec![Vec::new(); node.output.len()];
                for at in 0..count {
                    let place = Tensor::scalar(at)?;
                    let place = self.draft.constant_for(&step, "step", place);
                    let operands = self.map_operands(&step, &given, place);
                    let operands = operands.into_iter().map(Some).collect();
                    let prefix = format!("{label}/{at}/");
                    let results = self.body_step(body, operands, &prefix, scope)?;
                    let columns = made.iter_mut().zip(results);
                    columns.for_each(|(column, result)| column.push(Some(result)));
                }
                for ((name, column), output) in node.output.iter().zip(made).zip(&body.output) {
                    let sequence = match column.as_slice() {
                        [] => self.empty_sequence(&step, &ValueSignature::new(output))?,
                        items => {
                            let none = Attributes::new();
                            self.draft.step(&step, "SequenceConstruct", none, items)
                        }
                    };
                    scope.values.insert(name, Some(sequence));
                }
                Ok(())
            }
            _ => self.run_time_map(node, body, &given, limit, &step, label, scope),
        }
    }

    /// A Loop whose states are the sequences that it makes.
    #[allow(clippy::too_many_arguments, reason = "the parts of one node")]
    fn run_time_map(
        &mut self,
        node: &'m NodeProto,
        graph: &'m GraphProto,
        given: &[ValueId],
        limit: ValueId,
        step: &DraftNode,
        label: &str,
        scope: &mut Scope<'m, '_>,
    ) -> Result<()> {
        let prefix = format!("{label}/body/");
        let argument = |import: &mut Self, name: &str, dtype: Option<DataType>| {
            let name = import.draft.value_names.unique(&format!("{prefix}{name}"));
            let rank = dtype.map(|_| 0);
            import.draft.add_value(name, ValueInfo { dtype, rank })
        };
        let number = argument(self, "step", Some(DataType::I64));
        let condition = argument(self, "condition", Some(DataType::Bool));
        let mut arguments = vec![number, condition];
        let mut states = Vec::with_capacity(graph.output.len());
        for output in graph.output.iter().take(node.output.len()) {
            states.push(self.empty_sequence(step, &ValueSignature::new(output))?);
            arguments.push(argument(self, &output.name, None));
        }
        let start = self.draft.nodes.len();
        let operands = self.map_operands(step, given, number);
        let mut body = self.body_from(start, graph, operands, &prefix, scope)?;
        let count = states.len();
        let mut outputs = vec![condition];
        // The nodes of the body are in it already: those that follow are added to it.
        let start = self.draft.nodes.len();
        for (&state, &result) in arguments[2..].iter().zip(&body.outputs[..count]) {
            let operands = [Some(state), Some(result)];
            let none = Attributes::new();
            outputs.push(self.draft.step(step, "SequenceInsert", none, &operands));
        }
        body.nodes.extend(self.draft.nodes.split_off(start));
        body.inputs = arguments;
        body.outputs = outputs;
        let outputs = self.outputs_of(node, scope);
        self.loop_node(step, body, [Some(limit), None], states, outputs);
        Ok(())
    }

    /// The inputs of the body: the tensors of sequences at this position, and other inputs.
    fn map_operands(
        &mut self,
        step: &DraftNode,
        given: &[ValueId],
        position: ValueId,
    ) -> Vec<ValueId> {
        let operand = |&value: &ValueId| {
            let operands = [Some(value), Some(position)];
            self.draft
                .step(step, "tenon.MapOperand", Attributes::new(), &operands)
        };
        given.iter().map(operand).collect()
    }

    /// An empty sequence of tensors of a declared type.
    fn empty_sequence(&mut self, step: &DraftNode, of: &ValueSignature) -> Result<ValueId> {
        let dtype = of.dtype.ok_or_else(|| {
            invalid(format!(
                "the body does not say the data type of its output '{}'",
                of.name
            ))
        })?;
        let dtype = Attribute::String(dtype.name().to_owned());
        let attributes = Attributes::new().with("dtype", dtype);
        Ok(self.draft.step(step, "SequenceEmpty", attributes, &[]))
    }
}
