//! The kernels of netlists (seed buda-netlist, facts 3 to 6). A netlist's graphs become functions of
//! ops that hand tensors to each other, its programs functions of variables, loops and executes;
//! what outlives an op is in a [`Machine`].

#![forbid(unsafe_code)]

mod attributes;
mod backend;
mod binary;
mod convert;
mod declare;
mod epoch;
mod factors;
mod finish;
mod gather;
mod lookup;
mod machine;
mod mersenne;
mod moves;
mod op;
mod ports;
mod product;
mod program;
mod queue;
mod reduce;
mod run;
mod seen;
mod spare;
mod sparse;
mod splice;
mod table;
mod tensor;
mod unary;
mod view;

#[cfg(test)]
mod hostile;

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
        product::kernels(),
        sparse::kernels(),
        reduce::kernels(),
        splice::kernels(),
        lookup::kernels(),
        convert::kernels(),
    ];
    libraries.into_iter().flatten().collect()
}
