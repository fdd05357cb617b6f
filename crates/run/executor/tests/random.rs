//! Random programs: values compared with an interpreter in block order, on one thread and on
//! several; the order of kernels on one thread compared with a model of bef 2.3.

mod common;

use common::{Journal, host};
use proptest::prelude::*;
use std::collections::VecDeque;
use tenon_bef::{
    Function, FunctionBuilder, FunctionKind, Module, RegisterId, StreamOptions, Streams, Uses,
    assign_streams,
};
use tenon_executor::{
    Attr, Host, PendingResult, Program, Registry, Request, RestOperands, Services, Value, kernel,
};

/// A kernel of a random program.
#[derive(Debug, Clone)]
struct Step {
    operands: Vec<usize>,
    results: usize,
    /// Whether its (one) result is computed in a task.
    later: bool,
}

#[derive(Debug, Clone)]
struct Dag {
    arguments: usize,
    steps: Vec<Step>,
    returned: Vec<usize>,
}

/// Picks are taken modulo the number of registers.
fn dag() -> impl Strategy<Value = Dag> {
    let step = (
        prop::collection::vec(any::<usize>(), 0..4),
        0usize..4,
        any::<bool>(),
    );
    let steps = prop::collection::vec(step, 1..40);
    (
        0usize..3,
        steps,
        prop::collection::vec(any::<usize>(), 0..5),
    )
        .prop_map(|(arguments, steps, returned)| {
            let mut registers = arguments;
            let steps = steps
                .into_iter()
                .map(|(picks, results, later)| {
                    let operands = picks
                        .into_iter()
                        .filter(|_| registers > 0)
                        .map(|pick| pick % registers)
                        .collect();
                    let results = if later { 1 } else { results };
                    registers += results;
                    Step {
                        operands,
                        results,
                        later,
                    }
                })
                .collect();
            let returned = returned.into_iter().filter(|_| registers > 0);
            Dag {
                arguments,
                returned: returned.map(|pick| pick % registers).collect(),
                steps,
            }
        })
}

/// The value of result `result` of kernel `id`.
fn value(id: i64, operands: impl Iterator<Item = i64>, result: i64) -> i64 {
    let mix = |sum: i64, x: i64| (sum ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
    mix(operands.fold(id, mix), result)
}

fn function(dag: &Dag) -> Function {
    let mut function = FunctionBuilder::new("main", FunctionKind::Async);
    for _ in 0..dag.arguments {
        function.argument("i64");
    }
    for (id, step) in (0i64..).zip(&dag.steps) {
        let name = if step.later { "r.later" } else { "r.now" };
        let operands = step
            .operands
            .iter()
            .map(|&register| RegisterId(register as u32));
        let kernel = function.kernel(name).operands(operands).attribute("id", id);
        match step.results {
            0 => kernel.done(),
            1 => drop(kernel.result("i64")),
            2 => drop(kernel.results(["i64"; 2])),
            _ => drop(kernel.results(["i64"; 3])),
        }
    }
    function.returns(
        dag.returned
            .iter()
            .map(|&register| RegisterId(register as u32)),
    )
}

fn registry(journal: &Journal) -> Registry {
    let operands = |all: RestOperands| {
        let read = |index| all.read::<i64>(index).expect("every value is an i64");
        (0..all.len()).map(read).collect::<Vec<_>>()
    };
    let mut registry = Registry::new();
    let note = journal.clone();
    let later = move |id: Attr<i64>, all: RestOperands, host: &Host| -> PendingResult<i64> {
        note.note(id.0.to_string());
        let (operands, note) = (operands(all), note.clone());
        host.spawn_result(move || {
            note.note(format!("set {}", id.0));
            Ok(value(id.0, operands.into_iter(), 0))
        })
    };
    registry.register(kernel("r.later", later)).unwrap();
    registry.register(several(journal, "r.now")).unwrap();
    registry
}

/// A kernel with any number of results.
fn several(journal: &Journal, name: &'static str) -> tenon_executor::KernelDef {
    struct SumKernel(i64, Journal);
    impl tenon_executor::Kernel for SumKernel {
        fn run(&self, frame: &mut tenon_executor::Frame<'_>) -> tenon_base::Result<()> {
            self.1.note(self.0.to_string());
            let operands = (0..frame.operands()).map(|index| frame.read::<i64>(index));
            let operands: Vec<i64> = operands.collect::<tenon_base::Result<_>>()?;
            for index in 0..frame.results() {
                let result = value(self.0, operands.iter().copied(), index as i64);
                frame.set(index, Value::I64(result));
            }
            Ok(())
        }
    }
    let signature = tenon_executor::Signature {
        variadic: true,
        variadic_results: true,
        ..Default::default()
    };
    let journal = journal.clone();
    tenon_executor::KernelDef::new(name, signature, move |site| {
        Ok(Box::new(SumKernel(
            site.attributes().i64("id")?,
            journal.clone(),
        )))
    })
}

/// The values of all registers, computed in block order.
fn interpret(dag: &Dag) -> Vec<i64> {
    let mut values: Vec<i64> = (0..dag.arguments as i64).collect();
    for (id, step) in (0i64..).zip(&dag.steps) {
        let operands: Vec<i64> = step
            .operands
            .iter()
            .map(|&register| values[register])
            .collect();
        for result in 0..step.results as i64 {
            values.push(value(id, operands.iter().copied(), result));
        }
    }
    values
}

/// The order of kernels on the single-threaded queue, by the rules of bef 2.3, 2.6.
struct Model<'a> {
    dag: &'a Dag,
    function: &'a Function,
    streams: Streams,
    uses: Uses,
    waits: Vec<usize>,
    tasks: VecDeque<Queued>,
    order: Vec<String>,
}

enum Queued {
    /// Kernels of a stream.
    Run(u32, Vec<usize>),
    /// The setting of a kernel's pending result, and the stream that waits for it.
    Set(usize, u32),
}

#[derive(Default)]
struct Lists {
    stream: u32,
    inline: Vec<usize>,
    outline: Vec<usize>,
}

impl<'a> Model<'a> {
    fn order(dag: &'a Dag, function: &'a Function) -> Vec<String> {
        let mut model = Model {
            dag,
            function,
            streams: assign_streams(function, StreamOptions::default()),
            uses: Uses::of(function),
            waits: dag.steps.iter().map(|step| step.operands.len()).collect(),
            tasks: VecDeque::new(),
            order: Vec::new(),
        };
        let mut lists = Lists {
            stream: model.streams.root,
            ..Lists::default()
        };
        for &kernel in model.uses.without_operands() {
            model.ready(kernel as usize, &mut lists);
        }
        for argument in 0..dag.arguments {
            model.set(argument, &mut lists);
        }
        model.process(lists);
        while let Some(task) = model.tasks.pop_front() {
            match task {
                Queued::Run(stream, inline) => model.process(Lists {
                    stream,
                    inline,
                    outline: Vec::new(),
                }),
                Queued::Set(kernel, stream) => {
                    model.order.push(format!("set {kernel}"));
                    let register = model.function.kernels[kernel].results[0].0 as usize;
                    if !model.uses.users(RegisterId(register as u32)).is_empty() {
                        let mut lists = Lists {
                            stream,
                            ..Lists::default()
                        };
                        model.set(register, &mut lists);
                        model.process(lists);
                    }
                }
            }
        }
        model.order
    }

    fn ready(&self, kernel: usize, lists: &mut Lists) {
        if self.streams.kernels[kernel] == lists.stream {
            lists.inline.push(kernel);
        } else {
            lists.outline.push(kernel);
        }
    }

    fn set(&mut self, register: usize, lists: &mut Lists) {
        for &user in self.uses.users(RegisterId(register as u32)) {
            self.waits[user as usize] -= 1;
            if self.waits[user as usize] == 0 {
                self.ready(user as usize, lists);
            }
        }
    }

    fn process(&mut self, mut lists: Lists) {
        loop {
            let stream_of = |kernel: usize| self.streams.kernels[kernel];
            if lists.inline.is_empty() && !lists.outline.is_empty() {
                lists.stream = stream_of(lists.outline[0]);
                let keep: Vec<bool> = (lists.outline.iter())
                    .map(|&kernel| stream_of(kernel) != lists.stream)
                    .collect();
                let kept = keep.iter().filter(|keep| **keep).count();
                // As `std::partition`: leaving elements in front are exchanged with staying ones
                // behind.
                let goes = (0..kept).filter(|&index| !keep[index]);
                let stays = (kept..keep.len()).rev().filter(|&index| keep[index]);
                for (a, b) in goes.zip(stays).collect::<Vec<_>>() {
                    lists.outline.swap(a, b);
                }
                lists.inline = lists.outline.split_off(kept);
            }
            lists.outline.sort_by_key(|&kernel| stream_of(kernel));
            while let Some(&first) = lists.outline.first() {
                let stream = stream_of(first);
                let (group, rest) = std::mem::take(&mut lists.outline)
                    .into_iter()
                    .partition(|&kernel| stream_of(kernel) == stream);
                lists.outline = rest;
                self.tasks.push_back(Queued::Run(stream, group));
            }
            let Some(kernel) = lists.inline.pop() else {
                return;
            };
            self.order.push(kernel.to_string());
            if self.dag.steps[kernel].later {
                self.tasks.push_back(Queued::Set(kernel, lists.stream));
                continue;
            }
            for result in self.function.kernels[kernel].results.clone() {
                self.set(result.0 as usize, &mut lists);
            }
        }
    }
}

fn execute(dag: &Dag, queue: &str, early: bool) -> (Vec<Value>, Vec<String>) {
    let journal = Journal::default();
    let host = host(queue, &journal);
    let module = Module::from(function(dag));
    let program = Program::decode(&module, &registry(&journal), &Services::new()).unwrap();
    let main = program.handle("main").unwrap();
    let mut last = None;
    // The second execution reuses the state of the first.
    for _ in 0..2 {
        journal.take();
        let mut promises = Vec::new();
        let arguments = (0..dag.arguments as i64).map(|argument| {
            if !early {
                return Value::I64(argument);
            }
            let (value, promise) = tenon_executor::pending();
            promises.push((promise, argument));
            Value::Pending(value)
        });
        let arguments = arguments.collect();
        let results = main.execute(&Request::new(&host), arguments);
        for (promise, argument) in promises {
            promise.set(Value::I64(argument));
        }
        let results = host.wait(results);
        host.queue().quiesce();
        last = Some((results, journal.take()));
    }
    last.unwrap()
}

proptest! {
    #[test]
    fn one_thread_runs_kernels_in_the_order_of_the_model(dag in dag()) {
        let (results, order) = execute(&dag, "s", false);
        let values = interpret(&dag);
        let expected: Vec<Value> = dag.returned.iter().map(|&r| Value::I64(values[r])).collect();
        prop_assert_eq!(results, expected);
        prop_assert_eq!(order, Model::order(&dag, &function(&dag)));
    }

    #[test]
    fn several_threads_compute_the_same_values(dag in dag(), early in any::<bool>()) {
        let (results, order) = execute(&dag, "mstd:3,1", early);
        let values = interpret(&dag);
        let expected: Vec<Value> = dag.returned.iter().map(|&r| Value::I64(values[r])).collect();
        prop_assert_eq!(results, expected);
        let later = dag.steps.iter().filter(|step| step.later).count();
        prop_assert_eq!(order.len(), dag.steps.len() + later);
    }
}
