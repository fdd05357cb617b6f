//! Workloads: their numbers beside the reference, prepared constants, many threads.

use crate::compare::difference;
use crate::report::Report;
use crate::samples::{Sample, samples};
use tenon_backend::{
    Backend, CpuLevel, InputSpec, OwnedOperands, Workload, WorkloadPlan, WorkloadSpec, evaluate,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_tensor::Tensor;

/// Threads that share a workload, and executions of each.
const THREADS: usize = 8;
const EXECUTIONS: usize = 50;

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    let taken: Vec<Sample> = samples()
        .into_iter()
        .filter(|sample| sample.is_taken(backend))
        .collect();
    let mut all = |name, check: fn(&dyn Backend, &Sample) -> Result<()>| {
        let problems: Vec<String> = taken
            .iter()
            .filter_map(|sample| {
                let error = check(backend, sample).err()?;
                Some(format!("{}: {error}", sample.name))
            })
            .collect();
        report.problems(name, taken.len(), &problems);
    };
    all("results beside CpuRef", results);
    all("results with variable inputs", variable);
    all("plans are deterministic", deterministic);
    all("results with prepared constants", prepared);
    all("threads share a workload", threads);
}

fn expected(sample: &Sample) -> Result<Vec<Option<Tensor>>> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    evaluate(
        &CpuRef,
        op,
        attributes,
        &sample.operands(),
        &sample.wanted(),
    )
}

fn same(expected: &[Option<Tensor>], found: &[Option<Tensor>]) -> Result<()> {
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let (Some(expected), Some(found)) = (expected, found)
            && let Some(difference) = difference(expected, found)?
        {
            let text = format!("output {index} differs, {difference}");
            return Err(Error::new(ErrorKind::ExecutionFailed, text));
        }
    }
    Ok(())
}

/// What the workload is made of; the inputs are constants or not.
fn spec(sample: &Sample, constant: bool) -> WorkloadSpec {
    let inputs = sample.inputs.iter().map(|input| {
        Some(InputSpec {
            ty: input.ty().clone(),
            constant: constant.then(|| input.clone()),
            prepared: None,
        })
    });
    WorkloadSpec {
        op: sample.node.op,
        attributes: sample.node.attributes.clone(),
        inputs: inputs.collect(),
        outputs: sample.wanted(),
    }
}

fn execute(
    backend: &dyn Backend,
    workload: &dyn Workload,
    sample: &Sample,
    scratch: usize,
) -> Result<Vec<Option<Tensor>>> {
    let mut operands = OwnedOperands::of(backend, &sample.operands(), &sample.wanted(), scratch)?;
    operands.execute(workload)?;
    operands.into_outputs()
}

fn results(backend: &dyn Backend, sample: &Sample) -> Result<()> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    let found = evaluate(
        backend,
        op,
        attributes,
        &sample.operands(),
        &sample.wanted(),
    )?;
    same(&expected(sample)?, &found)
}

fn variable(backend: &dyn Backend, sample: &Sample) -> Result<()> {
    let spec = spec(sample, false);
    let types: Vec<_> = sample.inputs.iter().map(|input| Some(input.ty())).collect();
    let outputs: Vec<_> = sample.outputs.iter().map(Some).collect();
    let taken = backend.supports(&tenon_backend::NodeView {
        op: sample.node.op,
        attributes: &sample.node.attributes,
        inputs: &types,
        constants: &vec![None; types.len()],
        outputs: &outputs,
    });
    if taken.is_err() {
        return Ok(());
    }
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let found = execute(backend, &*workload, sample, plan.scratch_bytes)?;
    same(&expected(sample)?, &found)
}

fn deterministic(backend: &dyn Backend, sample: &Sample) -> Result<()> {
    let spec = spec(sample, true);
    let told = |plan: WorkloadPlan| {
        let prepared = plan.prepared.into_iter();
        let prepared: Vec<_> = prepared
            .map(|one| (one.input, one.layout, one.data.to_vec()))
            .collect();
        (plan.scratch_bytes, plan.in_place, prepared)
    };
    let first = told(backend.plan(&spec, CpuLevel::Baseline)?);
    match told(backend.plan(&spec, CpuLevel::Baseline)?) == first {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::ExecutionFailed,
            "two plans of one node differ",
        )),
    }
}

/// With the forms that the plan prepared.
fn prepared(backend: &dyn Backend, sample: &Sample) -> Result<()> {
    let mut spec = spec(sample, true);
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    for form in plan.prepared {
        if let Some(Some(input)) = spec.inputs.get_mut(form.input) {
            input.prepared = Some((form.layout, form.data));
        }
    }
    let workload = backend.workload(&spec)?;
    let found = execute(backend, &*workload, sample, plan.scratch_bytes)?;
    same(&expected(sample)?, &found)
}

fn threads(backend: &dyn Backend, sample: &Sample) -> Result<()> {
    let spec = spec(sample, true);
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let expected = expected(sample)?;
    let one = || -> Result<()> {
        for _ in 0..EXECUTIONS {
            same(
                &expected,
                &execute(backend, &*workload, sample, plan.scratch_bytes)?,
            )?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        let ended = all.into_iter().map(|thread| {
            let panicked = |_| Err(Error::new(ErrorKind::ExecutionFailed, "a thread panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        ended.collect()
    })
}
