//! Lazily decoded BEF files.

use super::budget::Budget;
use super::index::Index;
use super::lookup::Lookup;
use super::section::{SectionId, Sections};
use super::steps::StepTable;
use super::wire::Reader;
use crate::{FunctionId, FunctionKind, Name};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tenon_base::{Error, Result};

/// A BEF file in memory: a vector, a mapping or static data.
///
/// Opening reads the headers of sections and the function index only. Each function is decoded on
/// demand into owned, checked values that do not borrow from the file. Integers are read byte by
/// byte, so the bytes need no alignment.
///
/// ```
/// # use tenon_bef::{File, FunctionBuilder, FunctionKind, Module, encode};
/// # let mut main = FunctionBuilder::new("main", FunctionKind::Sync);
/// # let one = main.kernel("tfrt.constant.i32").attribute("value", 1i32).result("i32");
/// # let bytes = encode(&Module::from(main.returns([one])), &Default::default())?;
/// let file = File::open(&bytes)?;
/// assert_eq!(file.kernel_names()?, ["tfrt.constant.i32"]);
/// let main = file.find("main")?.expect("a function of this name");
/// assert_eq!(file.function(main)?.kernels.len(), 1);
/// # Ok::<(), tenon_base::Error>(())
/// ```
pub struct File<'a> {
    storage: Storage<'a>,
    pub(super) sections: Sections,
    pub(super) index: Index,
    lookup: OnceLock<Lookup>,
    /// Positions of each function in the sections read in lockstep.
    pub(super) steps: OnceLock<StepTable>,
    /// Remaining memory budget of functions; each function is charged once.
    pub(super) budget_left: AtomicUsize,
    pub(super) charged: Vec<AtomicBool>,
}

/// The bytes: borrowed, or owned by the file.
enum Storage<'a> {
    Borrowed(&'a [u8]),
    Owned(Box<dyn Deref<Target = [u8]> + Send + Sync>),
}

/// An entry of the function index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Its id.
    pub id: FunctionId,
    /// Its name; empty for a region.
    pub name: Name,
    /// How it executes.
    pub kind: FunctionKind,
    /// The types of its arguments.
    pub argument_types: Vec<Name>,
    /// The types of its results.
    pub result_types: Vec<Name>,
}

impl<'a> File<'a> {
    /// Opens `bytes`.
    ///
    /// # Errors
    /// Malformed section headers or a malformed function index.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        Self::open_storage(Storage::Borrowed(bytes))
    }

    /// Opens bytes that the file owns: a vector, a mapped buffer.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_owned(
        bytes: impl Deref<Target = [u8]> + Send + Sync + 'static,
    ) -> Result<File<'static>> {
        File::open_storage(Storage::Owned(Box::new(bytes)))
    }

    fn open_storage(storage: Storage<'a>) -> Result<Self> {
        let bytes = storage.bytes();
        let mut budget = Budget::for_file(bytes.len());
        let sections = Sections::read(bytes)?;
        let index = Index::read(&sections, bytes, &mut budget)?;
        let charged = index.entries.iter().map(|_| AtomicBool::new(false));
        Ok(Self {
            charged: charged.collect(),
            sections,
            index,
            lookup: OnceLock::new(),
            steps: OnceLock::new(),
            budget_left: AtomicUsize::new(budget.left()),
            storage,
        })
    }

    /// Number of functions, regions included.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether the file has no function.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the file has AttributeTypes, without which attributes have no values.
    pub fn has_attribute_types(&self) -> bool {
        let types = SectionId::AttributeTypes;
        self.sections.optional(types, self.bytes()).is_some()
    }

    /// Whether the file has AttributeTypes, AttributeNames and RegisterTypes, without which a
    /// Module does not round-trip.
    pub fn is_whole(&self) -> bool {
        let optional = [
            SectionId::AttributeTypes,
            SectionId::AttributeNames,
            SectionId::RegisterTypes,
        ];
        let bytes = self.bytes();
        optional
            .iter()
            .all(|id| self.sections.optional(*id, bytes).is_some())
    }

    /// The entries of the function index, in order.
    ///
    /// # Errors
    /// Tables of names that are malformed.
    pub fn functions(&self) -> Result<Vec<FunctionEntry>> {
        let lookup = self.lookup()?;
        let entries = (0u32..).zip(&self.index.entries);
        let types = |types: &[u32]| {
            let names = types.iter().map(|index| lookup.types.get(*index as usize));
            names
                .map(|name| name.cloned().unwrap_or_default())
                .collect()
        };
        Ok(entries
            .map(|(id, entry)| FunctionEntry {
                id: FunctionId(id),
                name: lookup.functions[id as usize].clone(),
                kind: entry.kind,
                argument_types: types(self.index.argument_types(entry)),
                result_types: types(self.index.result_types(entry)),
            })
            .collect())
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// Tables of names that are malformed.
    pub fn find(&self, name: &str) -> Result<Option<FunctionId>> {
        let mut names = (0u32..).zip(&self.lookup()?.functions);
        let found = names.find(|(_, function)| !name.is_empty() && *function == name);
        Ok(found.map(|(id, _)| FunctionId(id)))
    }

    /// The names of all kernels that the file's functions use, in the order of their codes.
    ///
    /// # Errors
    /// Tables of names that are malformed.
    pub fn kernel_names(&self) -> Result<&[Name]> {
        Ok(&self.lookup()?.kernels)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.storage.bytes()
    }

    /// A reader at the start of a section.
    pub(super) fn reader(&self, section: SectionId) -> Reader<'_> {
        self.sections.reader(section, self.bytes())
    }

    pub(super) fn section_error(&self, section: SectionId, message: &str) -> Error {
        self.reader(section).error(message)
    }

    /// A budget with `left` remaining.
    pub(super) fn budget(&self, left: usize) -> Budget {
        Budget::for_file(self.bytes().len()).with_left(left)
    }

    /// Subtracts from the remaining budget. Concurrent calls may start from the same remainder;
    /// each is subtracted.
    pub(super) fn spend(&self, spent: usize) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let spend = |left: usize| Some(left.saturating_sub(spent));
        let _ = self.budget_left.fetch_update(success, failure, spend);
    }

    pub(super) fn lookup(&self) -> Result<&Lookup> {
        if let Some(lookup) = self.lookup.get() {
            return Ok(lookup);
        }
        let mut budget = Budget::for_file(self.bytes().len());
        let lookup = Lookup::read(&self.sections, self.bytes(), &self.index, &mut budget)?;
        Ok(self.lookup.get_or_init(|| lookup))
    }
}

impl Storage<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Borrowed(bytes) => bytes,
            Storage::Owned(owner) => owner,
        }
    }
}

impl std::fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("bytes", &self.bytes().len())
            .field("sections", &self.sections)
            .field("functions", &self.len())
            .finish_non_exhaustive()
    }
}
