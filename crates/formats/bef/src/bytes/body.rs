//! The structure of a function's body: tables and records, not yet decoded (bef 1.6).

use super::budget::Budget;
use super::wire::Reader;
use crate::RegisterId;
use tenon_base::{Error, Result};

/// The code of the pseudo kernel, the first kernel of every function.
pub(crate) const PSEUDO_CODE: u32 = 0xABAB_ABAB;

/// The part of a body before its kernels.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// An offset into Locations.
    pub(crate) location: u64,
    /// Number of registers.
    pub(crate) registers: usize,
    pub(crate) results: Vec<RegisterId>,
    /// Reader at the use counts of the registers.
    pub(crate) use_counts: Reader<'a>,
    /// The function from its first kernel on.
    kernels: Reader<'a>,
}

/// A row of the kernel table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelRow {
    /// Offset of the record from that of the first kernel.
    offset: u64,
    pub(crate) operands: u64,
    pub(crate) stream: u64,
}

impl<'a> Body<'a> {
    /// Reads the part before the kernels; `table` is filled with a row per kernel, the pseudo
    /// kernel first.
    pub(crate) fn read(
        mut reader: Reader<'a>,
        results: usize,
        table: &mut Vec<KernelRow>,
        budget: &mut Budget,
    ) -> Result<Self> {
        let location = reader.vbr()?;
        let registers = reader.count(1)?;
        let use_counts = reader;
        reader.skip_vbrs(registers)?;
        let start = reader;
        let kernels = reader.count(3)?;
        if kernels == 0 {
            return Err(start.error("a function without the pseudo kernel"));
        }
        budget.spend_on::<KernelRow>(kernels, 0)?;
        table.clear();
        table.reserve(kernels);
        for _ in 0..kernels {
            table.push(KernelRow {
                offset: reader.vbr()?,
                operands: reader.vbr()?,
                stream: reader.vbr()?,
            });
        }
        let results = reader.bounded_count(results as u64, 1)?;
        budget.spend_on::<RegisterId>(results, 0)?;
        let results = (0..results)
            .map(|_| reader.vbr32().map(RegisterId))
            .collect::<Result<Vec<_>>>()?;
        reader.align(4)?;
        Ok(Self {
            location,
            registers,
            results,
            use_counts,
            kernels: reader,
        })
    }

    /// The record of a kernel.
    #[inline(always)]
    pub(crate) fn record(&self, row: &KernelRow) -> Result<Record<'a>> {
        let list = self.kernels.ahead();
        let ahead = usize::try_from(row.offset).map(|offset| list.get(offset..));
        match ahead {
            Ok(Some(ahead)) => Record::read(ahead).ok_or_else(|| self.bad_record(row)),
            _ => Err(self.bad_record(row)),
        }
    }

    /// The position of a kernel's record, for errors.
    #[cold]
    pub(crate) fn place(&self, row: &KernelRow) -> Reader<'a> {
        let list = self.kernels.position() as u64;
        let record = self.kernels.at(list.saturating_add(row.offset));
        record.unwrap_or(self.kernels)
    }

    #[cold]
    fn bad_record(&self, row: &KernelRow) -> Error {
        let list = self.kernels.position() as u64;
        match self.kernels.at(list.saturating_add(row.offset)) {
            Err(error) => error,
            Ok(place) => {
                let error = place.error("a kernel that is longer than its function");
                let (words, _) = place.ahead().as_chunks::<4>();
                match words.get(2..6) {
                    Some(counts) => error.found(format!(
                        "{:?} operands, attributes, functions and results",
                        words_of(counts).collect::<Vec<_>>()
                    )),
                    None => error.found(format!("{} bytes", place.remaining())),
                }
            }
        }
    }
}

/// The record of a kernel, split into its lists of words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) code: u32,
    pub(crate) location: u32,
    operands: &'a [[u8; 4]],
    attributes: &'a [[u8; 4]],
    functions: &'a [[u8; 4]],
    results: &'a [[u8; 4]],
    used_by_counts: &'a [[u8; 4]],
    used_by: &'a [[u8; 4]],
}

/// The words of a list.
#[inline(always)]
fn words_of<'a>(list: &'a [[u8; 4]]) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
    list.iter().map(|word| u32::from_le_bytes(*word))
}

impl<'a> Record<'a> {
    /// Splits `ahead`; `None` if it is shorter than its counts require.
    #[inline(always)]
    fn read(ahead: &'a [u8]) -> Option<Self> {
        let (all, _) = ahead.as_chunks::<4>();
        let (header, rest) = all.split_first_chunk::<6>()?;
        let [code, location, operands, attributes, functions, results] =
            header.map(u32::from_le_bytes);
        let (used_by_counts, rest) = rest.split_at_checked(results as usize)?;
        let (operands, rest) = rest.split_at_checked(operands as usize)?;
        let (attributes, rest) = rest.split_at_checked(attributes as usize)?;
        let (functions, rest) = rest.split_at_checked(functions as usize)?;
        let (results, rest) = rest.split_at_checked(results as usize)?;
        let used_by: u64 = words_of(used_by_counts).map(u64::from).sum();
        Some(Self {
            code,
            location,
            operands,
            attributes,
            functions,
            results,
            used_by_counts,
            used_by: rest.get(..usize::try_from(used_by).ok()?)?,
        })
    }

    /// Whether it is a valid pseudo kernel.
    pub(crate) fn is_pseudo(&self) -> bool {
        self.code == PSEUDO_CODE
            && self.operands.is_empty()
            && self.attributes.is_empty()
            && self.functions.is_empty()
    }

    /// The registers it uses.
    #[inline(always)]
    pub(crate) fn operands(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        words_of(self.operands)
    }

    /// Offsets into Attributes.
    #[inline(always)]
    pub(crate) fn attributes(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        words_of(self.attributes)
    }

    /// Indices of functions.
    #[inline(always)]
    pub(crate) fn functions(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        words_of(self.functions)
    }

    /// The registers it defines.
    #[inline(always)]
    pub(crate) fn results(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        words_of(self.results)
    }

    /// The users of every result, one list per result.
    pub(crate) fn users(&self) -> impl Iterator<Item = Vec<u32>> {
        let mut rest = self.used_by;
        words_of(self.used_by_counts).map(move |count| {
            let (list, behind) = rest.split_at_checked(count as usize).unwrap_or((rest, &[]));
            rest = behind;
            words_of(list).collect()
        })
    }
}

/// A kernel being decoded: index of its function, row, body and record.
pub(super) struct KernelSite<'s, 'f> {
    pub(super) id: usize,
    pub(super) row: &'s KernelRow,
    pub(super) body: &'s Body<'f>,
    pub(super) record: Record<'f>,
}

impl<'f> KernelSite<'_, 'f> {
    /// The position of the record.
    pub(super) fn place(&self) -> Reader<'f> {
        self.body.place(self.row)
    }
}
