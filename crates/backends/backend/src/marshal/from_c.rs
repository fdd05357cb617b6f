//! Conversion of C structs to Rust values: checked and copied.
//!
//! The functions are unsafe because they follow pointers of the other side. In their requirements,
//! a C struct is *valid* if, as the header demands, each of its pointers is null or points to the
//! stated number of initialised values, which are readable and not written during the call, and
//! each struct it points to is valid itself. Null pointers, alignment, sizes, lengths and UTF-8 are
//! checked here.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    ExtentRange, NodeRanges, OperandRanges, OptionDef, OptionScope, PropertyValue, Reason, Refusal,
    WorkloadPart,
};
use std::ffi::c_void;
use std::ptr::NonNull;
use tenon_backend_abi as abi;
use tenon_backend_abi::{LayoutError, Outcome, Prefixed};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::OperatorDef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of elements of an array.
const MAX_ARRAY: usize = 1 << 24;
/// Maximum number of parts of a workload, and of bytes of their texts.
const MAX_PARTS: usize = 4096;
const MAX_PART_TEXT: usize = 1 << 20;
/// Maximum rank of a tensor.
const MAX_RANK: u32 = 64;

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn layout_error(what: &str, error: LayoutError) -> Error {
    invalid(format!("{what} {error}"))
}

/// Reads a struct that begins with its size.
///
/// # Safety
/// The requirements of [`abi::read`]: `start` is null or points to a struct that begins with its
/// size.
pub(crate) unsafe fn structure<T: Prefixed>(start: *const T, what: &str) -> Result<T> {
    // SAFETY: `start` meets the requirements of `abi::read`, which are those of this function.
    unsafe { abi::read(start) }.map_err(|error| layout_error(what, error))
}

/// # Safety
/// `start` is null or points to `count` initialised values that are not written during `'a`.
pub(crate) unsafe fn array<'a, T: Copy>(
    start: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if start.is_null() || !start.is_aligned() {
        return Err(invalid(format!(
            "{what}: count {count}, but the pointer is null or not aligned"
        )));
    }
    if count > MAX_ARRAY {
        let error = invalid(format!("{what} are too many")).expected(MAX_ARRAY);
        return Err(error.found(count));
    }
    // SAFETY: `start` is not null and aligned (checked above) and points to `count` initialised
    // values that are not written during `'a` (requirement); `MAX_ARRAY` bounds the size in bytes.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// The structs of a list; `None` for a null pointer.
///
/// # Safety
/// `start` is null or points to `count` pointers, each null or to a valid struct.
pub(crate) unsafe fn list<T: Prefixed>(
    start: abi::List<T>,
    count: usize,
    what: &str,
) -> Result<Vec<Option<T>>> {
    // SAFETY: `start` is null or points to `count` pointers (requirement).
    let pointers = unsafe { array(start, count, what)? };
    let mut all = Vec::with_capacity(count);
    for &pointer in pointers {
        all.push(if pointer.is_null() {
            None
        } else {
            // SAFETY: a pointer of the list that is not null points to a valid struct
            // (requirement).
            Some(unsafe { structure(pointer, what)? })
        });
    }
    Ok(all)
}

/// The structs of a list; a null pointer in it is an error.
///
/// # Safety
/// The requirements of [`list`].
pub(crate) unsafe fn records<T: Prefixed>(
    start: abi::List<T>,
    count: usize,
    what: &str,
) -> Result<Vec<T>> {
    // SAFETY: the requirements of `list` are those of this function.
    let all = unsafe { list(start, count, what)? };
    all.into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| invalid(format!("{what}: a null pointer in the list")))
}

/// # Safety
/// `text.start` is null or points to `text.length` initialised bytes.
pub(crate) unsafe fn text(text: abi::Text, what: &str) -> Result<String> {
    if text.length > MAX_TEXT {
        return Err(invalid(format!("{what} is too long"))
            .expected(format_args!("at most {MAX_TEXT} bytes"))
            .found(text.length));
    }
    // SAFETY: `start` is null or points to `length` bytes (requirement); they are copied below.
    let bytes = unsafe { array(text.start, text.length, what)? };
    let text = std::str::from_utf8(bytes).map_err(|_| invalid(format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// The parts of a workload.
///
/// # Safety
/// The requirements of [`list`].
pub(crate) unsafe fn parts(start: abi::List<abi::Part>, count: usize) -> Result<Vec<WorkloadPart>> {
    const WHAT: &str = "the parts of a workload";
    if count > MAX_PARTS {
        let error = invalid(format!("{WHAT} are too many")).expected(MAX_PARTS);
        return Err(error.found(count));
    }
    let mut left = MAX_PART_TEXT;
    let mut name = |raw| {
        // SAFETY: the text of a valid struct is null or of the stated length (requirement).
        let text = unsafe { text(raw, "the name of a part or of its node")? };
        // An empty text counts too: their number is bounded.
        left = left.checked_sub(text.len() + 1).ok_or_else(|| {
            let error = invalid(format!("the texts of {WHAT} are too long"));
            error.expected(format_args!("at most {MAX_PART_TEXT} bytes together"))
        })?;
        Ok(text)
    };
    // SAFETY: the requirements of `list` are those of this function.
    let raw = unsafe { records(start, count, WHAT)? };
    let part = |raw: &abi::Part| {
        // SAFETY: the list of a valid struct is null or of the stated length (requirement).
        let nodes = unsafe { array(raw.nodes, raw.node_count, "the nodes of a part")? };
        Ok(WorkloadPart {
            name: name(raw.name)?,
            nodes: nodes.iter().map(|&raw| name(raw)).collect::<Result<_>>()?,
        })
    };
    raw.iter().map(part).collect()
}

/// # Safety
/// `ids.start` is null or points to `ids.length` initialised values.
pub(crate) unsafe fn ids(ids: abi::Ids, what: &str) -> Result<Vec<u32>> {
    // SAFETY: `start` is null or points to `length` values (requirement); they are copied at once.
    unsafe { array(ids.start, ids.length, what) }.map(<[u32]>::to_vec)
}

/// # Safety
/// `bytes.start` is null or points to `bytes.length` initialised bytes that are not written during
/// `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: abi::Bytes, what: &str) -> Result<&'a [u8]> {
    let (start, length) = (bytes.start.cast::<u8>(), bytes.length);
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() || length > isize::MAX as usize {
        return Err(invalid(format!(
            "{what}: length {length}, but the pointer is null or the length exceeds memory"
        )));
    }
    // SAFETY: `start` is not null and `length` at most `isize::MAX` (checked above); it points to
    // `length` initialised bytes that are not written during `'a` (requirement).
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// The ownership of bytes that are needed beyond the call.
#[derive(Clone, Copy)]
pub(crate) enum Ownership {
    /// The bytes are copied.
    Copy,
    /// The bytes are shared with the host, by its reference count.
    Retain(abi::Host),
}

/// A reference to bytes of the host, released on drop.
struct HostReference {
    token: *mut c_void,
    forget: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: `forget` may be called on any thread (header, "Threads"), and the token is only passed to
// it.
unsafe impl Send for HostReference {}
// SAFETY: a shared reference gives no access to the token.
unsafe impl Sync for HostReference {}

impl Drop for HostReference {
    fn drop(&mut self) {
        // SAFETY: `retain` of the same host returned the token, not null; drop passes it to
        // `forget` once.
        unsafe { (self.forget)(self.token) }
    }
}

/// The bytes as a buffer that outlives the call.
///
/// # Safety
/// The requirements of [`bytes`]; with [`Ownership::Retain`], `raw.owner` is null or an owner that
/// this host passed.
unsafe fn owned_bytes(raw: abi::Bytes, ownership: Ownership, what: &str) -> Result<Buffer> {
    // SAFETY: the requirements of `bytes` are among those of this function.
    let slice = unsafe { bytes(raw, what)? };
    let host = match ownership {
        Ownership::Retain(host) if !raw.owner.is_null() && !slice.is_empty() => host,
        _ => return Ok(BufferMut::copy_of(slice)?.freeze()),
    };
    let (Some(retain), Some(forget)) = (host.retain, host.forget) else {
        return Ok(BufferMut::copy_of(slice)?.freeze());
    };
    // SAFETY: `owner` is not null (checked above) and was passed by this host (requirement).
    let token = unsafe { retain(raw.owner) };
    if token.is_null() {
        return Ok(BufferMut::copy_of(slice)?.freeze());
    }
    let owner = HostReference { token, forget };
    // SAFETY: the host keeps the bytes valid and unwritten until `forget` (header), which `owner`
    // calls when it is dropped.
    Ok(unsafe { Buffer::from_owner(NonNull::from(slice).cast(), slice.len(), owner) })
}

/// A copy of a failure.
pub(crate) struct FailureData {
    status: i32,
    reason: i32,
    pub index: i64,
    found: i64,
    name: String,
    text: String,
}

impl FailureData {
    /// The error, whose message starts with `callee`.
    pub fn into_error(self, callee: &str) -> Error {
        let kind = match self.status {
            abi::status::UNSUPPORTED | abi::status::UNAVAILABLE => ErrorKind::Unsupported,
            abi::status::INVALID => ErrorKind::InvalidArgument,
            abi::status::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            abi::status::STOPPED => ErrorKind::Cancelled,
            abi::status::DEVICE_LOST => ErrorKind::DeviceLost,
            _ => ErrorKind::ExecutionFailed,
        };
        Error::new(kind, format!("{callee}: {}", text_or_default(self.text)))
    }
}

/// Copies a failure and releases it; `None` for success.
///
/// # Safety
/// `outcome` is the unreleased return value of a function of the interface.
pub(crate) unsafe fn take_failure(outcome: Outcome) -> Result<Option<FailureData>> {
    if outcome.is_null() {
        return Ok(None);
    }
    // SAFETY: a function of the interface returned `outcome`, not null: a valid struct, with its
    // texts, until its `release` is called, which happens once, after copying.
    unsafe {
        let failure = structure(outcome, "a failure")?;
        let name = text(failure.name, "the name in a failure");
        let text = text(failure.text, "the text of a failure");
        if let Some(release) = failure.release {
            release(outcome);
        }
        Ok(Some(FailureData {
            status: failure.status,
            reason: failure.reason,
            index: failure.index,
            found: failure.found,
            name: name?,
            text: text?,
        }))
    }
}

/// The result of a call; the message of an error starts with `callee`.
///
/// # Safety
/// `outcome` is the unreleased return value of a function of the interface.
pub(crate) unsafe fn error_of(outcome: Outcome, callee: &str) -> Result<()> {
    // SAFETY: `outcome` is unreleased (requirement) and not used afterwards.
    let failure = unsafe { take_failure(outcome) };
    let failure = failure.map_err(|error| invalid(format!("{callee}: {error}")))?;
    failure.map_or(Ok(()), |failure| Err(failure.into_error(callee)))
}

/// The result of a support query.
///
/// # Safety
/// `outcome` is the unreleased return value of a function of the interface.
pub(crate) unsafe fn refusal_of(outcome: Outcome, op: &'static OperatorDef) -> Result<(), Refusal> {
    let other = |text: String| Refusal::from(Reason::Other { text });
    // SAFETY: `outcome` is unreleased (requirement) and not used afterwards.
    let failure = unsafe { take_failure(outcome) }.map_err(|error| other(error.to_string()))?;
    let Some(failure) = failure else {
        return Ok(());
    };
    let index = usize::try_from(failure.index).unwrap_or(usize::MAX);
    let dtype = i32::try_from(failure.found).ok().and_then(super::dtype_of);
    let attribute = op.attribute(&failure.name);
    let reason = match (failure.reason, dtype, attribute) {
        (abi::reason::UNKNOWN_OPERATOR, ..) => Reason::UnknownOperator,
        (abi::reason::INPUT_TYPE, Some(found), _) => Reason::InputType {
            input: index,
            found,
        },
        (abi::reason::INPUT_RANK, ..) => Reason::InputRank {
            input: index,
            found: usize::try_from(failure.found).unwrap_or(usize::MAX),
        },
        (abi::reason::ATTRIBUTE_VALUE, _, Some(row)) => Reason::AttributeValue {
            attribute: row.name,
            found: failure.text,
        },
        (abi::reason::NOT_CONSTANT, ..) => Reason::NotConstant { input: index },
        _ => Reason::Other {
            text: text_or_default(failure.text),
        },
    };
    Err(reason.into())
}

fn text_or_default(text: String) -> String {
    if text.is_empty() {
        "no reason given".into()
    } else {
        text
    }
}

/// # Safety
/// `raw` is valid (see the module).
pub(crate) unsafe fn named_value(raw: &abi::PropertyValue) -> Result<(String, PropertyValue)> {
    // SAFETY: `raw` is valid (requirement), so `name` points to `length` bytes or is null.
    let name = unsafe { text(raw.name, "the name of a value")? };
    let value = match raw.kind {
        abi::value::BOOL => PropertyValue::Bool(raw.integer != 0),
        abi::value::INT => PropertyValue::Int(raw.integer),
        abi::value::UNSIGNED => PropertyValue::Unsigned(raw.integer as u64),
        abi::value::FLOAT => PropertyValue::Float(raw.number),
        abi::value::STRING => {
            // SAFETY: `raw` is valid (requirement), so `text` points to `length` bytes or is null.
            PropertyValue::String(unsafe { text(raw.text, "the text of a value")? }.into())
        }
        other => {
            let error = invalid(format!("the value '{name}' is of an unknown kind"));
            return Err(error.found(other));
        }
    };
    Ok((name, value))
}

/// # Safety
/// `raw` is valid (see the module).
pub(crate) unsafe fn option(raw: &abi::BackendOption) -> Result<OptionDef> {
    // SAFETY: `raw` is valid (requirement), so `value` is null or a valid struct and `doc` a valid
    // text.
    let (value, doc) = unsafe {
        let value = structure(raw.value, "the value of an option")?;
        (
            named_value(&value)?,
            text(raw.doc, "the text of an option")?,
        )
    };
    let (name, default) = value;
    let scope = match raw.scope {
        abi::scope::MODEL => OptionScope::Model,
        abi::scope::CREATION => OptionScope::Creation,
        other => {
            let error = invalid(format!("option '{name}' has an unknown scope"));
            return Err(error.found(other));
        }
    };
    Ok(OptionDef {
        name: name.into(),
        scope,
        default,
        doc: doc.into(),
    })
}

/// A tensor converted from C.
pub(crate) struct ImportedTensor {
    pub ty: TensorType,
    pub constant: Option<Tensor>,
    pub prepared: Option<(String, Buffer)>,
    pub ranges: Option<OperandRanges>,
}

/// # Safety
/// `raw` is valid (see the module).
pub(crate) unsafe fn tensor(raw: &abi::Tensor, ownership: Ownership) -> Result<ImportedTensor> {
    let dtype = super::dtype_of(raw.dtype)
        .ok_or_else(|| invalid("a tensor of an unknown type").found(raw.dtype))?;
    if raw.rank > MAX_RANK {
        return Err(invalid("a tensor of too many dimensions").found(raw.rank));
    }
    // SAFETY: `raw` is valid (requirement), so `extents` is null or points to `rank` values.
    let extents = unsafe { array(raw.extents, raw.rank as usize, "the extents of a tensor")? };
    let extents = extents.iter().map(|&extent| usize::try_from(extent));
    let extents: Vec<usize> = extents
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("a tensor is larger than memory can be"))?;
    let ty = TensorType::new(dtype, extents)?;
    // SAFETY: `raw` is valid (requirement): its bytes and texts are null or of the stated lengths,
    // and owners are null or of the host in `ownership`.
    unsafe {
        let constant = if raw.data.start.is_null() {
            None
        } else {
            let data = owned_bytes(raw.data, ownership, "the data of a tensor")?;
            Some(Tensor::new(ty.clone(), data)?)
        };
        let prepared = if raw.prepared.start.is_null() {
            None
        } else {
            Some((
                text(raw.layout, "the layout of a prepared form")?,
                owned_bytes(raw.prepared, ownership, "the prepared form of a tensor")?,
            ))
        };
        let ranges = ranges(raw, ty.shape())?;
        Ok(ImportedTensor {
            ty,
            constant,
            prepared,
            ranges,
        })
    }
}

/// # Safety
/// `raw` is valid (see the module), and its rank is that of `shape`.
unsafe fn ranges(raw: &abi::Tensor, shape: &[usize]) -> Result<Option<OperandRanges>> {
    if raw.ranges.is_null() {
        return Ok(None);
    }
    // SAFETY: `ranges` is not null (checked above) and points to a value for each dimension (requirement).
    let extents = unsafe { array(raw.ranges, shape.len(), "the ranges of a tensor")? };
    let extents = extents.iter().map(|range| ExtentRange {
        min: range.min,
        max: range.max,
    });
    let extents: Vec<ExtentRange> = extents.collect();
    if let Some(range) = extents.iter().find(|range| range.min > range.max) {
        let error = invalid("a range of sizes ends before it starts");
        return Err(error.found(format_args!("{} to {}", range.min, range.max)));
    }
    Ok(Some(OperandRanges {
        extents,
        elements_vary: raw.elements_vary != 0,
    }))
}

/// A node converted from C.
pub(crate) struct ImportedNode {
    pub op: &'static OperatorDef,
    pub attributes: Attributes,
    pub inputs: Vec<Option<ImportedTensor>>,
    pub outputs: Vec<Option<ImportedTensor>>,
}

impl ImportedNode {
    /// The ranges of its operands, if there are any.
    pub fn ranges(&self) -> Option<NodeRanges> {
        let operands = |list: &[Option<ImportedTensor>]| -> Vec<Option<OperandRanges>> {
            let ranges = list.iter().map(|operand| operand.as_ref()?.ranges.clone());
            ranges.collect()
        };
        let ranges = NodeRanges {
            inputs: operands(&self.inputs),
            outputs: operands(&self.outputs),
        };
        let mut all = ranges.inputs.iter().chain(&ranges.outputs);
        all.any(Option::is_some).then_some(ranges)
    }
}

/// # Safety
/// `raw` is valid (see the module).
pub(crate) unsafe fn node(raw: &abi::Node, ownership: Ownership) -> Result<ImportedNode> {
    // SAFETY: `raw` is valid (requirement): its text and its lists of structs are null or of the
    // stated lengths.
    unsafe {
        let op = text(raw.op, "the operator of a node")?;
        let op = operator(&op).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("operator '{op}' is not known"))
        })?;
        let tensors = |start, count, what| -> Result<Vec<Option<ImportedTensor>>> {
            let all = list(start, count, what)?.into_iter();
            all.map(|raw| raw.map(|raw| tensor(&raw, ownership)).transpose())
                .collect()
        };
        Ok(ImportedNode {
            op,
            attributes: attributes(raw)?,
            inputs: tensors(raw.inputs, raw.input_count, "the inputs of a node")?,
            outputs: tensors(raw.outputs, raw.output_count, "the outputs of a node")?,
        })
    }
}

/// # Safety
/// `node` is valid (see the module).
pub(crate) unsafe fn attributes(node: &abi::Node) -> Result<Attributes> {
    // SAFETY: `node` is valid (requirement), so its list is null or has `attribute_count` valid
    // structs.
    unsafe {
        let all = records(
            node.attributes,
            node.attribute_count,
            "the attributes of a node",
        )?;
        all.iter().map(|raw| attribute(raw)).collect()
    }
}

/// # Safety
/// `raw` is valid (see the module).
unsafe fn attribute(raw: &abi::Attribute) -> Result<(String, Attribute)> {
    // SAFETY: `raw` is valid (requirement): its arrays are null or have `count` values, 1 for the
    // single kinds (checked before they are read), and `tensor` is null or a valid struct.
    unsafe {
        let name = text(raw.name, "the name of an attribute")?;
        let what = format!("attribute '{name}'");
        let single = matches!(
            raw.kind,
            abi::kind::INT | abi::kind::FLOAT | abi::kind::STRING
        );
        if single && raw.count != 1 {
            return Err(invalid(format!("{what} must have one value")).found(raw.count));
        }
        let texts = || -> Result<Vec<String>> {
            let all = array(raw.texts, raw.count, &what)?.iter();
            all.map(|&one| text(one, &what)).collect()
        };
        let value = match raw.kind {
            abi::kind::INT => Attribute::Int(array(raw.integers, 1, &what)?[0]),
            abi::kind::FLOAT => Attribute::Float(array(raw.floats, 1, &what)?[0]),
            abi::kind::STRING => Attribute::String(texts()?.swap_remove(0)),
            abi::kind::INTS => Attribute::Ints(array(raw.integers, raw.count, &what)?.to_vec()),
            abi::kind::FLOATS => Attribute::Floats(array(raw.floats, raw.count, &what)?.to_vec()),
            abi::kind::STRINGS => Attribute::Strings(texts()?),
            abi::kind::TENSOR => {
                let raw = structure(raw.tensor, &what)?;
                let constant = tensor(&raw, Ownership::Copy)?.constant;
                Attribute::Tensor(constant.ok_or_else(|| invalid(format!("{what} has no data")))?)
            }
            other => return Err(invalid(format!("{what} is of an unknown kind")).found(other)),
        };
        Ok((name, value))
    }
}
