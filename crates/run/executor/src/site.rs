//! The place in a program where a kernel is bound.

use crate::function::FunctionHeader;
use crate::{FromAttribute, KernelAttributes, Services};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, COST_ATTRIBUTE, File, Function, Kernel, KernelLocation, Name};

/// A kernel of a program at the moment it is bound: its attributes, and the services of the load.
pub struct Site<'a> {
    pub(crate) heads: &'a [FunctionHeader],
    pub(crate) function: &'a Function,
    pub(crate) kernel: &'a Kernel,
    pub(crate) services: &'a Services,
    pub(crate) untyped: Option<UntypedAttributes<'a>>,
}

/// The attributes of a kernel of a file that does not say of what types they are: where they stand.
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

    /// The function that it stands in.
    pub fn function(&self) -> &'a Function {
        self.function
    }

    /// The kernel as the program has it.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
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
    /// The attribute at a position as what the kernel takes it for, and a name for it.
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

/// The kernel does not say either what it takes.
pub(crate) fn no_types() -> Error {
    let text = "the file does not say of what types its attributes are";
    Error::new(ErrorKind::Unsupported, text).help("encode it with its optional sections")
}

/// Where kernel `index` of a function stands: its source location and its name; without a source
/// location, the function and the kernel's number besides.
pub(crate) fn place(function: &Function, index: usize, kernel: &Kernel) -> Location {
    let mut place = source(&kernel.location);
    place.field = Some(if place == Location::default() {
        format!("@{}: kernel {} '{}'", function.name, index, kernel.name)
    } else {
        format!("kernel '{}'", kernel.name)
    });
    place
}

/// A source location as a place.
pub(crate) fn source(location: &KernelLocation) -> Location {
    let mut place = Location::default();
    fill(&mut place, location);
    place
}

/// Takes the first file position and the first name of `location`. Its depth is bounded by the
/// reader that made it.
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
    fn a_location_becomes_a_place() {
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
