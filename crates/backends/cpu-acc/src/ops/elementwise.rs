//! `tenon.Elementwise`: a program of elementwise operators in one pass over memory. Each instruction is a
//! loop over a part of the output, with its operands and results in buffers (registers of a vector
//! machine) that stay in the first-level cache. The loops are those of the operators by themselves, so
//! that results in f32 are bit-identical to theirs (but for the last bit of a Pow whose exponent is
//! repeated along rows); f16 and bf16 are converted when a part is read and written only.

mod function;
mod run;
mod small;

use super::broadcast::Broadcast;
use super::element_types::refuse_type;
use super::{Kernel, UnpreparedWorkload};
use crate::floats::FloatType;
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use function::Function;
use run::REGISTERS;
use small::SmallProgram;
use tenon_backend::{NodeView, Refusal, WorkloadPlan};
use tenon_graph::elementwise::{Instruction, Operand, Program};
use tenon_tensor::{DataType, TensorType};

/// The types of elements in buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    /// f32, converted from and to this type.
    Floats(FloatType),
    /// Truth values, which are 0 or 1, or quantized elements of u8 or i8.
    Bytes,
}

impl Format {
    /// The format of input `index` of type `dtype`.
    fn of(dtype: DataType, index: usize) -> Result<Self, Refusal> {
        match FloatType::of(dtype) {
            Some(float) => Ok(Self::Floats(float)),
            None if matches!(dtype, DataType::Bool | DataType::U8 | DataType::I8) => {
                Ok(Self::Bytes)
            }
            None => Err(refuse_type(index, dtype)),
        }
    }
}

/// The place of an operand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    Input(usize),
    Register(usize),
}

/// An input of the program.
struct Input {
    format: Format,
    loops: Broadcast<1>,
    /// Whether it is one element.
    is_single: bool,
    /// Whether an instruction reads it as a slice, even if one element is repeated.
    is_slice: bool,
    /// Whether it has an element for each one of the output, in the same order.
    is_dense: bool,
    /// Whether the output may replace it.
    is_replaceable: bool,
}

/// An instruction with its registers.
struct Step {
    function: Function,
    operands: Vec<Option<Source>>,
    /// The register of the result; the last step writes the output instead.
    to: usize,
    /// The format of the result.
    format: Format,
}

/// A program, ready to execute.
struct Elementwise {
    level: Level,
    inputs: Vec<Input>,
    steps: Vec<Step>,
    output: Format,
    /// The program of few elements.
    small: Option<SmallProgram>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let program = Program::of(signature.attributes());
    let program = program.map_err(|error| refuse(error.to_string()))?;
    kernel_of(signature, &program)
}

/// The operator of the signature as a program of one instruction, whose result is rounded once.
pub(super) fn single(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let inputs = (0..signature.input_count()).map(|input| Some(Operand::Input(input)));
    let instruction = Instruction {
        op: signature.op,
        attributes: signature.attributes().clone(),
        operands: inputs.collect(),
    };
    let program = Program::new(vec![instruction]);
    let program = program.map_err(|error| refuse(error.to_string()))?;
    kernel_of(signature, &program)
}

fn kernel_of(signature: &Signature<'_>, program: &Program) -> Result<Box<dyn Kernel>, Refusal> {
    let invalid = |error: tenon_base::Error| refuse(error.to_string());
    let inference = signature.inference();
    let output = signature.output(0)?;
    let results = program.data_types(inference.inputs).map_err(invalid)?;
    // All results have the shape of the output.
    let result =
        |&dtype: &DataType| TensorType::new(dtype, output.shape().clone()).map_err(invalid);
    let results = results.iter().map(result).collect::<Result<Vec<_>, _>>()?;
    let mut inputs = Vec::with_capacity(inference.inputs.len());
    for index in 0..inference.inputs.len() {
        let ty = signature.input(index)?;
        let is_dense = ty.elements() == output.elements();
        inputs.push(Input {
            format: Format::of(ty.dtype(), index)?,
            loops: Broadcast::new(output.shape(), [ty.shape()])?,
            is_single: ty.elements() == 1,
            is_slice: false,
            is_dense,
            is_replaceable: is_dense && output.elements() > 1 && ty.dtype() == output.dtype(),
        });
    }
    let mut registers = Registers::new(program);
    let mut steps = Vec::with_capacity(results.len());
    for (index, instruction) in program.instructions().iter().enumerate() {
        let types = Types {
            inputs: inference.inputs,
            results: &results,
        };
        let (function, order) = types.function(index, instruction, signature.level)?;
        let operands = order.iter().map(|&nth| match instruction.operands[nth] {
            Some(Operand::Input(input)) => Some(Source::Input(input)),
            Some(Operand::Result(result)) => Some(Source::Register(registers.assigned[result])),
            None => None,
        });
        let operands: Vec<Option<Source>> = operands.collect();
        function.check(&operands)?;
        for (nth, operand) in operands.iter().enumerate() {
            if let Some(Source::Input(input)) = *operand {
                inputs[input].is_slice |= function.reads_slice(nth);
            }
        }
        let format = Format::of(results[index].dtype(), 0)?;
        steps.push(Step {
            function,
            operands,
            to: registers.allocate(index, format)?,
            format,
        });
    }
    Ok(Box::new(Elementwise {
        level: signature.level,
        small: SmallProgram::of(&inputs, &steps, output.elements()),
        inputs,
        steps,
        output: Format::of(output.dtype(), 0)?,
    }))
}

impl UnpreparedWorkload for Elementwise {
    fn workload_plan(&self) -> WorkloadPlan {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.filter(|(_, input)| input.is_replaceable);
        WorkloadPlan::in_place(inputs.map(|(index, _)| index))
    }
}

/// The types of the inputs and of the results of a program.
struct Types<'a> {
    inputs: &'a [Option<&'a TensorType>],
    results: &'a [TensorType],
}

impl Types<'_> {
    /// The function of an instruction, and the order of its operands.
    fn function(
        &self,
        index: usize,
        instruction: &Instruction,
        level: Level,
    ) -> Result<(Function, Vec<usize>), Refusal> {
        let types = instruction.operands.iter().map(|operand| match *operand {
            Some(Operand::Input(input)) => self.inputs[input],
            Some(Operand::Result(result)) => Some(&self.results[result]),
            None => None,
        });
        let types: Vec<Option<&TensorType>> = types.collect();
        let view = NodeView {
            op: instruction.op,
            attributes: &instruction.attributes,
            inputs: &types,
            constants: &vec![None; types.len()],
            outputs: &[Some(&self.results[index])],
            ranges: None,
        };
        Function::of(&Signature::of_node(&view, level))
    }
}

/// The assignment of results to registers: a register is free after the last use of its result.
struct Registers {
    /// For each result the instruction that reads it last; itself where none does.
    last_uses: Vec<usize>,
    /// For each result its register.
    assigned: Vec<usize>,
    formats: Vec<Format>,
}

impl Registers {
    fn new(program: &Program) -> Self {
        let mut last_uses: Vec<usize> = (0..program.instructions().len()).collect();
        for (index, instruction) in program.instructions().iter().enumerate() {
            for operand in instruction.operands.iter().flatten() {
                if let Operand::Result(result) = *operand {
                    last_uses[result] = index;
                }
            }
        }
        Self {
            last_uses,
            assigned: Vec::new(),
            formats: Vec::new(),
        }
    }

    /// The register of the result of instruction `index`, which is none of those of its operands.
    fn allocate(&mut self, index: usize, format: Format) -> Result<usize, Refusal> {
        let is_bytes = |format: Format| format == Format::Bytes;
        let is_taken = |register: usize| {
            let mut results = self.assigned.iter().zip(&self.formats).zip(&self.last_uses);
            results.any(|((&assigned, &other), &last)| {
                assigned == register && is_bytes(other) == is_bytes(format) && last >= index
            })
        };
        let register = (0..REGISTERS).find(|&register| !is_taken(register));
        let register = register.ok_or_else(|| {
            refuse("the program needs more registers than fit the first-level cache")
        })?;
        self.assigned.push(register);
        self.formats.push(format);
        Ok(register)
    }
}
