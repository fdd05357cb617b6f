//! Sites: occurrences of kernels in a program, at which they are bound.

use crate::function::FunctionHeader;
use crate::{FromAttribute, KernelAttributes, Services};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, COST_ATTRIBUTE, File, Function, Kernel, KernelLocation, Name};

/// One occurrence of a kernel while it is bound: its attributes, and the services of the load.
pub struct Site<'a> {
    pub(crate) heads: &'a [FunctionHeader],
    pub(crate) function: &'a Function,
    pub(crate) kernel: &'a Kernel,
    /// The kernel's position in its function.
    pub(crate) index: usize,
    pub(crate) services: &'a Services,
    pub(crate) untyped: Option<UntypedAttributes<'a>>,
}

/// The attributes of a kernel in a file without attribute types, by offset.
#[derive(Clone, Copy)]
pub(crate) struct UntypedAttributes<'a> {
    pub(crate) file: &'a File<'static>,
    pub(crate) offsets: &'a [u32],
}

impl<'a> Site<'a> {
    /// The printed types of the arguments and results of a function that the kernel refers to.
    pub fn callee(&self, index: usize) -> Option<(&'a [Name], &'a [Name])> {
        let (_, id) = self.kernel.functions.get(index)?;
        let head = self.heads.get(id.0 as usize)?;
        Some((&head.argument_types, &head.result_types))
    }

    /// The function that contains the kernel.
    pub fn function(&self) -> &'a Function {
        self.function
    }

    /// The kernel in the program.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// Its location, for errors that are found after it was bound.
    pub fn location(&self) -> Location {
        place(self.function, self.index, self.kernel)
    }

    /// The service of type `T`.
    pub fn service<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.services.service()
    }

    /// Its attributes.
    pub fn attributes(&self) -> KernelAttributes<'a> {
        KernelAttributes::of(self.kernel)
    }

    /// The attribute at a position in the order of their names.
    pub(crate) fn attribute<T: FromAttribute>(&self, index: usize) -> Result<T> {
        if let Some(untyped) = self.untyped {
            let (name, attribute) = untyped.read::<T>(index)?;
            return typed(&name, &attribute);
        }
        // BEF drops the cost; a Module from text may have it, and no kernel reads it.
        let attributes = self.attributes().iter();
        let mut read = attributes.filter(|(name, _)| *name != COST_ATTRIBUTE);
        let (name, attribute) = read.nth(index).ok_or_else(|| too_few::<T>(index))?;
        typed(name, attribute)
    }
}

impl UntypedAttributes<'_> {
    /// The attribute at a position, decoded as the type that the kernel declares, and a name for
    /// messages.
    fn read<T: FromAttribute>(self, index: usize) -> Result<(String, Attribute)> {
        let offset = self.offsets.get(index).ok_or_else(|| too_few::<T>(index))?;
        let code = T::CODE.ok_or_else(no_types)?;
        Ok((format!("attr{index}"), self.file.attribute(*offset, code)?))
    }
}

fn typed<T: FromAttribute>(name: &str, attribute: &Attribute) -> Result<T> {
    T::from_attribute(attribute).ok_or_else(|| {
        let text = format!("attribute '{name}' has the wrong type");
        Error::new(ErrorKind::InvalidProgram, text)
            .expected(T::TYPE)
            .found(attribute.kind())
    })
}

fn too_few<T: FromAttribute>(index: usize) -> Error {
    Error::new(ErrorKind::InvalidProgram, "too few attributes")
        .expected(format_args!("{} as attribute {index}", T::TYPE))
        .found(index)
}

/// The error where neither the file nor the kernel declares attribute types.
pub(crate) fn no_types() -> Error {
    let text = "the file has no attribute types";
    Error::new(ErrorKind::Unsupported, text).help("encode it with its optional sections")
}

/// The location of kernel `index` of a function: its source location and its name; without a source
/// location, the function and the kernel's index instead.
pub(crate) fn place(function: &Function, index: usize, kernel: &Kernel) -> Location {
    let mut place = source(&kernel.location);
    place.field = Some(if place == Location::default() {
        format!("@{}: kernel {} '{}'", function.name, index, kernel.name)
    } else {
        format!("kernel '{}'", kernel.name)
    });
    place
}

/// A source location as a location of an error.
pub(crate) fn source(location: &KernelLocation) -> Location {
    let mut place = Location::default();
    fill(&mut place, location);
    place
}

/// Copies the first file position and the first name of `location`. The reader that made it bounds
/// its depth.
fn fill(place: &mut Location, location: &KernelLocation) {
    match location {
        KernelLocation::Unknown => {}
        KernelLocation::FileLineCol { file, line, column } => {
            if place.file.is_none() {
                place.file = Some(file.as_str().into());
                place.line = Some(*line);
                place.column = Some(*column);
            }
        }
        KernelLocation::Name { name, child } => {
            place.node.get_or_insert_with(|| name.to_string());
            fill(place, child);
        }
        KernelLocation::CallSite { callee, .. } => fill(place, callee),
        KernelLocation::Fused(all) => all.iter().for_each(|one| fill(place, one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_location_becomes_an_error_location() {
        let location = KernelLocation::Name {
            name: "conv1".into(),
            child: Box::new(KernelLocation::FileLineCol {
                file: "m.mlir".into(),
                line: 3,
                column: 5,
            }),
        };
        assert_eq!(source(&location).to_string(), "m.mlir:3:5: node 'conv1'");
        assert_eq!(source(&KernelLocation::Unknown), Location::default());
    }
}
