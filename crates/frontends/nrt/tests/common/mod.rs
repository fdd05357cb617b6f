//! Builds C programs against the library and its headers, and packages for them.
#![allow(dead_code, reason = "each test file is a separate crate")]

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tenon_compiler::{CpuNode, Options, compile_nodes};
use tenon_graph::Attributes;
use tenon_tensor::BufferMut;
pub use tenon_test_data::Answer;

/// The repository.
pub fn repository() -> PathBuf {
    tenon_test_data::repository("")
}

/// The library that was built with this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let folder = test.parent().expect("a folder");
    let library = folder.join("libnrt.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// A temporary folder with the library under its names for clients, and a folder of core locks.
pub struct TestFolder(TempDir);

impl TestFolder {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["libnrt.so", "libnrt.so.1"] {
            std::os::unix::fs::symlink(library(), folder.path().join(name)).expect("a link");
        }
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles a model of the repository into a package.
    pub fn package(&self, model: &str, name: &str) -> PathBuf {
        let compiled = tenon::Compiler::new().compile_file(repository().join(model));
        let path = self.path().join(name);
        compiled
            .expect("it compiles")
            .write(&path)
            .expect("it is written");
        path
    }

    /// A package of two subgraphs and two CPU nodes, functions of `crates/run/runtime/tests/data`:
    /// `sigmoid(second(sigmoid(first(x))))` of four floats.
    pub fn package_with_cpu_nodes(&self, first: &str, second: &str) -> PathBuf {
        let data = repository().join("crates/run/runtime/tests/data/cpu_nodes.c");
        let flags = ["-shared", "-fPIC", "-lm"];
        let library = self.build_with("cc", &[&data], "libnodes.so", &flags);
        let library = std::fs::read(library).expect("the library");
        let cpu = |name: &str, input: &str, output: &str, symbol: &str| CpuNode {
            name: name.into(),
            operator: "test.Function".into(),
            attributes: Attributes::new(),
            inputs: vec![input.into()],
            outputs: vec![output.into()],
            library: BufferMut::copy_of(&library).expect("memory").freeze(),
            symbol: symbol.into(),
        };
        let graph = "graph \"cut\" (%x: f32[4], %d: f32[4], %s: f32[4]) -> (%y, %m) {\n\
                       %m = Sigmoid(%d)\n  %y = Sigmoid(%s)\n}";
        let nodes = vec![
            cpu("first", "x", "d", first),
            cpu("second", "m", "s", second),
        ];
        let backends = tenon::backends::built_in();
        let graph = graph.parse().expect("a graph");
        let compiled = compile_nodes(graph, nodes, 1, &Options::new(&backends));
        let options = tenon::neff::WriteOptions::default();
        let path = self.path().join("cut.neff");
        let written =
            compiled
                .expect("it compiles")
                .nodes
                .write(&path, options, &tenon::Control::new());
        written.expect("it is written");
        path
    }

    /// Builds a program from the given sources with a compiler and flags.
    #[track_caller]
    pub fn build_with(
        &self,
        compiler: &str,
        sources: &[&Path],
        name: &str,
        flags: &[&str],
    ) -> PathBuf {
        let program = self.path().join(name);
        let mut command = Command::new(compiler);
        command
            .args(["-Wall", "-Werror", "-g", "-I"])
            .arg(repository().join("include"))
            .args(sources)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(self.path())
            .args(flags);
        Answer::text(&mut command);
        program
    }

    /// Builds `tests/c/NAME.c`, linked to the library.
    #[track_caller]
    pub fn build(&self, name: &str) -> PathBuf {
        let source = source(&format!("{name}.c"));
        self.build_with(
            "cc",
            &[&source],
            name,
            &["-std=c11", "-lnrt", "-pthread", "-ldl"],
        )
    }

    /// A command in this folder, with separate core locks and four cores.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("LD_LIBRARY_PATH", self.path())
            .env("TENON_CORE_LOCKS", self.path().join("locks"))
            .env("TENON_MEMLOG_FILE", self.path().join("memlog.csv"))
            .env("TENON_CORES", "4");
        for (name, _) in std::env::vars() {
            if name.starts_with("NEURON_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a program.
    pub fn run(&self, program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Answer {
        let mut command = self.command(program);
        command.args(arguments).envs(environment.iter().copied());
        Answer::of(&mut command)
    }
}

/// A source of the C tests.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}
