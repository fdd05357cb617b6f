//! Substitution of unavailable backends: when a package is loaded, their workloads become workloads
//! of other backends.
//!
//! The program, its variables and its data movements are rewritten before binding: constants that
//! are stored only in prepared form are converted to plain form, and scratch memory is appended to
//! the arena. Data types and layouts are not changed, so compiling again for the available backends
//! may give a faster program.

mod crossings;

use crossings::CrossingCounter;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use tenon_backend::{Backend, BackendId, CpuLevel, NodeView, Registry, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, Kernel, Module};
use tenon_dma::{Access, Descriptor};
use tenon_kernels::{
    Storage, Variable, VariableId, Variables, WorkloadCall, workload_backend, workload_call,
};
use tenon_neff::{Movement, PlacementReport, RefusalReport};
use tenon_tensor::{ALIGNMENT, Tensor, TensorType};

/// An unavailable backend for which a package was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substitution {
    /// The backend.
    pub backend: String,
    /// Why it is unavailable.
    pub reason: String,
    /// The number of its nodes on each other backend.
    pub nodes: BTreeMap<String, usize>,
}

impl fmt::Display for Substitution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.iter();
        let nodes: Vec<String> = nodes
            .map(|(id, count)| format!("{count} on {id}"))
            .collect();
        write!(
            f,
            "backend {} is unavailable ({}): of its nodes {} run",
            self.backend,
            self.reason,
            nodes.join(", ")
        )
    }
}

/// The parts of a program before it is bound.
pub(crate) struct ProgramParts<'a> {
    pub module: &'a mut Module,
    pub variables: &'a mut Vec<Variable>,
    pub movements: &'a mut Vec<Movement>,
    pub placement: &'a mut PlacementReport,
}

/// Assigns the workloads of backends that are not in `backends` to others. All workloads that no
/// backend supports are reported together.
pub(crate) fn substitute(
    parts: ProgramParts<'_>,
    backends: &Registry,
) -> Result<Vec<Substitution>> {
    let mut used = BTreeSet::new();
    let kernels = parts.module.functions.iter();
    for kernel in kernels.flat_map(|function| &function.kernels) {
        used.extend(workload_backend(kernel)?);
    }
    let is_available = |id: &str| backends.find(&id.to_owned().into()).is_some();
    if used.into_iter().all(is_available) {
        return Ok(Vec::new());
    }
    let table = Variables::new(parts.variables.clone())?;
    let movements = parts.movements.iter().enumerate();
    let mut substituter = Substituter {
        backends,
        crossings: CrossingCounter::new(backends),
        movements: movements.map(|(at, movement)| (movement.id, at)).collect(),
        arena_end: (table.arena_bytes() as u64).next_multiple_of(ALIGNMENT as u64),
        table,
        parts,
        done: BTreeMap::new(),
    };
    substituter.run()?;
    substituter.parts.placement.crossings = substituter.crossings.finish();
    Ok(substituter.done.into_values().collect())
}

struct Substituter<'a> {
    backends: &'a Registry,
    parts: ProgramParts<'a>,
    table: Variables,
    /// Recounts the crossings of the placement report, over the kernels before copies are added.
    crossings: CrossingCounter<'a>,
    /// The positions of the package's movements by id.
    movements: HashMap<u32, usize>,
    /// The offset of appended memory, which all kernels share since they run sequentially.
    arena_end: u64,
    done: BTreeMap<String, Substitution>,
}

impl Substituter<'_> {
    fn run(&mut self) -> Result<()> {
        let mut problems = Vec::new();
        for function in 0..self.parts.module.functions.len() {
            let kernels = std::mem::take(&mut self.parts.module.functions[function].kernels);
            let mut changed = Vec::with_capacity(kernels.len());
            for kernel in kernels {
                if let Err(error) = self.kernel(kernel, &mut changed) {
                    problems.push(error);
                }
            }
            self.parts.module.functions[function].kernels = changed;
        }
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// Pushes the kernel, or the kernels that replace it.
    fn kernel(&mut self, mut kernel: Kernel, to: &mut Vec<Kernel>) -> Result<()> {
        let Some(call) = workload_call(&kernel, &self.table)? else {
            self.count_movement(&kernel);
            to.push(kernel);
            return Ok(());
        };
        if self.backends.find(&call.backend).is_some() {
            self.count_workload(&call, &call.backend);
            to.push(kernel);
            return Ok(());
        }
        let at = |error: Error| error.at(Location::node(call.node.as_str()));
        call.check().map_err(at)?;
        let spec = self.plain(&call).map_err(at)?;
        let (backend, plan) = self.next_backend(&call, &spec).map_err(at)?;
        let (inputs, mut end) = self.copied_inputs(&call, &plan, to).map_err(at)?;
        let scratch = match plan.scratch_bytes as u64 {
            0 => None,
            bytes => Some(
                self.add(&call.node, "scratch", &mut end, bytes, None)
                    .map_err(at)?,
            ),
        };
        let ids = |ids: &[Option<VariableId>]| {
            let ids = ids.iter().map(|id| id.map_or(-1, |id| id.0 as i32));
            Attribute::Array(ids.map(Attribute::I32).collect())
        };
        set(&mut kernel, "backend", backend.as_str().into());
        set(&mut kernel, "prepared", ids(&vec![None; inputs.len()]));
        set(&mut kernel, "inputs", ids(&inputs));
        let scratch = scratch.map_or(-1, |id| id.0 as i32);
        set(&mut kernel, "scratch", Attribute::I32(scratch));
        to.push(kernel);
        self.count_workload(&call, &backend);
        self.report(&call, &backend);
        Ok(())
    }

    fn count_workload(&mut self, call: &WorkloadCall, backend: &BackendId) {
        let (inputs, outputs) = (call.inputs.iter(), call.outputs.iter());
        let (inputs, outputs) = (inputs.flatten().copied(), outputs.flatten().copied());
        let variables = &*self.parts.variables;
        self.crossings
            .add_workload(variables, backend, inputs, outputs);
    }

    fn count_movement(&mut self, kernel: &Kernel) {
        let id = match kernel.attribute("id") {
            Some(Attribute::I32(id)) if kernel.name == DMA => u32::try_from(*id).ok(),
            _ => None,
        };
        if let Some(&at) = id.and_then(|id| self.movements.get(&id)) {
            let descriptors = &self.parts.movements[at].descriptors;
            self.crossings
                .add_movement(self.parts.variables, descriptors);
        }
    }

    fn reason(&self, id: &BackendId) -> String {
        let reason = self.backends.unavailable(id);
        reason.map_or_else(|| format!("no backend is called {id}"), str::to_owned)
    }

    /// The operator with the plain form of its constants, which become constants of the program.
    fn plain(&mut self, call: &WorkloadCall) -> Result<WorkloadSpec> {
        let spec = &call.spec;
        let prepared = spec
            .inputs
            .iter()
            .flatten()
            .any(|input| input.prepared.is_some());
        if !prepared {
            return Ok(spec.clone());
        }
        let maker = self.backends.find_even_unavailable(&call.backend);
        let plain = maker
            .map(|maker| maker.with_plain_constants(spec))
            .transpose()?;
        let Some(Ok(plain)) = plain else {
            let text = format!(
                "backend {} is unavailable ({}), and constants are only there in the form that it \
                 prepared",
                call.backend,
                self.reason(&call.backend)
            );
            return Err(Error::new(ErrorKind::Unsupported, text).help(INSTALL));
        };
        for (id, input) in call.inputs.iter().zip(&plain.inputs) {
            let constant = input.as_ref().and_then(|input| input.constant.as_ref());
            if let (Some(id), Some(constant)) = (id, constant)
                && self.table.is_absent(*id)
            {
                self.parts.variables[id.index()].storage =
                    Storage::Constant(constant.buffer().clone());
            }
        }
        Ok(plain)
    }

    /// The first backend that supports the operator: those of the package in order, then the
    /// others.
    fn next_backend(
        &self,
        call: &WorkloadCall,
        spec: &WorkloadSpec,
    ) -> Result<(BackendId, WorkloadPlan)> {
        let preferred = self.parts.placement.backends.iter();
        let preferred = preferred.filter_map(|id| self.backends.find(&id.clone().into()));
        let mut reasons = Vec::new();
        let mut tried = Vec::new();
        for backend in preferred.chain(self.backends.iter()) {
            let id = backend.id();
            if tried.contains(&id) {
                continue;
            }
            match supports(&**backend, spec) {
                Ok(()) => return Ok((id, backend.plan(spec, CpuLevel::default())?)),
                Err(refusal) => reasons.push(format!("{id}: {refusal}")),
            }
            tried.push(id);
        }
        let text = format!(
            "backend {} is unavailable ({}), and no other takes {}",
            call.backend,
            self.reason(&call.backend),
            spec.op.name
        );
        let error = Error::new(ErrorKind::Unsupported, text).help(INSTALL);
        Err(if reasons.is_empty() {
            error
        } else {
            error.found(reasons.join("; "))
        })
    }

    /// The inputs, and the end of appended memory. An input that shares memory with an output is
    /// copied, unless the workload computes in place.
    fn copied_inputs(
        &mut self,
        call: &WorkloadCall,
        plan: &WorkloadPlan,
        to: &mut Vec<Kernel>,
    ) -> Result<(Vec<Option<VariableId>>, u64)> {
        let mut inputs = call.inputs.clone();
        let mut end = self.arena_end;
        for (index, input) in inputs.iter_mut().enumerate() {
            let (Some(id), Some(Some(spec))) = (*input, call.spec.inputs.get(index)) else {
                continue;
            };
            let Some(output) = self.shares_with(call, id) else {
                continue;
            };
            let mut in_place = plan.in_place.iter();
            if in_place.any(|pair| (pair.input, pair.output) == (index, output)) {
                continue;
            }
            let bytes = spec.ty.bytes() as u64;
            let copy = self.add(&call.node, "copy", &mut end, bytes, Some(spec.ty.clone()))?;
            to.push(self.copy(&call.node, id, copy, bytes));
            *input = Some(copy);
        }
        Ok((inputs, end))
    }

    /// The output that overlaps an input.
    fn shares_with(&self, call: &WorkloadCall, input: VariableId) -> Option<usize> {
        let input = self.table.span(input).ok()?;
        let mut outputs = call.outputs.iter();
        outputs.position(|output| {
            let output = output.and_then(|output| self.table.span(output).ok());
            output.is_some_and(|output| output.overlaps(&input))
        })
    }

    /// A kernel that copies all bytes of a variable.
    fn copy(&mut self, node: &str, from: VariableId, to: VariableId, bytes: u64) -> Kernel {
        let last = self
            .parts
            .movements
            .iter()
            .map(|movement| movement.id)
            .max();
        let id = last.map_or(0, |last| last.saturating_add(1));
        let all = |variable| Access::bytes(variable, 0, bytes);
        self.parts.movements.push(Movement {
            id,
            descriptors: vec![Descriptor::copy(all(from), all(to))],
        });
        Kernel {
            name: DMA.into(),
            attributes: vec![
                ("bytes".into(), Attribute::I64(bytes as i64)),
                ("id".into(), Attribute::I32(id as i32)),
                ("node".into(), format!("{node}.copy").as_str().into()),
                ("queue".into(), "qTenon".into()),
            ],
            ..Kernel::default()
        }
    }

    /// Adds a variable to the arena at `end`, and advances `end`.
    fn add(
        &mut self,
        node: &str,
        what: &str,
        end: &mut u64,
        size: u64,
        ty: Option<TensorType>,
    ) -> Result<VariableId> {
        let offset = *end;
        let too_large = || Error::new(ErrorKind::OutOfMemory, "the arena is too large");
        let next = offset
            .checked_add(size)
            .filter(|&next| next < i64::MAX as u64);
        *end = next
            .ok_or_else(too_large)?
            .next_multiple_of(ALIGNMENT as u64);
        let id = VariableId(self.parts.variables.len() as u32);
        self.parts.variables.push(Variable {
            name: format!("{node}.{what}").into(),
            size,
            storage: Storage::Arena { offset },
            ty,
            prepared: None,
        });
        Ok(id)
    }

    /// Records the new backend of the node in the placement report.
    fn report(&mut self, call: &WorkloadCall, backend: &BackendId) {
        let reason = self.reason(&call.backend);
        let mut nodes = self.parts.placement.nodes.iter_mut();
        if let Some(node) = nodes.find(|node| node.node == call.node) {
            node.backend = backend.to_string();
            node.refusals.push(RefusalReport {
                backend: call.backend.to_string(),
                cause: "preference".into(),
                reason: "other".into(),
                text: format!("unavailable when the package was loaded: {reason}"),
                ..RefusalReport::default()
            });
        }
        let id = call.backend.to_string();
        let done = self.done.entry(id.clone()).or_insert_with(|| Substitution {
            backend: id,
            reason,
            nodes: BTreeMap::new(),
        });
        *done.nodes.entry(backend.to_string()).or_default() += 1;
    }
}

/// The kernel of data movement.
const DMA: &str = "tenon.dma";

/// The remedy for an unavailable backend.
const INSTALL: &str = "install its library in a folder of --backend-path or TENON_BACKEND_PATH, or \
                       compile the model again for the backends that there are";

fn supports(backend: &dyn Backend, spec: &WorkloadSpec) -> Result<(), tenon_backend::Refusal> {
    let inputs = || spec.inputs.iter().map(Option::as_ref);
    let types: Vec<Option<&TensorType>> = inputs().map(|input| Some(&input?.ty)).collect();
    let constants: Vec<Option<&Tensor>> = inputs().map(|input| input?.constant.as_ref()).collect();
    let outputs: Vec<Option<&TensorType>> = spec.outputs.iter().map(Option::as_ref).collect();
    backend.supports(&NodeView {
        op: spec.op,
        attributes: &spec.attributes,
        inputs: &types,
        constants: &constants,
        outputs: &outputs,
        ranges: None,
    })
}

fn set(kernel: &mut Kernel, name: &str, value: Attribute) {
    let found = kernel
        .attributes
        .iter_mut()
        .find(|(known, _)| *known == name);
    if let Some((_, attribute)) = found {
        *attribute = value;
    }
}
