//! A model in a separate process, whose end does not end the server. It is started again for the next request.

use crate::executor::Interface;
use crate::worker_message::{
    TensorHead, WorkerAnswer, WorkerRequest, error_of, receive, receive_tensors, send,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon::{Control, Error, ErrorKind, Location, Result, Tensor};

/// How a worker process is started: a program that calls [`crate::serve_worker`] with its standard input, a socket.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A model in a worker process.
pub struct Worker {
    command: WorkerCommand,
    load: LoadedFile,
    interface: Interface,
    current: Mutex<CurrentProcess>,
    restarts: AtomicU64,
}

/// The last process, and when it or one after it was started; the start may have failed.
struct CurrentProcess {
    process: Arc<WorkerProcess>,
    started: Instant,
}

/// What a worker process loads.
#[derive(Debug, Clone)]
pub struct LoadedFile {
    /// The file of the model.
    pub path: PathBuf,
    /// The most threads of one execution.
    pub threads: Option<usize>,
    /// Concurrent executions.
    pub instances: usize,
}

/// A process, and the executions that wait for it.
struct WorkerProcess {
    sender: Mutex<BufWriter<UnixStream>>,
    /// The same socket, to close it while another thread sends.
    stream: UnixStream,
    waiting: Mutex<PendingAnswers>,
    next: AtomicU64,
}

#[derive(Default)]
struct PendingAnswers {
    answers: HashMap<u64, SyncSender<Answer>>,
    /// How the process has ended.
    end: Option<String>,
}

/// What the worker answers to an execution.
type Answer = Result<Vec<Vec<Tensor>>>;

/// What it answers first: the interface and the size of the package.
type Loaded = Result<(Interface, u64)>;

/// The time between two looks whether an execution is cancelled.
const LOOK: Duration = Duration::from_millis(5);

/// The time for the end of an execution that was cancelled; then the process is ended.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// The least time between two starts, so that a model that fails at once does not take all CPUs.
const RESTART_TIME: Duration = Duration::from_secs(1);

impl Worker {
    /// Starts the process of a model; also returns the interface of the model and the size of its package.
    ///
    /// # Errors
    /// A process that cannot be started or ends; a model that it cannot load.
    pub fn start(
        command: WorkerCommand,
        load: LoadedFile,
        control: &Control,
    ) -> Result<(Self, Interface, u64)> {
        let started = Instant::now();
        let (process, interface, bytes) = WorkerProcess::start(&command, &load, control)?;
        let worker = Self {
            command,
            load,
            interface: interface.clone(),
            current: Mutex::new(CurrentProcess { process, started }),
            restarts: AtomicU64::new(0),
        };
        Ok((worker, interface, bytes))
    }

    /// How often the process was started again.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// The outputs of some runs, which are joined.
    ///
    /// # Errors
    /// What the execution fails with; the end of the process.
    pub fn run(&self, runs: &[&[Tensor]], control: &Control) -> Answer {
        self.running(control)?.run(runs, control)
    }

    /// The process; a new one if it has ended.
    fn running(&self, control: &Control) -> Result<Arc<WorkerProcess>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(end) = current.process.waiting().end.clone() else {
            return Ok(current.process.clone());
        };
        if current.started.elapsed() < RESTART_TIME {
            let text = format!("{end}; it is started again in {} s", RESTART_TIME.as_secs());
            return Err(Error::new(ErrorKind::Closed, text));
        }
        self.restarts.fetch_add(1, Ordering::Relaxed);
        current.started = Instant::now();
        let (process, interface, _) = WorkerProcess::start(&self.command, &self.load, control)?;
        current.process = process.clone();
        if interface != self.interface {
            // The file was replaced; the server will load it as a new model.
            process.end();
            let text = "the file of the model has changed since it was loaded";
            return Err(Error::new(ErrorKind::Closed, text));
        }
        Ok(process)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let current = self.current.get_mut();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        current.process.end();
    }
}

impl WorkerProcess {
    fn start(
        command: &WorkerCommand,
        load: &LoadedFile,
        control: &Control,
    ) -> Result<(Arc<Self>, Interface, u64)> {
        let failed = |error| Error::io("a worker process", "start", error);
        let (stream, other) = UnixStream::pair().map_err(failed)?;
        // A process that reads nothing must not hold the thread that sends.
        stream
            .set_write_timeout(Some(CANCEL_TIME))
            .map_err(failed)?;
        let receiver = stream.try_clone().map_err(failed)?;
        let sender = stream.try_clone().map_err(failed)?;
        let child = spawn(command, other.into()).map_err(failed)?;
        let process = Arc::new(Self {
            sender: Mutex::new(BufWriter::new(sender)),
            stream,
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
        });
        let (sender, loaded) = sync_channel(1);
        let reader = process.clone();
        let thread = std::thread::Builder::new().name("tenon-worker".into());
        let spawned = thread.spawn(move || reader.receive(receiver, child, &sender));
        if let Err(error) = spawned {
            process.end();
            return Err(failed(error));
        }
        let LoadedFile {
            path,
            threads,
            instances,
        } = load.clone();
        let message = WorkerRequest::Load {
            path: std::path::absolute(&path).unwrap_or(path),
            threads,
            instances,
        };
        process.send(&message, &[]);
        match process.wait(&loaded, control, || process.kill()) {
            Ok((interface, bytes)) => Ok((process, interface, bytes)),
            Err(error) => {
                process.end();
                Err(error.at(Location::file(&load.path)))
            }
        }
    }

    fn run(&self, runs: &[&[Tensor]], control: &Control) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = sync_channel(1);
        {
            let mut waiting = self.waiting();
            if let Some(end) = &waiting.end {
                return Err(ended(end));
            }
            waiting.answers.insert(id, sender);
        }
        let message = WorkerRequest::Run {
            id,
            runs: runs.iter().map(|inputs| TensorHead::of(inputs)).collect(),
        };
        let tensors: Vec<&Tensor> = runs.iter().copied().flatten().collect();
        self.send(&message, &tensors);
        let cancel = || self.send(&WorkerRequest::Cancel { id }, &[]);
        let answer = self.wait(&answer, control, cancel);
        self.waiting().answers.remove(&id);
        answer
    }

    /// Waits for an answer. `cancel` is called once when the control says so.
    fn wait<T>(
        &self,
        answer: &Receiver<Result<T>>,
        control: &Control,
        cancel: impl FnOnce(),
    ) -> Result<T> {
        let mut cancel = Some(cancel);
        let mut cancelled = None;
        loop {
            let answer = match answer.recv_timeout(LOOK) {
                Ok(answer) => Some(answer),
                Err(RecvTimeoutError::Disconnected) => {
                    let end = self.waiting().end.clone().unwrap_or_default();
                    Some(Err(ended(&end)))
                }
                Err(RecvTimeoutError::Timeout) => None,
            };
            if let Some(answer) = answer {
                return cancelled.map_or(answer, |(_, error)| Err(error));
            }
            if let Err(error) = control.check()
                && let Some(cancel) = cancel.take()
            {
                cancelled = Some((Instant::now(), error));
                cancel();
            }
            if let Some((since, _)) = &cancelled
                && since.elapsed() > CANCEL_TIME
            {
                self.kill();
            }
        }
    }

    /// Sends a message. A process that does not receive it is ended, which those that wait for it notice.
    fn send(&self, message: &WorkerRequest, tensors: &[&Tensor]) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if send(&mut *sender, message, tensors).is_err() {
            self.kill();
        }
    }

    /// Receives answers until the process ends.
    fn receive(&self, stream: UnixStream, mut child: Child, loaded: &SyncSender<Loaded>) {
        let mut stream = BufReader::new(stream);
        // What is no answer ends the process: nothing after it can be trusted.
        while self.receive_one(&mut stream, loaded).is_ok() {}
        let _ = stream.get_ref().shutdown(Shutdown::Both);
        let _ = child.kill();
        let end = match child.wait() {
            Ok(status) => description(status),
            Err(error) => format!("the process of the model has ended: {error}"),
        };
        let mut waiting = self.waiting();
        for (_, sender) in waiting.answers.drain() {
            let _ = sender.send(Err(ended(&end)));
        }
        waiting.end = Some(end);
    }

    fn receive_one(
        &self,
        stream: &mut BufReader<UnixStream>,
        loaded: &SyncSender<Loaded>,
    ) -> io::Result<()> {
        let (id, answer) = match receive(stream)? {
            WorkerAnswer::Loaded { interface, bytes } => {
                let interface = interface.interface();
                let _ = loaded.try_send(interface.map(|interface| (interface, bytes)));
                return Ok(());
            }
            WorkerAnswer::Failed { id: 0, problems } => {
                let _ = loaded.try_send(Err(error_of(problems)));
                return Ok(());
            }
            WorkerAnswer::Failed { id, problems } => (id, Err(error_of(problems))),
            WorkerAnswer::Done { id, runs } => (id, Ok(receive_tensors(stream, &runs)?)),
        };
        if let Some(sender) = self.waiting().answers.remove(&id) {
            let _ = sender.send(answer);
        }
        Ok(())
    }

    /// Ends the process after its executions: it ends when the socket is closed.
    fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the process at once.
    fn kill(&self) {
        // The thread that receives sees the end of the socket, and ends the process.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn waiting(&self) -> MutexGuard<'_, PendingAnswers> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(command: &WorkerCommand, input: OwnedFd) -> io::Result<Child> {
    // What libraries print is no output of the server.
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    Command::new(&command.program)
        .args(&command.arguments)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(error))
        .spawn()
}

fn ended(end: &str) -> Error {
    Error::new(ErrorKind::ExecutionFailed, end)
}

/// How a process has ended.
fn description(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
            format!("the process of the model was ended by {name} (signal {signal})")
        }
        (None, code) => {
            let code = code.unwrap_or_default();
            format!("the process of the model ended with status {code}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, control: &Control) -> Error {
        let command = WorkerCommand {
            program: "sh".into(),
            arguments: ["-c", script].map(OsString::from).into(),
        };
        let load = LoadedFile {
            path: "model.onnx".into(),
            threads: None,
            instances: 1,
        };
        let started = Worker::start(command, load, control);
        started.err().expect("it loads no model")
    }

    #[test]
    fn a_process_that_ends_early_is_described() {
        let ended = start("exit 3", &Control::new()).to_string();
        assert!(
            ended.contains("model.onnx") && ended.contains("ended with status 3"),
            "{ended}"
        );
        let killed = start("kill -SEGV $$", &Control::new()).to_string();
        assert!(killed.contains("SIGSEGV (signal 11)"), "{killed}");
    }

    #[test]
    fn a_process_that_does_not_answer_ends_with_its_caller() {
        let control = Control::with_deadline(Instant::now() + Duration::from_millis(50));
        let error = start("exec sleep 1000", &control);
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }
}
