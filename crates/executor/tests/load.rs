//! Programs from files: functions bound when first used, what is wrong with them told then.

mod common;

use common::{Journal, host, message, registry};
use tenon_base::{ErrorKind, Result};
use tenon_bef::{EncodeOptions, File, Module, encode, parse};
use tenon_executor::{Program, Registry, Request, Services, Value};

const TEXT: &str = r#"
    func.func @good(%a: i32) -> (i32, i32) {
      %b = "t.async.add"(%a, %a) : (i32, i32) -> i32
      %c = "t.call"(%b) {callee = @sync} : (i32) -> i32
      tfrt.return %b, %c : i32, i32
    }
    func.func @sync(%a: i32) -> i32 attributes {tfrt.sync} {
      %b = "t.add"(%a, %a) : (i32, i32) -> i32
      tfrt.return %b : i32
    }
    func.func @bad(%a: i32) -> i32 {
      %b = "t.constant"() {value = 1 : i64} : () -> i32
      %c = "t.add"(%a) : (i32) -> i32
      tfrt.return %b : i32
    }"#;

fn load(module: &Module, registry: &Registry) -> Result<Program> {
    let bytes = encode(module, &Default::default()).unwrap();
    Program::load(File::open_owned(bytes).unwrap(), registry, &Services::new())
}

#[test]
fn a_function_is_bound_when_it_is_used() {
    let journal = Journal::default();
    let program = load(&parse(TEXT, "t.mlir").unwrap(), &registry(&journal)).unwrap();
    let host = host("s", &journal);
    let good = program.handle("good").unwrap();
    assert_eq!(good.result_types(), ["i32", "i32"]);
    for _ in 0..2 {
        let results = good.execute(&Request::new(&host), vec![Value::I32(3)]);
        assert_eq!(host.wait(results), [6, 12].map(Value::I32));
    }
}

#[test]
fn what_is_wrong_with_a_function_is_told_before_it_runs() {
    let journal = Journal::default();
    let program = load(&parse(TEXT, "t.mlir").unwrap(), &registry(&journal)).unwrap();
    let error = program.function("bad").unwrap().bind().unwrap_err();
    let texts: Vec<String> = error.all().map(|error| error.alone().to_string()).collect();
    assert_eq!(
        texts,
        [
            "t.mlir:12:7: kernel 't.constant': attribute 'value' has the wrong type: \
             expected i32, found i64",
            "t.mlir:13:7: kernel 't.add': wrong number of operands: expected 2, found 1",
        ]
    );
    let bad = program.handle("bad").unwrap();
    let results = bad.execute(&Request::new(&host("s", &journal)), vec![Value::I32(1)]);
    assert_eq!(message(&results[0]), "attribute 'value' has the wrong type");
    assert_eq!(journal.take().len(), 1);
}

#[test]
fn attributes_without_types_are_refused() {
    let journal = Journal::default();
    let options = EncodeOptions {
        optional_sections: false,
    };
    let bytes = encode(&parse(TEXT, "t.mlir").unwrap(), &options).unwrap();
    let file = File::open_owned(bytes).unwrap();
    let program = Program::load(file, &registry(&journal), &Services::new()).unwrap();
    program.function("sync").unwrap().bind().unwrap();
    let error = program.function("bad").unwrap().bind().unwrap_err();
    assert_eq!(
        error.message(),
        "the file does not say of what types its attributes are"
    );
}

#[test]
fn all_unknown_kernels_are_listed() {
    let module = parse(TEXT, "t.mlir").unwrap();
    let error = load(&module, &Registry::new()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let texts: Vec<&str> = error.all().map(|error| error.message()).collect();
    let unknown = ["t.async.add", "t.call", "t.add", "t.constant"];
    assert_eq!(
        texts,
        unknown.map(|name| format!("unknown kernel name '{name}'"))
    );
}

#[test]
fn the_streams_of_the_file_are_followed() {
    let text = r#"
        func.func @main(%a: i32) -> (i32, i32) attributes {tfrt.cost_threshold = 1 : i64} {
          %b = "t.add"(%a, %a) : (i32, i32) -> i32
          %c = "t.add"(%a, %b) : (i32, i32) -> i32
          %d = "t.sum"(%a, %a, %a) : (i32, i32, i32) -> i32
          tfrt.return %c, %d : i32, i32
        }"#;
    let journal = Journal::default();
    let program = load(&parse(text, "t.mlir").unwrap(), &registry(&journal)).unwrap();
    for queue in ["s", "mstd:2,1"] {
        let host = host(queue, &journal);
        let main = program.handle("main").unwrap();
        let results = main.execute(&Request::new(&host), vec![Value::I32(3)]);
        assert_eq!(host.wait(results), [9, 9].map(Value::I32));
        host.queue().quiesce();
    }
}
