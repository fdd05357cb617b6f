//! Packages with symbolic sizes and with buckets, executed from C; results are compared with those of onnxruntime.

mod common;

use common::{Answer, TestFolder, repository};
use std::fs;
use tenon::tensor::npy;
use tenon::{Compiler, Model, Tensor};

/// Executes a package from C on tensors, which are files; the statuses are expected.
struct SizesTest {
    folder: TestFolder,
    program: std::path::PathBuf,
}

impl SizesTest {
    fn new(compiler: &Compiler, model: &str) -> Self {
        let folder = TestFolder::new();
        let compiled = compiler.compile_file(repository().join(model));
        let package = folder.path().join("model.neff");
        compiled
            .expect("it compiles")
            .write(package)
            .expect("it is written");
        let program = folder.build("sizes");
        Self { folder, program }
    }

    #[track_caller]
    fn run(&self, inputs: &[(&str, &[u8])], load: u32, execute: u32) -> Answer {
        self.run_with(inputs, [load, execute, 1], &[])
    }

    /// Runs it with expected statuses of loading and executing, and a number of executions with feedback.
    #[track_caller]
    fn run_with(
        &self,
        inputs: &[(&str, &[u8])],
        values: [u32; 3],
        environment: &[(&str, &str)],
    ) -> Answer {
        for (name, bytes) in inputs {
            fs::write(self.folder.path().join(format!("{name}.bin")), bytes).unwrap();
        }
        let [load, execute, count] = values.map(|value| value.to_string());
        let arguments = ["model.neff", ".", &load, &execute, &count];
        let environment = [environment, &[("NEURON_RT_LOG_LEVEL", "WARNING")]].concat();
        let ran = self.folder.run(&self.program, &arguments, &environment);
        ran.assert_success()
    }

    /// Compares the outputs with those that onnxruntime computed for the inputs of a sample.
    #[track_caller]
    fn check_sample(&self, model: &str, sample: u32) -> Answer {
        let file = repository().join(format!("models/small/{model}.{sample}.npz"));
        let arrays = npy::read_npz(file).unwrap();
        let of = |prefix: &str| -> Vec<(String, Tensor)> {
            let named = arrays.iter().filter_map(|(name, tensor)| {
                Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone()))
            });
            named.collect()
        };
        let inputs = of("in.");
        let bytes = inputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor.bytes()));
        let ran = self.run(&bytes.collect::<Vec<_>>(), 0, 0);
        for (name, expected) in of("out.") {
            let shape = expected.shape().iter().map(|extent| format!(" {extent}"));
            let line = format!("actual {name}:{}\n", shape.collect::<String>());
            assert!(ran.out.contains(&line), "{line}{}", ran.out);
            let found = fs::read(self.folder.path().join(format!("{name}.out"))).unwrap();
            let found = found
                .as_chunks()
                .0
                .iter()
                .map(|&bytes| f32::from_le_bytes(bytes));
            let expected = expected.as_slice::<f32>().unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.zip(expected) {
                let fits = (found - expected).abs() <= 1e-3 * (1.0 + expected.abs());
                assert!(fits, "{model} {sample} {name}: {found} {expected}");
            }
        }
        ran
    }
}

const LSTM: &str = "models/small/lstm-dynamic.onnx";
const BERT: &str = "models/small/bert-dynamic.onnx";

#[test]
fn one_size_follows_from_byte_counts() {
    let test = SizesTest::new(&Compiler::new().dim_range("time", 1..=64), LSTM);
    for sample in 1..=3 {
        let ran = test.check_sample("lstm-dynamic", sample);
        let largest = "largest x 3072: 1 64 12\nlargest classes 1280: 1 64 5\n";
        assert!(ran.out.starts_with(largest), "{}", ran.out);
    }
    for (bytes, message) in [
        (
            48 * 3 + 4,
            "dimension 'time': the byte count of input 'x' is that of no size: expected a multiple of 48 \
             bytes (f32[1, time, 12]), found 148",
        ),
        (
            0,
            "dimension 'time': the size of a dimension is outside its range: expected 1 to 64, found 0",
        ),
    ] {
        let ran = test.run(&[("x", &vec![0; bytes])], 0, 2);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn inputs_of_one_size_agree() {
    let compiler = Compiler::new()
        .dim("batch", 2)
        .dim_range("sequence", 1..=40);
    let test = SizesTest::new(&compiler, BERT);
    test.check_sample("bert-dynamic", 2);
    let [ids, mask] = [[0; 2 * 5 * 8], [0; 2 * 5 * 8]];
    let ran = test.run(
        &[("input_ids", &ids), ("attention_mask", &mask[16..])],
        0,
        2,
    );
    let message = "the tensor of input 'attention_mask' has the wrong size: expected 80 bytes \
                   (i64[2, 5] for sequence = 5), found 64";
    assert!(ran.err.contains(message), "{}", ran.err);
}

#[test]
fn sizes_that_tensors_do_not_decide_are_refused_when_loading() {
    let ranges = Compiler::new()
        .dim_range("batch", 1..=4)
        .dim_range("sequence", 1..=64);
    for (compiler, model, message) in [
        (
            Compiler::new(),
            LSTM,
            "dimension 'time' has no bound: expected a greatest size of at most 16777216, found \
             2147483647; compile the model with --dim time=A..B",
        ),
        (
            ranges,
            BERT,
            "the byte counts of the inputs do not decide the sizes of all dimensions: found batch, \
             sequence",
        ),
    ] {
        let test = SizesTest::new(&compiler, model);
        let ran = test.run(&[], 2, 0);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn tensors_between_buckets_are_padded() {
    let compiler = Compiler::new().bucket("time", [4, 16, 32]).pad("x", 0);
    let test = SizesTest::new(&compiler, LSTM);
    for sample in 1..=3 {
        let ran = test.check_sample("lstm-dynamic", sample);
        assert!(
            ran.out.starts_with("largest x 1536: 1 32 12\n"),
            "{}",
            ran.out
        );
    }
    let test = SizesTest::new(&Compiler::new().bucket("time", [4, 16, 32]), LSTM);
    let ran = test.run(&[("x", &[0; 48 * 9])], 0, 2);
    let message = "dimension 'time': the size is no bucket of the dimension: expected 4, 16, 32, found 9; \
                   where padding does not change the results, compile the model with --pad x=VALUE";
    assert!(ran.err.contains(message), "{}", ran.err);
}

#[test]
fn combinations_of_buckets_follow_from_byte_counts() {
    let compiler = Compiler::new();
    let compiler = compiler
        .bucket("batch", [1, 2, 3])
        .bucket("sequence", [1, 5, 16, 32]);
    let test = SizesTest::new(&compiler, BERT);
    for sample in 1..=4 {
        let ran = test.check_sample("bert-dynamic", sample);
        assert!(
            ran.out.starts_with("largest input_ids 768: 3 32\n"),
            "{}",
            ran.out
        );
        // 2 of 16 and 1 of 32.
        let warning = "batch = 1, sequence = 32 and batch = 2, sequence = 16";
        assert!(ran.err.contains(warning), "{}", ran.err);
    }
    let ids = [0; 7 * 8];
    let ran = test.run(&[("input_ids", &ids), ("attention_mask", &ids)], 0, 2);
    let message = "the byte counts of the inputs are those of no combination of buckets: expected batch 1 or 2 or \
                   3, sequence 1 or 5 or 16 or 32, found bytes input_ids 56, attention_mask 56";
    assert!(ran.err.contains(message), "{}", ran.err);
}

#[test]
fn outputs_feed_inputs_of_the_same_sizes() {
    let relu = "crates/frontends/cli/tests/data/batch.onnx";
    let compiler = Compiler::new().bucket("batch", [2, 5]).pad("x", -1);
    let test = SizesTest::new(&compiler, relu);
    let x: Vec<f32> = (0..18).map(|at| at as f32 - 9.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
    let ran = test.run_with(&[("x", &bytes)], [0, 0, 3], &[]);
    assert!(ran.out.ends_with("actual y: 3 6\n"), "{}", ran.out);
    let found = fs::read(test.folder.path().join("y.out")).unwrap();
    let expected: Vec<u8> = x
        .iter()
        .flat_map(|value| value.max(0.0).to_le_bytes())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn memory_of_larger_sizes_is_reserved_when_they_are_executed() {
    let compiler = Compiler::new()
        .dim("batch", 2)
        .dim_range("sequence", 1..=32);
    let test = SizesTest::new(&compiler, BERT);
    let model = Model::load(test.folder.path().join("model.neff")).unwrap();
    let arena = |sequence| {
        let instance = model.at(&[("sequence", sequence)]).unwrap();
        instance.memory_plan().arena_bytes
    };
    let package = fs::metadata(test.folder.path().join("model.neff")).unwrap();
    // Two inputs and two outputs of the largest sizes.
    let tensors = 2 * (2 * 32 * 8) + 2 * 64 * 4 + 2 * 32 * 64 * 4;
    let limit = package.len() - 1024 + tensors + (arena(2) + arena(32)) / 2;
    let limit = [("TENON_CORE_MEMORY", &*limit.to_string())];
    for (sequence, status) in [(2, 0), (32, 4)] {
        let ids = vec![0; 2 * sequence * 8];
        let inputs = [("input_ids", &*ids), ("attention_mask", &*ids)];
        let ran = test.run_with(&inputs, [0, status, 1], &limit);
        let exhausted = ran.err.contains("core 0 has insufficient memory");
        assert_eq!(exhausted, status != 0, "{}", ran.err);
    }
}
