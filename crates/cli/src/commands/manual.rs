//! `tenon completions` and `tenon man`: from the one definition of the flags.

use crate::flags::{Cli, Completions};
use clap::CommandFactory;
use std::io::Write;
use tenon::{Error, Result};

pub fn completions(flags: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "tenon", &mut text);
    print(&text)
}

/// The page of the command, then one section a subcommand.
pub fn man() -> Result<()> {
    let mut text = Vec::new();
    let write = |command: clap::Command, text: &mut Vec<u8>| {
        clap_mangen::Man::new(command).render(text).map_err(|error| Error::io("-", "write", error))
    };
    let command = Cli::command();
    write(command.clone(), &mut text)?;
    for subcommand in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("tenon-{}", subcommand.get_name());
        write(subcommand.clone().name(name), &mut text)?;
    }
    print(&text)
}

fn print(text: &[u8]) -> Result<()> {
    std::io::stdout().write_all(text).map_err(|error| Error::io("-", "write", error))
}
