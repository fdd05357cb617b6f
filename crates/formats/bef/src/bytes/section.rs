//! The sections of a BEF file (bef 1.1, 1.2).

use super::wire::{PADDING, Reader, Writer, vbr_length};
use std::ops::Range;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Magic number and format version.
pub(crate) const HEADER: [u8; 3] = [0x0B, 0xEF, 0x00];

macro_rules! sections {
    ($($name:ident = $id:literal,)*) => {
        /// The known sections, by their id in the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum SectionId {
            $($name = $id,)*
        }

        impl SectionId {
            fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($id => Some(SectionId::$name),)*
                    _ => None,
                }
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(SectionId::$name => stringify!($name),)* }
            }
        }
    };
}

sections! {
    Strings = 0,
    Attributes = 1,
    Kernels = 2,
    Types = 3,
    FunctionIndex = 4,
    Functions = 5,
    LocationStrings = 6,
    Locations = 7,
    AttributeTypes = 8,
    AttributeNames = 9,
    RegisterTypes = 10,
    // Tenon's own, with the layout of AttributeNames: the names of function references that a
    // reader cannot infer. Other readers skip unknown ids.
    FunctionReferenceNames = 0x74,
    // Tenon's own: see `annotations`.
    Annotations = 0x75,
}

/// Appends a section. Its alignment is flagged only if the body would not be aligned otherwise.
pub(crate) fn write_section(file: &mut Writer, id: SectionId, body: &[u8], alignment: usize) {
    let length = (body.len() as u64) << 1;
    file.byte(id as u8);
    let unflagged = file.position() + vbr_length(length);
    if alignment > 1 && !unflagged.is_multiple_of(alignment) {
        file.vbr(length | 1);
        file.byte(alignment as u8);
        while !file.position().is_multiple_of(alignment) {
            file.byte(PADDING);
        }
    } else {
        file.vbr(length);
    }
    file.raw(body);
}

/// The ranges of the sections of a file, by id.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    found: Vec<(SectionId, Range<usize>)>,
}

impl Sections {
    /// Splits `bytes` into sections by their headers; unknown sections are skipped.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        check_header(bytes)?;
        let mut file = Reader::new("header", 0, bytes);
        file.take(HEADER.len())?;
        let mut sections = Self::default();
        while file.remaining() > 0 {
            let start = file;
            let id = file.byte()?;
            let length = file.vbr()?;
            if length & 1 == 1 {
                let alignment = file.byte()?;
                if !alignment.is_power_of_two() {
                    return Err(start
                        .error("the alignment is not a power of two")
                        .found(alignment));
                }
                file.align(alignment.into())?;
            }
            let length = file.bounded_count(length >> 1, 1)?;
            let body = file.position()..file.position() + length;
            file.take(length)?;
            let Some(id) = SectionId::from_byte(id) else {
                continue;
            };
            if sections.range(id).is_some() {
                return Err(start.error(format!("section {} occurs twice", id.name())));
            }
            sections.found.push((id, body));
        }
        sections.require()?;
        Ok(sections)
    }

    fn require(&self) -> Result<()> {
        use SectionId::{FunctionIndex, Functions, Kernels, Strings, Types};
        let missing = [Strings, Kernels, Types, FunctionIndex, Functions]
            .into_iter()
            .filter(|id| self.range(*id).is_none())
            .map(|id| {
                Error::new(
                    ErrorKind::InvalidProgram,
                    format!("section {} is missing", id.name()),
                )
            });
        Error::from_all(missing).map_or(Ok(()), Err)
    }

    fn range(&self, id: SectionId) -> Option<Range<usize>> {
        let (_, range) = self.found.iter().find(|(found, _)| *found == id)?;
        Some(range.clone())
    }

    /// A reader of section `id` of the file `bytes`, if the file has it.
    pub(crate) fn optional<'a>(&self, id: SectionId, bytes: &'a [u8]) -> Option<Reader<'a>> {
        let range = self.range(id)?;
        let body = bytes.get(range.clone())?;
        Some(Reader::new(id.name(), range.start, body))
    }

    /// A reader of section `id`, empty if the file lacks it.
    pub(crate) fn reader<'a>(&self, id: SectionId, bytes: &'a [u8]) -> Reader<'a> {
        self.optional(id, bytes)
            .unwrap_or(Reader::new(id.name(), 0, &[]))
    }
}

fn check_header(bytes: &[u8]) -> Result<()> {
    let error = |kind, message: &str| Err(Error::new(kind, message).at(Location::offset(0)));
    match bytes {
        [] => error(ErrorKind::InvalidProgram, "BEF file is empty"),
        [0x0B, 0xEF, 0x00, ..] => Ok(()),
        [0x0B, 0xEF, version, ..] => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            "a BEF format version this build does not know",
        )
        .expected(0)
        .found(version)
        .at(Location::offset(2))),
        _ => error(
            ErrorKind::InvalidProgram,
            "not a BEF file: it does not start with 0B EF",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(prefix: usize, alignment: usize) -> Vec<u8> {
        let mut file = Writer::new();
        file.raw(&vec![0; prefix]);
        write_section(&mut file, SectionId::Functions, &[1, 2], alignment);
        file.bytes
    }

    #[test]
    fn alignment_is_flagged_only_when_needed() {
        assert_eq!(file_with(2, 4), [0, 0, 5, 4, 1, 2], "already aligned");
        assert_eq!(
            file_with(1, 4),
            [0, 5, 5, 4, 1, 2],
            "flag, alignment byte, no padding"
        );
        assert_eq!(file_with(0, 4), [5, 5, 4, PADDING, 1, 2]);
        assert_eq!(file_with(3, 1), [0, 0, 0, 5, 4, 1, 2]);
    }

    #[test]
    fn the_header_is_checked_first() {
        let message = |bytes: &[u8]| Sections::read(bytes).unwrap_err().to_string();
        assert_eq!(message(&[]), "byte 0: BEF file is empty");
        assert_eq!(
            message(b"ELF"),
            "byte 0: not a BEF file: it does not start with 0B EF"
        );
        assert_eq!(
            Sections::read(&[0x0B, 0xEF, 7]).unwrap_err().kind(),
            ErrorKind::UnsupportedVersion
        );
        assert!(message(&HEADER).contains("section Functions is missing"));
    }

    #[test]
    fn unknown_sections_are_skipped_and_duplicates_refused() {
        let mut file = Writer::new();
        file.raw(&HEADER);
        file.raw(&[99, 4, 1, 2]);
        for id in [0u8, 2, 3, 4, 5] {
            file.raw(&[id, 0]);
        }
        assert!(Sections::read(&file.bytes).is_ok());
        file.raw(&[5, 0]);
        let error = Sections::read(&file.bytes).unwrap_err().to_string();
        assert!(error.ends_with("section Functions occurs twice"), "{error}");
    }
}
