//! Running the functions of a host program, as the original's executor commands do (bef 5.1).

use super::first_error_writer::FirstErrorWriter;
use super::report;
use super::verifier::Verifier;
use super::{ProgramInput, trace};
use std::fmt::Arguments;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_base::trace::{Recording, TraceSink};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_bef::{Diagnostic, File, FunctionKind, KernelLocation, decode, parse};
use tenon_executor::{
    AllocatorKind, FunctionHandle, Host, HostAllocator, Log, Program, QueueSelection, Registry,
    Request, Services, Trace, WorkQueue, alive_async_values,
};

/// Which functions of a program run, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecOptions {
    /// The functions, in this order; all in the program's order when empty.
    pub functions: Vec<String>,
    /// A function to run before all others, and not again; ignored if the program lacks it.
    pub init_function: Option<String>,
    /// Where tasks run: `s` or `mstd[:N[,M]]`.
    pub work_queue: String,
    /// The allocator of the host.
    pub allocator: AllocatorKind,
    /// Whether errors in place of results have their status code.
    pub error_codes: bool,
    /// Whether scopes are printed at the end.
    pub print_scopes: bool,
    /// A file for the scopes that Perfetto opens.
    pub trace: Option<PathBuf>,
    /// Whether every kernel is a scope.
    pub trace_kernels: bool,
    /// Whether a function that leaves async values behind is an error: for a process that runs
    /// nothing else, in builds with debug assertions. The original's debug builds abort there.
    pub leaked_values: bool,
    /// Which of the original's drivers is run.
    pub driver: Driver,
    /// Cancellation and deadline.
    pub control: Control,
}

/// The original's commands that run programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// Announces allocator and queue, compares diagnostics with the `expected-error` comments of
    /// the source, and looks for leaks.
    #[default]
    Executor,
    /// Runs functions and prints their results, nothing else.
    CodeSize,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The unexpected diagnostics, for standard error.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether exactly the expected diagnostics occurred and no memory leaked.
    pub succeeded: bool,
}

/// Runs functions of `input` with the kernels of `registry`. `out` receives the output of programs and
/// driver, `log` the log.
///
/// # Errors
/// A function, queue or file that is not there, an empty file, output that cannot be written; `control`
/// was cancelled or its deadline has passed, which ends a program of endless loops too. Errors in
/// the program are diagnostics, which may be expected, as may unknown kernels.
pub fn execute(
    input: &ProgramInput,
    registry: &Registry,
    options: &ExecOptions,
    out: impl Write + Send + 'static,
    log: Log,
) -> Result<Execution> {
    if input.bytes().is_empty() {
        return Err(Error::new(ErrorKind::InvalidProgram, "the file is empty")
            .expected("MLIR text or BEF")
            .at(Location::file(input.name())));
    }
    let (out, failure) = FirstErrorWriter::new(out);
    let session = Session::start(input, options, out, log)?;
    let begun = Instant::now();
    match load(input, registry) {
        Ok(program) => session.run(&program)?,
        Err(Refusal::Unbound(error)) => session.refused(&error),
        Err(Refusal::Malformed(error)) => {
            return Ok(Execution {
                diagnostics: Diagnostic::all_of(&error),
                succeeded: false,
            });
        }
    }
    session
        .scopes
        .scope("program", "Bef Executor", begun, Instant::now(), 0);
    let done = session.finish()?;
    match failure.take() {
        None => Ok(done),
        Some(error) => Err(Error::io("standard output", "write", error)),
    }
}

/// The reason why a program cannot run.
enum Refusal {
    /// The input is no valid program.
    Malformed(Error),
    /// Kernels are unknown or used wrongly, which may be expected.
    Unbound(Error),
}

/// The program: of text bound as a whole, of BEF function by function, when they are first used.
fn load(input: &ProgramInput, registry: &Registry) -> Result<Program, Refusal> {
    let services = Services::new();
    if !input.is_bef() {
        let module = input.text().and_then(|text| parse(text, input.name()));
        let module = module.map_err(Refusal::Malformed)?;
        return Program::decode(&module, registry, &services).map_err(Refusal::Unbound);
    }
    let malformed = |error: Error| Refusal::Malformed(error.at(Location::file(input.name())));
    let file = File::open_owned(input.shared()).map_err(malformed)?;
    Program::load(file, registry, &services).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refusal::Unbound(used_at(input, registry).unwrap_or(error)),
        _ => malformed(error),
    })
}

/// The unknown kernels and native functions, each at its use.
fn used_at(input: &ProgramInput, registry: &Registry) -> Option<Error> {
    let module = decode(input.bytes()).ok()?;
    let functions = module.functions.iter();
    let errors = functions.flat_map(|function| {
        let native = function.is_native() && registry.find_native(&function.name).is_none();
        let native = native.then(|| unknown("native function", &function.name, &function.location));
        let kernels = function.kernels.iter();
        let kernels = kernels.filter(|kernel| registry.find(&kernel.name).is_none());
        native
            .into_iter()
            .chain(kernels.map(|kernel| unknown("kernel", &kernel.name, &kernel.location)))
    });
    Error::from_all(errors)
}

fn unknown(what: &str, name: &str, location: &KernelLocation) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("unknown {what} name '{name}'"));
    error.at(match location.position() {
        None => Location::default(),
        Some(place) => Location {
            file: Some(place.file.into()),
            line: Some(place.line),
            column: Some(place.column),
            ..Location::default()
        },
    })
}

/// One run of the command.
struct Session<'a> {
    options: &'a ExecOptions,
    host: Host,
    allocator: HostAllocator,
    verifier: Arc<Verifier>,
    scopes: Arc<Recording>,
}

impl<'a> Session<'a> {
    fn start(
        input: &ProgramInput,
        options: &'a ExecOptions,
        out: impl Write + Send + 'static,
        log: Log,
    ) -> Result<Self> {
        let queue = work_queue(&options.work_queue)?;
        let allocator = HostAllocator::new(options.allocator, log.clone());
        let verifier = Arc::new(Verifier::new(input));
        let scopes = Arc::new(Recording::new());
        let observer = verifier.clone();
        let mut host = Host::builder()
            .queue(queue)
            .print(out)
            .log(log)
            .allocator(allocator.clone())
            .diagnostics(move |diagnostic| observer.kernel(diagnostic.location, diagnostic.error));
        if options.traced() {
            host = host.trace(Trace {
                sink: scopes.clone(),
                kernels: options.trace_kernels,
            });
        }
        let session = Self {
            options,
            host: host.build(),
            allocator,
            verifier,
            scopes,
        };
        session.announce();
        Ok(session)
    }

    fn announce(&self) {
        if self.options.driver == Driver::Executor {
            self.say(format_args!("{}\n", self.allocator.kind().announcement()));
            let queue = self.host.queue().name();
            self.say(format_args!("Choosing {queue} work queue.\n"));
        }
    }

    fn say(&self, text: Arguments<'_>) {
        self.host.print(text);
    }

    /// Diagnostics of a program that cannot be loaded, which may be expected.
    fn refused(&self, error: &Error) {
        error
            .all()
            .for_each(|problem| self.verifier.problem(problem));
    }

    /// Runs the chosen functions.
    fn run(&self, program: &Program) -> Result<()> {
        let all: Vec<FunctionHandle> = (0..program.functions().len())
            .map(|position| program.handle_at(position))
            .collect();
        let find = |name: &str| {
            let named = |function: &&FunctionHandle| function.name() == name;
            all.iter().filter(|_| !name.is_empty()).find(named)
        };
        let chosen = if self.options.functions.is_empty() {
            all.iter().collect()
        } else {
            let found = |name: &String| {
                let text = format!("couldn't find function {name}");
                find(name).ok_or_else(|| Error::new(ErrorKind::NotFound, text))
            };
            let found: Result<Vec<_>> = self.options.functions.iter().map(found).collect();
            found?
        };
        let init = self.options.init_function.as_deref().and_then(find);
        if let Some(init) = init {
            self.function(init)?;
        }
        let is_init = |function: &FunctionHandle| init.is_some_and(|i| i.name() == function.name());
        let mut others = chosen.into_iter().filter(|function| !is_init(function));
        others.try_for_each(|function| self.function(function))
    }

    /// Runs a function to its end, and the tasks that it left in the queue.
    ///
    /// # Errors
    /// Leaked async values, if the options check for them.
    fn function(&self, function: &FunctionHandle) -> Result<()> {
        let name = function.name();
        if !function.argument_types().is_empty() {
            self.say(format_args!(
                "--- Not running '{name}' because it has arguments.\n"
            ));
            return Ok(());
        }
        if name.is_empty() {
            return Ok(());
        }
        let before = alive_async_values();
        self.say(format_args!("--- Running '{name}':\n"));
        let begun = Instant::now();
        let resources = self.options.driver == Driver::Executor;
        let request = Request::with(&self.host, self.options.control.clone(), resources);
        if let Some(line) = self.executed(function, &request) {
            self.say(format_args!("'{name}' returned {line}\n"));
        }
        drop(request);
        self.host.queue().quiesce();
        // The diagnostics of a stopped program are meaningless.
        self.options
            .control
            .check()
            .map_err(|error| match error.kind() {
                ErrorKind::DeadlineExceeded => {
                    Error::new(error.kind(), format!("'{name}' did not end in time"))
                        .help("give it more time, or end its loops")
                }
                _ => error,
            })?;
        let scope = format!("Function: {name}");
        self.scopes
            .scope("function", &scope, begun, Instant::now(), 0);
        if self.options.leaked_values {
            no_leaked_values(name, before)?;
        }
        Ok(())
    }

    /// Executes a function, waits for its results and formats them. The error of a synchronous function,
    /// or of one that cannot be bound, is formatted even if the function has no results.
    fn executed(&self, function: &FunctionHandle, request: &Request) -> Option<String> {
        let codes = self.options.error_codes;
        if let Err(error) = function.bind() {
            self.refused(&error);
            return Some(report::error(&error, codes));
        }
        if function.kind() == FunctionKind::Sync {
            let values = match function.execute_sync(request, Vec::new()) {
                Ok(values) => values,
                Err(error) => {
                    self.refused(&error);
                    return Some(report::error(&error, codes));
                }
            };
            return report::values(function.result_types(), &values, codes);
        }
        let values = self.host.wait(function.execute(request, Vec::new()));
        report::values(function.result_types(), &values, codes)
    }

    /// Ends the run: expectations, leaks and traces.
    fn finish(self) -> Result<Execution> {
        let Self {
            options,
            host,
            allocator,
            verifier,
            scopes,
        } = self;
        let report = allocator.exit_report();
        host.print(format_args!("{}", report.text));
        if options.print_scopes {
            host.print(format_args!("{}", trace::text(&scopes)));
        }
        if let Some(path) = &options.trace {
            crate::files::write(path, scopes.json("tenon").as_bytes())?;
        }
        let diagnostics = verifier.finish();
        let unexpected = options.driver == Driver::Executor && !diagnostics.is_empty();
        Ok(Execution {
            succeeded: !unexpected && !report.leaked,
            diagnostics,
        })
    }
}

impl Default for ExecOptions {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            init_function: None,
            work_queue: "s".into(),
            allocator: AllocatorKind::default(),
            error_codes: false,
            print_scopes: false,
            trace: None,
            trace_kernels: false,
            leaked_values: false,
            driver: Driver::default(),
            control: Control::new(),
        }
    }
}

impl ExecOptions {
    /// All functions on the calling thread.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the functions to run, in order.
        functions: Vec<String>,
        /// Sets the function that runs before all others.
        init_function: Option<String>,
        /// Sets the allocator of the host.
        allocator: AllocatorKind,
        /// Sets whether errors in place of results have their status code.
        error_codes: bool,
        /// Sets whether scopes are printed at the end.
        print_scopes: bool,
        /// Sets the file for the scopes that Perfetto opens.
        trace: Option<PathBuf>,
        /// Sets whether every kernel is a scope.
        trace_kernels: bool,
        /// Sets whether a function that leaks async values is an error.
        leaked_values: bool,
        /// Sets which of the original's drivers is run.
        driver: Driver,
        /// Sets cancellation and deadline.
        control: Control,
    }

    /// Sets where tasks run: `s` or `mstd[:N[,M]]`.
    #[must_use]
    pub fn work_queue(mut self, selection: impl Into<String>) -> Self {
        self.work_queue = selection.into();
        self
    }

    fn traced(&self) -> bool {
        self.print_scopes || self.trace.is_some()
    }
}

/// Fails if more async values are alive than `before` a function. A thread of the queue may still be
/// dropping one.
fn no_leaked_values(name: &str, before: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let after = alive_async_values();
        if after <= before {
            return Ok(());
        }
        if begun.elapsed() > RELEASE_TIME {
            let leaked = after - before;
            let text = format!(
                "Evaluation of function '{name}' leaked {leaked} async values \
                 (before: {before}, after: {after})!"
            );
            return Err(Error::new(ErrorKind::Internal, text));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The longest time until threads have dropped a function's values.
const RELEASE_TIME: Duration = Duration::from_millis(100);

/// The work queue of that name.
fn work_queue(name: &str) -> Result<Arc<dyn WorkQueue>> {
    let chosen: Result<QueueSelection> = name.parse();
    chosen.and_then(QueueSelection::start).map_err(|error| {
        let text = format!("couldn't create work queue type {name}");
        Error::new(ErrorKind::InvalidArgument, text).help(error.to_string())
    })
}

#[cfg(test)]
mod tests;
