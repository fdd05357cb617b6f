//! Control flow: operators whose bodies are lists of nodes. A compiler makes them calls of functions; no backend
//! computes them, so that they are not in the operator table.

use crate::operator::{Arity, AttributeDef, Inference, OperandDef, OperatorClass, Types};
use crate::{AttributeKind, Graph, Node, OperatorDef, ValueId};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::TensorType;

/// The nodes that a node of control flow executes. They name values of the graph; those that are not made in the body
/// are inputs of the node.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// The nodes in execution order.
    pub nodes: Vec<Node>,
    /// The values that the node passes: for a Loop the number of the iteration, the condition and the states.
    pub inputs: Vec<ValueId>,
    /// The results.
    pub outputs: Vec<ValueId>,
}

/// `If(condition, values that the bodies read...)`: the results of one of two bodies.
pub static IF: OperatorDef = OperatorDef {
    name: "If",
    family: "control",
    doc: "The results of the body `then` if the condition is true, else of the body `else`.",
    class: OperatorClass::Compute,
    inputs: &[
        operand("condition", Arity::Required),
        operand("values", Arity::Variadic),
    ],
    outputs: &[operand("outputs", Arity::Variadic)],
    attributes: &[body("then"), body("else")],
    infer,
};

/// `Loop(limit, condition, states..., values that the body reads...)`: the states after the last iteration, then the
/// results of all iterations, stacked.
pub static LOOP: OperatorDef = OperatorDef {
    name: "Loop",
    family: "control",
    doc: "Executes the body while its condition is true, at most `limit` times.",
    class: OperatorClass::Compute,
    inputs: &[
        operand("limit", Arity::Optional),
        operand("condition", Arity::Optional),
        operand("values", Arity::Variadic),
    ],
    outputs: &[operand("outputs", Arity::Variadic)],
    attributes: &[body("body"), body("states")],
    infer,
};

const fn operand(name: &'static str, arity: Arity) -> OperandDef {
    OperandDef {
        name,
        arity,
        types: Types::Any,
        compile_time: false,
    }
}

const fn body(name: &'static str) -> AttributeDef {
    AttributeDef {
        name,
        kind: AttributeKind::Int,
        required: true,
        doc: "the position of a body in the graph; of `states` their number",
    }
}

fn infer(_: &Inference<'_>) -> Result<Vec<TensorType>> {
    let text = "the types of control flow follow from its bodies";
    Err(Error::new(ErrorKind::Unsupported, text))
}

impl Node {
    /// Whether it has bodies.
    pub fn is_control(&self) -> bool {
        *self.op == IF || *self.op == LOOP
    }

    /// The positions of its bodies in the graph.
    pub fn bodies(&self) -> Vec<usize> {
        let names: &[&str] = match self.op.name {
            "If" if self.is_control() => &["then", "else"],
            "Loop" if self.is_control() => &["body"],
            _ => &[],
        };
        let position = |name: &&str| usize::try_from(self.attributes.int(name, -1).ok()?).ok();
        names.iter().filter_map(position).collect()
    }
}

impl Graph {
    /// The bodies of a node.
    pub fn bodies_of(&self, node: &Node) -> impl Iterator<Item = &Body> {
        let positions = node.bodies().into_iter();
        positions.filter_map(|position| self.bodies.get(position))
    }
}
