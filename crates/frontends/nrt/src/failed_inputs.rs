//! Dumps of the inputs of failed executions, if the environment enables them.

use crate::call::log;
use crate::models::flag;
use crate::profile::{FOLDER, make_folder};
use crate::tensor_sets::HandleSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::{Component, CoreModel};

/// Whether inputs are dumped.
static ON: AtomicBool = AtomicBool::new(false);

/// Reads `NEURON_RT_DBG_DUMP_INPUTS_ON_ERR`, when the runtime starts.
pub(crate) fn set_by_environment() -> Result<()> {
    ON.store(flag("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR")?, Ordering::Relaxed);
    Ok(())
}

/// Dumps the inputs of an execution that failed with `error`, unless the inputs were invalid or
/// missing.
pub(crate) fn dump(model: &CoreModel, inputs: &HandleSet, error: &Error) {
    let has_inputs = !matches!(
        error.kind(),
        ErrorKind::InvalidArgument | ErrorKind::InvalidHandle | ErrorKind::BadInput
    );
    if !has_inputs || !ON.load(Ordering::Relaxed) {
        return;
    }
    let function = "nrt_execute";
    match write(model, inputs) {
        Ok(folder) => log().error(
            Component::Nrt,
            function,
            format_args!(
                "the inputs of the execution that failed are in {}",
                folder.display()
            ),
        ),
        Err(error) => log().problems(Component::Nrt, function, &error),
    }
}

/// Writes each input to a file of its name in a new folder.
fn write(model: &CoreModel, inputs: &HandleSet) -> Result<PathBuf> {
    static FAILURES: AtomicU32 = AtomicU32::new(1);
    make_folder(Path::new(FOLDER))?;
    let (process, number) = (std::process::id(), FAILURES.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(FOLDER).join(format!("failed_inputs_pid_{process}_{number}"));
    // The name is predictable: an existing file may be a link planted by another user, so it is an
    // error.
    std::fs::create_dir(&folder).map_err(|error| Error::io(&folder, "make", error))?;
    for port in model.inputs() {
        let by_name = inputs.tensors.tensor(&port.name);
        let tensor = by_name.or_else(|_| inputs.tensors.tensor(&port.signature.name))?;
        let mut bytes = vec![0; tensor.size()];
        tensor.read(0, &mut bytes)?;
        let path = folder.join(format!("{}.bin", port.name));
        let written = File::create_new(&path).and_then(|mut file| file.write_all(&bytes));
        written.map_err(|error| Error::io(&path, "write", error))?;
    }
    Ok(folder)
}
