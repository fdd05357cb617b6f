//! Kernels by name.

use crate::value::is_typed;
use crate::{Kernel, Site};
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};

/// The registers that a kernel takes and makes, as printed types; `?` stands for any type.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// Its operands.
    pub operands: &'static [&'static str],
    /// Whether any further operands may follow.
    pub variadic: bool,
    /// Its results.
    pub results: &'static [&'static str],
}

/// A kernel that programs may name.
#[derive(Debug, Clone, Copy)]
pub struct KernelDef {
    /// The name.
    pub name: &'static str,
    /// What it takes and makes.
    pub signature: Signature,
    /// Reads the attributes and finds the services, once for each place where it stands. Called
    /// from several threads at a time.
    pub bind: fn(&Site<'_>) -> Result<Box<dyn Kernel>>,
}

/// The kernels that programs may name; not a global. A kernel library is a list of them.
#[derive(Debug, Clone, Default)]
pub struct Registry(HashMap<&'static str, KernelDef>);

impl Registry {
    /// No kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kernel; its name must be new.
    pub fn register(&mut self, def: KernelDef) -> Result<()> {
        if self.0.contains_key(def.name) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("kernel '{}' is registered already", def.name),
            ));
        }
        self.0.insert(def.name, def);
        Ok(())
    }

    /// Adds all kernels of a library.
    pub fn register_all(&mut self, library: &[KernelDef]) -> Result<()> {
        library.iter().try_for_each(|&def| self.register(def))
    }

    /// The kernel of that name.
    pub fn find(&self, name: &str) -> Option<&KernelDef> {
        self.0.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

impl Signature {
    /// Checks the types of a call. One chain more than declared is legal: it only orders (facts 4).
    pub(crate) fn check(&self, operands: &[&str], results: &[&str]) -> Result<()> {
        let declared = self.operands.len();
        let extra = operands.get(declared..).unwrap_or_default();
        let chained = matches!(extra, [ty] if *ty == "!tfrt.chain" || !is_typed(ty));
        if operands.len() < declared || !(self.variadic || extra.is_empty() || chained) {
            return Err(mismatch("number of operands", declared, operands.len()));
        }
        if results.len() != self.results.len() {
            return Err(mismatch(
                "number of results",
                self.results.len(),
                results.len(),
            ));
        }
        let all = [
            ("operand", self.operands, operands),
            ("result", self.results, results),
        ];
        for (what, expected, found) in all {
            for (index, (&expected, &found)) in expected.iter().zip(found).enumerate() {
                if expected != "?" && is_typed(found) && expected != found {
                    return Err(mismatch(
                        &format!("type of {what} {index}"),
                        expected,
                        found,
                    ));
                }
            }
        }
        Ok(())
    }
}

fn mismatch(what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidProgram, format!("wrong {what}"))
        .expected(expected)
        .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: Signature = Signature {
        operands: &["i32", "i32"],
        variadic: false,
        results: &["i32"],
    };

    #[test]
    fn a_trailing_chain_is_legal_and_a_missing_type_is_any() {
        ADD.check(&["i32", "i32"], &["i32"]).unwrap();
        ADD.check(&["i32", "i32", "!tfrt.chain"], &["i32"]).unwrap();
        ADD.check(&["none", ""], &["none"]).unwrap();
    }

    #[test]
    fn mismatches_say_what() {
        let text = |operands: &[&str], results: &[&str]| {
            ADD.check(operands, results).unwrap_err().to_string()
        };
        assert_eq!(
            text(&["i32"], &["i32"]),
            "wrong number of operands: expected 2, found 1"
        );
        assert_eq!(
            text(&["i32", "f32"], &["i32"]),
            "wrong type of operand 1: expected i32, found f32"
        );
        assert_eq!(
            text(&["i32", "i32", "i32"], &["i32"]),
            "wrong number of operands: expected 2, found 3"
        );
        assert_eq!(
            text(&["i32", "i32"], &[]),
            "wrong number of results: expected 1, found 0"
        );
    }
}
