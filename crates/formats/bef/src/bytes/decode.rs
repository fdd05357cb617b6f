//! Decoding of the functions of a file, one by one or all into a Module.

use super::body::{Body, KernelRow};
use super::budget::Budget;
use super::file::File;
use super::function_reader::FunctionReader;
use super::index::Entry;
use super::lookup::{Lookup, MAX_PROBLEMS};
use super::section::SectionId;
use super::steps::{StepTable, Steps};
use crate::verify::{dictionary_problems, link_problems};
use crate::{Dictionary, Function, FunctionId, FunctionKind, Module, Streams};
use std::sync::atomic::Ordering;
use tenon_base::{Error, Location, Result};

/// Decodes and verifies the Module in `bytes`.
///
/// Without the optional sections, as in TFRT, attributes are called `attr0`, `attr1`, .. with the
/// value `0xdeadbeef : i32`, and registers have type `none` unless another section gives it.
///
/// # Errors
/// All problems of all functions, as far as the structure allows finding them, each with section
/// and byte.
pub fn decode(bytes: &[u8]) -> Result<Module> {
    File::open(bytes)?.module()
}

impl File<'_> {
    /// Decodes a function and verifies it by itself: registers, kernels and attributes are valid,
    /// and referenced functions exist.
    ///
    /// # Errors
    /// All problems of the function, or the id is out of range.
    pub fn function(&self, id: FunctionId) -> Result<Function> {
        let (lookup, table) = (self.lookup()?, self.step_table()?);
        let index = id.0 as usize;
        let known = self
            .index
            .entries
            .get(index)
            .zip(table.positions.get(index));
        let Some((entry, positions)) = known else {
            let error = self.section_error(SectionId::FunctionIndex, "no function of this number");
            return Err(error
                .expected(format!("less than {}", self.len()))
                .found(id.0));
        };
        let left = self.budget_left.load(Ordering::Relaxed);
        let mut reader = self.function_reader(lookup, self.budget(left));
        let mut steps = self.open_steps(&mut reader)?.0;
        steps.seek(*positions)?;
        let decoded = reader.function(index, entry, &mut steps);
        if !self.charged[index].swap(true, Ordering::Relaxed) {
            self.spend(left.saturating_sub(reader.budget.left()));
        }
        decoded
            .map_err(|error| reader.problems(error))
            .map_err(|error| at_function(error, &lookup.functions[index], index))
    }

    /// Decodes all functions.
    ///
    /// # Errors
    /// All problems of all functions, as far as the structure allows finding them, and those
    /// between functions.
    pub fn module(&self) -> Result<Module> {
        let lookup = self.lookup()?;
        let mut budget = Budget::for_file(self.bytes().len());
        budget.spend_on::<Function>(self.len(), 0)?;
        let mut reader = self.function_reader(lookup, budget);
        let (mut steps, attributes) = self.open_steps(&mut reader)?;
        let mut module = Module {
            attributes,
            functions: Vec::with_capacity(self.len()),
        };
        let mut problems = Vec::new();
        for (id, entry) in self.index.entries.iter().enumerate() {
            let before = steps;
            match reader.function(id, entry, &mut steps) {
                Ok(function) => module.functions.push(function),
                Err(error) => {
                    let error = reader.problems(error);
                    problems.push(at_function(error, &lookup.functions[id], id));
                    steps = before;
                    // The names of the next function cannot be located after a malformed one.
                    if problems.len() >= MAX_PROBLEMS || self.skip(entry, &mut steps).is_err() {
                        break;
                    }
                }
            }
        }
        if problems.is_empty() {
            let wrong = dictionary_problems(&module.attributes).into_iter();
            let section = SectionId::Annotations;
            problems.extend(wrong.map(|problem| self.section_error(section, &problem)));
            problems.extend(link_problems(&module));
        }
        Error::from_all(problems).map_or(Ok(module), Err)
    }

    /// The attributes of the Module.
    ///
    /// # Errors
    /// Malformed sections that are read in lockstep with functions.
    pub fn attributes(&self) -> Result<&Dictionary> {
        Ok(&self.step_table()?.attributes)
    }

    /// The streams of a function as stored in the file: its writer may have used information that
    /// the Module lacks.
    ///
    /// # Errors
    /// A malformed function, or none of this id with a body.
    pub fn streams(&self, id: FunctionId) -> Result<Streams> {
        let mut table = Vec::new();
        self.body_of(id, &mut table)?;
        let mut streams = table.iter().map(|row| {
            u32::try_from(row.stream).map_err(|_| {
                let error =
                    self.section_error(SectionId::Functions, "a stream of more than 32 bits");
                error.found(row.stream)
            })
        });
        Ok(Streams {
            root: streams.next().unwrap_or(Ok(0))?,
            kernels: streams.collect::<Result<_>>()?,
        })
    }

    fn step_table(&self) -> Result<&StepTable> {
        if let Some(table) = self.steps.get() {
            return Ok(table);
        }
        let mut reader = self.function_reader(self.lookup()?, Budget::for_file(self.bytes().len()));
        let (mut steps, attributes) = self.open_steps(&mut reader)?;
        let mut positions = Vec::with_capacity(self.len());
        for entry in &self.index.entries {
            positions.push(steps.positions());
            self.skip(entry, &mut steps)?;
        }
        Ok(self.steps.get_or_init(|| StepTable {
            positions,
            attributes,
        }))
    }

    /// Skips a function in the sections read in lockstep.
    fn skip<'f>(&'f self, entry: &Entry, steps: &mut Steps<'f>) -> Result<()> {
        if let Some(annotations) = &mut steps.annotations {
            annotations.next()?;
        }
        if entry.kind == FunctionKind::Native || !steps.has_names() {
            return Ok(());
        }
        let mut table = Vec::new();
        let body = self.body(entry, &mut table)?;
        let (mut attributes, mut references) = (0, 0);
        for row in &table[1..] {
            let record = body.record(row)?;
            attributes += record.attributes().len() as u64;
            references += record.functions().len() as u64;
        }
        steps.skip(table.len(), attributes, references)
    }

    /// The body of a function that has one, and its kernel table.
    pub(super) fn body_of(&self, id: FunctionId, table: &mut Vec<KernelRow>) -> Result<Body<'_>> {
        let entry = self.index.entries.get(id.0 as usize);
        let Some(entry) = entry.filter(|entry| entry.kind != FunctionKind::Native) else {
            let error = self.section_error(SectionId::FunctionIndex, "no function with a body");
            return Err(error.found(id.0));
        };
        self.body(entry, table)
    }

    fn body<'f>(&'f self, entry: &Entry, table: &mut Vec<KernelRow>) -> Result<Body<'f>> {
        let section = self.reader(SectionId::Functions);
        let reader = section.until(entry.body.end).at(entry.body.start as u64)?;
        let results = self.index.result_types(entry).len();
        let mut budget = Budget::for_file(self.bytes().len());
        Body::read(reader, results, table, &mut budget)
    }

    fn function_reader<'f>(&'f self, lookup: &'f Lookup, budget: Budget) -> FunctionReader<'f> {
        FunctionReader::new(&self.sections, self.bytes(), &self.index, lookup, budget)
    }

    fn open_steps<'f>(
        &'f self,
        reader: &mut FunctionReader<'f>,
    ) -> Result<(Steps<'f>, Dictionary)> {
        let context = &mut reader.annotation_context();
        Steps::open(&self.sections, self.bytes(), self.len(), context)
    }
}

/// Adds the function to the location of an error.
fn at_function(error: Error, name: &str, id: usize) -> Error {
    match name {
        "" => error.at(Location::node(format!("region {id}"))),
        name => error.at(Location::node(name)),
    }
}
