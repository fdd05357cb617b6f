//! What a backend is asked and what it answers.

use crate::Operands;
use std::borrow::Cow;
use std::fmt;
use tenon_base::Result;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{Buffer, DataType, Tensor, TensorType};

/// A backend's name, as in `--backends CpuAcc,CpuRef`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
    /// A built-in backend's name.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for BackendId {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A named property of a backend (facts, armnn.md 1.7).
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// Its name, such as `PreferredLayout`.
    pub name: &'static str,
    /// Its value.
    pub value: CapabilityValue,
}

/// The value of a capability.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the kinds of facts, armnn.md 1.7")]
pub enum CapabilityValue {
    Bool(bool),
    Int(i64),
    Float(f32),
    String(Cow<'static, str>),
}

/// Vector instructions that prepared constants may rely on. Recorded in the package, never
/// detected when compiling unless asked (architecture, decision 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CpuLevel {
    /// What every CPU of the architecture has.
    #[default]
    Baseline,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// A node as a backend sees it when asked whether it supports it.
#[derive(Debug, Clone)]
pub struct NodeView<'a> {
    /// What it does.
    pub op: &'static OperatorDef,
    /// With which parameters.
    pub attributes: &'a Attributes,
    /// The types of its inputs; `None` where one is left out.
    pub inputs: &'a [Option<&'a TensorType>],
    /// The elements of those inputs that are constants.
    pub constants: &'a [Option<&'a Tensor>],
    /// The types of its outputs; `None` where one is not wanted.
    pub outputs: &'a [Option<&'a TensorType>],
}

/// Why a backend does not take a node, as data; `Display` makes the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code and its arguments.
    pub reason: Reason,
}

/// The codes of refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The backend has no kernel for the operator.
    UnknownOperator,
    /// No kernel for this type of an input.
    InputType {
        /// Which input.
        input: usize,
        /// Its type.
        found: DataType,
    },
    /// No kernel for this number of dimensions of an input.
    InputRank {
        /// Which input.
        input: usize,
        /// Its rank.
        found: usize,
    },
    /// No kernel for this value of an attribute.
    AttributeValue {
        /// Which attribute.
        attribute: &'static str,
        /// Its value in text.
        found: String,
    },
    /// An input must be a constant.
    NotConstant {
        /// Which input.
        input: usize,
    },
    /// Anything else, in a sentence without the final stop.
    Other {
        /// The sentence.
        text: String,
    },
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::UnknownOperator => write!(f, "no kernel for this operator"),
            Reason::InputType { input, found } => {
                write!(f, "no kernel for type {found} of input {input}")
            }
            Reason::InputRank { input, found } => {
                write!(f, "no kernel for {found} dimensions of input {input}")
            }
            Reason::AttributeValue { attribute, found } => {
                write!(f, "no kernel for {attribute} = {found}")
            }
            Reason::NotConstant { input } => write!(f, "input {input} must be a constant"),
            Reason::Other { text } => f.write_str(text),
        }
    }
}

/// One input of a workload to be planned or made.
#[derive(Debug, Clone)]
pub struct InputSpec {
    /// Its type.
    pub ty: TensorType,
    /// Its elements, when it is a constant whose plain form is there.
    pub constant: Option<Tensor>,
    /// Its prepared form, as [`WorkloadPlan::prepared`] made it: the layout's tag and the bytes.
    /// Only constants have one; it may be all that is left of them (`--prepared-only`).
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

/// Who computes. Stateless; what it makes may outlive it.
pub trait Backend: Send + Sync {
    /// Its name.
    fn id(&self) -> BackendId;

    /// What it is, in a line, for `tenon backends`.
    fn description(&self) -> String;

    /// Its named properties.
    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    /// Whether it has a workload for the node, and if not, why.
    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal>;

    /// What the workload will need, and its constants prepared for it. Deterministic.
    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan>;

    /// Makes the workload, or refuses it as [`Backend::supports`] would. A constant whose prepared
    /// form is missing, or of a layout unknown here, is prepared again; when its plain form is left
    /// out that is an error of kind `Unsupported`.
    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>>;
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
