//! Flags of the original tools may have one dash or two; clap's long flags have two.

use clap::CommandFactory;
use std::ffi::OsString;

/// The commands that take the flags of the original tools.
const COMMANDS: [&str; 3] = ["translate", "exec", "opt"];

/// Adds the second dash to every long flag of such a command that has one dash.
pub fn two<C: CommandFactory>(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = C::command();
    let called = arguments.get(1).and_then(|name| name.to_str());
    let called = called.filter(|name| COMMANDS.contains(name));
    let Some(command) = called.and_then(|name| command.find_subcommand(name)) else {
        return arguments;
    };
    let flags: Vec<&str> = command
        .get_arguments()
        .filter_map(|flag| flag.get_long())
        .collect();
    for argument in arguments
        .iter_mut()
        .skip(2)
        .take_while(|argument| *argument != "--")
    {
        let name = argument.to_str().and_then(|text| text.strip_prefix('-'));
        let name = name.map(|text| text.split_once('=').map_or(text, |(name, _)| name));
        if name.is_some_and(|name| flags.contains(&name)) {
            let mut longer = OsString::from("-");
            longer.push(&*argument);
            *argument = longer;
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Cli;

    fn two(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from);
        let longer = super::two::<Cli>(arguments);
        let longer: Vec<_> = longer.iter().map(|a| a.to_string_lossy()).collect();
        longer.join(" ")
    }

    #[test]
    fn long_flags_of_the_original_tools_get_their_second_dash() {
        assert_eq!(
            two("tenon translate -mlir-to-bef --split-input-file - -o x -output=y"),
            "tenon translate --mlir-to-bef --split-input-file - -o x --output=y"
        );
        assert_eq!(
            two("tenon translate -x -- -mlir-to-bef"),
            "tenon translate -x -- -mlir-to-bef"
        );
        assert_eq!(two("tenon run -input x"), "tenon run -input x");
        assert_eq!(two("tenon"), "tenon");
    }
}
