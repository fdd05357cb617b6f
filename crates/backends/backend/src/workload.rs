//! Workloads: specification, plan and execution.

use crate::{Backend, NodeRanges, NodeView, Operands, Stream};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// The specification of an input of a workload.
#[derive(Debug, Clone)]
pub struct InputSpec {
    /// Its type.
    pub ty: TensorType,
    /// Its elements, if it is a constant whose plain form is present.
    pub constant: Option<Tensor>,
    /// The prepared form of a constant, from [`WorkloadPlan::prepared`]: the layout's tag and the
    /// bytes. A package may store the prepared form only ([`Prepared::invertible`]).
    pub prepared: Option<(String, Buffer)>,
}

/// The specification of a workload, for planning (compile time) and creation (load time).
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// The operator.
    pub op: &'static OperatorDef,
    /// The attributes.
    pub attributes: Attributes,
    /// The inputs; `None` for an absent one.
    pub inputs: Vec<Option<InputSpec>>,
    /// The types of the outputs; `None` for one not requested.
    pub outputs: Vec<Option<TensorType>>,
    /// The sizes that its operands may have, if it is planned for all of them: as [`NodeView::ranges`](crate::NodeView).
    /// `None` for the sizes of one instance, of which workloads are made.
    pub ranges: Option<NodeRanges>,
}

impl WorkloadSpec {
    /// Checks that a backend supports the workload. Constants that are present in a prepared form alone were checked
    /// when they were prepared.
    ///
    /// # Errors
    /// Of kind `Unsupported`, with the reason of the refusal.
    pub fn check_support(&self, backend: &(impl Backend + ?Sized)) -> Result<()> {
        if self.lacks_plain_constants() {
            return Ok(());
        }
        self.with_view(|node| backend.supports(node))
            .map_err(|refusal| {
                let (id, op) = (backend.id(), self.op.name);
                Error::new(
                    ErrorKind::Unsupported,
                    format!("backend {id} does not take {op}: {refusal}"),
                )
            })
    }

    /// Calls `query` with the node that the workload executes, in the form of support queries.
    pub fn with_view<R>(&self, query: impl FnOnce(&NodeView<'_>) -> R) -> R {
        let inputs = || self.inputs.iter().map(Option::as_ref);
        let types: Vec<_> = inputs().map(|input| input.map(|input| &input.ty)).collect();
        let constants = inputs().map(|input| input.and_then(|input| input.constant.as_ref()));
        let constants: Vec<_> = constants.collect();
        let outputs: Vec<_> = self.outputs.iter().map(Option::as_ref).collect();
        query(&NodeView {
            op: self.op,
            attributes: &self.attributes,
            inputs: &types,
            constants: &constants,
            outputs: &outputs,
            ranges: self.ranges.as_ref(),
        })
    }

    /// Whether a constant has only its prepared form: support queries, which have no prepared forms, would take it
    /// for an operand that varies.
    pub fn lacks_plain_constants(&self) -> bool {
        let mut inputs = self.inputs.iter().flatten();
        inputs.any(|input| input.constant.is_none() && input.prepared.is_some())
    }
}

/// A pair of an input and an output of the same size that may share their memory: the output is
/// computed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// Index of the input.
    pub input: usize,
    /// Index of the output.
    pub output: usize,
}

impl InPlace {
    /// Output 0 in the memory of `input`.
    pub const fn of_input(input: usize) -> Self {
        Self { input, output: 0 }
    }

    /// Whether both operands exist and have the same size, which every pair of a plan must.
    pub fn fits(self, spec: &WorkloadSpec) -> bool {
        let input = spec.inputs.get(self.input).and_then(Option::as_ref);
        let output = spec.outputs.get(self.output).and_then(Option::as_ref);
        let pair = input.zip(output);
        pair.is_some_and(|(input, output)| input.ty.bytes() == output.bytes())
    }
}

/// The prepared form of a constant input, for the backend's kernels.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Index of the input.
    pub input: usize,
    /// The layout with the CPU features that it requires, such as `panels16:f32`.
    pub layout: String,
    /// The bytes.
    pub data: Buffer,
    /// Whether [`Backend::plain`](crate::Backend::plain) computes the constant from it bit-exactly;
    /// a package then need not store the plain form.
    pub invertible: bool,
}

/// The plan of a workload, made at compile time.
#[derive(Debug, Clone, Default)]
pub struct WorkloadPlan {
    /// Size of the scratch memory in bytes, aligned to 64. Must not depend on the machine.
    pub scratch_bytes: usize,
    /// Outputs that may be computed in place.
    pub in_place: Vec<InPlace>,
    /// Constants in prepared form, whose plain form the workload does not read.
    pub prepared: Vec<Prepared>,
    /// Bytes of memory of the backend that the workload has for itself as long as it exists, such as scratch memory and
    /// constants; not those of operands. 0 for a backend without handle factories.
    pub device_bytes: u64,
}

impl WorkloadPlan {
    /// The plan of a workload that needs no memory besides its operands and may write output 0 into
    /// the memory of any of `inputs`.
    pub fn in_place(inputs: impl IntoIterator<Item = usize>) -> Self {
        Self {
            in_place: inputs.into_iter().map(InPlace::of_input).collect(),
            ..Self::default()
        }
    }
}

/// A part of what a workload executes, such as a kernel of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadPart {
    /// Its name.
    pub name: String,
    /// The nodes of the model that it computes, by name, as far as they are known.
    pub nodes: Vec<String>,
}

/// An operator that is ready to execute; shared by concurrent executions. Executing allocates no
/// memory.
pub trait Workload: Send + Sync {
    /// Reads the inputs and writes every byte of the outputs. Constant inputs from the workload's
    /// creation are among the operands, unless their plain form is absent.
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()>;

    /// Whether executing reads the operand of input `input`. False for a constant in prepared form,
    /// whose plain form may be absent from a package.
    fn reads(&self, input: usize) -> bool {
        let _ = input;
        true
    }

    /// Its parts, for profiles and traces, in the order of their execution. Constant.
    fn parts(&self) -> &[WorkloadPart] {
        &[]
    }

    /// Writes the nanoseconds of each of [`Workload::parts`] in the last [timed](Operands::is_timed) execution: on
    /// `stream`, which has been finished since, or, if the backend has no streams, on this thread. Their sum is at most
    /// the time of the execution.
    fn part_times(&self, stream: Option<&mut dyn Stream>, nanoseconds: &mut [u64]) -> Result<()> {
        let _ = (stream, nanoseconds);
        let text = "the parts of the workload are not timed";
        Err(Error::new(ErrorKind::Unsupported, text))
    }
}
