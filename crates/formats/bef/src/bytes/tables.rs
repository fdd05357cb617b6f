//! The tables referenced by functions: types, kernels and attributes, in the order of TFRT's
//! traversal (bef 1.5).

use super::annotations::annotation_names;
use super::strings::{StringOffsets, StringSet};
use super::wire::Writer;
use crate::streams::COST_ATTRIBUTE;
use crate::{Attribute, Function, Kernel, Module, Name};
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Result};

/// Distinct strings, numbered in the order of first occurrence.
#[derive(Debug, Default)]
struct Table<'a> {
    names: Vec<&'a str>,
    indexes: HashMap<&'a str, u32>,
}

impl<'a> Table<'a> {
    fn add(&mut self, name: &'a str) {
        let next = self.names.len() as u32;
        self.indexes.entry(name).or_insert_with(|| {
            self.names.push(name);
            next
        });
    }

    fn index(&self, name: &str) -> Result<u32> {
        self.indexes
            .get(name)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("'{name}' was not collected")))
    }

    fn section(&self, strings: &StringOffsets<'_>) -> Result<Vec<u8>> {
        let mut out = Writer::new();
        out.vbr(self.names.len() as u64);
        for name in &self.names {
            out.vbr(strings.of(name)?);
        }
        Ok(out.bytes)
    }
}

/// The tables under construction.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    types: Table<'a>,
    kernels: Table<'a>,
    /// All attributes in traversal order, with repetitions.
    pub(crate) attributes: Vec<&'a Attribute>,
    optional: bool,
}

impl<'a> Tables<'a> {
    /// Traverses a verified module: nested regions before the kernel that contains them, and a
    /// function after its body.
    pub(crate) fn collect(module: &'a Module, optional: bool) -> Self {
        let mut this = Self {
            types: Table::default(),
            kernels: Table::default(),
            attributes: Vec::new(),
            optional,
        };
        for function in module
            .functions
            .iter()
            .filter(|function| !function.is_region())
        {
            this.body(module, function);
            this.signature(function);
        }
        this
    }

    /// The nesting of regions is limited by the verifier.
    fn body(&mut self, module: &'a Module, function: &'a Function) {
        for kernel in &function.kernels {
            let regions: Vec<&Function> = regions(module, kernel).collect();
            regions.iter().for_each(|region| self.body(module, region));
            for register in &kernel.results {
                let r#type = function.registers.get(register.0 as usize);
                r#type.into_iter().for_each(|r#type| self.types.add(r#type));
            }
            self.kernels.add(&kernel.name);
            for (_, attribute) in written_attributes(kernel) {
                self.attributes.push(attribute);
                if self.optional {
                    self.scalar_types(attribute);
                }
            }
            regions
                .into_iter()
                .for_each(|region| self.signature(region));
        }
    }

    fn signature(&mut self, function: &'a Function) {
        let types = function
            .argument_types()
            .iter()
            .chain(&function.result_types);
        types.for_each(|r#type| self.types.add(r#type));
    }

    /// With optional sections, the table contains the types of scalar attributes, too.
    fn scalar_types(&mut self, attribute: &Attribute) {
        if let Some(dtype) = attribute.number_type() {
            self.types.add(dtype.mlir());
        }
        for element in attribute.as_list().unwrap_or_default() {
            self.scalar_types(element);
        }
    }

    pub(crate) fn type_index(&self, r#type: &str) -> Result<u64> {
        self.types.index(r#type).map(u64::from)
    }

    pub(crate) fn kernel_code(&self, kernel: &str) -> Result<u32> {
        self.kernels.index(kernel)
    }

    pub(crate) fn type_section(&self, strings: &StringOffsets<'_>) -> Result<Vec<u8>> {
        self.types.section(strings)
    }

    pub(crate) fn kernel_section(&self, strings: &StringOffsets<'_>) -> Result<Vec<u8>> {
        self.kernels.section(strings)
    }

    /// All strings of the Strings section; `named` adds the names of function references,
    /// `annotated` those of annotations.
    pub(crate) fn strings(
        &self,
        module: &'a Module,
        named: bool,
        annotated: bool,
    ) -> StringSet<'a> {
        let mut strings = StringSet::default();
        if annotated {
            annotation_names(module).for_each(|name| strings.add(name));
        }
        self.types.names.iter().for_each(|name| strings.add(name));
        self.kernels.names.iter().for_each(|name| strings.add(name));
        for function in &module.functions {
            strings.add(&function.name);
            for kernel in &function.kernels {
                if self.optional {
                    written_attributes(kernel).for_each(|(name, _)| strings.add(name));
                }
                if named {
                    kernel
                        .functions
                        .iter()
                        .for_each(|(name, _)| strings.add(name));
                }
            }
        }
        strings
    }
}

fn regions<'a>(module: &'a Module, kernel: &Kernel) -> impl Iterator<Item = &'a Function> {
    kernel
        .functions
        .iter()
        .filter_map(|(_, id)| module.functions.get(id.0 as usize))
        .filter(|function| function.is_region())
}

/// The encoded attributes: all except the cost, which is for the compiler.
pub(crate) fn written_attributes(kernel: &Kernel) -> impl Iterator<Item = &(Name, Attribute)> {
    kernel
        .attributes
        .iter()
        .filter(|(name, _)| *name != COST_ATTRIBUTE)
}
