//! The examples, built with only the installed files and pkg-config, and the sample program of the published guide.
#![allow(clippy::print_stderr, reason = "prints skipped tests")]

mod common;

use common::{Answer, TestFolder, library, repository};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon::{Model, Tensor};

const DIGITS: &str = "models/digits/digits.onnx";

/// Installs the library by links in the layout of `cargo xtask install`.
fn install(folder: &TestFolder) -> PathBuf {
    let prefix = folder.path().join("installed");
    let libraries = prefix.join("lib");
    std::fs::create_dir_all(libraries.join("pkgconfig")).unwrap();
    symlink(library(), libraries.join("libnrt.so.1")).unwrap();
    symlink("libnrt.so.1", libraries.join("libnrt.so")).unwrap();
    symlink(repository().join("include"), prefix.join("include")).unwrap();
    let template =
        std::fs::read_to_string(repository().join("crates/frontends/nrt/nrt.pc.in")).unwrap();
    let text = template
        .replace("@PREFIX@", prefix.to_str().unwrap())
        .replace("@VERSION@", "1");
    std::fs::write(libraries.join("pkgconfig/nrt.pc"), text).unwrap();
    prefix
}

/// The flags of pkg-config for the installed library.
fn pkg_config(prefix: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("pkg-config");
    command
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "nrt"]);
    let output = command.output().ok()?;
    let text = Answer::from(output).assert_success().out;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

fn build(compiler: &str, source: &str, program: &Path, flags: &[String]) {
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(repository().join("examples").join(source))
        .arg("-o")
        .arg(program)
        .args(flags);
    Answer::text(&mut command);
}

/// A random input for the digits model, and the model's outputs.
fn input_and_outputs(package: &Path) -> (Tensor, Vec<Tensor>) {
    let model = Model::load(package).unwrap();
    let input = &model.inputs()[0];
    let tensor = tenon::inputs::random_tensor(&input.ty, 7).unwrap();
    let outputs = model.run(&[(&input.name, &tensor)]).unwrap();
    (tensor, outputs.into_tensors())
}

#[test]
fn examples_build_with_a_compiler_and_pkg_config() {
    let folder = TestFolder::new();
    let prefix = install(&folder);
    let Some(flags) = pkg_config(&prefix) else {
        eprintln!("skipped: pkg-config is not installed");
        return;
    };
    let package = folder.package(DIGITS, "digits.neff");
    let (input, outputs) = input_and_outputs(&package);
    std::fs::write(folder.path().join("input.f32"), input.bytes()).unwrap();
    let run = |program: &Path, arguments: &[&str]| {
        let libraries = prefix.join("lib");
        let environment = [("LD_LIBRARY_PATH", libraries.to_str().unwrap())];
        folder
            .run(program, arguments, &environment)
            .assert_success()
            .out
    };
    let classify = folder.path().join("classify");
    build("cc", "nrt-c/classify.c", &classify, &flags);
    let printed = run(&classify, &["digits.neff", "input.f32"]);
    let scores = outputs[0].as_slice::<f32>().unwrap();
    let best = (0..scores.len())
        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        .unwrap();
    assert!(
        printed.starts_with(&format!("class {best}, score ")),
        "{printed}"
    );

    let throughput = folder.path().join("throughput");
    build("c++", "nrt-cpp/throughput.cpp", &throughput, &flags);
    let printed = run(&throughput, &["digits.neff", "3", "2", "0.2"]);
    let rate = printed.split_whitespace().next().unwrap();
    assert!(rate.parse::<f64>().unwrap() > 0.0, "{printed}");
}

/// The lines of the code block after `heading`, without their indentation.
fn block(text: &str, heading: &str, language: &str) -> String {
    let (_, after) = text.split_once(heading).expect("the heading");
    let directive = format!(".. code-block:: {language}\n");
    let (_, block) = after.split_once(&directive).expect("the block");
    let lines = block
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    lines
        .map(|line| line.get(4..).unwrap_or("").to_owned() + "\n")
        .collect()
}

#[test]
fn the_published_sample_program_runs() {
    let guide = std::env::var_os("TENON_EXTRA_DATA")
        .map(|folder| Path::new(&folder).join("../seeds/neuron-runtime-libnrt.rst"));
    let Some(text) = guide.and_then(|path| std::fs::read_to_string(path).ok()) else {
        eprintln!("skipped: no neuron-runtime-libnrt.rst next to TENON_EXTRA_DATA");
        return;
    };
    let folder = TestFolder::new();
    let prefix = install(&folder);
    let program = block(&text, "\nAuthor your code\n", "c");
    std::fs::write(folder.path().join("run_neff.c"), program).unwrap();
    let command = block(&text, "\nBuilding the example:\n", "bash");
    let command = command
        .trim()
        .replace("/opt/aws/neuron", prefix.to_str().unwrap());
    assert!(
        command.starts_with("gcc run_neff.c -o run_neff -lnrt -pthread"),
        "{command}"
    );
    let mut built = Command::new("sh");
    built.current_dir(folder.path()).args(["-c", &command]);
    // The command has the libraries before the source, which fails with linkers that default to
    // --as-needed.
    Answer::text(&mut built);

    for model in [DIGITS, "models/small/mlp.onnx", "models/small/lstm.onnx"] {
        let package = folder.package(model, "my.neff");
        let loaded = Model::load(&package).unwrap();
        let inputs: Vec<(String, Tensor)> = loaded
            .inputs()
            .iter()
            .zip(1..)
            .map(|(input, seed)| {
                (
                    input.name.clone(),
                    tenon::inputs::random_tensor(&input.ty, seed).unwrap(),
                )
            })
            .collect();
        let named: Vec<(&str, &Tensor)> = inputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let expected = loaded.run(&named).unwrap();
        let mut arguments = vec!["my.neff".to_owned()];
        for (index, (name, tensor)) in inputs.iter().enumerate() {
            let file = format!("input_{index}.bin");
            std::fs::write(folder.path().join(&file), tensor.bytes()).unwrap();
            arguments.extend([name.clone(), file]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let libraries = prefix.join("lib");
        let environment = [("LD_LIBRARY_PATH", libraries.to_str().unwrap())];
        let ran = folder.run(&folder.path().join("run_neff"), &arguments, &environment);
        assert!(
            ran.out.ends_with("DONE\n"),
            "{model}: {}\n{}",
            ran.out,
            ran.err
        );
        for (output, expected) in loaded.outputs().iter().zip(&expected) {
            let file = folder
                .path()
                .join(format!("{}.out", output.name.replace('/', "_")));
            let found = std::fs::read(&file).unwrap();
            assert!(
                found == expected.bytes(),
                "{model}: {} differs",
                output.name
            );
        }
    }
}
