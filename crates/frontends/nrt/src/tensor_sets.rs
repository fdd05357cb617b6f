//! Sets of named tensors.

use crate::call::{attempt, entry};
use crate::handles::{Handle, Handles, table};
use crate::{process, tensors};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{self, check, text, write_output};
use tenon_runtime::TensorSet;

/// Every set.
pub(crate) static SETS: Handles<Arc<HandleSet>> = table(0x53, "tensor set");

/// A set with the handles of its tensors, which `nrt_get_tensor_from_tensor_set` returns.
pub(crate) struct HandleSet {
    pub tensors: TensorSet,
    handles: Mutex<HashMap<Box<str>, usize>>,
}

/// The set of a handle.
#[inline]
pub(crate) fn set(handle: *const c_void) -> Result<Arc<HandleSet>> {
    process::check()?;
    SETS.find(handle)
}

entry! {
    fn nrt_allocate_tensor_set(result: *mut Handle) {
        process::check()?;
        check(result, "result")?;
        let set = Arc::new(HandleSet { tensors: TensorSet::new(), handles: Mutex::default() });
        // SAFETY: `result` is null or writable (header).
        unsafe { write_output(result, "result", SETS.insert(set)?) }
    }

    fn nrt_destroy_tensor_set(tensor_set: *mut Handle) -> () {
        let _ = attempt("nrt_destroy_tensor_set", || {
            process::check()?;
            // SAFETY: `tensor_set` is null or readable, and not written during the call (header).
            let handle = unsafe { *arguments::read_input(tensor_set, "tensor_set")? };
            if !handle.is_null() {
                SETS.remove(handle)?;
            }
            // SAFETY: `tensor_set` is null or writable (header).
            unsafe { write_output(tensor_set, "tensor_set", std::ptr::null_mut()) }
        });
    }

    fn nrt_add_tensor_to_tensor_set(
        tensor_set: *mut c_void, tensor_name: *const c_char, tensor: *mut c_void,
    ) {
        let set = set(tensor_set)?;
        // SAFETY: `tensor_name` is null or NUL-terminated (header).
        let name = unsafe { text(tensor_name, "tensor_name")? };
        let value = tensors::tensor(tensor)?;
        let mut handles = set.handles.lock().unwrap_or_else(PoisonError::into_inner);
        set.tensors.add(name, &value);
        handles.insert(name.into(), tensor.addr());
        Ok(())
    }

    fn nrt_get_tensor_from_tensor_set(
        tensor_set: *mut c_void, tensor_name: *const c_char, tensor: *mut Handle,
    ) {
        let set = set(tensor_set)?;
        check(tensor, "tensor")?;
        // SAFETY: `tensor_name` is null or NUL-terminated (header).
        let name = unsafe { text(tensor_name, "tensor_name")? };
        let handles = set.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&number) = handles.get(name) else {
            let mut names: Vec<&str> = handles.keys().map(|name| &**name).collect();
            names.sort_unstable();
            // `NRT_FAILURE` (nrt 1.1).
            let text = format!("the set has no tensor '{name}'");
            return Err(Error::new(ErrorKind::Absent, text).expected(names.join(", ")));
        };
        let handle: Handle = std::ptr::without_provenance_mut(number);
        tensors::TENSORS.find(handle)?;
        // SAFETY: `tensor` is null or writable (header).
        unsafe { write_output(tensor, "tensor", handle) }
    }
}
