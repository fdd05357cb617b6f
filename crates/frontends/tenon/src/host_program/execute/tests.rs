//! Runs of small programs with kernels for the test.

use super::*;
use std::sync::Mutex;
use tenon_executor::{Attr, Chain, kernel};

/// The output of a run.
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
        kernel("t.keep", || {
            // Far more than other tests drop meanwhile.
            for _ in 0..1000 {
                std::mem::forget(tenon_executor::pending());
            }
            1
        }),
    ];
    registry.register_all(kernels).unwrap();
    registry
}

/// Runs a text; returns its output and the result.
fn run(text: &str, change: impl FnOnce(&mut ExecOptions)) -> (String, Result<Execution>) {
    run_input(&ProgramInput::new("f.mlir", text.into()), change)
}

/// A text as BEF, with its optional sections or without.
fn bef(text: &str, optional_sections: bool) -> ProgramInput {
    let options = tenon_bef::EncodeOptions { optional_sections };
    let bytes = tenon_bef::encode(&parse(text, "f.mlir").unwrap(), &options).unwrap();
    ProgramInput::new("f.bef", bytes)
}

fn run_input(
    input: &ProgramInput,
    change: impl FnOnce(&mut ExecOptions),
) -> (String, Result<Execution>) {
    let mut options = ExecOptions::new().allocator(AllocatorKind::LeakCheck);
    change(&mut options);
    let printed = Printed::default();
    let log = Log::new(|_, _| ());
    let done = execute(input, &registry(), &options, printed.clone(), log);
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
    for optional_sections in [true, false] {
        let (printed, done) = run_input(&bef(TWO, optional_sections), |o| {
            o.driver = Driver::CodeSize;
        });
        assert!(done.unwrap().succeeded);
        assert_eq!(printed, expected);
    }
}

#[test]
fn a_function_of_bef_is_looked_at_when_it_runs() {
    let text = TWO.replace("{value = 1 : i32}", "{value = 1 : i64}");
    let (printed, done) = run(&text, |_| ());
    assert_eq!(printed, ANNOUNCED);
    assert!(!done.unwrap().succeeded);
    let (printed, done) = run_input(&bef(&text, true), |o| o.functions = vec!["two".into()]);
    assert!(done.unwrap().succeeded);
    assert!(printed.ends_with("--- Running 'two':\nsaid\n"));
    let (printed, done) = run_input(&bef(&text, true), |_| ());
    let wrong = "attribute 'value' has the wrong type: expected i32, found i64";
    assert!(
        printed.contains(&format!("'one' returned <<error: {wrong}>>")),
        "{printed}"
    );
    assert!(printed.ends_with("--- Running 'two':\nsaid\n"), "{printed}");
    let said = done.unwrap().diagnostics[0].to_string();
    assert!(
        said.starts_with("f.mlir:2:3: error: unexpected error: runtime error: "),
        "{said}"
    );
    assert!(said.contains(wrong), "{said}");
}

/// Offsets beyond 4 GiB are correct; an unknown section is skipped, not read.
#[test]
fn a_file_of_more_than_4_gib_runs() {
    use std::io::{Seek, SeekFrom};
    let bef = bef(TWO, true);
    let (magic, sections) = bef.bytes().split_at(3);
    // An unknown section: its id, twice its length in groups of 7 bits, then a hole of the sparse file.
    // With these 6 bytes the other sections stay aligned to 8.
    let length: u64 = (5 << 30) + 2;
    let groups = (0..5)
        .rev()
        .map(|group| ((2 * length) >> (7 * group)) as u8 & 0x7F);
    let mut header = [&[99], &groups.collect::<Vec<u8>>()[..]].concat();
    header[1..5].iter_mut().for_each(|group| *group |= 0x80);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bef");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(magic).unwrap();
    file.write_all(&header).unwrap();
    file.seek(SeekFrom::Current(length as i64)).unwrap();
    file.write_all(sections).unwrap();
    let (printed, done) = run_input(&ProgramInput::open(&path).unwrap(), |_| ());
    assert!(done.unwrap().succeeded);
    assert!(printed.contains("'one' returned 1\n"), "{printed}");
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
        o.init_function = Some("absent".into());
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
fn unknown_kernels_may_be_expected() {
    let text = "func.func @f() {\n  \"t.unknown\"() : () -> ()EXPECTED\n  tfrt.return\n}\n";
    let expected = text.replace(
        "EXPECTED",
        " // expected-error {{unknown kernel name 't.unknown'}}",
    );
    assert_eq!(succeeded(&expected, |_| ()), ANNOUNCED);
    let (_, done) = run(&text.replace("EXPECTED", ""), |_| ());
    assert!(!done.unwrap().succeeded);
    let (_, done) = run_input(&bef(&text.replace("EXPECTED", ""), true), |_| ());
    let said = done.unwrap().diagnostics[0].to_string();
    let first =
        "f.mlir:2:3: error: unexpected error: runtime error: unknown kernel name 't.unknown'";
    assert!(said.starts_with(first), "{said}");
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
    let events = json["traceEvents"].as_array().unwrap();
    let scopes = events.iter().filter(|event| event["ph"] == "X");
    assert_eq!(scopes.count(), 3);
}

#[test]
#[cfg(debug_assertions)]
fn a_leaked_value_is_reported_if_leaks_are_checked() {
    let text = "func.func @f() {\n  %0 = \"t.keep\"() : () -> i32\n  tfrt.return\n}\n";
    // Other tests run concurrently and make values too, so that the counts are unknown.
    let (printed, done) = run(text, |options| options.leaked_values = true);
    let error = done.unwrap_err().to_string();
    assert!(printed.ends_with("--- Running 'f':\n"), "{printed}");
    assert!(
        error.starts_with("Evaluation of function 'f' leaked "),
        "{error}"
    );
    succeeded(text, |_| ());
}
