//! Elementwise operators that read each other's results alone, as one program: one pass over memory, without
//! the tensors between them.

use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::elementwise::{
    Instruction, MAX_INPUTS, MAX_INSTRUCTIONS, Operand, Program, is_elementwise, is_quantization,
};
use tenon_graph::{Attribute, Attributes, Node, ValueId};

/// A program and the values that it reads.
struct Chain {
    instructions: Vec<Instruction>,
    inputs: Vec<ValueId>,
}

impl Chain {
    /// The program of a node: of `tenon.Elementwise`, or of one elementwise operator.
    fn of(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<Self>> {
        if node.op.name == "tenon.Elementwise" {
            return Ok(Some(Self {
                instructions: Program::of(&node.attributes)?.instructions().to_vec(),
                inputs: node.inputs.iter().copied().flatten().collect(),
            }));
        }
        if !is_elementwise(node.op) || !has_one_scale(rewriter, node)? {
            return Ok(None);
        }
        let mut inputs = Vec::new();
        let operands = node.inputs.iter();
        let operands = operands.map(|value| value.map(|value| input(&mut inputs, value)));
        let instruction = Instruction {
            op: node.op,
            attributes: node.attributes.clone(),
            operands: operands.collect(),
        };
        Ok(Some(Self {
            instructions: vec![instruction],
            inputs,
        }))
    }

    /// The program that computes input `value` by the instructions of `producer`.
    fn after(self, producer: Self, value: ValueId) -> Self {
        let Self {
            mut instructions,
            mut inputs,
        } = producer;
        let first = instructions.len();
        for mut instruction in self.instructions {
            for operand in instruction.operands.iter_mut().flatten() {
                *operand = match *operand {
                    Operand::Result(result) => Operand::Result(first + result),
                    Operand::Input(index) if self.inputs[index] == value => {
                        Operand::Result(first - 1)
                    }
                    Operand::Input(index) => input(&mut inputs, self.inputs[index]),
                };
            }
            instructions.push(instruction);
        }
        Self {
            instructions,
            inputs,
        }
    }
}

/// Whether a node has no scales, or one for all elements.
fn has_one_scale(rewriter: &Rewriter<'_>, node: &Node) -> Result<bool> {
    match rewriter.input(node, 1) {
        Some(scale) if is_quantization(node.op) => Ok(rewriter.ty(scale)?.elements() == 1),
        _ => Ok(true),
    }
}

/// The operand of a value; values are added once.
fn input(inputs: &mut Vec<ValueId>, value: ValueId) -> Operand {
    let known = inputs.iter().position(|&known| known == value);
    Operand::Input(known.unwrap_or_else(|| {
        inputs.push(value);
        inputs.len() - 1
    }))
}

/// Adds the producer of an input to the program of its only user, where both have the same shape: a
/// smaller result would be computed several times.
pub(crate) fn chain(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let [Some(output)] = node.outputs[..] else {
        return Ok(Outcome::Keep);
    };
    let Some(program) = Chain::of(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    for &value in &program.inputs {
        let Some(producer) = rewriter.producer(value) else {
            continue;
        };
        let uses = node.inputs.iter().filter(|input| **input == Some(value));
        let is_only_user = rewriter.uses(value) as usize == uses.count();
        let has_shape = rewriter.shape(value)? == rewriter.shape(output)?;
        if !is_only_user || !has_shape || producer.outputs.len() != 1 {
            continue;
        }
        let Some(first) = Chain::of(rewriter, producer)? else {
            continue;
        };
        let inputs = first.inputs.len() + program.inputs.len() - 1;
        let instructions = first.instructions.len() + program.instructions.len();
        if instructions > MAX_INSTRUCTIONS || inputs > MAX_INPUTS {
            continue;
        }
        let Chain {
            instructions,
            inputs,
        } = program.after(first, value);
        let statements = Program::new(instructions)?.statements();
        let attributes = Attributes::new().with("program", Attribute::Strings(statements));
        let inputs = inputs.into_iter().map(Some).collect();
        let fused = rewriter.node_like(node, "tenon.Elementwise", attributes, inputs)?;
        return Ok(Outcome::Replace(fused));
    }
    Ok(Outcome::Keep)
}
