//! Collective operations in a world of one worker: every operation is a copy of its input.

use crate::async_api::{Destination, Word};
use crate::call::{attempt, entry};
use crate::data_types::Numbering;
use crate::handles::{Handle, Handles, table};
use crate::layout::{CollectiveComm, TensorList};
use crate::process::{self, process};
use crate::tensors::{check_range, tensor};
use crate::{cores, requests};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{check, invalid, read_input, slice, slice_mut, write_output};
use tenon_runtime::{CoreTensor, ExecutionUnit, RequestWork};

/// Every prepared operation.
pub(crate) static CONTEXTS: Handles<Arc<Context>> = table(0x43, "collective operation");

/// A prepared operation: pairs of source and target tensors.
pub(crate) struct Context {
    core: u32,
    pairs: Vec<(CoreTensor, CoreTensor)>,
}

/// Checks that the world has one worker.
pub(crate) fn check_world(worker: u32, workers: u32) -> Result<()> {
    if workers == 0 || worker >= workers {
        return Err(invalid("the worker is not part of the world")
            .expected(format_args!("a worker below {workers}"))
            .found(worker));
    }
    if workers > 1 {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("a world of {workers} workers needs a network provider, which is unavailable"),
        )
        .expected("a world of 1 worker")
        .help("run the model in one process"));
    }
    Ok(())
}

/// Checks core and world of a collective operation; core -1 is any core.
fn check_participant(vnc: i32, worker: u32, workers: u32) -> Result<()> {
    let process = process()?;
    if vnc != -1 {
        process.cores.core(cores::number(vnc.into())?)?;
    }
    check_world(worker, workers)
}

entry! {
    fn nrt_build_global_comm(vnc: i32, g_device_id: u32, g_device_count: u32) {
        check_participant(vnc, g_device_id, g_device_count)
    }

    fn nrt_cc_global_comm_init(vnc: u32, g_device_id: u32, g_device_count: u32) {
        process()?.cores.core(vnc)?;
        check_world(g_device_id, g_device_count)
    }

    fn nrt_barrier(vnc: i32, g_device_id: u32, g_device_count: u32) {
        check_participant(vnc, g_device_id, g_device_count)
    }

    fn nrt_all_gather(
        vnc: i32, g_device_id: u32, g_device_count: u32, rank_input_size: u32, input: *mut c_void,
        output: *mut c_void,
    ) {
        check_participant(vnc, g_device_id, g_device_count)?;
        let size = rank_input_size as usize;
        check_range(input, size, "input")?;
        check_range(output, size, "output")?;
        // SAFETY: `input` has `size` readable and `output` `size` writable bytes (header). They may
        // overlap: the slices are only used for their checked pointers.
        unsafe {
            let from = slice::<u8>(input.cast(), size, "input")?.as_ptr();
            let to = slice_mut::<u8>(output.cast(), size, "output")?.as_mut_ptr();
            std::ptr::copy(from, to, size);
        }
        Ok(())
    }

    fn nrta_cc_prepare(
        comm: *mut CollectiveComm, input: *mut TensorList, output: *mut TensorList, dtype: u32,
        op: u32, cc_op: u32, cc_ctx: *mut Handle,
    ) {
        // SAFETY: `comm`, `input` and `output` are null or readable with all that they point to,
        // `cc_ctx` is null or writable (header).
        unsafe { prepare(comm, input, output, (Numbering::of_caller(), dtype), op, cc_op, cc_ctx) }
    }

    fn tenon_nrta_cc_prepare_old_dtypes(
        comm: *mut CollectiveComm, input: *mut TensorList, output: *mut TensorList, dtype: u32,
        op: u32, cc_op: u32, cc_ctx: *mut Handle,
    ) {
        // SAFETY: `comm`, `input` and `output` are null or readable with all that they point to,
        // `cc_ctx` is null or writable (header).
        unsafe { prepare(comm, input, output, (Numbering::Old, dtype), op, cc_op, cc_ctx) }
    }

    fn nrta_cc_schedule(
        cc_ctx: *mut Handle, queue: c_int, report: Word, req_sequence: *mut u64,
    ) {
        // SAFETY: `cc_ctx` is null, or readable and writable; the pointers of the destination are
        // null or valid until the request is complete (header).
        unsafe { schedule(cc_ctx, Destination::of_work(queue, report, req_sequence)) }
    }

    fn tenon_nrta_cc_schedule_2(
        cc_ctx: *mut Handle, queue: c_int, err: *mut c_void, req_sequence: *mut u64,
    ) {
        // SAFETY: `cc_ctx` is null, or readable and writable; the pointers of the destination are
        // null or valid until the request is complete (header).
        unsafe { schedule(cc_ctx, Destination::two(queue, err, req_sequence)) }
    }

    fn nrt_get_libnccl_net(err: *mut c_int, err_msg: *mut c_char, err_msg_size: usize) -> *mut c_void {
        let _ = attempt("nrt_get_libnccl_net", || {
            let text = c"there is no network provider: collective operations have one worker";
            if !err.is_null() {
                // SAFETY: `err` is null or writable (header).
                unsafe { write_output(err, "err", crate::status::NRT_INVALID)? };
            }
            if !err_msg.is_null() && err_msg_size > 0 {
                // SAFETY: `err_msg` has `err_msg_size` writable bytes (header).
                let buffer = unsafe { slice_mut::<u8>(err_msg.cast(), err_msg_size, "err_msg")? };
                let text = text.to_bytes();
                let count = text.len().min(buffer.len() - 1);
                buffer[..count].copy_from_slice(&text[..count]);
                buffer[count] = 0;
            }
            Ok(())
        });
        std::ptr::null_mut()
    }
}

/// Queues a prepared operation and removes its handle.
///
/// # Safety
/// `cc_ctx` is null, or readable and writable; `to` as for [`requests::enqueue`].
unsafe fn schedule(cc_ctx: *mut Handle, to: Destination) -> Result<()> {
    process::check()?;
    // SAFETY: `cc_ctx` is null or readable by this function's condition.
    let handle = unsafe { *read_input(cc_ctx, "cc_ctx")? };
    if to.queue != 0 {
        return Err(invalid("collective operations require queue 0").found(to.queue));
    }
    let context = CONTEXTS.find(handle)?;
    let core = context.core;
    let work: RequestWork = Box::new(move || {
        for (from, to) in &context.pairs {
            from.copy_to(0, to, 0, from.size())?;
        }
        Ok(())
    });
    // SAFETY: `to` fulfils the conditions of `enqueue` and `cc_ctx` is writable, which are this
    // function's conditions.
    unsafe {
        requests::enqueue(
            "nrta_cc_schedule",
            core,
            ExecutionUnit::Collectives,
            work,
            to,
        )?;
        CONTEXTS.remove(handle)?;
        write_output(cc_ctx, "cc_ctx", std::ptr::null_mut())
    }
}

/// # Safety
/// `comm`, `input` and `output` are null, or readable with all that they point to; `cc_ctx` is null
/// or writable.
unsafe fn prepare(
    comm: *const CollectiveComm,
    input: *const TensorList,
    output: *const TensorList,
    (numbering, dtype): (Numbering, u32),
    op: u32,
    cc_op: u32,
    cc_ctx: *mut Handle,
) -> Result<()> {
    let process = process()?;
    check(cc_ctx, "cc_ctx")?;
    // SAFETY: `comm` is null or readable by this function's condition.
    let comm = unsafe { read_input(comm, "comm")? };
    let core = process.cores.core(comm.vnc)?.index();
    check_world(comm.ctx_device_id, comm.ctx_device_count)?;
    check_world(comm.rank, comm.rank_n)?;
    if !numbering.has(dtype) {
        return Err(invalid("there is no such element type").found(dtype));
    }
    // Only all-reduce and reduce-scatter (1 and 2) compute: with NRT_OP_ADD, FMA, MAX or MIN.
    match (cc_op, op) {
        (0, _) | (1 | 2, 0..=3) => {}
        (1 | 2, _) => return Err(invalid("there is no such operation").found(op)),
        _ => return Err(invalid("there is no such collective operation").found(cc_op)),
    }
    // SAFETY: `input` and `output` are null or readable by this function's condition.
    let [inputs, outputs] = [unsafe { tensors(input, "input")? }, unsafe {
        tensors(output, "output")?
    }];
    if inputs.len() != outputs.len() {
        return Err(invalid("inputs and outputs differ in number")
            .expected(inputs.len())
            .found(outputs.len()));
    }
    let pairs: Vec<_> = inputs.into_iter().zip(outputs).collect();
    for (index, (from, to)) in pairs.iter().enumerate() {
        if from.size() != to.size() {
            let text = format!("input and output {index} differ in size");
            return Err(invalid(text).expected(from.size()).found(to.size()));
        }
    }
    let context = CONTEXTS.insert(Arc::new(Context { core, pairs }))?;
    // SAFETY: `cc_ctx` is null or writable by this function's condition.
    unsafe { write_output(cc_ctx, "cc_ctx", context) }
}

/// # Safety
/// `list` is null, or readable with its `num_tensors` handles.
unsafe fn tensors(list: *const TensorList, name: &str) -> Result<Vec<CoreTensor>> {
    // SAFETY: `list` and its handles are readable by this function's condition.
    let handles = unsafe {
        let list = read_input(list, name)?;
        slice(list.tensors, list.num_tensors, name)?
    };
    handles.iter().map(|&handle| tensor(handle)).collect()
}
