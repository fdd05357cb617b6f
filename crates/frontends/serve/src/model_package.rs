//! A model from its file, which is compiled if it is no package.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use tenon::backends::Runtime;
use tenon::neff::{Limits, Package};
use tenon::tensor::BufferMut;
use tenon::{Compiler, Control, Error, LoadOptions, Model, Result};

/// How a model executes.
#[derive(Clone, Default)]
pub struct ExecutionOptions {
    /// The most threads of one execution; all CPUs when `None`.
    pub threads: Option<usize>,
    /// Concurrent executions.
    pub instances: usize,
    /// Whether shared libraries of the package may run in this process.
    pub native_nodes: bool,
    /// The backends; the built-in ones when `None`.
    pub runtime: Option<Runtime>,
}

/// Loads a model; also returns the size of its package in bytes.
///
/// # Errors
/// A file that cannot be read, compiled or loaded.
pub fn load_model(
    path: &Path,
    options: &ExecutionOptions,
    control: &Control,
) -> Result<(Model, u64)> {
    let package = match path.extension().is_some_and(|e| e == "neff") {
        true => read_file(path)?,
        false => {
            let compiler = Compiler::new().control(control.clone());
            BufferMut::copy_of(&compiler.compile_file(path)?.to_bytes()?)?
        }
    };
    let bytes = package.len() as u64;
    let package = Package::from_buffer(package.freeze(), &Limits::default(), control)?;
    let mut load = LoadOptions::new()
        .control(control.clone())
        .threads(options.threads)
        .native_nodes(options.native_nodes)
        .in_flight(options.instances.max(1))
        .max_in_flight(options.instances.max(1));
    load.runtime.clone_from(&options.runtime);
    Ok((Model::from_package(&package, &load)?, bytes))
}

/// The file in memory: one that is mapped must not be truncated while it is served.
fn read_file(path: &Path) -> Result<BufferMut> {
    let failed = |error| Error::io(path, "read", error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut bytes = BufferMut::zeroed(length)?;
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
