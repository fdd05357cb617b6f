//! The examples, built with what is installed and pkg-config alone, and the program of the seed.
#![allow(clippy::print_stderr, reason = "it says what it skips and measures")]

mod common;

use common::{Place, Ran, library, repository};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon::{Model, Tensor};

const DIGITS: &str = "models/digits/digits.onnx";

/// Lays the library out as `cargo xtask install` does, by links.
fn install(place: &Place) -> PathBuf {
    let prefix = place.path().join("installed");
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

/// What pkg-config says of the installed library.
fn pkg_config(prefix: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("pkg-config");
    command
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "nrt"]);
    let answer = command.output().ok()?;
    let text = Ran::from(answer).done().out;
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
    Ran::from(command.output().unwrap()).done();
}

/// A picture's numbers for the digits model: its input, and what the model makes of it.
fn input_and_outputs(package: &Path) -> (Tensor, Vec<Tensor>) {
    let model = Model::load(package).unwrap();
    let input = &model.inputs()[0];
    let tensor = tenon::inputs::random_tensor(&input.ty, 7).unwrap();
    let outputs = model.run(&[(&input.name, &tensor)]).unwrap();
    (tensor, outputs.into_tensors())
}

#[test]
fn examples_need_a_compiler_and_pkg_config_alone() {
    let place = Place::new();
    let prefix = install(&place);
    let Some(flags) = pkg_config(&prefix) else {
        eprintln!("skipped: pkg-config is not there");
        return;
    };
    let package = place.package(DIGITS, "digits.neff");
    let (input, outputs) = input_and_outputs(&package);
    std::fs::write(place.path().join("input.f32"), input.bytes()).unwrap();
    let run = |program: &Path, arguments: &[&str]| {
        let libraries = prefix.join("lib");
        let environment = [("LD_LIBRARY_PATH", libraries.to_str().unwrap())];
        place.run(program, arguments, &environment).done().out
    };
    let classify = place.path().join("classify");
    build("cc", "nrt-c/classify.c", &classify, &flags);
    let said = run(&classify, &["digits.neff", "input.f32"]);
    let scores = outputs[0].as_slice::<f32>().unwrap();
    let best = (0..scores.len())
        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        .unwrap();
    assert!(said.starts_with(&format!("class {best}, score ")), "{said}");

    let throughput = place.path().join("throughput");
    build("c++", "nrt-cpp/throughput.cpp", &throughput, &flags);
    let said = run(&throughput, &["digits.neff", "3", "2", "0.2"]);
    let number = said.split_whitespace().next().unwrap();
    assert!(number.parse::<f64>().unwrap() > 0.0, "{said}");
}

/// The lines of the code block after `heading`, without their indentation.
fn block(text: &str, heading: &str, language: &str) -> String {
    let (_, behind) = text.split_once(heading).expect("the heading");
    let directive = format!(".. code-block:: {language}\n");
    let (_, block) = behind.split_once(&directive).expect("the block");
    let lines = block
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    lines
        .map(|line| line.get(4..).unwrap_or("").to_owned() + "\n")
        .collect()
}

#[test]
fn the_program_of_the_seed_runs_here() {
    let seed = std::env::var_os("TENON_EXTRA_DATA")
        .map(|folder| Path::new(&folder).join("../seeds/neuron-runtime-libnrt.rst"));
    let Some(text) = seed.and_then(|path| std::fs::read_to_string(path).ok()) else {
        eprintln!("skipped: the seed is not beside TENON_EXTRA_DATA");
        return;
    };
    let place = Place::new();
    let prefix = install(&place);
    let program = block(&text, "\nAuthor your code\n", "c");
    std::fs::write(place.path().join("run_neff.c"), program).unwrap();
    let command = block(&text, "\nBuilding the example:\n", "bash");
    let command = command
        .trim()
        .replace("/opt/aws/neuron", prefix.to_str().unwrap());
    assert!(
        command.starts_with("gcc run_neff.c -o run_neff -lnrt -pthread"),
        "{command}"
    );
    let mut built = Command::new("sh");
    built.current_dir(place.path()).args(["-c", &command]);
    // The options stand before the file there, which a linker that drops unused libraries minds.
    let built = Ran::from(built.output().unwrap());
    assert_eq!(built.status, Some(0), "{command}\n{}", built.err);

    for model in [DIGITS, "models/small/mlp.onnx", "models/small/lstm.onnx"] {
        let package = place.package(model, "my.neff");
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
        let given: Vec<(&str, &Tensor)> = inputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let expected = loaded.run(&given).unwrap();
        let mut arguments = vec!["my.neff".to_owned()];
        for (index, (name, tensor)) in inputs.iter().enumerate() {
            let file = format!("input_{index}.bin");
            std::fs::write(place.path().join(&file), tensor.bytes()).unwrap();
            arguments.extend([name.clone(), file]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let libraries = prefix.join("lib");
        let environment = [("LD_LIBRARY_PATH", libraries.to_str().unwrap())];
        let ran = place.run(&place.path().join("run_neff"), &arguments, &environment);
        assert!(
            ran.out.ends_with("DONE\n"),
            "{model}: {}\n{}",
            ran.out,
            ran.err
        );
        for (output, expected) in loaded.outputs().iter().zip(&expected) {
            let file = place
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
