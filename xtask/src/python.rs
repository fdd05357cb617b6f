//! Python environments in the target folder, created once for each list of requirements, and the package `tenon`.

use crate::{Result, cargo, python_package, root, run, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter with the packages that tests compare with.
pub fn for_tests() -> Result<PathBuf> {
    environment("python", &["tests/python/requirements.txt"])
}

/// The interpreter with clients of servers, whose requirements contradict those of the other tests.
pub fn for_clients() -> Result<PathBuf> {
    environment("python-clients", &["tests/python/requirements-clients.txt"])
}

/// The same with PyTorch and JAX.
pub fn with_torch() -> Result<PathBuf> {
    let requirements = [
        "tests/python/requirements.txt",
        "tests/python/requirements-torch.txt",
    ];
    environment("python-torch", &requirements)
}

/// The same with the engines that run models on many machines.
pub fn with_engines() -> Result<PathBuf> {
    let requirements = [
        "tests/python/requirements.txt",
        "tests/python/requirements-engines.txt",
    ];
    environment("python-engines", &requirements)
}

/// The interpreter with the runtimes that benchmarks compare with.
pub fn for_benches() -> Result<PathBuf> {
    environment("python-bench", &["xtask/python/requirements.txt"])
}

/// The same with the compilers of tree ensembles.
pub fn for_tree_benches() -> Result<PathBuf> {
    let requirements = [
        "xtask/python/requirements.txt",
        "xtask/python/requirements-trees.txt",
    ];
    environment("python-trees", &requirements)
}

/// The interpreter with the servers that benchmarks compare with.
pub fn for_serve_benches() -> Result<PathBuf> {
    environment("python-serve", &["xtask/python/requirements-serve.txt"])
}

/// The interpreter that can export the full-size models.
pub fn for_models() -> Result<PathBuf> {
    environment("python-models", &["models/requirements.txt"])
}

/// The same with what exports the models of models/zoo.txt.
pub fn for_zoo() -> Result<PathBuf> {
    let requirements = ["models/requirements.txt", "models/zoo/requirements.txt"];
    environment("python-zoo", &requirements)
}

/// The interpreter with the tools that build and check wheels.
pub fn for_wheels() -> Result<PathBuf> {
    environment("python-wheel", &["xtask/python/requirements-wheel.txt"])
}

/// A folder with the package `tenon`, built with the profile `release`.
pub fn tenon_package() -> Result<PathBuf> {
    run(cargo().args(["build", "--release", "--package", "tenon-python"]))?;
    let packages = target().join("release/python-package");
    let library = target().join("release/lib_tenon.so");
    python_package::stage(root(), &library, &packages)?;
    Ok(packages)
}

/// Creates `target/NAME` with the packages of `requirements` (files of the repository), unless they are installed.
fn environment(name: &str, requirements: &[&str]) -> Result<PathBuf> {
    let folder = target().join(name);
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let stamp = folder.join("requirements.installed");
    let mut required = String::new();
    for file in requirements {
        let text = std::fs::read_to_string(root().join(file));
        required += &text.map_err(|error| format!("cannot read {file}: {error}"))?;
    }
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == required) {
        return Ok(folder.join("bin/python"));
    }
    eprintln!("preparing Python in {}", folder.display());
    let python = create(&folder)?;
    let files = requirements.iter().flat_map(|file| ["--requirement", file]);
    run(pip_install(&python).args(files))?;
    std::fs::write(&stamp, required)
        .map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(python)
}

/// Creates an empty environment and returns its interpreter.
pub fn create(folder: &Path) -> Result<PathBuf> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder)).map_err(|error| {
        format!("{error}\nthe tests need Python 3.11 or newer with its venv module (Debian: apt-get install python3-venv)")
    })?;
    Ok(folder.join("bin/python"))
}

/// `pip install` in the root folder, without output.
pub fn pip_install(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.current_dir(root()).args(["-m", "pip", "install"]);
    command.args(["--quiet", "--disable-pip-version-check"]);
    command
}
