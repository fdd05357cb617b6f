//! A host program without an end stops when its Control is cancelled.

use std::time::{Duration, Instant};
use tenon::host_program::{ExecOptions, Kernels, Log, ProgramInput, execute, kernels};
use tenon::{Control, ErrorKind};

const ENDLESS: &str = "\
func.func private @body(%i: i32) -> (i32, i1) {
  %t = tfrt.constant.i1 true
  tfrt.return %i, %t : i32, i1
}
func.func @main() -> i32 {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 0
  %r = tfrt.while %t @body(%n) parallel_iterations(1) : (i32) -> (i32)
  tfrt.return %r : i32
}
";

#[test]
fn a_program_is_cancelled_from_another_thread() {
    let control = Control::new();
    let canceller = control.clone();
    let waiter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        canceller.cancel();
    });
    let options = ExecOptions::new().control(control);
    let registry = kernels(Kernels::All).unwrap();
    let input = ProgramInput::new("p.mlir", ENDLESS.as_bytes().to_vec());
    let begun = Instant::now();
    let log = Log::new(|_, _| ());
    let stopped = execute(&input, &registry, &options, std::io::sink(), log);
    waiter.join().unwrap();
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(30));
}
