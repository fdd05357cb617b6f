//! `cargo xtask deny`: licences, duplicate versions, sources and advisories of the dependencies.

use crate::{Result, output, root, run, tools};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The version of cargo-deny that is installed into the target folder.
const VERSION: &str = "0.20.2";

/// The dependencies that the last check accepted, one `name version` per line.
const CHECKED: &str = "xtask/dependencies.txt";

/// Checks the dependencies and writes the list of them.
pub fn deny() -> Result<()> {
    let program = tools::installed("cargo-deny", VERSION, &[])?;
    let check = |parts: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(root()).args(["check"]).args(parts);
        run(&mut command)
    };
    check(&["licenses", "bans", "sources"])?;
    // The advisories are in a separate repository, which some machines cannot reach.
    let mut fetch = Command::new(&program);
    if output(fetch.current_dir(root()).args(["fetch", "db"])).is_ok() {
        check(&["--disable-fetch", "advisories"])?;
    } else {
        eprintln!("warning: the advisory database is unreachable: advisories were not checked");
    }
    let list = dependencies(&lock_file()?);
    std::fs::write(root().join(CHECKED), list)
        .map_err(|error| format!("cannot write {CHECKED}: {error}"))
}

fn lock_file() -> Result<String> {
    let path: &Path = &root().join("Cargo.lock");
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The packages of a lock file that come from a registry.
fn dependencies(lock: &str) -> String {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim_matches([' ', '=', '"']).to_owned())
    };
    let mut list = String::new();
    for package in lock.split("[[package]]").skip(1) {
        if let (Some(name), Some(version), Some(_)) = (
            value(package, "name"),
            value(package, "version"),
            value(package, "source"),
        ) {
            let _ = writeln!(list, "{name} {version}");
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_was_checked() {
        let checked = std::fs::read_to_string(root().join(CHECKED)).unwrap_or_default();
        let found = dependencies(&lock_file().unwrap());
        assert!(found.lines().count() > 50, "{found}");
        let new: Vec<_> = found
            .lines()
            .filter(|line| !checked.lines().any(|checked| checked == *line))
            .collect();
        assert!(
            new.is_empty() && checked == found,
            "Cargo.lock changed: run `cargo xtask deny` and commit {CHECKED}; new: {new:?}"
        );
    }
}
