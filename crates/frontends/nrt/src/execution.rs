//! Executing models in the caller's thread or in queues.

use crate::call::entry;
use crate::debug_stream::{self, StreamTap};
use crate::models::model;
use crate::process::{self, process};
use crate::tensor_sets::{HandleSet, set};
use crate::trace::{self, ExecutionSink};
use crate::{asynchronous, failed_inputs};
use std::ffi::{c_char, c_int, c_void};
use tenon_base::Result;
use tenon_base::trace::TraceSink;
use tenon_c_callers::arguments::{check, invalid, read_input, text, write_output};
use tenon_runtime::{CoreModel, ExecuteOptions, Tap};

/// Executes a model, or queues the execution if the process is configured so.
fn execute(
    model_handle: *const c_void,
    inputs: *const c_void,
    outputs: *const c_void,
    count: u32,
) -> Result<()> {
    let model = model(model_handle)?;
    let (inputs, outputs) = (set(inputs)?, set(outputs)?);
    if asynchronous::is_on() {
        return asynchronous::put(&*process()?, model, inputs, outputs, count);
    }
    run(&model, &inputs, &outputs, count)
}

/// Executes a model in this thread, with traces and debug streams if there are any.
pub(crate) fn run(
    model: &CoreModel,
    inputs: &HandleSet,
    outputs: &HandleSet,
    count: u32,
) -> Result<()> {
    let done = if trace::is_active() || debug_stream::is_active() {
        run_observed(model, inputs, outputs, count)
    } else {
        model.execute_repeatedly(
            &inputs.tensors,
            &outputs.tensors,
            count,
            ExecuteOptions::default(),
        )
    };
    if let Err(error) = &done {
        failed_inputs::dump(model, inputs, error);
    }
    done
}

/// The shape of an output of an execution on these inputs.
fn output_shape(model: &CoreModel, inputs: &HandleSet, name: &str) -> Result<Vec<u32>> {
    let mut ports = model.outputs().iter();
    let position = ports.position(|port| port.name == name || port.signature.name == name);
    let types = model.output_types(&inputs.tensors)?;
    let ty = position.and_then(|position| types.get(position));
    let ty = ty.ok_or_else(|| {
        let names: Vec<&str> = model.outputs().iter().map(|port| &*port.name).collect();
        invalid(format!("the model has no output '{name}'")).expected(names.join(", "))
    })?;
    let extents = ty.shape().iter();
    Ok(extents
        .map(|&extent| u32::try_from(extent).unwrap_or(u32::MAX))
        .collect())
}

#[cold]
fn run_observed(
    model: &CoreModel,
    inputs: &HandleSet,
    outputs: &HandleSet,
    count: u32,
) -> Result<()> {
    let (is_traced, is_streamed) = (trace::is_active(), debug_stream::is_active());
    let core = model.group().cores()[0].index();
    let sink = ExecutionSink::new(core, model.id());
    let tap = StreamTap { core };
    let options = ExecuteOptions {
        trace: is_traced.then_some(&sink as &dyn TraceSink),
        tap: is_streamed.then_some(&tap as &dyn Tap),
        ..ExecuteOptions::default()
    };
    let done = model.execute_repeatedly(&inputs.tensors, &outputs.tensors, count, options);
    if is_traced {
        sink.finish(model.model().name(), &done);
    }
    done
}

entry! {
    fn nrt_execute(model: *mut c_void, input_set: *const c_void, output_set: *mut c_void) {
        execute(model, input_set, output_set, 1)
    }

    fn nrt_execute_repeat(
        model: *mut c_void, input_set: *const c_void, output_set: *mut c_void, repeat_count: c_int,
    ) {
        process::check()?;
        let count = u32::try_from(repeat_count).ok().filter(|&count| count > 0);
        let count = count.ok_or_else(|| {
            invalid("repeat_count must be positive").expected("1 or more").found(repeat_count)
        })?;
        execute(model, input_set, output_set, count)
    }

    fn tenon_nrt_get_output_shape(
        model: *const c_void, input_set: *const c_void, output_name: *const c_char, shape: *mut u32,
        ndim: *mut u32,
    ) {
        let model = self::model(model)?;
        let inputs = set(input_set)?;
        // SAFETY: `output_name` is null or NUL-terminated, `ndim` is null or readable (header).
        let (name, capacity) =
            unsafe { (text(output_name, "output_name")?, *read_input(ndim, "ndim")?) };
        let extents = output_shape(&model, &inputs, name)?;
        let count = extents.len() as u32;
        // SAFETY: `ndim` is writable (header).
        unsafe { write_output(ndim, "ndim", count)? };
        if capacity < count {
            return Err(invalid("shape is too short").expected(count).found(capacity));
        }
        if count > 0 {
            check(shape, "shape")?;
        }
        for (index, extent) in extents.into_iter().enumerate() {
            // SAFETY: `shape` is not null and aligned by `check`; it has `capacity` writable elements
            // (header), which are at least `count`.
            unsafe { shape.add(index).write(extent) };
        }
        Ok(())
    }
}
