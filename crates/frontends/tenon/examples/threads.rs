//! Several threads and asynchronous calls on one model:
//! `cargo run -p tenon --example threads [MODEL.onnx]`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tenon::inputs::random_tensor;
use tenon::{Compiler, LoadOptions, Model, Outputs, Priority, Result, Tensor};

/// The inputs of request `seed`.
fn inputs(model: &Model, seed: u64) -> Result<Vec<(String, Tensor)>> {
    let inputs = model.inputs().iter();
    inputs
        .map(|input| Ok((input.name.clone(), random_tensor(&input.ty, seed)?)))
        .collect()
}

/// Runs requests `0..count` on as many threads. All share one model; each execution has its own
/// memory.
pub fn on_threads(model: &Model, count: u64) -> Result<Vec<Outputs>> {
    std::thread::scope(|scope| {
        let request = |seed| {
            let model = model.clone();
            scope.spawn(move || {
                let inputs = inputs(&model, seed)?;
                let inputs: Vec<(&str, &Tensor)> =
                    inputs.iter().map(|(name, x)| (name.as_str(), x)).collect();
                model.run(&inputs)
            })
        };
        let threads: Vec<_> = (0..count).map(request).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|outputs| outputs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Runs the same requests as futures. The even ones have a higher priority.
pub fn as_futures(model: &Model, count: u64) -> Result<Vec<Outputs>> {
    let priority = |seed| {
        if seed % 2 == 0 {
            Priority::High
        } else {
            Priority::Low
        }
    };
    let futures: Vec<_> = (0..count)
        .map(|seed| Ok(model.run_async(inputs(model, seed)?, priority(seed))))
        .collect::<Result<_>>()?;
    futures.into_iter().map(block_on).collect()
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: it parks the thread until the future is ready. In an application, tokio or
/// another executor awaits the future instead.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn main() -> Result<()> {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/small/mlp.onnx");
    let onnx = std::env::args_os().nth(1).map_or(small, PathBuf::from);
    // Memory for four concurrent executions is allocated when loading.
    let options = LoadOptions::new().in_flight(4).max_in_flight(4);
    let model = Compiler::new().compile_file(onnx)?.load(&options)?;
    let on_threads = on_threads(&model, 8)?;
    let as_futures = as_futures(&model, 8)?;
    println!(
        "{} requests on threads, {} as futures; {}",
        on_threads.len(),
        as_futures.len(),
        if on_threads == as_futures {
            "equal outputs"
        } else {
            "different outputs"
        }
    );
    Ok(())
}
