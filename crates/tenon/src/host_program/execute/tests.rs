//! Runs of small programs with kernels of our own.

use super::*;
use std::sync::Mutex;
use tenon_executor::{Attr, Chain, kernel};

/// What a run printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let kernels = [
        kernel("t.number", |value: Attr<i32>| value.0),
        kernel("t.say", |host: &Host| {
            host.print(format_args!("said\n"));
            Chain
        }),
        kernel("t.fail", || -> Result<i32> {
            Err(Error::new(ErrorKind::ExecutionFailed, "no luck"))
        }),
        kernel("t.leak", |host: &Host| -> Result<()> {
            host.allocate(4)?.leak();
            Ok(())
        }),
    ];
    registry.register_all(kernels).unwrap();
    registry
}

/// Runs a text; what it printed, and what became of it.
fn run(text: &str, change: impl FnOnce(&mut ExecOptions)) -> (String, Result<Execution>) {
    let mut options = ExecOptions {
        work_queue: "s".into(),
        allocator: AllocatorKind::LeakCheck,
        ..ExecOptions::default()
    };
    change(&mut options);
    let printed = Printed::default();
    let log = Log::new(|_, _| ());
    let input = ProgramInput::new("f.mlir", text.into());
    let done = execute(&input, &registry(), &options, printed.clone(), log);
    let printed = printed.0.lock().unwrap().clone();
    (String::from_utf8(printed).unwrap(), done)
}

fn succeeded(text: &str, change: impl FnOnce(&mut ExecOptions)) -> String {
    let (printed, done) = run(text, change);
    let done = done.unwrap();
    assert_eq!(done.diagnostics, []);
    assert!(done.succeeded);
    printed
}

const ANNOUNCED: &str =
    "Choosing memory leak check allocator.\nChoosing single-threaded work queue.\n";

const TWO: &str = r#"func.func @one() -> i32 {
  %0 = "t.number"() {value = 1 : i32} : () -> i32
  tfrt.return %0 : i32
}
func.func @takes(%a: i32) {
  tfrt.return
}
func.func @two() {
  %0 = "t.say"() : () -> !tfrt.chain
  tfrt.return
}
"#;

#[test]
fn all_functions_run_in_order() {
    let expected = "--- Running 'one':\n'one' returned 1\n\
                    --- Not running 'takes' because it has arguments.\n--- Running 'two':\nsaid\n";
    assert_eq!(succeeded(TWO, |_| ()), format!("{ANNOUNCED}{expected}"));
    let bytes = tenon_bef::encode(
        &parse(TWO, "f.mlir").unwrap(),
        &tenon_bef::EncodeOptions::default(),
    );
    let input = ProgramInput::new("f.bef", bytes.unwrap());
    let printed = Printed::default();
    let options = ExecOptions {
        work_queue: "s".into(),
        driver: Driver::CodeSize,
        ..ExecOptions::default()
    };
    execute(
        &input,
        &registry(),
        &options,
        printed.clone(),
        Log::new(|_, _| ()),
    )
    .unwrap();
    assert_eq!(*printed.0.lock().unwrap(), expected.as_bytes());
}

#[test]
fn functions_run_as_they_are_chosen() {
    let two = "--- Running 'two':\nsaid\n";
    let one = "--- Running 'one':\n'one' returned 1\n";
    let chosen = succeeded(TWO, |o| o.functions = vec!["two".into(), "one".into()]);
    assert_eq!(chosen, format!("{ANNOUNCED}{two}{one}"));
    let init = succeeded(TWO, |o| {
        o.functions = vec!["two".into(), "one".into()];
        o.init_function = Some("one".into());
    });
    assert_eq!(init, format!("{ANNOUNCED}{one}{two}"));
    let absent = succeeded(TWO, |o| {
        o.functions = vec!["two".into()];
        o.init_function = Some("nobody".into());
    });
    assert_eq!(absent, format!("{ANNOUNCED}{two}"));
    let (printed, missing) = run(TWO, |o| o.functions = vec!["two".into(), "three".into()]);
    assert_eq!(printed, ANNOUNCED);
    assert_eq!(
        missing.unwrap_err().to_string(),
        "couldn't find function three"
    );
    let (_, queue) = run(TWO, |o| o.work_queue = "x".into());
    let error = queue.unwrap_err().to_string();
    assert!(
        error.starts_with("couldn't create work queue type x"),
        "{error}"
    );
}

#[test]
fn errors_are_results_and_diagnostics() {
    let text = "func.func @f() -> i32 {\n  %0 = \"t.fail\"() : () -> i32 EXPECTED\n  \
                tfrt.return %0 : i32\n}\n";
    for sync in ["", " attributes {tfrt.sync}"] {
        let text = text.replace(" {\n", &format!("{sync} {{\n"));
        let expected = text.replace("EXPECTED", "// expected-error {{no luck}}");
        let printed = succeeded(&expected, |o| o.error_codes = true);
        assert!(
            printed.ends_with("'f' returned <<error: no luck, code: INTERNAL>>\n"),
            "{printed}"
        );
        let (_, done) = run(&text.replace("EXPECTED", ""), |_| ());
        let done = done.unwrap();
        assert!(!done.succeeded);
        let said = done.diagnostics[0].to_string();
        let first = "f.mlir:2:3: error: unexpected error: runtime error: no luck\n";
        assert!(said.starts_with(first), "{said}");
        let (_, done) = run(&text.replace("EXPECTED", ""), |o| {
            o.driver = Driver::CodeSize
        });
        assert!(
            done.unwrap().succeeded,
            "nothing is expected of the code-size driver"
        );
    }
}

#[test]
fn kernels_that_nobody_knows_may_be_expected() {
    let text = "func.func @f() {\n  \"t.who\"() : () -> ()EXPECTED\n  tfrt.return\n}\n";
    let expected = text.replace(
        "EXPECTED",
        " // expected-error {{unknown kernel name 't.who'}}",
    );
    assert_eq!(succeeded(&expected, |_| ()), ANNOUNCED);
    let (_, done) = run(&text.replace("EXPECTED", ""), |_| ());
    assert!(!done.unwrap().succeeded);
}

#[test]
fn a_leak_fails() {
    let text = "func.func @f() {\n  \"t.leak\"() : () -> ()\n  tfrt.return\n}\n";
    let (printed, done) = run(text, |_| ());
    assert!(!done.unwrap().succeeded);
    assert!(printed.ends_with("Memory leak detected: 1 alive allocations, 4 alive bytes\n"));
    succeeded(text, |o| o.allocator = AllocatorKind::Malloc);
}

#[test]
fn scopes_are_printed_last_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let printed = succeeded(TWO, |o| {
        o.print_scopes = true;
        o.trace = Some(file.clone());
    });
    assert!(printed.ends_with(
        "said\nScope:Bef Executor\nScope:Function: one\nEnd Scope\nScope:Function: two\n\
         End Scope\nEnd Scope\n"
    ));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(json["traceEvents"].as_array().unwrap().len(), 3);
}
