//! CPU nodes: functions of shared libraries in a package (docs/package.md, "Several nodes").

mod elf;
mod library;

use crate::profile::ExecutionObserver;
use crate::{Signature, TapValue};
use library::{AttributeDescription, Function, Library, TensorDescription, Values};
use std::collections::HashMap;
use std::ffi::CString;
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_executor::Label;
use tenon_neff::{CpuFunction, NodeAttribute};
use tenon_tensor::{ALIGNMENT, Buffer, BufferMut};

/// The variable that allows libraries of packages to run.
const ALLOWED: &str = "TENON_ALLOW_NATIVE_NODES";

/// Whether the environment allows libraries of packages to run in this process.
pub(crate) fn allowed_by_environment() -> bool {
    std::env::var_os(ALLOWED).is_some_and(|value| value == "1")
}

/// The opened libraries of one package.
#[derive(Default)]
pub(crate) struct Libraries(HashMap<*const u8, Library>);

/// A loaded CPU node.
pub(crate) struct CpuNode {
    name: String,
    /// The operator that it implements.
    operator: String,
    /// Bytes that it writes.
    bytes: u64,
    function: Function,
    c_name: CString,
    attributes: Vec<AttributeDescription>,
    inputs: Vec<OperandType>,
    outputs: Vec<OperandType>,
}

/// The signature of an operand, and its name and type as C data.
struct OperandType {
    signature: Signature,
    name: CString,
    dtype: CString,
    shape: Vec<u64>,
}

impl CpuNode {
    /// Opens the library and finds the function.
    pub fn open(
        name: &str,
        function: &CpuFunction,
        inputs: &[Signature],
        outputs: &[Signature],
        libraries: &mut Libraries,
        allowed: bool,
    ) -> Result<Self> {
        let mut open = || {
            if !allowed {
                let text = "the package has a CPU node, whose library would run in this process";
                return Err(Error::new(ErrorKind::Unsupported, text).help(format!(
                    "if you trust the package, set {ALLOWED}=1 or allow native nodes when loading"
                )));
            }
            let (c_name, attributes, [inputs, outputs]) =
                arguments(name, function, [inputs, outputs])?;
            let library = libraries.library(&function.library)?;
            Ok(Self {
                function: library.function(&function.symbol)?,
                name: name.to_owned(),
                operator: function.operator.clone(),
                bytes: outputs
                    .iter()
                    .map(|output| output.signature.ty.bytes() as u64)
                    .sum(),
                c_name,
                attributes,
                inputs,
                outputs,
            })
        };
        open().map_err(|error: Error| error.at(Location::node(name)))
    }

    /// Makes the checks of [`CpuNode::open`] without opening the library, which would run its code.
    pub fn check(
        name: &str,
        function: &CpuFunction,
        inputs: &[Signature],
        outputs: &[Signature],
    ) -> Result<()> {
        arguments(name, function, [inputs, outputs])
            .and_then(|_| elf::check_whole(&function.library))
            .map_err(|error| error.at(Location::node(name)))
    }

    /// Calls the function on this thread. Unaligned memory is copied to or from aligned buffers.
    pub fn execute<'a>(
        &self,
        inputs: &[&[u8]],
        outputs: impl Iterator<Item = &'a mut [u8]>,
        watch: Option<&mut ExecutionObserver<'_>>,
    ) -> Result<()> {
        let started = Instant::now();
        self.call(inputs, outputs, |outputs| {
            let Some(watch) = watch else {
                return Ok(());
            };
            watch.cpu_node(self, started);
            let Some(tap) = watch.tap.filter(|tap| tap.selects(&self.name)) else {
                return Ok(());
            };
            let mut made = self.outputs.iter().zip(outputs);
            made.try_for_each(|(form, bytes)| {
                tap.on_value(TapValue {
                    subgraph: &self.name,
                    run: 0,
                    node: &self.name,
                    value: &form.signature.name,
                    ty: Some(&form.signature.ty),
                    bytes,
                })
            })
        })
        .map_err(|error| error.at(Location::node(&self.name)))
    }

    fn call<'a>(
        &self,
        inputs: &[&[u8]],
        outputs: impl Iterator<Item = &'a mut [u8]>,
        made: impl FnOnce(&mut dyn Iterator<Item = &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut outputs: Vec<&mut [u8]> = outputs.collect();
        check(&self.inputs, inputs.iter().map(|bytes| bytes.len()))?;
        check(&self.outputs, outputs.iter().map(|bytes| bytes.len()))?;
        let copy = |bytes: &&[u8]| {
            if is_aligned(bytes) {
                Ok(None)
            } else {
                BufferMut::copy_of(bytes).map(Some)
            }
        };
        let copies: Vec<Option<BufferMut>> = inputs.iter().map(copy).collect::<Result<_>>()?;
        let read = inputs.iter().zip(&copies);
        let read = read.map(|(bytes, copy)| copy.as_deref().unwrap_or(bytes));
        let aside = |bytes: &&mut [u8]| {
            if is_aligned(bytes) {
                Ok(None)
            } else {
                BufferMut::zeroed(bytes.len()).map(Some)
            }
        };
        let mut asides: Vec<Option<BufferMut>> =
            outputs.iter().map(aside).collect::<Result<_>>()?;
        let written = outputs.iter_mut().zip(&mut asides);
        let written = written.map(|(bytes, aside)| aside.as_deref_mut().unwrap_or(bytes));
        self.function.call(
            &self.c_name,
            &self.attributes,
            self.inputs.iter().map(OperandType::c_view).zip(read),
            self.outputs.iter().map(OperandType::c_view).zip(written),
        )?;
        for (output, aside) in outputs.iter_mut().zip(&asides) {
            if let Some(aside) = aside {
                output.copy_from_slice(aside);
            }
        }
        made(&mut outputs.iter().map(|bytes| &**bytes))
    }

    /// Types of inputs and outputs, for traces.
    pub fn shapes(&self) -> String {
        let types = |forms: &[OperandType]| {
            let types = forms.iter().map(|form| form.signature.ty.to_string());
            types.collect::<Vec<_>>().join(" ")
        };
        format!("{} -> {}", types(&self.inputs), types(&self.outputs))
    }

    /// The label in profiles.
    pub fn label(&self) -> Label<'_> {
        Label {
            node: &self.name,
            operator: &self.operator,
            backend: "cpu node",
            bytes: self.bytes,
        }
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as usize).is_multiple_of(ALIGNMENT)
}

/// Checks that each operand has the size of its type.
fn check(forms: &[OperandType], lengths: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let found: Vec<usize> = lengths.collect();
    let expected: Vec<usize> = forms.iter().map(|form| form.signature.ty.bytes()).collect();
    if found == expected {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        "operands have wrong sizes in bytes",
    )
    .expected(format_args!("{expected:?}"))
    .found(format_args!("{found:?}")))
}

impl Libraries {
    fn library(&mut self, bytes: &Buffer) -> Result<&Library> {
        use std::collections::hash_map::Entry;
        match self.0.entry(bytes.as_ptr()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                elf::check_whole(bytes)?;
                Ok(new.insert(Library::open(bytes)?))
            }
        }
    }
}

impl OperandType {
    fn of(signature: &Signature) -> Result<Self> {
        Ok(Self {
            signature: signature.clone(),
            name: text(&signature.name)?,
            dtype: text(signature.ty.dtype().name())?,
            shape: signature
                .ty
                .shape()
                .iter()
                .map(|&extent| extent as u64)
                .collect(),
        })
    }

    fn c_view(&self) -> TensorDescription<'_> {
        TensorDescription {
            name: &self.name,
            dtype: &self.dtype,
            shape: &self.shape,
        }
    }
}

/// The C data of a node: name, attributes, inputs and outputs.
fn arguments(
    name: &str,
    function: &CpuFunction,
    ports: [&[Signature]; 2],
) -> Result<(CString, Vec<AttributeDescription>, [Vec<OperandType>; 2])> {
    let forms = |signatures: &[Signature]| {
        signatures
            .iter()
            .map(OperandType::of)
            .collect::<Result<_>>()
    };
    let attributes = function.attributes.iter().map(attribute);
    Ok((
        text(name)?,
        attributes.collect::<Result<_>>()?,
        [forms(ports[0])?, forms(ports[1])?],
    ))
}

fn attribute((name, value): &(String, NodeAttribute)) -> Result<AttributeDescription> {
    let values = match value {
        NodeAttribute::Float(value) => Values::Float(*value),
        NodeAttribute::Int(value) => Values::Int(*value),
        NodeAttribute::String(value) => Values::String(text(value)?),
        NodeAttribute::Floats(values) => Values::Floats(values.clone()),
        NodeAttribute::Ints(values) => Values::Ints(values.clone()),
        NodeAttribute::Strings(values) => Values::Strings(
            values
                .iter()
                .map(|value| text(value))
                .collect::<Result<_>>()?,
        ),
    };
    let name = text(name)?;
    Ok(AttributeDescription { name, values })
}

fn text(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| {
        Error::new(ErrorKind::InvalidPackage, "a name has a NUL byte").found(format!("{name:?}"))
    })
}
