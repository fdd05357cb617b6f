//! Packages with buckets: padded runs compared with onnxruntime's outputs and with plain arithmetic.

use std::path::PathBuf;
use tenon::neff;
use tenon::tensor::{BufferMut, npy};
use tenon::{Compiler, Control, DataType, ErrorKind, LoadOptions, Model, Package, Tensor};

fn root() -> PathBuf {
    tenon_test_data::repository("")
}

fn compile(compiler: &Compiler, model: &str) -> Package {
    compiler.compile_file(root().join(model)).unwrap()
}

fn load(compiler: &Compiler, model: &str) -> Model {
    compile(compiler, model).load(&LoadOptions::new()).unwrap()
}

const BERT: &str = "models/small/bert-dynamic.onnx";
const LSTM: &str = "models/small/lstm-dynamic.onnx";
/// `y = Relu(x)` of `[batch, 6]`.
const RELU: &str = "crates/frontends/cli/tests/data/batch.onnx";

/// Runs the model on the inputs of each sample and compares with the outputs that onnxruntime computed without
/// padding.
fn check_samples(model: &Model, name: &str, count: usize) {
    for sample in 1..=count {
        let file = root().join(format!("models/small/{name}.{sample}.npz"));
        let arrays = npy::read_npz(file).unwrap();
        let of = |prefix: &str| -> Vec<(&str, &Tensor)> {
            let named = arrays.iter();
            let named =
                named.filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?, tensor)));
            named.collect()
        };
        let outputs = model.run(&of("in.")).unwrap();
        for (output, expected) in of("out.") {
            let found = outputs.tensor(output).unwrap();
            assert_eq!(found.ty(), expected.ty(), "{name} {sample} {output}");
            let pairs = found.as_slice::<f32>().unwrap().iter();
            for (found, expected) in pairs.zip(expected.as_slice::<f32>().unwrap()) {
                let fits = (found - expected).abs() <= 1e-3 * (1.0 + expected.abs());
                assert!(fits, "{name} {sample} {output}: {found} {expected}");
            }
        }
    }
}

#[test]
fn a_mask_excludes_padding() {
    let compiler = Compiler::new()
        .bucket("sequence", [8, 20, 32])
        .pad("input_ids", 7);
    let masked = compiler.clone().pad("attention_mask", 0);
    // Any batch, and one of two.
    check_samples(&load(&masked, BERT), "bert-dynamic", 4);
    check_samples(
        &load(&masked.bucket("batch", [1, 4]), BERT),
        "bert-dynamic",
        4,
    );
    // Without the mask the same tokens have other results.
    let model = load(&compiler.pad("attention_mask", 1), BERT);
    let [ids, mask] = [[5i64, 9, 3], [1, 1, 1]];
    let [ids, mask] = [ids, mask].map(|row| Tensor::from_slice([1, 3], &row).unwrap());
    let inputs = [("input_ids", &ids), ("attention_mask", &mask)];
    let found = model.run(&inputs).unwrap();
    let exact = load(&Compiler::new(), BERT).run(&inputs).unwrap();
    let pairs = found[0].as_slice::<f32>().unwrap().iter();
    let mut pairs = pairs.zip(exact[0].as_slice::<f32>().unwrap());
    assert!(pairs.any(|(a, b)| (a - b).abs() > 1e-2));
}

#[test]
fn steps_of_a_recurrent_model_do_not_depend_on_later_ones() {
    let compiler = Compiler::new().bucket("time", [4, 16, 31]).pad("x", -3.5);
    check_samples(&load(&compiler, LSTM), "lstm-dynamic", 3);
}

fn rows(count: usize) -> (Tensor, Vec<f32>) {
    let values: Vec<f32> = (0..count * 6).map(|at| (at as f32 - 9.0) / 4.0).collect();
    let relu = values.iter().map(|value| value.max(0.0)).collect();
    (Tensor::from_slice([count, 6], &values).unwrap(), relu)
}

#[test]
fn elementwise_models_are_exact_between_buckets() {
    let model = load(
        &Compiler::new().bucket("batch", [2, 5, 9]).pad("x", "inf"),
        RELU,
    );
    for count in 1..=9 {
        let (x, relu) = rows(count);
        let outputs = model.run(&[("x", &x)]).unwrap();
        assert_eq!(outputs[0].shape()[..], [count, 6]);
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), relu);
        // A model of these sizes, on bound memory.
        let fixed = model.at(&[("batch", count as u64)]).unwrap();
        assert_eq!(fixed.inputs()[0].ty.to_string(), format!("f32[{count}, 6]"));
        let mut bindings = fixed.bind().unwrap();
        bindings.set_input("x", &x).unwrap();
        bindings.run(Default::default()).unwrap();
        let outputs = bindings.outputs().unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), relu);
        let mut short = vec![0; count * 24 - 1];
        let error = fixed.execute(&[x.bytes()], &mut [&mut short]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let error = model.run(&[("x", &rows(10).0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dimension 'batch': the size of a dimension is outside its range: expected 1 to 9, found 10"
    );
}

#[test]
fn without_padding_the_sizes_are_buckets() {
    let compiler = Compiler::new().bucket("batch", [2, 5]);
    let model = load(&compiler, RELU);
    let (x, relu) = rows(5);
    assert_eq!(
        model.run(&[("x", &x)]).unwrap()[0]
            .as_slice::<f32>()
            .unwrap(),
        relu
    );
    let error = model.run(&[("x", &rows(3).0)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "dimension 'batch': the size is no bucket of the dimension: expected 2, 5, found 3; where \
         padding does not change the results, compile the model with --pad x=VALUE"
    );
    // Of two inputs, the one without padding is named; a range beyond the buckets is no bucket either.
    let compiler = Compiler::new()
        .bucket("sequence", [8, 16])
        .pad("attention_mask", 0);
    let model = load(&compiler.dim_range("sequence", 1..=20), BERT);
    let at = |sequence| {
        model
            .at(&[("batch", 1), ("sequence", sequence)])
            .err()
            .unwrap()
    };
    let error = at(9).to_string();
    assert!(error.contains("found 9; where padding does not"), "{error}");
    assert!(error.ends_with("--pad input_ids=VALUE"), "{error}");
    let error = at(17).to_string();
    assert!(
        error.ends_with("above all buckets of the dimension: expected 8, 16, found 17"),
        "{error}"
    );
}

#[test]
fn runs_are_joined_up_to_the_greatest_bucket() {
    let padded = load(&Compiler::new().bucket("batch", [2, 5]).pad("x", 0), RELU);
    assert_eq!(padded.batch_dimension(), Some("batch"));
    // Joined sizes would be no buckets.
    let strict = load(&Compiler::new().bucket("batch", [2, 5]), RELU);
    assert_eq!(strict.batch_dimension(), None);
    for (model, count) in [(padded, 1), (strict, 2)] {
        let (x, relu) = rows(count);
        let run = [("x", &x)];
        for outputs in model.run_batch(&[&run, &run, &run]).unwrap() {
            assert_eq!(outputs[0].as_slice::<f32>().unwrap(), relu);
        }
    }
}

#[test]
fn wrong_buckets_are_refused_when_compiling() {
    let sizes = [2, 5];
    for (compiler, model, part) in [
        (
            Compiler::new().bucket("batch", [0; 0]),
            RELU,
            "1 to 64, found 0",
        ),
        (
            Compiler::new().bucket("batch", [5, 2]),
            RELU,
            "do not ascend: found [5, 2]",
        ),
        (
            Compiler::new().bucket("batch", [0, 2]),
            RELU,
            "expected 1 to 2, found 0",
        ),
        (
            Compiler::new().bucket("batch", [1, u64::MAX]),
            RELU,
            "the range of a dimension",
        ),
        (
            Compiler::new().bucket("length", sizes),
            RELU,
            "no dimension 'length'",
        ),
        (
            Compiler::new().bucket("batch", sizes).dim("batch", 2),
            RELU,
            "no symbolic dimension",
        ),
        (
            Compiler::new().pad("x", 0),
            RELU,
            "has no dimension with buckets",
        ),
        (
            Compiler::new().bucket("batch", sizes).pad("y", 0),
            RELU,
            "no input of the model",
        ),
        (
            Compiler::new().bucket("batch", sizes).pad("x", "zero"),
            RELU,
            "expected f32, found zero",
        ),
        (
            Compiler::new()
                .bucket("batch", 1..=10)
                .bucket("sequence", 1..=10),
            BERT,
            "at most 64, found 100",
        ),
        (
            Compiler::new().bucket("limit", sizes),
            "crates/frontends/cli/tests/data/endless.onnx",
            "dimension",
        ),
    ] {
        let error = compiler.compile_file(root().join(model)).unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert_ne!(error.kind(), ErrorKind::InvalidPackage, "{error}");
    }
}

/// Packages with buckets are format 3, which readers of format 2 refuse; without, they are as before.
#[test]
fn only_packages_with_buckets_have_the_newest_format() {
    let format = |compiler: &Compiler| {
        let compiled = compile(compiler, RELU);
        compiled.nodes().cores().next().unwrap().tenon.format
    };
    assert_eq!(format(&Compiler::new().dim("batch", 2)), 1);
    assert_eq!(format(&Compiler::new()), 2);
    assert_eq!(format(&Compiler::new().bucket("batch", [2])), 3);
}

/// Loads a package with a text of its members replaced by one of the same length.
fn load_changed(bytes: &[u8], from: &str, to: &str) -> tenon::Result<Model> {
    assert_eq!(from.len(), to.len());
    let mut places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(from.as_bytes()));
    let at = places.next().expect("the text");
    assert_eq!(places.next(), None, "{from}");
    let mut changed = bytes.to_vec();
    changed[at..at + to.len()].copy_from_slice(to.as_bytes());
    let buffer = BufferMut::copy_of(&changed)?.freeze();
    let package = neff::Package::from_buffer(buffer, &Default::default(), &Control::new())?;
    Model::from_package(&package, &LoadOptions::new())
}

#[test]
fn malicious_buckets_are_refused_when_loading() {
    let compiler = Compiler::new()
        .bucket("batch", [2, 50, 99])
        .pad("x", "0.25");
    let bytes = compile(&compiler, RELU).to_bytes().unwrap();
    let sizes = r#""sizes":[2,50,99]"#;
    load_changed(&bytes, sizes, r#""sizes":[2,51,99]"#).unwrap();
    for (from, to, part) in [
        (sizes, r#""sizes":[9,50,50]"#, "do not ascend"),
        (sizes, r#""sizes":[2,150  ]"#, "1 to 99, found 150"),
        (sizes, r#""sizes":[0,50,99]"#, "1 to 99, found 0"),
        (sizes, r#""sizes":[-2,5,99]"#, "-2"),
        (sizes, r#""sizes":[1e9    ]"#, "1000000000"),
        (sizes, r#""sizes":[       ]"#, "1 to 64, found 0"),
        (
            r#""symbol":"batch""#,
            r#""symbol":"bitch""#,
            "expected batch, found bitch",
        ),
        (r#""input":"x""#, r#""input":"z""#, "expected x, found z"),
        (
            r#""value":"0.25""#,
            r#""value":"1e99""#,
            "expected f32, found 1e99",
        ),
        (
            r#""value":"0.25""#,
            r#""value":[0.25]"#,
            "expected a string",
        ),
        (r#"{"format":3,"#, r#"{"format":2,"#, "expected 3, found 2"),
        (r#"{"format":3,"#, r#"{"format":4,"#, "newer Tenon"),
        (r#"1,"max":99}"#, r#"1,"max":98}"#, "1 to 98, found 99"),
    ] {
        let error = load_changed(&bytes, from, to).unwrap_err().to_string();
        assert!(error.contains(part), "{to}: {error}");
    }
}

#[test]
fn padding_that_is_not_at_the_end_is_refused() {
    // The detector has extents such as a multiple of `floor(width / 8)`.
    let compiler = Compiler::new()
        .bucket("height", [64, 96])
        .bucket("width", [64, 160]);
    let model = load(
        &compiler.pad("image", 0),
        "models/small/detector-dynamic.onnx",
    );
    let sizes = |width| [("batch", 1), ("height", 64), ("width", width)];
    model.at(&sizes(64)).unwrap();
    let error = model.at(&sizes(96)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.starts_with("'detections', dimension 2: a dimension whose padding"),
        "{text}"
    );
    assert!(
        text.contains("expected at most 64 more than 126, found 210"),
        "{text}"
    );
}

#[test]
fn types_of_padded_models_are_actual() {
    let model = load(&Compiler::new().bucket("time", [8]).pad("x", 0), LSTM);
    let fixed = model.at(&[("time", 3)]).unwrap();
    assert!(fixed.symbols().is_empty());
    assert_eq!(fixed.outputs()[0].ty.to_string(), "f32[1, 3, 5]");
    assert_eq!(fixed.inputs()[0].ty.dtype(), DataType::F32);
    // The profile is that of the instance.
    let mut profile = fixed.profile();
    let x = Tensor::zeroed("f32[1, 3, 12]".parse().unwrap()).unwrap();
    let options = tenon::RunOptions::new().profile(&mut profile);
    fixed.run_with(&[("x", &x)], options).unwrap();
    assert!(!profile.kernels.is_empty());
}
