//! What comes in over the border: checked and copied. Everything here reads memory of somebody
//! else, which is all that makes it unsafe: pointers and lengths are what the other side says.

use crate::{NamedValue, OptionDef, OptionScope, Reason, Refusal};
use std::ffi::c_void;
use std::ptr::NonNull;
use tenon_backend_abi as abi;
use tenon_backend_abi::{LayoutError, Outcome, Prefixed};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::OperatorDef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

/// Longest text, in bytes.
const LONGEST_TEXT: usize = 1 << 20;
/// Most elements of an array.
const LONGEST_ARRAY: usize = 1 << 24;
/// Most dimensions of a tensor.
const HIGHEST_RANK: u32 = 64;

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn misfit(what: &str, misfit: LayoutError) -> Error {
    invalid(format!("{what} {misfit}"))
}

/// # Safety
/// As for [`abi::read`].
pub(crate) unsafe fn structure<T: Prefixed>(start: *const T, what: &str) -> Result<T> {
    // SAFETY: the caller vouches.
    unsafe { abi::read(start) }.map_err(|found| misfit(what, found))
}

/// # Safety
/// When not null, `start` points to `count` values that nobody writes for `'a`.
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
            "{what}: {count} are told, but there are none"
        )));
    }
    if count > LONGEST_ARRAY {
        let error = invalid(format!("{what} are too many")).expected(LONGEST_ARRAY);
        return Err(error.found(count));
    }
    // SAFETY: not null and aligned, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// The structs of a list, `None` where it has a null pointer.
///
/// # Safety
/// As for [`array`] and [`structure`].
pub(crate) unsafe fn list<T: Prefixed>(
    start: abi::List<T>,
    count: usize,
    what: &str,
) -> Result<Vec<Option<T>>> {
    // SAFETY: the caller vouches.
    let pointers = unsafe { array(start, count, what)? };
    let mut all = Vec::with_capacity(count);
    for &pointer in pointers {
        all.push(match pointer.is_null() {
            true => None,
            // SAFETY: the caller vouches.
            false => Some(unsafe { structure(pointer, what)? }),
        });
    }
    Ok(all)
}

/// The structs of a list without gaps.
///
/// # Safety
/// As for [`list`].
pub(crate) unsafe fn records<T: Prefixed>(
    start: abi::List<T>,
    count: usize,
    what: &str,
) -> Result<Vec<T>> {
    // SAFETY: the caller vouches.
    let all = unsafe { list(start, count, what)? };
    all.into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| misfit(what, LayoutError::Null))
}

/// # Safety
/// When not null, the text is as long as it says.
pub(crate) unsafe fn text(text: abi::Text, what: &str) -> Result<String> {
    if text.length > LONGEST_TEXT {
        return Err(invalid(format!("{what} is too long a text")).found(text.length));
    }
    // SAFETY: the caller vouches.
    let bytes = unsafe { array(text.start, text.length, what)? };
    let text = std::str::from_utf8(bytes).map_err(|_| invalid(format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// # Safety
/// When not null, there are as many positions as it says.
pub(crate) unsafe fn ids(ids: abi::Ids, what: &str) -> Result<Vec<u32>> {
    // SAFETY: the caller vouches.
    unsafe { array(ids.start, ids.length, what) }.map(<[u32]>::to_vec)
}

/// # Safety
/// When not null, there are as many bytes as it says, which nobody writes for `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: abi::Bytes, what: &str) -> Result<&'a [u8]> {
    let (start, length) = (bytes.start.cast::<u8>(), bytes.length);
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() || length > isize::MAX as usize {
        return Err(invalid(format!(
            "{what}: {length} bytes are told, but there are none"
        )));
    }
    // SAFETY: not null, not beyond what memory can be, and the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// What becomes of bytes that are needed longer than a call.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// They are copied.
    Copy,
    /// The host keeps them alive.
    Retain(abi::Host),
}

/// Gives back what the host keeps alive.
struct Retained {
    token: *mut c_void,
    forget: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the host takes tokens back on any thread (header, "Threads").
unsafe impl Send for Retained {}
// SAFETY: nothing is done with a shared one.
unsafe impl Sync for Retained {}

impl Drop for Retained {
    fn drop(&mut self) {
        // SAFETY: a token of this host, given back once.
        unsafe { (self.forget)(self.token) }
    }
}

/// # Safety
/// As for [`bytes`], and `owner` is the host's where it is not null.
unsafe fn kept_bytes(told: abi::Bytes, keep: Keep, what: &str) -> Result<Buffer> {
    // SAFETY: the caller vouches.
    let slice = unsafe { bytes(told, what)? };
    let host = match keep {
        Keep::Retain(host) if !told.owner.is_null() && !slice.is_empty() => host,
        _ => return Ok(BufferMut::copy_of(slice)?.freeze()),
    };
    let (Some(retain), Some(forget)) = (host.retain, host.forget) else {
        return Ok(BufferMut::copy_of(slice)?.freeze());
    };
    // SAFETY: the caller vouches that the owner is the host's.
    let token = unsafe { retain(told.owner) };
    if token.is_null() {
        return Ok(BufferMut::copy_of(slice)?.freeze());
    }
    let keeper = Retained { token, forget };
    // SAFETY: the host keeps the bytes until the token is given back.
    Ok(unsafe { Buffer::from_owner(NonNull::from(slice).cast(), slice.len(), keeper) })
}

/// A failure, copied.
struct Told {
    status: i32,
    reason: i32,
    index: i64,
    found: i64,
    name: String,
    text: String,
}

/// Copies a failure and gives it back to its maker; `None` when all went well.
///
/// # Safety
/// `outcome` is what a function of the interface answered.
unsafe fn told(outcome: Outcome) -> Result<Option<Told>> {
    if outcome.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches; texts are valid until the release.
    unsafe {
        let failure = structure(outcome, "a failure")?;
        let name = text(failure.name, "the name in a failure");
        let text = text(failure.text, "the text of a failure");
        if let Some(release) = failure.release {
            release(outcome);
        }
        Ok(Some(Told {
            status: failure.status,
            reason: failure.reason,
            index: failure.index,
            found: failure.found,
            name: name?,
            text: text?,
        }))
    }
}

/// An outcome as a result; `who` stands before the text.
///
/// # Safety
/// `outcome` is what a function of the interface answered.
pub(crate) unsafe fn error_of(outcome: Outcome, who: &str) -> Result<()> {
    // SAFETY: the caller vouches.
    let told = unsafe { told(outcome) }.map_err(|error| invalid(format!("{who}: {error}")))?;
    let Some(told) = told else { return Ok(()) };
    let kind = match told.status {
        abi::status::UNSUPPORTED | abi::status::UNAVAILABLE => ErrorKind::Unsupported,
        abi::status::INVALID => ErrorKind::InvalidArgument,
        abi::status::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        abi::status::STOPPED => ErrorKind::Cancelled,
        _ => ErrorKind::ExecutionFailed,
    };
    Err(Error::new(
        kind,
        format!("{who}: {}", or_silence(told.text)),
    ))
}

/// The outcome of asking for support.
///
/// # Safety
/// `outcome` is what a function of the interface answered.
pub(crate) unsafe fn refusal_of(outcome: Outcome, op: &'static OperatorDef) -> Result<(), Refusal> {
    let other = |text: String| Refusal::from(Reason::Other { text });
    // SAFETY: the caller vouches.
    let told = unsafe { told(outcome) }.map_err(|error| other(error.to_string()))?;
    let Some(told) = told else { return Ok(()) };
    let index = usize::try_from(told.index).unwrap_or(usize::MAX);
    let dtype = i32::try_from(told.found).ok().and_then(super::dtype_of);
    let attribute = op.attribute(&told.name);
    let reason = match (told.reason, dtype, attribute) {
        (abi::reason::UNKNOWN_OPERATOR, ..) => Reason::UnknownOperator,
        (abi::reason::INPUT_TYPE, Some(found), _) => Reason::InputType {
            input: index,
            found,
        },
        (abi::reason::INPUT_RANK, ..) => Reason::InputRank {
            input: index,
            found: usize::try_from(told.found).unwrap_or(usize::MAX),
        },
        (abi::reason::ATTRIBUTE_VALUE, _, Some(row)) => Reason::AttributeValue {
            attribute: row.name,
            found: told.text,
        },
        (abi::reason::NOT_CONSTANT, ..) => Reason::NotConstant { input: index },
        _ => Reason::Other {
            text: or_silence(told.text),
        },
    };
    Err(reason.into())
}

fn or_silence(text: String) -> String {
    if text.is_empty() {
        "it does not say why".into()
    } else {
        text
    }
}

/// # Safety
/// Its texts are as long as they say.
pub(crate) unsafe fn named_value(told: &abi::NamedValue) -> Result<(String, NamedValue)> {
    // SAFETY: the caller vouches.
    let name = unsafe { text(told.name, "the name of a value")? };
    let value = match told.kind {
        abi::value::BOOL => NamedValue::Bool(told.integer != 0),
        abi::value::INT => NamedValue::Int(told.integer),
        abi::value::UNSIGNED => NamedValue::Unsigned(told.integer as u64),
        abi::value::FLOAT => NamedValue::Float(told.number),
        abi::value::STRING => {
            // SAFETY: the caller vouches.
            NamedValue::String(unsafe { text(told.text, "the text of a value")? }.into())
        }
        other => {
            let error = invalid(format!("the value '{name}' is of an unknown kind"));
            return Err(error.found(other));
        }
    };
    Ok((name, value))
}

/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn option(told: &abi::BackendOption) -> Result<OptionDef> {
    // SAFETY: the caller vouches.
    let (value, doc) = unsafe {
        let value = structure(told.value, "the value of an option")?;
        (
            named_value(&value)?,
            text(told.doc, "the text of an option")?,
        )
    };
    let (name, default) = value;
    let scope = match told.scope {
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

/// A tensor that came in.
pub(crate) struct TensorIn {
    pub ty: TensorType,
    pub constant: Option<Tensor>,
    pub prepared: Option<(String, Buffer)>,
}

/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn tensor(told: &abi::Tensor, keep: Keep) -> Result<TensorIn> {
    let dtype = super::dtype_of(told.dtype)
        .ok_or_else(|| invalid("a tensor of an unknown type").found(told.dtype))?;
    if told.rank > HIGHEST_RANK {
        return Err(invalid("a tensor of too many dimensions").found(told.rank));
    }
    // SAFETY: the caller vouches.
    let extents = unsafe { array(told.extents, told.rank as usize, "the extents of a tensor")? };
    let extents = extents.iter().map(|&extent| usize::try_from(extent));
    let extents: Vec<usize> = extents
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("a tensor is larger than memory can be"))?;
    let ty = TensorType::new(dtype, extents)?;
    // SAFETY: the caller vouches.
    unsafe {
        let constant = if told.data.start.is_null() {
            None
        } else {
            let data = kept_bytes(told.data, keep, "the data of a tensor")?;
            Some(Tensor::new(ty.clone(), data)?)
        };
        let prepared = if told.prepared.start.is_null() {
            None
        } else {
            Some((
                text(told.layout, "the layout of a prepared form")?,
                kept_bytes(told.prepared, keep, "the prepared form of a tensor")?,
            ))
        };
        Ok(TensorIn {
            ty,
            constant,
            prepared,
        })
    }
}

/// A node that came in.
pub(crate) struct NodeIn {
    pub op: &'static OperatorDef,
    pub attributes: Attributes,
    pub inputs: Vec<Option<TensorIn>>,
    pub outputs: Vec<Option<TensorIn>>,
}

/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn node(told: &abi::Node, keep: Keep) -> Result<NodeIn> {
    // SAFETY: the caller vouches.
    unsafe {
        let op = text(told.op, "the operator of a node")?;
        let op = operator(&op).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("operator '{op}' is not known"))
        })?;
        let tensors = |start, count, what| -> Result<Vec<Option<TensorIn>>> {
            let all = list(start, count, what)?.into_iter();
            all.map(|told| told.map(|told| tensor(&told, keep)).transpose())
                .collect()
        };
        Ok(NodeIn {
            op,
            attributes: attributes(told)?,
            inputs: tensors(told.inputs, told.input_count, "the inputs of a node")?,
            outputs: tensors(told.outputs, told.output_count, "the outputs of a node")?,
        })
    }
}

/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn attributes(node: &abi::Node) -> Result<Attributes> {
    // SAFETY: the caller vouches.
    unsafe {
        let all = records(
            node.attributes,
            node.attribute_count,
            "the attributes of a node",
        )?;
        all.iter().map(|told| attribute(told)).collect()
    }
}

/// # Safety
/// What it points to is as the header says.
unsafe fn attribute(told: &abi::Attribute) -> Result<(String, Attribute)> {
    // SAFETY: the caller vouches.
    unsafe {
        let name = text(told.name, "the name of an attribute")?;
        let what = format!("attribute '{name}'");
        let single = matches!(
            told.kind,
            abi::kind::INT | abi::kind::FLOAT | abi::kind::STRING
        );
        if single && told.count != 1 {
            return Err(invalid(format!("{what} has not one value")).found(told.count));
        }
        let texts = || -> Result<Vec<String>> {
            let all = array(told.texts, told.count, &what)?.iter();
            all.map(|&one| text(one, &what)).collect()
        };
        let value = match told.kind {
            abi::kind::INT => Attribute::Int(array(told.integers, 1, &what)?[0]),
            abi::kind::FLOAT => Attribute::Float(array(told.floats, 1, &what)?[0]),
            abi::kind::STRING => Attribute::String(texts()?.swap_remove(0)),
            abi::kind::INTS => Attribute::Ints(array(told.integers, told.count, &what)?.to_vec()),
            abi::kind::FLOATS => Attribute::Floats(array(told.floats, told.count, &what)?.to_vec()),
            abi::kind::STRINGS => Attribute::Strings(texts()?),
            abi::kind::TENSOR => {
                let told = structure(told.tensor, &what)?;
                let constant = tensor(&told, Keep::Copy)?.constant;
                Attribute::Tensor(constant.ok_or_else(|| invalid(format!("{what} has no data")))?)
            }
            other => return Err(invalid(format!("{what} is of an unknown kind")).found(other)),
        };
        Ok((name, value))
    }
}
