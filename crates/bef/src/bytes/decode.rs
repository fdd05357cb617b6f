//! BEF bytes to a Module: owned and checked in one pass (facts 1.1 to 1.8).
//!
//! No length, offset or index of the file is trusted, and what the Module owns is bounded by the
//! file's size. Use counts, used-by lists and stream numbers are not kept: they follow from the
//! operands, and whoever needs them computes them.

use super::annotations::{AnnotationContext, AnnotationReader};
use super::attribute_reader::read_attribute;
use super::encode::PSEUDO_CODE;
use super::location::LocationReader;
use super::references::guessed_names;
use super::section::{SectionId, Sections};
use super::strings::StringsReader;
use super::wire::{Budget, Reader};
use crate::{
    Attribute, Function, FunctionId, FunctionKind, Kernel, Module, Name, RegisterId, verify,
};
use tenon_base::{Error, Location, Result};

/// The Module in `bytes`, verified.
///
/// A file without the optional sections reads as the original reads it: attributes are called
/// `attr0`, `attr1`, .. with the value `0xdeadbeef : i32`, and registers have type `none` where
/// nothing says more.
///
/// # Errors
/// The first malformed place, by section and byte; or all that [`verify`] finds.
pub fn decode(bytes: &[u8]) -> Result<Module> {
    let sections = Sections::read(bytes)?;
    let mut decoder = Decoder::new(&sections, Budget::for_file(bytes.len()))?;
    let entries = decoder.index(sections.reader(SectionId::FunctionIndex))?;
    let mut names = Names::new(&sections, entries.len())?;
    let mut module = Module::default();
    let mut annotations = None;
    if let Some(section) = sections.optional(SectionId::Annotations) {
        let context = &mut decoder.annotation_context();
        let (reader, attributes) = AnnotationReader::open(section, entries.len(), context)?;
        module.attributes = attributes;
        annotations = Some(reader);
    }
    decoder.regions = entries.iter().map(|entry| entry.name.is_empty()).collect();
    for entry in entries {
        let name = entry.name.clone();
        let at_function = |error: Error| error.at(Location::node(name.as_str()));
        let mut function = decoder.function(entry, &mut names).map_err(at_function)?;
        if let Some(annotations) = &mut annotations {
            (annotations.function(&mut function, &mut decoder.annotation_context()))
                .map_err(at_function)?;
        }
        module.functions.push(function);
    }
    verify(&module)?;
    Ok(module)
}

/// What stands in for an attribute whose type is not known.
const UNKNOWN_ATTRIBUTE: Attribute = Attribute::I32(0xDEAD_BEEFu32 as i32);

/// What stands in for a type that is not known.
const UNKNOWN_TYPE: &str = "none";

/// An entry of the function index.
struct Entry {
    kind: FunctionKind,
    offset: u64,
    name: Name,
    argument_types: Vec<Name>,
    result_types: Vec<Name>,
}

struct Decoder<'a> {
    strings: StringsReader<'a>,
    kernels: Vec<u64>,
    types: Vec<u64>,
    attributes: Reader<'a>,
    /// Offset and type of every attribute, sorted; `None` without the section.
    attribute_types: Option<Vec<(u64, u8)>>,
    functions: Reader<'a>,
    locations: LocationReader<'a>,
    /// Which functions are regions.
    regions: Vec<bool>,
    budget: Budget,
}

impl<'a> Decoder<'a> {
    fn new(sections: &Sections<'a>, budget: Budget) -> Result<Self> {
        let types = sections
            .optional(SectionId::AttributeTypes)
            .map(attribute_types);
        Ok(Self {
            strings: StringsReader::new(sections.reader(SectionId::Strings))?,
            kernels: offsets(sections.reader(SectionId::Kernels))?,
            types: offsets(sections.reader(SectionId::Types))?,
            attributes: sections.reader(SectionId::Attributes),
            attribute_types: types.transpose()?,
            functions: sections.reader(SectionId::Functions),
            locations: LocationReader {
                locations: sections.reader(SectionId::Locations),
                strings: StringsReader::new(sections.reader(SectionId::LocationStrings))?,
            },
            regions: Vec::new(),
            budget,
        })
    }

    fn annotation_context(&mut self) -> AnnotationContext<'_, 'a> {
        AnnotationContext {
            strings: &self.strings,
            locations: &self.locations,
            budget: &mut self.budget,
        }
    }

    fn index(&mut self, mut index: Reader<'a>) -> Result<Vec<Entry>> {
        // Kind, offset, name and two counts: five bytes at least.
        let count = index.count(5)?;
        self.budget.spend_on::<(Entry, Function)>(count, 0)?;
        (0..count).map(|_| self.entry(&mut index)).collect()
    }

    fn entry(&mut self, index: &mut Reader<'a>) -> Result<Entry> {
        let start = *index;
        let kind = match index.byte()? {
            0 => FunctionKind::Async,
            1 => FunctionKind::Native,
            2 => FunctionKind::Sync,
            kind => {
                return Err(start
                    .error("a function of an unknown kind")
                    .expected("0, 1 or 2")
                    .found(kind));
            }
        };
        let offset = index.vbr()?;
        let name = self.strings.text(index.vbr()?, &mut self.budget)?;
        let argument_types = self.type_list(index)?;
        let result_types = self.type_list(index)?;
        Ok(Entry {
            kind,
            offset,
            name,
            argument_types,
            result_types,
        })
    }

    fn type_list(&mut self, reader: &mut Reader<'a>) -> Result<Vec<Name>> {
        let count = reader.count(1)?;
        (0..count).map(|_| self.r#type(reader)).collect()
    }

    fn r#type(&mut self, reader: &mut Reader<'a>) -> Result<Name> {
        let start = *reader;
        let index = reader.vbr()?;
        let offset = usize::try_from(index)
            .ok()
            .and_then(|index| self.types.get(index));
        match offset {
            Some(offset) => self.strings.text(*offset, &mut self.budget),
            None => Err(start
                .error("a type outside of the Types table")
                .expected(format!("less than {}", self.types.len()))
                .found(index)),
        }
    }

    fn function(&mut self, entry: Entry, names: &mut Names<'a>) -> Result<Function> {
        let mut function = Function {
            name: entry.name.into(),
            kind: entry.kind,
            arguments: entry.argument_types.len() as u32,
            registers: entry.argument_types,
            result_types: entry.result_types,
            ..Function::default()
        };
        if function.kind != FunctionKind::Native {
            self.body(&mut function, entry.offset, names)?;
        }
        Ok(function)
    }

    fn body(&mut self, function: &mut Function, offset: u64, names: &mut Names<'a>) -> Result<()> {
        let mut reader = self.functions.at(offset)?;
        let location = reader.vbr()?;
        function.location = self.locations.location(location, &mut self.budget)?;
        let registers = self.registers(function, &mut reader, names)?;
        let table = kernel_table(&mut reader, &mut self.budget)?;
        names.start_function(table.len())?;
        for _ in 0..function.result_types.len() {
            let start = reader;
            let register = reader.vbr32()?;
            function
                .results
                .push(checked_register(register, registers, &start)?);
        }
        self.result_register_types(function, names);
        reader.align(4)?;
        pseudo_kernel(reader, function, &table)?;
        let list = reader.position() as u64;
        self.budget.spend_on::<Kernel>(table.len() - 1, 0)?;
        function.kernels.reserve_exact(table.len() - 1);
        for (offset, operands) in &table[1..] {
            let record = self.functions.at(list.saturating_add(*offset))?;
            let kernel = self.kernel(record, *operands, registers, names)?;
            function.kernels.push(kernel);
        }
        Ok(())
    }

    /// Reads the register table and fills in the types of registers.
    fn registers(
        &mut self,
        function: &mut Function,
        reader: &mut Reader<'a>,
        names: &mut Names<'a>,
    ) -> Result<usize> {
        let count = reader.count(1)?;
        if count < function.arguments as usize || u32::try_from(count).is_err() {
            return Err(reader
                .error("a function with fewer registers than arguments")
                .expected(function.arguments)
                .found(count));
        }
        for _ in 0..count {
            reader.vbr()?;
        }
        let arguments = function.registers.len();
        match &mut names.register_types {
            Some(types) => {
                let start = *types;
                if types.count(1)? != count {
                    return Err(start.error("another number of registers").expected(count));
                }
                function.registers.clear();
                self.budget.spend_on::<Name>(count, 0)?;
                for _ in 0..count {
                    function.registers.push(self.r#type(types)?);
                }
            }
            None => {
                self.budget
                    .spend_on::<Name>(count - arguments, UNKNOWN_TYPE.len())?;
                function.registers.resize(count, UNKNOWN_TYPE.into());
            }
        }
        Ok(count)
    }

    /// Without RegisterTypes, at least the returned registers have a type.
    fn result_register_types(&self, function: &mut Function, names: &Names<'a>) {
        if names.register_types.is_some() {
            return;
        }
        for (register, r#type) in function.results.iter().zip(&function.result_types) {
            let index = register.0 as usize;
            if index >= function.arguments as usize {
                function.registers[index].clone_from(r#type);
            }
        }
    }

    fn kernel(
        &mut self,
        mut record: Reader<'a>,
        operands: u64,
        registers: usize,
        names: &mut Names<'a>,
    ) -> Result<Kernel> {
        let start = record;
        let header = KernelHeader::read(&mut record)?;
        if header.operands as u64 != operands {
            return Err(start
                .error("another number of operands than in the kernel table")
                .expected(operands)
                .found(header.operands));
        }
        let Some(name) = self.kernels.get(header.code as usize) else {
            return Err(start
                .error("a kernel outside of the Kernels table")
                .expected(format!("less than {}", self.kernels.len()))
                .found(header.code));
        };
        let name = self.strings.text(*name, &mut self.budget)?;
        let location = self
            .locations
            .location(header.location.into(), &mut self.budget)?;
        self.budget
            .spend_on::<RegisterId>(header.operands + header.results, 0)?;
        let users = used_by_counts(&mut record, header.results)?;
        let operands = register_list(&mut record, header.operands, registers)?;
        let attributes = self.attribute_list(&mut record, header.attributes, names)?;
        let functions = self.function_list(&mut record, header.functions, &name, names)?;
        let results = register_list(&mut record, header.results, registers)?;
        let users = record.room_for(users, 4)?;
        record.take(4 * users)?;
        Ok(Kernel {
            name,
            operands: operands.into(),
            attributes,
            functions,
            results: results.into(),
            location,
        })
    }

    fn attribute_list(
        &mut self,
        record: &mut Reader<'a>,
        count: usize,
        names: &mut Names<'a>,
    ) -> Result<Vec<(Name, Attribute)>> {
        self.budget.spend_on::<(Name, Attribute)>(count, 0)?;
        let mut attributes = Vec::with_capacity(count);
        for position in 0..count {
            let attribute = self.attribute(record)?;
            let name = match &mut names.attributes {
                Some(names) => self.strings.text(names.vbr()?, &mut self.budget)?,
                // Padded, because attributes are sorted by name and must keep their order.
                None => format!("attr{position:0$}", (count - 1).to_string().len()).into(),
            };
            attributes.push((name, attribute));
        }
        Ok(attributes)
    }

    fn attribute(&mut self, record: &mut Reader<'a>) -> Result<Attribute> {
        let start = *record;
        let offset = u64::from(record.u32()?);
        let Some(types) = &self.attribute_types else {
            return Ok(UNKNOWN_ATTRIBUTE);
        };
        match types.binary_search_by_key(&offset, |(offset, _)| *offset) {
            Ok(index) => read_attribute(
                self.attributes.at(offset)?,
                types[index].1,
                &mut self.budget,
            ),
            Err(_) => Err(start
                .error("an attribute without an entry in AttributeTypes")
                .found(offset)),
        }
    }

    fn function_list(
        &mut self,
        record: &mut Reader<'a>,
        count: usize,
        kernel: &str,
        names: &mut Names<'a>,
    ) -> Result<Vec<(Name, FunctionId)>> {
        self.budget.spend_on::<(Name, FunctionId)>(count, 32)?;
        let mut ids = Vec::with_capacity(count);
        let mut regions = Vec::with_capacity(count);
        for _ in 0..count {
            let start = *record;
            let id = record.u32()?;
            let Some(region) = self.regions.get(id as usize) else {
                return Err(start
                    .error("a function outside of the function index")
                    .expected(format!("less than {}", self.regions.len()))
                    .found(id));
            };
            regions.push(*region);
            ids.push(FunctionId(id));
        }
        let names = match &mut names.references {
            Some(names) => (0..count)
                .map(|_| self.strings.text(names.vbr()?, &mut self.budget))
                .collect::<Result<Vec<_>>>()?,
            None => guessed_names(kernel, &regions),
        };
        Ok(names.into_iter().zip(ids).collect())
    }
}

/// The optional sections, read in step with the functions.
struct Names<'a> {
    attributes: Option<Reader<'a>>,
    references: Option<Reader<'a>>,
    register_types: Option<Reader<'a>>,
}

impl<'a> Names<'a> {
    fn new(sections: &Sections<'a>, functions: usize) -> Result<Self> {
        let open = |id| -> Result<Option<Reader<'a>>> {
            let Some(mut reader) = sections.optional(id) else {
                return Ok(None);
            };
            let start = reader;
            let found = reader.vbr()?;
            if found != functions as u64 {
                return Err(start
                    .error("another number of functions")
                    .expected(functions)
                    .found(found));
            }
            Ok(Some(reader))
        };
        Ok(Self {
            attributes: open(SectionId::AttributeNames)?,
            references: open(SectionId::FunctionReferenceNames)?,
            register_types: open(SectionId::RegisterTypes)?,
        })
    }

    /// Both sections of names repeat the number of kernels before a function's names.
    fn start_function(&mut self, kernels: usize) -> Result<()> {
        for section in [&mut self.attributes, &mut self.references]
            .into_iter()
            .flatten()
        {
            let start = *section;
            let found = section.vbr()?;
            if found != kernels as u64 {
                return Err(start
                    .error("another number of kernels")
                    .expected(kernels)
                    .found(found));
            }
        }
        Ok(())
    }
}

/// The fixed part of a kernel record.
struct KernelHeader {
    code: u32,
    location: u32,
    operands: usize,
    attributes: usize,
    functions: usize,
    results: usize,
}

impl KernelHeader {
    /// The counts are checked together: every operand, attribute and function takes four bytes,
    /// every result eight.
    fn read(record: &mut Reader<'_>) -> Result<Self> {
        let (code, location) = (record.u32()?, record.u32()?);
        let mut count = || record.u32().map(u64::from);
        let (operands, attributes, functions, results) = (count()?, count()?, count()?, count()?);
        record.room_for(operands + attributes + functions + 2 * results, 4)?;
        Ok(Self {
            code,
            location,
            operands: operands as usize,
            attributes: attributes as usize,
            functions: functions as usize,
            results: results as usize,
        })
    }
}

/// A table of string offsets (Kernels, Types).
fn offsets(mut reader: Reader<'_>) -> Result<Vec<u64>> {
    let count = reader.count(1)?;
    (0..count).map(|_| reader.vbr()).collect()
}

fn attribute_types(mut reader: Reader<'_>) -> Result<Vec<(u64, u8)>> {
    let count = reader.count(2)?;
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = reader.vbr()?;
        let start = reader;
        let code = u8::try_from(reader.vbr()?)
            .map_err(|_| start.error("an attribute type of more than 8 bits"))?;
        types.push((offset, code));
    }
    types.sort_by_key(|(offset, _)| *offset);
    Ok(types)
}

/// Offset and number of operands of every kernel, the pseudo kernel first.
fn kernel_table(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Vec<(u64, u64)>> {
    let start = *reader;
    let count = reader.count(3)?;
    if count == 0 {
        return Err(start.error("a function without the pseudo kernel"));
    }
    budget.spend_on::<(u64, u64)>(count, 0)?;
    let mut table = Vec::with_capacity(count);
    for _ in 0..count {
        let (offset, operands, _stream) = (reader.vbr()?, reader.vbr()?, reader.vbr()?);
        table.push((offset, operands));
    }
    Ok(table)
}

/// Checks that the pseudo kernel makes the register behind the last one, then the arguments.
fn pseudo_kernel(list: Reader<'_>, function: &Function, table: &[(u64, u64)]) -> Result<()> {
    let Some((offset, _)) = table.first() else {
        return Ok(());
    };
    let mut record = list.at((list.position() as u64).saturating_add(*offset))?;
    let start = record;
    let header = KernelHeader::read(&mut record)?;
    let arguments = function.arguments as usize;
    let plain = header.operands + header.attributes + header.functions == 0;
    if header.code != PSEUDO_CODE || !plain || header.results != arguments + 1 {
        return Err(start.error("the first kernel of a function is not the pseudo kernel"));
    }
    used_by_counts(&mut record, header.results)?;
    let expected = std::iter::once(function.registers.len() as u64).chain(0..arguments as u64);
    for expected in expected {
        let found = record.u32()?;
        if u64::from(found) != expected {
            return Err(start
                .error("the pseudo kernel makes another register")
                .expected(expected)
                .found(found));
        }
    }
    Ok(())
}

/// Skips the number of users of every result, and answers their sum.
fn used_by_counts(record: &mut Reader<'_>, results: usize) -> Result<u64> {
    (0..results).try_fold(0, |sum, _| Ok(sum + u64::from(record.u32()?)))
}

fn register_list(
    record: &mut Reader<'_>,
    count: usize,
    registers: usize,
) -> Result<Vec<RegisterId>> {
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let start = *record;
        list.push(checked_register(record.u32()?, registers, &start)?);
    }
    Ok(list)
}

fn checked_register(register: u32, registers: usize, place: &Reader<'_>) -> Result<RegisterId> {
    if (register as usize) < registers {
        return Ok(RegisterId(register));
    }
    Err(place
        .error("a register outside of the register table")
        .expected(format!("less than {registers}"))
        .found(register))
}
