//! The process of one model: it loads the model and executes what the server sends.

use crate::executor::{Interface, run};
use crate::model_package::{ExecutionOptions, load_model};
use crate::port::Port;
use crate::worker_message::{
    TensorHead, WorkerAnswer, WorkerRequest, problems, receive, receive_tensors, send,
};
use std::collections::HashMap;
use std::io::{BufReader, BufWriter};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenon::backends::Runtime;
use tenon::{Control, Error, ErrorKind, Model, Result, Tensor};

/// The time for executions at the end; then the process ends without them.
const END_TIME: Duration = Duration::from_secs(5);

/// An execution.
struct Job {
    id: u64,
    runs: Vec<Vec<Tensor>>,
    control: Control,
}

/// The executions that have not ended, by their ids.
type Controls = Arc<Mutex<HashMap<u64, Control>>>;

/// Loads the model that the server names and executes its requests, until the server closes the socket. Shared libraries
/// of the package run if `TENON_ALLOW_NATIVE_NODES` is 1.
///
/// # Errors
/// A socket that fails, a thread that cannot be started.
pub fn serve_worker(stream: UnixStream, runtime: Option<Runtime>) -> Result<()> {
    let failed = |error| Error::io("the socket of the worker", "use", error);
    let mut requests = BufReader::new(stream.try_clone().map_err(failed)?);
    let WorkerRequest::Load {
        path,
        threads,
        instances,
    } = receive(&mut requests).map_err(failed)?
    else {
        let text = "the first message of the server loads no model";
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    };
    let options = ExecutionOptions {
        threads,
        instances,
        native_nodes: tenon::LoadOptions::new().native_nodes,
        runtime,
    };
    let answers = Arc::new(Mutex::new(BufWriter::new(stream)));
    let answer = |message: &WorkerAnswer, tensors: &[&Tensor]| {
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut *answers, message, tensors)
    };
    let loaded = load_model(&path, &options, &Control::new()).and_then(|(model, bytes)| {
        let ports = model.inputs().iter().chain(model.outputs()).map(Port::of);
        let unknown: Vec<Error> = ports.filter_map(|port| port.err()).collect();
        Error::from_all(unknown).map_or(Ok((model, bytes)), Err)
    });
    let (model, bytes) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let problems = problems(&error);
            return answer(&WorkerAnswer::Failed { id: 0, problems }, &[]).map_err(failed);
        }
    };
    let interface = (&Interface::of(&model)).into();
    answer(&WorkerAnswer::Loaded { interface, bytes }, &[]).map_err(failed)?;
    let controls = Controls::default();
    let (sender, jobs) = channel();
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for _ in 0..instances.max(1) {
            scope.spawn(|| execute(&model, &jobs, &controls, &answer));
        }
        while let Ok(request) = receive::<WorkerRequest>(&mut requests) {
            match request {
                WorkerRequest::Run { id, runs } => {
                    let Ok(runs) = receive_tensors(&mut requests, &runs) else {
                        break;
                    };
                    let control = Control::new();
                    lock(&controls).insert(id, control.clone());
                    // The threads that receive it live as long as this one.
                    let _ = sender.send(Job { id, runs, control });
                }
                WorkerRequest::Cancel { id } => {
                    if let Some(control) = lock(&controls).get(&id) {
                        control.cancel();
                    }
                }
                WorkerRequest::Load { .. } => break,
            }
        }
        // The server has ended, or it has no more use for the model.
        for control in lock(&controls).values() {
            control.cancel();
        }
        drop(sender);
        end_later();
    });
    Ok(())
}

/// Executes jobs until there are no more.
fn execute(
    model: &Model,
    jobs: &Mutex<Receiver<Job>>,
    controls: &Controls,
    answer: &(impl Fn(&WorkerAnswer, &[&Tensor]) -> std::io::Result<()> + Sync),
) {
    loop {
        let job = {
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.recv()
        };
        let Ok(Job { id, runs, control }) = job else {
            return;
        };
        let inputs: Vec<&[Tensor]> = runs.iter().map(Vec::as_slice).collect();
        let result = run(model, &inputs, &control);
        lock(controls).remove(&id);
        // A server that is gone closes the socket, which the other thread notices.
        let _ = match result {
            Ok(outputs) => {
                let message = WorkerAnswer::Done {
                    id,
                    runs: outputs.iter().map(|run| TensorHead::of(run)).collect(),
                };
                answer(&message, &outputs.iter().flatten().collect::<Vec<_>>())
            }
            Err(error) => {
                let problems = problems(&error);
                answer(&WorkerAnswer::Failed { id, problems }, &[])
            }
        };
    }
}

/// Ends the process after a while, even if native code does not return.
fn end_later() {
    std::thread::spawn(|| {
        std::thread::sleep(END_TIME);
        std::process::exit(1);
    });
}

fn lock(controls: &Controls) -> std::sync::MutexGuard<'_, HashMap<u64, Control>> {
    controls.lock().unwrap_or_else(PoisonError::into_inner)
}
