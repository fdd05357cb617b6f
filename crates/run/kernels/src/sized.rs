//! Kernels of packages with symbols: decoded once, when the package is loaded, and bound for each set of sizes.
//!
//! The program has a [`SizedSlot`] in the place of each. An instance makes the kernels in two steps: with the types of
//! the variables it makes a [`SizedKernel`] of each, which says what memory it needs; when the arena is planned, the
//! sized kernels are bound to it.
//!
//! Sized kernels are shared. Kernels with the same operator, attributes, types and constants have one, such as the
//! additions in the layers of a transformer. A sized kernel depends on few symbols, and instances with the same values
//! of these share it: a decoder that runs token by token makes only those again whose types depend on the cache's length.

use crate::call::{Call, OperatorCall};
use crate::movement::{self, SizedMovement};
use crate::workload::{self, BoundWorkload, SizedWorkload};
use crate::{Memory, Movements, TensorPlacements, VariableId, Variables};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tenon_backend::Registry;
use tenon_base::{Error, ErrorKind, Location, Result, pool};
use tenon_bef::Kernel as StoredKernel;
use tenon_executor::{Frame, Kernel, Label, Site};
use tenon_plan::{KernelOperands, PlannedKernel};
use tenon_tensor::DataType;
use tenon_tensor::size::{SizeExpr, SymbolId};

/// The number of sizes for which the sized kernels of each kernel are kept; a decoder alternates between two, those of
/// a prompt and of a step.
const KEPT: usize = 4;

/// The least number of kernels to be made that is worth waking another thread.
const PARALLEL: usize = 16;

/// Makes a kernel for the types in a table.
type MakeSized = fn(&OperatorCall, &Variables, &Registry) -> Result<SizedKernel>;

/// A kernel for the types of its operands, before they have memory; clones share it.
#[derive(Clone)]
pub(crate) enum SizedKernel {
    Workload(Arc<SizedWorkload>),
    Movement(Arc<SizedMovement>),
}

/// Whether a kernel of a package with symbols depends on sizes.
pub fn depends_on_sizes(kernel: &StoredKernel) -> bool {
    kernel.name == workload::NAME || kernel.name == movement::NAME
}

/// Collects the kernels that depend on sizes while a program is bound: a service of its kernels.
#[derive(Default)]
pub struct SizedKernels(Mutex<Vec<Template>>);

/// The kernels of a program that depend on sizes, in order.
pub struct KernelTemplates(Vec<Template>);

struct Template {
    operator: OperatorCall,
    make: MakeSized,
    /// Its location in the program.
    location: Location,
    operands: KernelOperands,
    /// The position of the first kernel that is alike.
    first: usize,
    /// The symbols on which the types of its operands depend.
    symbols: Vec<SymbolId>,
    /// Kernels by the values of these symbols, those used last first.
    recent: Mutex<Vec<(Box<[i64]>, SizedKernel)>>,
}

/// What a sized kernel depends on in a variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperandKey {
    /// Its type alone.
    Type(DataType, Vec<SizeExpr>),
    /// Its elements, which are constant: those of other variables differ.
    Elements(VariableId, Vec<SizeExpr>),
}

impl OperandKey {
    fn symbols(&self) -> impl Iterator<Item = SymbolId> {
        let (Self::Type(_, expressions) | Self::Elements(_, expressions)) = self;
        expressions.iter().flat_map(SizeExpr::symbols)
    }
}

impl SizedKernels {
    /// The collected kernels, with the keys of their variables.
    pub fn templates(&self, key: impl Fn(VariableId) -> OperandKey) -> KernelTemplates {
        let mut templates = std::mem::take(&mut *lock(&self.0));
        let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
        for position in 0..templates.len() {
            let OperatorCall { call, attributes } = &templates[position].operator;
            let variables = call.operand_variables();
            let keys: Vec<_> = variables.map(|id| id.map(&key)).collect();
            let symbols = keys.iter().flatten().flat_map(OperandKey::symbols);
            let symbols: BTreeSet<SymbolId> = symbols.collect();
            // Descriptors have the variables that they move.
            let is_shared = call.backend.as_str() != movement::BACKEND;
            let first = is_shared.then(|| {
                let alike = alike
                    .entry((call.backend.clone(), call.op.name, keys))
                    .or_default();
                let same = |&&first: &&usize| templates[first].operator.attributes == *attributes;
                let found = alike.iter().find(same).copied();
                found.unwrap_or_else(|| {
                    alike.push(position);
                    position
                })
            });
            let template = &mut templates[position];
            template.first = first.unwrap_or(position);
            template.symbols = symbols.into_iter().collect();
        }
        KernelTemplates(templates)
    }

    fn add(&self, template: Template) -> usize {
        let mut templates = lock(&self.0);
        templates.push(template);
        templates.len() - 1
    }
}

/// The kernels of one set of sizes.
pub struct InstanceKernels<'a> {
    templates: &'a KernelTemplates,
    sized: Vec<SizedKernel>,
}

impl KernelTemplates {
    /// The kernels for the types in `table`, which are those for `sizes`, the values of the symbols by
    /// [`SymbolId::index`].
    ///
    /// # Errors
    /// Types that contradict the operator, backends that are unavailable or refuse these types, and a workload with
    /// scratch memory but no variable for it; of all kernels together.
    pub fn sized(
        &self,
        sizes: &[i64],
        table: &Variables,
        backends: &Registry,
    ) -> Result<InstanceKernels<'_>> {
        let found = self.0.iter().enumerate().map(|(position, template)| {
            let recent = (template.first == position).then(|| template.recent(sizes));
            let recent = recent.flatten();
            recent.map_or_else(OnceLock::new, |kernel| OnceLock::from(Ok(kernel)))
        });
        let found: Vec<OnceLock<Result<SizedKernel>>> = found.collect();
        let positions = 0..found.len();
        let is_missing = |&at: &usize| self.0[at].first == at && found[at].get().is_none();
        let missing: Vec<usize> = positions.filter(is_missing).collect();
        let make = |at: usize| {
            let made = self.0[at].make(sizes, table, backends);
            // Each position is visited once, so that it is empty.
            let _ = found[at].set(made);
        };
        match missing.len() < PARALLEL {
            true => missing.iter().for_each(|&at| make(at)),
            false => pool::for_each(missing.len(), |index| make(missing[index])),
        }
        let (mut made, mut errors) = (Vec::with_capacity(found.len()), Vec::new());
        for (template, kernel) in self.0.iter().zip(found) {
            match kernel.into_inner().transpose() {
                Ok(kernel) => made.push(kernel),
                Err(error) => errors.push(template.error(error)),
            }
        }
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        let templates = self;
        let missing = || Error::new(ErrorKind::Internal, "a kernel was not made for its sizes");
        let shared = self.0.iter().map(|template| made[template.first].clone());
        let sized = shared.map(|kernel| kernel.ok_or_else(missing));
        let sized = sized.collect::<Result<_>>()?;
        Ok(InstanceKernels { templates, sized })
    }
}

impl Template {
    fn key<'a>(&'a self, sizes: &'a [i64]) -> impl Iterator<Item = i64> + 'a {
        let size = |symbol: &SymbolId| sizes.get(symbol.index()).copied();
        self.symbols
            .iter()
            .map(move |symbol| size(symbol).unwrap_or_default())
    }

    fn recent(&self, sizes: &[i64]) -> Option<SizedKernel> {
        let mut recent = lock(&self.recent);
        let mut keys = recent.iter();
        let position = keys.position(|(key, _)| key.iter().copied().eq(self.key(sizes)))?;
        recent[..=position].rotate_right(1);
        Some(recent[0].1.clone())
    }

    fn make(&self, sizes: &[i64], table: &Variables, backends: &Registry) -> Result<SizedKernel> {
        let made = (self.make)(&self.operator, table, backends)?;
        let mut recent = lock(&self.recent);
        recent.truncate(KEPT - 1);
        recent.insert(0, (self.key(sizes).collect(), made.clone()));
        Ok(made)
    }

    fn error(&self, error: Error) -> Error {
        error
            .at(self.operator.call.location())
            .at(self.location.clone())
    }
}

impl InstanceKernels<'_> {
    /// The kernels as the planner of the arena takes them.
    pub fn planned(&self) -> Vec<PlannedKernel<'_>> {
        let kernels = self.templates.0.iter().zip(&self.sized);
        let planned = kernels.map(|(template, kernel)| PlannedKernel {
            operands: &template.operands,
            in_place: match kernel {
                SizedKernel::Workload(workload) => &workload.in_place,
                SizedKernel::Movement(_) => &[],
            },
        });
        planned.collect()
    }

    /// The scratch variables, and the bytes that their kernels need.
    pub fn scratch(&self) -> impl Iterator<Item = (VariableId, usize)> {
        let calls = self
            .templates
            .0
            .iter()
            .map(|template| &template.operator.call);
        calls
            .zip(&self.sized)
            .filter_map(|(call, kernel)| match kernel {
                SizedKernel::Workload(workload) => Some((call.scratch?, workload.scratch_bytes)),
                SizedKernel::Movement(_) => None,
            })
    }

    /// Binds the kernels to the memory of `table`, in which the arena is planned.
    pub fn bind(
        &self,
        table: &Arc<Variables>,
        placements: &Arc<TensorPlacements>,
        movements: &Movements,
    ) -> Result<BoundKernels> {
        let mut bound: Vec<Box<dyn Kernel>> = Vec::with_capacity(self.sized.len());
        let mut errors = Vec::new();
        for (template, kernel) in self.templates.0.iter().zip(&self.sized) {
            let call = &template.operator.call;
            match bind(call, kernel, table, placements, movements) {
                Ok(kernel) => bound.push(kernel),
                Err(error) => errors.push(template.error(error)),
            }
        }
        Error::from_all(errors).map_or(Ok(BoundKernels(bound.into())), Err)
    }
}

fn bind(
    call: &Arc<Call>,
    kernel: &SizedKernel,
    table: &Arc<Variables>,
    placements: &Arc<TensorPlacements>,
    movements: &Movements,
) -> Result<Box<dyn Kernel>> {
    let mut bound: Box<dyn Kernel> = match kernel {
        SizedKernel::Workload(sized) => {
            let (binding, table) = (call.binding(table)?, table.clone());
            Box::new(BoundWorkload::new(
                sized.clone(),
                call.clone(),
                binding,
                table,
                placements,
            ))
        }
        SizedKernel::Movement(movement) => Box::new(movement.bind(call, table, movements)?),
    };
    bound.finish_binding()?;
    Ok(bound)
}

/// The kernels of an instance, by their positions among the kernels that depend on sizes; clones share them.
#[derive(Clone, Default)]
pub struct BoundKernels(Arc<[Box<dyn Kernel>]>);

impl BoundKernels {
    /// The kernel at a position.
    pub fn get(&self, position: usize) -> Option<&dyn Kernel> {
        self.0.get(position).map(|kernel| &**kernel)
    }
}

/// Runs the kernel that an instance has at its position.
pub(crate) struct SizedSlot {
    call: Arc<Call>,
    kernels: Arc<SizedKernels>,
    /// Set until `finish_binding`, by which the position is the order in the program.
    template: Option<Template>,
    position: usize,
}

impl SizedSlot {
    pub(crate) fn new(
        kernels: Arc<SizedKernels>,
        operator: OperatorCall,
        site: &Site<'_>,
        make: MakeSized,
    ) -> Self {
        Self {
            call: operator.call.clone(),
            kernels,
            template: Some(Template {
                operands: operator.call.operands(),
                operator,
                make,
                location: site.location(),
                first: 0,
                symbols: Vec::new(),
                recent: Mutex::default(),
            }),
            position: 0,
        }
    }
}

impl Kernel for SizedSlot {
    fn finish_binding(&mut self) -> Result<()> {
        if let Some(template) = self.template.take() {
            self.position = self.kernels.add(template);
        }
        Ok(())
    }

    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let kernel = frame.context::<Memory>()?.kernel(self.position)?;
        kernel.run(frame)
    }

    /// The label before sizes are known.
    fn label(&self) -> Label<'_> {
        Label {
            node: &self.call.node,
            operator: self.call.op.name,
            backend: self.call.backend.as_str(),
            bytes: 0,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A holder that panicked leaves complete entries.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
