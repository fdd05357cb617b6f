//! Loading, querying and unloading models.

use crate::allocations::CallerAllocations;
use crate::call::{entry, log};
use crate::data_types::Numbering;
use crate::handles::{Handle, Handles, table};
use crate::layout::{ModelInfo, NAME_BYTES, TensorInfo, TensorInfoArray};
use crate::process::{self, process};
use crate::trace::{self, Kind};
use crate::{call, collectives};
use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use tenon_base::{Control, Error, Result};
use tenon_c_callers::arguments::{
    check, fill_text, invalid, path, slice, write_output, write_output_sized,
};
use tenon_neff::{Limits, Package};
use tenon_runtime::{Component, CoreLoad, CoreModel, CorePort, LoadOptions};
use tenon_tensor::BufferMut;

/// Every model.
pub(crate) static MODELS: Handles<Arc<CoreModel>> = table(0x4d, "model");

/// Lists of inputs and outputs owned by callers.
static INFOS: CallerAllocations = CallerAllocations::new("list of tensors");

/// The model of a handle.
#[inline]
pub(crate) fn model(handle: *const c_void) -> Result<Arc<CoreModel>> {
    process::check()?;
    MODELS.find(handle)
}

/// Waits until no execution of a model is in flight.
pub(crate) fn wait_until_idle(model: &Arc<CoreModel>) {
    let mut patience = Duration::from_micros(10);
    while Arc::strong_count(model) > 1 {
        std::thread::sleep(patience);
        patience = (patience * 2).min(Duration::from_millis(5));
    }
}

entry! {
    fn nrt_load(
        neff_bytes: *const c_void, size: usize, vnc: i32, vnc_count: i32, model: *mut Handle,
    ) {
        process::check()?;
        check(model, "model")?;
        // SAFETY: `neff_bytes` has `size` readable bytes (header).
        let loaded = unsafe { load_bytes("nrt_load", neff_bytes, size, vnc, vnc_count)? };
        // SAFETY: `model` is null or writable (header).
        unsafe { write_output(model, "model", loaded) }
    }

    fn nrt_load_collectives(
        neff_bytes: *const c_void, size: usize, vnc: i32, vnc_count: i32, ctx_device_id: u32,
        ctx_device_count: u32, model: *mut Handle,
    ) {
        process::check()?;
        check(model, "model")?;
        collectives::check_world(ctx_device_id, ctx_device_count)?;
        // SAFETY: `model` is null or writable (header).
        unsafe {
            let name = "nrt_load_collectives";
            let loaded = load_bytes(name, neff_bytes, size, vnc, vnc_count)?;
            write_output(model, "model", loaded)
        }
    }

    fn tenon_nrt_load_file(file: *const c_char, vnc: i32, vnc_count: i32, model: *mut Handle) {
        process::check()?;
        check(model, "model")?;
        // SAFETY: `file` is null or NUL-terminated; `model` is null or writable (header).
        unsafe {
            let package = Package::open(path(file, "file")?, &Control::new())?;
            let loaded = load("tenon_nrt_load_file", &package, vnc, vnc_count)?;
            write_output(model, "model", loaded)
        }
    }

    fn nrt_unload(model: *mut c_void) {
        process::check()?;
        let model = MODELS.remove(model)?;
        wait_until_idle(&model);
        let (id, name) = (model.id(), model.model().name().to_owned());
        let core = model.group().cores()[0].index();
        let result = |(): &()| (core, id, name.as_str().into(), 0);
        trace::timed(Kind::Unload, result, || {
            drop(model);
            Ok(())
        })?;
        log().info(Component::Nmgr, "nrt_unload", format_args!("model {id} ('{name}')"));
        Ok(())
    }

    fn nrt_get_model_vnc_count(model: *const c_void, vnc_count: *mut u32) {
        let count = self::model(model)?.core_count();
        // SAFETY: `vnc_count` is null or writable (header).
        unsafe { write_output(vnc_count, "vnc_count", count) }
    }

    fn nrt_get_model_nc_count(model: *const c_void, nc_count: *mut u32) {
        let count = self::model(model)?.core_count();
        // SAFETY: `nc_count` is null or writable (header).
        unsafe { write_output(nc_count, "nc_count", count) }
    }

    fn nrt_get_model_instance_count(model: *mut c_void, instance_count: *mut u32) {
        let count = self::model(model)?.copies();
        // SAFETY: `instance_count` is null or writable (header).
        unsafe { write_output(instance_count, "instance_count", count) }
    }

    fn nrt_get_model_info(
        model: *const c_void, info: *mut ModelInfo, info_size_in: usize, info_size_out: *mut usize,
    ) {
        let model = self::model(model)?;
        let result = ModelInfo { vnc: model.group().cores()[0].index() };
        // SAFETY: `info` has `info_size_in` writable bytes, `info_size_out` is null or writable
        // (header).
        unsafe {
            let size = write_output_sized(info, "info", &result, info_size_in, 4)?;
            write_output(info_size_out, "info_size_out", size)
        }
    }

    fn nrt_get_model_tensor_info(model: *mut c_void, tensor_info: *mut *mut TensorInfoArray) {
        let model = self::model(model)?;
        check(tensor_info, "tensor_info")?;
        let list = tensor_infos(&model, Numbering::of_caller())?;
        // SAFETY: `tensor_info` is null or writable (header).
        unsafe { write_output(tensor_info, "tensor_info", list) }
    }

    fn tenon_nrt_get_model_tensor_info_old_dtypes(
        model: *mut c_void, tensor_info: *mut *mut TensorInfoArray,
    ) {
        let model = self::model(model)?;
        check(tensor_info, "tensor_info")?;
        let list = tensor_infos(&model, Numbering::Old)?;
        // SAFETY: `tensor_info` is null or writable (header).
        unsafe { write_output(tensor_info, "tensor_info", list) }
    }

    fn nrt_free_model_tensor_info(tensor_info: *mut TensorInfoArray) {
        if !tensor_info.is_null() {
            INFOS.unregister(tensor_info)?;
            // SAFETY: `tensor_infos` allocated it by one `malloc`; it was registered until now, so it
            // is freed once.
            unsafe { libc::free(tensor_info.cast()) };
        }
        Ok(())
    }
}

/// # Safety
/// `start` is null or has `size` readable bytes.
unsafe fn load_bytes(
    function: &'static str,
    start: *const c_void,
    size: usize,
    vnc: i32,
    vnc_count: i32,
) -> Result<Handle> {
    // SAFETY: `start` is null or has `size` readable bytes by this function's condition.
    let bytes = unsafe { slice(start.cast::<u8>(), size, "neff_bytes")? };
    // Copied, since the caller may free its bytes after the call.
    let bytes = BufferMut::copy_of(bytes)?.freeze();
    let package = Package::from_buffer(bytes, &Limits::default(), &Control::new())?;
    load(function, &package, vnc, vnc_count)
}

fn load(function: &'static str, package: &Package, vnc: i32, vnc_count: i32) -> Result<Handle> {
    let process = process()?;
    let at = |number: i32, name: &str| match number {
        -1 => Ok(None),
        number => u32::try_from(number).map(Some).map_err(|_| {
            invalid(format!("{name} is neither a number nor -1 for any")).found(number)
        }),
    };
    if flag("NEURON_RT_VALIDATE_HASH")? {
        package.verify_hash(&Control::new())?;
    }
    let request = CoreLoad {
        start: at(vnc, "vnc")?,
        count: at(vnc_count, "vnc_count")?,
        timeout: Some(timeout()?),
        options: LoadOptions {
            stochastic_rounding: rounding_seed()?,
            ..LoadOptions::default()
        },
    };
    let first = |model: &CoreModel| model.group().cores()[0].index();
    let bytes = package.header().data_size;
    let model = trace::timed(
        Kind::Load,
        |model: &CoreModel| (first(model), model.id(), model.model().name().into(), bytes),
        || CoreModel::load(&process.runtime, &process.cores, package, &request),
    )?;
    let first = first(&model);
    call::log().info(
        Component::Nmgr,
        function,
        format_args!(
            "model {} ('{}') on {} cores from {first} on",
            model.id(),
            model.model().name(),
            model.core_count()
        ),
    );
    for substitution in model.model().substitutions() {
        call::log().warning(Component::Nmgr, function, format_args!("{substitution}"));
    }
    if let Some(warning) = model.ambiguity() {
        call::log().warning(Component::Nmgr, function, format_args!("{warning}"));
    }
    let handle = MODELS.insert(Arc::new(model))?;
    // `nrt_close` may have run meanwhile and would not remove the handle.
    if let Err(error) = process::check() {
        MODELS.remove(handle)?;
        return Err(error);
    }
    Ok(handle)
}

/// The time limit of an execution: `NEURON_RT_EXEC_TIMEOUT` in seconds.
fn timeout() -> Result<Duration> {
    const NAME: &str = "NEURON_RT_EXEC_TIMEOUT";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(Duration::from_secs(600));
    };
    let seconds = text
        .trim()
        .parse()
        .ok()
        .filter(|&seconds: &u64| seconds > 0);
    let seconds = seconds.ok_or_else(|| {
        invalid(format!("{NAME} is not a number of seconds"))
            .expected("an integer of at least 1")
            .found(format_args!("'{text}'"))
    })?;
    Ok(Duration::from_secs(seconds.min(u64::from(u32::MAX))))
}

/// The seed of stochastic rounding if `NEURON_RT_STOCHASTIC_ROUNDING_EN` is set.
fn rounding_seed() -> Result<Option<u64>> {
    const NAME: &str = "NEURON_RT_STOCHASTIC_ROUNDING_SEED";
    if !flag("NEURON_RT_STOCHASTIC_ROUNDING_EN")? {
        return Ok(None);
    }
    let Ok(text) = std::env::var(NAME) else {
        return Ok(Some(0));
    };
    let seed = text.trim().parse().map_err(|_| {
        invalid(format!("{NAME} is not a number"))
            .expected("a non-negative integer")
            .found(format_args!("'{text}'"))
    })?;
    Ok(Some(seed))
}

/// The value of a Boolean environment variable.
pub(crate) fn flag(name: &str) -> Result<bool> {
    let text = std::env::var(name).unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "" | "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(invalid(format!("{name} is neither true nor false"))
            .expected("true, false, 1 or 0")
            .found(format_args!("'{text}'"))),
    }
}

/// The list of inputs and outputs in one allocation of `malloc`: the infos, then their shapes.
fn tensor_infos(model: &CoreModel, numbering: Numbering) -> Result<*mut TensorInfoArray> {
    let ports = || {
        let inputs = model.inputs().iter().map(|port| (port, 0));
        inputs.chain(model.outputs().iter().map(|port| (port, 1)))
    };
    let count = ports().count();
    let extents: usize = ports()
        .map(|(port, _)| port.signature.ty.shape().len())
        .sum();
    let infos_at = offset_of!(TensorInfoArray, tensor_array);
    let shapes_at = infos_at + count * size_of::<TensorInfo>();
    let bytes = shapes_at + extents * size_of::<u32>();
    // SAFETY: the allocation has `bytes` bytes: the count, `count` infos at `infos_at` and `extents`
    // extents at `shapes_at`, in which all writes stay; `malloc` aligns it for the structs, and both
    // offsets are multiples of their alignments.
    unsafe {
        let start = libc::malloc(bytes).cast::<u8>();
        if start.is_null() {
            let text = format!("cannot allocate {bytes} bytes");
            return Err(Error::new(tenon_base::ErrorKind::OutOfMemory, text));
        }
        start.cast::<u64>().write(count as u64);
        let infos = start.add(infos_at).cast::<TensorInfo>();
        let mut shape = start.add(shapes_at).cast::<u32>();
        for (index, (port, usage)) in ports().enumerate() {
            infos.add(index).write(info(port, usage, numbering, shape));
            for &extent in port.signature.ty.shape().iter() {
                shape.write(u32::try_from(extent).unwrap_or(u32::MAX));
                shape = shape.add(1);
            }
        }
        INFOS.register(start, 0);
        Ok(start.cast())
    }
}

fn info(port: &CorePort, usage: u32, numbering: Numbering, shape: *mut u32) -> TensorInfo {
    let ty = &port.signature.ty;
    TensorInfo {
        name: fill_text::<NAME_BYTES>(&port.name),
        usage,
        size: ty.bytes(),
        dtype: numbering.number(ty.dtype()),
        shape,
        ndim: ty.shape().len() as u32,
    }
}
