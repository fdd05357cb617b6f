//! Results are the same to the bit for every number of threads and at every CPU level.

use tenon_backend::evaluate;
use tenon_base::{CpuLevel, pool};
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, infer};
use tenon_tensor::{Tensor, TensorType};

fn elements(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    // Sums of these are not exact, so that another order of additions would show.
    let values = (0..count).map(|at| ((at * 7919 % 10_007) as f32 / 3000.0 - 1.5).sin());
    Tensor::from_slice(shape, &values.collect::<Vec<f32>>()).unwrap()
}

/// The results of operators of each family, whose loops are long enough for several threads.
fn results() -> Vec<(&'static str, Vec<u8>)> {
    let ints = |values: &[i64]| Attribute::Ints(values.to_vec());
    let none = Attributes::new;
    let cases: [(&'static str, Attributes, Vec<Tensor>); 9] = [
        (
            "MatMul",
            none(),
            vec![elements(&[97, 130]), elements(&[130, 81])],
        ),
        (
            "Conv",
            none(),
            vec![elements(&[2, 8, 23, 24]), elements(&[17, 8, 3, 3])],
        ),
        (
            "ConvTranspose",
            none().with("strides", ints(&[2, 2])),
            vec![elements(&[1, 16, 15, 14]), elements(&[16, 9, 3, 3])],
        ),
        (
            "Attention",
            none(),
            vec![
                elements(&[1, 4, 70, 16]),
                elements(&[1, 4, 90, 16]),
                elements(&[1, 4, 90, 16]),
            ],
        ),
        ("Softmax", none(), vec![elements(&[301, 500])]),
        ("ReduceSum", none(), vec![elements(&[301, 700])]),
        (
            "AveragePool",
            none().with("kernel_shape", ints(&[3, 3])),
            vec![elements(&[1, 16, 60, 61])],
        ),
        ("Gelu", none(), vec![elements(&[200_001])]),
        (
            "LayerNormalization",
            none(),
            vec![elements(&[400, 500]), elements(&[500]), elements(&[500])],
        ),
    ];
    let result = |(name, attributes, inputs): (&'static str, Attributes, Vec<Tensor>)| {
        let op = operator(name).unwrap();
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let types: Vec<Option<&TensorType>> = inputs.iter().map(|x| x.map(Tensor::ty)).collect();
        let outputs = infer(op, &attributes, &types, &inputs, 1).unwrap();
        let outputs: Vec<_> = outputs.into_iter().map(Some).collect();
        let mut done = evaluate(&CpuRef, op, &attributes, &inputs, &outputs).unwrap();
        (name, done.remove(0).unwrap().bytes().to_vec())
    };
    cases.into_iter().map(result).collect()
}

#[test]
fn threads_and_levels_do_not_change_results() {
    let native = results();
    assert_eq!(pool::with_thread_limit(1, results), native);
    // For the whole process: this is its only test.
    CpuLevel::limit_to(CpuLevel::Baseline);
    assert_eq!(CpuLevel::in_use(), CpuLevel::Baseline);
    assert_eq!(results(), native);
}
