//! An opened BEF file: looked into where asked, decoded function by function.

use super::body::{Body, KernelRow};
use super::budget::Budget;
use super::function_reader::FunctionReader;
use super::index::{Entry, Index};
use super::lookup::{Lookup, MAX_PROBLEMS};
use super::section::{SectionId, Sections};
use super::steps::Steps;
use crate::verify::{dictionary_problems, link_problems};
use crate::{Dictionary, Function, FunctionId, FunctionKind, Module, Name, Streams};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tenon_base::{Error, Location, Result};

/// The Module in `bytes`, verified.
///
/// A file without the optional sections reads as the original reads it: attributes are called
/// `attr0`, `attr1`, .. with the value `0xdeadbeef : i32`, and registers have type `none` where
/// nothing says more.
///
/// # Errors
/// All problems of all functions, as far as the structure lets one find them; each by section and
/// byte.
pub fn decode(bytes: &[u8]) -> Result<Module> {
    File::open(bytes)?.module()
}

/// A BEF file in memory: read from a disk, mapped, or part of the program.
///
/// Opening looks at the headers of sections and at the function index alone. A function is decoded
/// into owned and checked values when it is asked for; nothing that executes refers to the file.
/// Numbers are read byte by byte, so that the bytes may lie at any address.
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
    sections: Sections,
    index: Index,
    lookup: OnceLock<Lookup>,
    /// Where the parts of each function stand in the sections read in step.
    steps: OnceLock<StepTable>,
    /// What may still be spent on functions; each is charged once.
    budget_left: AtomicUsize,
    charged: Vec<AtomicBool>,
}

/// Bytes that are lent, or whose owner the file keeps.
enum Storage<'a> {
    Lent(&'a [u8]),
    Owned(Box<dyn Deref<Target = [u8]> + Send + Sync>),
}

/// What the function index says of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Its number.
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

/// Positions of [`Steps`], by function.
struct StepTable {
    positions: Vec<[usize; 4]>,
    attributes: Dictionary,
}

impl<'a> File<'a> {
    /// Opens `bytes`.
    ///
    /// # Errors
    /// Malformed section headers or a malformed function index.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        Self::open_storage(Storage::Lent(bytes))
    }

    /// Opens bytes that the file keeps: a vector, a mapped buffer.
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

    /// How many functions the file has, regions included.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether the file has no function.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the file says of what types attributes are. Without that they have no values.
    pub fn has_attribute_types(&self) -> bool {
        let types = SectionId::AttributeTypes;
        self.sections.optional(types, self.bytes()).is_some()
    }

    /// Whether the file has AttributeTypes, AttributeNames and RegisterTypes, without which a
    /// Module does not come back whole.
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

    /// What the function index says, in order.
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

    /// Decodes a function, checked by itself: what it says is true of its registers, kernels and
    /// attributes, and what it refers to exists.
    ///
    /// # Errors
    /// All problems of the function; or there is none of this number.
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
        let budget = Budget::for_file(self.bytes().len()).with_left(left);
        let mut reader = self.function_reader(lookup, budget);
        let mut steps = self.open_steps(&mut reader)?.0;
        steps.seek(*positions)?;
        let decoded = reader.function(index, entry, &mut steps);
        if !self.charged[index].swap(true, Ordering::Relaxed) {
            let spent = left.saturating_sub(reader.budget.left());
            // Two at a time may take the same: each takes what is there.
            let _ = (self.budget_left).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(spent))
            });
        }
        decoded
            .map_err(|error| reader.problems(error))
            .map_err(|error| at_function(error, &lookup.functions[index], index))
    }

    /// The attributes of the Module.
    ///
    /// # Errors
    /// Sections read in step with functions that are malformed.
    pub fn attributes(&self) -> Result<&Dictionary> {
        Ok(&self.step_table()?.attributes)
    }

    /// The streams of a function as the file has them: its writer may have known more than the
    /// Module says.
    ///
    /// # Errors
    /// A malformed function; or there is none of this number with a body.
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

    /// Decodes all functions.
    ///
    /// # Errors
    /// All problems of all functions, as far as the structure lets one find them, and those that
    /// show only between functions.
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
                    // The names of the next function cannot be found behind a broken one.
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

    fn bytes(&self) -> &[u8] {
        self.storage.bytes()
    }

    fn section_error(&self, section: SectionId, message: &str) -> Error {
        self.sections.reader(section, self.bytes()).error(message)
    }

    fn lookup(&self) -> Result<&Lookup> {
        if let Some(lookup) = self.lookup.get() {
            return Ok(lookup);
        }
        let mut budget = Budget::for_file(self.bytes().len());
        let lookup = Lookup::read(&self.sections, self.bytes(), &self.index, &mut budget)?;
        Ok(self.lookup.get_or_init(|| lookup))
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

    /// Goes past a function in the sections read in step.
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
        let section = self.sections.reader(SectionId::Functions, self.bytes());
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

impl Storage<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Lent(bytes) => bytes,
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

/// Says in which function a problem is.
fn at_function(error: Error, name: &str, id: usize) -> Error {
    match name {
        "" => error.at(Location::node(format!("region {id}"))),
        name => error.at(Location::node(name)),
    }
}
