//! Help texts.

use super::*;
use clap::{Command, CommandFactory};

/// Columns of a terminal as most people have it.
const WIDTH: usize = 80;

fn each(command: &Command, check: &mut impl FnMut(&Command)) {
    check(command);
    command.get_subcommands().for_each(|sub| each(sub, check));
}

/// Prose is a line that clap breaks where the terminal ends; examples are not broken.
#[test]
fn help_fits_every_terminal() {
    let mut checked = 0;
    each(&Cli::command(), &mut |command| {
        let Some(help) = command.get_after_help() else {
            return;
        };
        checked += 1;
        let name = command.get_name();
        for paragraph in help.to_string().split("\n\n") {
            if !paragraph.starts_with("Example") {
                assert!(!paragraph.contains('\n'), "{name}: {paragraph}");
                continue;
            }
            let long = paragraph.lines().find(|line| line.chars().count() > WIDTH);
            assert_eq!(long, None, "{name}");
        }
    });
    assert!(checked > 20);
}
