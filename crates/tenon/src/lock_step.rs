//! Two backends in lock step: every operator on both, with the same inputs, until they differ.
//!
//! A package runs as it always does. Behind each workload of one of the two backends, the other
//! computes the same operator on the very inputs that the first one read, so that a difference is
//! that operator's own and not handed down by those before it.

mod reproduction;
mod values;

pub use reproduction::Reproduction;

use crate::Difference;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tenon_backend::{Backend, BackendId, CpuLevel, NodeView, OwnedOperands, Registry};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_kernels::WorkloadCall;
use tenon_neff::{Contents, Package};
use tenon_runtime::{ExecuteOptions, LoadOptions, Model, Runtime, Tap, Tapped};
use tenon_tensor::{DataType, Tensor, TensorType};
use values::Values;

/// How far two results may be apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// For numbers with a fraction: the largest difference over the largest number of the tensor.
    /// A type of 16 bits or fewer may be off by one step of its own besides.
    pub relative: f64,
    /// For numbers with a fraction: differences up to this one do not count.
    pub absolute: f64,
    /// For integers of 16 bits or fewer, which quantised operators make: how far they may be
    /// apart. Other types must be equal.
    pub steps: u32,
}

impl Default for Tolerance {
    /// A thousandth, and one step of quantised numbers.
    fn default() -> Self {
        Self {
            relative: 1e-3,
            absolute: 1e-6,
            steps: 1,
        }
    }
}

impl Tolerance {
    /// Whether tensors of this type may differ so much.
    pub fn accepts(&self, difference: &Difference, dtype: DataType) -> bool {
        if dtype.is_float() || matches!(dtype, DataType::C64 | DataType::C128) {
            let relative = self.relative.max(step_of(dtype));
            return difference.absolute <= self.absolute || difference.relative <= relative;
        }
        let steps = match dtype.is_integer() && dtype.bits() <= 16 {
            true => self.steps,
            false => 0,
        };
        difference.absolute <= f64::from(steps)
    }
}

/// The distance from 1 to the next number of a narrow type; 0 for the others.
fn step_of(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 1.0 / 1024.0,
        DataType::BF16 => 1.0 / 128.0,
        _ if dtype.bits() <= 8 => 0.25,
        _ => 0.0,
    }
}

/// What comparing found.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The two backends; the second one's results are what is expected.
    pub backends: [BackendId; 2],
    /// Nodes that both computed, in order, up to the divergence.
    pub compared: Vec<Compared>,
    /// Nodes that only one could compute.
    pub skipped: Vec<Skipped>,
    /// Kernels that belong to neither: data movement, and nodes of other backends.
    pub others: usize,
    /// The first node whose results differ too much; nothing behind it ran.
    pub divergence: Option<Divergence>,
}

/// A node that both backends computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The difference of the output that differs most.
    pub difference: Difference,
}

/// A node that one backend could not compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The backend that could not, and why.
    pub reason: String,
}

/// The first node whose results differ too much, with everything that shows it.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The node.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// The name of the output that differs.
    pub output: String,
    /// How far apart the two are.
    pub difference: Difference,
    /// The two numbers of the worst element, of the first backend and the second.
    pub worst: [f64; 2],
    backends: [BackendId; 2],
    call: WorkloadCall,
    inputs: Vec<Option<(String, Tensor)>>,
    /// The second backend's.
    expected: Vec<Option<(String, Tensor)>>,
}

/// Runs `package` on the backends of `registry` and compares every workload of one of the two
/// with the other.
///
/// # Errors
/// Backends that are not there or are one, inputs that do not fit, a package that does not load,
/// and what an execution answers; a divergence is none.
pub fn compare_backends(
    package: &Package,
    registry: &Registry,
    backends: [BackendId; 2],
    inputs: &[(&str, &Tensor)],
    tolerance: &Tolerance,
    control: &Control,
) -> Result<Comparison> {
    let [first, second] = &backends;
    if first == second {
        let text = "a backend cannot be compared with itself";
        return Err(Error::new(ErrorKind::Usage, text).found(first));
    }
    for id in &backends {
        if registry.find(id).is_none() {
            return Err(Error::new(ErrorKind::NotFound, "no backend has this name")
                .expected(registry.names())
                .found(id));
        }
    }
    let runtime = Runtime::new(registry.clone(), tenon_builtin::kernels());
    let options = LoadOptions {
        control: control.clone(),
        ..LoadOptions::default()
    };
    let model = Model::load(&runtime, package, &options)?;
    let Some(variables) = model.variables() else {
        let text = "a package of several nodes cannot be compared";
        return Err(Error::new(ErrorKind::Unsupported, text).help("compile it without --cpu-node"));
    };
    let contents = Contents::read(package)?;
    let module = crate::program(&contents)?;
    let main = module
        .functions
        .iter()
        .find(|function| &*function.name == "main");
    let kernels = main.map_or(&[][..], |main| &main.kernels);
    let mut calls = Vec::new();
    for kernel in kernels {
        let call = tenon_kernels::workload_call(kernel, variables)?;
        calls.extend(call.filter(|call| backends.contains(&call.backend)));
    }
    let lock_step = LockStep {
        registry,
        tolerance,
        nodes: calls
            .iter()
            .enumerate()
            .map(|(index, call)| (call.node.clone(), index))
            .collect(),
        state: Mutex::new(State {
            values: Values::new(&contents, &calls, inputs),
            next: 0,
            missing: calls.first().map_or(0, outputs_of),
            found: Comparison {
                others: kernels.len() - calls.len(),
                backends,
                compared: Vec::new(),
                skipped: Vec::new(),
                divergence: None,
            },
        }),
        calls,
    };
    let options = ExecuteOptions {
        control: Some(control),
        tap: Some(&lock_step),
        ..ExecuteOptions::default()
    };
    let ran = model.run_with(inputs, options);
    let state = lock_step.state.into_inner();
    let found = state.unwrap_or_else(PoisonError::into_inner).found;
    match ran {
        // It was stopped there.
        Err(_) if found.divergence.is_some() => Ok(found),
        Err(error) => Err(error),
        Ok(_) => Ok(found),
    }
}

/// How many values a call makes.
fn outputs_of(call: &WorkloadCall) -> usize {
    call.outputs.iter().flatten().count()
}

/// Hears every value that is made, and computes its node again.
struct LockStep<'a> {
    registry: &'a Registry,
    tolerance: &'a Tolerance,
    calls: Vec<WorkloadCall>,
    /// The call of each node.
    nodes: HashMap<String, usize>,
    state: Mutex<State>,
}

struct State {
    values: Values,
    /// The call that is made next, and how many of its outputs are still to come.
    next: usize,
    missing: usize,
    found: Comparison,
}

impl Tap for LockStep<'_> {
    fn made(&self, tapped: Tapped<'_>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        // Kernels behind the divergence may still run.
        if state.found.divergence.is_some() {
            return Err(Error::new(ErrorKind::Cancelled, "the backends differ"));
        }
        state.values.keep(tapped.value, tapped.bytes)?;
        if self.nodes.get(tapped.node) != Some(&state.next) {
            return Ok(());
        }
        state.missing = state.missing.saturating_sub(1);
        if state.missing > 0 {
            return Ok(());
        }
        let call = &self.calls[state.next];
        self.compare(call, &state.values, &mut state.found)
            .map_err(|error| error.at(Location::node(call.node.as_str())))?;
        if state.found.divergence.is_some() {
            return Err(Error::new(ErrorKind::Cancelled, "the backends differ here"));
        }
        state.values.forget(state.next);
        state.next += 1;
        state.missing = self.calls.get(state.next).map_or(0, outputs_of);
        Ok(())
    }
}

impl LockStep<'_> {
    /// Computes a call on the backend that did not, and compares.
    fn compare(&self, call: &WorkloadCall, values: &Values, found: &mut Comparison) -> Result<()> {
        let [first, second] = found.backends.clone();
        let ran_first = call.backend == first;
        let id = if ran_first { &second } else { &first };
        let skip = |reason: String| Skipped {
            node: call.node.clone(),
            operator: call.spec.op.name,
            reason: format!("{id}: {reason}"),
        };
        let Some(backend) = self.registry.find(id) else {
            return Ok(());
        };
        let inputs = match values.inputs(call)? {
            Ok(inputs) => inputs,
            Err(reason) => {
                found.skipped.push(skip(reason));
                return Ok(());
            }
        };
        if let Some(reason) = refusal(&**backend, call) {
            found.skipped.push(skip(reason));
            return Ok(());
        }
        let ran = values.outputs(call)?;
        let again = execute(&**backend, call, &inputs)?;
        let again = again
            .into_iter()
            .zip(&ran)
            .map(|(tensor, ran)| Some((ran.as_ref()?.0.clone(), tensor?)))
            .collect();
        let (ours, expected): (Named, Named) = match ran_first {
            true => (ran, again),
            false => (again, ran),
        };
        let mut worst: Option<Difference> = None;
        for pair in ours.iter().zip(&expected) {
            let (Some((name, a)), Some((_, b))) = pair else {
                continue;
            };
            let difference = difference(a, b)?;
            if !self.tolerance.accepts(&difference, a.dtype()) {
                found.divergence = Some(Divergence {
                    node: call.node.clone(),
                    operator: call.spec.op.name,
                    output: name.clone(),
                    worst: [element(a, difference.worst)?, element(b, difference.worst)?],
                    difference,
                    backends: found.backends.clone(),
                    call: call.clone(),
                    inputs: values.named(call, inputs),
                    expected,
                });
                return Ok(());
            }
            if worst.is_none_or(|worst| difference.relative > worst.relative) {
                worst = Some(difference);
            }
        }
        found.compared.extend(worst.map(|difference| Compared {
            node: call.node.clone(),
            operator: call.spec.op.name,
            difference,
        }));
        Ok(())
    }
}

/// Operands with the names of their variables.
type Named = Vec<Option<(String, Tensor)>>;

/// Why a backend does not take a call.
fn refusal(backend: &dyn Backend, call: &WorkloadCall) -> Option<String> {
    let spec = &call.spec;
    let given = || spec.inputs.iter().map(Option::as_ref);
    let inputs: Vec<Option<&TensorType>> =
        given().map(|input| input.map(|input| &input.ty)).collect();
    let constants: Vec<Option<&Tensor>> = given()
        .map(|input| input.and_then(|input| input.constant.as_ref()))
        .collect();
    let outputs: Vec<Option<&TensorType>> = spec.outputs.iter().map(Option::as_ref).collect();
    let node = NodeView {
        op: spec.op,
        attributes: &spec.attributes,
        inputs: &inputs,
        constants: &constants,
        outputs: &outputs,
    };
    let answer = backend.supports(&node);
    answer.err().map(|refusal| refusal.to_string())
}

/// The outputs of a call on a backend.
fn execute(
    backend: &dyn Backend,
    call: &WorkloadCall,
    inputs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let plan = backend.plan(&call.spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&call.spec)?;
    let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
    let mut operands = OwnedOperands::new(&inputs, &call.spec.outputs, plan.scratch_bytes)?;
    operands.execute(&*workload)?;
    operands.into_outputs()
}

/// The difference of two tensors; equal bytes differ by nothing, whatever their type.
fn difference(a: &Tensor, b: &Tensor) -> Result<Difference> {
    match a.bytes() == b.bytes() {
        true => Ok(Difference {
            absolute: 0.0,
            relative: 0.0,
            same_top: true,
            worst: 0,
        }),
        false => Difference::between(a, b),
    }
}

/// One number of a tensor.
fn element(tensor: &Tensor, index: usize) -> Result<f64> {
    let wide = tenon_tensor::convert(tensor, DataType::F64)?;
    let number = wide.as_slice::<f64>().and_then(|list| list.get(index));
    Ok(number.copied().unwrap_or(f64::NAN))
}

impl Comparison {
    /// The node whose results differ most, of those that agree.
    pub fn largest(&self) -> Option<&Compared> {
        let by = |node: &&Compared| node.difference.relative;
        let nodes = self.compared.iter();
        nodes.max_by(|a, b| by(a).total_cmp(&by(b)))
    }

    /// All of it as JSON; tensors are left out.
    pub fn json(&self) -> Value {
        let compared = |node: &Compared| {
            json!({"node": node.node, "operator": node.operator,
                   "absolute": number(node.difference.absolute),
                   "relative": number(node.difference.relative)})
        };
        let skipped = |node: &Skipped| json!({"node": node.node, "operator": node.operator, "reason": node.reason});
        json!({
            "backends": self.backends.each_ref().map(BackendId::as_str),
            "compared": self.compared.iter().map(compared).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
            "others": self.others,
            "divergence": self.divergence.as_ref().map(Divergence::json),
        })
    }
}

impl Divergence {
    fn json(&self) -> Value {
        json!({
            "node": self.node,
            "operator": self.operator,
            "output": self.output,
            "absolute": number(self.difference.absolute),
            "relative": number(self.difference.relative),
            "element": self.difference.worst,
            "values": self.worst.map(number),
        })
    }
}

/// JSON has no infinity and no NaN: they become text.
fn number(value: f64) -> Value {
    match value.is_finite() {
        true => json!(value),
        false => json!(value.to_string()),
    }
}

#[cfg(test)]
mod tests;
