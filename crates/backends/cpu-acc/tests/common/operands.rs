//! Inputs of a floating-point type that is a parameter of the test, and inputs without elements.

#![allow(dead_code, reason = "each test program uses a part of it")]

use super::common::{Case, InputKind, LEVELS, Random};
use half::{bf16, f16};
use tenon_backend::{Backend, InputSpec};
use tenon_cpu_acc::CpuAcc;
use tenon_graph::infer;
use tenon_tensor::{DataType, Tensor, TensorType};

/// Adds an input of `dtype` with the elements `from`, rounded to it.
pub fn rounded(
    case: Case,
    dtype: DataType,
    kind: InputKind,
    shape: &[usize],
    from: &[f32],
) -> Case {
    let all = from.iter();
    let tensor = match dtype {
        DataType::F16 => {
            Tensor::from_slice(shape, &all.map(|&x| f16::from_f32(x)).collect::<Vec<_>>())
        }
        DataType::BF16 => {
            Tensor::from_slice(shape, &all.map(|&x| bf16::from_f32(x)).collect::<Vec<_>>())
        }
        DataType::F64 => Tensor::from_slice(shape, &all.map(|&x| x.into()).collect::<Vec<f64>>()),
        DataType::F32 => Tensor::from_slice(shape, from),
        found => panic!("{found} is not a floating-point type of these tests"),
    };
    case.tensor(Some(tensor.unwrap()), kind)
}

/// Adds a variable input of `dtype` with random elements.
pub fn floats(case: Case, random: &mut Random, dtype: DataType, shape: &[usize]) -> Case {
    let elements = random.values(shape.iter().product());
    rounded(case, dtype, InputKind::Variable, shape, &elements)
}

/// Adds a variable input whose elements no memory holds: the operator can be planned, but not run.
pub fn without_elements(mut case: Case, dtype: DataType, shape: &[usize]) -> Case {
    case.spec.inputs.push(Some(InputSpec {
        ty: TensorType::new(dtype, shape).unwrap(),
        constant: None,
        prepared: None,
    }));
    case
}

/// Whether shape inference accepts the inputs, none of which is a constant.
pub fn has_inferred_outputs(case: &Case, count: usize) -> bool {
    let spec = &case.spec;
    let inputs = spec.inputs.iter().map(|input| Some(&input.as_ref()?.ty));
    let inputs: Vec<_> = inputs.collect();
    let constants = vec![None; inputs.len()];
    infer(spec.op, &spec.attributes, &inputs, &constants, count).is_ok()
}

/// Selects a kernel and plans it at every level. Both may be refused, but not panic.
pub fn plan_at_all_levels(case: &Case) {
    for level in LEVELS {
        if case.supported(level).is_ok() {
            drop(CpuAcc::at_most(level).plan(&case.spec, level));
        }
    }
}
