//! Programs from files: functions are bound, and their errors reported, on first use.

mod common;

use common::{Journal, host, message, registry};
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, Dense, EncodeOptions, File, Module, Name, encode, parse};
use tenon_executor::{
    Attr, KernelDef, Program, Registry, Request, Services, Signature, Value, kernel,
};

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
fn a_function_is_bound_on_first_use() {
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
fn all_errors_of_a_function_are_reported_before_it_runs() {
    let journal = Journal::default();
    let program = load(&parse(TEXT, "t.mlir").unwrap(), &registry(&journal)).unwrap();
    let error = program.function("bad").unwrap().bind().unwrap_err();
    let texts: Vec<String> = error
        .all()
        .map(|error| error.single().to_string())
        .collect();
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

/// The text as a file without optional sections.
fn load_untyped(text: &str, registry: &Registry) -> Program {
    let options = EncodeOptions {
        optional_sections: false,
    };
    let bytes = encode(&parse(text, "t.mlir").unwrap(), &options).unwrap();
    let file = File::open_owned(bytes).unwrap();
    Program::load(file, registry, &Services::new()).unwrap()
}

/// Kernels that take attributes of all kinds.
fn attribute_kernels() -> Registry {
    let mut registry = Registry::new();
    let all = |flag: Attr<bool>,
               list: Attr<Arc<[i64]>>,
               texts: Attr<Arc<[Name]>>,
               tensor: Attr<Arc<Dense>>,
               none: Attr<Arc<[Name]>>,
               text: Attr<Name>,
               real: Attr<f64>| {
        let lengths = texts.0.len() + tensor.0.data.len() + none.0.len() + text.0.len();
        i64::from(flag.0) + list.0.iter().sum::<i64>() + lengths as i64 + real.0 as i64
    };
    let signature = Signature {
        results: vec!["i64"],
        ..Signature::default()
    };
    let named = KernelDef::new("k.named", signature, |site| {
        site.attributes().i64("a")?;
        Err(Error::new(ErrorKind::Internal, "bound"))
    });
    let kernels = [
        kernel("k.all", all),
        kernel("k.text", |text: Attr<Name>| text.0.len() as i64),
        kernel("k.two", |a: Attr<i64>, b: Attr<i64>| a.0 + b.0),
        kernel("k.any", |_: Attr<Arc<Attribute>>| 0i64),
        named,
    ];
    registry.register_all(kernels).unwrap();
    registry
}

#[test]
fn attributes_without_types_are_what_kernels_take_them_for() {
    let text = r#"func.func @main() -> i64 {
      %a = "k.all"() {a = true, b = [1, 2], c = ["x", "yz"], d = dense<[1, 2]> : tensor<2xi32>,
                      e = [], f = "four", g = 2.5} : () -> i64
      tfrt.return %a : i64
    }"#;
    let program = load_untyped(text, &attribute_kernels());
    let host = host("s", &Journal::default());
    let main = program.handle("main").unwrap();
    let results = host.wait(main.execute(&Request::new(&host), vec![]));
    assert_eq!(results, [Value::I64(1 + 3 + 2 + 8 + 4 + 2)]);
}

#[test]
fn untyped_attributes_that_cannot_be_read_are_reported_at_load() {
    for (kernel, expected) in [
        (
            r#""k.text"() {a = 2147483647 : i32}"#,
            "a count that exceeds the section",
        ),
        (r#""k.two"() {a = 1}"#, "too few attributes"),
        (r#""k.any"() {a = 1}"#, "the file has no attribute types"),
        (r#""k.named"() {a = 1}"#, "the file has no attribute types"),
    ] {
        let text = format!(
            "func.func @main() -> i64 {{\n  %a = {kernel} : () -> i64\n  tfrt.return %a : i64\n}}"
        );
        let program = load_untyped(&text, &attribute_kernels());
        let error = program.handle("main").unwrap().bind().unwrap_err();
        assert_eq!(error.message(), expected);
        assert_eq!(
            (error.location().line, error.location().column),
            (Some(2), Some(3))
        );
    }
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
