//! Executions on arrays of the caller.

use crate::arrays::{all_in_order, by_name, inputs};
use crate::blob::{json, write_blob};
use crate::model::model_of;
use crate::outputs::write_outputs;
use crate::status;
use crate::structs::Array;
use crate::task::control_of;
use std::ptr::NonNull;
use tenon::machine::{Ceiling, threads};
use tenon::tensor::dlpack::{DlpackTensor, VersionedTensor};
use tenon::{Error, ErrorKind, Model, Result, RunOptions, Signature, Tensor, TensorType};
use tenon_c_callers::arguments::{self, check, invalid};
use tenon_c_callers::handles::Handle;

pub unsafe extern "C" fn model_run(
    model: Handle,
    arrays: *const Array,
    count: usize,
    control: Handle,
    outputs: *mut Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        let options = RunOptions::new().control(control_of(control)?);
        check(outputs, "outputs")?;
        // SAFETY: null or `count` arrays (header).
        let inputs = unsafe { inputs(loaded.model.inputs(), arrays, count)? };
        let found = loaded.model.run_with(&by_name(&inputs), options)?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_outputs(outputs, "outputs", found.named()) }
    })
}

/// Checks that the outputs of a call are those of the model.
fn check_outputs(ports: &[Signature], types: &[(TensorType, *mut u8)]) -> Result<()> {
    let wrong = ports
        .iter()
        .zip(types)
        .filter(|(port, (ty, _))| port.ty != *ty);
    let errors = wrong.map(|(port, (ty, _))| {
        let error = invalid(format!("output '{}' is of another type", port.name));
        error.expected(&port.ty).found(ty)
    });
    Error::from_all(errors).map_or(Ok(()), Err)
}

/// Checks that no output overlaps an input or another output.
fn check_overlap(
    inputs: &[(TensorType, *mut u8)],
    outputs: &[(TensorType, *mut u8)],
) -> Result<()> {
    let range = |(ty, start): &(TensorType, *mut u8)| start.addr()..start.addr() + ty.bytes();
    for (at, output) in outputs.iter().enumerate() {
        let own = range(output);
        let mut others = inputs.iter().chain(&outputs[..at]).map(range);
        if others.any(|other| own.start < other.end && other.start < own.end) {
            let text = format!("outputs[{at}] overlaps an input or another output");
            return Err(invalid(text));
        }
    }
    Ok(())
}

pub unsafe extern "C" fn model_execute(
    model: Handle,
    input_arrays: *const Array,
    input_count: usize,
    output_arrays: *mut Array,
    output_count: usize,
    control: Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        let options = RunOptions::new().control(control_of(control)?);
        let (ports, results) = (loaded.model.inputs(), loaded.model.outputs());
        // SAFETY: null or `count` arrays (header).
        let (inputs, outputs) = unsafe {
            let inputs = all_in_order(ports, input_arrays, input_count, "inputs")?;
            let outputs = all_in_order(results, output_arrays, output_count, "outputs")?;
            (inputs, outputs)
        };
        let types: Vec<(&str, &TensorType)> = ports
            .iter()
            .zip(&inputs)
            .map(|(port, (ty, _))| (port.name.as_str(), ty))
            .collect();
        let model = sized_model(&loaded.model, &types)?;
        check_outputs(model.outputs(), &outputs)?;
        check_overlap(&inputs, &outputs)?;
        // SAFETY: `all_in_order` has checked that the addresses are not null and the sizes those of the arrays, which are
        // valid during the call (header); outputs do not overlap (checked above), and the caller uses none of the memory.
        let (inputs, mut outputs): (Vec<&[u8]>, Vec<&mut [u8]>) = unsafe {
            let inputs = inputs.iter().map(|(ty, start)| bytes(*start, ty.bytes()));
            let outputs = outputs
                .iter()
                .map(|(ty, start)| bytes_mut(*start, ty.bytes()));
            (inputs.collect(), outputs.collect())
        };
        model.execute_with(&inputs, &mut outputs, options)
    })
}

/// The model for inputs of these types.
fn sized_model(model: &Model, types: &[(&str, &TensorType)]) -> Result<Model> {
    match model.symbols().is_empty() {
        true => Ok(model.clone()),
        false => model.at_inputs(types, &[]),
    }
}

/// # Safety
/// `start` points to `len` bytes that are not written for `'a`, unless there are none.
unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: `len` bytes (requirement).
        _ => unsafe { std::slice::from_raw_parts(start, len) },
    }
}

/// # Safety
/// `start` points to `len` bytes that only the result accesses for `'a`, unless there are none.
unsafe fn bytes_mut<'a>(start: *mut u8, len: usize) -> &'a mut [u8] {
    match len {
        0 => &mut [],
        // SAFETY: `len` bytes (requirement).
        _ => unsafe { std::slice::from_raw_parts_mut(start, len) },
    }
}

pub unsafe extern "C" fn model_run_dlpack(
    model: Handle,
    input_tensors: *const *mut VersionedTensor,
    input_count: usize,
    control: Handle,
    output_tensors: *mut *mut VersionedTensor,
    output_count: usize,
) -> Handle {
    status::of(|| {
        // All are taken over first, so that each failure below releases them.
        // SAFETY: null or `input_count` tensors, of which the caller gives up each (header).
        let taken: Vec<Option<DlpackTensor>> = unsafe {
            let tensors = arguments::slice(input_tensors, input_count, "inputs")?.iter();
            let take = |tensor: &*mut VersionedTensor| {
                NonNull::new(*tensor).map(|tensor| DlpackTensor::from_versioned(tensor))
            };
            tensors.map(take).collect()
        };
        let loaded = model_of(model)?;
        let options = RunOptions::new().control(control_of(control)?);
        let (ports, results) = (loaded.model.inputs(), loaded.model.outputs());
        let expect = |list: &str, expected: usize, found: usize| {
            let error = invalid(format!("{list} are not those of the model"));
            match expected == found {
                true => Ok(()),
                false => Err(error.expected(expected).found(found)),
            }
        };
        expect("inputs", ports.len(), input_count)?;
        expect("outputs", results.len(), output_count)?;
        // SAFETY: null or `output_count` places for pointers (header).
        let places = unsafe { arguments::slice_mut(output_tensors, output_count, "outputs")? };
        let inputs: Vec<(String, Tensor)> = ports
            .iter()
            .zip(taken)
            .map(|(port, tensor)| {
                let null = || invalid(format!("input '{}' is NULL", port.name));
                // SAFETY: the caller has given up the tensor, whose elements nothing writes during the call (header).
                let tensor = unsafe { tensor.ok_or_else(null)?.into_tensor()? };
                Ok((port.name.clone(), tensor))
            })
            .collect::<Result<_>>()?;
        let found = loaded.model.run_with(&by_name(&inputs), options)?;
        let made: Result<Vec<DlpackTensor>> = found.iter().map(Tensor::to_dlpack).collect();
        for (place, tensor) in places.iter_mut().zip(made?) {
            let other = |_| Error::new(ErrorKind::Internal, "a tensor of DLPack before version 1");
            *place = tensor.into_versioned().map_err(other)?.as_ptr();
        }
        Ok(())
    })
}

pub unsafe extern "C" fn model_profile(
    model: Handle,
    arrays: *const Array,
    count: usize,
    runs: usize,
    measure_peaks: i32,
    control: Handle,
    text: *mut Handle,
) -> Handle {
    status::of(|| {
        let loaded = model_of(model)?;
        let control = control_of(control)?;
        // SAFETY: null or `count` arrays (header).
        let inputs = unsafe { inputs(loaded.model.inputs(), arrays, count)? };
        let inputs = by_name(&inputs);
        let types: Vec<(&str, &TensorType)> = inputs
            .iter()
            .map(|(name, tensor)| (*name, tensor.ty()))
            .collect();
        let model = sized_model(&loaded.model, &types)?;
        let mut profile = model.profile();
        for _ in 0..runs.max(1) {
            let options = RunOptions::new().control(control.clone());
            model.run_with(&inputs, options.profile(&mut profile))?;
        }
        let ceiling = (measure_peaks != 0).then(|| Ceiling::measure(threads()));
        let report = tenon::profile::json(&profile, ceiling.as_ref());
        // SAFETY: null or valid for writing (header).
        unsafe { write_blob(text, "json", json(&report)?) }
    })
}
