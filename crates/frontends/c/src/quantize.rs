//! Quantising ONNX models.

use crate::blob::write_blob;
use crate::compile::compiler;
use crate::structs::{QuantizeOptions, options};
use crate::task::control_of;
use crate::texts::texts;
use crate::{arrays, status};
use std::ffi::{c_char, c_void};
use tenon::quantize::{Calibration, QuantizedModel, Quantizer, Scheme, split_samples};
use tenon::{LoadOptions, OnnxModel, OpenOptions, Pattern, Result};
use tenon_c_callers::arguments::{self, invalid};
use tenon_c_callers::handles::Handle;

/// The value of an option, or its default where it is zero.
fn or<T: PartialEq + Default>(given: T, default: T) -> T {
    if given == T::default() {
        default
    } else {
        given
    }
}

/// The scheme of the options.
fn scheme(given: &QuantizeOptions) -> Result<Scheme> {
    match given.bits {
        0 | 8 => Ok(Scheme::Int8),
        4 => {
            let block = usize::try_from(or(given.block_size, 32));
            let too_large = |_| invalid("options.block_size is beyond the address space");
            Ok(Scheme::Int4 {
                block: block.map_err(too_large)?,
            })
        }
        16 => Ok(Scheme::F16),
        other => {
            let error = invalid("options.bits is no supported number of bits");
            Err(error.expected("8, 4 or 16").found(other))
        }
    }
}

fn calibration(given: &QuantizeOptions) -> Result<Calibration> {
    match given.calibration {
        0 => Ok(Calibration::MinMax),
        1 => Ok(Calibration::Percentile(or(given.percentile, 99.99))),
        2 => Ok(Calibration::Entropy),
        other => {
            let error = invalid("options.calibration is no tenon_calibration");
            Err(error.expected("0, 1 or 2").found(other))
        }
    }
}

/// Quantises a model with the options of the caller.
///
/// # Safety
/// `from` is null or points to options, whose pointers are null or valid (header).
unsafe fn quantize(
    open: impl FnOnce(&OpenOptions) -> Result<OnnxModel>,
    from: *const QuantizeOptions,
) -> Result<QuantizedModel> {
    // SAFETY: the conditions of all are this function's.
    let (given, control, compiler, arrays, excluded, labels) = unsafe {
        let given = options(from, "options")?;
        let compiling = options(given.compiling, "options.compiling")?;
        let labels: &[i64] = arguments::slice(given.labels, given.label_count, "labels")?;
        (
            given,
            control_of(compiling.task)?,
            compiler(given.compiling)?,
            arrays::named(given.samples, given.sample_count, "samples")?,
            texts(given.excluded, given.excluded_count, "excluded")?,
            labels.to_vec(),
        )
    };
    let onnx = open(&compiler.open_options())?;
    let mut quantizer = Quantizer::new(scheme(&given)?)
        .calibration(calibration(&given)?)
        .max_node_error(or(given.max_node_error, 0.1))
        .compiler(compiler.clone())
        .control(control.clone());
    for pattern in excluded {
        quantizer = quantizer.exclude(Pattern::new(pattern));
    }
    if !labels.is_empty() {
        quantizer = quantizer.labels(labels);
    }
    let samples = match arrays.is_empty() {
        true => Vec::new(),
        false => {
            let package = compiler.compile_model(&onnx)?;
            split_samples(arrays, &package.load(&LoadOptions::new().control(control))?)?
        }
    };
    quantizer.quantize(&onnx, &samples)
}

/// Checks the places of both handles before the work; that of the report may be null.
fn check_places(model: *mut Handle, report: *mut Handle) -> Result<()> {
    arguments::check(model, "model")?;
    match report.is_null() {
        true => Ok(()),
        false => arguments::check(report, "report"),
    }
}

/// Writes the handles of the quantised model and of its report.
///
/// # Safety
/// Both are null or valid for writing a handle.
unsafe fn write(model: *mut Handle, report: *mut Handle, quantized: &QuantizedModel) -> Result<()> {
    let bytes = quantized.to_bytes()?;
    // SAFETY: the conditions of both are this function's.
    unsafe {
        write_blob(model, "model", bytes)?;
        if report.is_null() {
            return Ok(());
        }
        write_blob(report, "report", quantized.report().json().to_string())
    }
}

pub unsafe extern "C" fn quantize_file(
    onnx: *const c_char,
    options: *const QuantizeOptions,
    model: *mut Handle,
    report: *mut Handle,
) -> Handle {
    // SAFETY: a text, options and places for the handles, or null (header).
    status::of(|| unsafe {
        let path = arguments::path(onnx, "onnx")?;
        check_places(model, report)?;
        let quantized = quantize(|opening| opening.open_model(path), options)?;
        write(model, report, &quantized)
    })
}

pub unsafe extern "C" fn quantize_bytes(
    onnx: *const c_void,
    length: usize,
    options: *const QuantizeOptions,
    model: *mut Handle,
    report: *mut Handle,
) -> Handle {
    // SAFETY: `length` bytes, options and places for the handles, or null (header).
    status::of(|| unsafe {
        let bytes = arguments::slice(onnx.cast::<u8>(), length, "onnx")?.to_vec();
        check_places(model, report)?;
        let quantized = quantize(|opening| opening.model_from_bytes(bytes), options)?;
        write(model, report, &quantized)
    })
}
