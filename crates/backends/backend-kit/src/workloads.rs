//! Workloads: results against the reference, prepared constants, concurrency.

use crate::compare::difference;
use crate::report::Report;
use crate::samples::{Sample, samples};
use tenon_backend::{Backend, CpuLevel, InPlace, OwnedOperands, Workload, WorkloadPlan, evaluate};
use tenon_base::{Error, ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_tensor::{BufferMut, Tensor};

/// Threads that share a workload, and executions per thread.
const THREADS: usize = 8;
const EXECUTIONS: usize = 50;

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    let supported: Vec<Sample> = samples()
        .into_iter()
        .filter(|sample| sample.is_supported(backend))
        .collect();
    let mut all = |name, check: fn(&dyn Backend, &Sample) -> Result<bool>| {
        let (mut count, mut problems) = (0, Vec::new());
        for sample in &supported {
            match check(backend, sample) {
                Ok(checked) => count += usize::from(checked),
                Err(error) => problems.push(format!("{}: {error}", sample.name)),
            }
        }
        report.problems(name, count, &problems);
    };
    all("results against CpuRef", results);
    all("results with variable inputs", variable);
    all(
        "results with arbitrary memory contents",
        with_arbitrary_contents,
    );
    all("results in place", in_place);
    all("plans are deterministic", deterministic);
    all("memory of the device in plans", device_memory);
    all("results with prepared constants", prepared);
    all("results without inputs that are not read", unread);
    all("threads share a workload", threads);
}

pub(crate) fn expected(sample: &Sample) -> Result<Vec<Option<Tensor>>> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    evaluate(
        &CpuRef,
        op,
        attributes,
        &sample.operands(),
        &sample.output_types(),
    )
}

/// Whether the outputs of a backend are those expected, within its tolerance.
pub(crate) fn same(
    backend: &dyn Backend,
    expected: &[Option<Tensor>],
    found: &[Option<Tensor>],
) -> Result<()> {
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let (Some(expected), Some(found)) = (expected, found)
            && let Some(difference) = difference(
                expected,
                found,
                backend.tolerance(expected.dtype()).as_ref(),
            )?
        {
            let text = format!("output {index} differs, {difference}");
            return Err(Error::new(ErrorKind::ExecutionFailed, text));
        }
    }
    Ok(())
}

fn execute(
    backend: &dyn Backend,
    workload: &dyn Workload,
    sample: &Sample,
    scratch: usize,
) -> Result<Vec<Option<Tensor>>> {
    let mut operands =
        OwnedOperands::of(backend, &sample.operands(), &sample.output_types(), scratch)?;
    operands.execute(workload)?;
    operands.into_outputs()
}

fn results(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let (op, attributes) = (sample.node.op, &sample.node.attributes);
    let found = evaluate(
        backend,
        op,
        attributes,
        &sample.operands(),
        &sample.output_types(),
    )?;
    same(backend, &expected(sample)?, &found).map(|()| true)
}

/// Whether the backend supports the sample with variable inputs.
pub(crate) fn is_supported_variable(backend: &dyn Backend, sample: &Sample) -> bool {
    let types: Vec<_> = sample.inputs.iter().map(|input| Some(input.ty())).collect();
    let outputs: Vec<_> = sample.outputs.iter().map(Some).collect();
    let view = tenon_backend::NodeView {
        op: sample.node.op,
        attributes: &sample.node.attributes,
        inputs: &types,
        constants: &vec![None; types.len()],
        outputs: &outputs,
        ranges: None,
    };
    backend.supports(&view).is_ok()
}

fn variable(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let spec = sample.spec(false);
    if !is_supported_variable(backend, sample) {
        return Ok(false);
    }
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let found = execute(backend, &*workload, sample, plan.scratch_bytes)?;
    same(backend, &expected(sample)?, &found).map(|()| true)
}

/// With outputs and scratch memory filled with NaN bits.
fn with_arbitrary_contents(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let spec = sample.spec(true);
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let full = |bytes| {
        let mut memory = BufferMut::zeroed(bytes)?;
        memory.fill(0xff);
        Ok(memory)
    };
    let (inputs, outputs) = (sample.operands(), sample.output_types());
    let scratch = plan.scratch_bytes;
    let mut operands = OwnedOperands::of_memory(backend, &inputs, &outputs, scratch, full)?;
    operands.execute(&*workload)?;
    same(backend, &expected(sample)?, &operands.into_outputs()?).map(|()| true)
}

/// With each pair of the plan in place.
fn in_place(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let spec = sample.spec(false);
    if !is_supported_variable(backend, sample) {
        return Ok(false);
    }
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let (inputs, outputs) = (sample.operands(), sample.output_types());
    let pairs = plan.in_place.iter().filter(|pair| pair.fits(&spec));
    let pairs: Vec<InPlace> = pairs.copied().collect();
    for &pair in &pairs {
        let mut operands = OwnedOperands::of(backend, &inputs, &outputs, plan.scratch_bytes)?;
        operands.place(pair)?;
        operands.execute(&*workload)?;
        same(backend, &expected(sample)?, &operands.into_outputs()?)?;
    }
    Ok(!pairs.is_empty())
}

fn deterministic(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let spec = sample.spec(true);
    let parts = |plan: WorkloadPlan| {
        let prepared = plan.prepared.into_iter();
        let prepared: Vec<_> = prepared
            .map(|one| (one.input, one.layout, one.data.to_vec()))
            .collect();
        let memory = (plan.scratch_bytes, plan.device_bytes);
        (memory, plan.in_place, prepared)
    };
    let first = parts(backend.plan(&spec, CpuLevel::Baseline)?);
    if parts(backend.plan(&spec, CpuLevel::Baseline)?) == first {
        Ok(true)
    } else {
        Err(Error::new(
            ErrorKind::ExecutionFailed,
            "two plans of one node differ",
        ))
    }
}

/// The most memory of a device that the workload of a sample may state: samples have a few elements.
const MAX_DEVICE_BYTES: u64 = 4 << 30;

/// Plans state memory of the backend only if it has separate memory, and not more than makes sense.
fn device_memory(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let bytes = backend
        .plan(&sample.spec(true), CpuLevel::Baseline)?
        .device_bytes;
    let wrong = |text| Error::new(ErrorKind::ExecutionFailed, text).found(bytes);
    if bytes > 0 && backend.handle_factories().is_empty() {
        return Err(wrong(
            "a plan states memory of a backend without handle factories",
        ));
    }
    if bytes > MAX_DEVICE_BYTES {
        let error = wrong("a plan states more memory than a workload of a few elements needs");
        return Err(error.expected(format_args!("at most {MAX_DEVICE_BYTES} bytes")));
    }
    Ok(bytes > 0)
}

/// A workload with the prepared constants of its plan, and the plan.
fn with_prepared_constants(
    backend: &dyn Backend,
    sample: &Sample,
) -> Result<Option<(Box<dyn Workload>, WorkloadPlan)>> {
    let mut spec = sample.spec(true);
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    if plan.prepared.is_empty() {
        return Ok(None);
    }
    for form in &plan.prepared {
        if let Some(Some(input)) = spec.inputs.get_mut(form.input) {
            input.prepared = Some((form.layout.clone(), form.data.clone()));
        }
    }
    Ok(Some((backend.workload(&spec)?, plan)))
}

fn prepared(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let Some((workload, plan)) = with_prepared_constants(backend, sample)? else {
        return Ok(false);
    };
    let found = execute(backend, &*workload, sample, plan.scratch_bytes)?;
    same(backend, &expected(sample)?, &found).map(|()| true)
}

/// Inputs that the workload does not read are omitted, as in packages without plain forms.
fn unread(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let Some((workload, plan)) = with_prepared_constants(backend, sample)? else {
        return Ok(false);
    };
    let (inputs, outputs) = (sample.operands(), sample.output_types());
    let unread: Vec<usize> = (0..inputs.len())
        .filter(|&input| !workload.reads(input))
        .collect();
    let mut operands = OwnedOperands::of(backend, &inputs, &outputs, plan.scratch_bytes)?;
    for &input in &unread {
        operands.omit_input(input);
    }
    operands.execute(&*workload)?;
    same(backend, &expected(sample)?, &operands.into_outputs()?)?;
    Ok(!unread.is_empty())
}

fn threads(backend: &dyn Backend, sample: &Sample) -> Result<bool> {
    let spec = sample.spec(true);
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let expected = expected(sample)?;
    let one = || -> Result<()> {
        for _ in 0..EXECUTIONS {
            same(
                backend,
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
        ended.collect::<Result<()>>()
    })?;
    Ok(true)
}
