//! Decoding of one kernel of a function (bef 1.6).

use super::attribute_reader::read_attribute;
use super::body::KernelSite;
use super::function_reader::FunctionReader;
use super::references::inferred_names;
use super::steps::Steps;
use super::wire::Reader;
use crate::module::FEW_REGISTERS;
use crate::verify::{attribute_name_problem, cost_problem, reference_problem};
use crate::{Attribute, Dictionary, FunctionId, Kernel, Name, RegisterId, Registers};
use tenon_base::{Error, Result};

/// Placeholder of an attribute of unknown type (bef 1.8).
const UNKNOWN_ATTRIBUTE: Attribute = Attribute::I32(0xDEAD_BEEFu32 as i32);

impl<'f> FunctionReader<'f> {
    /// Decodes a kernel; problems are reported, and decoding continues with placeholders.
    ///
    /// The kernel is decoded in place: returned in a `Result` it would be copied in loads of other
    /// widths than its stores, which defeats store-to-load forwarding.
    #[inline(always)]
    pub(super) fn kernel(
        &mut self,
        site: &KernelSite<'_, 'f>,
        steps: &mut Steps<'f>,
        kernel: &mut Kernel,
    ) -> Result<()> {
        match self.lookup.kernels.get(site.record.code as usize) {
            Some(name) => kernel.name.clone_from(name),
            None => self.unknown_kernel(site),
        }
        self.location(site.record.location.into(), &mut kernel.location);
        self.operands(site, &mut kernel.operands)?;
        if site.record.attributes().len() > 0 {
            kernel.attributes = self.attribute_list(site, steps)?;
        }
        if site.record.functions().len() > 0 {
            kernel.functions = self.function_list(site, kernel, steps)?;
        }
        self.defined_registers(site, &mut kernel.results)
    }

    #[cold]
    fn unknown_kernel(&mut self, site: &KernelSite<'_, 'f>) {
        let error = site
            .place()
            .error("a kernel code outside of the Kernels table");
        let expected = format!("less than {}", self.lookup.kernels.len());
        self.report(error.expected(expected).found(site.record.code));
    }

    #[inline(always)]
    fn operands(&mut self, site: &KernelSite<'_, 'f>, to: &mut Registers) -> Result<()> {
        let operands = site.record.operands();
        let mut wrong = operands.len() as u64 != site.row.operands;
        for register in operands.clone() {
            wrong |= self.defined.get(register as usize) != Some(&true);
        }
        if wrong {
            self.wrong_operands(site);
        }
        self.register_list(operands, to)
    }

    #[cold]
    fn wrong_operands(&mut self, site: &KernelSite<'_, 'f>) {
        let (place, operands) = (site.place(), site.record.operands());
        if operands.len() as u64 != site.row.operands {
            let error = place.error("the number of operands differs from the kernel table");
            self.report(error.expected(site.row.operands).found(operands.len()));
        }
        for register in operands {
            match self.defined.get(register as usize) {
                Some(true) => {}
                Some(false) => self.report(
                    place
                        .error("a register that is used before its definition")
                        .found(RegisterId(register)),
                ),
                None => self.report(self.unknown_register(place, register)),
            }
        }
    }

    /// Each register is defined once.
    #[inline(always)]
    fn defined_registers(&mut self, site: &KernelSite<'_, 'f>, to: &mut Registers) -> Result<()> {
        let results = site.record.results();
        for register in results.clone() {
            match self.defined.get_mut(register as usize) {
                Some(defined) if !*defined => *defined = true,
                _ => self.wrong_result(site, register),
            }
        }
        self.register_list(results, to)
    }

    #[cold]
    fn wrong_result(&mut self, site: &KernelSite<'_, 'f>, register: u32) {
        let place = site.place();
        let problem = if (register as usize) < self.defined.len() {
            let error = place.error("a register that is defined a second time");
            error.found(RegisterId(register))
        } else {
            self.unknown_register(place, register)
        };
        self.report(problem);
    }

    /// A list of registers: stored inline if short, else charged to the budget.
    #[inline(always)]
    fn register_list(
        &mut self,
        list: impl ExactSizeIterator<Item = u32>,
        to: &mut Registers,
    ) -> Result<()> {
        if list.len() > FEW_REGISTERS {
            self.budget.spend_on::<RegisterId>(list.len(), 0)?;
            to.extend(list.map(RegisterId));
        } else {
            list.for_each(|register| to.push(RegisterId(register)));
        }
        Ok(())
    }

    fn unknown_register(&self, place: Reader<'f>, register: u32) -> Error {
        let error = place.error("a register outside of the register table");
        let expected = format!("less than {}", self.defined.len());
        error.expected(expected).found(register)
    }

    fn attribute_list(
        &mut self,
        site: &KernelSite<'_, 'f>,
        steps: &mut Steps<'f>,
    ) -> Result<Dictionary> {
        let count = site.record.attributes().len();
        self.budget.spend_on::<(Name, Attribute)>(count, 0)?;
        let mut attributes = Dictionary::with_capacity(count);
        for (position, offset) in site.record.attributes().enumerate() {
            let name = match &mut steps.attribute_names {
                Some(names) => self.strings.text(names.vbr()?, &mut self.budget)?,
                // Zero-padded, because attributes are sorted by name and must keep their order.
                None => format!("attr{position:0$}", (count - 1).to_string().len()).into(),
            };
            let last = attributes.last().map(|(last, _): &(Name, _)| last);
            if let Some(problem) = attribute_name_problem(last, &name) {
                self.report(site.place().error(problem));
            }
            let value = self.attribute(site, offset);
            attributes.push((name, value));
        }
        if let Some(problem) = cost_problem(&attributes) {
            self.report(site.place().error(problem));
        }
        Ok(attributes)
    }

    fn attribute(&mut self, site: &KernelSite<'_, 'f>, offset: u32) -> Attribute {
        let Some(types) = &self.lookup.attributes else {
            return UNKNOWN_ATTRIBUTE;
        };
        let next = self.attribute_hint + 1;
        let found = match types.get(next) {
            Some((at, _)) if *at == offset => Ok(next),
            _ => types.binary_search_by_key(&offset, |(offset, _)| *offset),
        };
        let Ok(found) = found else {
            let error = (site.place()).error("an attribute without an entry in AttributeTypes");
            self.report(error.found(offset));
            return UNKNOWN_ATTRIBUTE;
        };
        self.attribute_hint = found;
        let value = (self.attributes.at(offset.into()))
            .and_then(|reader| read_attribute(reader, types[found].1, &mut self.budget));
        match value {
            Ok(value) => {
                if value.number_type().is_none()
                    && let Some(problem) = value.problem()
                {
                    let error = site.place().error(problem);
                    self.report(error.found(format!("an attribute at {offset}")));
                }
                value
            }
            Err(error) => {
                self.report(error);
                UNKNOWN_ATTRIBUTE
            }
        }
    }

    /// The functions referenced by `kernel`, whose other parts are decoded.
    fn function_list(
        &mut self,
        site: &KernelSite<'_, 'f>,
        kernel: &Kernel,
        steps: &mut Steps<'f>,
    ) -> Result<Vec<(Name, FunctionId)>> {
        let (id, record) = (site.id, &site.record);
        let count = record.functions().len();
        self.budget.spend_on::<(Name, FunctionId)>(count, 0)?;
        let mut names = match &mut steps.reference_names {
            Some(names) => (0..count)
                .map(|_| self.strings.text(names.vbr()?, &mut self.budget))
                .collect::<Result<Vec<_>>>()?,
            None => {
                let is_region = |function: u32| self.is_region(function).unwrap_or(false);
                let regions: Vec<bool> = record.functions().map(is_region).collect();
                inferred_names(&kernel.name, &regions)
            }
        };
        let mut functions: Vec<(Name, FunctionId)> = Vec::with_capacity(count);
        for (function, name) in record.functions().zip(names.drain(..)) {
            let problem = match self.is_region(function) {
                None => Some("a function outside of the function index".into()),
                Some(true) if function as usize >= id => {
                    Some("a region that does not precede its function".into())
                }
                Some(region) => reference_problem(&functions, &name, region, &kernel.attributes),
            };
            if let Some(problem) = problem {
                self.report(site.place().error(problem).found(function));
            }
            functions.push((name, FunctionId(function)));
        }
        Ok(functions)
    }

    fn is_region(&self, function: u32) -> Option<bool> {
        let name = self.lookup.functions.get(function as usize)?;
        Some(name.is_empty())
    }
}
