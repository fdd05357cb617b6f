//! From a package to a model, with the built-in backends.

use std::path::Path;
use std::sync::OnceLock;
use tenon_backend::Registry;
use tenon_base::{Error, Result};
use tenon_bef::Module;
use tenon_neff::{Contents, Package};
use tenon_runtime::{LoadOptions, Model, Runtime};

/// The built-in backends, in order of preference.
pub fn backends() -> Registry {
    tenon_builtin::registry()
}

/// Loads a package with the built-in backends and kernels.
pub fn load(package: &Package, options: &LoadOptions) -> Result<Model> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels()));
    Model::load(runtime, package, options)
}

/// Opens and loads a package.
pub fn load_file(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
    let path = path.as_ref();
    let package = Package::open(path, &options.control)?;
    load(&package, options).map_err(|error: Error| error.at(tenon_base::Location::file(path)))
}

/// The host program of a package.
pub fn program(contents: &Contents) -> Result<Module> {
    tenon_bef::decode(&contents.program)
}

/// Threads that an execution uses unless told otherwise.
pub fn threads() -> usize {
    tenon_base::pool::threads()
}

/// What this machine does at most: GFLOP/s of f32 multiply-adds on up to `threads` threads.
pub fn multiply_add_ceiling(threads: usize) -> f64 {
    tenon_builtin::multiply_add_ceiling(threads)
}
