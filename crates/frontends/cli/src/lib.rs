//! The `tenon` command: flags and output; the logic is in the crate `tenon`.
//!
//! A library, so that the Python package has the command too.

#![forbid(unsafe_code)]

mod commands;
mod dashes;
mod flags;
mod map_flags;
mod model_flags;
mod netlist_flags;
mod netlist_view_flags;
mod output;
mod package_flags;
mod plugin_flags;
mod program_flags;
mod progress;
mod quantize_flags;
#[cfg(feature = "serve")]
mod serve_flags;
mod session_flags;
mod signals;
mod table;
mod thread_flags;
mod watch_flags;

use clap::Parser;
use flags::{Cli, Command};
use std::ffi::OsString;
use std::process::ExitCode;
use tenon::Result;

/// Runs the command of these arguments, the name of the program first. Ends the process after wrong usage, `--help`,
/// and signals.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    signals::watch();
    let done = match Cli::parse_from(dashes::two::<Cli>(arguments)).command {
        Command::Compile(flags) => done(commands::compile::run(&flags)),
        Command::Quantize(flags) => done(commands::quantize::run(&flags)),
        Command::Run(flags) => done(commands::run::run(&flags)),
        Command::Map(flags) => commands::map::run(&flags),
        Command::Compare(flags) => commands::compare::run(&flags),
        Command::Bench(flags) => done(commands::bench::run(&flags)),
        #[cfg(feature = "serve")]
        Command::Serve(flags) => done(commands::serve::run(&flags)),
        Command::Profile(flags) => done(commands::profile::run(&flags)),
        Command::Info(flags) => done(commands::info::run(&flags)),
        Command::Translate(flags) => commands::translate::run(&flags),
        Command::Unpack(flags) => done(commands::package::unpack(&flags)),
        Command::Pack(flags) => done(commands::package::pack(&flags)),
        Command::Strip(flags) => done(commands::package::strip(&flags)),
        Command::Verify(flags) => commands::package::verify(&flags),
        Command::Diff(flags) => commands::package::diff(&flags),
        Command::Ls(flags) => done(commands::package::ls(&flags)),
        Command::Cat(flags) => done(commands::package::cat(&flags)),
        Command::Dma(flags) => done(commands::dma::run(&flags)),
        Command::Exec(flags) => commands::exec::run(&flags),
        Command::Opt(flags) => commands::opt::run(&flags),
        Command::Disasm(flags) => done(commands::disasm::run(&flags)),
        Command::Netlist(flags) => commands::netlist::run(&flags),
        Command::Plugin(flags) => commands::plugin::run(&flags),
        Command::Cache(flags) => done(commands::cache::run(&flags)),
        Command::Backends(flags) => done(commands::backends::run(&flags)),
        Command::Devices(flags) => done(commands::watch::devices(&flags)),
        Command::Monitor(flags) => done(commands::watch::monitor(&flags)),
        Command::Top(flags) => done(commands::watch::top(&flags)),
        Command::Completions(flags) => done(commands::manual::completions(&flags)),
        Command::Man(_) => done(commands::manual::man()),
    };
    match done {
        Ok(status) => status,
        // The reader, such as `head`, has closed its end: not a failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            for problem in error.all() {
                output::complain(format_args!("error: {}", problem.single()));
            }
            ExitCode::from(error.kind().exit_status())
        }
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
