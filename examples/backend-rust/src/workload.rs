//! Support queries and workloads: Abs and Neg of f32.

#![allow(unsafe_code, reason = "pointers of the C interface")]

use crate::{Counts, Example, release, slice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_backend_abi::{
    Backend, MemoryManager, Node, Operand, Operands, Outcome, Workload, failure, guarded, reason,
    refusal, status,
};

/// `TENON_TYPE_F32`.
pub(crate) const F32: i32 = 1;

#[repr(C)]
struct ExampleWorkload {
    table: Workload,
    kernel: fn(f32) -> f32,
    counts: Arc<Counts>,
}

// The functions below are called by Tenon as the header requires: the first argument is an object
// that this library created and that is not released; structs are valid, and out-parameters are
// valid for a write. The SAFETY comments call this the calling convention.

pub(crate) unsafe extern "C" fn supports(_: *const Backend, node: *const Node) -> Outcome {
    // SAFETY: by the calling convention `node` is valid.
    guarded(|| unsafe { kernel_of(&*node) }.map(drop))
}

/// The kernel of a node, or the refusal.
///
/// # Safety
/// The node must be valid (header).
unsafe fn kernel_of(node: &Node) -> Result<fn(f32) -> f32, Outcome> {
    // SAFETY: the text and the lists of the node have the stated lengths (requirement).
    let (op, inputs, outputs) = unsafe {
        (
            slice(node.op.start, node.op.length),
            slice(node.inputs, node.input_count),
            slice(node.outputs, node.output_count),
        )
    };
    let kernel: fn(f32) -> f32 = match op {
        b"Abs" => f32::abs,
        b"Neg" => |x| -x,
        _ => return Err(refused(reason::UNKNOWN_OPERATOR, 0, 0)),
    };
    let ([input], [output]) = (inputs, outputs) else {
        return Err(failure(
            status::INVALID,
            "one input and one output are required",
        ));
    };
    for &tensor in [input, output] {
        // SAFETY: the pointer is not null (checked first) and is to a valid struct (requirement).
        match (!tensor.is_null()).then(|| unsafe { (*tensor).dtype }) {
            Some(F32) => {}
            Some(dtype) => return Err(refused(reason::INPUT_TYPE, 0, dtype.into())),
            None => return Err(failure(status::INVALID, "an operand is absent")),
        }
    }
    Ok(kernel)
}

fn refused(reason: i32, index: i64, found: i64) -> Outcome {
    let index_and_found = [index, found];
    refusal(
        status::UNSUPPORTED,
        reason,
        index_and_found,
        String::new(),
        String::new(),
    )
}

pub(crate) unsafe extern "C" fn workload(
    this: *const Backend,
    node: *const Node,
    _: *const MemoryManager,
    out: *mut *const Workload,
) -> Outcome {
    guarded(|| {
        // SAFETY: by the calling convention `this` is the first member of a live `Example`, `node`
        // is valid, and `out` is valid for a write.
        unsafe {
            let workload = ExampleWorkload {
                table: Workload {
                    size: size_of::<Workload>(),
                    execute: Some(execute),
                    reads: None,
                    release: Some(release::<Workload, ExampleWorkload>),
                    part_count: 0,
                    parts: std::ptr::null(),
                    part_times: None,
                },
                kernel: kernel_of(&*node)?,
                counts: (*this.cast::<Example>()).counts.clone(),
            };
            *out = Box::into_raw(Box::new(workload)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn execute(this: *const Workload, operands: *const Operands) -> Outcome {
    guarded(|| {
        // SAFETY: by the calling convention `this` is the first member of a live `ExampleWorkload`,
        // and the arrays of the operands have the stated lengths.
        let (own, inputs, outputs) = unsafe {
            let operands = &*operands;
            (
                &*this.cast::<ExampleWorkload>(),
                slice(operands.inputs, operands.input_count),
                slice(operands.outputs, operands.output_count),
            )
        };
        let ([input], [output]) = (inputs, outputs) else {
            return Err(failure(
                status::INVALID,
                "one input and one output are required",
            ));
        };
        let Operand { start, length } = *output;
        if input.length != length || input.start.is_null() || !length.is_multiple_of(4) {
            return Err(failure(status::INVALID, "input and output differ in size"));
        }
        let (from, to) = (input.start.cast::<f32>(), start.cast::<f32>());
        for index in 0..length / 4 {
            // SAFETY: `index` is in bounds of both operands, whose sizes are equal (checked above)
            // and which are aligned to 64 (header). Raw accesses allow them to be the same memory.
            unsafe { to.add(index).write((own.kernel)(from.add(index).read())) };
        }
        own.counts.executions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}
