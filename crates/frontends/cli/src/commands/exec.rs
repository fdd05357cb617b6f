//! `tenon exec`

use super::load;
use crate::output::{self, ProgramOutput};
use crate::program_flags::{Allocator, Exec, TracingLevel};
use crate::progress;
use std::process::ExitCode;
use tenon::activity::Activity;
use tenon::host_program::{
    AllocatorKind, Driver, ExecOptions, Kernels, Log, ProgramInput, execute, kernels,
    shared_library,
};
use tenon::{Location, Result};

pub fn run(flags: &Exec) -> Result<ExitCode> {
    flags.check()?;
    let options = ExecOptions::new()
        .functions(flags.functions.clone())
        .init_function(flags.init_function.clone())
        .work_queue(flags.work_queue.as_str())
        .allocator(allocator(flags.allocator))
        .error_codes(flags.error_codes)
        .print_scopes(flags.enable_tracing)
        .trace(flags.trace.clone())
        .trace_kernels(flags.tracing_level == TracingLevel::Debug)
        .leaked_values(cfg!(debug_assertions))
        .driver(if flags.code_size {
            Driver::CodeSize
        } else {
            Driver::Executor
        });
    let mut registry = kernels(match (flags.code_size, flags.lite) {
        (true, _) => Kernels::Integers,
        (_, true) => Kernels::Basic,
        _ => Kernels::All,
    })?;
    if !flags.code_size && !flags.lite {
        registry.register_all(tenon_test_kernels::library())?;
        for native in tenon_test_kernels::natives() {
            registry.register_native(native)?;
        }
    }
    for path in &flags.shared_libs {
        let kernels = shared_library(path)?;
        let added = registry.register_all(kernels);
        added.map_err(|error| error.at(Location::file(path)))?;
    }
    let input = ProgramInput::open(&flags.input)?;
    let log = Log::standard_error();
    // Errors of the command have the prefix of the original (bef 5.1).
    let program = load::active_program(&Activity::published(), &flags.input);
    let options = options.control(progress::control_within(flags.timeout));
    let executed = || {
        let out = ProgramOutput::new();
        execute(&input, &registry, &options, out, log)
    };
    let done = match program.execute(executed) {
        Ok(done) => done,
        Err(error) if output::is_broken_pipe(&error) => return Err(error),
        Err(error) => {
            output::complain(format_args!("tenon exec: {error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    output::diagnostics(&done.diagnostics);
    Ok(output::status(done.succeeded))
}

fn allocator(allocator: Allocator) -> AllocatorKind {
    match allocator {
        Allocator::Malloc => AllocatorKind::Malloc,
        Allocator::FixedSize => AllocatorKind::TestFixedSize1k,
        Allocator::Profiled => AllocatorKind::Profiled,
        Allocator::LeakCheck => AllocatorKind::LeakCheck,
    }
}
