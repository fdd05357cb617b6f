//! A worker process: loads the package, then processes the files that its parent sends.
//!
//! The socket at standard input carries both directions, so that what libraries print does not mix with the messages.
//! When it is closed, the parent has ended: the current execution is cancelled.

use super::arrays::NamedArray;
use super::job::{Job, WorkerMessage, problems};
use super::rows::RowModel;
use crate::commands::load;
use crate::map_flags::Map;
use crate::signals;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tenon::activity::Activity;
use tenon::tensor::npy;
use tenon::{Control, Error, ErrorKind, LoadOptions, Location, Model, Result, Tensor, neff};

/// The time for the end of an execution that was cancelled.
const END_TIME: Duration = Duration::from_secs(5);

/// The least time between two messages about rows.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(300);

/// The socket to the parent.
struct Parent(UnixStream);

/// Rows that were not reported yet.
struct UnreportedRows {
    count: u64,
    since: Instant,
}

/// Serves the parent process until it closes the socket.
pub fn run(flags: &Map) -> Result<()> {
    signals::leave_to_parent();
    let failed = |error| Error::io("standard input", "read", error);
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let stream = UnixStream::from(input);
    let control = Control::new();
    let jobs = receive(stream.try_clone().map_err(failed)?, control.clone());
    let mut parent = Parent(stream);
    let (model, warnings) = match load(flags, &control) {
        Ok(loaded) => loaded,
        Err(error) => {
            return parent.send(&WorkerMessage::Unusable {
                is_usage: error.kind() == ErrorKind::Usage,
                problems: problems(&error),
            });
        }
    };
    let inputs = model.model().inputs().len();
    parent.send(&WorkerMessage::Ready { inputs, warnings })?;
    for job in jobs {
        let message = match process(&job, &model, &control, &mut parent) {
            Ok(rows) => WorkerMessage::Done { rows },
            Err(error) => WorkerMessage::Failed {
                problems: problems(&error),
            },
        };
        parent.send(&message)?;
    }
    Ok(())
}

/// The jobs of the parent, received by a thread. After the last line it cancels the work, and ends the process if that
/// takes too long, as native code may.
fn receive(stream: UnixStream, control: Control) -> Receiver<Job> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let job = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            if job.is_none_or(|job| sender.send(job).is_err()) {
                break;
            }
        }
        control.cancel();
        drop(sender);
        std::thread::sleep(END_TIME);
        tenon::files::remove_unfinished_files();
        std::process::exit(1);
    });
    receiver
}

/// The model of the flags, and warnings about it.
fn load(flags: &Map, control: &Control) -> Result<(RowModel, Vec<String>)> {
    let loading = &flags.model.compiling.loading;
    let (registry, mut warnings) = load::find_backends(loading)?;
    let (runtime, unavailable) = load::start_runtime(registry, loading);
    warnings.extend(unavailable);
    let package = neff::Package::open_with(&flags.file, &flags.model.limits.limits(), control)?;
    let mut options = LoadOptions::new()
        .threads(flags.threading.threads)
        .control(control.clone())
        .runtime(runtime.clone())
        .activity(Activity::published());
    let limits = &flags.model.device.device_memory_limits;
    options.device_memory_limits.clone_from(limits);
    let model = Model::from_package(&package, &options)?;
    warnings.extend(load::warnings(&model, &runtime));
    let slow = model.reference_time(runtime.backends());
    warnings.extend(slow.map(|time| time.to_string()));
    Ok((RowModel::new(model, flags.batch)?, warnings))
}

/// Executes the model on the rows of a file and writes its output; returns the number of rows.
fn process(job: &Job, model: &RowModel, control: &Control, parent: &mut Parent) -> Result<u64> {
    let arrays = NamedArray::read_all(job, model.model())?;
    let mut unreported = UnreportedRows {
        count: 0,
        since: Instant::now(),
    };
    let outputs = model.run(arrays, control, |rows| unreported.add(rows, parent));
    let outputs = outputs.map_err(|error| error.at(Location::file(job.text())))?;
    let names = model.model().outputs().iter().map(|it| it.name.as_str());
    let named: Vec<(&str, &Tensor)> = names.zip(&outputs.tensors).collect();
    if let Some(folder) = job.output.parent() {
        let created = std::fs::create_dir_all(folder);
        created.map_err(|error| Error::io(folder, "create", error))?;
    }
    // Another process may be at work after the end of the parent.
    control.check()?;
    npy::write_npz(&job.output, &named)?;
    unreported.report(parent);
    Ok(outputs.rows as u64)
}

impl Parent {
    fn send(&mut self, message: &WorkerMessage) -> Result<()> {
        let mut write = || {
            let mut line = serde_json::to_vec(message)?;
            line.push(b'\n');
            self.0.write_all(&line)
        };
        write().map_err(|error| Error::io("the socket of the worker", "write", error))
    }
}

impl UnreportedRows {
    fn add(&mut self, rows: usize, parent: &mut Parent) {
        self.count += rows as u64;
        if self.since.elapsed() >= MESSAGE_INTERVAL {
            self.report(parent);
        }
    }

    fn report(&mut self, parent: &mut Parent) {
        if self.count > 0 {
            // The next message about the file fails as well, if the parent has ended.
            let _ = parent.send(&WorkerMessage::Rows(self.count));
        }
        self.count = 0;
        self.since = Instant::now();
    }
}
