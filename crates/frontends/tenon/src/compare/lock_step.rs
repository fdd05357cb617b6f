//! The tap that computes each operator again on the other backend.

use super::values::Values;
use super::{
    CompareOptions, ComparedNode, Comparison, Difference, Divergence, FusedNodes, OperandTensors,
    Tolerance, UncomparedNode, fused,
};
use crate::inspect::{decode_module, decode_program};
use crate::outputs::{Element, elements};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_backend::{Backend, BackendId, CpuLevel, OwnedOperands, Registry};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Kernel, Module};
use tenon_compiler::narrow_weights;
use tenon_graph::Graph;
use tenon_kernels::{Variables, WorkloadCall};
use tenon_neff::{Contents, NodeGraph, NodeWork, Package};
use tenon_runtime::{Tap, TapValue};
use tenon_tensor::Tensor;

/// Receives every output of a node, and computes the node on the other backend.
pub(super) struct LockStep<'a> {
    registry: &'a Registry,
    fused_nodes: &'a FusedNodes,
    tolerance: &'a Tolerance,
    programs: HashMap<String, SubgraphProgram>,
    state: Mutex<State>,
}

/// The program of a subgraph, whose sizes are known when it runs.
struct SubgraphProgram {
    contents: Box<Contents>,
    module: Module,
}

/// The workloads of one subgraph on one of two backends, for the sizes of a run.
struct Part {
    calls: Vec<WorkloadCall>,
    /// The call of each node.
    nodes: HashMap<String, usize>,
}

struct State {
    progress: HashMap<String, Progress>,
    found: Comparison,
    /// The positions of nodes in `found`.
    compared: HashMap<String, usize>,
}

/// The progress of one run of a subgraph.
struct Progress {
    part: Part,
    values: Values,
    /// The next workload, and the number of its outputs that were not received yet.
    next: usize,
    missing: usize,
}

impl SubgraphProgram {
    fn read(contents: Box<Contents>) -> Result<Self> {
        let module = decode_program(&contents)?;
        Ok(Self { contents, module })
    }

    fn kernels(&self) -> &[Kernel] {
        let mut functions = self.module.functions.iter();
        let main = functions.find(|function| &*function.name == "main");
        main.map_or(&[], |main| &main.kernels)
    }

    /// The number of kernels that are of neither backend.
    fn others(&self, backends: &[BackendId; 2]) -> Result<usize> {
        let mut others = 0;
        for kernel in self.kernels() {
            let backend = tenon_kernels::workload_backend(kernel)?;
            let compared = backend.is_some_and(|id| backends.iter().any(|it| it.as_str() == id));
            others += usize::from(!compared);
        }
        Ok(others)
    }

    /// The start of a run with these variables.
    fn start(
        &self,
        table: &Variables,
        registry: &Registry,
        backends: &[BackendId; 2],
    ) -> Result<Progress> {
        let mut calls = Vec::new();
        for kernel in self.kernels() {
            let call = tenon_kernels::workload_call(kernel, table)?;
            let call = call.map(|call| call_for_sizes(call, table, registry));
            calls.extend(call.filter(|call| backends.contains(&call.backend)));
        }
        let nodes = calls.iter().enumerate();
        let nodes = nodes.map(|(index, call)| (call.node.clone(), index));
        let part = Part {
            nodes: nodes.collect(),
            calls,
        };
        Ok(Progress {
            values: Values::new(&self.contents, &part.calls),
            next: 0,
            missing: part.calls.first().map_or(0, outputs_of),
            part,
        })
    }
}

/// The call on the backend that runs it: the reference where its backend refuses these sizes.
fn call_for_sizes(call: WorkloadCall, table: &Variables, registry: &Registry) -> WorkloadCall {
    let constants = call.spec.inputs.iter().flatten();
    let are_plain = constants
        .clone()
        .all(|input| input.prepared.is_none() || input.constant.is_some());
    let refused = || {
        let backend = registry.find(&call.backend);
        backend.is_some_and(|backend| refusal(&**backend, &call).is_some())
    };
    match registry.reference() {
        Some(reference) if table.is_of_sizes() && are_plain && refused() => WorkloadCall {
            backend: reference.id(),
            ..call
        },
        _ => call,
    }
}

/// The number of outputs of a call.
fn outputs_of(call: &WorkloadCall) -> usize {
    call.outputs.iter().flatten().count()
}

impl<'a> LockStep<'a> {
    /// For a model that was loaded from `package`.
    pub fn new(
        package: &Package,
        registry: &'a Registry,
        options: &'a CompareOptions,
    ) -> Result<Self> {
        let backends = options.backends.clone();
        let mut programs = HashMap::new();
        let mut other_kernels = 0;
        for node in NodeGraph::read(package)?.nodes {
            match node.work {
                NodeWork::Core(contents) => {
                    let program = SubgraphProgram::read(contents)?;
                    other_kernels += program.others(&backends)?;
                    programs.insert(node.name, program);
                }
                NodeWork::Cpu(_) => other_kernels += 1,
                NodeWork::Host(function) => {
                    let module = decode_module(&function.program)?;
                    let kernels = module.functions.iter().flat_map(|it| &it.kernels);
                    let operators = kernels.filter(|kernel| kernel.name == "tenon.operator");
                    other_kernels += operators.count();
                }
            }
        }
        let found = Comparison {
            backends,
            compared: Vec::new(),
            skipped: Vec::new(),
            other_kernels,
            divergence: None,
        };
        Ok(Self {
            registry,
            fused_nodes: &options.fused_nodes,
            tolerance: &options.tolerance,
            programs,
            state: Mutex::new(State {
                progress: HashMap::new(),
                found,
                compared: HashMap::new(),
            }),
        })
    }

    /// The result.
    pub fn into_comparison(self) -> Comparison {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).found
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for LockStep<'_> {
    fn on_subgraph(&self, name: &str, variables: &Arc<Variables>) -> Result<()> {
        let Some(program) = self.programs.get(name) else {
            return Ok(());
        };
        let mut state = self.lock();
        let started = program.start(variables, self.registry, &state.found.backends)?;
        state.progress.insert(name.to_owned(), started);
        Ok(())
    }

    fn on_input(&self, tapped: TapValue<'_>) -> Result<()> {
        match self.lock().progress.get_mut(tapped.subgraph) {
            Some(progress) => progress.values.keep(tapped.value, tapped.bytes),
            None => Ok(()),
        }
    }

    fn on_value(&self, tapped: TapValue<'_>) -> Result<()> {
        let mut state = self.lock();
        let State {
            progress,
            found,
            compared,
        } = &mut *state;
        let Some(progress) = progress.get_mut(tapped.subgraph) else {
            return Ok(());
        };
        progress.values.keep(tapped.value, tapped.bytes)?;
        let part = &progress.part;
        if part.nodes.get(tapped.node) != Some(&progress.next) {
            return Ok(());
        }
        progress.missing = progress.missing.saturating_sub(1);
        if progress.missing > 0 {
            return Ok(());
        }
        let call = &part.calls[progress.next];
        self.compare(call, &progress.values, found)
            .map_err(|error| error.at(Location::node(call.node.as_str())))?;
        merge_runs(found, compared);
        if found.divergence.is_some() {
            return Err(Error::new(ErrorKind::Cancelled, "the backends differ here"));
        }
        progress.values.forget(progress.next);
        progress.next += 1;
        progress.missing = part.calls.get(progress.next).map_or(0, outputs_of);
        Ok(())
    }
}

impl LockStep<'_> {
    /// The call with the plain form of its constants, or the reason why there is none.
    fn with_plain_constants(
        maker: &dyn Backend,
        call: &WorkloadCall,
    ) -> Result<std::result::Result<WorkloadCall, String>> {
        Ok(match maker.with_plain_constants(&call.spec)? {
            Ok(spec) => Ok(WorkloadCall {
                spec,
                ..call.clone()
            }),
            Err((input, layout)) => Err(format!(
                "input {input} is only there in the layout '{layout}', whose plain form backend \
                 {} does not compute",
                call.backend
            )),
        })
    }

    /// Computes a call on the other backend, and compares.
    fn compare(&self, call: &WorkloadCall, values: &Values, found: &mut Comparison) -> Result<()> {
        let [first, second] = found.backends.clone();
        let ran_first = call.backend == first;
        let id = if ran_first { &second } else { &first };
        let skip = |reason: String| UncomparedNode {
            node: call.node.clone(),
            operator: call.spec.op.name,
            reason: format!("{id}: {reason}"),
        };
        let Some(backend) = self.registry.find(id) else {
            return Ok(());
        };
        let Some(maker) = self.registry.find(&call.backend) else {
            let reason = format!("backend {} is unavailable", call.backend);
            found.skipped.push(skip(reason));
            return Ok(());
        };
        let call = &match Self::with_plain_constants(&**maker, call)? {
            Ok(call) => call,
            Err(reason) => {
                found.skipped.push(skip(reason));
                return Ok(());
            }
        };
        let inputs = values.inputs(call)?;
        let ran = values.outputs(call)?;
        let types = call.spec.inputs.iter();
        let types = types.map(|input| input.as_ref().map(|input| &input.ty));
        let narrow = narrow_weights(call.spec.op, types);
        let graph = self.fused_nodes.get(&call.node);
        let again = match (refusal(&**backend, call), graph) {
            (_, Some(original)) if narrow.is_some() => {
                let (call, inputs) = with_weights_of(original, call, &inputs);
                match refusal(&**backend, &call) {
                    None => Ok(execute(&**backend, &call, &inputs)?),
                    Some(reason) => Err(reason),
                }
            }
            (None, _) => Ok(execute(&**backend, call, &inputs)?),
            (Some(reason), None) => Err(reason),
            (Some(_), Some(graph)) => {
                let given = values.named(call, inputs.clone());
                fused::execute(&**backend, graph, &given, &ran)?
            }
        };
        let again = match again {
            Ok(again) => again,
            Err(reason) => {
                found.skipped.push(skip(reason));
                return Ok(());
            }
        };
        let again = again
            .into_iter()
            .zip(&ran)
            .map(|(tensor, ran)| Some((ran.as_ref()?.0.clone(), tensor?)))
            .collect();
        let (ours, expected): (OperandTensors, OperandTensors) = if ran_first {
            (ran, again)
        } else {
            (again, ran)
        };
        let both: [&dyn Backend; 2] = [&**maker, &**backend];
        let mut worst: Option<Difference> = None;
        for pair in ours.iter().zip(&expected) {
            let (Some((name, a)), Some((_, b))) = pair else {
                continue;
            };
            let difference = difference(a, b)?;
            if !self
                .tolerance
                .accepts(&difference, narrow.unwrap_or(a.dtype()), both)
            {
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
        found.compared.extend(worst.map(|difference| ComparedNode {
            node: call.node.clone(),
            operator: call.spec.op.name,
            difference,
        }));
        Ok(())
    }
}

/// Joins the last entries with those of earlier runs of their nodes: the largest difference is kept.
fn merge_runs(found: &mut Comparison, positions: &mut HashMap<String, usize>) {
    if let Some(last) = found.compared.last() {
        let last_at = found.compared.len() - 1;
        let at = *positions.entry(last.node.clone()).or_insert(last_at);
        if at != last_at
            && let Some(last) = found.compared.pop()
            && last.difference.relative > found.compared[at].difference.relative
        {
            found.compared[at] = last;
        }
    }
    if let [earlier @ .., last] = &found.skipped[..]
        && earlier.contains(last)
    {
        found.skipped.pop();
    }
}

/// The reason why a backend does not support a call.
fn refusal(backend: &dyn Backend, call: &WorkloadCall) -> Option<String> {
    let supported = call.spec.with_view(|node| backend.supports(node));
    supported.err().map(|refusal| refusal.to_string())
}

/// A product and its inputs with the weights of `original`, the graph of the node with weights of f32.
fn with_weights_of(
    original: &Graph,
    call: &WorkloadCall,
    inputs: &[Option<Tensor>],
) -> (WorkloadCall, Vec<Option<Tensor>>) {
    let (mut call, mut inputs) = (call.clone(), inputs.to_vec());
    let node = original.nodes.iter().flat_map(|node| &node.inputs);
    let operands = call.spec.inputs.iter_mut().zip(&mut inputs);
    for ((spec, input), id) in operands.zip(node) {
        let constant = id.and_then(|id| original.value(id).constant.as_ref());
        if let (Some(spec), Some(constant)) = (spec, constant)
            && spec.ty != *constant.ty()
        {
            spec.ty = constant.ty().clone();
            spec.constant = Some(constant.clone());
            *input = Some(constant.clone());
        }
    }
    (call, inputs)
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
    let mut operands = OwnedOperands::of(backend, &inputs, &call.spec.outputs, plan.scratch_bytes)?;
    operands.execute(&*workload)?;
    operands.into_outputs()
}

/// The difference of two tensors; 0 for equal bytes of any type.
fn difference(a: &Tensor, b: &Tensor) -> Result<Difference> {
    if a.bytes() == b.bytes() {
        return Ok(Difference {
            absolute: 0.0,
            relative: 0.0,
            same_top: true,
            worst: 0,
        });
    }
    Difference::between(a, b)
}

/// One element of a tensor.
fn element(tensor: &Tensor, index: usize) -> Result<Element> {
    let last = elements(tensor, index + 1)?.pop();
    last.ok_or_else(|| Error::new(ErrorKind::Internal, "a difference of empty tensors"))
}
