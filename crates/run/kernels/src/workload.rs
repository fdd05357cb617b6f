//! `tenon.workload`: one operator executed by a backend, bound to its buffers at load.

use crate::attributes::operator_attributes;
use crate::{Memory, TensorPlacements, Variables, WorkloadBinding};
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, InputSpec, NodeView, Registry, Workload, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_dma::VariableId;
use tenon_executor::{Frame, Kernel, KernelAttributes, KernelDef, Label, Signature, Site};
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, OperatorDef, check_outputs, infer};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// The name of the kernel.
pub(crate) const NAME: &str = "tenon.workload";

pub(crate) fn definition() -> KernelDef {
    KernelDef::new(NAME, Signature::default(), bind)
}

/// The decoded attributes of the kernel.
pub(crate) struct Call<'a> {
    pub(crate) backend: &'a str,
    pub(crate) operator: &'a str,
    pub(crate) node: &'a str,
    pub(crate) inputs: Vec<Option<VariableId>>,
    pub(crate) outputs: Vec<Option<VariableId>>,
    prepared: Vec<Option<VariableId>>,
    scratch: Option<VariableId>,
}

impl<'a> Call<'a> {
    pub(crate) fn read(attributes: KernelAttributes<'a>) -> Result<Self> {
        let ids = |name| variables(attributes, name);
        let call = Self {
            backend: attributes.string("backend")?,
            operator: attributes.string("operator")?,
            node: attributes.string("node")?,
            inputs: ids("inputs")?,
            outputs: ids("outputs")?,
            prepared: ids("prepared")?,
            scratch: variable("scratch", attributes.i32("scratch")?)?,
        };
        if call.prepared.len() != call.inputs.len() {
            return Err(invalid("'prepared' does not have an entry for each input")
                .expected(call.inputs.len())
                .found(call.prepared.len()));
        }
        Ok(call)
    }

    /// The operands of a data movement, which has neither a backend nor scratch memory.
    pub(crate) fn read_movement(attributes: KernelAttributes<'a>) -> Result<Self> {
        let inputs = variables(attributes, "inputs")?;
        Ok(Self {
            backend: "dma",
            operator: attributes.string("operator")?,
            node: attributes.string("node")?,
            outputs: variables(attributes, "outputs")?,
            prepared: vec![None; inputs.len()],
            inputs,
            scratch: None,
        })
    }

    /// The variable of its scratch memory.
    pub(crate) fn scratch(&self) -> Option<VariableId> {
        self.scratch
    }

    /// The variables that it writes.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = VariableId> {
        self.outputs.iter().flatten().copied()
    }

    pub(crate) fn binding(&self, table: &Arc<Variables>) -> Result<WorkloadBinding> {
        WorkloadBinding::new(table, &self.inputs, &self.outputs, self.scratch)
    }
}

/// Decodes a list of variables.
fn variables(attributes: KernelAttributes<'_>, name: &str) -> Result<Vec<Option<VariableId>>> {
    let ids = attributes.i32s(name)?.into_iter();
    ids.map(|id| variable(name, id)).collect()
}

/// Decodes a variable id; -1 is an omitted operand.
fn variable(name: &str, id: i32) -> Result<Option<VariableId>> {
    match u32::try_from(id) {
        Ok(id) => Ok(Some(VariableId(id))),
        Err(_) if id == -1 => Ok(None),
        Err(_) => Err(invalid(format!("'{name}' has a negative variable")).found(id)),
    }
}

struct BoundWorkload {
    workload: Box<dyn Workload>,
    binding: WorkloadBinding,
    /// Set until `finish_binding`.
    pending_placement: Option<PendingPlacement>,
    node: String,
    operator: &'static str,
    backend: String,
    bytes: u64,
    table: Arc<Variables>,
    inputs: Vec<Option<VariableId>>,
    outputs: Vec<Option<VariableId>>,
}

/// Tensors that a backend requires in its memory, before they are placed.
struct PendingPlacement {
    placements: Arc<TensorPlacements>,
    backend: Arc<dyn Backend>,
    /// The types of inputs, then outputs; `None` for an omitted or unread operand.
    types: Vec<Option<TensorType>>,
}

impl Kernel for BoundWorkload {
    /// The placement of a tensor depends on the placements of earlier kernels, so it is decided in
    /// order.
    fn finish_binding(&mut self) -> Result<()> {
        let Some(PendingPlacement {
            placements,
            backend,
            types,
        }) = self.pending_placement.take()
        else {
            return Ok(());
        };
        let factories = backend.handle_factories();
        let place = |span, ty: &TensorType| placements.of(&backend, &factories, span, ty);
        self.binding
            .place(&types, place)
            .map_err(|error| error.at(Location::node(self.node.as_str())))
    }

    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let memory = frame.context::<Memory>()?;
        memory
            .operands(&self.binding, |operands| self.workload.execute(operands))
            .map_err(|error| error.at(Location::node(self.node.as_str())))
    }

    fn label(&self) -> Label<'_> {
        Label {
            node: &self.node,
            operator: self.operator,
            backend: &self.backend,
            bytes: self.bytes,
        }
    }

    fn shapes(&self) -> String {
        let (read, written) = (self.inputs.iter(), self.outputs.iter());
        self.table.shapes(read.copied(), written.copied())
    }
}

fn bind(site: &Site<'_>) -> Result<Box<dyn Kernel>> {
    let call = Call::read(site.attributes())?;
    let bound = make(site, &call).map_err(|error| error.at(Location::node(call.node)))?;
    Ok(Box::new(bound))
}

/// The kernel that computes a data movement with the reference implementation.
pub(crate) fn bound_on_reference(
    site: &Site<'_>,
    call: &Call<'_>,
    spec: &WorkloadSpec,
) -> Result<Box<dyn Kernel>> {
    let table = site.service::<Variables>()?;
    let backends = site.service::<Registry>()?;
    let backend = backends.reference().ok_or_else(|| {
        let text = format!("no backend computes {} for these sizes", spec.op.name);
        Error::new(ErrorKind::Unsupported, text)
    })?;
    let outputs = spec.outputs.iter().flatten();
    Ok(Box::new(BoundWorkload {
        workload: backend.workload(spec)?,
        bytes: outputs.map(|ty| ty.bytes() as u64).sum(),
        binding: call.binding(&table)?,
        pending_placement: None,
        node: call.node.to_owned(),
        operator: spec.op.name,
        backend: backend.id().to_string(),
        inputs: call.inputs.clone(),
        outputs: call.outputs.clone(),
        table,
    }))
}

fn make(site: &Site<'_>, call: &Call<'_>) -> Result<BoundWorkload> {
    let table = site.service::<Variables>()?;
    let backends = site.service::<Registry>()?;
    let id = BackendId::from(call.backend.to_owned());
    let backend = backends.find(&id).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("backend '{id}' is not available"),
        )
        .expected(format_args!("one of {}", backends.names()))
    })?;
    let op = operator_of(call)?;
    let binding = call.binding(&table)?;
    let spec = specification(
        &table,
        call,
        op,
        operator_attributes(op, site.attributes())?,
    )?;
    let node = Node::of(&spec);
    node.check(&spec)?;
    let absent = absent(&table, call)?;
    let backend = if absent.is_empty() {
        supporting(backend, &backends, &table, &node.view(&spec))?
    } else {
        backend
    };
    let workload = backend.workload(&spec).map_err(|error| {
        if absent.is_empty() || error.kind() != ErrorKind::Unsupported {
            error
        } else {
            unusable(&absent, call.backend, &error.to_string())
        }
    })?;
    let mut needed = absent;
    needed.retain(|constant| workload.reads(constant.input));
    if !needed.is_empty() {
        return Err(unusable(&needed, call.backend, "it reads the plain form"));
    }
    let pending_placement = if backend.handle_factories().is_empty() {
        None
    } else {
        let inputs = spec.inputs.iter().enumerate();
        let inputs = inputs.map(|(index, input)| {
            let read = input.as_ref().filter(|_| workload.reads(index));
            read.map(|input| input.ty.clone())
        });
        Some(PendingPlacement {
            placements: site.service()?,
            backend: backend.clone(),
            types: inputs.chain(spec.outputs.iter().cloned()).collect(),
        })
    };
    Ok(BoundWorkload {
        workload,
        bytes: spec
            .outputs
            .iter()
            .flatten()
            .map(|ty| ty.bytes() as u64)
            .sum(),
        binding,
        pending_placement,
        node: call.node.to_owned(),
        operator: op.name,
        backend: backend.id().to_string(),
        inputs: call.inputs.clone(),
        outputs: call.outputs.clone(),
        table,
    })
}

/// The backend of a workload; the reference implementation where the backend lacks a kernel for these sizes.
pub(crate) fn supporting<'a>(
    backend: &'a Arc<dyn Backend>,
    backends: &'a Registry,
    table: &Variables,
    node: &NodeView<'_>,
) -> Result<&'a Arc<dyn Backend>> {
    let Err(refusal) = backend.supports(node) else {
        return Ok(backend);
    };
    let reference = backends.reference().filter(|_| table.is_of_sizes());
    let substitute = reference.filter(|backend| backend.supports(node).is_ok());
    substitute.ok_or_else(|| {
        let (id, op) = (backend.id(), node.op.name);
        let text = format!("backend {id} does not take {op}: {refusal}");
        Error::new(ErrorKind::Unsupported, text)
    })
}

/// The operator of a call.
pub(crate) fn operator_of(call: &Call<'_>) -> Result<&'static OperatorDef> {
    operator(call.operator).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("unknown operator '{}'", call.operator),
        )
        .help("the package may be made by a newer version of Tenon")
    })
}

/// The specification from which the backend builds the workload.
pub(crate) fn specification(
    table: &Variables,
    call: &Call<'_>,
    op: &'static OperatorDef,
    attributes: Attributes,
) -> Result<WorkloadSpec> {
    let input = |(&id, &prepared): (&Option<VariableId>, &Option<VariableId>)| {
        let Some(id) = id else { return Ok(None) };
        let ty = table.ty(id)?.clone();
        let constant = table.constant(id).cloned();
        let constant = constant
            .map(|bytes| Tensor::new(ty.clone(), bytes))
            .transpose()?;
        let prepared = prepared
            .map(|form| prepared_form(table, form, id, call.backend))
            .transpose()?;
        Ok(Some(InputSpec {
            ty,
            constant,
            prepared,
        }))
    };
    let output = |&id: &Option<VariableId>| id.map(|id| table.ty(id).cloned()).transpose();
    Ok(WorkloadSpec {
        op,
        attributes,
        inputs: call
            .inputs
            .iter()
            .zip(&call.prepared)
            .map(input)
            .collect::<Result<_>>()?,
        outputs: call.outputs.iter().map(output).collect::<Result<_>>()?,
        ranges: None,
    })
}

/// Layout and bytes of the variable `form`, which must be the form of input `of` prepared for this
/// backend: the backend relies on it having the same elements.
fn prepared_form(
    table: &Variables,
    form: VariableId,
    of: VariableId,
    backend: &str,
) -> Result<(String, Buffer)> {
    let prepared = table.variable(form)?.prepared.as_ref();
    prepared
        .filter(|prepared| prepared.of == of && prepared.backend == backend)
        .map(|prepared| prepared.layout.clone())
        .zip(table.constant(form).cloned())
        .ok_or_else(|| {
            invalid(format!(
                "variable {} is not a form of variable {} prepared for {backend}",
                form.0, of.0
            ))
        })
}

/// A constant input whose plain form is absent from the package.
struct AbsentConstant<'a> {
    input: usize,
    name: &'a str,
    /// The layout of its prepared form.
    layout: &'a str,
}

/// The inputs whose plain form is absent; each must have a prepared form.
fn absent<'a>(table: &'a Variables, call: &Call<'_>) -> Result<Vec<AbsentConstant<'a>>> {
    let mut all = Vec::new();
    for (input, (id, form)) in call.inputs.iter().zip(&call.prepared).enumerate() {
        let Some(id) = id.filter(|&id| table.is_absent(id)) else {
            continue;
        };
        let name = &table.variable(id)?.name;
        let form = form.map(|form| table.variable(form)).transpose()?;
        let prepared = form.and_then(|form| form.prepared.as_ref());
        let prepared = prepared.ok_or_else(|| {
            invalid(format!(
                "the plain form of constant '{name}' is absent, and no prepared form is named"
            ))
        })?;
        all.push(AbsentConstant {
            input,
            name,
            layout: &prepared.layout,
        });
    }
    Ok(all)
}

/// The errors of a workload that requires the plain form of absent constants.
fn unusable(absent: &[AbsentConstant<'_>], backend: &str, reason: &str) -> Error {
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

/// Checks a specification against the operator table.
pub(crate) fn check(spec: &WorkloadSpec) -> Result<()> {
    Node::of(spec).check(spec)
}

/// Calls `call` with a specification as backends take it in queries.
pub(crate) fn with_view<R>(spec: &WorkloadSpec, call: impl FnOnce(&NodeView<'_>) -> R) -> R {
    let node = Node::of(spec);
    call(&node.view(spec))
}

/// The types and constants of a specification, in the form that the operator table and backends
/// take.
struct Node<'a> {
    inputs: Vec<Option<&'a TensorType>>,
    constants: Vec<Option<&'a Tensor>>,
    outputs: Vec<Option<&'a TensorType>>,
}

impl<'a> Node<'a> {
    fn of(spec: &'a WorkloadSpec) -> Self {
        let inputs = || spec.inputs.iter().map(Option::as_ref);
        Self {
            inputs: inputs().map(|input| input.map(|input| &input.ty)).collect(),
            constants: inputs()
                .map(|input| input.and_then(|input| input.constant.as_ref()))
                .collect(),
            outputs: spec.outputs.iter().map(Option::as_ref).collect(),
        }
    }

    fn view(&'a self, spec: &'a WorkloadSpec) -> NodeView<'a> {
        NodeView {
            op: spec.op,
            attributes: &spec.attributes,
            inputs: &self.inputs,
            constants: &self.constants,
            outputs: &self.outputs,
            ranges: None,
        }
    }

    /// Checks the operand types by shape inference: a backend relies on it, and a package is
    /// untrusted.
    fn check(&self, spec: &WorkloadSpec) -> Result<()> {
        let is_present: Vec<bool> = self.outputs.iter().map(Option::is_some).collect();
        Error::from_all(check_outputs(spec.op, &is_present)).map_or(Ok(()), Err)?;
        let inferred = infer(
            spec.op,
            &spec.attributes,
            &self.inputs,
            &self.constants,
            self.outputs.len(),
        )?;
        let declared = self.outputs.iter().zip(inferred).enumerate();
        let wrong = declared.filter_map(|(index, (declared, inferred))| {
            declared
                .filter(|&declared| *declared != inferred)
                .map(|declared| {
                    invalid(format!(
                        "the type of output {index} is not the result type of {}",
                        spec.op.name
                    ))
                    .expected(inferred)
                    .found(declared)
                })
        });
        Error::from_all(wrong).map_or(Ok(()), Err)
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}
