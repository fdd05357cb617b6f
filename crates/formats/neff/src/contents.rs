//! The contents of a package of Tenon as values: the compiler writes them, the runtime reads them.

mod check;
mod node_graph;
mod read;
mod write;

pub use node_graph::{
    CpuFunction, GraphPort, HostFunction, NodeAttribute, NodeGraph, NodeWork, PackageNode, Wire,
};
pub use write::WriteOptions;

use crate::TenonMember;
use tenon_dma::{Descriptor, VariableId};
use tenon_tensor::Buffer;

/// The contents of a package with one subgraph. The compiler fills it; the JSON members are
/// generated from it.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The package's name.
    pub name: String,
    /// All variables; a [`VariableId`] is a position here.
    pub variables: Vec<PackageVariable>,
    /// The descriptors of each `tenon.dma` kernel, in ascending order of `id`.
    pub movements: Vec<Movement>,
    /// The host program, a BEF file. Borrowed from the mapping when read.
    pub program: Buffer,
    /// Model, ports, types of constants, placement and memory plan.
    pub tenon: TenonMember,
}

/// A named block of memory.
#[derive(Debug, Clone)]
pub struct PackageVariable {
    /// Its name, unique in the package.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The owner of its memory.
    pub role: Role,
}

/// The owner of a variable's memory.
#[derive(Debug, Clone)]
pub enum Role {
    /// Memory of the caller, read.
    Input,
    /// Memory of the caller, written.
    Output,
    /// These bytes of the package; their length is the variable's size.
    Constant(Buffer),
    /// A constant that the package omits: it has only prepared forms of it.
    Absent,
    /// The memory of the variable that `tenon.variables` names as `view_of` (a view of an input,
    /// output or constant; NEFF type `pointer`).
    View,
    /// The arena, from this byte on.
    Arena {
        /// A multiple of 64.
        offset: u64,
    },
    /// Memory whose place is planned when the sizes are known; only in a package with symbols.
    Planned,
}

/// The descriptors of one `tenon.dma` kernel, run in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    /// The kernel's `id` attribute; unique.
    pub id: u32,
    /// The descriptors.
    pub descriptors: Vec<Descriptor>,
}

impl Contents {
    /// The variable of that id.
    pub fn variable(&self, id: VariableId) -> Option<&PackageVariable> {
        self.variables.get(id.index())
    }

    /// The size of all constants, plain and prepared.
    pub fn constant_bytes(&self) -> u64 {
        let bytes = |variable: &PackageVariable| match variable.role {
            Role::Constant(_) => variable.size,
            _ => 0,
        };
        self.variables.iter().map(bytes).sum()
    }

    /// The size of the arena: the largest end of an arena variable.
    pub fn arena_bytes(&self) -> u64 {
        let end = |variable: &PackageVariable| match variable.role {
            Role::Arena { offset } => offset.saturating_add(variable.size),
            _ => 0,
        };
        self.variables.iter().map(end).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests;
