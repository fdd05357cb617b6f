//! Annotations, the data of a Module that BEF cannot encode: attributes of functions and of the
//! Module, locations of native functions and of returns, costs of kernels.
//!
//! Stored in Tenon's own section, which other readers skip; omitted when empty. Layout: bef 3.2.

use super::attribute_reader::read_attribute;
use super::attribute_writer::AttributeSection;
use super::budget::Budget;
use super::location::{LocationReader, LocationWriter};
use super::strings::{StringOffsets, StringsReader};
use super::wire::{Reader, Writer};
use crate::attribute::code;
use crate::streams::COST_ATTRIBUTE;
use crate::{Attribute, Dictionary, Function, FunctionKind, Kernel, KernelLocation, Module, Name};
use tenon_base::Result;

/// Whether there are annotations.
pub(crate) fn has_annotations(module: &Module) -> bool {
    !module.attributes.is_empty() || module.functions.iter().any(is_annotated)
}

fn is_annotated(function: &Function) -> bool {
    let native = function.kind == FunctionKind::Native;
    !function.attributes.is_empty()
        || function.return_location != KernelLocation::Unknown
        || (native && function.location != KernelLocation::Unknown)
        || function.kernels.iter().any(|kernel| cost(kernel).is_some())
}

fn cost(kernel: &Kernel) -> Option<&Attribute> {
    kernel.attribute(COST_ATTRIBUTE)
}

/// The names that the section references in Strings.
pub(crate) fn annotation_names(module: &Module) -> impl Iterator<Item = &str> {
    let functions = module.functions.iter().map(|function| &function.attributes);
    let all = std::iter::once(&module.attributes).chain(functions);
    all.flatten().map(|(name, _)| name.as_str())
}

/// Writes the section.
pub(crate) struct AnnotationWriter<'a> {
    pub(crate) strings: &'a StringOffsets<'a>,
    pub(crate) locations: &'a mut LocationWriter,
    pub(crate) values: AttributeSection,
}

impl AnnotationWriter<'_> {
    pub(crate) fn section(mut self, module: &Module) -> Result<Vec<u8>> {
        let mut records = Writer::new();
        self.dictionary(&mut records, &module.attributes)?;
        records.vbr(module.functions.len() as u64);
        for function in &module.functions {
            let mut record = Writer::new();
            if is_annotated(function) {
                self.function(&mut record, function)?;
            }
            records.vbr(record.bytes.len() as u64);
            records.raw(&record.bytes);
        }
        let mut section = Writer::new();
        section.vbr(records.bytes.len() as u64);
        section.raw(&records.bytes);
        section.raw(&self.values.body.writer.bytes);
        Ok(section.bytes)
    }

    fn function(&mut self, out: &mut Writer, function: &Function) -> Result<()> {
        self.dictionary(out, &function.attributes)?;
        if function.kind == FunctionKind::Native {
            self.locations.write_to(out, &function.location);
        }
        self.locations.write_to(out, &function.return_location);
        let costs: Vec<(u64, &Attribute)> = (0u64..)
            .zip(&function.kernels)
            .filter_map(|(index, kernel)| Some((index, cost(kernel)?)))
            .collect();
        out.vbr(costs.len() as u64);
        for (index, cost) in costs {
            out.vbr(index);
            self.value(out, cost)?;
        }
        Ok(())
    }

    fn dictionary(&mut self, out: &mut Writer, dictionary: &Dictionary) -> Result<()> {
        out.vbr(dictionary.len() as u64);
        for (name, attribute) in dictionary {
            out.vbr(self.strings.of(name)?);
            self.value(out, attribute)?;
        }
        Ok(())
    }

    fn value(&mut self, out: &mut Writer, attribute: &Attribute) -> Result<()> {
        let offset = self.values.offset_of(attribute)?;
        out.byte(attribute.type_code());
        out.vbr(offset.into());
        Ok(())
    }
}

/// Reads the section in lockstep with the functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnotationReader<'a> {
    /// Position of the next function's record.
    pub(crate) records: Reader<'a>,
    values: Reader<'a>,
}

/// State of the file reader that annotations are decoded with.
pub(crate) struct AnnotationContext<'s, 'a> {
    pub(crate) strings: &'s mut StringsReader<'a>,
    pub(crate) locations: &'s mut LocationReader<'a>,
    pub(crate) budget: &'s mut Budget,
}

impl<'a> AnnotationReader<'a> {
    /// Opens the section of a file of `functions` functions, and reads the Module's attributes.
    pub(crate) fn open(
        mut section: Reader<'a>,
        functions: usize,
        context: &mut AnnotationContext<'_, 'a>,
    ) -> Result<(Self, Dictionary)> {
        let length = section.count(1)?;
        let (records, values) = section.split(length)?;
        let mut this = Self { records, values };
        let mut records = this.records;
        let attributes = this.dictionary(&mut records, context)?;
        let start = records;
        let found = records.vbr()?;
        if found != functions as u64 {
            return Err(start
                .error("the number of functions differs")
                .expected(functions)
                .found(found));
        }
        this.records = records;
        Ok((this, attributes))
    }

    /// The record of the next function; empty if it has no annotations.
    pub(crate) fn next(&mut self) -> Result<Reader<'a>> {
        let length = self.records.count(1)?;
        let (record, _) = self.records.split(length)?;
        self.records.take(length)?;
        Ok(record)
    }

    /// Reads the annotations of the next function and returns the record.
    pub(crate) fn function(
        &mut self,
        function: &mut Function,
        context: &mut AnnotationContext<'_, 'a>,
    ) -> Result<Reader<'a>> {
        let mut record = self.next()?;
        let whole = record;
        if record.remaining() == 0 {
            return Ok(whole);
        }
        function.attributes = self.dictionary(&mut record, context)?;
        if function.kind == FunctionKind::Native {
            function.location = context.locations.record(&mut record, context.budget)?;
        }
        function.return_location = context.locations.record(&mut record, context.budget)?;
        let costs = record.count(3)?;
        for _ in 0..costs {
            let start = record;
            let index = record.vbr()?;
            let cost = self.value(&mut record, context)?;
            let kernel = usize::try_from(index)
                .ok()
                .and_then(|index| function.kernels.get_mut(index))
                .ok_or_else(|| start.error("a cost without a kernel").found(index))?;
            let before = (kernel.attributes).partition_point(|(name, _)| &**name < COST_ATTRIBUTE);
            (kernel.attributes).insert(before, (COST_ATTRIBUTE.into(), cost));
        }
        Ok(whole)
    }

    fn dictionary(
        &self,
        record: &mut Reader<'a>,
        context: &mut AnnotationContext<'_, 'a>,
    ) -> Result<Dictionary> {
        let count = record.count(3)?;
        (context.budget).spend_on::<(Name, Attribute)>(count, 0)?;
        let mut dictionary = Vec::with_capacity(count);
        for _ in 0..count {
            let name = context.strings.text(record.vbr()?, context.budget)?;
            dictionary.push((name, self.value(record, context)?));
        }
        Ok(dictionary)
    }

    fn value(
        &self,
        record: &mut Reader<'a>,
        context: &mut AnnotationContext<'_, 'a>,
    ) -> Result<Attribute> {
        let type_code = record.byte()?;
        let offset = record.vbr()?;
        let value = self.values.at(offset)?;
        match type_code {
            code::UNIT => Ok(Attribute::Unit),
            code::FOREIGN => match read_attribute(value, DTYPE_STRING, context.budget)? {
                Attribute::String(text) => Ok(Attribute::Foreign(text.into())),
                other => Ok(other),
            },
            other => read_attribute(value, other, context.budget),
        }
    }
}

const DTYPE_STRING: u8 = crate::DType::String as u8;
