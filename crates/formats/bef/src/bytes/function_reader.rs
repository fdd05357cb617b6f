//! Decoding of one function into an owned value, checked in the same pass (bef 1.6).
//!
//! Use counts, used-by lists and stream ids are not decoded: an executor computes them from the
//! operands, so that wrong ones in a file are harmless.

use super::annotations::AnnotationContext;
use super::body::{Body, KernelRow, KernelSite};
use super::budget::Budget;
use super::index::{Entry, Index};
use super::location::LocationReader;
use super::lookup::{Lookup, MAX_PROBLEMS};
use super::section::{SectionId, Sections};
use super::steps::Steps;
use super::strings::StringsReader;
use super::wire::Reader;
use crate::streams::COST_ATTRIBUTE;
use crate::verify::{cost_problem, dictionary_problems, result_problems};
use crate::{Function, FunctionKind, Kernel, KernelLocation, Name, RegisterId};
use tenon_base::{Error, Result};

/// Placeholder of an unknown type.
const UNKNOWN_TYPE: &str = "none";

/// Decoder of the functions of one file.
pub(crate) struct FunctionReader<'f> {
    pub(super) lookup: &'f Lookup,
    index: &'f Index,
    functions: Reader<'f>,
    pub(super) attributes: Reader<'f>,
    pub(super) strings: StringsReader<'f>,
    locations: LocationReader<'f>,
    pub(super) budget: Budget,
    /// The registers of the function that are defined so far.
    pub(super) defined: Vec<bool>,
    table: Vec<KernelRow>,
    unknown_type: Name,
    /// Index of the last attribute in the table of attributes: the next attribute is often
    /// adjacent.
    pub(super) attribute_hint: usize,
    problems: Vec<Error>,
}

impl<'f> FunctionReader<'f> {
    pub(crate) fn new(
        sections: &Sections,
        bytes: &'f [u8],
        index: &'f Index,
        lookup: &'f Lookup,
        budget: Budget,
    ) -> Self {
        let reader = |id| sections.reader(id, bytes);
        Self {
            lookup,
            index,
            functions: reader(SectionId::Functions),
            attributes: reader(SectionId::Attributes),
            strings: StringsReader::new(reader(SectionId::Strings)),
            locations: LocationReader {
                locations: reader(SectionId::Locations),
                strings: StringsReader::new(reader(SectionId::LocationStrings)),
            },
            budget,
            defined: Vec::new(),
            table: Vec::new(),
            unknown_type: UNKNOWN_TYPE.into(),
            attribute_hint: 0,
            problems: Vec::new(),
        }
    }

    pub(crate) fn annotation_context(&mut self) -> AnnotationContext<'_, 'f> {
        AnnotationContext {
            strings: &mut self.strings,
            locations: &mut self.locations,
            budget: &mut self.budget,
        }
    }

    /// Decodes function `id`, whose data in other sections are at `steps`; advances `steps` to the
    /// next function.
    pub(crate) fn function(
        &mut self,
        id: usize,
        entry: &Entry,
        steps: &mut Steps<'f>,
    ) -> Result<Function> {
        let types = [
            self.index.argument_types(entry),
            self.index.result_types(entry),
        ];
        let [registers, result_types] = types.map(|types| self.type_names(types, entry));
        let (registers, result_types) = (registers?, result_types?);
        let mut function = Function {
            name: self.lookup.functions[id].to_string(),
            kind: entry.kind,
            arguments: registers.len() as u32,
            registers,
            result_types,
            ..Function::default()
        };
        if entry.kind == FunctionKind::Native {
            if function.is_region() {
                self.report(self.functions.error("a native function without a name"));
            }
        } else {
            self.body(id, &mut function, entry, steps)?;
        }
        if let Some(annotations) = &mut steps.annotations {
            let place = annotations.function(&mut function, &mut self.annotation_context())?;
            self.annotated(&function, place);
        }
        Error::from_all(std::mem::take(&mut self.problems)).map_or(Ok(function), Err)
    }

    /// Checks the annotations.
    fn annotated(&mut self, function: &Function, place: Reader<'f>) {
        if place.remaining() == 0 {
            return;
        }
        let mut problems = dictionary_problems(&function.attributes);
        if function.is_region() && !function.attributes.is_empty() {
            problems.push("a region with attributes".into());
        }
        for kernel in &function.kernels {
            problems.extend(cost_problem(&kernel.attributes).map(str::to_owned));
            let costs = (kernel.attributes.iter()).filter(|(name, _)| *name == COST_ATTRIBUTE);
            if costs.count() > 1 {
                problems.push(format!("attribute '{COST_ATTRIBUTE}' occurs twice"));
            }
        }
        for problem in problems {
            self.report(place.error(problem));
        }
    }

    /// The error of a function that cannot be decoded further: all problems so far, and `last`,
    /// which ended the decoding.
    pub(crate) fn problems(&mut self, last: Error) -> Error {
        let mut all = std::mem::take(&mut self.problems);
        all.push(last);
        Error::from_all(all).unwrap_or_else(|| self.functions.error("a malformed function"))
    }

    pub(super) fn report(&mut self, problem: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn type_names(&mut self, types: &[u32], entry: &Entry) -> Result<Vec<Name>> {
        self.budget.spend_on::<Name>(types.len(), 0)?;
        let name = |index: &u32| self.lookup.types.get(*index as usize).cloned();
        let names: Option<Vec<Name>> = types.iter().map(name).collect();
        names.ok_or_else(|| {
            let known = self.lookup.types.len();
            let error = self.functions.error("a type outside of the Types table");
            error.expected(format!("less than {known}")).found(format!(
                "{types:?} in the function index at byte {}",
                entry.place
            ))
        })
    }

    fn body(
        &mut self,
        id: usize,
        function: &mut Function,
        entry: &Entry,
        steps: &mut Steps<'f>,
    ) -> Result<()> {
        let section = self.functions.until(entry.body.end);
        let reader = section.at(entry.body.start as u64)?;
        let results = function.result_types.len();
        let mut table = std::mem::take(&mut self.table);
        let body = Body::read(reader, results, &mut table, &mut self.budget)?;
        self.location(body.location, &mut function.location);
        self.registers(function, body.registers, &reader, steps)?;
        steps.start_function(table.len())?;
        self.pseudo_kernel(function, &body, &table)?;
        self.budget.spend_on::<Kernel>(table.len() - 1, 0)?;
        function
            .kernels
            .resize_with(table.len() - 1, Kernel::default);
        for (row, kernel) in table[1..].iter().zip(&mut function.kernels) {
            let site = KernelSite {
                id,
                row,
                body: &body,
                record: body.record(row)?,
            };
            self.kernel(&site, steps, kernel)?;
        }
        self.table = table;
        self.results(
            function,
            body.results,
            &reader,
            steps.register_types.is_some(),
        );
        Ok(())
    }

    /// Decodes a location; a malformed one is reported and decoding continues.
    #[inline(always)]
    pub(super) fn location(&mut self, offset: u64, to: &mut KernelLocation) {
        if let Err(error) = self.locations.location(offset, &mut self.budget, to) {
            self.report(error);
        }
    }

    /// Sets the types of registers; arguments are defined before the first kernel.
    fn registers(
        &mut self,
        function: &mut Function,
        count: usize,
        place: &Reader<'f>,
        steps: &mut Steps<'f>,
    ) -> Result<()> {
        let arguments = function.arguments as usize;
        if count < arguments || u32::try_from(count).is_err() {
            let error = place.error("a function with fewer registers than arguments");
            return Err(error.expected(arguments).found(count));
        }
        self.defined.clear();
        self.defined.resize(count, false);
        self.defined[..arguments].fill(true);
        self.budget.spend_on::<Name>(count - arguments, 0)?;
        function.registers.reserve_exact(count - arguments);
        let Some(types) = &mut steps.register_types else {
            (function.registers).resize(count, self.unknown_type.clone());
            return Ok(());
        };
        let start = *types;
        let found = types.count(1)?;
        if found != count {
            let error = start.error("the number of registers differs");
            return Err(error.expected(count).found(found));
        }
        if self.short_types(function, count, types) {
            return Ok(());
        }
        for register in 0..count {
            let start = *types;
            let index = types.vbr()?;
            let Some(name) = usize::try_from(index)
                .ok()
                .and_then(|index| self.lookup.types.get(index))
            else {
                let error = start.error("a type outside of the Types table");
                let known = self.lookup.types.len();
                return Err(error.expected(format!("less than {known}")).found(index));
            };
            match function.registers.get(register) {
                None => function.registers.push(name.clone()),
                Some(argument) if argument == name => {}
                Some(argument) => {
                    let error =
                        start.error("an argument of another type than in the function index");
                    let error = error.expected(argument).found(name);
                    if self.problems.len() < MAX_PROBLEMS {
                        self.problems.push(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// The fast path of [`registers`](Self::registers): every index takes one byte and the
    /// arguments have the expected types. False if it does not apply; then nothing was read.
    fn short_types(&self, function: &mut Function, count: usize, types: &mut Reader<'f>) -> bool {
        let known = &self.lookup.types;
        let Some(indices) = types.ahead().get(..count) else {
            return false;
        };
        let largest = indices.iter().copied().max().unwrap_or(0);
        let (arguments, defined) = indices.split_at(function.registers.len());
        let name = |index: &u8| &known[usize::from(*index)];
        if largest >= 0x80
            || usize::from(largest) >= known.len()
            || !function.registers.iter().eq(arguments.iter().map(name))
        {
            return false;
        }
        function
            .registers
            .extend(defined.iter().map(|index| name(index).clone()));
        types.take(count).is_ok()
    }

    /// Checks that the pseudo kernel defines the register after the last one, then the arguments.
    fn pseudo_kernel(
        &mut self,
        function: &Function,
        body: &Body<'f>,
        table: &[KernelRow],
    ) -> Result<()> {
        let Some(row) = table.first() else {
            return Ok(());
        };
        let record = body.record(row)?;
        let registers = function.registers.len() as u32;
        let expected = std::iter::once(registers).chain(0..function.arguments);
        if !record.is_pseudo() || !record.results().eq(expected.clone()) {
            let error =
                (body.place(row)).error("the first kernel of a function is not the pseudo kernel");
            self.report(
                error
                    .expected(format!(
                        "one that defines {:?}",
                        expected.collect::<Vec<_>>()
                    ))
                    .found(format!(
                        "one that defines {:?}",
                        record.results().collect::<Vec<_>>()
                    )),
            );
        }
        Ok(())
    }

    /// Sets and checks the results, and checks that every register is defined.
    fn results(
        &mut self,
        function: &mut Function,
        results: Vec<RegisterId>,
        place: &Reader<'f>,
        typed: bool,
    ) {
        for (register, r#type) in results.iter().zip(&function.result_types) {
            let index = register.0 as usize;
            // Without RegisterTypes, at least the returned registers have a type.
            if !typed
                && index >= function.arguments as usize
                && let Some(unknown) = function.registers.get_mut(index)
            {
                unknown.clone_from(r#type);
            }
        }
        function.results = results;
        for register in (0u32..)
            .zip(&self.defined)
            .filter(|(_, defined)| !**defined)
        {
            if self.problems.len() < MAX_PROBLEMS {
                let error = place.error("a register that no kernel defines");
                self.problems.push(error.found(RegisterId(register.0)));
            }
        }
        for problem in result_problems(function) {
            self.report(place.error(problem));
        }
    }
}
