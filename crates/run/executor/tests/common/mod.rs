//! A small kernel library, hosts that record diagnostics, and programs from text.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{
    Attr, Chain, Frame, FunctionHandle, Host, Kernel, KernelDef, Opaque, PendingResult, Program,
    Promise, QueueSelection, Registry, Reporter, Request, RestOperands, Services, Shared,
    Signature, Value, kernel, pending, pending_result, when_all_available,
};

/// A log of events, in order.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A host on the named queue that records diagnostics.
pub fn host(queue: &str, journal: &Journal) -> Host {
    let journal = journal.clone();
    let queue: QueueSelection = queue.parse().unwrap();
    Host::builder()
        .queue(queue.start().unwrap())
        .diagnostics(move |diagnostic| {
            let place = match diagnostic.location {
                tenon_bef::KernelLocation::FileLineCol { file, line, .. } => {
                    format!("{file}:{line}")
                }
                other => format!("{other:?}"),
            };
            journal.note(format!("{place}: {}", diagnostic.error.message()));
        })
        .build()
}

/// A value that records when it is dropped.
pub struct DropLogged(pub &'static str, pub Journal);

impl Opaque for DropLogged {
    const TYPE: &'static str = "!t.noted";
}

impl Drop for DropLogged {
    fn drop(&mut self) {
        self.1.note(format!("drop {}", self.0));
    }
}

pub fn failure(message: &str) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}

pub fn registry(journal: &Journal) -> Registry {
    let mut registry = Registry::new();
    let mut add = |def| registry.register(def).unwrap();
    let note = journal.clone();
    add(kernel("t.constant", |value: Attr<i32>| value.0));
    add(kernel("t.add", |a: i32, b: i32| a.wrapping_add(b)));
    add(kernel("t.less", |a: i32, b: i32| a < b));
    add(kernel("t.sum", |all: RestOperands| -> Result<i32> {
        (0..all.len()).map(|index| all.read::<i32>(index)).sum()
    }));
    add(kernel("t.two", |a: i32| (a, a + 1)));
    add(kernel("t.chain", || Chain));
    add(kernel("t.merge", |_: RestOperands| Chain));
    add(kernel("t.note", move |x: i32, _: Chain| {
        note.note(x.to_string());
        Chain
    }));
    add(kernel("t.fail", || -> Result<i32> {
        Err(failure("something bad happened"))
    }));
    add(kernel("t.fail.chain", |_: Chain| -> Result<Chain> {
        Err(failure("something worse happened"))
    }));
    add(kernel("t.quiet", |x: i32| {
        Value::error(failure(&format!("quiet {x}")))
    }));
    add(kernel("t.cancel", |_: Chain, request: &Request| {
        request.cancel();
        Chain
    }));
    add(kernel("t.async.add", |a: i32, b: i32, host: &Host| {
        host.spawn_result(move || Ok(a.wrapping_add(b)))
    }));
    add(kernel(
        "t.async.fail",
        |x: i32, reporter: Reporter| -> PendingResult<i32> {
            let (value, promise) = pending_result();
            let host = reporter.host().clone();
            host.spawn(move || {
                promise.set(match x {
                    0 => Value::I32(0),
                    _ => reporter.report(failure("something bad happened asynchronously")),
                });
            });
            value
        },
    ));
    let three = Signature {
        results: vec!["i32"; 3],
        ..Signature::default()
    };
    add(KernelDef::new("t.partial", three, |_| {
        Ok(Box::new(Partial))
    }));
    let note = journal.clone();
    add(kernel("t.made", move || DropLogged("made", note.clone())));
    add(kernel("t.look", |noted: &DropLogged, _: Chain| {
        noted.1.note(format!("look {}", noted.0));
        Chain
    }));
    add(kernel("t.share", |noted: Shared<DropLogged>| {
        (noted.clone(), noted)
    }));
    add(kernel(
        "t.call",
        |callee: FunctionHandle, arguments: RestOperands, request: &Request| {
            callee.execute(request, arguments.iter().cloned().collect())
        },
    ));
    // Calls one of two functions.
    let branch = |condition: bool,
                  yes: FunctionHandle,
                  no: FunctionHandle,
                  arguments: RestOperands,
                  request: &Request| {
        let callee = if condition { yes } else { no };
        callee.execute(request, arguments.iter().cloned().collect())
    };
    add(kernel("t.branch", branch));
    // Applies a function `count` times, each time to its last result.
    let repeat = |count: i32, first: i32, body: FunctionHandle, request: &Request| {
        let (value, promise) = pending_result::<i32>();
        repeat(body, request.clone(), count, Value::I32(first), promise);
        value
    };
    add(kernel("t.repeat", repeat));
    // Calls a function with pending arguments.
    add(kernel(
        "t.call.early",
        |callee: FunctionHandle, a: RestOperands, request: &Request| {
            let arguments = a.iter().map(|value| {
                let ((early, promise), value) = (pending(), value.clone());
                request.host().spawn(move || promise.set(value));
                Value::Pending(early)
            });
            callee.execute(request, arguments.collect())
        },
    ));
    // Calls a function in a task.
    add(kernel(
        "t.do",
        |callee: FunctionHandle, a: RestOperands, request: &Request| {
            let (values, promises): (Vec<Value>, Vec<_>) = (0..callee.result_types().len())
                .map(|_| {
                    let (value, promise) = pending();
                    (Value::Pending(value), promise)
                })
                .unzip();
            let (arguments, request) = (a.iter().cloned().collect(), request.clone());
            request.clone().host().spawn(move || {
                let results = callee.execute(&request, arguments);
                promises
                    .into_iter()
                    .zip(results)
                    .for_each(|(promise, value)| promise.set(value));
            });
            values
        },
    ));
    add(kernel(
        "t.when.all",
        |callee: FunctionHandle, a: RestOperands, request: &Request| {
            let results = callee.execute(request, a.iter().cloned().collect());
            let (value, promise) = pending_result::<Chain>();
            when_all_available(&results, move || promise.set(Value::Chain));
            value
        },
    ));
    registry
        .register_native(kernel("native.add", |a: i32, b: i32| a.wrapping_add(b)))
        .unwrap();
    registry
        .register_native(kernel("native.fail", |_: i32| -> Result<i32> {
            Err(failure("native trouble"))
        }))
        .unwrap();
    registry
}

/// Continues directly while results are available, and by a callback otherwise.
fn repeat(body: FunctionHandle, request: Request, count: i32, first: Value, promise: Promise) {
    let mut value = first;
    for left in (0..count).rev() {
        value = body.execute(&request, vec![value]).remove(0).resolved();
        if let Value::Pending(pending) = value {
            let then = move |value: &Value| repeat(body, request, left, value.clone(), promise);
            return pending.when_available(then);
        }
    }
    promise.set(value);
}

/// Sets one result, makes another pending, leaves the third unset, and fails.
struct Partial;

impl Kernel for Partial {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let (value, promise) = pending();
        frame.set(0, Value::I32(1));
        frame.set(2, Value::Pending(value));
        promise_later(frame.host(), promise);
        Err(failure("something bad happened"))
    }
}

fn promise_later(host: &Host, promise: Promise) {
    host.spawn(move || promise.set(Value::I32(3)));
}

/// The program of a text; a problem fails the test.
pub fn program(text: &str, journal: &Journal) -> Program {
    let module = tenon_bef::parse(text, "t.mlir").unwrap_or_else(|error| panic!("{error}"));
    let program = Program::decode(&module, &registry(journal), &Services::new());
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// Executes `main`, waits for its results and then for everything else.
pub fn run(text: &str, queue: &str) -> (Vec<Value>, Vec<String>) {
    let journal = Journal::default();
    let program = program(text, &journal);
    let host = host(queue, &journal);
    let request = Request::new(&host);
    let results = program.handle("main").unwrap().execute(&request, vec![]);
    let results = host.wait(results);
    host.queue().quiesce();
    (results, journal.take())
}

/// The message of an error value.
pub fn message(value: &Value) -> &str {
    match value {
        Value::Error(error) => error.message(),
        other => panic!("not an error: {other:?}"),
    }
}
