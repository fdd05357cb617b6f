//! Kernels by name.

use crate::value::is_typed;
use crate::{Kernel, Site};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// The operand and result types of a kernel, as printed; `?` is any type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// The operand types.
    pub operands: Vec<&'static str>,
    /// Whether further operands of any type may follow.
    pub variadic: bool,
    /// The attribute types in words, in the order of the attributes' names; only for kernels made
    /// by [`kernel()`](crate::kernel()).
    pub attributes: Vec<&'static str>,
    /// The result types.
    pub results: Vec<&'static str>,
    /// Whether further results of any type may follow.
    pub variadic_results: bool,
    /// The number of functions that it refers to; `None` for any number.
    pub functions: Option<usize>,
}

/// A kernel that programs may name; most are made by [`kernel()`](crate::kernel()).
#[derive(Clone)]
pub struct KernelDef {
    name: Cow<'static, str>,
    signature: Signature,
    bind: Arc<Bind>,
    documentation: &'static str,
    /// Whether all sites share one binding.
    site_independent: bool,
}

type Bind = dyn Fn(&Site<'_>) -> Result<Box<dyn Kernel>> + Send + Sync;

/// The kernels that programs may name, and the native functions; not a global.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kernels: HashMap<Cow<'static, str>, KernelDef>,
    natives: HashMap<Cow<'static, str>, KernelDef>,
}

impl KernelDef {
    /// A kernel. `bind` reads the attributes and finds the services, once for each site of the
    /// kernel in a program; it is called from several threads concurrently.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        signature: Signature,
        bind: impl Fn(&Site<'_>) -> Result<Box<dyn Kernel>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            signature,
            bind: Arc::new(bind),
            documentation: "",
            site_independent: false,
        }
    }

    /// Sets a sentence that documents the kernel.
    pub fn doc(self, documentation: &'static str) -> Self {
        Self {
            documentation,
            ..self
        }
    }

    /// The documentation, one sentence.
    pub fn documentation(&self) -> &'static str {
        self.documentation
    }

    /// Sets whether all sites share one binding, because the kernel reads no attributes and needs
    /// no services.
    pub(crate) fn site_independent(self, site_independent: bool) -> Self {
        Self {
            site_independent,
            ..self
        }
    }

    pub(crate) fn is_site_independent(&self) -> bool {
        self.site_independent
    }

    /// Whether its signature defines the types of its attributes.
    pub(crate) fn is_typed(&self) -> bool {
        self.site_independent || !self.signature.attributes.is_empty()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its operand and result types.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The same kernel under another name.
    pub fn renamed(&self, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }

    /// The kernel inside another one, which `wrap` makes for each site.
    pub fn wrapped(
        self,
        wrap: impl Fn(&Site<'_>, Box<dyn Kernel>) -> Box<dyn Kernel> + Send + Sync + 'static,
    ) -> Self {
        let bind = self.bind;
        Self {
            bind: Arc::new(move |site| Ok(wrap(site, bind(site)?))),
            ..self
        }
    }

    pub(crate) fn bind(&self, site: &Site<'_>) -> Result<Box<dyn Kernel>> {
        (self.bind)(site)
    }
}

impl fmt::Debug for KernelDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.signature)
    }
}

impl Registry {
    /// No kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kernel; its name must be new.
    pub fn register(&mut self, def: KernelDef) -> Result<()> {
        add(&mut self.kernels, "kernel", def)
    }

    /// Adds all kernels of a library.
    pub fn register_all(&mut self, library: impl IntoIterator<Item = KernelDef>) -> Result<()> {
        library.into_iter().try_for_each(|def| self.register(def))
    }

    /// Adds a native function, written like a kernel; its name must be new. Its errors become its
    /// results without a diagnostic (bef 2.4).
    pub fn register_native(&mut self, def: KernelDef) -> Result<()> {
        add(&mut self.natives, "native function", def)
    }

    /// The kernel of that name.
    pub fn find(&self, name: &str) -> Option<&KernelDef> {
        self.kernels.get(name)
    }

    /// The native function of that name.
    pub fn find_native(&self, name: &str) -> Option<&KernelDef> {
        self.natives.get(name)
    }

    /// The names of all kernels, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.kernels.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }
}

fn add(map: &mut HashMap<Cow<'static, str>, KernelDef>, what: &str, def: KernelDef) -> Result<()> {
    if map.contains_key(&def.name) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{what} '{}' is registered already", def.name),
        ));
    }
    map.insert(def.name.clone(), def);
    Ok(())
}

impl Signature {
    /// Checks the types and the number of functions of a call. One chain more than declared is
    /// legal: it only orders (bef 4.6).
    pub(crate) fn check(
        &self,
        operands: &[&str],
        results: &[&str],
        functions: usize,
    ) -> Result<()> {
        let declared = self.operands.len();
        let extra = operands.get(declared..).unwrap_or_default();
        let chained = matches!(extra, [ty] if *ty == "!tfrt.chain" || !is_typed(ty));
        if operands.len() < declared || !(self.variadic || extra.is_empty() || chained) {
            return Err(mismatch("number of operands", declared, operands.len()));
        }
        let variadic_results = self.variadic_results && results.len() >= self.results.len();
        if results.len() != self.results.len() && !variadic_results {
            return Err(mismatch(
                "number of results",
                self.results.len(),
                results.len(),
            ));
        }
        if let Some(expected) = self.functions
            && expected != functions
        {
            return Err(mismatch("number of functions", expected, functions));
        }
        let all = [
            ("operand", &self.operands, operands),
            ("result", &self.results, results),
        ];
        for (what, expected, found) in all {
            for (index, (&expected, &found)) in expected.iter().zip(found).enumerate() {
                if !fits(expected, found) {
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

/// Whether a register of the printed type `found` is allowed where `expected` is declared.
fn fits(expected: &str, found: &str) -> bool {
    expected == "?" || !is_typed(found) || expected == found
}

fn mismatch(what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidProgram, format!("wrong {what}"))
        .expected(expected)
        .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add() -> Signature {
        Signature {
            operands: vec!["i32", "i32"],
            results: vec!["i32"],
            ..Signature::default()
        }
    }

    #[test]
    fn a_trailing_chain_is_legal_and_a_missing_type_matches_any() {
        add().check(&["i32", "i32"], &["i32"], 0).unwrap();
        add()
            .check(&["i32", "i32", "!tfrt.chain"], &["i32"], 0)
            .unwrap();
        add().check(&["none", ""], &["none"], 0).unwrap();
    }

    #[test]
    fn mismatches_report_expected_and_found() {
        let text = |operands: &[&str], results: &[&str]| {
            add().check(operands, results, 0).unwrap_err().to_string()
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
