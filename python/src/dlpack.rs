//! DLPack capsules, read and made: <https://dmlc.github.io/dlpack/latest/python_spec.html>.

#![allow(unsafe_code, reason = "pointers of capsules")]

use crate::error::{Failure, invalid};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;
use tenon::tensor::SharedMemory;
use tenon::tensor::dlpack::{Device, DlpackTensor, LegacyTensor, VersionedTensor};
use tenon::{Tensor, TensorType};

const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const LEGACY: &CStr = c"dltensor";
const USED_LEGACY: &CStr = c"used_dltensor";

/// The tensor of an object with `__dlpack__`: shared if it is contiguous and aligned, otherwise a copy.
pub fn read(value: &Bound<'_, PyAny>) -> Result<Tensor, Failure> {
    let tensor = exported(value)?;
    if tensor.ty().is_ok() {
        // SAFETY: that no other thread writes the elements during an execution is the condition that docs/python.md
        // states for every array.
        return Ok(unsafe { tensor.into_tensor() }?);
    }
    // SAFETY: this thread is attached to Python and writes nothing.
    Ok(unsafe { tensor.copied() }?)
}

/// Takes the tensor out of the capsule that an object exports.
fn exported(value: &Bound<'_, PyAny>) -> Result<DlpackTensor, Failure> {
    let py = value.py();
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 1))?;
    let capsule = match value.call_method("__dlpack__", (), Some(&options)) {
        Ok(capsule) => capsule,
        // A library from before version 1.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            value.call_method0("__dlpack__")?
        }
        Err(error) => return Err(error.into()),
    };
    let not_a_capsule = || Failure::from(invalid("__dlpack__ did not return a DLPack capsule"));
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| not_a_capsule())?;
    if capsule.is_valid_checked(Some(VERSIONED)) {
        let tensor = capsule
            .pointer_checked(Some(VERSIONED))?
            .cast::<VersionedTensor>();
        rename(capsule, USED_VERSIONED)?;
        // SAFETY: a capsule of this name points to a `DLManagedTensorVersioned`, which belongs to the consumer that
        // renamed it, with a deleter for any thread (the protocol).
        return Ok(unsafe { DlpackTensor::from_versioned(tensor) });
    }
    if capsule.is_valid_checked(Some(LEGACY)) {
        let tensor = capsule
            .pointer_checked(Some(LEGACY))?
            .cast::<LegacyTensor>();
        rename(capsule, USED_LEGACY)?;
        // SAFETY: as above, of a `DLManagedTensor`.
        return Ok(unsafe { DlpackTensor::from_legacy(tensor) });
    }
    Err(not_a_capsule())
}

/// Marks a capsule as used, so that its destructor leaves the tensor alone.
fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: a live capsule, and a name that is never freed.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// A capsule of a tensor in memory of Tenon, in the form of version 1 or the one before.
pub fn export<'py>(
    py: Python<'py>,
    ty: &TensorType,
    memory: &Arc<SharedMemory>,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let start = memory.start();
    // SAFETY: the memory has the bytes of the type at this address as long as the owner lives, and may be written.
    let tensor = unsafe { DlpackTensor::new(ty, Device::CPU, start, false, memory.clone()) };
    let refused = |text: String| pyo3::exceptions::PyBufferError::new_err(text);
    let tensor = tensor.map_err(|error| refused(error.to_string()))?;
    let (pointer, name, destructor) = if is_versioned {
        let pointer = tensor.into_versioned();
        let pointer = pointer.map_err(|_| refused("a tensor of an old version".into()))?;
        (
            pointer.cast(),
            VERSIONED,
            delete_versioned as ffi::PyCapsule_Destructor,
        )
    } else {
        let pointer = tensor.into_legacy();
        let pointer = pointer.map_err(|error| refused(error.to_string()))?;
        (
            pointer.cast(),
            LEGACY,
            delete_legacy as ffi::PyCapsule_Destructor,
        )
    };
    // SAFETY: the pointer is that of a tensor of the name's form, valid until its deleter is called: by the consumer
    // that renames the capsule, or by the destructor.
    let capsule =
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destructor)) };
    Ok(capsule?.into_any())
}

/// Takes the pointer of a capsule that no consumer has renamed.
///
/// # Safety
/// A live capsule.
unsafe fn unused(capsule: *mut ffi::PyObject, name: &CStr) -> Option<NonNull<std::ffi::c_void>> {
    // SAFETY: a live capsule (requirement) and a name with a terminator.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
            return None;
        }
        NonNull::new(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()))
    }
}

unsafe extern "C" fn delete_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this once with the capsule of `export`; without a consumer the tensor belongs to it.
    unsafe {
        if let Some(tensor) = unused(capsule, VERSIONED) {
            drop(DlpackTensor::from_versioned(tensor.cast()));
        }
    }
}

unsafe extern "C" fn delete_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `delete_versioned`.
    unsafe {
        if let Some(tensor) = unused(capsule, LEGACY) {
            drop(DlpackTensor::from_legacy(tensor.cast()));
        }
    }
}
