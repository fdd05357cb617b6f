//! The parent's side of a worker process.

use super::job::{END, Job, WorkerMessage};
use crate::commands::own_command::own_command;
use crate::map_flags::Map;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use tenon::{Error, ErrorKind, Location, Result};

/// A running worker.
pub struct WorkerProcess<'a> {
    stop: &'a WorkerStop,
    child: Child,
    stream: UnixStream,
    messages: BufReader<UnixStream>,
}

/// How workers are started.
pub struct WorkerCommand {
    program: OsString,
    arguments: Vec<OsString>,
    /// Whether the package's native nodes may run.
    native_nodes: bool,
    /// The model, for messages.
    model: PathBuf,
    /// A file that is for the only input of the model.
    unnamed: Option<PathBuf>,
}

/// The end of all workers.
#[derive(Default)]
pub struct WorkerStop(Mutex<StopState>);

#[derive(Default)]
struct StopState {
    is_stopped: bool,
    /// The sockets of all workers, by the ids of their processes.
    streams: BTreeMap<u32, UnixStream>,
}

/// The result of a job.
pub enum JobResult {
    Done(u64),
    Failed(Vec<String>),
}

impl WorkerCommand {
    /// Workers that execute a package, with the flags of the command.
    pub fn new(flags: &Map, package: &Path, jobs: &[&Job]) -> Self {
        let (program, mut arguments) = own_command("map");
        let cpus = available_parallelism().map_or(1, usize::from);
        let threads = flags.threading.threads;
        let threads = threads.unwrap_or((cpus / flags.processes).max(1));
        // Its name may begin with "-".
        let package = std::path::absolute(package).unwrap_or(package.to_owned());
        arguments.extend(["map".into(), package.into(), "--worker".into()]);
        arguments.extend(["--threads".into(), threads.to_string().into()]);
        arguments.extend(["--batch".into(), flags.batch.to_string().into()]);
        if let Some(bytes) = flags.model.limits.max_unpacked {
            arguments.extend(["--max-unpacked".into(), bytes.to_string().into()]);
        }
        arguments.extend(flags.model.compiling.loading.arguments());
        arguments.extend(flags.model.device.arguments());
        let is_npy = |path: &&PathBuf| {
            let extension = path.extension();
            extension.is_some_and(|found| found.eq_ignore_ascii_case("npy"))
        };
        let sources = jobs.iter().flat_map(|job| &job.sources);
        let mut unnamed = sources.filter(|it| it.input.is_none()).map(|it| &it.file);
        Self {
            program,
            arguments,
            native_nodes: !flags.model.compiling.cpu_nodes.is_empty(),
            model: flags.file.clone(),
            unnamed: unnamed.find(is_npy).cloned(),
        }
    }

    fn spawn(&self, input: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::from(input));
        // What libraries print is no result of the command.
        let error = io::stderr().as_fd().try_clone_to_owned()?;
        command.stdout(Stdio::from(error));
        if self.native_nodes {
            // The package contains only the libraries that the user has named.
            command.env("TENON_ALLOW_NATIVE_NODES", "1");
        }
        command.spawn()
    }
}

impl<'a> WorkerProcess<'a> {
    /// Starts a worker and waits until it has loaded the model; also returns the warnings about that.
    ///
    /// # Errors
    /// A process that cannot be started, a model that cannot be loaded.
    pub fn start(command: &WorkerCommand, stop: &'a WorkerStop) -> Result<(Self, Vec<String>)> {
        let here = |error: Error| error.at(Location::file(&command.model));
        let failed = |error| here(Error::io("a worker process", "start", error));
        let (stream, other) = UnixStream::pair().map_err(failed)?;
        let copy = || Ok((stream.try_clone()?, stream.try_clone()?));
        let (messages, stopped) = copy().map_err(failed)?;
        let child = command.spawn(other.into()).map_err(failed)?;
        stop.add(child.id(), stopped);
        let mut worker = Self {
            stop,
            child,
            stream,
            messages: BufReader::new(messages),
        };
        match worker.read() {
            Ok(WorkerMessage::Ready { inputs, warnings }) => {
                if let (Some(file), 2..) = (&command.unnamed, inputs) {
                    let text = "an .npy file has no input name, and the model has several inputs";
                    let error = Error::new(ErrorKind::Usage, text);
                    let error = error.expected("--input NAME=FILES");
                    return Err(error.at(Location::file(file)));
                }
                Ok((worker, warnings))
            }
            Ok(WorkerMessage::Unusable { problems, is_usage }) => {
                let kind = match is_usage {
                    true => ErrorKind::Usage,
                    false => ErrorKind::InvalidPackage,
                };
                let problems = problems.into_iter().map(|text| Error::new(kind, text));
                Err(here(Error::from_all(problems).unwrap_or_else(unexpected)))
            }
            Ok(_) => Err(here(unexpected())),
            Err(_) => {
                let text = format!("loading the model: {}", worker.end());
                Err(here(Error::new(ErrorKind::ExecutionFailed, text)))
            }
        }
    }

    /// Processes a file; `on_rows` is called with the number of rows during the work.
    ///
    /// # Errors
    /// The worker has ended; the text says how.
    pub fn run(&mut self, job: &Job, mut on_rows: impl FnMut(u64)) -> Result<JobResult, String> {
        // A worker that has ended is noticed below.
        let _ = self.write(job);
        loop {
            match self.read() {
                Ok(WorkerMessage::Rows(rows)) => on_rows(rows),
                Ok(WorkerMessage::Done { rows }) => return Ok(JobResult::Done(rows)),
                Ok(WorkerMessage::Failed { problems }) => return Ok(JobResult::Failed(problems)),
                Ok(_) | Err(_) => return Err(format!("{}: {}", job.text(), self.end())),
            }
        }
    }

    fn write(&mut self, job: &Job) -> io::Result<()> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    fn read(&mut self) -> io::Result<WorkerMessage> {
        let mut line = String::new();
        if self.messages.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits for the end of the process, and describes it.
    fn end(&mut self) -> String {
        let _ = self.stream.write_all(END);
        match self.child.wait() {
            Ok(status) => description(status),
            Err(error) => format!("the worker process has ended: {error}"),
        }
    }
}

impl Drop for WorkerProcess<'_> {
    /// Ends the process and waits for that.
    fn drop(&mut self) {
        let _ = self.stream.write_all(END);
        let _ = self.child.wait();
        self.stop.remove(self.child.id());
    }
}

impl WorkerStop {
    /// Cancels the executions of all workers and ends them, also those that are started later. Returns whether this is
    /// the first call.
    pub fn stop(&self) -> bool {
        let mut state = self.state();
        for stream in state.streams.values_mut() {
            let _ = stream.write_all(END);
        }
        !std::mem::replace(&mut state.is_stopped, true)
    }

    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    fn add(&self, process: u32, mut stream: UnixStream) {
        let mut state = self.state();
        if state.is_stopped {
            let _ = stream.write_all(END);
        }
        state.streams.insert(process, stream);
    }

    fn remove(&self, process: u32) {
        self.state().streams.remove(&process);
    }

    fn state(&self) -> MutexGuard<'_, StopState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unexpected() -> Error {
    let text = "the worker process sent an unexpected message";
    Error::new(ErrorKind::Internal, text)
}

/// How a process has ended.
fn description(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        let code = status.code().unwrap_or_default();
        return format!("the worker process ended with status {code}");
    };
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    let help = match signal {
        signal_hook::consts::SIGKILL => "; the system does so when memory is exhausted",
        _ => "",
    };
    format!("the worker process was ended by {name} (signal {signal}){help}")
}
