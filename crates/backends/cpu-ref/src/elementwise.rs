//! `tenon.Elementwise`: the operators of the program, one after the other on whole tensors.

use crate::CpuRef;
use crate::kernel::{BuildError, BuildKernel, Kernel, Node};
use tenon_backend::{Inputs, NodeView, evaluate};
use tenon_base::Result;
use tenon_graph::elementwise::{Operand, Program};
use tenon_tensor::{BufferMut, Tensor, TensorType};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("tenon.Elementwise", program)];

fn program(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let program = Program::of(node.attributes)?;
    let results = program.infer(node.inputs)?;
    let inputs: Vec<Option<TensorType>> = node.inputs.iter().map(|ty| ty.cloned()).collect();
    for (instruction, output) in program.instructions().iter().zip(&results) {
        let types = instruction.operands.iter().map(|operand| match *operand {
            Some(Operand::Input(index)) => inputs.get(index).and_then(Option::as_ref),
            Some(Operand::Result(index)) => results.get(index),
            None => None,
        });
        let types: Vec<Option<&TensorType>> = types.collect();
        let view = NodeView {
            op: instruction.op,
            attributes: &instruction.attributes,
            inputs: &types,
            constants: &vec![None; types.len()],
            outputs: &[Some(output)],
            ranges: None,
        };
        crate::build(&view)?;
    }
    Ok(Kernel::new(move |operands| {
        let (memory, mut outputs) = operands.split();
        let inputs = tensors(&inputs, &memory)?;
        let mut values: Vec<Option<Tensor>> = Vec::with_capacity(results.len());
        for (instruction, output) in program.instructions().iter().zip(&results) {
            let operands = instruction.operands.iter().map(|operand| match *operand {
                Some(Operand::Input(index)) => inputs.get(index).and_then(Option::as_ref),
                Some(Operand::Result(index)) => values.get(index).and_then(Option::as_ref),
                None => None,
            });
            let operands: Vec<Option<&Tensor>> = operands.collect();
            let output = [Some(output.clone())];
            let made = evaluate(
                &CpuRef,
                instruction.op,
                &instruction.attributes,
                &operands,
                &output,
            )?;
            values.extend(made);
        }
        if let Some(Some(last)) = values.last() {
            outputs.slice::<u8>(0)?.copy_from_slice(last.bytes());
        }
        Ok(())
    }))
}

/// The inputs as tensors.
fn tensors(types: &[Option<TensorType>], memory: &Inputs<'_>) -> Result<Vec<Option<Tensor>>> {
    let tensor = |(index, ty): (usize, &Option<TensorType>)| match ty {
        None => Ok(None),
        Some(ty) => {
            let bytes = BufferMut::copy_of(memory.slice::<u8>(index)?)?;
            Tensor::new(ty.clone(), bytes.freeze()).map(Some)
        }
    };
    types.iter().enumerate().map(tensor).collect()
}
