//! Programs of crates, installed into the target folder.

use crate::{Result, cargo, run, target};
use std::path::PathBuf;
use std::process::Command;

/// The path of a program, whose crate has the same name and is installed with these arguments if this version is missing.
pub fn installed(name: &str, version: &str, arguments: &[&str]) -> Result<PathBuf> {
    let folder = target().join("tools");
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let program = folder.join("bin").join(name);
    let found = Command::new(&program).arg("--version").output();
    if !found.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version)) {
        let mut install = cargo();
        install.args(["install", name, "--locked", "--version", version]);
        install.args(arguments);
        run(install.arg("--root").arg(&folder))?;
    }
    Ok(program)
}
