//! What it computes: absolute values and negations of f32.

use crate::{Counts, Example, release, slice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_backend_abi::{
    Backend, MemoryManager, Node, Operand, Operands, Outcome, Workload, failure, guarded, reason,
    refusal, status,
};

/// The number of `TENON_TYPE_F32`.
pub(crate) const F32: i32 = 1;

#[repr(C)]
struct ExampleWorkload {
    table: Workload,
    kernel: fn(f32) -> f32,
    counts: Arc<Counts>,
}

// SAFETY of the functions below: Tenon passes what the header says, and the first argument is one
// that this library made.

pub(crate) unsafe extern "C" fn supports(_: *const Backend, node: *const Node) -> Outcome {
    // SAFETY: see above.
    guarded(|| unsafe { kernel_of(&*node) }.map(drop))
}

/// The kernel of a node, or why there is none.
///
/// # Safety
/// The node is as the header says.
unsafe fn kernel_of(node: &Node) -> Result<fn(f32) -> f32, Outcome> {
    // SAFETY: the caller vouches.
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
            "one input and one output are needed",
        ));
    };
    for &tensor in [input, output] {
        // SAFETY: not null (asked first), and as the header says.
        match (!tensor.is_null()).then(|| unsafe { (*tensor).dtype }) {
            Some(F32) => {}
            Some(dtype) => return Err(refused(reason::INPUT_TYPE, 0, dtype.into())),
            None => return Err(failure(status::INVALID, "an operand is left out")),
        }
    }
    Ok(kernel)
}

fn refused(reason: i32, index: i64, found: i64) -> Outcome {
    let numbers = [index, found];
    refusal(
        status::UNSUPPORTED,
        reason,
        numbers,
        String::new(),
        String::new(),
    )
}

pub(crate) unsafe extern "C" fn workload(
    this: *const Backend,
    node: *const Node,
    _: *const MemoryManager,
    made: *mut *const Workload,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let workload = ExampleWorkload {
                table: Workload {
                    size: size_of::<Workload>(),
                    execute: Some(execute),
                    reads: None,
                    release: Some(release::<Workload, ExampleWorkload>),
                },
                kernel: kernel_of(&*node)?,
                counts: (*this.cast::<Example>()).counts.clone(),
            };
            *made = Box::into_raw(Box::new(workload)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn execute(this: *const Workload, operands: *const Operands) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let (own, inputs, outputs) = unsafe {
            let told = &*operands;
            (
                &*this.cast::<ExampleWorkload>(),
                slice(told.inputs, told.input_count),
                slice(told.outputs, told.output_count),
            )
        };
        let ([input], [output]) = (inputs, outputs) else {
            return Err(failure(
                status::INVALID,
                "one input and one output are needed",
            ));
        };
        let Operand { start, length } = *output;
        if input.length != length || input.start.is_null() || !length.is_multiple_of(4) {
            return Err(failure(status::INVALID, "input and output differ in size"));
        }
        let (from, to) = (input.start.cast::<f32>(), start.cast::<f32>());
        for index in 0..length / 4 {
            // SAFETY: within both operands, which are aligned; they may be the same memory.
            unsafe { to.add(index).write((own.kernel)(from.add(index).read())) };
        }
        own.counts.executions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}
