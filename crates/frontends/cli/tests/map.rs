//! `tenon map`: results, resuming, workers that end, mistakes.

#![cfg(target_os = "linux")]

mod common;

use common::{Answer, children, done, folder, package, repository, tenon, tiny};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenon::tensor::npy;
use tenon::{LoadOptions, Tensor};

const DIGITS: &str = "models/digits/digits.onnx";
const TRANSFORMER: &str = "models/digits/transformer.onnx";

/// Pictures whose pixels depend on a seed.
fn pictures(rows: usize, seed: usize) -> Tensor {
    let pixels: Vec<f32> = (0..rows * 64)
        .map(|at| ((at * 31 + seed * 17) % 101) as f32 / 101.0)
        .collect();
    Tensor::from_slice([rows, 1, 8, 8], &pixels).unwrap()
}

fn write(path: &Path, arrays: &[(&str, &Tensor)]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    npy::write_npz(path, arrays).unwrap();
}

/// The only array of a file.
fn output(path: &Path) -> Tensor {
    let mut arrays = npy::read_npz(path).unwrap();
    assert_eq!(arrays.len(), 1);
    arrays.remove(0).1
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The outputs of a model for each row by itself.
fn row_by_row(model: &Path, input: &str, rows: &Tensor) -> Vec<f32> {
    let options = LoadOptions::new();
    let model = tenon::Model::load_with(model, &options).unwrap();
    let pixels = rows.as_slice::<f32>().unwrap();
    let mut all = Vec::new();
    for row in pixels.chunks_exact(64) {
        let row = Tensor::from_slice([1, 1, 8, 8], row).unwrap();
        let outputs = model.run(&[(input, &row)]).unwrap();
        all.extend_from_slice(outputs[0].as_slice::<f32>().unwrap());
    }
    all
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let bound = 1e-5 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= bound, "{found}, not {expected}");
    }
}

#[test]
fn rows_of_any_count_have_the_results_of_single_rows() {
    let folder = folder();
    let folder = folder.path();
    for (model, name) in [(DIGITS, "fixed"), (TRANSFORMER, "symbolic")] {
        package(folder, model);
        let data = folder.join("data");
        for (file, rows) in [("a.npz", 1), ("b.npz", 70), ("deep/c.npz", 0)] {
            write(&data.join(file), &[("image", &pictures(rows, rows))]);
        }
        npy::write_npy(data.join("d.npy"), &pictures(33, 5)).unwrap();
        let map = [
            "map",
            "model.neff",
            "-i",
            "data",
            "-o",
            name,
            "--processes",
            "2",
            "--json",
        ];
        let summary = json(&done(folder, &map));
        assert_eq!(
            (&summary["done"], &summary["rows"]),
            (&4.into(), &104.into())
        );
        let files = [("a", 1, 1), ("b", 70, 70), ("deep/c", 0, 0), ("d", 33, 5)];
        for (file, rows, seed) in files {
            let found = output(&folder.join(format!("{name}/{file}.npz")));
            assert_eq!(found.shape()[..], [rows, 10]);
            let pictures = pictures(rows, seed);
            let expected = row_by_row(&folder.join("model.neff"), "image", &pictures);
            assert_near(found.as_slice().unwrap(), &expected);
        }
        // Complete, thus skipped.
        let summary = json(&done(folder, &map));
        assert_eq!(
            (&summary["done"], &summary["skipped"]),
            (&0.into(), &4.into())
        );
    }
}

#[test]
fn onnxruntime_computes_the_same() {
    let Some(python) = tenon_test_data::interpreter() else {
        return;
    };
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("x.npz"), &[("image", &pictures(50, 3))]);
    let model = repository(TRANSFORMER);
    done(
        folder,
        &["map", &model, "-i", "x.npz", "-o", "out", "--batch", "8"],
    );
    let script = "import sys, numpy, onnxruntime\n\
        session = onnxruntime.InferenceSession(sys.argv[1])\n\
        images = numpy.load('x.npz')['image']\n\
        expected = session.run(None, {'image': images})[0]\n\
        found = numpy.load('out/x.npz')['scores']\n\
        numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)\n";
    let mut check = Command::new(python);
    Answer::text(check.args(["-c", script, &model]).current_dir(folder));
}

#[test]
fn two_inputs_are_split_together() {
    let folder = folder();
    let folder = folder.path();
    let ids: Vec<i64> = (0..35).map(|at| at % 11 + 1).collect();
    let ids = Tensor::from_slice([5, 7], &ids).unwrap();
    let mask = Tensor::from_slice([5, 7], &[1i64; 35]).unwrap();
    fs::create_dir_all(folder.join("ids")).unwrap();
    fs::create_dir_all(folder.join("mask")).unwrap();
    npy::write_npy(folder.join("ids/1.npy"), &ids).unwrap();
    npy::write_npy(folder.join("mask/1.npy"), &mask).unwrap();
    package(folder, "models/small/bert-dynamic.onnx");
    let inputs = ["-i", "input_ids=ids/*.npy", "-i", "attention_mask=mask"];
    let map = [
        &["map", "model.neff", "-o", "out", "--batch", "2"],
        &inputs[..],
    ]
    .concat();
    assert!(done(folder, &map).starts_with("1 file: 1 done; "));
    let model = tenon::Model::load(folder.join("model.neff")).unwrap();
    let inputs = [("input_ids", &ids), ("attention_mask", &mask)];
    let expected = model.run(&inputs).unwrap();
    let found = npy::read_npz(folder.join("out/1.npz")).unwrap();
    for (name, found) in &found {
        let expected = expected.tensor(name).unwrap();
        assert_eq!(found.ty(), expected.ty());
        assert_near(found.as_slice().unwrap(), expected.as_slice().unwrap());
    }
    // A row is missing.
    npy::write_npy(
        folder.join("mask/1.npy"),
        &Tensor::from_slice([4, 7], &[1i64; 28]).unwrap(),
    )
    .unwrap();
    let answer = tenon(folder, &map);
    let part = "mask/1.npy: array 'attention_mask': the array has another number of rows: \
        expected 5, as 'input_ids', found 4";
    assert_eq!(answer.status, Some(1));
    assert!(answer.err.contains(part), "{}", answer.err);
    // Files without a name are for a model of one input.
    let answer = tenon(folder, &["map", "model.neff", "-i", "ids", "-o", "out"]);
    assert_eq!(answer.status, Some(2), "{}", answer.err);
    assert!(
        answer.err.contains("expected --input NAME=FILES"),
        "{}",
        answer.err
    );
}

#[test]
fn files_that_fail_are_listed_and_the_others_are_done() {
    let folder = folder();
    let folder = folder.path();
    let data = |file: &str| folder.join("data").join(file);
    write(&data("good.npz"), &[("image", &pictures(3, 1))]);
    write(&data("name.npz"), &[("picture", &pictures(3, 1))]);
    let wide = Tensor::from_slice([2, 1, 8, 9], &[0f32; 144]).unwrap();
    write(&data("shape.npz"), &[("image", &wide)]);
    let whole = fs::read(data("good.npz")).unwrap();
    fs::write(data("cut.npz"), &whole[..whole.len() / 2]).unwrap();
    let model = repository(DIGITS);
    let map = ["map", &model, "-i", "data", "-o", "out", "--json"];
    let answer = tenon(folder, &map);
    assert_eq!(answer.status, Some(1));
    let summary = json(&answer.out);
    assert_eq!(
        (&summary["files"], &summary["done"]),
        (&4.into(), &1.into())
    );
    let failed = summary["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 3, "{summary}");
    for part in [
        "data/cut.npz: not a readable archive",
        "data/name.npz: array 'picture': the model has no input of this name: expected image",
        "data/name.npz: the array 'image' is missing: expected f32[N, 1, 8, 8]",
        "data/shape.npz: array 'image': the array does not fit the input: \
         expected f32[N, 1, 8, 8], found f32[2, 1, 8, 9]",
        "error: 3 of 4 files failed; the same command tries them again",
    ] {
        assert!(
            answer.err.contains(part),
            "{part} is not in\n{}",
            answer.err
        );
    }
    assert!(folder.join("out/good.npz").exists() && !folder.join("out/cut.npz").exists());
    // The first failure ends the run, also when others fail at the same time.
    let stop = ["--stop", "--force", "--processes", "4"];
    let answer = tenon(folder, &[&map[..], &stop].concat());
    let summary = json(&answer.out);
    assert_eq!(summary["failed"].as_array().unwrap().len(), 1, "{summary}");
    assert_eq!(answer.status, Some(1));
}

#[test]
fn shards_and_changes() {
    let folder = folder();
    let folder = folder.path();
    for file in 0..7 {
        write(
            &folder.join(format!("data/{file}.npz")),
            &[("image", &pictures(2, file))],
        );
    }
    package(folder, DIGITS);
    let map = ["map", "model.neff", "-i", "data/*.npz", "-o", "out"];
    for (shard, files) in [("1/3", "0.npz"), ("2/3", "1.npz"), ("3/3", "2.npz")] {
        let plan = done(
            folder,
            &[&map[..], &["--shard", shard, "--dry-run"]].concat(),
        );
        assert!(plan.starts_with("pending   data/"), "{plan}");
        assert!(
            plan.contains(&format!("data/{files} -> out/{files}")),
            "{plan}"
        );
        done(folder, &[&map[..], &["--shard", shard]].concat());
    }
    let all = |flags: &[&str]| json(&done(folder, &[&map[..], &["--json"], flags].concat()));
    assert_eq!(all(&[])["skipped"], 7);
    // A changed input, and a changed output.
    write(&folder.join("data/3.npz"), &[("image", &pictures(4, 9))]);
    fs::write(folder.join("out/5.npz"), "").unwrap();
    let summary = all(&[]);
    assert_eq!((&summary["done"], &summary["rows"]), (&2.into(), &6.into()));
    assert_eq!(output(&folder.join("out/3.npz")).shape()[0], 4);
    assert_eq!(all(&["--force"])["done"], 7);
    // Another package.
    done(
        folder,
        &[
            "compile",
            &repository(DIGITS),
            "-o",
            "model.neff",
            "--backends",
            "CpuRef",
        ],
    );
    assert_eq!(all(&[])["done"], 7);
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    let folder = folder();
    let folder = folder.path();
    write(&folder.join("a/x.npz"), &[("image", &pictures(1, 1))]);
    write(&folder.join("b/x.npz"), &[("image", &pictures(1, 1))]);
    let model = repository(DIGITS);
    let refused = |arguments: &[&str], part: &str| {
        let answer = tenon(folder, &[&["map", &model], arguments].concat());
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.err);
        assert!(answer.err.contains(part), "{arguments:?}: {}", answer.err);
        assert!(!folder.join("out").exists());
    };
    refused(
        &["-i", "a", "b", "-o", "out"],
        "out/x.npz: several inputs have one output",
    );
    refused(&["-i", "a", "-o", "a"], "a: the output folder has inputs");
    refused(
        &["-i", "a/*.npy", "-o", "out"],
        "a/*.npy: no file matches the pattern",
    );
    refused(
        &["-i", "a", "-o", "out", "--shard", "3/2"],
        "I/N with I from 1 to N",
    );
    refused(&["-i", "a", "-o", "out", "--processes", "0"], "at least 1");
    refused(&["-o", "out"], "--input");
    refused(&["-i", "a", "-o", "out", "--auto-state"], "has no states");
}

/// A folder with files for a model of two rows an execution, whose node `twice` takes 20 ms and fails at -666.
struct SlowModel(tempfile::TempDir);

/// Rows of each file, not a multiple of the batch.
const ROWS: usize = 25;

impl SlowModel {
    fn new(files: usize) -> Self {
        let folder = folder();
        let source = folder.path().join("slow.c");
        let text = "#include <stdlib.h>
            #include <unistd.h>
            #include <tenon/cpu_node.h>
            int32_t slow(const tenon_cpu_node_call *call) {
                const float *x = call->inputs[0].data;
                float *y = call->outputs[0].data;
                usleep(20000);
                for (uint64_t i = 0; i < call->outputs[0].bytes / sizeof *y; i++) {
                    if (x[i] == 666)
                        abort();
                    y[i] = 2 * x[i];
                }
                return 0;
            }";
        fs::write(&source, text).unwrap();
        tenon_test_libraries::compiled(&source, &folder.path().join("libslow.so"), &[]);
        let model = Self(folder);
        fs::create_dir(model.path("tmp")).unwrap();
        for file in 0..files {
            write(
                &model.path(&format!("data/{file}.npz")),
                &[("x", &model.rows(file))],
            );
        }
        model
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The input of a file: no two rows are equal.
    fn rows(&self, file: usize) -> Tensor {
        let values: Vec<f32> = (0..ROWS * 3)
            .map(|at| (file * ROWS * 3 + at) as f32 / 500.0)
            .collect();
        Tensor::from_slice([ROWS, 3], &values).unwrap()
    }

    fn command(&self, flags: &[&str]) -> Command {
        let map = ["map", &tiny("own"), "-i", "data", "-o", "out", "--json"];
        let mut command = common::command(self.0.path(), &map);
        let node = ["--cpu-node", "twice=libslow.so:slow", "--dim", "batch=2"];
        command.args(node).args(flags);
        command.env("TMPDIR", self.path("tmp"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, flags: &[&str]) -> Answer {
        self.command(flags).output().unwrap().into()
    }

    fn outputs(&self) -> usize {
        let names = fs::read_dir(self.path("out")).into_iter().flatten();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).count()
    }

    /// Starts the command and waits for its first output.
    fn start(&self, flags: &[&str]) -> Child {
        let mut child = self.command(flags).spawn().unwrap();
        wait_until(|| {
            assert!(child.try_wait().unwrap().is_none(), "it ended too early");
            self.outputs() > 0
        });
        child
    }

    #[track_caller]
    fn assert_complete(&self, files: usize) {
        assert_eq!(self.outputs(), files);
        for file in 0..files {
            let found = output(&self.path(&format!("out/{file}.npz")));
            assert_eq!(found.shape()[..], [ROWS, 3]);
            let rows = self.rows(file);
            let expected = rows.as_slice::<f32>().unwrap().iter();
            let expected: Vec<f32> = expected.map(|x| (-2.0 * x).exp()).collect();
            assert_near(found.as_slice().unwrap(), &expected);
        }
    }
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_that_was_killed_is_resumed() {
    let model = SlowModel::new(5);
    let mut child = model.start(&[]);
    let workers = children(child.id());
    assert_eq!(workers.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    // The worker ends, and writes nothing more.
    let worker = format!("/proc/{}", workers[0]);
    wait_until(|| {
        let stat = fs::read_to_string(format!("{worker}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    let complete = model.outputs();
    assert!((1..5).contains(&complete));
    let answer = model.run(&["--processes", "2"]);
    assert_eq!((answer.status, answer.err.as_str()), (Some(0), ""));
    let summary = json(&answer.out);
    // The last output may have been written without its line in the record.
    let skipped = summary["skipped"].as_u64().unwrap() as usize;
    assert!(skipped == complete || skipped + 1 == complete, "{summary}");
    model.assert_complete(5);
}

#[test]
fn a_worker_that_was_killed_is_started_again() {
    let model = SlowModel::new(5);
    let child = model.start(&["--processes", "2"]);
    let workers = children(child.id());
    assert_eq!(workers.len(), 2);
    kill_process(Pid::from_raw(workers[0]).unwrap(), Signal::KILL).unwrap();
    let answer = Answer::from(child.wait_with_output().unwrap());
    assert_eq!(answer.status, Some(1));
    let summary = json(&answer.out);
    assert_eq!(
        (&summary["done"], &summary["left"]),
        (&4.into(), &0.into()),
        "{summary}"
    );
    let reason = summary["failed"][0]["reasons"][0].as_str().unwrap();
    assert!(
        reason.contains("the worker process was ended by SIGKILL (signal 9)"),
        "{reason}"
    );
    assert_eq!(json(&model.run(&[]).out)["done"], 1);
    model.assert_complete(5);
}

#[test]
fn a_crash_is_the_failure_of_one_file() {
    let model = SlowModel::new(2);
    let crash = Tensor::from_slice([1, 3], &[0.0, -666.0, 0.0f32]).unwrap();
    write(&model.path("data/0a.npz"), &[("x", &crash)]);
    let answer = model.run(&[]);
    assert_eq!(answer.status, Some(1));
    let part = "error: data/0a.npz: the worker process was ended by SIGABRT (signal 6)";
    assert!(answer.err.contains(part), "{}", answer.err);
    model.assert_complete(2);
    assert_eq!(fs::read_dir(model.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_signal_stops_the_run() {
    let model = SlowModel::new(5);
    let child = model.start(&["--processes", "2"]);
    let workers = children(child.id());
    // As a terminal, which sends it to all processes.
    for id in workers.iter().copied().chain([child.id() as i32]) {
        kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(Signal::INT.as_raw()));
    let summary = json(&String::from_utf8(ended.stdout).unwrap());
    assert_eq!(summary["failed"], serde_json::json!([]));
    assert_eq!(summary["done"].as_u64().unwrap() as usize, model.outputs());
    assert!(summary["left"].as_u64().unwrap() > 0);
    let err = String::from_utf8(ended.stderr).unwrap();
    assert!(err.contains("stopped: the same command processes"), "{err}");
    assert_eq!(fs::read_dir(model.path("tmp")).unwrap().count(), 0);
    assert_eq!(json(&model.run(&[]).out)["left"], 0);
    model.assert_complete(5);
}
