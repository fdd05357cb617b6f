//! Streams of a backend that works asynchronously: workloads and copies as commands, events between two streams.

#![allow(unsafe_code, reason = "memory of commands that are still to run")]

use crate::report::Report;
use crate::samples::{Sample, samples};
use crate::workloads::{expected, is_supported_variable, same};
use tenon_backend::{
    Backend, Operands, RawOperand, Stream, TensorHandle, Workload, preferred_factory,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{BufferMut, Tensor, TensorType};

const COMMANDS: &str = "commands of a stream";
const EVENTS: &str = "events of streams";

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    let streams = match (backend.stream(None), backend.stream(None)) {
        (Ok(Some(first)), Ok(Some(second))) => [first, second],
        (Ok(None), _) => return report.skipped(COMMANDS, "workloads are done when they return"),
        (Err(error), _) | (_, Err(error)) => return report.failed(COMMANDS, error.to_string()),
        (_, Ok(None)) => return report.failed(COMMANDS, "only the first stream is created"),
    };
    let mut streams = streams;
    let supported = samples().into_iter();
    let supported: Vec<Sample> = supported
        .filter(|sample| is_supported_variable(backend, sample))
        .collect();
    let mut all = |name, streams: &mut [Box<dyn Stream>]| {
        let mut problems = Vec::new();
        for sample in &supported {
            let workload = backend.workload(&sample.spec(false));
            let done =
                workload.and_then(|workload| on_streams(backend, sample, &*workload, streams));
            if let Err(error) = done {
                problems.push(format!("{}: {error}", sample.name));
            }
        }
        report.problems(name, supported.len(), &problems);
    };
    all(COMMANDS, &mut streams[..1]);
    let kinds = streams
        .each_ref()
        .map(|stream| stream.event_kind().to_owned());
    if !kinds[0].is_empty() && kinds[0] == kinds[1] {
        all(EVENTS, &mut streams);
    } else if kinds[0] == kinds[1] {
        report.skipped(EVENTS, "the streams have no events");
    } else {
        report.failed(EVENTS, "two streams have different kinds of events");
    }
    if let Err(error) = streams[0].finish() {
        report.failed(COMMANDS, format!("finishing without commands: {error}"));
    }
}

/// A tensor in memory of the backend.
fn tensor(backend: &dyn Backend, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
    let factories = backend.handle_factories();
    let factory = preferred_factory(&factories).ok_or_else(|| {
        let text = "streams require memory that can be copied";
        Error::new(ErrorKind::InvalidArgument, text)
    })?;
    backend.tensor_handle(&factory.id, ty)
}

/// Executes a sample by commands, its parts timed if it has some: all of one stream, or copies in the first one and the
/// workload, after an event, in the second one.
pub(crate) fn on_streams(
    backend: &dyn Backend,
    sample: &Sample,
    workload: &dyn Workload,
    streams: &mut [Box<dyn Stream>],
) -> Result<()> {
    let tensors = |types: &mut dyn Iterator<Item = &TensorType>| {
        types
            .map(|ty| tensor(backend, ty))
            .collect::<Result<Vec<_>>>()
    };
    let mut inputs = tensors(&mut sample.inputs.iter().map(Tensor::ty))?;
    let outputs = tensors(&mut sample.outputs.iter())?;
    let results = sample
        .outputs
        .iter()
        .map(|ty| BufferMut::zeroed(ty.bytes()));
    let mut results = results.collect::<Result<Vec<_>>>()?;
    let mut event = None;
    let mut enqueue = || -> Result<()> {
        let [first, others @ ..] = &mut *streams else {
            return Ok(());
        };
        for (handle, input) in inputs.iter_mut().zip(&sample.inputs) {
            // SAFETY: the sample is borrowed and not written; the streams are finished before `on_streams` returns.
            unsafe { handle.enqueue_in(&mut **first, input.bytes())? };
        }
        let target = match others {
            [] => first,
            [second, ..] => {
                let event = event.insert(first.record()?);
                // SAFETY: the event is dropped after the streams are finished.
                unsafe { second.wait(&**event)? };
                second
            }
        };
        let types = sample.inputs.iter().map(Tensor::ty);
        let read = inputs.iter().zip(types);
        let read: Vec<_> = read
            .map(|(handle, ty)| RawOperand::new(handle.start(), ty.bytes()))
            .collect();
        let written = outputs.iter().zip(&sample.outputs);
        let written: Vec<_> = written
            .map(|(handle, ty)| RawOperand::new(handle.start(), ty.bytes()))
            .collect();
        // SAFETY: the tensors are dropped after the streams are finished, and only these commands access them.
        let mut operands = unsafe { Operands::enqueued(&read, &written, &mut **target) };
        operands.set_timed(!workload.parts().is_empty());
        workload.execute(&mut operands)?;
        for (handle, result) in outputs.iter().zip(&mut results) {
            // SAFETY: the buffer is accessed only after the streams are finished.
            unsafe { handle.enqueue_out(&mut **target, &raw mut **result)? };
        }
        Ok(())
    };
    let mut done = enqueue();
    // Also after an error: commands access the memory until then.
    for stream in streams {
        done = done.and(stream.finish());
    }
    done?;
    let found = results.into_iter().zip(&sample.outputs);
    let found = found.map(|(bytes, ty)| Tensor::new(ty.clone(), bytes.freeze()).map(Some));
    same(
        backend,
        &expected(sample)?,
        &found.collect::<Result<Vec<_>>>()?,
    )
}
