//! Encoding of a Module as BEF, in the order and with the sharing of TFRT's writer (bef 1.2, 1.3,
//! 1.4, 1.5, 1.6, 1.7, 1.8).

use super::annotations::{AnnotationWriter, has_annotations};
use super::attribute_writer::AttributeSection;
use super::location::LocationWriter;
use super::references::inferred_names;
use super::section::{HEADER, SectionId, write_section};
use super::strings::StringOffsets;
use super::tables::{Tables, written_attributes};
use super::wire::Writer;
use crate::{Function, FunctionKind, Kernel, Module, verify};
use tenon_base::{Error, ErrorKind, Location, Result};

/// Options of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Whether to write AttributeTypes, AttributeNames and RegisterTypes. Kernels that know the
    /// types of their attributes execute without these sections, but a Module does not round-trip.
    pub optional_sections: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            optional_sections: true,
        }
    }
}

/// Verifies `module` and encodes it. Equal modules give equal bytes.
///
/// # Errors
/// All problems found by [`verify`], and sizes that the format cannot represent.
pub fn encode(module: &Module, options: &EncodeOptions) -> Result<Vec<u8>> {
    verify(module)?;
    storable(module)?;
    let tables = Tables::collect(module, options.optional_sections);
    let named = options.optional_sections && !guessable(module);
    let annotated = options.optional_sections && has_annotations(module);
    let (string_bytes, strings) = tables.strings(module, named, annotated).finish();
    let mut encoder = Encoder {
        module,
        options,
        strings: &strings,
        tables: &tables,
        attributes: AttributeSection::default(),
        locations: LocationWriter::default(),
        index: Writer::new(),
        functions: Writer::new(),
    };
    // Distinct attributes are in the order of the traversal that orders kernels and types.
    for attribute in &tables.attributes {
        encoder.attributes.offset_of(attribute)?;
    }
    encoder.index.vbr(module.functions.len() as u64);
    for function in &module.functions {
        encoder.function(function)?;
    }
    let annotations = annotated.then(|| encoder.annotations(module)).transpose()?;
    encoder.finish(module, &string_bytes, named, annotations)
}

/// Checks that BEF can encode the attributes of all kernels.
fn storable(module: &Module) -> Result<()> {
    let kernels = (module.functions.iter()).flat_map(|function| {
        (0..)
            .zip(&function.kernels)
            .map(move |pair| (function, pair))
    });
    let problems = kernels.flat_map(|(function, (index, kernel))| {
        let foreign = written_attributes(kernel).filter(|(_, value)| !value.is_storable());
        foreign.map(move |(name, _)| {
            let message = format!("BEF files cannot encode the '{name}' attribute");
            let place = kernel_place(function, index, kernel);
            Error::new(ErrorKind::Unsupported, message).at(place)
        })
    });
    Error::from_all(problems).map_or(Ok(()), Err)
}

fn kernel_place(function: &Function, index: usize, kernel: &Kernel) -> Location {
    let (function, kernel) = (function.name.as_str(), kernel.name.escape_debug());
    Location::field(format!("@{function}: kernel {index} '{kernel}'"))
}

/// Whether a reader infers the names of all function references correctly.
fn guessable(module: &Module) -> bool {
    let kernels = module
        .functions
        .iter()
        .flat_map(|function| &function.kernels);
    kernels
        .filter(|kernel| !kernel.functions.is_empty())
        .all(|kernel| {
            let regions: Vec<bool> = kernel
                .functions
                .iter()
                .map(|(name, _)| name.is_empty())
                .collect();
            let names = kernel.functions.iter().map(|(name, _)| name);
            inferred_names(&kernel.name, &regions).iter().eq(names)
        })
}

/// The sections under construction.
pub(super) struct Encoder<'a> {
    pub(super) module: &'a Module,
    options: &'a EncodeOptions,
    pub(super) strings: &'a StringOffsets<'a>,
    pub(super) tables: &'a Tables<'a>,
    pub(super) attributes: AttributeSection,
    pub(super) locations: LocationWriter,
    pub(super) index: Writer,
    pub(super) functions: Writer,
}

impl Encoder<'_> {
    fn annotations(&mut self, module: &Module) -> Result<Vec<u8>> {
        let writer = AnnotationWriter {
            strings: self.strings,
            locations: &mut self.locations,
            values: AttributeSection::default(),
        };
        writer.section(module)
    }

    fn finish(
        self,
        module: &Module,
        strings: &[u8],
        named: bool,
        annotations: Option<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let mut file = Writer::new();
        let attributes = &self.attributes.body.writer;
        file.raw(&HEADER);
        write_section(&mut file, SectionId::Strings, strings, 1);
        let alignment = attributes.alignment.max(1);
        write_section(
            &mut file,
            SectionId::Attributes,
            &attributes.bytes,
            alignment,
        );
        let kernels = self.tables.kernel_section(self.strings)?;
        write_section(&mut file, SectionId::Kernels, &kernels, 1);
        write_section(
            &mut file,
            SectionId::Types,
            &self.tables.type_section(self.strings)?,
            1,
        );
        write_section(&mut file, SectionId::FunctionIndex, &self.index.bytes, 1);
        write_section(&mut file, SectionId::Functions, &self.functions.bytes, 4);
        let locations = &self.locations.locations.bytes;
        if !(locations.is_empty() && self.locations.strings.is_empty()) {
            write_section(
                &mut file,
                SectionId::LocationStrings,
                &self.locations.strings,
                1,
            );
            write_section(&mut file, SectionId::Locations, locations, 1);
        }
        if self.options.optional_sections {
            self.optional_sections(&mut file, module)?;
        }
        if named {
            let names = self.names(module, |kernel| {
                kernel
                    .functions
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect()
            })?;
            write_section(&mut file, SectionId::FunctionReferenceNames, &names, 1);
        }
        if let Some(annotations) = annotations {
            write_section(&mut file, SectionId::Annotations, &annotations, 1);
        }
        Ok(file.bytes)
    }

    fn optional_sections(&self, file: &mut Writer, module: &Module) -> Result<()> {
        let mut types = Writer::new();
        types.vbr(self.attributes.entries.len() as u64);
        for (offset, type_code) in &self.attributes.entries {
            types.vbr((*offset).into());
            types.vbr((*type_code).into());
        }
        write_section(file, SectionId::AttributeTypes, &types.bytes, 1);
        let names = self.names(module, |kernel| {
            written_attributes(kernel)
                .map(|(name, _)| name.as_str())
                .collect()
        })?;
        write_section(file, SectionId::AttributeNames, &names, 1);
        let mut registers = Writer::new();
        registers.vbr(module.functions.len() as u64);
        for function in with_bodies(module) {
            registers.vbr(function.registers.len() as u64);
            for r#type in &function.registers {
                registers.vbr(self.tables.type_index(r#type)?);
            }
        }
        write_section(file, SectionId::RegisterTypes, &registers.bytes, 1);
        Ok(())
    }

    /// A section of names: for each function with a body the number of kernels, the pseudo kernel
    /// included, followed by the names of each.
    fn names<'k>(
        &self,
        module: &'k Module,
        names: impl Fn(&'k Kernel) -> Vec<&'k str>,
    ) -> Result<Vec<u8>> {
        let mut out = Writer::new();
        out.vbr(module.functions.len() as u64);
        for function in with_bodies(module) {
            out.vbr(function.kernels.len() as u64 + 1);
            for name in function.kernels.iter().flat_map(&names) {
                out.vbr(self.strings.of(name)?);
            }
        }
        Ok(out.bytes)
    }
}

fn with_bodies(module: &Module) -> impl Iterator<Item = &Function> {
    module
        .functions
        .iter()
        .filter(|function| function.kind != FunctionKind::Native)
}
