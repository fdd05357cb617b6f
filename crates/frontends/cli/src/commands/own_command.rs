//! How this command starts itself again as a worker process.

use std::ffi::OsString;
use std::path::PathBuf;

/// The program and its arguments before the subcommand: itself, or an interpreter and what it runs.
pub fn own_command(subcommand: &str) -> (OsString, Vec<OsString>) {
    let own = std::env::args_os();
    let mut before: Vec<OsString> = own.take_while(|argument| argument != subcommand).collect();
    if before.len() > 1 {
        let arguments = before.split_off(1);
        return (before.remove(0), arguments);
    }
    let named = before.pop().unwrap_or_else(|| "tenon".into());
    let program = std::env::current_exe().map_or(named, PathBuf::into_os_string);
    (program, Vec::new())
}
