//! Tensors in memory of a backend's own: the way there and back, and of memory that is lent.

use crate::report::Report;
use tenon_backend::{
    Backend, HandleFactory, ImportedMemory, MemorySource, TensorHandle, edge_strategy,
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
        ("to it", edge_strategy(&[], &factories)),
        ("from it", edge_strategy(&factories, &[])),
    ] {
        match passed {
            Some(strategy) => report.passed("tensors pass", format!("{what} by {strategy:?}")),
            None => report.failed("tensors pass", format!("there is no way {what}")),
        }
    }
    let work = || -> Result<String> {
        let sample = Tensor::from_slice([5], &[1.0f32, -2.0, 3.5, 0.0, 9.0])?;
        let mut told = Vec::new();
        for factory in factories.iter().filter(|factory| factory.map) {
            let mut handle = backend.tensor_handle(&factory.id, sample.ty())?;
            handle.copy_in(sample.bytes())?;
            let mut back = vec![0; sample.bytes().len()];
            handle.copy_out(&mut back)?;
            if back != sample.bytes() {
                return Err(wrong(format!("{} loses elements", factory.id)));
            }
            if handle.copy_in(&back[1..]).is_ok() {
                return Err(wrong(format!("{} takes too few bytes", factory.id)));
            }
            exported(&*handle, factory, &sample)?;
            imported(backend, factory, &sample)?;
            told.push(format!(
                "{} (imports {}, exports {})",
                factory.id, factory.import, factory.export
            ));
        }
        Ok(told.join(", "))
    };
    report.told(NAME, work());
}

/// What is exported as plain memory is read where it lies.
fn exported(handle: &dyn TensorHandle, factory: &HandleFactory, sample: &Tensor) -> Result<()> {
    if !factory.export.contains(MemorySource::Malloc) || factory.padding {
        return Ok(());
    }
    // SAFETY: a tensor of this size in memory that the CPU may read, which nobody writes.
    let lying = unsafe { std::slice::from_raw_parts(handle.start(), sample.bytes().len()) };
    if lying == sample.bytes() {
        Ok(())
    } else {
        Err(wrong(format!("{} exports other elements", factory.id)))
    }
}

/// A tensor made of memory that is lent, where the factory imports plain memory.
fn imported(backend: &dyn Backend, factory: &HandleFactory, sample: &Tensor) -> Result<()> {
    let source = MemorySource::Malloc;
    if !factory.import.contains(source) || factory.padding {
        return Ok(());
    }
    let mut lent = BufferMut::copy_of(sample.bytes())?;
    let memory = ImportedMemory {
        start: lent.as_mut_ptr(),
        bytes: lent.len(),
        source,
    };
    // SAFETY: a buffer that is dropped behind the tensor and not touched before.
    let handle = unsafe { backend.import_tensor(&factory.id, sample.ty(), memory)? };
    let mut back = vec![0; sample.bytes().len()];
    handle.copy_out(&mut back)?;
    drop(handle);
    if back == *lent {
        Ok(())
    } else {
        Err(wrong(format!("{} imports other elements", factory.id)))
    }
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, text)
}
