//! Benchmarks of programs: the cost of a call, an iteration and a block of a loop, which
//! control flow adds to the kernels.

use std::sync::Arc;
use tenon_executor::queue::{MultiThreaded, SingleThreaded, WorkQueue};
use tenon_executor::{FunctionHandle, Host, Program, Registry, Request, Services, Value};

const PROGRAMS: &str = "
func.func @one_kernel(%x: i32) -> i32 {
  %r = tfrt.add.i32 %x, %x
  tfrt.return %r : i32
}
func.func @two_kernels(%x: i32) -> i32 {
  %y = tfrt.add.i32 %x, %x
  %r = tfrt.add.i32 %y, %x
  tfrt.return %r : i32
}
func.func @repeat(%n: i32) -> i32 {
  %r = tfrt.repeat.i32 %n, %n : i32 {
    %s = tfrt.add.i32 %n, %n
    tfrt.return %s : i32
  }
  tfrt.return %r : i32
}
func.func @fibonacci(%n: i32) -> i32 {
  %one = tfrt.constant.i32 1
  %small = \"tfrt.lessequal.i32\"(%n, %one) : (i32, i32) -> i1
  %r = tfrt.if %small, %n : (i32) -> (i32) {
    tfrt.return %n : i32
  } else {
    %one = tfrt.constant.i32 1
    %two = tfrt.constant.i32 2
    %a = \"tfrt.minus.i32\"(%n, %one) : (i32, i32) -> i32
    %b = \"tfrt.minus.i32\"(%n, %two) : (i32, i32) -> i32
    %x = tfrt.call @fibonacci(%a) : (i32) -> i32
    %y = tfrt.call @fibonacci(%b) : (i32) -> i32
    %s = tfrt.add.i32 %x, %y
    tfrt.return %s : i32
  }
  tfrt.return %r : i32
}
func.func @block(%start: i32, %end: i32) -> !tfrt.chain {
  %n = tfrt.add.i32 %start, %end
  %done = tfrt.merge.chains %n : i32
  tfrt.return %done : !tfrt.chain
}
func.func @parallel(%n: i32) -> !tfrt.chain {
  %zero = tfrt.constant.i32 0
  %one = tfrt.constant.i32 1
  %done = tfrt.parallel_call.i32 %zero to %n fixed %one @block()
  tfrt.return %done : !tfrt.chain
}
";

/// A function of the programs, and a host to run it on.
struct Bench {
    function: FunctionHandle,
    host: Host,
}

impl Bench {
    fn new(function: &str, queue: Arc<dyn WorkQueue>) -> Self {
        let module = tenon_bef::parse(PROGRAMS, "programs.mlir").unwrap();
        let mut registry = Registry::new();
        registry
            .register_all(tenon_kernels::host_library())
            .unwrap();
        let program = Program::decode(&module, &registry, &Services::new()).unwrap();
        Self {
            function: program.handle(function).unwrap(),
            host: Host::builder().queue(queue).build(),
        }
    }

    fn run(&self, argument: i32) -> Vec<Value> {
        let request = Request::new(&self.host);
        let results = self.function.execute(&request, vec![Value::I32(argument)]);
        self.host.wait(results)
    }
}

fn main() {
    divan::main();
}

#[divan::bench(args = ["one_kernel", "two_kernels"])]
fn call(bencher: divan::Bencher<'_, '_>, function: &str) {
    let bench = Bench::new(function, Arc::new(SingleThreaded::new()));
    bencher.bench(|| bench.run(3));
}

/// An iteration: its region has one kernel.
#[divan::bench]
fn repeat_100_000_times(bencher: divan::Bencher<'_, '_>) {
    let bench = Bench::new("repeat", Arc::new(SingleThreaded::new()));
    let count = divan::counter::ItemsCount::new(100_000u32);
    bencher.counter(count).bench(|| bench.run(100_000));
}

/// By recursion: 1973 calls of a function and as many of a region.
#[divan::bench]
fn fibonacci_of_15(bencher: divan::Bencher<'_, '_>) {
    let bench = Bench::new("fibonacci", Arc::new(SingleThreaded::new()));
    bencher.bench(|| bench.run(15));
}

/// A block has two kernels; on one thread and on two.
#[divan::bench(args = [1, 2])]
fn parallel_call_of_1000_blocks(bencher: divan::Bencher<'_, '_>, threads: usize) {
    let queue: Arc<dyn WorkQueue> = match threads {
        1 => Arc::new(SingleThreaded::new()),
        threads => Arc::new(MultiThreaded::new(threads, 1).unwrap()),
    };
    let bench = Bench::new("parallel", queue);
    let count = divan::counter::ItemsCount::new(1000u32);
    bencher.counter(count).bench(|| bench.run(1000));
}
