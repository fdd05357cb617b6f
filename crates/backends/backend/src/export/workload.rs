//! Workloads of an exported backend, with their parts.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::backend::run;
use super::objects::{ExportedObject, drop_outcome, release};
use super::stream::with_stream;
use crate::marshal::{invalid, structure};
use crate::{Operands, RawOperand, Workload};
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::stop::{self, StopToken};
use tenon_base::{Error, ErrorKind, Result};

/// A workload, and the structs of its parts.
struct ExportedWorkload {
    workload: Box<dyn Workload>,
    /// The names of nodes of each part.
    _nodes: Vec<Box<[abi::Text]>>,
    _parts: Box<[abi::Part]>,
    list: Box<[*const abi::Part]>,
}

pub(super) fn exported_workload(workload: Box<dyn Workload>) -> *const abi::Workload {
    // The parts are constant data of the workload, on the heap.
    let parts = workload.parts();
    let nodes: Vec<Box<[_]>> = parts
        .iter()
        .map(|part| part.nodes.iter().map(|node| abi::Text::of(node)).collect())
        .collect();
    let structs: Box<[_]> = parts
        .iter()
        .zip(&nodes)
        .map(|(part, nodes)| abi::Part {
            size: size_of::<abi::Part>(),
            name: abi::Text::of(&part.name),
            node_count: nodes.len(),
            nodes: nodes.as_ptr(),
        })
        .collect();
    let state = ExportedWorkload {
        list: structs.iter().map(|one| &raw const *one).collect(),
        _parts: structs,
        _nodes: nodes,
        workload,
    };
    let table = abi::Workload {
        size: size_of::<abi::Workload>(),
        execute: Some(execute),
        reads: Some(reads),
        release: Some(release::<abi::Workload, ExportedWorkload>),
        part_count: state.list.len(),
        parts: state.list.as_ptr(),
        part_times: Some(part_times),
    };
    ExportedObject::table(table, state)
}

unsafe extern "C" fn part_times(
    this: *const abi::Workload,
    stream: *const abi::Stream,
    nanoseconds: *mut u64,
) -> Outcome {
    run(|| {
        if nanoseconds.is_null() {
            return Err(invalid("the array of times is null"));
        }
        // SAFETY: `exported_workload` created `this`, and `exported_stream` the stream if there is one; the host has
        // released neither. `nanoseconds` is not null (checked above) and valid for one value per part (header).
        unsafe {
            let state = ExportedObject::<_, ExportedWorkload>::state(this);
            let times = std::slice::from_raw_parts_mut(nanoseconds, state.list.len());
            match stream.is_null() {
                true => state.workload.part_times(None, times),
                false => with_stream(stream, |stream| {
                    state.workload.part_times(Some(stream), times)
                }),
            }
        }
    })
}

unsafe extern "C" fn execute(this: *const abi::Workload, raw: *const abi::Operands) -> Outcome {
    run(|| {
        // SAFETY: `exported_workload` created `this`, which is not released; `raw` is a valid
        // struct with arrays of the stated lengths. The header requires of operands what
        // `Operands::new` does, and `RawOperand` has the layout of `tenon_operand`.
        unsafe {
            let workload = &ExportedObject::<_, ExportedWorkload>::state(this).workload;
            let raw = structure(raw, "operands")?;
            let timed = raw.timed != 0;
            let operands = |start: *const abi::Operand, count| match count {
                0 => &[][..],
                _ => std::slice::from_raw_parts(start.cast::<RawOperand>(), count),
            };
            let scratch = RawOperand::new(raw.scratch.start.cast(), raw.scratch.length);
            let mut operands = Operands::new(
                operands(raw.inputs, raw.input_count),
                operands(raw.outputs, raw.output_count),
                scratch,
            );
            operands.set_timed(timed);
            if !raw.stream.is_null() {
                let (inputs, outputs, _) = operands.raw();
                return with_stream(raw.stream, |stream| {
                    let mut operands = Operands::enqueued(inputs, outputs, stream);
                    operands.set_timed(timed);
                    workload.execute(&mut operands)
                });
            }
            if raw.control.is_null() {
                return workload.execute(&mut operands);
            }
            let control = HostControl::new(raw.control)?;
            stop::with_token(&control, || workload.execute(&mut operands))
        }
    })
}

/// The control of the host as a stop token.
pub(super) struct HostControl {
    table: abi::Control,
    this: *const abi::Control,
}

impl HostControl {
    /// # Safety
    /// `this` is null or a control that is valid as long as the value.
    pub unsafe fn new(this: *const abi::Control) -> Result<Self> {
        // SAFETY: `this` is null or a valid struct (requirement).
        let table = unsafe { structure(this, "a control")? };
        Ok(Self { table, this })
    }
}

// SAFETY: the function of a control may be called from any thread (header), and the table is not
// written.
unsafe impl Sync for HostControl {}

impl StopToken for HostControl {
    /// Checking is a call into the host: it is rate-limited like reads of the clock.
    fn is_cancelled(&self) -> bool {
        false
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn check(&self) -> Result<()> {
        let Some(function) = self.table.is_stopped else {
            return Ok(());
        };
        // SAFETY: `is_stopped` of the control is called with the control itself, which is valid
        // until `execute` returns.
        match unsafe { function(self.this) } {
            0 => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Cancelled,
                "the execution was stopped",
            )),
        }
    }
}

unsafe extern "C" fn reads(this: *const abi::Workload, input: u32) -> i32 {
    let mut reads = true;
    // On a panic the conservative result remains.
    drop_outcome(abi::guarded(|| {
        // SAFETY: `exported_workload` created `this`, and the host has not released it.
        let state = unsafe { ExportedObject::<_, ExportedWorkload>::state(this) };
        reads = state.workload.reads(input as usize);
        Ok(())
    }));
    reads.into()
}
