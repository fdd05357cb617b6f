//! Kernels of shared libraries (`include/tenon/kernels.h`), which `tenon exec --shared_libs` loads.

#![allow(unsafe_code, reason = "functions of C libraries")]

use libloading::Library;
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::ptr;
use tenon_base::{Error, ErrorKind, Location, Result, expect_regular_file};
use tenon_bef::{Attribute, COST_ATTRIBUTE};
use tenon_executor::{Frame, Kernel, KernelDef, Signature, Site, Value};

/// The interface version (`TENON_KERNELS_VERSION`).
const VERSION: u64 = 1;

/// The exported symbol of a library.
const ENTRY: &[u8] = b"tenon_kernels";

/// The maximum number of kernels of a library, plus one.
const MAX_KERNELS: u64 = 1 << 16;

/// The size of the message buffer for a failing kernel.
const MESSAGE: usize = 512;

/// The value types (`tenon_kernel_value`).
const VALUES: [&str; 12] = [
    "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f32", "f64", CHAIN,
];

const CHAIN: &str = "!tfrt.chain";
const STRING: &str = "string";

/// `tenon_kernel_attribute`; a `tenon_kernel_value` is its bits.
#[repr(C)]
struct RawAttribute {
    value: u64,
    text: *const c_char,
    length: u64,
}

/// `tenon_kernel_call`.
#[repr(C)]
struct RawCall {
    size: usize,
    kernel: *const c_char,
    operands: *const u64,
    operand_count: u64,
    attributes: *const RawAttribute,
    attribute_count: u64,
    results: *mut u64,
    result_count: u64,
    message: *mut c_char,
    message_size: u64,
}

type RawFunction = unsafe extern "C" fn(*const RawCall) -> i32;

/// `tenon_kernel`.
#[repr(C)]
struct RawKernel {
    name: *const c_char,
    operands: *const c_char,
    results: *const c_char,
    attributes: *const c_char,
    function: Option<RawFunction>,
    documentation: *const c_char,
}

/// `tenon_kernel_library`.
#[repr(C)]
struct RawLibrary {
    version: u64,
    kernel_size: u64,
    kernels: *const RawKernel,
    kernel_count: u64,
}

// The layouts that C compilers give the header's structs where pointers have 8 bytes.
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawAttribute>() == 24);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawCall>() == 80);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawKernel>() == 48);
const _: () = assert!(size_of::<usize>() != 8 || size_of::<RawLibrary>() == 32);

/// The kernels of the shared library at `path`. Opening it runs its initialisers in this process;
/// it is never unloaded.
///
/// # Errors
/// A file that is no library for this machine, or one without `tenon_kernels`, of another version,
/// or with malformed kernels; all problems together.
pub fn shared_library(path: &Path) -> Result<Vec<KernelDef>> {
    let at = |error: Error| error.at(Location::file(path));
    expect_regular_file(path).map_err(|error| Error::io(path, "read", error))?;
    // SAFETY: opening runs the library's initialisers; loading its code is the documented effect of
    // this function, and the file is chosen by the user (`--shared_libs`).
    let library = unsafe { Library::new(path) }.map_err(|error| {
        let error = Error::new(ErrorKind::Unsupported, format!("cannot be opened: {error}"));
        at(error.help("give a shared library made for this machine"))
    })?;
    // SAFETY: `kernels.h` declares the symbol with this signature; a library that exports it
    // otherwise violates the interface.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const RawLibrary>(ENTRY) };
    let entry = *entry.map_err(|_| {
        let error = Error::new(ErrorKind::Unsupported, "no library of kernels");
        at(error.expected("a function tenon_kernels, see tenon/kernels.h"))
    })?;
    // SAFETY: the function takes no arguments, and its signature is that of `kernels.h`.
    let raw_library = unsafe { entry() };
    // Kernels and the data that they point to are used until the process ends.
    std::mem::forget(library);
    // SAFETY: `kernels.h` requires null or a pointer to a `tenon_kernel_library` that is valid and
    // unchanged while the library is loaded, which is until the process ends.
    let raw_library = unsafe { raw_library.as_ref() };
    let raw_library = raw_library.ok_or_else(|| at(wrong("tenon_kernels returned null")))?;
    kernels(raw_library).map_err(at)
}

/// Reads the kernels of a library. All fields are checked; only its pointers are trusted.
fn kernels(raw_library: &'static RawLibrary) -> Result<Vec<KernelDef>> {
    if raw_library.version != VERSION {
        let error = wrong("another version of tenon/kernels.h");
        return Err(error.expected(VERSION).found(raw_library.version));
    }
    let size = raw_library.kernel_size;
    if size < size_of::<RawKernel>() as u64 || !size.is_multiple_of(8) || size > 1 << 12 {
        let error = wrong("another size of tenon_kernel");
        return Err(error.expected(size_of::<RawKernel>()).found(size));
    }
    if raw_library.kernel_count > MAX_KERNELS
        || (raw_library.kernels.is_null() && raw_library.kernel_count > 0)
    {
        return Err(wrong("no list of kernels").found(raw_library.kernel_count));
    }
    let mut defs = Vec::new();
    let mut problems = Vec::new();
    for index in 0..raw_library.kernel_count {
        // SAFETY: `kernels` is not null (checked above); `kernels.h` requires `kernel_count`
        // structs at a stride of `kernel_size` bytes, which is at least the size of `RawKernel` and
        // a multiple of its alignment (checked above).
        let raw = unsafe { &*raw_library.kernels.byte_add((index * size) as usize) };
        match definition(raw) {
            Ok(def) => defs.push(def),
            Err(error) => problems.push(error.at(Location::node(format!("kernel {index}")))),
        }
    }
    Error::from_all(problems).map_or(Ok(defs), Err)
}

fn definition(raw: &'static RawKernel) -> Result<KernelDef> {
    let name = text(raw.name)?;
    if name.is_empty() {
        return Err(wrong("a kernel without a name"));
    }
    let at_kernel = |error: Error| error.at(Location::field(name));
    let function = raw
        .function
        .ok_or_else(|| at_kernel(wrong("no function")))?;
    let (operands, results) = (types(raw.operands, &[]), types(raw.results, &[]));
    let (operands, results) = (operands.map_err(at_kernel)?, results.map_err(at_kernel)?);
    let attributes = types(raw.attributes, &[STRING]).map_err(at_kernel)?;
    if attributes.contains(&CHAIN) {
        return Err(at_kernel(wrong("an attribute that is a chain")));
    }
    let signature = Signature {
        operands: operands.clone(),
        results: results.clone(),
        functions: Some(0),
        ..Signature::default()
    };
    // SAFETY: `name` is a NUL-terminated string (`text` above has read it); `kernels.h` requires it
    // to stay valid while the library is loaded.
    let kernel = unsafe { CStr::from_ptr(raw.name) };
    let bind = move |site: &Site<'_>| -> Result<Box<dyn Kernel>> {
        Ok(Box::new(LibraryKernel {
            kernel,
            function,
            operands: operands.clone(),
            results: results.clone(),
            attributes: read_attributes(site, &attributes)?,
        }))
    };
    Ok(KernelDef::new(name, signature, bind).doc(text(raw.documentation).map_err(at_kernel)?))
}

/// A string of the library; empty for null.
fn text(raw: *const c_char) -> Result<&'static str> {
    if raw.is_null() {
        return Ok("");
    }
    // SAFETY: the pointer is not null; `kernels.h` requires strings to be NUL-terminated and to
    // stay valid while the library is loaded.
    let text = unsafe { CStr::from_ptr(raw) };
    text.to_str().map_err(|_| wrong("a string is not UTF-8"))
}

/// A comma-separated list of types.
fn types(raw: *const c_char, more: &[&str]) -> Result<Vec<&'static str>> {
    let names = text(raw)?.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    let known = |name: &'static str| {
        if VALUES.contains(&name) || more.contains(&name) {
            Ok(name)
        } else {
            Err(wrong("an unknown type")
                .expected([&VALUES[..], more].concat().join(", "))
                .found(name))
        }
    };
    names.map(known).collect()
}

/// The attributes of the site, in the form of calls.
fn read_attributes(site: &Site<'_>, types: &[&str]) -> Result<Vec<(u64, Box<str>)>> {
    let given = site.attributes();
    let given: Vec<_> = given
        .iter()
        .filter(|(name, _)| *name != COST_ATTRIBUTE)
        .collect();
    if given.len() != types.len() {
        let error = Error::new(ErrorKind::InvalidProgram, "wrong number of attributes");
        return Err(error.expected(types.len()).found(given.len()));
    }
    let read = given.into_iter().zip(types).map(|((name, attribute), ty)| {
        bits_of_attribute(attribute)
            .filter(|_| attribute.kind() == *ty)
            .map(|bits| match attribute {
                Attribute::String(text) => (bits, text.as_str().into()),
                _ => (bits, Box::default()),
            })
            .ok_or_else(|| {
                let text = format!("attribute '{name}' has the wrong type");
                let error = Error::new(ErrorKind::InvalidProgram, text);
                error.expected(ty).found(attribute.kind())
            })
    });
    read.collect()
}

fn bits_of_attribute(attribute: &Attribute) -> Option<u64> {
    Some(match *attribute {
        Attribute::I1(value) => u64::from(value),
        Attribute::I8(value) => value as u64,
        Attribute::I16(value) => value as u64,
        Attribute::I32(value) => value as u64,
        Attribute::I64(value) => value as u64,
        Attribute::UI8(value) => value.into(),
        Attribute::UI16(value) => value.into(),
        Attribute::UI32(value) => value.into(),
        Attribute::UI64(value) => value,
        Attribute::F32(value) => value.to_bits().into(),
        Attribute::F64(value) => value.to_bits(),
        Attribute::String(_) => 0,
        _ => return None,
    })
}

fn bits_of(value: &Value) -> Option<u64> {
    Some(match *value {
        Value::I1(value) => u64::from(value),
        Value::I8(value) => value as u64,
        Value::I16(value) => value as u64,
        Value::I32(value) => value as u64,
        Value::I64(value) => value as u64,
        Value::UI8(value) => value.into(),
        Value::UI16(value) => value.into(),
        Value::UI32(value) => value.into(),
        Value::UI64(value) => value,
        Value::F32(value) => value.to_bits().into(),
        Value::F64(value) => value.to_bits(),
        Value::Chain => 0,
        _ => return None,
    })
}

/// Converts bits to a value of a type of [`VALUES`].
fn value_of(ty: &str, bits: u64) -> Value {
    match ty {
        "i1" => Value::I1(bits & 1 == 1),
        "i8" => Value::I8(bits as i8),
        "i16" => Value::I16(bits as i16),
        "i32" => Value::I32(bits as i32),
        "i64" => Value::I64(bits as i64),
        "ui8" => Value::UI8(bits as u8),
        "ui16" => Value::UI16(bits as u16),
        "ui32" => Value::UI32(bits as u32),
        "ui64" => Value::UI64(bits),
        "f32" => Value::F32(f32::from_bits(bits as u32)),
        "f64" => Value::F64(f64::from_bits(bits)),
        _ => Value::Chain,
    }
}

/// A kernel of a library, bound to its attributes.
struct LibraryKernel {
    kernel: &'static CStr,
    function: RawFunction,
    operands: Vec<&'static str>,
    results: Vec<&'static str>,
    attributes: Vec<(u64, Box<str>)>,
}

impl Kernel for LibraryKernel {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let mut operands = Vec::with_capacity(self.operands.len());
        for (index, ty) in self.operands.iter().enumerate() {
            let operand = frame.operand(index);
            let bits = bits_of(operand).filter(|_| operand.type_name() == *ty);
            operands.push(bits.ok_or_else(|| {
                let text = format!("wrong type of operand {index}");
                let error = Error::new(ErrorKind::InvalidProgram, text);
                error.expected(ty).found(operand.type_name())
            })?);
        }
        let mut results = vec![0; self.results.len()];
        self.call(&operands, &mut results)?;
        for (index, (ty, bits)) in self.results.iter().zip(results).enumerate() {
            frame.set(index, value_of(ty, bits));
        }
        Ok(())
    }
}

impl LibraryKernel {
    fn call(&self, operands: &[u64], results: &mut [u64]) -> Result<()> {
        let attributes = self.attributes.iter().map(|(value, text)| RawAttribute {
            value: *value,
            text: text.as_ptr().cast(),
            length: text.len() as u64,
        });
        let attributes: Vec<RawAttribute> = attributes.collect();
        let mut message = [0u8; MESSAGE];
        let call = RawCall {
            size: size_of::<RawCall>(),
            kernel: self.kernel.as_ptr(),
            operands: operands.as_ptr(),
            operand_count: operands.len() as u64,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as u64,
            results: results.as_mut_ptr(),
            result_count: results.len() as u64,
            message: message.as_mut_ptr().cast(),
            message_size: MESSAGE as u64,
        };
        // SAFETY: every pointer of `call` is to memory borrowed until the function returns, with
        // the length in the field after it; results and message are borrowed mutably. The function
        // follows `kernels.h`: it writes only these two, within their lengths.
        let status = unsafe { (self.function)(ptr::from_ref(&call)) };
        if status == 0 {
            return Ok(());
        }
        let text = message.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = match String::from_utf8_lossy(text).trim() {
            "" => format!("the kernel failed with {status}"),
            text => text.to_owned(),
        };
        Err(Error::new(ErrorKind::ExecutionFailed, text))
    }
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}
