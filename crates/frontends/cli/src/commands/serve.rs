//! `tenon serve`

use super::load;
use super::own_command::own_command;
use crate::output::{self, say};
use crate::serve_flags::Serve;
use crate::signals;
use serde_json::json;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tenon::{Error, ErrorKind, Location, Result};
use tenon_serve::{
    Access, Repository, RepositoryEvent, RepositoryOptions, Server, ServerOptions, Tls, TlsEvent,
    TlsFiles, WorkerCommand, serve_worker,
};

/// The time between two looks for a signal while models are loaded.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(flags: &Serve) -> Result<()> {
    if flags.worker {
        return run_worker(flags);
    }
    let signal = signals::receive();
    let server = start(flags)?;
    while !server.wait_until_loaded(SIGNAL_INTERVAL) {
        if signal.try_recv().is_ok() {
            // Models that are being compiled are given up.
            server.drain();
            return Ok(());
        }
    }
    match flags.json {
        true => print_json(&server)?,
        false => print(&server, flags)?,
    }
    // Without a handler the process ends by the signal itself.
    if signal.recv().is_err() {
        loop {
            std::thread::park();
        }
    }
    if !flags.json {
        say!("ending: requests in flight are finished")?;
    }
    if !server.drain() {
        let seconds = flags.drain_timeout.as_secs_f64();
        output::complain(format_args!(
            "warning: requests took longer than {seconds} s and were cancelled (--drain-timeout)"
        ));
    }
    Ok(())
}

/// Executes one model for the server at standard input.
fn run_worker(flags: &Serve) -> Result<()> {
    signals::leave_to_parent();
    let failed = |error| Error::io("standard input", "read", error);
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let registry = load::backends(&flags.backends)?;
    let runtime = load::runtime(registry, &flags.backends);
    serve_worker(UnixStream::from(input), Some(runtime))
}

/// A process for each model, with the backends of the server.
fn worker_command(flags: &Serve) -> WorkerCommand {
    let (program, mut arguments) = own_command("serve");
    arguments.extend(["serve".into(), ".".into(), "--worker".into()]);
    arguments.extend(flags.backends.arguments());
    WorkerCommand { program, arguments }
}

fn start(flags: &Serve) -> Result<Server> {
    let mut access = Access::default();
    if let Some(path) = &flags.token_file {
        access = access.token_file(path)?;
    }
    if let Some(path) = &flags.admin_token_file {
        access = access.admin_token_file(path)?;
    }
    access = access
        .model_control(flags.allow_model_control)
        .shared_memory(flags.allow_shared_memory);
    // Before models are loaded, which may take long.
    let tls = certificates(flags)?;
    let is_allowed = flags.insecure || flags.tls_client_ca.is_some();
    for address in [Some(flags.http), flags.grpc].into_iter().flatten() {
        access.check_address(address, is_allowed)?;
    }
    let mut models = RepositoryOptions::default();
    models.threads = flags.threading.threads;
    models.batches.max_rows = flags.max_batch;
    models.batches.delay = flags.batch_delay;
    models.batches.max_waiting = flags.max_waiting;
    models.batches.instances = flags.instances;
    match flags.isolate {
        true => models.isolation = Some(worker_command(flags)),
        false => {
            let registry = load::backends(&flags.backends)?;
            models.runtime = Some(load::runtime(registry, &flags.backends));
        }
    }
    if !flags.folder.is_dir() {
        return Err(Error::new(ErrorKind::Usage, "this is no folder")
            .expected("a folder with NAME.neff, NAME.onnx, NAME.tflite or NAME/VERSION/")
            .at(Location::file(&flags.folder)));
    }
    let repository = Repository::new(&flags.folder, models, report)?;
    let mut options = ServerOptions::new(flags.http);
    options.grpc = flags.grpc;
    options.name.clone_from(&flags.server_name);
    options.access = access;
    options.insecure = flags.insecure;
    options.has_uploads = flags.allow_uploads;
    options.tls = tls;
    options.max_body_bytes = usize::try_from(flags.max_request).unwrap_or(usize::MAX);
    options.max_total_bytes = usize::try_from(flags.max_in_flight).unwrap_or(usize::MAX);
    options.request_timeout = flags.request_timeout;
    options.max_connections = flags.max_connections;
    if let Some(threads) = flags.connection_threads {
        options.connection_threads = threads;
    }
    if let Some(time) = flags.busy_poll {
        options.busy_poll = time;
    }
    options.poll = Some(flags.poll).filter(|poll| !poll.is_zero());
    options.drain_delay = flags.drain_delay;
    options.drain_timeout = flags.drain_timeout;
    Server::start(options, Arc::new(repository))
}

/// The certificates, which SIGHUP reads again.
fn certificates(flags: &Serve) -> Result<Option<Arc<Tls>>> {
    let (Some(certificate), Some(key)) = (&flags.tls_cert, &flags.tls_key) else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_authority: flags.tls_client_ca.clone(),
    };
    let tls = Arc::new(Tls::new(files, report_tls)?);
    let reloaded = tls.clone();
    signals::at_hangup(move || reloaded.reload());
    Ok(Some(tls))
}

/// Writes changes of the certificates to the log, standard error.
fn report_tls(event: &TlsEvent) {
    match event {
        TlsEvent::Reloaded => output::complain("loaded the certificates again"),
        TlsEvent::Failed { error } => {
            for problem in error.all() {
                output::complain(format_args!("error: {}", problem.single()));
            }
            output::complain("the certificates before them are kept");
        }
        _ => {}
    }
}

/// Writes changes of the models to the log, standard error.
fn report(event: &RepositoryEvent) {
    match event {
        RepositoryEvent::Loaded { model, version } => {
            output::complain(format_args!("loaded {model}, version {version}"));
        }
        RepositoryEvent::Unloaded { model, version } => {
            output::complain(format_args!("unloaded {model}, version {version}"));
        }
        RepositoryEvent::Failed {
            error, is_served, ..
        } => {
            for problem in error.all() {
                output::complain(format_args!("error: {}", problem.single()));
            }
            if *is_served {
                output::complain("the model before it is served");
            }
        }
        RepositoryEvent::Unreadable { error } => {
            output::complain(format_args!("error: {error}"));
        }
        _ => {}
    }
}

fn print(server: &Server, flags: &Serve) -> Result<()> {
    let scheme = if flags.tls_cert.is_some() {
        "https"
    } else {
        "http"
    };
    say!("REST at {scheme}://{}/v2", server.http_address())?;
    say!("gRPC at {}", server.grpc_address())?;
    let rows = server.repository().index();
    for row in &rows {
        match row.reason.as_str() {
            "" => say!("{}, version {}: {}", row.name, row.version, row.state)?,
            reason => say!(
                "{}, version {}: {}: {reason}",
                row.name,
                row.version,
                row.state
            )?,
        }
    }
    if rows.is_empty() {
        say!(
            "no models in {}: NAME.neff, NAME.onnx, NAME.tflite or NAME/VERSION/ are loaded when they appear",
            flags.folder.display()
        )?;
    }
    Ok(())
}

fn print_json(server: &Server) -> Result<()> {
    let rows = server.repository().index().into_iter().map(|row| {
        json!({
            "name": row.name,
            "version": row.version.to_string(),
            "state": row.state,
            "reason": row.reason,
        })
    });
    output::json(json!({
        "http": server.http_address().to_string(),
        "grpc": server.grpc_address().to_string(),
        "models": rows.collect::<Vec<_>>(),
    }))
}
