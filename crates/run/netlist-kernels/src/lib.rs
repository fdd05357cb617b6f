//! The kernels of netlists (docs/netlists.md, chapters 3 to 6). The graphs of a netlist are functions
//! whose kernels are ops on tensors, its programs are functions of variables, loops and executes. A
//! [`Machine`] holds the state that outlives an op.

#![forbid(unsafe_code)]

mod attributes;
mod backend;
mod binary;
mod buffer_pool;
mod convert;
mod declare;
mod epilogue;
mod epoch;
mod gather;
mod lookup;
mod machine;
mod matmul;
mod matmul_operands;
mod mersenne;
mod moved_operand;
mod moves;
mod op;
mod ports;
mod program;
mod queue;
mod reduce;
mod run;
mod sparse;
mod splice;
mod table;
mod tensor;
mod unary;
mod view;

#[cfg(test)]
mod invalid_attributes;

pub use convert::round_to_format;
pub use declare::DeclaredQueues;
pub use epoch::GRAPH_SCOPE;
pub use machine::{Machine, MachineLimits};
pub use queue::{EntrySource, QueueSpec};
pub use tensor::TileTensor;

use tenon_executor::KernelDef;

/// All kernels of netlists.
pub fn library() -> Vec<KernelDef> {
    let libraries = [
        program::kernels(),
        program::queue_kernels(),
        ports::kernels(),
        moves::kernels(),
        unary::kernels(),
        binary::kernels(),
        matmul::kernels(),
        sparse::kernels(),
        reduce::kernels(),
        splice::kernels(),
        lookup::kernels(),
        convert::kernels(),
    ];
    libraries.into_iter().flatten().collect()
}
