//! The place in a program where a kernel is bound.

use crate::Services;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, Function, Kernel, KernelLocation, Module};

/// A kernel of a program at the moment it is bound: its attributes, and the services of the load.
pub struct Site<'a> {
    pub(crate) module: &'a Module,
    pub(crate) function: &'a Function,
    pub(crate) kernel: &'a Kernel,
    pub(crate) services: &'a Services,
}

impl<'a> Site<'a> {
    /// The program that it stands in.
    pub fn module(&self) -> &'a Module {
        self.module
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

    /// An attribute, `None` when it is not there.
    pub fn optional(&self, name: &str) -> Option<&'a Attribute> {
        let found = self.kernel.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    /// An attribute; an error when it is not there.
    pub fn attribute(&self, name: &str) -> Result<&'a Attribute> {
        self.optional(name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidProgram,
                format!("attribute '{name}' is missing"),
            )
        })
    }

    /// An i32 attribute.
    pub fn i32(&self, name: &str) -> Result<i32> {
        match self.attribute(name)? {
            Attribute::I32(value) => Ok(*value),
            other => Err(wrong_type(name, "i32", other)),
        }
    }

    /// An i64 attribute.
    pub fn i64(&self, name: &str) -> Result<i64> {
        match self.attribute(name)? {
            Attribute::I64(value) => Ok(*value),
            other => Err(wrong_type(name, "i64", other)),
        }
    }

    /// A string attribute.
    pub fn string(&self, name: &str) -> Result<&'a str> {
        match self.attribute(name)? {
            Attribute::String(value) => Ok(value),
            other => Err(wrong_type(name, "a string", other)),
        }
    }

    /// An attribute that is an array of i32.
    pub fn i32s(&self, name: &str) -> Result<Vec<i32>> {
        let wrong = |other| wrong_type(name, "an array of i32", other);
        match self.attribute(name)? {
            Attribute::Array(items) => items
                .iter()
                .map(|item| match item {
                    Attribute::I32(value) => Ok(*value),
                    other => Err(wrong(other)),
                })
                .collect(),
            other => Err(wrong(other)),
        }
    }
}

fn wrong_type(name: &str, expected: &str, found: &Attribute) -> Error {
    Error::new(
        ErrorKind::InvalidProgram,
        format!("attribute '{name}' has the wrong type"),
    )
    .expected(expected)
    .found(attribute_type(found))
}

/// The type of an attribute in words.
fn attribute_type(attribute: &Attribute) -> &'static str {
    match attribute {
        Attribute::I1(_) => "i1",
        Attribute::I8(_) => "i8",
        Attribute::I16(_) => "i16",
        Attribute::I32(_) => "i32",
        Attribute::I64(_) => "i64",
        Attribute::UI8(_) => "ui8",
        Attribute::UI16(_) => "ui16",
        Attribute::UI32(_) => "ui32",
        Attribute::UI64(_) => "ui64",
        Attribute::F32(_) => "f32",
        Attribute::F64(_) => "f64",
        Attribute::F16(_) => "f16",
        Attribute::BF16(_) => "bf16",
        Attribute::String(_) => "a string",
        Attribute::Type(_) => "a type",
        Attribute::Array(_) => "an array",
        Attribute::Aggregate(_) => "an aggregate",
        Attribute::Shape(_) => "a shape",
        Attribute::Dense(_) => "a dense tensor",
        Attribute::Symbol { .. } => "a symbol",
    }
}

/// Where kernel `index` of a function stands: its source location and its name; without a source
/// location, the function and the kernel's number besides.
pub(crate) fn place(function: &Function, index: usize, kernel: &Kernel) -> Location {
    let mut place = source(&kernel.location);
    place.field = Some(if place == Location::default() {
        format!(
            "@{}: kernel {} ('{}')",
            function.name,
            index + 1,
            kernel.name
        )
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
                place.file = Some(file.into());
                place.line = Some(*line);
                place.column = Some(*column);
            }
        }
        KernelLocation::Name { name, child } => {
            place.node.get_or_insert_with(|| name.clone());
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
