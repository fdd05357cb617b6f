//! `tenon.workload`: one operator executed by a backend, bound to its buffers at load.

use crate::call::{AbsentConstant, Call, OperatorCall};
use crate::sized::{SizedKernel, SizedKernels, SizedSlot};
use crate::{Memory, TensorPlacements, Variables, WorkloadBinding};
use std::sync::Arc;
use tenon_backend::{
    Backend, BackendId, CpuLevel, Operands, Registry, Workload, WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{Frame, Kernel, KernelDef, Label, Signature, Site};
use tenon_tensor::TensorType;

/// The name of the kernel.
pub(crate) const NAME: &str = "tenon.workload";

pub(crate) fn definition() -> KernelDef {
    KernelDef::new(NAME, Signature::default(), bind)
}

fn bind(site: &Site<'_>) -> Result<Box<dyn Kernel>> {
    let operator = OperatorCall::workload(site.attributes())?;
    if let Ok(kernels) = site.service::<SizedKernels>() {
        let make = SizedWorkload::planned;
        return Ok(Box::new(SizedSlot::new(kernels, operator, site, make)));
    }
    let bound = || -> Result<BoundWorkload> {
        let (table, backends) = (site.service()?, site.service::<Registry>()?);
        let binding = operator.call.binding(&table)?;
        let placements = || site.service::<TensorPlacements>();
        let sized = Arc::new(SizedWorkload::loaded(
            &operator, &table, &backends, placements,
        )?);
        let placements = match sized.placed {
            Some(_) => placements()?,
            None => Arc::default(),
        };
        let call = operator.call.clone();
        Ok(BoundWorkload::new(sized, call, binding, table, &placements))
    };
    let bound = bound().map_err(|error| error.at(operator.call.location()))?;
    Ok(Box::new(bound))
}

/// A workload for the types of its operands, before they have memory.
pub(crate) struct SizedWorkload {
    pub(crate) workload: Box<dyn Workload>,
    backend: Arc<dyn Backend>,
    id: BackendId,
    /// Bytes that it writes.
    bytes: u64,
    /// Positions of inputs and outputs that may be the same memory.
    pub(crate) in_place: Vec<(usize, usize)>,
    pub(crate) scratch_bytes: usize,
    /// Bytes of its backend's memory that it has for itself.
    device_bytes: u64,
    /// The types of inputs, then outputs, if the backend requires them in its memory; `None` for an omitted or unread
    /// operand.
    placed: Option<Vec<Option<TensorType>>>,
}

impl SizedWorkload {
    /// The workload of a package in which memory is planned, but for that of devices: it is not made where it
    /// exceeds the limit of a device.
    fn loaded(
        operator: &OperatorCall,
        table: &Variables,
        backends: &Registry,
        placements: impl Fn() -> Result<Arc<TensorPlacements>>,
    ) -> Result<Self> {
        Self::new(operator, table, backends, |backend, spec| {
            spec.check_support(backend)?;
            let mut device_bytes = 0;
            if !backend.handle_factories().is_empty() {
                // A library that cannot plan a node again, without the plain form of its constants, states nothing.
                let plan = backend.plan(spec, CpuLevel::default());
                device_bytes = plan.map_or(0, |plan| plan.device_bytes);
                placements()?.reserve(&backend.id(), device_bytes)?;
            }
            let plan = WorkloadPlan {
                device_bytes,
                ..WorkloadPlan::default()
            };
            Ok((plan, backend.workload(spec)?))
        })
    }

    /// The workload for sizes that have just become known, and its plan; of the reference implementation where the
    /// backend lacks a kernel for these sizes.
    pub(crate) fn planned(
        operator: &OperatorCall,
        table: &Variables,
        backends: &Registry,
    ) -> Result<SizedKernel> {
        let sized = Self::new(operator, table, backends, |backend, spec| {
            // A backend may lack a kernel for empty tensors, and the reference the plain form of constants.
            let mut written = spec.outputs.iter().flatten();
            if written.all(|ty| ty.elements() == 0) {
                return Ok((WorkloadPlan::default(), Box::new(Nothing)));
            }
            backend.planned_workload(spec)
        })?;
        if sized.scratch_bytes > 0 && operator.call.scratch.is_none() {
            let text = "the workload has no variable for its scratch memory";
            return Err(Error::new(ErrorKind::InvalidProgram, text));
        }
        Ok(SizedKernel::Workload(Arc::new(sized)))
    }

    /// The workload of a data movement on the reference implementation.
    pub(crate) fn on_reference(spec: &WorkloadSpec, backends: &Registry) -> Result<Self> {
        let backend = backends.reference().ok_or_else(|| {
            let text = format!("no backend computes {} for these sizes", spec.op.name);
            Error::new(ErrorKind::Unsupported, text)
        })?;
        let (plan, workload) = (WorkloadPlan::default(), backend.workload(spec)?);
        Ok(Self::with(backend, (plan, workload), spec))
    }

    fn new(
        operator: &OperatorCall,
        table: &Variables,
        backends: &Registry,
        create: impl Fn(&dyn Backend, &WorkloadSpec) -> Result<(WorkloadPlan, Box<dyn Workload>)>,
    ) -> Result<Self> {
        let call = &*operator.call;
        let find = || {
            let available = backends.find(&call.backend);
            available.ok_or_else(|| {
                let text = format!("backend '{}' is not available", call.backend);
                let error = Error::new(ErrorKind::NotFound, text);
                error.expected(format_args!("one of {}", backends.names()))
            })
        };
        let mut backend = find()?;
        let spec = operator.checked_specification(table)?;
        let mut absent = call.absent(table)?;
        let unsupported = |error: &Error| error.kind() == ErrorKind::Unsupported;
        let mut created = create(&**backend, &spec);
        if absent.is_empty()
            && table.is_of_sizes()
            && created.as_ref().is_err_and(unsupported)
            && let Some(reference) = backends.reference()
            && let Ok(substitute) = create(&**reference, &spec)
        {
            (backend, created) = (reference, Ok(substitute));
        }
        let (plan, workload) = created.map_err(|error| {
            if absent.is_empty() || !unsupported(&error) {
                error
            } else {
                unusable(&absent, &call.backend, &error.to_string())
            }
        })?;
        absent.retain(|constant| workload.reads(constant.input));
        if !absent.is_empty() {
            return Err(unusable(&absent, &call.backend, "it reads the plain form"));
        }
        Ok(Self::with(backend, (plan, workload), &spec))
    }

    fn with(
        backend: &Arc<dyn Backend>,
        (plan, workload): (WorkloadPlan, Box<dyn Workload>),
        spec: &WorkloadSpec,
    ) -> Self {
        let is_placed = !backend.handle_factories().is_empty();
        let placed = is_placed.then(|| {
            let inputs = spec.inputs.iter().enumerate();
            let inputs = inputs.map(|(index, input)| {
                let read = input.as_ref().filter(|_| workload.reads(index));
                read.map(|input| input.ty.clone())
            });
            inputs.chain(spec.outputs.iter().cloned()).collect()
        });
        let in_place = plan.in_place.iter().map(|pair| (pair.input, pair.output));
        let written = spec.outputs.iter().flatten().map(|ty| ty.bytes() as u64);
        Self {
            workload,
            id: backend.id(),
            backend: backend.clone(),
            bytes: written.sum(),
            in_place: in_place.collect(),
            scratch_bytes: plan.scratch_bytes,
            device_bytes: plan.device_bytes,
            placed,
        }
    }
}

/// The workload of a node whose outputs are empty.
struct Nothing;

impl Workload for Nothing {
    fn execute(&self, _: &mut Operands<'_>) -> Result<()> {
        Ok(())
    }

    fn reads(&self, _: usize) -> bool {
        false
    }
}

/// A workload and the memory of its operands.
pub(crate) struct BoundWorkload {
    sized: Arc<SizedWorkload>,
    binding: WorkloadBinding,
    /// Set until `finish_binding`.
    placements: Option<Arc<TensorPlacements>>,
    call: Arc<Call>,
    table: Arc<Variables>,
}

impl BoundWorkload {
    pub(crate) fn new(
        sized: Arc<SizedWorkload>,
        call: Arc<Call>,
        binding: WorkloadBinding,
        table: Arc<Variables>,
        placements: &Arc<TensorPlacements>,
    ) -> Self {
        Self {
            binding,
            placements: sized.placed.as_ref().map(|_| placements.clone()),
            sized,
            call,
            table,
        }
    }
}

impl Kernel for BoundWorkload {
    /// The placement of a tensor depends on the placements of earlier kernels, so it is decided in
    /// order.
    fn finish_binding(&mut self) -> Result<()> {
        let (Some(placements), Some(types)) = (self.placements.take(), &self.sized.placed) else {
            return Ok(());
        };
        let backend = &self.sized.backend;
        let address = Arc::as_ptr(&self.sized) as usize;
        placements.add_workload(address, self.sized.id.clone(), self.sized.device_bytes);
        let factories = backend.handle_factories();
        let place = |span, ty: &TensorType| placements.of(backend, &factories, span, ty);
        let issuer = (backend, &self.call);
        let placed = self.binding.place(issuer, types, place);
        placed.map_err(|error| error.at(self.call.location()))
    }

    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let memory = frame.context::<Memory>()?;
        let workload = &self.sized.workload;
        memory
            .operands(&self.binding, |operands| workload.execute(operands))
            .and_then(|()| memory.time_parts(&self.binding, &self.sized))
            .map_err(|error| error.at(self.call.location()))
    }

    fn label(&self) -> Label<'_> {
        Label {
            node: &self.call.node,
            operator: self.call.op.name,
            backend: self.sized.id.as_str(),
            bytes: self.sized.bytes,
        }
    }

    fn shapes(&self) -> String {
        let (read, written) = (self.call.inputs.iter(), self.call.outputs.iter());
        self.table.shapes(read.copied(), written.copied())
    }
}

/// The errors of a workload that requires the plain form of absent constants.
fn unusable(absent: &[AbsentConstant<'_>], backend: &BackendId, reason: &str) -> Error {
    let errors = absent.iter().map(|AbsentConstant { name, layout, .. }| {
        let text = format!(
            "constant '{name}' is stored only in the layout '{layout}', which backend {backend} \
             cannot use: {reason}"
        );
        Error::new(ErrorKind::Unsupported, text).help("compile the model with --keep-plain")
    });
    let internal = || Error::new(ErrorKind::Internal, "no constant is absent");
    Error::from_all(errors).unwrap_or_else(internal)
}
