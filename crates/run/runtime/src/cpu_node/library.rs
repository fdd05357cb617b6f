//! Libraries of CPU nodes: opened from memory, and called through the C interface
//! `include/tenon/cpu_node.h`.

#![allow(unsafe_code, reason = "functions of C libraries")]

use libloading::os::unix::{Library as System, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::{CStr, CString, c_char, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The size of the message buffer for a failing function.
const MESSAGE: usize = 512;

/// `tenon_cpu_node_tensor` of `include/tenon/cpu_node.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawTensor {
    name: *const c_char,
    dtype: *const c_char,
    shape: *const u64,
    rank: u64,
    data: *mut c_void,
    bytes: u64,
}

/// `tenon_cpu_node_attribute` of `include/tenon/cpu_node.h`.
#[repr(C)]
struct RawAttribute {
    name: *const c_char,
    kind: *const c_char,
    values: *const c_void,
    count: u64,
}

/// `tenon_cpu_node_call` of `include/tenon/cpu_node.h`.
#[repr(C)]
struct RawCall {
    size: usize,
    node: *const c_char,
    inputs: *const RawTensor,
    input_count: u64,
    outputs: *const RawTensor,
    output_count: u64,
    message: *mut c_char,
    message_size: u64,
    attributes: *const RawAttribute,
    attribute_count: u64,
}

type RawFunction = unsafe extern "C" fn(*const RawCall) -> i32;

// The layouts that C compilers give the header's structs where pointers have 8 bytes.
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawTensor>() == 48);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawCall>() == 80);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawAttribute>() == 32);

/// An open library; closed with its last function.
#[derive(Clone)]
pub(super) struct Library(Arc<System>);

impl Library {
    /// Opens the library of these bytes through an anonymous file (memfd).
    pub fn open(bytes: &[u8]) -> Result<Self> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Unsupported,
                format!("cannot {what} the library: {error}"),
            )
        };
        let file = memfd_create("tenon-cpu-node", MemfdFlags::CLOEXEC)
            .map_err(|error| failed("copy", &error))?;
        let mut file = File::from(file);
        file.write_all(bytes)
            .map_err(|error| failed("copy", &error))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: opening runs the library's initialisers, which are native code of the package:
        // the caller opens libraries only if `native_nodes` allows it. `check_whole` has checked
        // that mapped segments are inside the file.
        let library = unsafe { System::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        match library {
            Ok(library) => Ok(Self(Arc::new(library))),
            Err(error) => {
                let error = failed("open", &error);
                Err(error.help("it must be a shared library made for this machine"))
            }
        }
    }

    /// The function of a symbol.
    pub fn function(&self, symbol: &str) -> Result<Function> {
        // SAFETY: the package declares that the symbol has the signature of `cpu_node.h`; the
        // caller trusts it by allowing native nodes.
        let found = unsafe { self.0.get::<RawFunction>(symbol.as_bytes()) };
        match found {
            Ok(function) => Ok(Function {
                raw: *function,
                _library: self.clone(),
            }),
            Err(_) => Err(Error::new(
                ErrorKind::NotFound,
                format!("the library has no function '{symbol}'"),
            )),
        }
    }
}

/// A function of a library.
pub(super) struct Function {
    raw: RawFunction,
    /// Keeps the library open.
    _library: Library,
}

/// The C data of a tensor, without its memory, which is passed with each call.
pub(super) struct TensorDescription<'a> {
    pub name: &'a CStr,
    pub dtype: &'a CStr,
    pub shape: &'a [u64],
}

/// The C data of an attribute.
pub(super) struct AttributeDescription {
    pub name: CString,
    pub values: Values,
}

/// The values of an attribute: one or a list.
pub(super) enum Values {
    Float(f32),
    Int(i64),
    String(CString),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Strings(Vec<CString>),
}

impl AttributeDescription {
    /// The C struct, which borrows `self`; `texts` are the pointers to its strings.
    fn raw(&self, texts: &[*const c_char]) -> RawAttribute {
        let (kind, values, count) = match &self.values {
            Values::Float(value) => (c"float", std::ptr::from_ref(value).cast(), 1),
            Values::Int(value) => (c"int", std::ptr::from_ref(value).cast(), 1),
            Values::String(_) => (c"string", texts.as_ptr().cast(), 1),
            Values::Floats(values) => (c"floats", values.as_ptr().cast(), values.len()),
            Values::Ints(values) => (c"ints", values.as_ptr().cast(), values.len()),
            Values::Strings(values) => (c"strings", texts.as_ptr().cast(), values.len()),
        };
        RawAttribute {
            name: self.name.as_ptr(),
            kind: kind.as_ptr(),
            values,
            count: count as u64,
        }
    }

    /// Pointers to its strings.
    fn texts(&self) -> Vec<*const c_char> {
        match &self.values {
            Values::String(text) => vec![text.as_ptr()],
            Values::Strings(texts) => texts.iter().map(|text| text.as_ptr()).collect(),
            _ => Vec::new(),
        }
    }
}

impl Function {
    /// Calls the function; each tensor comes with its memory.
    pub fn call<'a>(
        &self,
        node: &CStr,
        attributes: &[AttributeDescription],
        inputs: impl Iterator<Item = (TensorDescription<'a>, &'a [u8])>,
        outputs: impl Iterator<Item = (TensorDescription<'a>, &'a mut [u8])>,
    ) -> Result<()> {
        // cpu_node.h declares the memory of inputs as read-only.
        let inputs: Vec<RawTensor> = inputs
            .map(|(form, bytes)| raw(&form, bytes.as_ptr().cast_mut(), bytes.len()))
            .collect();
        let outputs: Vec<RawTensor> = outputs
            .map(|(form, bytes)| raw(&form, bytes.as_mut_ptr(), bytes.len()))
            .collect();
        let texts: Vec<Vec<*const c_char>> =
            attributes.iter().map(AttributeDescription::texts).collect();
        let attributes = attributes.iter().zip(&texts);
        let attributes: Vec<RawAttribute> =
            attributes.map(|(form, texts)| form.raw(texts)).collect();
        let mut message = [0 as c_char; MESSAGE];
        let call = RawCall {
            size: size_of::<RawCall>(),
            node: node.as_ptr(),
            inputs: inputs.as_ptr(),
            input_count: inputs.len() as u64,
            outputs: outputs.as_ptr(),
            output_count: outputs.len() as u64,
            message: message.as_mut_ptr(),
            message_size: MESSAGE as u64,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as u64,
        };
        // SAFETY: every pointer of `call` is to memory borrowed until the function returns, with
        // the length in the field after it; outputs and message are borrowed mutably. The function
        // must follow `cpu_node.h`; the caller trusts the package by allowing native nodes.
        let status = unsafe { (self.raw)(&call) };
        if status == 0 {
            return Ok(());
        }
        message[MESSAGE - 1] = 0;
        let text: Vec<u8> = message
            .iter()
            .map(|&byte| byte as u8)
            .take_while(|&byte| byte != 0)
            .collect();
        let text = match String::from_utf8_lossy(&text).trim() {
            "" => "no message".to_owned(),
            text => text.to_owned(),
        };
        Err(Error::new(
            ErrorKind::ExecutionFailed,
            format!("the CPU function failed with {status}: {text}"),
        ))
    }
}

fn raw(form: &TensorDescription<'_>, data: *mut u8, bytes: usize) -> RawTensor {
    RawTensor {
        name: form.name.as_ptr(),
        dtype: form.dtype.as_ptr(),
        shape: form.shape.as_ptr(),
        rank: form.shape.len() as u64,
        data: data.cast(),
        bytes: bytes as u64,
    }
}
