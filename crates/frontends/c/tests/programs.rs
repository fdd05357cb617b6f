//! Programs in C, C++ and Python against the library: each way of building them, sanitizers, valgrind.
#![allow(clippy::print_stderr, reason = "prints skipped tests")]

use object::{Object, ObjectSymbol};
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tenon_test_data::Answer;

const DIGITS: &str = "models/digits/digits.onnx";

fn repository() -> PathBuf {
    tenon_test_data::repository("")
}

/// The library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libtenon_c.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// A folder with the files that `cargo xtask install` makes, by links.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let libraries = folder.path().join("lib");
        std::fs::create_dir_all(libraries.join("pkgconfig")).unwrap();
        std::fs::create_dir_all(libraries.join("cmake/tenon")).unwrap();
        symlink(library(), libraries.join("libtenon.so.1")).unwrap();
        symlink("libtenon.so.1", libraries.join("libtenon.so")).unwrap();
        symlink(repository().join("include"), folder.path().join("include")).unwrap();
        for (template, file) in [
            ("tenon.pc.in", "pkgconfig/tenon.pc"),
            ("tenon-config.cmake.in", "cmake/tenon/tenon-config.cmake"),
            (
                "tenon-config-version.cmake.in",
                "cmake/tenon/tenon-config-version.cmake",
            ),
        ] {
            let template = Path::new(env!("CARGO_MANIFEST_DIR")).join(template);
            let text = std::fs::read_to_string(template).unwrap();
            let text = text.replace("@PREFIX@", folder.path().to_str().unwrap());
            let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
            std::fs::write(libraries.join(file), text).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Builds a program, with every warning an error.
    #[track_caller]
    fn build(&self, source: impl AsRef<Path>, flags: &[&str]) -> PathBuf {
        let source = source.as_ref();
        let name = source.file_stem().unwrap();
        let is_cpp = source.extension() == Some(OsStr::new("cpp"));
        let (compiler, standard) = if is_cpp {
            ("c++", "-std=c++17")
        } else {
            ("cc", "-std=c11")
        };
        let program = self.path().join(name);
        let mut command = Command::new(compiler);
        command
            .args([
                standard,
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
                "-g",
                "-pthread",
            ])
            .arg("-D_POSIX_C_SOURCE=200809L")
            .arg(format!("-I{}", self.path().join("include").display()))
            .args(flags)
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg(format!("-L{}", self.path().join("lib").display()))
            .arg("-ltenon");
        Answer::text(&mut command);
        program
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("LD_LIBRARY_PATH", self.path().join("lib"))
            .env_remove("TENON_BACKEND_PATH");
        command
    }
}

fn test_source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    folder.join(name)
}

/// The programs of `tests/c`, with the models of their command lines.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("executions.c", &[DIGITS]),
    ("invalid.c", &[DIGITS]),
    ("threads.c", &[DIGITS]),
    ("fork.c", &[DIGITS]),
    ("client.cpp", &[DIGITS, "models/small/gpt2-cache.onnx"]),
];

#[track_caller]
fn run_all(flags: &[&str], prepare: impl Fn(&Installed, &Path) -> Command) {
    for (source, models) in PROGRAMS {
        let installed = Installed::new();
        let program = installed.build(test_source(source), flags);
        let mut command = prepare(&installed, &program);
        command.args(models.iter().map(|model| repository().join(model)));
        let printed = Answer::text(&mut command);
        assert!(printed.ends_with("done\n"), "{source}: {printed}");
    }
}

#[test]
fn programs_run() {
    run_all(&[], |installed, program| installed.command(program));
}

#[test]
fn programs_run_with_the_address_sanitizer() {
    run_all(&["-fsanitize=address,undefined"], |installed, program| {
        let mut command = installed.command(program);
        // Memory that the library keeps for the life of the process is reachable, and no leak.
        command.env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0");
        command.env("UBSAN_OPTIONS", "halt_on_error=1");
        command
    });
}

#[test]
fn programs_run_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    // `threads.c` takes minutes where all threads run one after the other, and the child of a fork loses what the threads
    // of its parent had.
    let skipped = ["threads.c", "fork.c"];
    for (source, models) in PROGRAMS
        .iter()
        .filter(|(source, _)| !skipped.contains(source))
    {
        let installed = Installed::new();
        let program = installed.build(test_source(source), &[]);
        let mut command = installed.command("valgrind");
        command
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .args([
                "--errors-for-leak-kinds=definite",
                "--show-leak-kinds=definite",
            ])
            .arg(program)
            .args(models.iter().map(|model| repository().join(model)));
        let printed = Answer::text(&mut command);
        assert!(printed.ends_with("done\n"), "{source}: {printed}");
    }
}

/// Pixels of an image of the digits model, and the class that the model gives it from Rust.
fn digit(installed: &Installed) -> String {
    let model = tenon::Compiler::new().compile_file(repository().join(DIGITS));
    let model = model.unwrap().load(&tenon::LoadOptions::new()).unwrap();
    let pixels: Vec<f32> = (0..64).map(|at| (at % 17) as f32).collect();
    let bytes: Vec<u8> = pixels
        .iter()
        .flat_map(|pixel| pixel.to_le_bytes())
        .collect();
    std::fs::write(installed.path().join("image.f32"), bytes).unwrap();
    let image = tenon::Tensor::from_slice([1, 1, 8, 8], &pixels).unwrap();
    let outputs = model.run(&[("image", &image)]).unwrap();
    let scores = outputs[0].as_slice::<f32>().unwrap();
    let class = (0..10)
        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        .unwrap();
    format!("class {class}, score ")
}

/// Runs the examples that `build` returns by name.
fn run_examples(installed: &Installed, build: impl Fn(&str) -> PathBuf) {
    let onnx = repository().join(DIGITS);
    let expected = digit(installed);
    let classify = build("classify");
    let deadline = build("deadline");
    let mut command = installed.command(&classify);
    let printed = Answer::text(command.arg(&onnx).arg("image.f32"));
    assert!(printed.starts_with(&expected), "{printed}");
    let mut command = installed.command(&deadline);
    Answer::text(command.arg(&onnx).args(["digits.neff", "60"]));
    let mut command = installed.command(&classify);
    let printed = Answer::text(command.args(["digits.neff", "image.f32"]));
    assert!(printed.starts_with(&expected), "{printed}");
    let mut command = installed.command(&deadline);
    let late = command
        .arg(&onnx)
        .args(["late.neff", "1e-9"])
        .output()
        .unwrap();
    assert_eq!(late.status.code(), Some(3));
    assert!(!installed.path().join("late.neff").exists());
    let mut command = installed.command(build("throughput"));
    let printed = Answer::text(command.args(["digits.neff", "3", "0.1"]));
    let rate = printed.split_whitespace().next().unwrap();
    assert!(rate.parse::<f64>().unwrap() > 0.0, "{printed}");
}

#[test]
fn examples_build_with_the_flags_of_pkg_config() {
    let installed = Installed::new();
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", installed.path().join("lib/pkgconfig"));
    command.args(["--cflags", "--libs", "tenon"]);
    let Ok(flags) = command.output() else {
        eprintln!("skipped: pkg-config is not installed");
        return;
    };
    assert!(
        flags.status.success(),
        "{}",
        String::from_utf8_lossy(&flags.stderr)
    );
    let flags = String::from_utf8(flags.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    run_examples(&installed, |name| {
        let folder = if name == "throughput" {
            "cpp/throughput.cpp".into()
        } else {
            format!("c/{name}.c")
        };
        let source = repository().join("examples").join(folder);
        let is_cpp = source.extension() == Some(OsStr::new("cpp"));
        let program = installed.path().join(name);
        let mut command = Command::new(if is_cpp { "c++" } else { "cc" });
        command
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror"])
            .arg(&source);
        Answer::text(command.arg("-o").arg(&program).args(&flags));
        program
    });
}

#[test]
fn examples_build_with_cmake() {
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("skipped: cmake is not installed");
        return;
    }
    let installed = Installed::new();
    let build = installed.path().join("build");
    let mut command = Command::new("cmake");
    command
        .arg("-S")
        .arg(repository().join("examples/cpp"))
        .arg("-B")
        .arg(&build);
    Answer::text(command.arg(format!(
        "-DCMAKE_PREFIX_PATH={}",
        installed.path().display()
    )));
    Answer::text(Command::new("cmake").arg("--build").arg(&build));
    run_examples(&installed, |name| build.join(name));
}

#[test]
fn one_function_is_exported() {
    let bytes = std::fs::read(library()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols();
    let names: Vec<&str> = symbols
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().unwrap())
        .collect();
    assert_eq!(names, ["tenon_api"]);
    let soname = b"\0libtenon.so.1\0";
    assert!(bytes.windows(soname.len()).any(|part| part == soname));
}

/// A client without the header: ctypes, with results of onnxruntime and tensors of NumPy through DLPack.
#[test]
fn a_client_in_python_gets_the_results_of_onnxruntime() {
    let Some(python) = tenon_test_data::interpreter() else {
        return;
    };
    let installed = Installed::new();
    let mut command = installed.command(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client.py"));
    command.arg(installed.path().join("lib/libtenon.so.1"));
    command.arg(repository().join("models/small"));
    assert_eq!(Answer::text(&mut command), "done\n");
}
