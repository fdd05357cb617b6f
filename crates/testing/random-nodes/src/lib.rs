//! Random nodes of the operator table, to compare a backend with the reference backend (differential
//! testing): operators, attributes, types, shapes and elements follow from a list of bytes, so that a
//! property test and a fuzzer share the generator.

#![forbid(unsafe_code)]

mod choices;
mod generate;
mod shapes;
mod trees;
mod values;

pub use choices::{Choices, choice_bytes};

use tenon_backend::{Backend, CpuLevel, InputSpec, NodeView, OwnedOperands, Refusal, WorkloadSpec};
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType, converter};

/// A node with its inputs. Shape inference has accepted it.
#[derive(Debug, Clone)]
pub struct RandomNode {
    /// Its operator.
    pub op: &'static OperatorDef,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its inputs; `None` for an omitted one.
    pub inputs: Vec<Option<Input>>,
    /// The types of its outputs.
    pub outputs: Vec<Option<TensorType>>,
}

/// An input of a [`RandomNode`].
#[derive(Debug, Clone)]
pub struct Input {
    /// Its elements.
    pub tensor: Tensor,
    /// Whether they are known when compiling.
    pub is_constant: bool,
}

/// The types of inputs, and the elements of those that are constants.
fn known_to_compiler(inputs: &[Option<Input>]) -> (Vec<Option<&TensorType>>, Vec<Option<&Tensor>>) {
    let inputs = inputs.iter().map(Option::as_ref);
    let known = inputs.map(|input| {
        let constant = input.filter(|input| input.is_constant);
        let ty = input.map(|input| input.tensor.ty());
        (ty, constant.map(|input| &input.tensor))
    });
    known.unzip()
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// One of the backends refuses the node.
    Refused(Refusal),
    /// Both executions failed, for instance at an index that is out of bounds.
    Failed,
    /// All outputs agree.
    Agreed,
}

impl RandomNode {
    /// The node that `choices` describe; `None` where shape inference rejects it, which is frequent.
    pub fn new(choices: &mut Choices<'_>) -> Option<Self> {
        generate::node(choices, None, None)
    }

    /// The same of one operator.
    pub fn of(op: &'static OperatorDef, choices: &mut Choices<'_>) -> Option<Self> {
        generate::node(choices, Some(op), None)
    }

    /// The same with inputs of type `dtype` where the operator takes it.
    pub fn of_type(
        op: &'static OperatorDef,
        dtype: DataType,
        choices: &mut Choices<'_>,
    ) -> Option<Self> {
        generate::node(choices, Some(op), Some(dtype))
    }

    /// Executes the node on both backends and compares the outputs: elements of floating-point types
    /// within `tolerance` of the larger of 1 and their magnitude, all others exactly.
    ///
    /// # Errors
    /// A text that describes the node and the first difference.
    pub fn compare(
        &self,
        reference: &dyn Backend,
        backend: &dyn Backend,
        tolerance: f64,
    ) -> Result<Outcome, String> {
        for side in [reference, backend] {
            if let Err(refusal) = self.supported(side) {
                return Ok(Outcome::Refused(refusal));
            }
        }
        match (self.execute(reference), self.execute(backend)) {
            (Ok(expected), Ok(found)) => {
                for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    let (Some(expected), Some(found)) = (expected, found) else {
                        continue;
                    };
                    if let Some(text) = difference(expected, found, tolerance) {
                        return Err(format!("{}\noutput {index}, {text}", self.description()));
                    }
                }
                Ok(Outcome::Agreed)
            }
            (Err(_), Err(_)) => Ok(Outcome::Failed),
            (Ok(_), Err(error)) => Err(format!("{}\nfails: {error}", self.description())),
            (Err(error), Ok(_)) => Err(format!(
                "{}\nonly the reference fails: {error}",
                self.description()
            )),
        }
    }

    /// Whether a backend supports the node, with the same constants as its execution.
    fn supported(&self, backend: &dyn Backend) -> Result<(), Refusal> {
        let (types, constants) = known_to_compiler(&self.inputs);
        let outputs: Vec<_> = self.outputs.iter().map(Option::as_ref).collect();
        backend.supports(&NodeView {
            op: self.op,
            attributes: &self.attributes,
            inputs: &types,
            constants: &constants,
            outputs: &outputs,
            ranges: None,
        })
    }

    fn execute(&self, backend: &dyn Backend) -> tenon_base::Result<Vec<Option<Tensor>>> {
        let spec = WorkloadSpec {
            op: self.op,
            attributes: self.attributes.clone(),
            inputs: self
                .inputs
                .iter()
                .map(|input| {
                    input.as_ref().map(|input| InputSpec {
                        ty: input.tensor.ty().clone(),
                        constant: input.is_constant.then(|| input.tensor.clone()),
                        prepared: None,
                    })
                })
                .collect(),
            outputs: self.outputs.clone(),
            ranges: None,
        };
        let plan = backend.plan(&spec, CpuLevel::Baseline)?;
        let workload = backend.workload(&spec)?;
        let inputs: Vec<_> = self
            .inputs
            .iter()
            .map(|input| input.as_ref().map(|input| &input.tensor))
            .collect();
        let mut operands = OwnedOperands::of(backend, &inputs, &self.outputs, plan.scratch_bytes)?;
        operands.execute(&*workload)?;
        operands.into_outputs()
    }

    /// The node with its types, attributes and elements.
    fn description(&self) -> String {
        let mut text = format!("{} {:?}", self.op.name, self.attributes);
        for (index, input) in self.inputs.iter().enumerate() {
            let Some(Input {
                tensor,
                is_constant,
            }) = input
            else {
                continue;
            };
            let kind = if *is_constant { "constant" } else { "input" };
            let mut elements: Vec<String> = reals(tensor).iter().map(f64::to_string).collect();
            elements.truncate(64);
            text += &format!(
                "\n{kind} {index}: {} [{}]",
                tensor.ty(),
                elements.join(", ")
            );
        }
        text
    }
}

/// The elements as f64; empty for types that are not converted.
fn reals(tensor: &Tensor) -> Vec<f64> {
    let Some(convert) = converter(tensor.dtype(), DataType::F64) else {
        return Vec::new();
    };
    let Ok(mut wide) = BufferMut::zeroed(tensor.ty().elements() * 8) else {
        return Vec::new();
    };
    convert(tensor.bytes(), &mut wide);
    let elements = wide.as_chunks::<8>().0.iter();
    elements.map(|&bytes| f64::from_ne_bytes(bytes)).collect()
}

/// The first difference of two outputs.
fn difference(expected: &Tensor, found: &Tensor, tolerance: f64) -> Option<String> {
    if expected.bytes() == found.bytes() {
        return None;
    }
    // Half-precision results differ by two units in the last place: the reference rounds partial sums.
    let place = match expected.dtype() {
        DataType::F16 => 2f64.powi(-9),
        DataType::BF16 => 2f64.powi(-6),
        _ => 0.0,
    };
    let is_float = expected.dtype().is_float();
    let pairs = reals(expected).into_iter().zip(reals(found));
    for (index, (expected, found)) in pairs.enumerate() {
        let allowed = (tolerance + place) * expected.abs().max(1.0);
        let equal = expected == found || (expected.is_nan() && found.is_nan());
        let is_close = is_float && (expected - found).abs() <= allowed;
        if !equal && !is_close {
            return Some(format!(
                "element {index}: expected {expected}, found {found}"
            ));
        }
    }
    None
}
