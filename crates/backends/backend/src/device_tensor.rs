//! Tensors in the memory of a backend that belong to an application.

#![allow(unsafe_code, reason = "memory that other libraries own")]

use crate::{
    Backend, HandleFactory, ImportedMemory, MemorySource, Stream, TensorHandle, preferred_factory,
};
use std::fmt;
use std::sync::{Arc, Mutex};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::dlpack::{Device, DlpackTensor};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// A tensor in the memory of a backend: one that an application has allocated there, the output of a model, or one of
/// another library by DLPack. It may be bound as an input of models of the backend, without a copy.
pub struct DeviceTensor {
    /// Declared before the backend, whose object it is.
    handle: Box<dyn TensorHandle>,
    ty: TensorType,
    factory: HandleFactory,
    backend: Arc<dyn Backend>,
}

impl DeviceTensor {
    /// Allocates a tensor, of zeros if the backend does not say otherwise.
    ///
    /// # Errors
    /// A backend that computes in memory of the host, and one whose memory is exhausted.
    pub fn new(backend: &Arc<dyn Backend>, ty: &TensorType) -> Result<Self> {
        let factory = factory_of(&**backend)?;
        let handle = backend.tensor_handle(&factory.id, ty)?;
        Ok(Self::of(handle, ty, factory, backend))
    }

    /// The tensor of a handle of the factory, which `backend` created.
    pub fn of(
        handle: Box<dyn TensorHandle>,
        ty: &TensorType,
        factory: HandleFactory,
        backend: &Arc<dyn Backend>,
    ) -> Self {
        Self {
            handle,
            ty: ty.clone(),
            factory,
            backend: backend.clone(),
        }
    }

    /// The tensor of another library. It is used where it is if the backend imports memory of its device; a tensor in
    /// memory of the host is else copied.
    ///
    /// # Safety
    /// While the result is used, no other code may write the elements; nor read them while the result is written,
    /// which models do with outputs alone.
    ///
    /// # Errors
    /// A tensor of another device, one that is not contiguous, and a type that Tenon does not have.
    pub unsafe fn from_dlpack(backend: &Arc<dyn Backend>, tensor: DlpackTensor) -> Result<Self> {
        let factory = factory_of(&**backend)?;
        let (ty, device, start) = (tensor.ty()?, tensor.device()?, tensor.start()?);
        let imports = |source| factory.import.contains(source) && !factory.padding;
        let source = if factory.device == Some(device) && imports(MemorySource::Device) {
            MemorySource::Device
        } else if device.is_host() {
            // SAFETY: the caller guarantees that no code writes the elements.
            let tensor = unsafe { tensor.into_tensor()? };
            let mut new = Self::new(backend, &ty)?;
            new.write(&tensor)?;
            return Ok(new);
        } else {
            let text = format!("the tensor is in memory that {} cannot use", backend.id());
            let mut error = Error::new(ErrorKind::InvalidArgument, text);
            if let Some(own) = factory.device {
                error = error.expected(name_of(own));
            }
            return Err(error.found(name_of(device)));
        };
        let memory = ImportedMemory {
            is_long_lived: true,
            is_read_only: tensor.is_read_only(),
            ..ImportedMemory::new(start, ty.bytes(), source)
        };
        // SAFETY: the bytes are valid until the other library's tensor is released, after the handle; the caller
        // guarantees that no other code accesses them in conflict.
        let handle = unsafe { backend.import_tensor(&factory.id, &ty, memory)? };
        let handle = Box::new(ImportedTensor {
            handle,
            _owner: tensor,
        });
        Ok(Self::of(handle, &ty, factory, backend))
    }

    /// The tensor for other libraries, by its address on the device.
    ///
    /// # Errors
    /// A backend that does not export memory, and a type that DLPack does not have.
    pub fn into_dlpack(self) -> Result<DlpackTensor> {
        let exports = |source| self.factory.export.contains(source) && !self.factory.padding;
        let device = match self.factory.device {
            Some(device) if exports(MemorySource::Device) => device,
            _ if exports(MemorySource::Malloc) => Device::CPU,
            _ => {
                let text = format!("{} does not export its memory", self.backend.id());
                return Err(Error::new(ErrorKind::Unsupported, text)
                    .help("read the tensor, and export the copy"));
            }
        };
        let (ty, start) = (self.ty.clone(), self.handle.start());
        // SAFETY: the handle owns the bytes at its address on the device (`TensorHandle`), and nothing else accesses
        // them until it is dropped.
        unsafe { DlpackTensor::new(&ty, device, start, false, Shared(Mutex::new(self))) }
    }

    /// Copies a tensor of the same type in.
    pub fn write(&mut self, tensor: &Tensor) -> Result<()> {
        if *tensor.ty() != self.ty {
            let text = "a tensor of another type is written";
            let error = Error::new(ErrorKind::InvalidArgument, text);
            return Err(error.expected(&self.ty).found(tensor.ty()));
        }
        self.handle.copy_in(tensor.bytes())
    }

    /// A copy in memory of the host.
    pub fn read(&self) -> Result<Tensor> {
        let mut bytes = BufferMut::zeroed(self.ty.bytes())?;
        self.copy_out(&mut bytes)?;
        Tensor::new(self.ty.clone(), bytes.freeze())
    }

    /// Copies its elements to memory of the host of the same size.
    pub fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.handle.copy_out(bytes)
    }

    /// Its type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The backend in whose memory it is.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The kind of its memory.
    pub fn factory(&self) -> &HandleFactory {
        &self.factory
    }

    /// The tensor as backends see it.
    pub fn into_handle(self) -> Box<dyn TensorHandle> {
        self.handle
    }
}

impl fmt::Debug for DeviceTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceTensor({} on {})", self.ty, self.backend.id())
    }
}

/// A tensor that another library owns; it is released after the handle.
struct ImportedTensor {
    handle: Box<dyn TensorHandle>,
    _owner: DlpackTensor,
}

// SAFETY: address and bytes are those of the handle, which fulfils the contract.
unsafe impl TensorHandle for ImportedTensor {
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.handle.copy_in(bytes)
    }

    fn copy_out(&self, bytes: &mut [u8]) -> Result<()> {
        self.handle.copy_out(bytes)
    }

    fn start(&self) -> *mut u8 {
        self.handle.start()
    }

    unsafe fn enqueue_in(&mut self, stream: &mut dyn Stream, bytes: *const [u8]) -> Result<()> {
        // SAFETY: the caller guarantees the condition of this function.
        unsafe { self.handle.enqueue_in(stream, bytes) }
    }

    unsafe fn enqueue_out(&self, stream: &mut dyn Stream, bytes: *mut [u8]) -> Result<()> {
        // SAFETY: the caller guarantees the condition of this function.
        unsafe { self.handle.enqueue_out(stream, bytes) }
    }
}

/// The owner of an exported tensor, which other threads may release.
struct Shared(#[allow(dead_code, reason = "only dropped")] Mutex<DeviceTensor>);

/// The factory in whose memory a backend computes.
fn factory_of(backend: &dyn Backend) -> Result<HandleFactory> {
    let factories = backend.handle_factories();
    preferred_factory(&factories).cloned().ok_or_else(|| {
        let text = format!("{} has no memory for tensors of applications", backend.id());
        Error::new(ErrorKind::Unsupported, text).help("it computes on tensors of the host")
    })
}

fn name_of(device: Device) -> String {
    format!("device {} of DLPack type {}", device.index, device.kind)
}
