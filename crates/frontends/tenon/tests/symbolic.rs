//! Packages with symbolic dimensions: one package for all sizes, compared with onnxruntime's outputs and with the
//! same model compiled for fixed sizes.

mod common;

use common::assert_close;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use tenon::{Compiler, DataType, ErrorKind, LoadOptions, Model, OnnxModel, Tensor, TensorType};
use tenon_neff::NodeWork;
use tenon_onnx::proto::{
    DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto, data_type,
};

fn folder() -> PathBuf {
    tenon_test_data::repository("models/small")
}

fn file(name: &str) -> PathBuf {
    folder().join(format!("{name}.onnx"))
}

/// The model without any `--dim`, from the bytes of its package.
fn load(name: &str, options: &LoadOptions) -> Model {
    let compiled = Compiler::new().compile_file(file(name)).unwrap();
    Model::from_package(&compiled.to_neff().unwrap(), options).unwrap()
}

/// Arrays by name.
type Arrays = Vec<(String, Tensor)>;

/// The inputs of a sample, and the outputs that onnxruntime computed.
fn sample(name: &str, number: usize) -> [Arrays; 2] {
    let file = folder().join(format!("{name}.{number}.npz"));
    let arrays = tenon::tensor::npy::read_npz(&file).unwrap();
    ["in.", "out."].map(|prefix| {
        let arrays = arrays.iter();
        let named = arrays.filter_map(|(name, tensor)| {
            Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone()))
        });
        named.collect()
    })
}

/// Runs the model on the inputs of a sample and compares with the expected outputs.
fn check(name: &str, model: &Model, [inputs, outputs]: &[Arrays; 2]) {
    // Those that are constants are no inputs.
    let is_input = |name: &str| model.inputs().iter().any(|input| input.name == name);
    let inputs = inputs.iter().filter(|(name, _)| is_input(name));
    let inputs: Vec<(&str, &Tensor)> = inputs
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let results = model.run(&inputs).unwrap();
    for (output, expected) in outputs {
        let found = results.tensor(output).unwrap();
        assert_eq!(found.ty(), expected.ty(), "{name} {output}");
        let Some(found) = found.as_slice::<f32>() else {
            assert_eq!(found, expected, "{name} {output}");
            continue;
        };
        let expected = expected.as_slice::<f32>().unwrap();
        for (found, expected) in found.iter().zip(expected) {
            let difference = (found - expected).abs();
            let fits = difference <= 1e-3 * (1.0 + expected.abs());
            assert!(fits, "{name} {output}: {found} {expected}");
        }
    }
}

/// Runs the model on all samples.
fn check_samples(name: &str, count: usize) {
    let model = load(name, &LoadOptions::new());
    assert!(!model.symbols().is_empty());
    for number in 1..=count {
        check(name, &model, &sample(name, number));
    }
}

#[test]
fn an_encoder_takes_any_batch_and_length() {
    check_samples("bert-dynamic", 4);
}

#[test]
fn a_decoder_takes_a_cache_of_any_length() {
    check_samples("gpt2-dynamic", 4);
}

#[test]
fn a_detector_takes_images_of_any_size() {
    check_samples("detector-dynamic", 3);
}

#[test]
fn a_recurrent_model_takes_any_number_of_steps() {
    check_samples("lstm-dynamic", 3);
}

#[test]
fn a_cache_of_a_tensor_for_each_layer_grows() {
    check_samples("gpt2-cache", 4);
}

#[test]
fn a_speech_model_takes_any_batch_and_cache() {
    check_samples("speech-encoder", 2);
    check_samples("speech-decoder", 3);
}

#[test]
fn a_voice_activity_detector_takes_both_rates() {
    check_samples("vad", 4);
    // Strides leave extents of 1 and 2 of the example sizes: the graph is optimised with larger ones.
    let model = load("vad", &LoadOptions::new());
    let mut nodes = model.placement().nodes.iter();
    assert!(nodes.all(|node| node.backend.as_str() != "CpuRef"));
}

#[test]
fn detectors_scale_images_of_any_size() {
    for name in ["ssd", "retinanet", "faster-rcnn", "mask-rcnn"] {
        check_samples(name, 3);
        let model = load(name, &LoadOptions::new());
        let report = model.placement();
        assert_eq!(report.count("CpuRef"), 0, "{name}: {report}");
        assert_eq!(report.notes, Vec::<String>::new(), "{name}");
    }
}

/// As the command runs an ONNX file: sizes that depend on data are the only symbols.
#[test]
fn detectors_are_compiled_for_the_sizes_of_an_image() {
    for name in ["ssd", "retinanet", "faster-rcnn", "mask-rcnn"] {
        let sample = sample(name, 1);
        let mut compiler = Compiler::new().symbolic(false);
        for (input, tensor) in &sample[0] {
            compiler = compiler.known_input(input, tensor.clone());
        }
        let model = compiler.compile_file(file(name)).unwrap();
        let model = model.load(&LoadOptions::new()).unwrap();
        check(name, &model, &sample);
    }
}

/// A tensor of a graph; without extents its shape is unknown.
fn value(name: &str, elem_type: i32, extents: Vec<DimensionValue>) -> ValueInfoProto {
    let dim = extents
        .into_iter()
        .map(|value| DimensionProto { value: Some(value) });
    let dim: Vec<DimensionProto> = dim.collect();
    let shape = (!dim.is_empty()).then_some(TensorShapeProto { dim });
    let ty = TensorTypeProto { elem_type, shape };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(Box::new(TypeProto {
            value: Some(TypeValue::Tensor(ty)),
        })),
    }
}

fn onnx(graph: GraphProto) -> OnnxModel {
    let model = ModelProto {
        ir_version: 9,
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 20,
        }],
        graph: Some(Box::new(graph)),
        ..ModelProto::default()
    };
    OnnxModel::from_proto(model).unwrap()
}

/// Floats that decide a size themselves are constants of the model.
#[test]
fn known_scales_of_a_resize_are_constants() {
    let value = |name: &str, extents: &[i64]| {
        let extents = extents.iter().map(|&extent| DimensionValue::Value(extent));
        value(name, data_type::FLOAT, extents.collect())
    };
    let node = NodeProto {
        op_type: "Resize".into(),
        input: ["x", "", "scales"].map(String::from).to_vec(),
        output: vec!["y".into()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        input: vec![value("x", &[1, 1, 2, 2]), value("scales", &[4])],
        output: vec![value("y", &[])],
        ..GraphProto::default()
    };
    let onnx = onnx(graph);
    let scales = Tensor::from_slice([4], &[1.0f32, 1.0, 2.0, 3.0]).unwrap();
    for symbolic in [false, true] {
        let compiler = Compiler::new().symbolic(symbolic);
        let compiler = compiler.known_input("scales", scales.clone());
        let package = compiler.compile_model(&onnx).unwrap();
        let model = package.load(&LoadOptions::new()).unwrap();
        let x = Tensor::from_slice([1, 1, 2, 2], &[1.0f32; 4]).unwrap();
        let outputs = model.run(&[("x", &x)]).unwrap();
        assert_eq!(outputs[0].shape()[..], [1, 1, 4, 6]);
    }
}

fn random(ty: TensorType, seed: u64) -> Tensor {
    tenon::inputs::random_tensor(&ty, seed).unwrap()
}

#[test]
fn one_package_equals_packages_of_fixed_sizes() {
    let model = load("lstm-dynamic", &LoadOptions::new());
    for time in [1, 2, 7, 31, 64] {
        let x = random(TensorType::new(DataType::F32, [1, time, 12]).unwrap(), 3);
        let fixed = Compiler::new().dim("time", time);
        let fixed = fixed.compile_file(file("lstm-dynamic")).unwrap();
        let fixed = fixed.load(&LoadOptions::new()).unwrap();
        assert_eq!(
            model.run(&[("x", &x)]).unwrap()[0],
            fixed.run(&[("x", &x)]).unwrap()[0]
        );
    }
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let compiler = Compiler::new()
        .dim_range("sequence", 2..=32)
        .dim_range("batch", 1..=4);
    let compiled = compiler.compile_file(file("bert-dynamic")).unwrap();
    let model = compiled.load(&LoadOptions::new()).unwrap();
    let tokens = |shape: [usize; 2]| random(TensorType::new(DataType::I64, shape).unwrap(), 1);
    let run = |ids: [usize; 2], mask: [usize; 2]| {
        let (ids, mask) = (tokens(ids), tokens(mask));
        model.run(&[("input_ids", &ids), ("attention_mask", &mask)])
    };
    assert!(run([4, 32], [4, 32]).is_ok());
    let error = run([1, 40], [1, 40]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dimension 'sequence': the size of a dimension is outside its range: expected 2 to 32, \
         found 40"
    );
    let error = run([2, 5], [2, 6]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 'attention_mask', dimension 1: an input has the wrong size: expected 5 (sequence), \
         found 6"
    );
    let error = model.at(&[("batch", 1), ("length", 3)]).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the model has no symbolic dimension 'length': expected batch, sequence\n\
         dimension 'sequence' has no size: expected a size from 2 to 32"
    );
    let error = model.bind().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error
            .to_string()
            .contains("not known: found batch, sequence"),
        "{error}"
    );
    // A size that is known is bound as ever.
    let fixed = model.at(&[("batch", 1), ("sequence", 8)]).unwrap();
    assert!(fixed.symbols().is_empty());
    let mut bindings = fixed.bind().unwrap();
    bindings.set_input("input_ids", &tokens([1, 8])).unwrap();
    bindings
        .set_input("attention_mask", &tokens([1, 8]))
        .unwrap();
    bindings.run(Default::default()).unwrap();
}

#[test]
fn many_sizes_in_turn_use_bounded_memory() {
    let options = LoadOptions::new().instance_count(3).instance_bytes(1 << 20);
    let model = load("lstm-dynamic", &options);
    for time in 1..=200 {
        let x = random(TensorType::new(DataType::F32, [1, time, 12]).unwrap(), 1);
        model.run(&[("x", &x)]).unwrap();
        assert!(model.idle_bytes() <= 2 << 20, "{}", model.idle_bytes());
    }
}

/// A model without a host function, compiled once, and the variables of its package that are views.
struct Planned {
    model: Model,
    viewed: BTreeMap<u32, u32>,
}

fn planned(name: &str) -> &'static Planned {
    static MODELS: Mutex<BTreeMap<String, &'static Planned>> = Mutex::new(BTreeMap::new());
    let mut models = MODELS.lock().unwrap();
    models.entry(name.to_owned()).or_insert_with(|| {
        let compiled = Compiler::new().compile_file(file(name)).unwrap();
        let nodes = &compiled.nodes().nodes;
        let viewed = nodes.iter().flat_map(|node| match &node.work {
            NodeWork::Core(contents) => &contents.tenon.variables[..],
            _ => &[],
        });
        let viewed = viewed.filter_map(|info| Some((info.var_id.0, info.view_of?.0)));
        Box::leak(Box::new(Planned {
            viewed: viewed.collect(),
            model: compiled.load(&LoadOptions::new()).unwrap(),
        }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Two variables that are alive at the same kernel have no byte in common, whatever the sizes: unless one is a
    /// view of the other, or a kernel writes one in the place of the other, which ends there.
    #[test]
    fn no_sizes_make_live_values_overlap(which in 0usize..3, sizes in prop::collection::vec(0.0f64..1.0, 8)) {
        let name = ["bert-dynamic", "gpt2-cache", "lstm-dynamic"][which];
        let Planned { model, viewed } = planned(name);
        let symbols = model.symbols();
        let dims = symbols.iter().zip(&sizes).map(|((_, symbol), part)| {
            // The position embeddings have 32 rows.
            let most = symbol.max.min(32).max(symbol.min);
            (symbol.name.as_str(), symbol.min + ((most - symbol.min) as f64 * part) as u64)
        });
        let dims: Vec<(&str, u64)> = dims.collect();
        let instance = model.at(&dims).unwrap();
        let plan = instance.memory_plan();
        let root = |id: u32| viewed.get(&id).copied().unwrap_or(id);
        let ranges = plan.variables.iter().filter(|range| range.size > 0);
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_by_key(|range| range.first);
        prop_assert!(ranges.len() > 4);
        for (index, a) in ranges.iter().enumerate() {
            prop_assert!(a.offset + a.size <= plan.arena_bytes);
            for b in &ranges[index + 1..] {
                let is_alive = a.first <= b.last && b.first <= a.last;
                let overlap = a.offset < b.offset + b.size && b.offset < a.offset + a.size;
                let is_view = root(a.var_id.0) == root(b.var_id.0);
                let in_place = a.last == b.first && (a.offset, a.size) == (b.offset, b.size);
                prop_assert!(!(is_alive && overlap) || is_view || in_place, "{dims:?}: {a:?} {b:?}");
            }
        }
    }
}

/// Random token ids and a mask.
fn tokens(rows: usize, length: usize, seed: i64) -> [Tensor; 2] {
    let count = rows * length;
    let ids: Vec<i64> = (0..count as i64)
        .map(|at| (at * 31 + seed * 17) % 200)
        .collect();
    let mask: Vec<i64> = (0..count)
        .map(|at| (at % length < length.div_ceil(2)).into())
        .collect();
    [&ids, &mask].map(|values| Tensor::from_slice([rows, length], values).unwrap())
}

#[test]
fn joined_runs_return_what_each_run_does() {
    let model = load("bert-dynamic", &LoadOptions::new());
    assert_eq!(model.batch_dimension(), Some("batch"));
    let cases = [(1, 7), (3, 7), (2, 16), (1, 7), (2, 7), (4, 16), (1, 1)];
    let inputs: Vec<[Tensor; 2]> = (0..)
        .zip(cases)
        .map(|(seed, (rows, length))| tokens(rows, length, seed))
        .collect();
    let named: Vec<[(&str, &Tensor); 2]> = inputs
        .iter()
        .map(|[ids, mask]| [("input_ids", ids), ("attention_mask", mask)])
        .collect();
    let runs: Vec<&[(&str, &Tensor)]> = named.iter().map(|run| &run[..]).collect();
    let joined = model.run_batch(&runs).unwrap();
    assert_eq!(joined.len(), runs.len());
    for (outputs, run) in joined.iter().zip(&runs) {
        let alone = model.run(run).unwrap();
        for (found, expected) in outputs.iter().zip(&alone) {
            assert_close(found, expected);
        }
    }
    // Runs of one length share memory: they were one execution.
    let start = |run: usize| joined[run][0].bytes().as_ptr() as usize;
    assert_eq!(start(1) - start(0), inputs[0][0].ty().elements() * 64 * 4);
    assert!(model.run_batch(&[]).unwrap().is_empty());
}

#[test]
fn runs_with_strings_are_joined() {
    let rows = |name: &str| {
        let extents = vec![
            DimensionValue::Parameter("batch".into()),
            DimensionValue::Value(2),
        ];
        value(name, data_type::STRING, extents)
    };
    let graph = GraphProto {
        node: vec![NodeProto {
            op_type: "StringConcat".into(),
            input: ["x", "end"].map(String::from).to_vec(),
            output: vec!["y".into()],
            ..NodeProto::default()
        }],
        input: vec![
            rows("x"),
            value("end", data_type::STRING, vec![DimensionValue::Value(2)]),
        ],
        output: vec![rows("y")],
        ..GraphProto::default()
    };
    let package = Compiler::new().compile_model(&onnx(graph)).unwrap();
    let model = package.load(&LoadOptions::new()).unwrap();
    assert_eq!(model.batch_dimension(), Some("batch"));
    let texts = |shape: &[usize], texts: &[&str]| Tensor::from_strings(shape, texts).unwrap();
    let first = texts(&[1, 2], &["a", ""]);
    let second = texts(&[2, 2], &["b", "ä\0", "c", "long"]);
    let end = texts(&[2], &["1", "!"]);
    let runs: [&[(&str, &Tensor)]; 2] = [
        &[("x", &first), ("end", &end)],
        &[("x", &second), ("end", &end)],
    ];
    let joined = model.run_batch(&runs).unwrap();
    assert_eq!(joined[0][0], texts(&[1, 2], &["a1", "!"]));
    assert_eq!(joined[1][0], texts(&[2, 2], &["b1", "ä\0!", "c1", "long!"]));
}

#[test]
fn runs_are_not_joined_beyond_the_range_or_without_a_batch() {
    let compiler = Compiler::new().dim_range("batch", 1..=4);
    let compiled = compiler.compile_file(file("bert-dynamic")).unwrap();
    let model = compiled.load(&LoadOptions::new()).unwrap();
    let inputs: Vec<[Tensor; 2]> = (0..3).map(|seed| tokens(3, 5, seed)).collect();
    let named: Vec<[(&str, &Tensor); 2]> = inputs
        .iter()
        .map(|[ids, mask]| [("input_ids", ids), ("attention_mask", mask)])
        .collect();
    let mut runs: Vec<&[(&str, &Tensor)]> = named.iter().map(|run| &run[..]).collect();
    assert_eq!(model.run_batch(&runs).unwrap().len(), 3);
    // Mistakes of all runs, before any of them.
    runs[2] = &named[2][..1];
    let wrong = [("input_ids", &inputs[0][0]), ("mask", &inputs[0][1])];
    runs[0] = &wrong;
    let error = model.run_batch(&runs).unwrap_err().to_string();
    for part in [
        "run 0",
        "the model has no input 'mask'",
        "run 2",
        "input 'attention_mask' is missing",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let lstm = load("lstm-dynamic", &LoadOptions::new());
    assert_eq!(lstm.batch_dimension(), None);
    let x = Tensor::zeroed(TensorType::new(DataType::F32, [1, 4, 12]).unwrap()).unwrap();
    let outputs = lstm.run_batch(&[&[("x", &x)], &[("x", &x)]]).unwrap();
    assert_eq!(outputs[0], outputs[1]);
}
