//! `tenon completions` and `tenon man`, generated from the flags.

use crate::flags::{Cli, Completions};
use crate::output;
use clap::CommandFactory;
use tenon::{Error, Result};

pub fn completions(flags: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "tenon", &mut text);
    output::bytes(&text)
}

/// The page of the command, then one section a subcommand.
pub fn man() -> Result<()> {
    let mut text = Vec::new();
    let write = |command: clap::Command, text: &mut Vec<u8>| {
        clap_mangen::Man::new(command)
            .render(text)
            .map_err(|error| Error::io("the page", "write", error))
    };
    let command = Cli::command();
    write(command.clone(), &mut text)?;
    for subcommand in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        let name = format!("tenon-{}", subcommand.get_name());
        write(subcommand.clone().name(name), &mut text)?;
    }
    output::bytes(&text)
}
