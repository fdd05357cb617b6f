//! `tenon_model`: a loaded package.

use crate::arrays::type_code;
use crate::blob::{json, write_blob, write_handle};
use crate::compile::backend_setup;
use crate::outputs::{beyond, position};
use crate::status;
use crate::structs::{LoadOptions as GivenOptions, Port, options, sized};
use crate::task::control_of;
use crate::texts::c_text;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null;
use std::sync::Arc;
use tenon::neff::{Limits, Package};
use tenon::tensor::BufferMut;
use tenon::{Dimension, LoadOptions, Model, Result, Signature};
use tenon_c_callers::arguments::{self, write_output};
use tenon_c_callers::handles::{Handle, Handles};

static MODELS: Handles<Arc<LoadedModel>> = Handles::new(0x4d, "model");

/// A model with what C reads of it.
pub struct LoadedModel {
    pub model: Model,
    name: CString,
    inputs: Vec<PortTexts>,
    outputs: Vec<PortTexts>,
}

/// The texts and arrays of a port.
struct PortTexts {
    name: CString,
    extents: Vec<i64>,
    /// The texts to which the pointers lead.
    _symbols: Vec<Option<CString>>,
    pointers: Vec<*const c_char>,
    kind: i32,
    dtype: i32,
    bytes: u64,
}

// SAFETY: the pointers lead to texts of the value itself, which do not change.
unsafe impl Send for PortTexts {}
// SAFETY: as above.
unsafe impl Sync for PortTexts {}

impl PortTexts {
    fn new(port: &Signature) -> Self {
        let symbols: Vec<Option<CString>> = port
            .shape
            .iter()
            .map(|dimension| match dimension {
                Dimension::Fixed(_) => None,
                Dimension::Symbolic { expression, .. } => Some(c_text(expression)),
            })
            .collect();
        let extents = port.shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(extent) => *extent as i64,
            Dimension::Symbolic { .. } => -1,
        });
        let pointers = symbols
            .iter()
            .map(|text| text.as_ref().map_or(null(), |text| text.as_ptr()));
        let is_fixed = port.kind.is_tensor() && !port.is_symbolic();
        Self {
            name: c_text(&port.name),
            extents: extents.collect(),
            pointers: pointers.collect(),
            _symbols: symbols,
            kind: if port.kind.is_tensor() { 1 } else { 2 },
            dtype: type_code(port.ty.dtype()),
            bytes: if is_fixed { port.ty.bytes() as u64 } else { 0 },
        }
    }
}

/// The model of a handle.
pub fn model_of(handle: Handle) -> Result<Arc<LoadedModel>> {
    MODELS.find(handle)
}

/// Writes the handle of a model.
///
/// # Safety
/// `to` is null or valid for writing a handle.
pub unsafe fn write_model(to: *mut Handle, model: Model) -> Result<()> {
    let texts = |ports: &[Signature]| ports.iter().map(PortTexts::new).collect();
    let loaded = LoadedModel {
        name: c_text(model.name()),
        inputs: texts(model.inputs()),
        outputs: texts(model.outputs()),
        model,
    };
    // SAFETY: the condition of `write_handle` is this function's.
    unsafe { write_handle(to, "model", &MODELS, Arc::new(loaded)) }
}

/// The options of the caller.
///
/// # Safety
/// `from` is null or points to options, whose pointers are null or valid (header).
pub unsafe fn load_options(from: *const GivenOptions) -> Result<LoadOptions> {
    // SAFETY: the conditions of both are this function's.
    let (given, setup) = unsafe {
        let given = options(from, "options")?;
        let folder = given.backend_folder;
        let setup = backend_setup(folder, given.backend_options, given.backend_option_count)?;
        (given, setup)
    };
    let mut options = LoadOptions::new()
        .control(control_of(given.task)?)
        .check_digests(given.check_digests != 0);
    if given.threads > 0 {
        options = options.threads(given.threads as usize);
    }
    if given.max_in_flight > 0 {
        options = options.max_in_flight(given.max_in_flight as usize);
    }
    // The defaults of these may come from the environment.
    if given.nan_check != 0 {
        options = options.nan_check(true);
    }
    if given.native_nodes != 0 {
        options = options.native_nodes(true);
    }
    if let Some(setup) = setup {
        let (runtime, _) = setup.start_runtime(setup.load()?.registry);
        options = options.runtime(runtime);
    }
    Ok(options)
}

pub unsafe extern "C" fn model_load_file(
    path: *const c_char,
    options: *const GivenOptions,
    model: *mut Handle,
) -> Handle {
    // SAFETY: a text, options and a place for the handle, or null (header).
    status::of(|| unsafe {
        let path = arguments::path(path, "path")?;
        arguments::check(model, "model")?;
        write_model(model, Model::load_with(path, &load_options(options)?)?)
    })
}

pub unsafe extern "C" fn model_load_bytes(
    package: *const c_void,
    length: usize,
    options: *const GivenOptions,
    model: *mut Handle,
) -> Handle {
    // SAFETY: `length` bytes, options and a place for the handle, or null (header).
    status::of(|| unsafe {
        let bytes = arguments::slice(package.cast::<u8>(), length, "package")?;
        arguments::check(model, "model")?;
        let options = load_options(options)?;
        let bytes = BufferMut::copy_of(bytes)?.freeze();
        let package = Package::from_buffer(bytes, &Limits::default(), &options.control)?;
        write_model(model, Model::from_package(&package, &options)?)
    })
}

pub unsafe extern "C" fn model_name(model: Handle, name: *mut *const c_char) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(name, "name", loaded.name.as_ptr()) }
    })
}

pub unsafe extern "C" fn model_input_count(model: Handle, count: *mut usize) -> Handle {
    status::of(|| {
        let found = model_of(model)?.inputs.len();
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(count, "count", found) }
    })
}

pub unsafe extern "C" fn model_output_count(model: Handle, count: *mut usize) -> Handle {
    status::of(|| {
        let found = model_of(model)?.outputs.len();
        // SAFETY: null or valid for writing (header).
        unsafe { write_output(count, "count", found) }
    })
}

/// Fills a port of the caller, as far as its size covers.
///
/// # Safety
/// `to` is null or points to a port with its size.
unsafe fn write_port(ports: &[PortTexts], index: usize, list: &str, to: *mut Port) -> Result<()> {
    // SAFETY: the condition of `sized` is this function's.
    let size = unsafe { sized(to.cast_const(), "port")? }.size;
    let port = ports
        .get(index)
        .ok_or_else(|| beyond(list, ports.len(), index))?;
    let found = Port {
        size,
        name: port.name.as_ptr(),
        kind: port.kind,
        dtype: port.dtype,
        rank: port.extents.len() as u32,
        extents: port.extents.as_ptr(),
        symbols: port.pointers.as_ptr(),
        bytes: port.bytes,
    };
    // SAFETY: the port has `size` bytes (requirement), at least those of the first version (`sized`).
    unsafe { arguments::write_output_sized(to, "port", &found, size, 0) }.map(drop)
}

pub unsafe extern "C" fn model_input(model: Handle, index: usize, port: *mut Port) -> Handle {
    // SAFETY: null or a port with its size (header).
    status::of(|| unsafe { write_port(&model_of(model)?.inputs, index, "inputs", port) })
}

pub unsafe extern "C" fn model_output(model: Handle, index: usize, port: *mut Port) -> Handle {
    // SAFETY: null or a port with its size (header).
    status::of(|| unsafe { write_port(&model_of(model)?.outputs, index, "outputs", port) })
}

/// Writes the position of the port of a name.
///
/// # Safety
/// `name` is null or a text, `index` null or valid for writing.
unsafe fn find(
    ports: &[Signature],
    kind: &str,
    name: *const c_char,
    index: *mut usize,
) -> Result<()> {
    let names = ports.iter().map(|port| port.name.as_str());
    // SAFETY: the conditions of both are this function's.
    unsafe {
        let name = arguments::text(name, "name")?;
        write_output(index, "index", position(names, name, kind)?)
    }
}

pub unsafe extern "C" fn model_find_input(
    model: Handle,
    name: *const c_char,
    index: *mut usize,
) -> Handle {
    // SAFETY: null, a text, or valid for writing (header).
    status::of(|| unsafe { find(model_of(model)?.model.inputs(), "input", name, index) })
}

pub unsafe extern "C" fn model_find_output(
    model: Handle,
    name: *const c_char,
    index: *mut usize,
) -> Handle {
    // SAFETY: null, a text, or valid for writing (header).
    status::of(|| unsafe { find(model_of(model)?.model.outputs(), "output", name, index) })
}

pub unsafe extern "C" fn model_metadata(model: Handle, text: *mut Handle) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_blob(text, "json", json(loaded.model.metadata())?) }
    })
}

pub unsafe extern "C" fn model_placement(model: Handle, text: *mut Handle) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_blob(text, "json", json(loaded.model.placement())?) }
    })
}

pub extern "C" fn model_free(model: Handle) -> Handle {
    status::freed(&MODELS, model)
}
