//! Programs of `tenon.Elementwise`: elementwise operators that are applied one after the other, so that a
//! backend computes them in one pass over memory.
//!
//! The text form is that of a graph's nodes, one instruction a statement. `%0`, `%1`, ... are the
//! inputs of the node, other names the results of earlier instructions; the last result is the output.
//!
//! ```text
//! %t0 = Mul(%0, %1)
//! %t1 = LeakyRelu(%t0) {alpha = 0.1}
//! %t2 = Clip(%t1, _, %2)
//! ```

use crate::operator::OperatorClass;
use crate::ops::shapes::invalid;
use crate::text::{node_text, parse_nodes};
use crate::{Attributes, Graph, Node, OperatorDef, ValueId, infer};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tenon_base::{Error, Location, Result};
use tenon_tensor::{DataType, TensorType};

/// The maximum number of instructions of a program.
pub const MAX_INSTRUCTIONS: usize = 32;

/// The maximum number of inputs of a program.
pub const MAX_INPUTS: usize = 16;

/// Whether programs may contain the operator: each element of its output depends on the elements at the
/// same position of its inputs, which are broadcast to the output's shape. QuantizeLinear and DequantizeLinear have one
/// scale in a program.
pub fn is_elementwise(op: &OperatorDef) -> bool {
    let is_in_family = match op.family {
        "unary" | "binary" => true,
        "activation" => op.attribute("axis").is_none(),
        _ => op.name == "Where" || is_quantization(op),
    };
    is_in_family && op.class == OperatorClass::Compute
}

/// Whether the operator converts elements to or from integers with a scale.
pub fn is_quantization(op: &OperatorDef) -> bool {
    matches!(op.name, "QuantizeLinear" | "DequantizeLinear")
}

/// A value that an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// An input of the node.
    Input(usize),
    /// The result of an earlier instruction.
    Result(usize),
}

/// An operator applied to inputs and to results of earlier instructions.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// The operator, which [`is_elementwise`].
    pub op: &'static OperatorDef,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its operands; `None` for an omitted optional one.
    pub operands: Vec<Option<Operand>>,
}

/// A program: at least one instruction, at most [`MAX_INSTRUCTIONS`]. Instructions read inputs below
/// [`MAX_INPUTS`] and results of earlier instructions.
#[derive(Debug, Clone)]
pub struct Program {
    instructions: Vec<Instruction>,
    /// The data types of inputs for which types were inferred first, and those of the results.
    data_types: OnceLock<(InputTypes, Vec<DataType>)>,
}

type InputTypes = SmallVec<[Option<DataType>; 4]>;

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.instructions == other.instructions
    }
}

impl Program {
    /// A program of these instructions. All violations of the rules are reported, with the number of the
    /// instruction as the line.
    pub fn new(instructions: Vec<Instruction>) -> Result<Self> {
        let mut problems = Vec::new();
        if !(1..=MAX_INSTRUCTIONS).contains(&instructions.len()) {
            let text = "a program has the wrong number of instructions";
            let expected = format_args!("1 to {MAX_INSTRUCTIONS}");
            return Err(invalid(text).expected(expected).found(instructions.len()));
        }
        for (index, instruction) in instructions.iter().enumerate() {
            if !is_elementwise(instruction.op) {
                let text = format!("{} is not an elementwise operator", instruction.op.name);
                problems.push(at(index, invalid(text)));
            }
            for operand in instruction.operands.iter().flatten() {
                let problem = match *operand {
                    Operand::Input(input) if input >= MAX_INPUTS => {
                        invalid("a program has too many inputs")
                            .expected(format_args!("at most {MAX_INPUTS}"))
                            .found(format_args!("%{input}"))
                    }
                    Operand::Result(result) if result >= index => {
                        invalid("an operand is not the result of an earlier instruction")
                            .found(result)
                    }
                    _ => continue,
                };
                problems.push(at(index, problem));
            }
        }
        let data_types = OnceLock::new();
        let program = Self {
            instructions,
            data_types,
        };
        Error::from_all(problems).map_or(Ok(program), Err)
    }

    /// Reads the text form. Every line with a problem is reported.
    pub fn parse(statements: &[String]) -> Result<Self> {
        let graph = parse_nodes(&statements.join("\n"))?;
        let mut results: HashMap<ValueId, usize> = HashMap::new();
        let (mut instructions, mut problems) = (Vec::new(), Vec::new());
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut operand = |value: ValueId| {
                let result = results.get(&value).copied().map(Operand::Result);
                let name = &graph.value(value).name;
                result.or_else(|| input(name)).unwrap_or_else(|| {
                    let text = format!("no earlier instruction has the result '%{name}'");
                    problems.push(at(index, invalid(text)));
                    Operand::Input(0)
                })
            };
            let operands = node.inputs.iter().map(|value| value.map(&mut operand));
            let operands = operands.collect();
            match node.outputs[..] {
                [Some(result)] if input(&graph.value(result).name).is_none() => {
                    if results.insert(result, index).is_some() {
                        let name = &graph.value(result).name;
                        let text = format!("two instructions have the result '%{name}'");
                        problems.push(at(index, invalid(text)));
                    }
                }
                _ => {
                    let text = "an instruction has one result, whose name is not a number";
                    problems.push(at(index, invalid(text)));
                }
            }
            if !node.name.is_empty() {
                problems.push(at(index, invalid("an instruction has no node name")));
            }
            instructions.push(Instruction {
                op: node.op,
                attributes: node.attributes.clone(),
                operands,
            });
        }
        if let Some(value) = graph.values.iter().find(|value| value.ty.is_some()) {
            let text = format!("the type of '%{}' is inferred, not declared", value.name);
            problems.push(invalid(text));
        }
        match Error::from_all(problems) {
            None => Self::new(instructions),
            Some(error) => Err(error),
        }
    }

    /// The program of the attributes of a `tenon.Elementwise` node, which keep it.
    pub fn of(attributes: &Attributes) -> Result<Arc<Self>> {
        attributes.program(|| Self::parse(attributes.strings("program")?.unwrap_or_default()))
    }

    /// The text form: a statement for each instruction.
    pub fn statements(&self) -> Vec<String> {
        let mut graph = Graph::default();
        let inputs: Vec<ValueId> = (0..MAX_INPUTS)
            .map(|input| graph.add_value(input.to_string(), None))
            .collect();
        let mut results = Vec::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            let operands = instruction.operands.iter().map(|operand| match *operand {
                None => None,
                Some(Operand::Input(input)) => inputs.get(input).copied(),
                Some(Operand::Result(result)) => results.get(result).copied(),
            });
            let node = Node {
                name: String::new(),
                op: instruction.op,
                attributes: instruction.attributes.clone(),
                inputs: operands.collect(),
                outputs: vec![Some(graph.add_value(format!("t{index}"), None))],
            };
            results.extend(node.outputs.iter().flatten());
            graph.nodes.push(node);
        }
        let nodes = graph.nodes.iter();
        nodes.map(|node| node_text(&graph, node)).collect()
    }

    /// The instructions in their order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The data types of the results, for inputs for which [`Program::infer`] returns no error.
    pub fn data_types(&self, inputs: &[Option<&TensorType>]) -> Result<Vec<DataType>> {
        match self.data_types.get() {
            Some((first, results)) if *first == input_types(inputs) => Ok(results.clone()),
            _ => Ok(self.infer(inputs)?.iter().map(TensorType::dtype).collect()),
        }
    }

    /// The types of the results, for inputs of these types. Every result has the shape of the output, so
    /// that no element is computed twice.
    pub fn infer(&self, inputs: &[Option<&TensorType>]) -> Result<Vec<TensorType>> {
        if inputs.len() > MAX_INPUTS {
            let error = invalid("the node of a program has too many inputs");
            let expected = format_args!("at most {MAX_INPUTS}");
            return Err(error.expected(expected).found(inputs.len()));
        }
        let mut results: Vec<TensorType> = Vec::with_capacity(self.instructions.len());
        for (index, instruction) in self.instructions.iter().enumerate() {
            let types = instruction.operands.iter();
            let types = types.map(|operand| match *operand {
                None => Ok(None),
                Some(Operand::Result(result)) => Ok(results.get(result)),
                Some(Operand::Input(input)) => match inputs.get(input).copied().flatten() {
                    Some(ty) => Ok(Some(ty)),
                    None => Err(invalid(format!("the node has no input %{input}"))),
                },
            });
            let types: Result<SmallVec<[Option<&TensorType>; 4]>> = types.collect();
            let inferred = types.and_then(|types| {
                let Instruction { op, attributes, .. } = instruction;
                let scale = types.get(1).copied().flatten();
                if let Some(scale) = scale.filter(|ty| is_quantization(op) && ty.elements() != 1) {
                    let error = invalid("a program has one scale for all elements");
                    return Err(error.expected("one element").found(scale));
                }
                let constants: SmallVec<[_; 4]> = smallvec![None; types.len()];
                infer(op, attributes, &types, &constants, 1)
            });
            results.extend(inferred.map_err(|error| at(index, error))?);
        }
        self.data_types.get_or_init(|| {
            let types = results.iter().map(TensorType::dtype).collect();
            (input_types(inputs), types)
        });
        let shape = results.last().map(|ty| ty.shape().clone());
        let differs = |ty: &TensorType| Some(ty.shape()) != shape.as_ref();
        match results.iter().position(differs) {
            None => Ok(results),
            Some(index) => Err(at(
                index,
                invalid("a result does not have the shape of the output")
                    .expected(shape.unwrap_or_default())
                    .found(results[index].shape()),
            )),
        }
    }
}

fn input_types(inputs: &[Option<&TensorType>]) -> InputTypes {
    inputs.iter().map(|ty| ty.map(TensorType::dtype)).collect()
}

/// The input that a name refers to: `0`, `1`, ...
fn input(name: &str) -> Option<Operand> {
    name.parse().ok().map(Operand::Input)
}

/// The error of an instruction.
fn at(index: usize, error: Error) -> Error {
    let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
    error.at(Location::default().line_column(line, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::operator;

    fn statements(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn errors(lines: &[&str]) -> Vec<String> {
        let error = Program::parse(&statements(lines)).unwrap_err();
        error.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_text_of_a_program_is_exact() {
        let lines = statements(&[
            "%t0 = Mul(%0, %1)",
            "%t1 = LeakyRelu(%t0) {alpha = 0.1}",
            "%t2 = Clip(%t1, _, %2)",
        ]);
        let program = Program::parse(&lines).unwrap();
        assert_eq!(program.statements(), lines);
        let other = statements(&["%a = Mul(%0, %1)", "%b = Neg(%a)"]);
        let same = statements(&["%t0 = Mul(%0, %1)", "%t1 = Neg(%t0)"]);
        assert_eq!(Program::parse(&other).unwrap().statements(), same);
    }

    #[test]
    fn every_problem_has_the_number_of_its_instruction() {
        assert_eq!(
            errors(&[
                "%a = MatMul(%0, %1)",
                "%b = Add(%a, %16)",
                "%c = Softmax(%b)"
            ]),
            [
                "line 1, column 1: MatMul is not an elementwise operator",
                "line 2, column 1: a program has too many inputs: expected at most 16, found %16",
                "line 3, column 1: Softmax is not an elementwise operator",
            ]
        );
        assert_eq!(
            errors(&[
                "%a = Add(%b, %0)",
                "%b = Neg(%b)",
                "%b = Neg(%0)",
                "%1 = Neg(%0)",
                "Neg(%0)",
                "%d = Neg(%0) @name",
            ]),
            [
                "line 1, column 1: no earlier instruction has the result '%b'",
                "line 2, column 1: no earlier instruction has the result '%b'",
                "line 3, column 1: two instructions have the result '%b'",
                "line 4, column 1: an instruction has one result, whose name is not a number",
                "line 5, column 1: an instruction has one result, whose name is not a number",
                "line 6, column 1: an instruction has no node name",
            ]
        );
        assert_eq!(errors(&["%a = Nég(%0)", "%b = Add(%0"]).len(), 2);
        assert!(errors(&[])[0].contains("expected 1 to 32, found 0"));
        assert!(errors(&["%a: f32[2] = Neg(%0)"])[0].contains("is inferred"));
        let long = vec!["%a = Neg(%0)\n".repeat(40)];
        assert!(Program::parse(&long).is_err());
    }

    #[test]
    fn results_have_the_shape_of_the_output() {
        let types = [
            TensorType::new(DataType::F32, [2, 3]).unwrap(),
            TensorType::new(DataType::F32, [3]).unwrap(),
            TensorType::new(DataType::Bool, [2, 1]).unwrap(),
        ];
        let inputs = types.each_ref().map(Some);
        let infer = |lines: &[&str]| Program::parse(&statements(lines)).unwrap().infer(&inputs);
        let found = infer(&[
            "%a = Mul(%0, %1)",
            "%b = Greater(%a, %1)",
            "%c = And(%b, %2)",
        ]);
        let found: Vec<String> = found.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["f32[2, 3]", "bool[2, 3]", "bool[2, 3]"]);
        for (lines, expected) in [
            (
                vec!["%a = Neg(%1)", "%b = Add(%a, %0)"],
                "line 1, column 1: a result does not have the shape of the output: expected [2, 3], found [3]",
            ),
            (
                vec!["%a = Add(%0, %2)"],
                "line 1, column 1: Add does not take input 'B' of this type",
            ),
            (
                vec!["%a = Add(%0)"],
                "line 1, column 1: Add needs input 'B'",
            ),
            (
                vec!["%a = Neg(%7)"],
                "line 1, column 1: the node has no input %7",
            ),
            (
                vec!["%a = Elu(%0) {beta = 1.0}"],
                "line 1, column 1: Elu has no attribute 'beta'",
            ),
        ] {
            let found = infer(&lines).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn data_types_are_those_of_inference() {
        let program = Program::parse(&statements(&["%a = Greater(%0, %1)", "%b = Not(%a)"]));
        let program = program.unwrap();
        for dtype in [DataType::F32, DataType::I64, DataType::F32] {
            let ty = TensorType::new(dtype, [2]).unwrap();
            let inputs = [Some(&ty), Some(&ty)];
            let found = program.data_types(&inputs).unwrap();
            let inferred = program.infer(&inputs).unwrap();
            let inferred = inferred.iter().map(TensorType::dtype);
            assert_eq!(found, inferred.collect::<Vec<_>>());
        }
        let other = TensorType::new(DataType::String, [2]).unwrap();
        assert!(program.data_types(&[Some(&other), Some(&other)]).is_err());
    }

    #[test]
    fn elementwise_operators_are_those_of_three_families() {
        let is = |name: &str| is_elementwise(operator(name).unwrap());
        for name in ["Add", "Where", "Clip", "Not", "IsNaN", "PRelu", "SwiGLU"] {
            assert!(is(name), "{name}");
        }
        for name in ["Softmax", "Hardmax", "Cast", "MatMul", "tenon.Elementwise"] {
            assert!(!is(name), "{name}");
        }
    }
}
