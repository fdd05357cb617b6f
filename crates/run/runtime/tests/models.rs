//! Compiled models, loaded and executed.

mod common;

use common::*;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tenon_base::trace::TraceSink;
use tenon_base::{Control, ErrorKind};
use tenon_graph::{Attribute, Attributes, Graph};
use tenon_runtime::{ExecuteOptions, LoadOptions, Model, Runtime};
use tenon_tensor::{BufferMut, Tensor};

const WIDTHS: [usize; 4] = [20, 33, 17, 10];

fn perceptron_model() -> Model {
    model_of(perceptron(&WIDTHS), &LoadOptions::default())
}

#[test]
fn a_perceptron_matches_the_reference() {
    let model = perceptron_model();
    assert_eq!(model.inputs()[0].name, "x");
    assert_eq!(model.inputs()[0].ty, f32s(&[1, 20]));
    assert_eq!(model.outputs()[0].ty, f32s(&[1, 10]));
    for seed in 0..3 {
        let input = random_tensor(&[1, 20], 50 + seed);
        let outputs = model.run(&[("x", &input)]).unwrap();
        let expected = perceptron_by_hand(&WIDTHS, input.as_slice().unwrap());
        assert_close(outputs[0].as_slice().unwrap(), &expected);
    }
}

#[test]
fn the_profile_shows_data_movement_by_dma() {
    let model = model_of(movements(), &LoadOptions::default());
    let (a, b) = (random_tensor(&[2, 3], 1), random_tensor(&[2, 5], 2));
    let mut profile = model.profile();
    let options = ExecuteOptions {
        profile: Some(&mut profile),
        ..ExecuteOptions::default()
    };
    let outputs = model.run_with(&[("b", &b), ("a", &a)], options).unwrap();
    let row = |row: usize| {
        let (a, b): (&[f32], &[f32]) = (a.as_slice().unwrap(), b.as_slice().unwrap());
        let (a, b) = (&a[row * 3..row * 3 + 3], &b[row * 5..row * 5 + 5]);
        [a, b, a].concat()
    };
    let expected: Vec<f32> = row(0)
        .iter()
        .zip(row(1))
        .flat_map(|(&x, y)| [x + x, y + y])
        .collect();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), expected);
    let sigmoid: Vec<f32> = expected.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
    assert_close(outputs[1].as_slice().unwrap(), &sigmoid);

    let dma: Vec<_> = profile
        .kernels
        .iter()
        .filter(|kernel| kernel.backend == "dma")
        .collect();
    assert!(
        dma.iter()
            .any(|kernel| kernel.node == "join" && kernel.bytes == 88),
        "{profile:#?}"
    );
    assert!(dma.iter().all(|kernel| kernel.kernel == "tenon.dma"));
    assert_eq!(profile.executions, 1);
    assert!(profile.total() <= profile.elapsed);
    let operators = profile.by_operator();
    assert_eq!(
        operators.iter().map(|row| row.kernels).sum::<usize>(),
        profile.kernels.len()
    );
    assert!(
        operators
            .windows(2)
            .all(|rows| rows[0].time >= rows[1].time)
    );
}

#[test]
fn results_are_independent_of_alignment() {
    let model = perceptron_model();
    let input = random_tensor(&[1, 20], 7);
    let expected = model.run(&[("x", &input)]).unwrap();
    let mut from = BufferMut::zeroed(200).unwrap();
    let mut to = BufferMut::zeroed(200).unwrap();
    for shift in [0, 1, 4, 64] {
        from[shift..shift + 80].copy_from_slice(input.bytes());
        model
            .execute(
                &[&from[shift..shift + 80]],
                &mut [&mut to[shift..shift + 40]],
            )
            .unwrap();
        assert_eq!(&to[shift..shift + 40], expected[0].bytes());
    }
}

#[test]
fn bindings_keep_inputs_and_outputs() {
    let model = perceptron_model();
    let mut bindings = model.bind().unwrap();
    let unbound = bindings.execute(ExecuteOptions::default()).unwrap_err();
    assert_eq!(
        unbound.to_string(),
        "input 'x' is not bound: expected f32[1, 20]"
    );
    let wrong = bindings
        .set_input("y", &random_tensor(&[1, 20], 0))
        .unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the model has no input 'y': expected 'x'"
    );
    for seed in 0..2 {
        let input = random_tensor(&[1, 20], seed);
        bindings.set_input("x", &input).unwrap();
        bindings.execute(ExecuteOptions::default()).unwrap();
        let expected = model.run(&[("x", &input)]).unwrap();
        assert_eq!(bindings.outputs().unwrap(), expected);
        let (ty, bytes) = bindings.output(0).unwrap().unwrap();
        assert_eq!((ty, bytes), (expected[0].ty(), expected[0].bytes()));
    }
}

#[test]
fn all_problems_of_a_call_are_reported() {
    let model = model_of(movements(), &LoadOptions::default());
    let error = model
        .run(&[
            ("a", &random_tensor(&[3, 2], 0)),
            ("c", &random_tensor(&[1], 0)),
        ])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "input 'a' has the wrong shape: expected f32[2, 3], found f32[3, 2]\n\
         input 'b' is missing: expected f32[2, 5]\n\
         the model has no input 'c': expected 'a', 'b'"
    );
    let mut output = [0; 88];
    let error = model
        .execute(&[&[0; 24], &[0; 40]], &mut [&mut output])
        .unwrap_err();
    assert_eq!(error.to_string(), "output 1 is missing");
}

#[test]
fn threads_share_a_model() {
    let options = LoadOptions {
        in_flight: 1,
        max_in_flight: 2,
        ..LoadOptions::default()
    };
    let model = model_of(perceptron(&WIDTHS), &options);
    let arena = model.idle_bytes();
    let inputs: Vec<Tensor> = (0..4).map(|seed| random_tensor(&[1, 20], seed)).collect();
    let expected: Vec<_> = inputs
        .iter()
        .map(|input| model.run(&[("x", input)]).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for (input, expected) in inputs.iter().zip(&expected) {
            let model = model.clone();
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(model.run(&[("x", input)]).unwrap(), *expected);
                }
            });
        }
    });
    assert!(model.idle_bytes() <= 2 * arena.max(1));
}

#[test]
fn memory_is_for_the_executions_that_there_are() {
    let options = LoadOptions {
        max_in_flight: usize::MAX,
        ..LoadOptions::default()
    };
    let model = model_of(perceptron(&WIDTHS), &options);
    model.run(&[("x", &random_tensor(&[1, 20], 0))]).unwrap();
}

#[test]
fn control_ends_an_execution_and_a_load() {
    let model = perceptron_model();
    let input = random_tensor(&[1, 20], 0);
    let control = Control::new();
    let run = |control: &Control| {
        let options = ExecuteOptions {
            control: Some(control),
            ..ExecuteOptions::default()
        };
        model.run_with(&[("x", &input)], options)
    };
    run(&control).unwrap();
    control.cancel();
    assert_eq!(run(&control).unwrap_err().kind(), ErrorKind::Cancelled);
    let late = Control::with_deadline(Instant::now() - Duration::from_millis(1));
    assert_eq!(run(&late).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    model.run(&[("x", &input)]).unwrap();

    let package = open(&bytes(&compiled(perceptron(&WIDTHS)).contents)).unwrap();
    let options = LoadOptions {
        control,
        ..LoadOptions::default()
    };
    let error = Model::load(&runtime(), &package, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_trace_has_scopes_of_every_kernel_and_the_execution() {
    #[derive(Default)]
    struct Names(Mutex<Vec<(String, u64)>>);
    impl TraceSink for Names {
        fn scope(
            &self,
            category: &'static str,
            name: &str,
            start: Instant,
            end: Instant,
            bytes: u64,
        ) {
            assert!(start <= end);
            self.0
                .lock()
                .unwrap()
                .push((format!("{category} {name}"), bytes));
        }
    }
    let model = model_of(movements(), &LoadOptions::default());
    let names = Names::default();
    let options = ExecuteOptions {
        trace: Some(&names),
        ..ExecuteOptions::default()
    };
    model
        .run_with(
            &[
                ("a", &random_tensor(&[2, 3], 1)),
                ("b", &random_tensor(&[2, 5], 2)),
            ],
            options,
        )
        .unwrap();
    let names = names.0.into_inner().unwrap();
    // The kernels, their function, and the execution.
    assert_eq!(names.len(), model.profile().kernels.len() + 2);
    assert!(names.contains(&("dma join".into(), 88)), "{names:?}");
    assert_eq!(names[names.len() - 2].0, "function sg00");
    assert_eq!(names.last().unwrap().0, "execute movements");
}

#[test]
fn metadata_placement_and_plan_are_available() {
    let mut graph: Graph = perceptron(&WIDTHS);
    graph
        .metadata
        .insert("tenon.labels".into(), "zero\none".into());
    let model = model_of(graph, &LoadOptions::default());
    assert_eq!(model.name(), "perceptron");
    assert_eq!(model.metadata()["tenon.labels"], "zero\none");
    assert!(
        model
            .placement()
            .nodes
            .iter()
            .any(|node| node.backend == "CpuAcc")
    );
    assert!(model.memory_plan().arena_bytes <= model.idle_bytes() as u64);
}

#[test]
fn a_package_from_a_file_runs_from_its_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.neff");
    std::fs::write(&path, bytes(&compiled(perceptron(&WIDTHS)).contents)).unwrap();
    let package = tenon_neff::Package::open(&path, &Control::new()).unwrap();
    let model = Model::load(&runtime(), &package, &LoadOptions::default()).unwrap();
    drop(package);
    let input = random_tensor(&[1, 20], 3);
    let expected = perceptron_by_hand(&WIDTHS, input.as_slice().unwrap());
    let outputs = model.run(&[("x", &input)]).unwrap();
    assert_close(outputs[0].as_slice().unwrap(), &expected);
}

#[test]
fn a_missing_backend_is_reported_by_name() {
    let package = open(&bytes(&compiled(perceptron(&WIDTHS)).contents)).unwrap();
    let bare = Runtime::new(tenon_backend::Registry::new(), tenon_builtin::kernels());
    let error = Model::load(&bare, &package, &LoadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("backend CpuAcc is unavailable"),
        "{error}"
    );
    let empty = Runtime::new(tenon_builtin::registry(), tenon_executor::Registry::new());
    let error = Model::load(&empty, &package, &LoadOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("unknown kernel name 'tenon.workload'"),
        "{text}"
    );
}

#[test]
fn a_package_of_another_compiler_is_rejected() {
    let mut bytes = bytes(&compiled(perceptron(&WIDTHS)).contents);
    let made_by = bytes
        .windows(6)
        .position(|window| window == b"tenon ")
        .unwrap();
    bytes[made_by..made_by + 6].copy_from_slice(b"other ");
    let package = open(&bytes).unwrap();
    let error = Model::load(&runtime(), &package, &LoadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("program.bef"), "{error}");
}

/// A convolution with strides 2 and the padding of `auto_pad`, in plain loops.
fn same_convolution(x: &Tensor, w: &Tensor, upper: bool) -> Vec<f32> {
    let (&[_, channels, height, width], &[filters, _, k, _]) =
        (&x.ty().shape()[..], &w.ty().shape()[..])
    else {
        unreachable!("images and filters");
    };
    let (image, weights) = (x.as_slice::<f32>().unwrap(), w.as_slice::<f32>().unwrap());
    let before = |extent: usize| {
        let pads = ((extent.div_ceil(2) - 1) * 2 + k).saturating_sub(extent);
        if upper { pads / 2 } else { pads.div_ceil(2) }
    };
    let mut output = Vec::new();
    for filter in 0..filters {
        for (row, column) in
            (0..height.div_ceil(2)).flat_map(|row| (0..width.div_ceil(2)).map(move |c| (row, c)))
        {
            let mut sum = 0.0;
            for (channel, i, j) in (0..channels * k * k).map(|n| (n / (k * k), n / k % k, n % k)) {
                let y = (2 * row + i).checked_sub(before(height));
                let x = (2 * column + j).checked_sub(before(width));
                if let (Some(y), Some(x)) = (y.filter(|&y| y < height), x.filter(|&x| x < width)) {
                    sum += image[(channel * height + y) * width + x]
                        * weights[((filter * channels + channel) * k + i) * k + j];
                }
            }
            output.push(sum);
        }
    }
    output
}

/// The padding of even and of odd sizes differs, though the outputs of two of them have the same shape.
#[test]
fn automatic_padding_is_that_of_each_size() {
    let w = random_tensor(&[2, 3, 3, 3], 7);
    for upper in [true, false] {
        let mut graph = Graph::new("same");
        let x = graph.add_input("x", f32s(&[1, 3, 11, 8]));
        let height = graph.symbols.add("height", 1..=64).unwrap();
        graph.example_sizes = vec![11];
        graph.value_mut(x).extents = Some(vec![1.into(), 3.into(), height.into(), 8.into()]);
        let weights = graph.add_constant("w", w.clone());
        let auto_pad = if upper { "SAME_UPPER" } else { "SAME_LOWER" };
        let attributes = Attributes::new()
            .with("auto_pad", Attribute::String(auto_pad.into()))
            .with("strides", Attribute::Ints(vec![2, 2]));
        let y = node(&mut graph, "conv", "Conv", &[x, weights], attributes);
        graph.outputs.push(y);
        let model = model_of(graph, &LoadOptions::default());
        for height in [5, 6, 11, 12, 31, 32] {
            let x = random_tensor(&[1, 3, height, 8], height as u32);
            let found = model.run(&[("x", &x)]).unwrap();
            assert_eq!(found[0].ty(), &f32s(&[1, 2, height.div_ceil(2), 4]));
            let expected = same_convolution(&x, &w, upper);
            assert_close(found[0].as_slice().unwrap(), &expected);
        }
    }
}
