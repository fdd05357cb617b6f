//! `tenon_bindings`: memory of inputs and outputs that executions use in place.

use crate::arrays::type_code;
use crate::blob::write_handle;
use crate::model::model_of;
use crate::outputs::beyond;
use crate::status;
use crate::structs::{Array, Extent};
use crate::task::control_of;
use crate::texts::c_text;
use std::ffi::CString;
use std::sync::{Arc, Mutex};
use tenon::tensor::SharedMemory;
use tenon::{Error, ErrorKind, Model, Result, RunOptions, Signature};
use tenon_c_callers::arguments::{slice, text, write_output};
use tenon_c_callers::handles::{Handle, Handles};

static BINDINGS: Handles<Arc<Bindings>> = Handles::new(0x49, "bindings");

/// A model of fixed sizes with memory for its ports.
struct Bindings {
    model: Model,
    inputs: Vec<BoundPort>,
    outputs: Vec<BoundPort>,
    /// Held by the thread that executes.
    execution: Mutex<()>,
}

/// The memory of a port, and what C reads of it.
struct BoundPort {
    name: CString,
    dtype: i32,
    extents: Vec<i64>,
    memory: Arc<SharedMemory>,
}

impl BoundPort {
    fn new(port: &Signature) -> Result<Self> {
        if !port.kind.is_tensor() || port.is_symbolic() || port.ty.dtype().bits() == 0 {
            let text = format!("'{}' has no memory of a fixed size", port.name);
            let error = Error::new(ErrorKind::InvalidArgument, text).found(port);
            return Err(error.help("use model_run, or give model_bind the sizes"));
        }
        Ok(Self {
            name: c_text(&port.name),
            dtype: type_code(port.ty.dtype()),
            extents: port
                .ty
                .shape()
                .iter()
                .map(|&extent| extent as i64)
                .collect(),
            memory: SharedMemory::zeroed(port.ty.bytes())?,
        })
    }

    fn array(&self) -> Array {
        Array {
            name: self.name.as_ptr(),
            dtype: self.dtype,
            rank: self.extents.len() as u32,
            extents: self.extents.as_ptr(),
            data: self.memory.start().cast(),
            bytes: self.memory.len(),
        }
    }
}

pub unsafe extern "C" fn model_bind(
    model: Handle,
    extents: *const Extent,
    count: usize,
    bindings: *mut Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        // SAFETY: null or `count` extents, whose names are null or texts (header).
        let sizes: Vec<(&str, u64)> = unsafe {
            let extents = slice(extents, count, "extents")?.iter();
            let size = |size: &Extent| Ok((text(size.symbol, "extent.symbol")?, size.extent));
            extents.map(size).collect::<Result<_>>()?
        };
        let model = match sizes.is_empty() && loaded.model.symbols().is_empty() {
            true => loaded.model.clone(),
            false => loaded.model.at(&sizes)?,
        };
        let bound =
            |ports: &[Signature]| ports.iter().map(BoundPort::new).collect::<Result<Vec<_>>>();
        let made = Bindings {
            inputs: bound(model.inputs())?,
            outputs: bound(model.outputs())?,
            model,
            execution: Mutex::new(()),
        };
        // SAFETY: null or valid for writing (header).
        unsafe { write_handle(bindings, "bindings", &BINDINGS, Arc::new(made)) }
    })
}

/// Writes the array of a port.
///
/// # Safety
/// `array` is null or valid for writing.
unsafe fn write_array(
    ports: &[BoundPort],
    list: &str,
    index: usize,
    array: *mut Array,
) -> Result<()> {
    let port = ports
        .get(index)
        .ok_or_else(|| beyond(list, ports.len(), index))?;
    // SAFETY: the condition of `write_output` is this function's.
    unsafe { write_output(array, "array", port.array()) }
}

pub unsafe extern "C" fn bindings_input(
    bindings: Handle,
    index: usize,
    array: *mut Array,
) -> Handle {
    // SAFETY: null or valid for writing (header).
    status::of(|| unsafe { write_array(&BINDINGS.find(bindings)?.inputs, "inputs", index, array) })
}

pub unsafe extern "C" fn bindings_output(
    bindings: Handle,
    index: usize,
    array: *mut Array,
) -> Handle {
    // SAFETY: null or valid for writing (header).
    status::of(|| unsafe {
        write_array(&BINDINGS.find(bindings)?.outputs, "outputs", index, array)
    })
}

pub extern "C" fn bindings_run(bindings: Handle, control: Handle) -> Handle {
    status::of(|| {
        let bindings = BINDINGS.find(bindings)?;
        let options = RunOptions::new().control(control_of(control)?);
        let Ok(_execution) = bindings.execution.try_lock() else {
            let error = Error::new(ErrorKind::Usage, "another thread executes these bindings");
            return Err(error.help("each thread needs its own model_bind"));
        };
        let inputs: Vec<_> = bindings
            .inputs
            .iter()
            .map(|input| input.memory.buffer())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
        let memory = bindings.outputs.iter().map(|output| &output.memory);
        // SAFETY: the memory is of these bindings alone, distinct for each port, and this thread holds their lock.
        let mut outputs: Vec<&mut [u8]> =
            memory.map(|memory| unsafe { memory.bytes_mut() }).collect();
        bindings.model.execute_with(&inputs, &mut outputs, options)
    })
}

pub extern "C" fn bindings_free(bindings: Handle) -> Handle {
    status::freed(&BINDINGS, bindings)
}
