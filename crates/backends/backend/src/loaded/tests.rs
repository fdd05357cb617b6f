//! Round trip of a Rust backend: exported and loaded in one process, every value arrives unchanged.

#![allow(unsafe_code, reason = "calls of the C interface under test")]

mod everything;

use super::LoadedBackend;
use super::core::Core;
use crate::*;
use everything::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tenon_base::{Control, ErrorKind, Result, pool};
use tenon_graph::{Attribute, Attributes, Graph, NodeId, ValueId, operator::operator};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

fn loaded() -> (LoadedBackend, Arc<CallLog>) {
    let seen = Arc::new(CallLog::default());
    let backend = Everything {
        seen: seen.clone(),
        factor: 1.0,
        allocator: None,
    };
    let table = export(Arc::new(backend));
    // SAFETY: `export` returned the table, whose functions are in this program.
    let core = unsafe { Core::new(table, "Everything".into(), None, Vec::new()) };
    (LoadedBackend::new(core.unwrap()).unwrap(), seen)
}

/// A backend whose workload runs until it is stopped.
struct Endless;

impl Backend for Endless {
    fn id(&self) -> BackendId {
        BackendId::new("Endless")
    }

    fn description(&self) -> String {
        "does not end".into()
    }

    fn supports(&self, _node: &NodeView<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn plan(&self, _spec: &WorkloadSpec, _cpu: CpuLevel) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan::default())
    }

    fn workload(&self, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Endless))
    }
}

impl Workload for Endless {
    fn execute(&self, _operands: &mut Operands<'_>) -> Result<()> {
        pool::for_each(usize::MAX, |_| std::hint::spin_loop());
        Ok(())
    }
}

#[test]
fn loops_of_an_exported_backend_are_stopped_with_the_execution() {
    let table = export(Arc::new(Endless));
    // SAFETY: `export` returned the table, whose functions are in this program.
    let core = unsafe { Core::new(table, "Endless".into(), None, Vec::new()) };
    let backend = LoadedBackend::new(core.unwrap()).unwrap();
    let x = Tensor::from_slice([1], &[1.0f32]).unwrap();
    let control = Control::with_deadline(Instant::now() + Duration::from_millis(30));
    let stopped = control.run(|| {
        let (neg, outputs) = (operator("Neg").unwrap(), [Some(x.ty().clone())]);
        evaluate(&backend, neg, &Attributes::new(), &[Some(&x)], &outputs)
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
}

/// A backend whose workload has the parts that its cache names, timed by their position and the number of times.
#[derive(Default)]
struct Parted(std::sync::OnceLock<Arc<dyn Cache>>);

impl Backend for Parted {
    fn id(&self) -> BackendId {
        BackendId::new("Parted")
    }

    fn description(&self) -> String {
        "has parts".into()
    }

    fn set_cache(&self, cache: Arc<dyn Cache>) {
        let _ = self.0.set(cache);
    }

    fn supports(&self, _node: &NodeView<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn plan(&self, _spec: &WorkloadSpec, _cpu: CpuLevel) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan::default())
    }

    fn workload(&self, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let cache = self.0.get().unwrap();
        let names = cache.get("parts").unwrap_or_else(|| {
            cache.put("parts", b"first second");
            BufferMut::copy_of(b"none").unwrap().freeze()
        });
        let names = std::str::from_utf8(&names).unwrap();
        let part = |name: &str| WorkloadPart {
            name: name.into(),
            nodes: vec![name.to_uppercase(), String::new()],
        };
        Ok(Box::new(PartedWorkload {
            parts: names.split(' ').map(part).collect(),
            timed: AtomicU64::new(0),
        }))
    }
}

struct PartedWorkload {
    parts: Vec<WorkloadPart>,
    timed: AtomicU64,
}

impl Workload for PartedWorkload {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let timed = operands.is_timed().into();
        self.timed.fetch_add(timed, Ordering::Relaxed);
        Ok(())
    }

    fn parts(&self) -> &[WorkloadPart] {
        &self.parts
    }

    fn part_times(&self, stream: Option<&mut dyn Stream>, nanoseconds: &mut [u64]) -> Result<()> {
        assert!(stream.is_none());
        for (position, nanoseconds) in nanoseconds.iter_mut().enumerate() {
            *nanoseconds = 10 * self.timed.load(Ordering::Relaxed) + position as u64;
        }
        Ok(())
    }
}

#[test]
fn a_cache_and_parts_pass_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let user = Arc::new(UserCache::new(folder.path(), CACHE_BYTES));
    let load = |cached: bool| {
        let table = export(Arc::new(Parted::default()));
        // SAFETY: `export` returned the table, whose functions are in this program.
        let core = unsafe { Core::new(table, "Parted".into(), None, Vec::new()) };
        let backend = LoadedBackend::new(core.unwrap()).unwrap();
        if cached {
            backend.set_cache(user.for_backend(backend.id()));
        }
        backend
    };
    let names = |workload: &dyn Workload| -> Vec<String> {
        let parts = workload.parts().iter();
        parts.map(|part| part.name.clone()).collect()
    };
    // Without a cache, before there is an entry, and with one, also in another instance.
    for (cached, expected) in [(false, "none"), (true, "none"), (true, "first second")] {
        let workload = load(cached).workload(&spec()).unwrap();
        assert_eq!(names(&*workload).join(" "), expected);
    }
    assert_eq!(user.entries().unwrap().len(), 1);

    let workload = load(true).workload(&spec()).unwrap();
    assert_eq!(workload.parts()[1].nodes, ["SECOND", ""]);
    let x = Tensor::from_slice([3], &[1.0f32; 3]).unwrap();
    let mut operands = OwnedOperands::new(&[Some(&x)], &[Some(f32s(&[3]))], 0).unwrap();
    let mut times = [0; 2];
    for (timed, expected) in [(false, [0, 1]), (true, [10, 11]), (true, [20, 21])] {
        operands.execute_timed(&*workload, timed).unwrap();
        workload.part_times(None, &mut times).unwrap();
        assert_eq!(times, expected);
    }
}

/// A backend that supports a node for these ranges only.
struct Ranged(NodeRanges);

impl Backend for Ranged {
    fn id(&self) -> BackendId {
        BackendId::new("Ranged")
    }

    fn description(&self) -> String {
        "supports one node".into()
    }

    fn capabilities(&self) -> Vec<Capability> {
        vec![Capability::new(DYNAMIC_SHAPES, PropertyValue::Bool(true))]
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        let text = format!("{:?}", node.ranges);
        match node.ranges == Some(&self.0) {
            true => Ok(()),
            false => Err(Reason::Other { text }.into()),
        }
    }

    fn plan(&self, spec: &WorkloadSpec, _cpu: CpuLevel) -> Result<WorkloadPlan> {
        let scratch_bytes = usize::from(spec.ranges.as_ref() == Some(&self.0));
        Ok(WorkloadPlan {
            scratch_bytes,
            ..WorkloadPlan::default()
        })
    }

    fn workload(&self, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Endless))
    }
}

#[test]
fn ranges_of_sizes_arrive_in_queries_and_plans() {
    let range = |min, max| ExtentRange { min, max };
    let operand = |extents, elements_vary| {
        Some(OperandRanges {
            extents,
            elements_vary,
        })
    };
    let ranges = NodeRanges {
        inputs: vec![
            operand(vec![range(1, u64::MAX), range(3, 3)], false),
            None,
            operand(vec![range(2, 2)], true),
        ],
        outputs: vec![operand(vec![range(0, 64)], false)],
    };
    let table = export(Arc::new(Ranged(ranges.clone())));
    // SAFETY: `export` returned the table, whose functions are in this program.
    let core = unsafe { Core::new(table, "Ranged".into(), None, Vec::new()) };
    let loaded = LoadedBackend::new(core.unwrap()).unwrap();
    let backend: &dyn Backend = &loaded;
    assert!(backend.takes_dynamic_shapes());
    let (x, y) = (f32s(&[2, 3]), f32s(&[5]));
    let sizes = Tensor::from_slice([2], &[7i64, 8]).unwrap();
    let op = operator("Neg").unwrap();
    let attributes = Attributes::new();
    let mut view = NodeView {
        op,
        attributes: &attributes,
        inputs: &[Some(&x), None, Some(sizes.ty())],
        constants: &[None, None, Some(&sizes)],
        outputs: &[Some(&y)],
        ranges: Some(&ranges),
    };
    assert_eq!(backend.supports(&view), Ok(()));
    view.ranges = None;
    let refusal = backend.supports(&view).unwrap_err();
    assert_eq!(refusal.to_string(), "None");
    let input = |ty: &TensorType| {
        Some(InputSpec {
            ty: ty.clone(),
            constant: None,
            prepared: None,
        })
    };
    let mut spec = WorkloadSpec {
        op,
        attributes,
        inputs: vec![input(&x), None, input(sizes.ty())],
        outputs: vec![Some(y)],
        ranges: Some(ranges),
    };
    let scratch = |spec: &WorkloadSpec| {
        let plan = backend.plan(spec, CpuLevel::Baseline);
        plan.unwrap().scratch_bytes
    };
    assert_eq!(scratch(&spec), 1);
    spec.ranges = None;
    assert_eq!(scratch(&spec), 0);
}

fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DataType::F32, shape).unwrap()
}

fn supports(backend: &dyn Backend, op: &str, attributes: &Attributes) -> Result<(), Refusal> {
    let ty = f32s(&[2, 3]);
    backend.supports(&NodeView {
        op: operator(op).unwrap(),
        attributes,
        inputs: &[Some(&ty), None],
        constants: &[None, None],
        outputs: &[Some(&ty)],
        ranges: None,
    })
}

#[test]
fn identity_and_lists_of_a_backend_come_back() {
    let (backend, _) = loaded();
    let original = Everything::default();
    assert_eq!(backend.id(), original.id());
    assert_eq!(backend.description(), "factor 1");
    assert_eq!(backend.capabilities(), original.capabilities());
    assert_eq!(backend.options(), original.options());
    assert_eq!(backend.handle_factories(), original.handle_factories());
    assert_eq!(backend.tolerances(), original.tolerances());
    assert_eq!(backend.target().unwrap(), "device 1");
    let factor = OptionSetting {
        name: "Factor".into(),
        value: PropertyValue::Float(2.0),
    };
    let other = backend.configured(&[factor]).unwrap();
    assert_eq!(other.target().unwrap(), "device 2");
    let backend: &dyn Backend = &backend;
    let f16 = backend.tolerance(DataType::F16).unwrap();
    assert_eq!((f16.relative, f16.absolute), (0.01, 0.5));
    assert!(backend.tolerance(DataType::F32).is_none());
}

#[test]
fn nodes_arrive_whole_and_refusals_come_back_as_data() {
    let (backend, seen) = loaded();
    let attributes = Attributes::new()
        .with("axis", Attribute::Int(-1))
        .with("f", Attribute::Float(0.25))
        .with("s", Attribute::String("a\0b".into()))
        .with("is", Attribute::Ints(vec![1, i64::MIN]))
        .with("fs", Attribute::Floats(Vec::new()))
        .with("ss", Attribute::Strings(vec!["".into(), "é".into()]))
        .with(
            "t",
            Attribute::Tensor(Tensor::from_slice([2], &[7i8, -7]).unwrap()),
        );
    assert_eq!(supports(&backend, "Add", &attributes), Ok(()));
    let ty = f32s(&[2, 3]);
    let (inputs, outputs) = ([Some(&ty), None], [Some(&ty)]);
    let expected = format!("Add {attributes:?} {inputs:?} {outputs:?}");
    assert_eq!(seen.taken(), [expected]);

    let none = Attributes::new();
    let reason = |op| supports(&backend, op, &none).unwrap_err().reason;
    assert_eq!(reason("Sub"), Reason::UnknownOperator);
    let found = DataType::Bool;
    assert_eq!(reason("Neg"), Reason::InputType { input: 1, found });
    assert_eq!(reason("Abs"), Reason::InputRank { input: 0, found: 7 });
    let (attribute, found) = ("axis", "9".to_owned());
    assert_eq!(
        reason("Concat"),
        Reason::AttributeValue { attribute, found }
    );
    assert_eq!(reason("Gather"), Reason::NotConstant { input: 1 });
    let text = "not on Sundays".to_owned();
    assert_eq!(reason("Relu"), Reason::Other { text });
    let text = "a panic: supports panics".to_owned();
    assert_eq!(reason("Exp"), Reason::Other { text });
}

fn spec() -> WorkloadSpec {
    let input = |ty: TensorType, constant| InputSpec {
        ty,
        constant,
        prepared: None,
    };
    let weight = Tensor::from_slice([1], &[2.0f32]).unwrap();
    WorkloadSpec {
        op: operator("Mul").unwrap(),
        attributes: Attributes::new(),
        inputs: vec![
            Some(input(f32s(&[3]), None)),
            Some(input(weight.ty().clone(), Some(weight))),
        ],
        outputs: vec![Some(f32s(&[3]))],
        ranges: None,
    }
}

#[test]
fn plans_and_workloads_keep_constants_and_panics_become_errors() {
    let (backend, seen) = loaded();
    let mut spec = spec();
    let plan = backend.plan(&spec, CpuLevel::Avx2).unwrap();
    assert_eq!((plan.scratch_bytes, plan.in_place[0].output), (100, 0));
    assert_eq!(plan.prepared[0].layout, "Avx2");
    assert_eq!(plan.device_bytes, 5 << 30);
    assert_eq!(&*plan.prepared[0].data, reversed(&2.0f32.to_le_bytes()));
    let missing = backend.workload(&spec).err().unwrap();
    assert_eq!(
        missing.to_string(),
        "backend Everything: nothing is prepared"
    );
    assert_eq!(missing.kind(), ErrorKind::Unsupported);

    let form = plan.prepared[0].clone();
    spec.inputs[1].as_mut().unwrap().prepared = Some((form.layout, form.data));
    let setting = OptionSetting {
        name: "Factor".into(),
        value: PropertyValue::Float(10.0),
    };
    let tenfold = backend.configured(&[setting]).unwrap();
    assert_eq!(tenfold.description(), "factor 10");
    let workload = tenfold.workload(&spec).unwrap();
    assert!(workload.reads(0) && !workload.reads(1));
    drop((tenfold, backend, spec));
    let run = |values: [f32; 3]| {
        let x = Tensor::from_slice([3], &values).unwrap();
        let mut operands = OwnedOperands::new(&[Some(&x)], &[Some(f32s(&[3]))], 100).unwrap();
        operands.execute(&*workload)?;
        operands.into_outputs()
    };
    let outputs = run([1.0, 0.5, 3.0]).unwrap();
    let elements = outputs[0].as_ref().unwrap().as_slice::<f32>().unwrap();
    assert_eq!(elements, [20.0, 10.0, 60.0]);
    let error = run([1.0, -1.0, 0.0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend Everything: a panic: a negative number"
    );
    assert_eq!(seen.taken(), ["Avx2"]);
}

#[test]
fn memory_contexts_and_counters_are_reached() {
    let (backend, seen) = loaded();
    let memory = backend.memory_manager().unwrap().unwrap();
    memory.acquire().unwrap();
    let mut spec = spec();
    let form = BufferMut::copy_of(&[0; 4]).unwrap().freeze();
    spec.inputs[1].as_mut().unwrap().prepared = Some(("plain".into(), form));
    drop(backend.workload_in(&spec, &memory).unwrap());
    memory.release();
    assert_eq!(
        seen.taken(),
        ["acquire", "its own memory", "plain", "release"]
    );

    let mut options = CreationOptions {
        settings: vec![OptionSetting {
            name: "Device".into(),
            value: PropertyValue::String("npu:1".into()),
        }],
        protected_content: false,
    };
    let context = backend.context(&options).unwrap().unwrap();
    assert_eq!(seen.taken(), [format!("{options:?}")]);
    context.before_load(NetworkId(5)).unwrap();
    context.after_load(NetworkId(5)).unwrap();
    assert_eq!(seen.taken(), ["before network5"]);
    let error = context.after_unload(NetworkId(5)).unwrap_err();
    assert!(
        error.to_string().ends_with("still there: found network5"),
        "{error}"
    );
    options.protected_content = true;
    let error = backend.context(&options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().ends_with("no vault here"), "{error}");

    let profiling = backend.profiling().unwrap().unwrap();
    assert_eq!(profiling.counters()[1].name, "two");
    profiling.enable(true).unwrap();
    let mut values = [0; 2];
    profiling.sample(&mut values).unwrap();
    assert_eq!(values, [1, u64::MAX]);
    assert!(profiling.sample(&mut [0]).is_err());
}

#[test]
fn allocators_pass_in_both_directions() {
    let (backend, seen) = loaded();
    let own = backend.allocator().unwrap();
    assert_eq!(own.source(), MemorySource::DmaBuf);
    drop(Allocation::new(own.clone(), 200, 64).unwrap());
    assert_eq!(seen.taken(), ["200 bytes by 64", "free"]);
    let error = Allocation::new(own.clone(), 1000, 64).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    seen.taken();

    let mine = Arc::new(CallLog::default());
    let other = backend
        .with_allocator(Arc::new(LoggedObject(mine.clone())))
        .unwrap();
    drop(backend);
    // The allocator that it returns is the one that was passed, exported and loaded back.
    let exported = other.allocator().unwrap();
    drop(Allocation::new(exported.clone(), 10, 8).unwrap());
    assert_eq!(mine.taken(), ["10 bytes by 8", "free"]);
    assert!(seen.taken().is_empty());
}

#[test]
fn tensors_of_its_memory_hold_their_elements() {
    let (backend, seen) = loaded();
    let mut handle = backend.tensor_handle("Heap", &f32s(&[2])).unwrap();
    assert_eq!(seen.taken(), ["Heap f32[2]"]);
    handle.copy_in(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut back = [0; 8];
    handle.copy_out(&mut back).unwrap();
    assert_eq!(back, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(handle.copy_in(&[0; 7]).is_err() && handle.copy_out(&mut [0; 9]).is_err());
    assert_eq!(handle.start() as usize % tenon_tensor::ALIGNMENT, 0);

    let mut exported = [3u8; 8];
    let start = exported.as_mut_ptr();
    let memory = |bytes| ImportedMemory {
        is_long_lived: true,
        ..ImportedMemory::new(start, bytes, MemorySource::DmaBuf)
    };
    let (whole, short) = (
        memory(8),
        ImportedMemory {
            bytes: 7,
            ..memory(8)
        },
    );
    // SAFETY: the array outlives the tensor handle.
    let import = |memory| unsafe { backend.import_tensor("Heap", &f32s(&[2]), memory) };
    let mut back = [0; 8];
    import(whole).unwrap().copy_out(&mut back).unwrap();
    assert_eq!(back, [3; 8]);
    assert_eq!(seen.taken(), ["Heap f32[2] DmaBuf true false"]);
    let error = import(short).err().unwrap().to_string();
    assert!(
        error.contains("the memory does not fit the tensor"),
        "{error}"
    );
}

#[test]
fn the_four_lists_come_back() {
    let (backend, _) = loaded();
    let mut graph: Graph = "graph \"g\" (%x: f32[2]) -> (%d) {\n\
        %a = Neg(%x)\n%b = Abs(%a)\n%c = Relu(%b)\n%d = Identity(%c)\n}"
        .parse()
        .unwrap();
    graph.infer_types().unwrap();
    let views = backend.optimise(&graph).unwrap();
    views.check(&graph).unwrap();
    let part = &views.substitutions[0];
    assert_eq!(
        (&*part.nodes, &*part.inputs),
        (&[NodeId(0)][..], &graph.inputs[..])
    );
    assert_eq!(part.replacement.nodes[0].op.name, "Neg");
    assert_eq!(part.replacement.outputs, [ValueId(1)]);
    assert_eq!(views.failed[0].nodes, [NodeId(1)]);
    assert_eq!(views.failed[0].refusal.to_string(), "too hard");
    assert_eq!(
        (views.untouched, views.deleted),
        (vec![NodeId(2)], vec![NodeId(3)])
    );
}
