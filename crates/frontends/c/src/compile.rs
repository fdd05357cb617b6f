//! Compiling, and `tenon_package`: a compiled model in memory.

use crate::blob::{write_blob, write_handle};
use crate::model::load_options;
use crate::structs::{CompileOptions, Dimension, LoadOptions, State, options, sized_array};
use crate::task::control_of;
use crate::texts::{optional, texts};
use crate::{arrays, status};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use tenon::backends::BackendSetup;
use tenon::{
    BackendId, Compiler, Control, Hint, Location, Package, Pattern, Result, StatePair,
    StateSelection, Weights,
};
use tenon_c_callers::arguments::{self, invalid};
use tenon_c_callers::handles::{Handle, Handles};

static PACKAGES: Handles<Arc<Package>> = Handles::new(0x50, "package");

/// Backends in shared libraries and their options; `None` for those of the environment, without options.
///
/// # Safety
/// `folder` is null or a text, `assignments` null or an array of `count` texts.
pub unsafe fn backend_setup(
    folder: *const c_char,
    assignments: *const *const c_char,
    count: usize,
) -> Result<Option<BackendSetup>> {
    // SAFETY: the conditions of both are this function's.
    let (folder, assignments) = unsafe {
        let folder = optional(folder, "backend_folder")?;
        (folder, texts(assignments, count, "backend_options")?)
    };
    let by_environment = std::env::var_os("TENON_BACKEND_PATH").is_some();
    if folder.is_none() && assignments.is_empty() && !by_environment {
        return Ok(None);
    }
    let assignments: Result<Vec<_>> = assignments.iter().map(|text| text.parse()).collect();
    let setup = BackendSetup::new().options(assignments?);
    Ok(Some(match folder {
        Some(folder) => setup.folder(folder),
        None => setup,
    }))
}

/// Sets the size, range or buckets of a dimension.
///
/// # Safety
/// The pointers of the dimension are null or valid.
unsafe fn dimension(compiler: Compiler, dimension: &Dimension) -> Result<Compiler> {
    let Dimension { min, max, .. } = *dimension;
    // SAFETY: the conditions of both are this function's.
    let (name, buckets) = unsafe {
        let name = arguments::text(dimension.name, "dimension.name")?;
        let buckets = arguments::slice(dimension.buckets, dimension.bucket_count, "buckets")?;
        (name, buckets)
    };
    if min > max {
        let error = invalid(format!("dimension '{name}': min is above max"));
        return Err(error.expected(format_args!("at most {max}")).found(min));
    }
    let compiler = match buckets {
        [] => compiler,
        sizes => compiler.bucket(name, sizes.iter().copied()),
    };
    if !buckets.is_empty() && max == 0 {
        return Ok(compiler);
    }
    Ok(match usize::try_from(min) {
        Ok(size) if min == max => compiler.dim(name, size),
        _ => compiler.dim_range(name, min..=max),
    })
}

/// States of the caller.
///
/// # Safety
/// `start` is null or points to `count` pairs of texts.
pub unsafe fn state_pairs(start: *const State, count: usize) -> Result<Vec<StatePair>> {
    // SAFETY: the condition of `slice` is this function's, and each pair has two texts.
    unsafe {
        let pairs = arguments::slice(start, count, "states")?.iter();
        let pair = |pair: &State| {
            Ok(StatePair {
                output: arguments::text(pair.output, "state.output")?.to_owned(),
                input: arguments::text(pair.input, "state.input")?.to_owned(),
            })
        };
        pairs.map(pair).collect()
    }
}

/// The compiler with the options of the caller.
///
/// # Safety
/// `from` is null or points to options, whose pointers are null or valid (header).
pub unsafe fn compiler(from: *const CompileOptions) -> Result<Compiler> {
    // SAFETY: the conditions of all are this function's.
    unsafe {
        let given = options(from, "options")?;
        let mut compiler = Compiler::new()
            .control(control_of(given.task)?)
            .symbolic(given.fixed_sizes == 0);
        for size in sized_array(given.dimensions, given.dimension_count, "dimensions")? {
            compiler = dimension(compiler, &size)?;
        }
        for padding in arguments::slice(given.paddings, given.padding_count, "paddings")? {
            let input = arguments::text(padding.input, "padding.input")?;
            compiler = compiler.pad(input, arguments::text(padding.value, "padding.value")?);
        }
        for (name, value) in arrays::named(given.constants, given.constant_count, "constants")? {
            compiler = compiler.constant(name, value);
        }
        let known = arrays::named(given.known_inputs, given.known_input_count, "known_inputs")?;
        for (name, value) in known {
            compiler = compiler.known_input(name, value);
        }
        let backends = texts(given.backends, given.backend_count, "backends")?;
        compiler = compiler.backends(
            backends
                .into_iter()
                .map(|id| BackendId::from(id.to_owned())),
        );
        for hint in arguments::slice(given.hints, given.hint_count, "hints")? {
            compiler = compiler.hint(Hint {
                pattern: Pattern::new(arguments::text(hint.pattern, "hint.pattern")?),
                backend: arguments::text(hint.backend, "hint.backend")?
                    .to_owned()
                    .into(),
            });
        }
        for folder in texts(
            given.linked_folders,
            given.linked_folder_count,
            "linked_folders",
        )? {
            compiler = compiler.linked_folder(folder);
        }
        if let Some(level) = optional(given.cpu_level, "cpu_level")? {
            compiler = compiler.cpu_level(level.parse()?);
        }
        for rule in texts(given.precisions, given.precision_count, "precisions")? {
            compiler = compiler.precision_rule(rule.parse()?);
        }
        if let Some(signature) = optional(given.signature, "signature")? {
            compiler = compiler.signature(signature);
        }
        let mut weights = Weights::default();
        for file in texts(given.weights, given.weight_count, "weights")? {
            let added = weights.add(Weights::read(file)?);
            added.map_err(|error| error.at(Location::file(file)))?;
        }
        compiler = compiler.weights(weights);
        let pairs = state_pairs(given.state_pairs, given.state_pair_count)?;
        compiler = compiler.states(match given.states {
            0 => StateSelection::None,
            1 => StateSelection::Automatic,
            2 => StateSelection::Pairs(pairs),
            other => {
                let error = invalid("options.states is no tenon_states");
                return Err(error.expected("0, 1 or 2").found(other));
            }
        });
        let setup = backend_setup(
            given.backend_folder,
            given.backend_options,
            given.backend_option_count,
        )?;
        Ok(match setup {
            Some(setup) => compiler.registry(setup.load()?.registry),
            None => compiler,
        })
    }
}

/// Writes the handle of a package, which later calls write and load without the control of its compilation.
///
/// # Safety
/// `to` is null or valid for writing a handle.
unsafe fn write_package(to: *mut Handle, package: Package) -> Result<()> {
    let package = Arc::new(package.control(Control::new()));
    // SAFETY: the condition of `write_handle` is this function's.
    unsafe { write_handle(to, "package", &PACKAGES, package) }
}

pub unsafe extern "C" fn compile_file(
    onnx: *const c_char,
    options: *const CompileOptions,
    package: *mut Handle,
) -> Handle {
    // SAFETY: a text, options and a place for the handle, or null (header).
    status::of(|| unsafe {
        let path = arguments::path(onnx, "onnx")?;
        arguments::check(package, "package")?;
        write_package(package, compiler(options)?.compile_file(path)?)
    })
}

pub unsafe extern "C" fn compile_bytes(
    onnx: *const c_void,
    length: usize,
    options: *const CompileOptions,
    package: *mut Handle,
) -> Handle {
    // SAFETY: `length` bytes, options and a place for the handle, or null (header).
    status::of(|| unsafe {
        let bytes = arguments::slice(onnx.cast::<u8>(), length, "onnx")?;
        arguments::check(package, "package")?;
        write_package(package, compiler(options)?.compile_bytes(bytes.to_vec())?)
    })
}

pub unsafe extern "C" fn package_write(
    package: Handle,
    path: *const c_char,
    control: Handle,
) -> Handle {
    status::of(|| {
        let package = PACKAGES.find(package)?;
        // SAFETY: null or a text (header).
        let path = unsafe { arguments::path(path, "path")? };
        Package::clone(&package)
            .control(control_of(control)?)
            .write(path)
    })
}

pub unsafe extern "C" fn package_bytes(
    package: Handle,
    control: Handle,
    bytes: *mut Handle,
) -> Handle {
    status::of(|| {
        let package = Package::clone(&*PACKAGES.find(package)?);
        let made = package.control(control_of(control)?).to_bytes()?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_blob(bytes, "bytes", made) }
    })
}

pub unsafe extern "C" fn package_placement(package: Handle, json: *mut Handle) -> Handle {
    status::of(|| {
        let package = PACKAGES.find(package)?;
        let text = crate::blob::json(package.placement_report())?;
        // SAFETY: null or valid for writing (header).
        unsafe { write_blob(json, "json", text) }
    })
}

pub unsafe extern "C" fn package_load(
    package: Handle,
    options: *const LoadOptions,
    model: *mut Handle,
) -> Handle {
    status::of(|| {
        let package = PACKAGES.find(package)?;
        // SAFETY: options and a place for the handle, or null (header).
        unsafe {
            arguments::check(model, "model")?;
            crate::model::write_model(model, package.load(&load_options(options)?)?)
        }
    })
}

pub extern "C" fn package_free(package: Handle) -> Handle {
    status::freed(&PACKAGES, package)
}
