//! What a package of Tenon holds, as values: what the compiler writes and the runtime reads.

mod check;
mod node_graph;
mod read;
mod write;

pub use node_graph::{
    CpuFunction, GraphPort, NodeAttribute, NodeGraph, NodeWork, PackageNode, Wire,
};
pub use write::WriteOptions;

use crate::TenonMember;
use tenon_dma::{Descriptor, VariableId};
use tenon_tensor::Buffer;

/// All of a package that Tenon made. The compiler fills it; the JSON members are made from it.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The package's name.
    pub name: String,
    /// All variables; a [`VariableId`] is a position here.
    pub variables: Vec<PackageVariable>,
    /// What each `tenon.dma` kernel moves, in ascending order of `id`.
    pub movements: Vec<Movement>,
    /// The host program, a BEF file. Borrowed from the mapping when read.
    pub program: Buffer,
    /// Model, ports, constants' types, placement and plan.
    pub tenon: TenonMember,
}

/// A named piece of memory.
#[derive(Debug, Clone)]
pub struct PackageVariable {
    /// Its name, unique in the package.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whose memory it is.
    pub role: Role,
}

/// Whose memory a variable is.
#[derive(Debug, Clone)]
pub enum Role {
    /// The caller's, to be read.
    Input,
    /// The caller's, to be written.
    Output,
    /// The package's: these bytes, as many as the variable's size.
    Constant(Buffer),
    /// The package's, but left out: a constant of which only prepared forms are there.
    Absent,
    /// That of the variable which `tenon.variables` names as `view_of` (a view of an input, output
    /// or constant; NEFF type `pointer`).
    View,
    /// The arena's, from this byte on.
    Arena {
        /// A multiple of 64.
        offset: u64,
    },
}

/// The descriptors of one `tenon.dma` kernel, run in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    /// The kernel's `id` attribute; unique.
    pub id: u32,
    /// What moves.
    pub descriptors: Vec<Descriptor>,
}

impl Contents {
    /// The variable of that id.
    pub fn variable(&self, id: VariableId) -> Option<&PackageVariable> {
        self.variables.get(id.index())
    }

    /// Bytes of all constants, in whatever form.
    pub fn constant_bytes(&self) -> u64 {
        let bytes = |variable: &PackageVariable| match variable.role {
            Role::Constant(_) => variable.size,
            _ => 0,
        };
        self.variables.iter().map(bytes).sum()
    }

    /// Bytes the arena needs: the largest end of an arena variable.
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
