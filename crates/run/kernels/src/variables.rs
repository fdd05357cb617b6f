//! The variables of a loaded package: their memory and types.

use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::VariableId;
use tenon_tensor::{ALIGNMENT, Buffer, BufferMut, DataType, TensorType};

/// A named range of memory.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The name.
    pub name: Arc<str>,
    /// The size in bytes.
    pub size: u64,
    /// The kind of memory.
    pub storage: Storage,
    /// The tensor type, for variables that workloads read or write.
    pub ty: Option<TensorType>,
    /// Set for the prepared form of a constant.
    pub prepared: Option<PreparedForm>,
}

/// The prepared form of a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedForm {
    /// The plain constant.
    pub of: VariableId,
    /// The backend whose kernels read it.
    pub backend: String,
    /// The tag of its layout.
    pub layout: String,
}

/// The memory of a variable.
#[derive(Debug, Clone)]
pub enum Storage {
    /// The caller's input of that position, read-only.
    Input(usize),
    /// The caller's output of that position.
    Output(usize),
    /// A constant of the package, read-only.
    Constant(Buffer),
    /// A constant whose plain bytes are absent: workloads read a prepared form instead.
    Absent,
    /// All bytes of another variable, which is not a view.
    View(VariableId),
    /// The first bytes of a variable that is an output: a state whose value the caller has put there, and which the
    /// program extends.
    Prefix(VariableId),
    /// Memory of the arena, from this offset on.
    Arena {
        /// A multiple of [`ALIGNMENT`].
        offset: u64,
    },
}

/// A range of bytes of one memory region of an execution: the arena, an input, an output or a
/// constant. Spans of different bases are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    pub(crate) base: Base,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// A memory region, by its position in [`Memory`](crate::Memory).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Base(pub(crate) u32);

impl Base {
    pub(crate) const ARENA: Base = Base(0);
}

impl Span {
    /// Whether the spans share a byte.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.base == other.base
            && self.len > 0
            && other.len > 0
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }

    /// Whether the span contains every byte of `other`.
    pub(crate) fn holds(&self, other: &Span) -> bool {
        let (end, other_end) = (self.start + self.len, other.start + other.len);
        self.base == other.base && self.start <= other.start && other_end <= end
    }

    /// A subrange of the span; `None` if it is not inside.
    pub(crate) fn part(&self, start: u64, end: u64) -> Option<Span> {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        let inside = start <= end && end <= self.len;
        inside.then(|| Span {
            base: self.base,
            start: self.start + start,
            len: end - start,
        })
    }
}

/// The variables of one loaded package, a service of its kernels. The constructor checks sizes,
/// offsets and views.
#[derive(Debug)]
pub struct Variables {
    variables: Vec<Variable>,
    spans: Vec<Span>,
    arena_bytes: usize,
    input_bytes: Vec<usize>,
    output_bytes: Vec<usize>,
    constants: Vec<Buffer>,
    of_sizes: bool,
}

impl Variables {
    /// A table in which a [`VariableId`] is a position. Inputs and outputs are numbered from 0
    /// without gaps; all problems are reported together.
    pub fn new(mut variables: Vec<Variable>) -> Result<Self> {
        let mut errors = Vec::new();
        let input_bytes = ports(&variables, "input", &mut errors, |storage| match storage {
            Storage::Input(position) => Some(*position),
            _ => None,
        });
        let output_bytes = ports(&variables, "output", &mut errors, |storage| match storage {
            Storage::Output(position) => Some(*position),
            _ => None,
        });
        let mut table = Self {
            spans: Vec::with_capacity(variables.len()),
            arena_bytes: 0,
            constants: Vec::new(),
            input_bytes,
            output_bytes,
            variables: Vec::new(),
            of_sizes: false,
        };
        for variable in &mut variables {
            let span = table
                .place(variable)
                .map_err(|error| error.at(named(variable)));
            table.spans.push(span.unwrap_or_else(|error| {
                errors.push(error);
                Span {
                    base: Base::ARENA,
                    start: 0,
                    len: 0,
                }
            }));
        }
        for (index, variable) in variables.iter().enumerate() {
            if let Storage::Prefix(of) = variable.storage {
                match prefix(&variables, &table.spans, variable, of) {
                    Ok(span) => table.spans[index] = span,
                    Err(error) => errors.push(error.at(named(variable))),
                }
            }
        }
        for (index, variable) in variables.iter().enumerate() {
            if let Storage::View(of) = variable.storage {
                match view(&variables, &table.spans, variable, of) {
                    Ok(span) => table.spans[index] = span,
                    Err(error) => errors.push(error.at(named(variable))),
                }
            }
        }
        table.variables = variables;
        Error::from_all(errors).map_or(Ok(table), Err)
    }

    /// The span of a variable; those of views are set afterwards.
    fn place(&mut self, variable: &mut Variable) -> Result<Span> {
        let len = bytes(variable.size)?;
        if let Some(ty) = &variable.ty {
            check_type(ty, len)?;
        }
        let outputs = 1 + self.input_bytes.len();
        let constants = outputs + self.output_bytes.len();
        let (base, start) = match &mut variable.storage {
            Storage::Input(position) => (position.saturating_add(1), 0),
            Storage::Output(position) => (position.saturating_add(outputs), 0),
            // A placeholder: `span` rejects absent variables, and the spans of prefixes and views are set
            // afterwards.
            Storage::View(_) | Storage::Prefix(_) | Storage::Absent => (0, 0),
            Storage::Constant(buffer) => {
                if buffer.len() != len {
                    return Err(invalid("the constant's data does not have its size")
                        .expected(len)
                        .found(buffer.len()));
                }
                // Kernels may read whole vector registers from the start. A package aligns its
                // constants, so this copy is only made for one that was packed by another tool.
                if !(buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
                    *buffer = BufferMut::copy_of(buffer)?.freeze();
                }
                self.constants.push(buffer.clone());
                (constants + self.constants.len() - 1, 0)
            }
            Storage::Arena { offset } => {
                let start = bytes(*offset)?;
                if !start.is_multiple_of(ALIGNMENT) {
                    return Err(invalid("the offset in the arena is not aligned")
                        .expected(format_args!("a multiple of {ALIGNMENT}"))
                        .found(start));
                }
                let end = bytes(offset.saturating_add(variable.size))?;
                self.arena_bytes = self.arena_bytes.max(end);
                (0, start)
            }
        };
        let base = u32::try_from(base).map_err(|_| invalid("too many variables"))?;
        Ok(Span {
            base: Base(base),
            start,
            len,
        })
    }

    /// Marks the variables as those of one set of sizes, for which backends may lack kernels that they have for
    /// other sizes.
    #[must_use]
    pub fn of_sizes(self) -> Self {
        Self {
            of_sizes: true,
            ..self
        }
    }

    /// Whether the variables are those of one set of sizes.
    pub fn is_of_sizes(&self) -> bool {
        self.of_sizes
    }

    /// Sets the place of a variable in the arena.
    ///
    /// # Errors
    /// An id of no variable in the arena, an offset that is not aligned, an end outside of the address space.
    pub fn place_in_arena(&mut self, id: VariableId, offset: u64, size: u64) -> Result<()> {
        let index = id.index();
        let variable = self
            .variables
            .get_mut(index)
            .ok_or_else(|| no_variable(id))?;
        if !matches!(variable.storage, Storage::Arena { .. }) {
            return Err(invalid("it is not in the arena").at(named(variable)));
        }
        variable.storage = Storage::Arena { offset };
        variable.size = size;
        let mut placed = variable.clone();
        self.spans[index] = self
            .place(&mut placed)
            .map_err(|error| error.at(named(&placed)))?;
        Ok(())
    }

    /// The variable of an id; an error when there is none.
    pub fn variable(&self, id: VariableId) -> Result<&Variable> {
        self.variables
            .get(id.index())
            .ok_or_else(|| no_variable(id))
    }

    /// The variables that are the caller's inputs.
    pub fn inputs(&self) -> impl Iterator<Item = VariableId> {
        let ids = (0u32..).map(VariableId).zip(&self.variables);
        ids.filter(|(_, variable)| matches!(variable.storage, Storage::Input(_)))
            .map(|(id, _)| id)
    }

    /// Whether the variable is a constant whose plain bytes are absent.
    pub fn is_absent(&self, id: VariableId) -> bool {
        let variable = self.variables.get(id.index());
        variable.is_some_and(|variable| matches!(variable.storage, Storage::Absent))
    }

    /// The span of a variable; an error when its bytes are absent.
    pub fn span(&self, id: VariableId) -> Result<Span> {
        let variable = self.variable(id)?;
        if self.is_absent(id) {
            return Err(invalid("its plain bytes are absent from the package").at(named(variable)));
        }
        self.spans
            .get(id.index())
            .copied()
            .ok_or_else(|| no_variable(id))
    }

    /// The type of a variable that a workload names.
    pub fn ty(&self, id: VariableId) -> Result<&TensorType> {
        let variable = self.variable(id)?;
        variable.ty.as_ref().ok_or_else(|| {
            invalid("a workload names a variable without a data type and shape").at(named(variable))
        })
    }

    /// The bytes of a variable that is a constant, or a view of one.
    pub fn constant(&self, id: VariableId) -> Option<&Buffer> {
        match &self.variables.get(id.index())?.storage {
            Storage::Constant(buffer) => Some(buffer),
            Storage::View(of) => match &self.variables.get(of.index())?.storage {
                Storage::Constant(buffer) => Some(buffer),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether kernels may write the span: only the arena and outputs.
    pub fn is_writable(&self, span: &Span) -> bool {
        let base = span.base.0 as usize;
        let outputs = 1 + self.input_bytes.len();
        base == 0 || (outputs..outputs + self.output_bytes.len()).contains(&base)
    }

    /// Whether the span is memory of the caller, which differs between executions.
    pub(crate) fn is_of_caller(&self, span: &Span) -> bool {
        let ports = self.input_bytes.len() + self.output_bytes.len();
        (1..=ports).contains(&(span.base.0 as usize))
    }

    /// Whether the span is a constant, the same in all executions.
    pub(crate) fn is_constant(&self, span: &Span) -> bool {
        let ports = self.input_bytes.len() + self.output_bytes.len();
        span.base.0 as usize > ports
    }

    /// Types for traces: `f32[1, 8] f32[8, 4] -> f32[1, 4]`; `_` is an omitted operand or one
    /// without a type.
    pub(crate) fn shapes(
        &self,
        read: impl IntoIterator<Item = Option<VariableId>>,
        written: impl IntoIterator<Item = Option<VariableId>>,
    ) -> String {
        let ty = |id: Option<VariableId>| {
            let ty = id.and_then(|id| self.variable(id).ok()?.ty.as_ref());
            ty.map_or_else(|| "_".to_owned(), TensorType::to_string)
        };
        let read = read.into_iter().map(ty);
        let written = written.into_iter().map(ty);
        let all = read.chain(["->".to_owned()]).chain(written);
        all.collect::<Vec<_>>().join(" ")
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Bytes of the arena of one execution.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// The size of each of the caller's inputs.
    pub fn input_bytes(&self) -> &[usize] {
        &self.input_bytes
    }

    /// The size of each of the caller's outputs.
    pub fn output_bytes(&self) -> &[usize] {
        &self.output_bytes
    }

    /// The constants, in order of their bases.
    pub(crate) fn constants(&self) -> &[Buffer] {
        &self.constants
    }
}

/// The sizes of all inputs or outputs; checks that their positions have no gap.
fn ports(
    variables: &[Variable],
    what: &str,
    errors: &mut Vec<Error>,
    position: impl Fn(&Storage) -> Option<usize>,
) -> Vec<usize> {
    let count = variables
        .iter()
        .filter(|variable| position(&variable.storage).is_some())
        .count();
    let mut sizes = vec![None; count];
    for variable in variables {
        let Some(position) = position(&variable.storage) else {
            continue;
        };
        match (sizes.get_mut(position), usize::try_from(variable.size)) {
            (Some(slot @ None), Ok(size)) => *slot = Some(size),
            _ => errors.push(
                invalid(format!(
                    "two variables are {what} {position}, or one before it is missing"
                ))
                .at(named(variable)),
            ),
        }
    }
    sizes.into_iter().map(Option::unwrap_or_default).collect()
}

fn prefix(
    variables: &[Variable],
    spans: &[Span],
    prefix: &Variable,
    of: VariableId,
) -> Result<Span> {
    let (base, span) = variables
        .get(of.index())
        .zip(spans.get(of.index()))
        .ok_or_else(|| no_variable(of))?;
    if !matches!(base.storage, Storage::Output(_)) {
        let text = format!("it is the beginning of '{}', which is no output", base.name);
        return Err(invalid(text));
    }
    span.part(0, prefix.size).ok_or_else(|| {
        invalid(format!(
            "it is larger than '{}', which begins with it",
            base.name
        ))
        .expected(base.size)
        .found(prefix.size)
    })
}

fn view(variables: &[Variable], spans: &[Span], view: &Variable, of: VariableId) -> Result<Span> {
    let (base, span) = variables
        .get(of.index())
        .zip(spans.get(of.index()))
        .ok_or_else(|| no_variable(of))?;
    match base.storage {
        Storage::View(_) => return Err(invalid("it is a view of a view")),
        Storage::Absent => return Err(invalid("it is a view of an absent constant")),
        _ => {}
    }
    if base.size != view.size {
        return Err(invalid(format!(
            "its size is not that of '{}', of which it is a view",
            base.name
        ))
        .expected(base.size)
        .found(view.size));
    }
    Ok(*span)
}

fn check_type(ty: &TensorType, len: usize) -> Result<()> {
    if ty.dtype() == DataType::String {
        return Err(Error::new(ErrorKind::Unsupported, "a variable of strings"));
    }
    if ty.bytes() != len {
        return Err(invalid(format!("its size is not that of its type {ty}"))
            .expected(ty.bytes())
            .found(len));
    }
    Ok(())
}

/// A size or offset within the address space.
fn bytes(size: u64) -> Result<usize> {
    usize::try_from(size)
        .ok()
        .filter(|&size| size <= isize::MAX as usize / 2)
        .ok_or_else(|| invalid("a size or offset exceeds the address space").found(size))
}

pub(crate) fn named(variable: &Variable) -> Location {
    Location::field(format!("variable '{}'", variable.name))
}

fn no_variable(id: VariableId) -> Error {
    invalid(format!("no variable has the id {}", id.0))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidPackage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, size: u64, storage: Storage) -> Variable {
        Variable {
            name: name.into(),
            size,
            storage,
            ty: None,
            prepared: None,
        }
    }

    fn refusal(variables: Vec<Variable>) -> String {
        Variables::new(variables)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn every_variable_has_its_span() {
        let constant = BufferMut::zeroed(12).unwrap().freeze();
        let table = Variables::new(vec![
            variable("in", 8, Storage::Input(0)),
            variable("w", 12, Storage::Constant(constant)),
            variable("out", 16, Storage::Output(0)),
            variable("t", 100, Storage::Arena { offset: 128 }),
            variable("in.view", 8, Storage::View(VariableId(0))),
            variable("w.view", 12, Storage::View(VariableId(1))),
        ])
        .unwrap();
        assert_eq!(table.arena_bytes(), 228);
        assert_eq!(
            (table.input_bytes(), table.output_bytes()),
            (&[8][..], &[16][..])
        );
        let span = |id| table.span(VariableId(id)).unwrap();
        assert_eq!(span(4), span(0));
        assert_eq!(table.constant(VariableId(5)).unwrap().len(), 12);
        let writable: Vec<bool> = (0..6).map(|id| table.is_writable(&span(id))).collect();
        assert_eq!(writable, [false, false, true, true, false, false]);
        assert!(table.span(VariableId(6)).is_err());
    }

    #[test]
    fn all_malformed_variables_are_reported_together() {
        let constant = BufferMut::zeroed(12).unwrap().freeze();
        let ty = TensorType::new(DataType::F32, [3]).unwrap();
        assert_eq!(
            refusal(vec![
                variable("w", 13, Storage::Constant(constant)),
                variable("t", 4, Storage::Arena { offset: 8 }),
                variable("large", u64::MAX, Storage::Arena { offset: 64 }),
                variable(
                    "far",
                    64,
                    Storage::Arena {
                        offset: u64::MAX - 63
                    }
                ),
                Variable {
                    ty: Some(ty),
                    ..variable("typed", 8, Storage::Arena { offset: 0 })
                },
            ]),
            "variable 'w': the constant's data does not have its size: expected 13, found 12\n\
             variable 't': the offset in the arena is not aligned: expected a multiple of 64, found 8\n\
             variable 'large': a size or offset exceeds the address space: found 18446744073709551615\n\
             variable 'far': a size or offset exceeds the address space: found 18446744073709551552\n\
             variable 'typed': its size is not that of its type f32[3]: expected 12, found 8"
        );
        assert_eq!(
            refusal(vec![
                variable("a", 4, Storage::Input(0)),
                variable("b", 4, Storage::Input(0)),
                variable("c", 4, Storage::Output(1)),
                variable("d", 8, Storage::View(VariableId(0))),
                variable("e", 8, Storage::View(VariableId(3))),
                variable("f", 8, Storage::View(VariableId(9))),
            ]),
            "variable 'b': two variables are input 0, or one before it is missing\n\
             variable 'c': two variables are output 1, or one before it is missing\n\
             variable 'd': its size is not that of 'a', of which it is a view: expected 4, found 8\n\
             variable 'e': it is a view of a view\n\
             variable 'f': no variable has the id 9"
        );
        assert!(!refusal(vec![variable("a", 4, Storage::Input(usize::MAX))]).is_empty());
    }

    #[test]
    fn an_input_may_be_the_beginning_of_an_output() {
        let table = Variables::new(vec![
            variable("past.view", 8, Storage::View(VariableId(1))),
            variable("past", 8, Storage::Prefix(VariableId(2))),
            variable("present", 12, Storage::Output(0)),
        ])
        .unwrap();
        let span = |id| table.span(VariableId(id)).unwrap();
        assert_eq!(span(0), span(1));
        assert_eq!(Some(span(1)), span(2).part(0, 8));
        assert!(table.input_bytes().is_empty() && table.is_writable(&span(1)));
        assert_eq!(
            refusal(vec![
                variable("a", 4, Storage::Input(0)),
                variable("b", 4, Storage::Prefix(VariableId(0))),
                variable("c", 8, Storage::Prefix(VariableId(3))),
                variable("d", 4, Storage::Output(0)),
            ]),
            "variable 'b': it is the beginning of 'a', which is no output\n\
             variable 'c': it is larger than 'd', which begins with it: expected 4, found 8"
        );
    }

    #[test]
    fn an_unaligned_constant_is_copied() {
        let buffer = BufferMut::copy_of(&[1, 2, 3, 4, 5, 6, 7, 8])
            .unwrap()
            .freeze();
        let part = buffer.slice(4..8).unwrap();
        let table = Variables::new(vec![variable("w", 4, Storage::Constant(part))]).unwrap();
        let constant = table.constant(VariableId(0)).unwrap();
        assert_eq!(&constant[..], [5, 6, 7, 8]);
        assert!((constant.as_ptr() as usize).is_multiple_of(ALIGNMENT));
    }
}
