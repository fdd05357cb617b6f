//! Python environments in the target folder, created once for each list of requirements.

use crate::{Result, root, run, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter with the packages that tests compare with.
pub fn for_tests() -> Result<PathBuf> {
    environment("python", &root().join("tests/python/requirements.txt"))
}

/// The interpreter with the runtimes that benchmarks compare with.
pub fn for_benches() -> Result<PathBuf> {
    let requirements = root().join("xtask/python/requirements.txt");
    environment("python-bench", &requirements)
}

/// The interpreter that can export the full-size models.
pub fn for_models() -> Result<PathBuf> {
    environment("python-models", &root().join("models/requirements.txt"))
}

/// Creates `target/NAME` with `requirements` installed, unless they are installed.
fn environment(name: &str, requirements: &Path) -> Result<PathBuf> {
    let folder = target().join(name);
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.installed");
    let required = std::fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == required) {
        return Ok(python);
    }
    eprintln!("preparing Python in {}", folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).map_err(|error| {
        format!("{error}\nthe tests need Python 3.11 or newer with its venv module (Debian: apt-get install python3-venv)")
    })?;
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(requirements))?;
    std::fs::write(&stamp, required)
        .map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(python)
}
