//! Tensor memory of a backend: copies in both directions, import and export.

#![allow(
    unsafe_code,
    reason = "an allocator, the heap in use and borrowed memory"
)]

use crate::report::Report;
use tenon_backend::{
    Backend, HandleFactory, ImportedMemory, MemorySource, TensorHandle, common_source,
    edge_strategy,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{BufferMut, Tensor};

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "tensor memory";
    let factories = backend.handle_factories();
    if factories.is_empty() {
        return report.skipped(NAME, "plain memory of the caller");
    }
    for (what, passed) in [
        ("to the backend", edge_strategy(&[], &factories)),
        ("from the backend", edge_strategy(&factories, &[])),
    ] {
        match passed {
            Some(strategy) => report.passed("tensors pass", format!("{what} by {strategy:?}")),
            None => report.failed("tensors pass", format!("no strategy {what}")),
        }
    }
    let work = || -> Result<String> {
        let sample = Tensor::from_slice([5], &[1.0f32, -2.0, 3.5, 0.0, 9.0])?;
        let mut checked = Vec::new();
        for factory in factories.iter().filter(|factory| factory.map) {
            let mut handle = backend.tensor_handle(&factory.id, sample.ty())?;
            handle.copy_in(sample.bytes())?;
            let mut back = vec![0; sample.bytes().len()];
            handle.copy_out(&mut back)?;
            if back != sample.bytes() {
                return Err(wrong(format!("{} changes elements", factory.id)));
            }
            if handle.copy_in(&back[1..]).is_ok() {
                return Err(wrong(format!("{} accepts too few bytes", factory.id)));
            }
            exported(&*handle, factory, &sample)?;
            imported(backend, factory, &sample)?;
            passed_on_device(backend, &*handle, factory, &sample)?;
            checked.push(format!(
                "{} (imports {}, exports {})",
                factory.id, factory.import, factory.export
            ));
        }
        Ok(checked.join(", "))
    };
    report.result(NAME, work());
}

/// Exported plain memory must be readable in place.
fn exported(handle: &dyn TensorHandle, factory: &HandleFactory, sample: &Tensor) -> Result<()> {
    if !factory.export.contains(MemorySource::Malloc) || factory.padding {
        return Ok(());
    }
    // SAFETY: the tensor exports plain memory, so `start` is valid for reads of its bytes by the
    // CPU while the handle lives, and no workload writes it (`TensorHandle`).
    let bytes = unsafe { std::slice::from_raw_parts(handle.start(), sample.bytes().len()) };
    if bytes == sample.bytes() {
        Ok(())
    } else {
        Err(wrong(format!("{} exports other elements", factory.id)))
    }
}

/// Import of plain memory, if the factory supports it.
fn imported(backend: &dyn Backend, factory: &HandleFactory, sample: &Tensor) -> Result<()> {
    let source = MemorySource::Malloc;
    if !factory.import.contains(source) || factory.padding {
        return Ok(());
    }
    let mut plain = BufferMut::copy_of(sample.bytes())?;
    let memory = ImportedMemory::new(plain.as_mut_ptr(), plain.len(), source);
    // Memory for one execution, and memory that stays.
    for is_long_lived in [false, true] {
        let memory = ImportedMemory {
            is_long_lived,
            is_read_only: true,
            ..memory
        };
        // SAFETY: the buffer is as large as the tensor, initialised, dropped after the handle, and not
        // accessed before.
        let handle = unsafe { backend.import_tensor(&factory.id, sample.ty(), memory)? };
        check_elements(&*handle, factory, sample)?;
    }
    Ok(())
}

/// Import of the memory that the factory exports, by its address on the device.
fn passed_on_device(
    backend: &dyn Backend,
    handle: &dyn TensorHandle,
    factory: &HandleFactory,
    sample: &Tensor,
) -> Result<()> {
    if common_source(factory, factory) != Some(MemorySource::Device) || factory.padding {
        return Ok(());
    }
    let bytes = sample.bytes().len();
    let memory = ImportedMemory::new(handle.start(), bytes, MemorySource::Device);
    // SAFETY: the memory is that of a tensor of the same type, which outlives the import and is not accessed.
    let imported = unsafe { backend.import_tensor(&factory.id, sample.ty(), memory)? };
    check_elements(&*imported, factory, sample)
}

fn check_elements(
    imported: &dyn TensorHandle,
    factory: &HandleFactory,
    sample: &Tensor,
) -> Result<()> {
    let mut back = vec![0; sample.bytes().len()];
    imported.copy_out(&mut back)?;
    if back == sample.bytes() {
        Ok(())
    } else {
        Err(wrong(format!("{} imports other elements", factory.id)))
    }
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, text)
}
