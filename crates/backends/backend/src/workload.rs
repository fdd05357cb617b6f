//! What a backend computes: workloads, how they are specified, and what they need.

use crate::Operands;
use tenon_base::Result;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// One input of a workload to be planned or made.
#[derive(Debug, Clone)]
pub struct InputSpec {
    /// Its type.
    pub ty: TensorType,
    /// Its elements, when it is a constant whose plain form is there.
    pub constant: Option<Tensor>,
    /// Its prepared form, as [`WorkloadPlan::prepared`] made it: the layout's tag and the bytes.
    /// Only constants have one; it may be all that a package keeps of them
    /// ([`Prepared::invertible`]).
    pub prepared: Option<(String, Buffer)>,
}

/// A workload to be planned (when compiling) or made (when loading).
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// What it does.
    pub op: &'static OperatorDef,
    /// With which parameters.
    pub attributes: Attributes,
    /// Its inputs; `None` where one is left out.
    pub inputs: Vec<Option<InputSpec>>,
    /// The types of its outputs; `None` where one is not wanted.
    pub outputs: Vec<Option<TensorType>>,
}

/// An output that may take the place of an input that ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// The input.
    pub input: usize,
    /// The output of the same size in bytes.
    pub output: usize,
}

/// A constant input in the form the backend's kernels read.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Which input.
    pub input: usize,
    /// The layout and the CPU features it relies on, such as `panels16:f32`.
    pub layout: String,
    /// The bytes.
    pub data: Buffer,
    /// Whether [`Backend::plain`](crate::Backend::plain) computes the constant from it, to the bit:
    /// a package need not keep the plain form then.
    pub invertible: bool,
}

/// What a workload needs, decided when compiling.
#[derive(Debug, Clone, Default)]
pub struct WorkloadPlan {
    /// Bytes of scratch memory while it executes, aligned to 64. Must not depend on the machine.
    pub scratch_bytes: usize,
    /// Outputs that may be written in place.
    pub in_place: Vec<InPlace>,
    /// Constants in prepared form, whose plain form the workload does not read then.
    pub prepared: Vec<Prepared>,
}

/// One operator, ready to execute; shared by concurrent executions. Executing allocates nothing.
pub trait Workload: Send + Sync {
    /// Reads the inputs and writes every byte of the outputs. Constant inputs that the workload
    /// took when it was made are still among the operands, unless their plain form is left out.
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()>;

    /// Whether executing reads the operand of input `input`: not when it is a constant that the
    /// workload took in prepared form, whose plain form may be left out of a package.
    fn reads(&self, input: usize) -> bool {
        let _ = input;
        true
    }
}
