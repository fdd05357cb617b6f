//! Programs as text, and their output.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io;
use std::sync::{Arc, Mutex};
use tenon_base::Control;
use tenon_bef::Module;
use tenon_executor::queue::MultiThreaded;
use tenon_executor::{Host, HostBuilder, Program, Registry, Request, Services, Value};
use tenon_kernels::host::float_format::Scientific;

/// Every kernel there is.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for library in [tenon_kernels::host_library(), tenon_test_kernels::library()] {
        registry.register_all(library).unwrap();
    }
    for native in tenon_test_kernels::natives() {
        registry.register_native(native).unwrap();
    }
    registry
}

/// Output that is kept.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend(bytes);
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The program, loaded.
pub fn load(text: &str) -> Program {
    bind(&parse(text))
}

/// The program as a Module.
pub fn parse(text: &str) -> Module {
    tenon_bef::parse(text, "test.mlir").unwrap()
}

fn bind(module: &Module) -> Program {
    Program::decode(module, &registry(), &Services::new()).unwrap()
}

/// The error of loading the program.
pub fn refusal(text: &str) -> String {
    let program = Program::decode(&parse(text), &registry(), &Services::new());
    program.err().unwrap().to_string()
}

/// The output, diagnostics and results of `@main` of a program, on a single-threaded host.
pub fn run(text: &str) -> String {
    run_on(Host::builder(), text)
}

/// The same on one thread and on four, which must agree.
#[track_caller]
pub fn run_on_threads(text: &str) -> String {
    let single = run(text);
    let threads = MultiThreaded::new(4, 1).unwrap();
    let several = run_on(Host::builder().queue(Arc::new(threads)), text);
    assert_eq!(single, several, "with four threads");
    single
}

/// The same on another host.
pub fn run_on(host: HostBuilder, text: &str) -> String {
    run_module(host, &parse(text), true)
}

/// The same, with or without a resource context.
pub fn run_module(host: HostBuilder, module: &Module, resources: bool) -> String {
    let program = bind(module);
    let output = Output::default();
    let diagnostics = output.clone();
    let host = host
        .print(output.clone())
        .diagnostics(move |diagnostic| {
            let line = format!("error: {}\n", diagnostic.error.message());
            diagnostics.add(line.as_bytes());
        })
        .build();
    let request = Request::with(&host, Control::new(), resources);
    let main = program.handle("main").unwrap();
    let results = host.wait(main.execute(&request, vec![]));
    host.queue().quiesce();
    if !results.is_empty() {
        let results: Vec<String> = results.iter().map(show).collect();
        output.add(format!("returned {}\n", results.join(",")).as_bytes());
    }
    // Values print when they are destroyed.
    drop((results, request, main, program));
    output.text()
}

/// A result as the driver prints it.
fn show(value: &Value) -> String {
    match value {
        Value::I1(x) => i32::from(*x).to_string(),
        Value::I32(x) => x.to_string(),
        Value::I64(x) => x.to_string(),
        Value::F32(x) => Scientific(f64::from(*x)).to_string(),
        Value::F64(x) => Scientific(*x).to_string(),
        Value::Error(error) => format!("<<error: {}>>", error.message()),
        Value::Opaque(object) => object.type_name().to_owned(),
        other => format!("{other:?}"),
    }
}
