//! The sections that are read in lockstep with the functions: names, register types, annotations.

use super::annotations::{AnnotationContext, AnnotationReader};
use super::section::{SectionId, Sections};
use super::wire::Reader;
use crate::Dictionary;
use tenon_base::Result;

/// Readers of those sections, each at the data of one function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) attribute_names: Option<Reader<'a>>,
    pub(crate) reference_names: Option<Reader<'a>>,
    pub(crate) register_types: Option<Reader<'a>>,
    pub(crate) annotations: Option<AnnotationReader<'a>>,
}

impl<'a> Steps<'a> {
    /// Opens the sections at the first of `functions` functions, and reads the Module's attributes.
    pub(crate) fn open(
        sections: &Sections,
        bytes: &'a [u8],
        functions: usize,
        context: &mut AnnotationContext<'_, 'a>,
    ) -> Result<(Self, Dictionary)> {
        let open = |id| -> Result<Option<Reader<'a>>> {
            let Some(mut reader) = sections.optional(id, bytes) else {
                return Ok(None);
            };
            let start = reader;
            let found = reader.vbr()?;
            if found != functions as u64 {
                let error = start.error("the number of functions differs");
                return Err(error.expected(functions).found(found));
            }
            Ok(Some(reader))
        };
        let mut attributes = Dictionary::new();
        let mut annotations = None;
        if let Some(section) = sections.optional(SectionId::Annotations, bytes) {
            let (reader, dictionary) = AnnotationReader::open(section, functions, context)?;
            (annotations, attributes) = (Some(reader), dictionary);
        }
        let this = Self {
            attribute_names: open(SectionId::AttributeNames)?,
            reference_names: open(SectionId::FunctionReferenceNames)?,
            register_types: open(SectionId::RegisterTypes)?,
            annotations,
        };
        Ok((this, attributes))
    }

    /// Both sections of names repeat the number of kernels before a function's names.
    pub(crate) fn start_function(&mut self, kernels: usize) -> Result<()> {
        for section in [&mut self.attribute_names, &mut self.reference_names] {
            let Some(section) = section else { continue };
            let start = *section;
            let found = section.vbr()?;
            if found != kernels as u64 {
                let error = start.error("the number of kernels differs");
                return Err(error.expected(kernels).found(found));
            }
        }
        Ok(())
    }

    /// The positions of the readers.
    pub(crate) fn positions(&self) -> [usize; 4] {
        let position = |reader: Option<Reader<'a>>| reader.map_or(0, |reader| reader.position());
        let annotations = self.annotations.map(|annotations| annotations.records);
        [
            position(self.attribute_names),
            position(self.reference_names),
            position(self.register_types),
            position(annotations),
        ]
    }

    /// Moves the readers to positions.
    pub(crate) fn seek(
        &mut self,
        [names, references, types, annotations]: [usize; 4],
    ) -> Result<()> {
        let readers = [
            (self.attribute_names.as_mut(), names),
            (self.reference_names.as_mut(), references),
            (self.register_types.as_mut(), types),
            (
                self.annotations.as_mut().map(|a| &mut a.records),
                annotations,
            ),
        ];
        for (reader, position) in readers {
            if let Some(reader) = reader {
                *reader = reader.at(position as u64)?;
            }
        }
        Ok(())
    }

    /// Whether skipping a function requires counting its attributes and registers.
    pub(crate) fn has_names(&self) -> bool {
        let names = [
            self.attribute_names,
            self.reference_names,
            self.register_types,
        ];
        names.iter().any(Option::is_some)
    }

    /// Skips a function with a body: `attributes` and `references` names.
    pub(crate) fn skip(&mut self, kernels: usize, attributes: u64, references: u64) -> Result<()> {
        self.start_function(kernels)?;
        for (section, count) in [
            (&mut self.attribute_names, attributes),
            (&mut self.reference_names, references),
        ] {
            let Some(section) = section else { continue };
            let count = section.bounded_count(count, 1)?;
            section.skip_vbrs(count)?;
        }
        if let Some(types) = &mut self.register_types {
            let count = types.count(1)?;
            types.skip_vbrs(count)?;
        }
        Ok(())
    }
}

/// Positions of [`Steps`], by function.
pub(super) struct StepTable {
    pub(super) positions: Vec<[usize; 4]>,
    pub(super) attributes: Dictionary,
}
