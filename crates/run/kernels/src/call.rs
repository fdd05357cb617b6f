//! Workload and movement kernels in decoded form: one operator applied to variables.

use crate::attributes::{invalid, operator_attributes};
use crate::{VariableId, Variables, WorkloadBinding, movement, workload};
use std::sync::Arc;
use tenon_backend::{BackendId, InputSpec, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::Kernel;
use tenon_executor::KernelAttributes;
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, OperatorDef, check_outputs, infer};
use tenon_plan::KernelOperands;
use tenon_tensor::{Buffer, Tensor};

/// The decoded attributes of a kernel.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) backend: BackendId,
    pub(crate) node: Box<str>,
    pub(crate) op: &'static OperatorDef,
    pub(crate) inputs: Vec<Option<VariableId>>,
    pub(crate) outputs: Vec<Option<VariableId>>,
    prepared: Vec<Option<VariableId>>,
    pub(crate) scratch: Option<VariableId>,
}

impl Call {
    /// The call of a workload kernel.
    pub(crate) fn read(attributes: KernelAttributes<'_>) -> Result<Self> {
        let ids = |name| variables(attributes, name);
        let call = Self {
            backend: BackendId::from(attributes.string("backend")?.to_owned()),
            prepared: ids("prepared")?,
            scratch: variable("scratch", attributes.i32("scratch")?)?,
            ..Self::read_movement(attributes)?
        };
        if call.prepared.len() != call.inputs.len() {
            return Err(invalid("'prepared' does not have an entry for each input")
                .expected(call.inputs.len())
                .found(call.prepared.len()));
        }
        Ok(call)
    }

    /// The call of a movement kernel, which has neither a backend nor scratch memory.
    pub(crate) fn read_movement(attributes: KernelAttributes<'_>) -> Result<Self> {
        let inputs = variables(attributes, "inputs")?;
        let node = attributes.string("node")?;
        let name = attributes.string("operator")?;
        let op = operator(name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown operator '{name}'"))
                .help("the package may be made by a newer version of Tenon")
                .at(Location::node(node))
        })?;
        Ok(Self {
            backend: BackendId::new(movement::BACKEND),
            node: node.into(),
            op,
            outputs: variables(attributes, "outputs")?,
            prepared: vec![None; inputs.len()],
            inputs,
            scratch: None,
        })
    }

    /// The variables that it writes.
    pub(crate) fn written(&self) -> impl Iterator<Item = VariableId> {
        self.outputs.iter().flatten().copied()
    }

    /// All variables with types or elements that it names, in order; `None` for omitted operands.
    pub(crate) fn operand_variables(&self) -> impl Iterator<Item = Option<VariableId>> {
        let read = self.inputs.iter().chain(&self.prepared);
        read.chain(&self.outputs).copied()
    }

    pub(crate) fn binding(&self, table: &Arc<Variables>) -> Result<WorkloadBinding> {
        WorkloadBinding::new(table, &self.inputs, &self.outputs, self.scratch)
    }

    /// The variables as the planner of the arena takes them.
    pub(crate) fn operands(&self) -> KernelOperands {
        let ids = |list: &[Option<VariableId>]| list.iter().map(|id| id.map(|id| id.0)).collect();
        KernelOperands {
            inputs: ids(&self.inputs),
            outputs: ids(&self.outputs),
            scratch: self.scratch.map(|id| id.0),
        }
    }

    /// The location of its node.
    pub(crate) fn location(&self) -> Location {
        Location::node(&*self.node)
    }

    /// The inputs whose plain form is absent; each must have a prepared form.
    pub(crate) fn absent<'a>(&self, table: &'a Variables) -> Result<Vec<AbsentConstant<'a>>> {
        let mut all = Vec::new();
        for (input, (id, form)) in self.inputs.iter().zip(&self.prepared).enumerate() {
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
}

/// A constant input whose plain form is absent from the package.
pub(crate) struct AbsentConstant<'a> {
    pub(crate) input: usize,
    pub(crate) name: &'a str,
    /// The layout of its prepared form.
    pub(crate) layout: &'a str,
}

/// A call with the attributes of its operator.
#[derive(Debug, Clone)]
pub(crate) struct OperatorCall {
    pub(crate) call: Arc<Call>,
    pub(crate) attributes: Attributes,
}

impl OperatorCall {
    /// The call of a workload kernel.
    pub(crate) fn workload(attributes: KernelAttributes<'_>) -> Result<Self> {
        Self::new(Call::read(attributes)?, attributes)
    }

    /// The call of a movement kernel.
    pub(crate) fn movement(attributes: KernelAttributes<'_>) -> Result<Self> {
        Self::new(Call::read_movement(attributes)?, attributes)
    }

    fn new(call: Call, attributes: KernelAttributes<'_>) -> Result<Self> {
        let attributes = operator_attributes(call.op, attributes);
        Ok(Self {
            attributes: attributes.map_err(|error| error.at(call.location()))?,
            call: Arc::new(call),
        })
    }

    /// The specification from which a backend builds the workload, checked by shape inference: a backend relies on
    /// it, and a package is untrusted.
    pub(crate) fn checked_specification(&self, table: &Variables) -> Result<WorkloadSpec> {
        let spec = self.specification(table)?;
        check(&spec)?;
        Ok(spec)
    }

    fn specification(&self, table: &Variables) -> Result<WorkloadSpec> {
        let Call {
            backend,
            op,
            inputs,
            outputs,
            prepared,
            ..
        } = &*self.call;
        let input = |(&id, &prepared): (&Option<VariableId>, &Option<VariableId>)| {
            let Some(id) = id else { return Ok(None) };
            let ty = table.ty(id)?.clone();
            let constant = table.constant(id).cloned();
            let constant = constant
                .map(|bytes| Tensor::new(ty.clone(), bytes))
                .transpose()?;
            let prepared = prepared
                .map(|form| prepared_form(table, form, id, backend))
                .transpose()?;
            Ok(Some(InputSpec {
                ty,
                constant,
                prepared,
            }))
        };
        let output = |&id: &Option<VariableId>| id.map(|id| table.ty(id).cloned()).transpose();
        let inputs = inputs.iter().zip(prepared).map(input);
        Ok(WorkloadSpec {
            op,
            attributes: self.attributes.clone(),
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.iter().map(output).collect::<Result<_>>()?,
            ranges: None,
        })
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

/// Layout and bytes of the variable `form`, which must be the form of input `of` prepared for this
/// backend: the backend relies on it having the same elements.
fn prepared_form(
    table: &Variables,
    form: VariableId,
    of: VariableId,
    backend: &BackendId,
) -> Result<(String, Buffer)> {
    let prepared = table.variable(form)?.prepared.as_ref();
    prepared
        .filter(|prepared| prepared.of == of && prepared.backend == backend.as_str())
        .map(|prepared| prepared.layout.clone())
        .zip(table.constant(form).cloned())
        .ok_or_else(|| {
            invalid(format!(
                "variable {} is not a form of variable {} prepared for {backend}",
                form.0, of.0
            ))
        })
}

/// Checks a specification against the operator table, its operand types by shape inference.
fn check(spec: &WorkloadSpec) -> Result<()> {
    spec.with_view(|node| {
        let is_present: Vec<bool> = node.outputs.iter().map(Option::is_some).collect();
        Error::from_all(check_outputs(spec.op, &is_present)).map_or(Ok(()), Err)?;
        let count = node.outputs.len();
        let inferred = infer(node.op, node.attributes, node.inputs, node.constants, count)?;
        let declared = node.outputs.iter().zip(inferred).enumerate();
        let wrong = declared.filter_map(|(index, (declared, inferred))| {
            let declared = declared.filter(|&declared| *declared != inferred)?;
            let name = spec.op.name;
            let text = format!("the type of output {index} is not the result type of {name}");
            Some(invalid(text).expected(inferred).found(declared))
        });
        Error::from_all(wrong).map_or(Ok(()), Err)
    })
}

/// One operator applied to variables, for analyses of a program.
#[derive(Debug, Clone)]
pub struct WorkloadCall {
    /// The backend.
    pub backend: BackendId,
    /// The graph node.
    pub node: String,
    /// The operator, its attributes, operand types and constants; a constant whose plain form is
    /// absent from the package has its prepared form.
    pub spec: WorkloadSpec,
    /// The variables that it reads; `None` for an omitted operand.
    pub inputs: Vec<Option<VariableId>>,
    /// The variables that it writes; `None` for an unused output.
    pub outputs: Vec<Option<VariableId>>,
}

impl WorkloadCall {
    /// Checks the operand types by shape inference: backends rely on it, and a package is
    /// untrusted.
    pub fn check(&self) -> Result<()> {
        check(&self.spec)
    }
}

/// The name of the backend of a workload kernel; `None` for other kernels.
pub fn workload_backend(kernel: &Kernel) -> Result<Option<&str>> {
    if kernel.name != workload::NAME {
        return Ok(None);
    }
    KernelAttributes::of(kernel).string("backend").map(Some)
}

/// The call of a workload kernel; `None` for other kernels.
pub fn workload_call(kernel: &Kernel, table: &Variables) -> Result<Option<WorkloadCall>> {
    if kernel.name != workload::NAME {
        return Ok(None);
    }
    let operator = OperatorCall::workload(KernelAttributes::of(kernel))?;
    let spec = operator.specification(table);
    let mut spec = spec.map_err(|error| error.at(operator.call.location()))?;
    for input in spec.inputs.iter_mut().flatten() {
        if input.constant.is_some() {
            input.prepared = None;
        }
    }
    let call = operator.call;
    Ok(Some(WorkloadCall {
        backend: call.backend.clone(),
        node: call.node.to_string(),
        spec,
        inputs: call.inputs.clone(),
        outputs: call.outputs.clone(),
    }))
}
