//! Source locations of functions and kernels.

use crate::{Name, SourcePosition};

/// Maximum nesting of locations.
pub const MAX_LOCATION_NESTING: usize = 64;

/// A source location (bef 1.7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KernelLocation {
    /// Unknown.
    #[default]
    Unknown,
    /// A position in a file, line and column from 1.
    FileLineCol {
        /// The path.
        file: Name,
        /// The line.
        line: u32,
        /// The column.
        column: u32,
    },
    /// A named location.
    Name {
        /// The name.
        name: Name,
        /// The location it names.
        child: Box<KernelLocation>,
    },
    /// A callee inlined into a caller.
    CallSite {
        /// Location of the callee.
        callee: Box<KernelLocation>,
        /// Location of the call.
        caller: Box<KernelLocation>,
    },
    /// Several locations.
    Fused(Vec<KernelLocation>),
}

impl KernelLocation {
    /// The first position in a file: of the named location, of the callee before the caller, of the
    /// first of several locations.
    pub fn position(&self) -> Option<SourcePosition> {
        match self {
            KernelLocation::Unknown => None,
            KernelLocation::FileLineCol { file, line, column } => Some(SourcePosition {
                file: file.to_string(),
                line: *line,
                column: *column,
            }),
            KernelLocation::Name { child, .. } => child.position(),
            KernelLocation::CallSite { callee, caller } => {
                callee.position().or_else(|| caller.position())
            }
            KernelLocation::Fused(parts) => parts.iter().find_map(KernelLocation::position),
        }
    }

    /// Nesting depth; 0 for a location without parts.
    pub(crate) fn depth(&self) -> usize {
        match self {
            KernelLocation::Unknown | KernelLocation::FileLineCol { .. } => 0,
            KernelLocation::Name { child, .. } => 1 + child.depth(),
            KernelLocation::CallSite { callee, caller } => 1 + callee.depth().max(caller.depth()),
            KernelLocation::Fused(parts) => {
                1 + parts.iter().map(KernelLocation::depth).max().unwrap_or(0)
            }
        }
    }
}
