//! The Module: functions made of kernels, the only executable form of a program in Tenon.

use crate::{KernelLocation, Name};
use smallvec::SmallVec;
use std::fmt;

/// A function of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A register of a function: an SSA value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegisterId(pub u32);

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for RegisterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A program: functions by id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Module {
    /// Attributes, sorted by name (`tfrt.cost_threshold`). Not part of BEF: stored in Tenon's own
    /// section.
    pub attributes: Dictionary,
    /// All functions; a [`FunctionId`] is an index here. A region of a kernel is a function with an
    /// empty name that precedes the function containing it (bef 1.5).
    pub functions: Vec<Function>,
}

/// How a function executes (bef 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FunctionKind {
    /// Dataflow order, asynchronous.
    #[default]
    Async = 0,
    /// A function of the host, without a body.
    Native = 1,
    /// Kernel order, synchronous.
    Sync = 2,
}

/// A function: its registers, and its kernels in block order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Function {
    /// Its name; empty for a region.
    pub name: String,
    /// How it executes: in text, the attributes `tfrt.sync` and `tfrt.native`.
    pub kind: FunctionKind,
    /// Other attributes, sorted by name (`tfrt.cost_threshold`). Not part of BEF: stored in Tenon's
    /// own section.
    pub attributes: Dictionary,
    /// The printed MLIR type of every register (`i32`, `!tfrt.chain`): arguments first, then the
    /// results of kernels in order.
    pub registers: Vec<Name>,
    /// Number of registers that are arguments.
    pub arguments: u32,
    /// Types of the results.
    pub result_types: Vec<Name>,
    /// The returned registers.
    pub results: Vec<RegisterId>,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// Source location.
    pub location: KernelLocation,
    /// Source location of its `tfrt.return`.
    pub return_location: KernelLocation,
}

/// Named attributes, sorted by name, without duplicates.
pub type Dictionary = Vec<(Name, Attribute)>;

/// The registers that a kernel uses or defines; most kernels have few.
pub type Registers = SmallVec<[RegisterId; FEW_REGISTERS]>;

/// Number of registers of a kernel that are stored inline.
pub(crate) const FEW_REGISTERS: usize = 4;

/// A kernel: a named host function applied to registers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kernel {
    /// The name under which it is registered.
    pub name: Name,
    /// Registers it uses.
    pub operands: Registers,
    /// Its attributes, sorted by name.
    pub attributes: Dictionary,
    /// Referenced functions with the attribute's name, which is empty for a region.
    pub functions: Vec<(Name, FunctionId)>,
    /// Registers it defines.
    pub results: Registers,
    /// Source location.
    pub location: KernelLocation,
}

/// Element types with their codes in BEF (bef 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table of bef 1.3")]
pub enum DType {
    Invalid = 0,
    UI8 = 1,
    UI16 = 2,
    UI32 = 3,
    UI64 = 4,
    I1 = 5,
    I8 = 6,
    I16 = 7,
    I32 = 8,
    I64 = 9,
    F32 = 10,
    F64 = 11,
    Complex64 = 12,
    Complex128 = 13,
    F16 = 14,
    BF16 = 15,
    String = 16,
    Resource = 17,
    Variant = 18,
    QUI8 = 19,
    QUI16 = 20,
    QI8 = 21,
    QI16 = 22,
    QI32 = 23,
}

/// A dense tensor attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<i64>,
    /// Elements, row-major, little-endian; i1 as bytes.
    pub data: Vec<u8>,
}

/// The value of an attribute (bef 1.4).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "named after the types of bef 1.3")]
pub enum Attribute {
    I1(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    UI8(u8),
    UI16(u16),
    UI32(u32),
    UI64(u64),
    F32(f32),
    F64(f64),
    /// Raw bits.
    F16(u16),
    /// Raw bits.
    BF16(u16),
    String(Name),
    /// An element type (`i32`, `complex<f32>`).
    Type(DType),
    /// All elements of one fixed-size type; an empty list has no type.
    Array(Vec<Attribute>),
    /// Mixed, nested or string elements.
    Aggregate(Vec<Attribute>),
    /// Extents, `None` for `?`; `Shape(None)` is unranked.
    Shape(Option<Vec<Option<i64>>>),
    Dense(Dense),
    /// A symbol of a compiled module: the path of names, and the module in the generic form of
    /// MLIR.
    Symbol {
        path: Vec<String>,
        module: Name,
    },
    /// A name without a value.
    Unit,
    /// Any other attribute, as MLIR text. Like [`Unit`](Self::Unit), not encodable in BEF as an
    /// attribute of a kernel; functions and modules may have both.
    Foreign(String),
}
