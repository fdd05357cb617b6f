//! Runs one operator on the backend, as a loaded package does.

#![allow(unsafe_code, reason = "calls of the C interface under test")]
#![allow(dead_code, reason = "each test program and bench uses a part of it")]

use tenon_backend::{
    Backend, CpuLevel, InputSpec, NodeView, Operands, RawOperand, Refusal, Workload, WorkloadPlan,
    WorkloadSpec,
};
use tenon_cpu_acc::CpuAcc;
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Attribute, Attributes, infer, operator};
use tenon_tensor::{BufferMut, DataType, Element, Tensor, TensorType, converter};

/// Every level of instructions; a CPU without one runs the next lower level again.
pub const LEVELS: [CpuLevel; 3] = [CpuLevel::Baseline, CpuLevel::Avx2, CpuLevel::Avx512];

/// An operator to run.
pub struct Case {
    pub spec: WorkloadSpec,
    values: Vec<Option<Tensor>>,
}

/// Whether an input is known when the workload is created.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputKind {
    Constant,
    Variable,
}

impl Case {
    pub fn new(name: &str) -> Self {
        Self {
            spec: WorkloadSpec {
                op: operator::operator(name).unwrap_or_else(|| panic!("no operator {name}")),
                attributes: Attributes::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                ranges: None,
            },
            values: Vec::new(),
        }
    }

    pub fn tensor(mut self, value: Option<Tensor>, kind: InputKind) -> Self {
        self.spec
            .inputs
            .push(value.as_ref().map(|tensor| InputSpec {
                ty: tensor.ty().clone(),
                constant: (kind == InputKind::Constant).then(|| tensor.clone()),
                prepared: None,
            }));
        self.values.push(value);
        self
    }

    pub fn input<T: Element>(self, shape: &[usize], elements: &[T]) -> Self {
        self.tensor(
            Some(Tensor::from_slice(shape, elements).unwrap()),
            InputKind::Variable,
        )
    }

    pub fn constant<T: Element>(self, shape: &[usize], elements: &[T]) -> Self {
        self.tensor(
            Some(Tensor::from_slice(shape, elements).unwrap()),
            InputKind::Constant,
        )
    }

    pub fn none(self) -> Self {
        self.tensor(None, InputKind::Variable)
    }

    pub fn output(mut self, dtype: DataType, shape: &[usize]) -> Self {
        self.spec
            .outputs
            .push(Some(TensorType::new(dtype, shape).unwrap()));
        self
    }

    pub fn f32_output(self, shape: &[usize]) -> Self {
        self.output(DataType::F32, shape)
    }

    /// The first `count` outputs, with the types of shape inference.
    pub fn outputs(mut self, count: usize) -> Self {
        let (inputs, constants) = self.operands();
        let spec = &self.spec;
        let types = infer(spec.op, &spec.attributes, &inputs, &constants, count).unwrap();
        self.spec.outputs = types.into_iter().take(count).map(Some).collect();
        self
    }

    /// The output at `index` is omitted.
    pub fn without_output(mut self, index: usize) -> Self {
        self.spec.outputs[index] = None;
        self
    }

    /// The types of the inputs, and those that are constants.
    fn operands(&self) -> (Vec<Option<&TensorType>>, Vec<Option<&Tensor>>) {
        let inputs = self.spec.inputs.iter().map(Option::as_ref);
        inputs
            .map(|input| {
                (
                    input.map(|i| &i.ty),
                    input.and_then(|i| i.constant.as_ref()),
                )
            })
            .unzip()
    }

    /// Whether the backend supports the operator.
    pub fn supported(&self, level: CpuLevel) -> Result<(), Refusal> {
        let (inputs, constants) = self.operands();
        let outputs: Vec<_> = self.spec.outputs.iter().map(Option::as_ref).collect();
        CpuAcc::at_most(level).supports(&NodeView {
            op: self.spec.op,
            attributes: &self.spec.attributes,
            inputs: &inputs,
            constants: &constants,
            outputs: &outputs,
            ranges: None,
        })
    }

    /// Runs the operator on CpuRef and on CpuAcc at every level, and compares all outputs: elements of
    /// floating-point types within `tolerance` of the larger of 1 and their magnitude, integers within
    /// `tolerance`, NaN, infinities and all other types exactly. A second execution and executions in place must give the same bits.
    #[track_caller]
    pub fn agrees_with_reference(&self, tolerance: f64) {
        let what = self.description();
        let reference = CpuRef;
        let plan = reference.plan(&self.spec, CpuLevel::Baseline).unwrap();
        let workload = reference.workload(&self.spec).unwrap();
        let mut expected = self.with_memory(workload, plan);
        expected.execute();
        let mut scratch = None;
        for level in LEVELS {
            if let Err(refusal) = self.supported(level) {
                panic!("{what}: refused at {level:?}: {refusal}");
            }
            let mut bound = self.bind(level);
            let bytes = bound.plan.scratch_bytes;
            // A package runs on every CPU.
            assert!(
                *scratch.get_or_insert(bytes) == bytes,
                "{what}: the scratch memory depends on the level"
            );
            bound.execute();
            let first = bound.bytes();
            for (index, ty) in self.spec.outputs.iter().enumerate() {
                let Some(ty) = ty else { continue };
                let what = format!("{what}, output {index} at {level:?}");
                let bytes = |case: &BoundCase| case.outputs[index].as_ref().unwrap().to_vec();
                compare(ty, &bytes(&bound), &bytes(&expected), tolerance, &what);
            }
            bound.execute();
            assert!(bound.bytes() == first, "{what}: a second execution differs");
            if !bound.plan.prepared.is_empty() {
                let mut plain = self.bind_unprepared(level);
                plain.execute();
                assert!(
                    plain.bytes() == first,
                    "{what}: differs from plain constants"
                );
            }
            for in_place in bound.plan.in_place.clone() {
                let mut again = self.bind(level);
                again.execute_in_place(in_place.input, in_place.output);
                let found = again.inputs[in_place.input].as_deref();
                let output = first[in_place.output].as_deref();
                assert!(
                    found == output,
                    "{what}: differs in place of input {}",
                    in_place.input
                );
            }
        }
    }

    /// The operator with its types and attributes, for messages.
    fn description(&self) -> String {
        let inputs = self.spec.inputs.iter().map(|input| match input {
            Some(input) => input.ty.to_string(),
            None => "none".into(),
        });
        let inputs: Vec<_> = inputs.collect();
        format!(
            "{}({}) {:?}",
            self.spec.op.name,
            inputs.join(", "),
            self.spec.attributes
        )
    }

    pub fn int(self, name: &str, value: i64) -> Self {
        self.attribute(name, Attribute::Int(value))
    }

    pub fn float(self, name: &str, value: f32) -> Self {
        self.attribute(name, Attribute::Float(value))
    }

    pub fn string(self, name: &str, value: &str) -> Self {
        self.attribute(name, Attribute::String(value.into()))
    }

    pub fn ints(self, name: &str, values: &[usize]) -> Self {
        self.attribute(
            name,
            Attribute::Ints(values.iter().map(|&v| v as i64).collect()),
        )
    }

    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.spec.attributes.set(name, value);
        self
    }

    /// Plans the operator, creates the workload from the plan, and allocates its operands.
    pub fn bind(&self, level: CpuLevel) -> BoundCase {
        let backend = CpuAcc::at_most(level);
        let plan = backend.plan(&self.spec, level).unwrap();
        let mut spec = self.spec.clone();
        for prepared in &plan.prepared {
            let input = spec.inputs[prepared.input].as_mut().unwrap();
            // A package keeps the prepared form alone.
            assert!(prepared.invertible);
            input.constant = None;
            input.prepared = Some((prepared.layout.clone(), prepared.data.clone()));
        }
        let plain = <dyn Backend>::with_plain_constants(&backend, &spec)
            .unwrap()
            .unwrap();
        for (input, plain) in self.spec.inputs.iter().zip(&plain.inputs) {
            let constants = [input, plain].map(|input| input.as_ref()?.constant.as_ref());
            assert_eq!(
                constants[0], constants[1],
                "the plain form of a prepared constant"
            );
        }
        let workload = backend.workload(&spec).unwrap();
        let absent: Vec<usize> = plan.prepared.iter().map(|form| form.input).collect();
        let mut bound = self.with_memory(workload, plan);
        for (index, input) in bound.inputs.iter_mut().enumerate() {
            let prepared = absent.contains(&index);
            assert_eq!(
                bound.workload.reads(index),
                !prepared,
                "reads input {index}"
            );
            if prepared {
                *input = None;
            }
        }
        bound
    }

    /// Creates the workload from plain constants.
    pub fn bind_unprepared(&self, level: CpuLevel) -> BoundCase {
        let backend = CpuAcc::at_most(level);
        let plan = backend.plan(&self.spec, level).unwrap();
        let workload = backend.workload(&self.spec).unwrap();
        self.with_memory(workload, plan)
    }

    fn with_memory(&self, workload: Box<dyn Workload>, plan: WorkloadPlan) -> BoundCase {
        let copy = |tensor: &Tensor| BufferMut::copy_of(tensor.bytes()).unwrap();
        let dirty = |bytes: usize| {
            let mut buffer = BufferMut::zeroed(bytes).unwrap();
            buffer.fill(0xFF);
            buffer
        };
        BoundCase {
            workload,
            inputs: self
                .values
                .iter()
                .map(|value| value.as_ref().map(copy))
                .collect(),
            outputs: self
                .spec
                .outputs
                .iter()
                .map(|ty| ty.as_ref().map(|ty| dirty(ty.bytes())))
                .collect(),
            scratch: dirty(plan.scratch_bytes),
            plan,
        }
    }

    /// The first output, of f32.
    pub fn run(&self, level: CpuLevel) -> Vec<f32> {
        self.run_as(level)
    }

    /// The first output. Checks that it is the same in a second execution, from plain constants, and in
    /// place wherever the plan allows it.
    pub fn run_as<T: Element + PartialEq + std::fmt::Debug>(&self, level: CpuLevel) -> Vec<T> {
        let mut bound = self.bind(level);
        bound.execute();
        let result = bound.result::<T>(0);
        let text = |elements: &[T]| format!("{elements:?}");
        bound.execute();
        assert_eq!(
            text(&bound.result::<T>(0)),
            text(&result),
            "a second execution differs"
        );
        if !bound.plan.prepared.is_empty() {
            let mut plain = self.bind_unprepared(level);
            plain.execute();
            assert_eq!(
                text(&plain.result::<T>(0)),
                text(&result),
                "without preparation"
            );
        }
        for in_place in bound.plan.in_place.clone() {
            let mut again = self.bind(level);
            again.execute_in_place(in_place.input, in_place.output);
            let found = again.inputs[in_place.input].as_mut().unwrap();
            let found = found.as_slice_mut::<T>().unwrap().to_vec();
            assert_eq!(
                text(&found),
                text(&result),
                "in place of input {}",
                in_place.input
            );
        }
        result
    }
}

/// A workload with its operands.
pub struct BoundCase {
    pub workload: Box<dyn Workload>,
    pub plan: WorkloadPlan,
    inputs: Vec<Option<BufferMut>>,
    outputs: Vec<Option<BufferMut>>,
    scratch: BufferMut,
}

fn raw(buffer: &mut Option<BufferMut>) -> RawOperand {
    match buffer {
        Some(buffer) => RawOperand::new(buffer.as_mut_ptr(), buffer.len()),
        None => RawOperand::NONE,
    }
}

impl BoundCase {
    pub fn execute(&mut self) {
        self.try_execute().unwrap();
    }

    pub fn try_execute(&mut self) -> tenon_base::Result<()> {
        let inputs: Vec<_> = self.inputs.iter_mut().map(raw).collect();
        let outputs: Vec<_> = self.outputs.iter_mut().map(raw).collect();
        let scratch = RawOperand::new(self.scratch.as_mut_ptr(), self.scratch.len());
        // SAFETY: each operand is the whole of a different buffer, and `self` is borrowed mutably until
        // the execution ends.
        let mut operands = unsafe { Operands::new(&inputs, &outputs, scratch) };
        self.workload.execute(&mut operands)
    }

    fn execute_in_place(&mut self, input: usize, output: usize) {
        let inputs: Vec<_> = self.inputs.iter_mut().map(raw).collect();
        let mut outputs: Vec<_> = self.outputs.iter_mut().map(raw).collect();
        outputs[output] = inputs[input];
        let scratch = RawOperand::new(self.scratch.as_mut_ptr(), self.scratch.len());
        // SAFETY: each operand is the whole of a different buffer, but for one output that replaces an
        // input, as the plan allows; `self` is borrowed mutably until the execution ends.
        let mut operands = unsafe { Operands::new(&inputs, &outputs, scratch) };
        self.workload.execute(&mut operands).unwrap();
    }

    /// For benches: executes many times with the same operand lists.
    pub fn repeat<R>(&mut self, work: impl FnOnce(&mut dyn FnMut()) -> R) -> R {
        let inputs: Vec<_> = self.inputs.iter_mut().map(raw).collect();
        let outputs: Vec<_> = self.outputs.iter_mut().map(raw).collect();
        let scratch = RawOperand::new(self.scratch.as_mut_ptr(), self.scratch.len());
        let workload = &self.workload;
        work(&mut || {
            // SAFETY: each operand is the whole of a different buffer, and `self` is borrowed mutably
            // until `work` returns.
            let mut operands = unsafe { Operands::new(&inputs, &outputs, scratch) };
            workload.execute(&mut operands).unwrap();
        })
    }

    /// The bytes of all outputs.
    pub fn bytes(&self) -> Vec<Option<Vec<u8>>> {
        let outputs = self.outputs.iter();
        outputs
            .map(|output| Some(output.as_ref()?.to_vec()))
            .collect()
    }

    pub fn result<T: Element>(&mut self, index: usize) -> Vec<T> {
        self.outputs[index]
            .as_mut()
            .unwrap()
            .as_slice_mut::<T>()
            .unwrap()
            .to_vec()
    }
}

/// Compares an output with the reference's, see [`Case::agrees_with_reference`].
#[track_caller]
fn compare(ty: &TensorType, found: &[u8], expected: &[u8], tolerance: f64, what: &str) {
    let is_packed = ty.dtype().bits() < 8;
    let is_float = ty.dtype().is_float();
    if is_packed || (!is_float && tolerance < 1.0) {
        assert!(found == expected, "{what}: differs from the reference");
        return;
    }
    let widen = converter(ty.dtype(), DataType::F64).unwrap();
    let elements = |bytes: &[u8]| {
        let mut wide = vec![0; ty.elements() * 8];
        widen(bytes, &mut wide);
        let elements = wide.as_chunks::<8>().0.iter();
        elements
            .map(|&bytes| f64::from_le_bytes(bytes))
            .collect::<Vec<_>>()
    };
    let (found, expected) = (elements(found), elements(expected));
    for (index, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let allowed = if is_float {
            tolerance * expected.abs().max(1.0)
        } else {
            tolerance
        };
        let equal = found == expected || (found.is_nan() && expected.is_nan());
        assert!(
            equal || (found - expected).abs() <= allowed,
            "{what}: element {index} is {found}, the reference has {expected}"
        );
    }
}

/// A tensor of `dtype` from values in f32.
pub fn converted(dtype: DataType, shape: &[usize], values: &[f32]) -> Tensor {
    let plain = Tensor::from_slice(shape, values).unwrap();
    let convert = converter(DataType::F32, dtype).unwrap();
    let mut bytes = vec![0; values.len() * dtype.bits().div_ceil(8)];
    convert(plain.bytes(), &mut bytes);
    let buffer = BufferMut::copy_of(&bytes).unwrap().freeze();
    Tensor::new(TensorType::new(dtype, shape).unwrap(), buffer).unwrap()
}

/// A pseudorandom generator, the same sequence for each seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        // xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators").
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    /// An integer in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// A value in -1..1.
    pub fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }

    /// A shape of `rank` dimensions of extents up to `most`, some of them 1.
    pub fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..rank)
            .map(|_| {
                if self.below(5) == 0 {
                    1
                } else {
                    self.between(1, most)
                }
            })
            .collect()
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Compares with exact results. `error` returns the tolerance of each element.
#[track_caller]
pub fn check(found: &[f32], exact: &[f64], error: impl Fn(usize) -> f64, what: &str) {
    assert_eq!(found.len(), exact.len(), "{what}: length");
    for (index, (&found, &exact)) in found.iter().zip(exact).enumerate() {
        let difference = (f64::from(found) - exact).abs();
        let allowed = error(index);
        assert!(
            difference <= allowed || (found.is_nan() && exact.is_nan()),
            "{what}: element {index} is {found}, exactly {exact}, {difference:e} > {allowed:e}"
        );
    }
}

/// The activation `name`, in f64.
pub fn activate(name: &str, alpha: f64, beta: f64, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match name {
        "none" => x,
        "relu" => x.max(0.0),
        "clip" => x.max(alpha).min(beta),
        "sigmoid" => sigmoid(x),
        "tanh" => x.tanh(),
        "silu" => x * sigmoid(x),
        "hardswish" => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        "hardsigmoid" => (alpha * x + beta).clamp(0.0, 1.0),
        "leakyrelu" => {
            if x < 0.0 {
                alpha * x
            } else {
                x
            }
        }
        "gelu" => x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        "gelu_tanh" => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x / 2.0 * (1.0 + inner.tanh())
        }
        other => panic!("no activation {other}"),
    }
}

/// The error function by its series, from 3 on by its continued fraction (Abramowitz and Stegun 7.1.5
/// and 7.1.14), to about 1e-14.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let magnitude = if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..200 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let mut fraction = a;
        for n in (1..80).rev() {
            fraction = a + f64::from(n) / 2.0 / fraction;
        }
        1.0 - (-a * a).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    magnitude.copysign(x)
}

/// All activations, with valid parameters.
pub const ACTIVATIONS: [(&str, f32, f32); 11] = [
    ("none", 0.0, 0.0),
    ("relu", 0.0, 0.0),
    ("clip", -0.5, 0.75),
    ("sigmoid", 0.0, 0.0),
    ("tanh", 0.0, 0.0),
    ("silu", 0.0, 0.0),
    ("hardswish", 0.0, 0.0),
    ("hardsigmoid", 0.2, 0.5),
    ("leakyrelu", 0.1, 0.0),
    ("gelu", 0.0, 0.0),
    ("gelu_tanh", 0.0, 0.0),
];
