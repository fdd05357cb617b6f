//! The plan of a program: offsets of intermediate values in the arena, and data movement as DMA
//! descriptors. The compiler plans for fixed sizes; the runtime plans for sizes that it receives.

#![forbid(unsafe_code)]

mod arena;
mod lifetimes;
mod movement;

pub use arena::{
    Assignment, Bin, Block, Constant, GreedyBySize, MEMORY_STRATEGIES, MemoryStrategy, Quick,
    SingleAxisPriority, assign, memory_strategy,
};
pub use lifetimes::{
    ArenaPlan, KernelOperands, PlannedKernel, PlannedVariable, VariableMemory, plan_arena,
};
pub use movement::{MovementNode, MovementOperand, bytes_written, descriptors};
