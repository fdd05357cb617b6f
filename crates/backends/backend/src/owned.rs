//! Operands of a workload that is executed separately, from tensors.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    Backend, EdgeStrategy, HandleFactory, ImportedMemory, InPlace, MemorySource, Operands,
    RawOperand, TensorHandle, Workload, edge_strategy, preferred_factory,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{ALIGNMENT, BufferMut, Tensor, TensorType};

/// Operands from tensors: inputs are shared, outputs and scratch memory are owned.
pub struct OwnedOperands {
    inputs: Vec<Option<Input>>,
    outputs: Vec<Option<Output>>,
    scratch: BufferMut,
}

struct Input {
    /// Declared before the tensor, whose memory it may use: dropped first.
    handle: Option<Handle>,
    tensor: Tensor,
    /// The output whose memory the input shares, if in place.
    place: Option<usize>,
}

struct Output {
    handle: Option<Handle>,
    ty: TensorType,
    bytes: BufferMut,
}

/// A tensor in the memory of a backend.
struct Handle {
    tensor: Box<dyn TensorHandle>,
    /// Whether the memory is the backend's own, to and from which elements are copied.
    copied: bool,
}

impl OwnedOperands {
    /// Operands that read `inputs` and allocate outputs of the given types, for a workload in plain
    /// memory.
    pub fn new(
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
        scratch_bytes: usize,
    ) -> Result<Self> {
        Self::with_memory(inputs, outputs, scratch_bytes, BufferMut::zeroed)
    }

    /// As [`new`](Self::new), with output memory of the caller, whose contents are ignored.
    pub fn with_memory(
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
        scratch_bytes: usize,
        memory: impl FnMut(usize) -> Result<BufferMut>,
    ) -> Result<Self> {
        Self::made(inputs, outputs, scratch_bytes, |_, _| Ok(None), memory)
    }

    /// As [`new`](Self::new), for a workload of `backend`: in the tensor memory of the backend, if
    /// it has its own.
    pub fn of(
        backend: &dyn Backend,
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
        scratch_bytes: usize,
    ) -> Result<Self> {
        Self::of_memory(backend, inputs, outputs, scratch_bytes, BufferMut::zeroed)
    }

    /// As [`of`](Self::of), with output memory of the caller, whose contents are ignored.
    pub fn of_memory(
        backend: &dyn Backend,
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
        scratch_bytes: usize,
        memory: impl FnMut(usize) -> Result<BufferMut>,
    ) -> Result<Self> {
        let factories = backend.handle_factories();
        let handle = |ty: &TensorType, start| handle(backend, &factories, ty, start);
        Self::made(inputs, outputs, scratch_bytes, handle, memory)
    }

    /// Places an input in the memory of an output of the same size, for one execution in place.
    pub fn place(&mut self, InPlace { input, output }: InPlace) -> Result<()> {
        let pair = (self.inputs.get_mut(input), self.outputs.get_mut(output));
        let unfit = || {
            Error::new(
                ErrorKind::InvalidArgument,
                "operands that cannot share memory",
            )
        };
        let (Some(Some(input)), Some(Some(made))) = pair else {
            return Err(unfit());
        };
        let bytes = input.tensor.bytes();
        if bytes.len() != made.bytes.len() {
            return Err(unfit().expected(made.bytes.len()).found(bytes.len()));
        }
        made.bytes.copy_from_slice(bytes);
        if let Some(handle) = made.handle.as_mut().filter(|handle| handle.copied) {
            handle.tensor.copy_in(bytes)?;
        }
        input.place = Some(output);
        Ok(())
    }

    /// Omits an input that the workload does not read.
    pub fn omit_input(&mut self, input: usize) {
        if let Some(input) = self.inputs.get_mut(input) {
            *input = None;
        }
    }

    /// `handle` creates the backend's tensor for memory that outlives it.
    fn made(
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
        scratch_bytes: usize,
        handle: impl Fn(&TensorType, *mut u8) -> Result<Option<Handle>>,
        mut memory: impl FnMut(usize) -> Result<BufferMut>,
    ) -> Result<Self> {
        let input = |tensor: &Tensor| {
            let tensor = aligned(tensor)?;
            let start = tensor.bytes().as_ptr().cast_mut();
            let mut handle = handle(tensor.ty(), start)?;
            if let Some(handle) = handle.as_mut().filter(|handle| handle.copied) {
                handle.tensor.copy_in(tensor.bytes())?;
            }
            Ok(Input {
                handle,
                tensor,
                place: None,
            })
        };
        let mut output = |ty: &TensorType| {
            let mut bytes = memory(ty.bytes())?;
            Ok(Output {
                handle: handle(ty, bytes.as_mut_ptr())?,
                ty: ty.clone(),
                bytes,
            })
        };
        Ok(Self {
            inputs: inputs
                .iter()
                .map(|tensor| tensor.map(input).transpose())
                .collect::<Result<_>>()?,
            outputs: outputs
                .iter()
                .map(|ty| ty.as_ref().map(&mut output).transpose())
                .collect::<Result<_>>()?,
            scratch: memory(scratch_bytes)?,
        })
    }

    /// Executes `workload` on the operands; may be called repeatedly.
    pub fn execute(&mut self, workload: &dyn Workload) -> Result<()> {
        self.execute_timed(workload, false)
    }

    /// The same, with its parts timed if `timed`.
    pub fn execute_timed(&mut self, workload: &dyn Workload, timed: bool) -> Result<()> {
        let write = |output: &mut Output| {
            let plain = output.bytes.as_mut_ptr();
            RawOperand::new(start(&output.handle, plain), output.bytes.len())
        };
        let outputs: Vec<RawOperand> = self
            .outputs
            .iter_mut()
            .map(|output| output.as_mut().map_or(RawOperand::NONE, write))
            .collect();
        let read = |input: &Input| {
            let placed = input.place.and_then(|output| outputs.get(output));
            placed.copied().unwrap_or_else(|| {
                let plain = input.tensor.bytes().as_ptr().cast_mut();
                RawOperand::new(start(&input.handle, plain), input.tensor.bytes().len())
            })
        };
        let inputs: Vec<RawOperand> = self
            .inputs
            .iter()
            .map(|input| input.as_ref().map_or(RawOperand::NONE, read))
            .collect();
        let scratch = RawOperand::new(self.scratch.as_mut_ptr(), self.scratch.len());
        // SAFETY: inputs are shared tensors, which are never written; outputs and scratch memory
        // belong to this value and are borrowed mutably during the call. No two operands overlap,
        // except an input that is placed in an output. For tensors of the backend, the contract of
        // `TensorHandle` guarantees validity.
        let mut operands = unsafe { Operands::new(&inputs, &outputs, scratch) };
        operands.set_timed(timed);
        workload.execute(&mut operands)?;
        for output in self.outputs.iter_mut().flatten() {
            if let Some(handle) = output.handle.as_ref().filter(|handle| handle.copied) {
                handle.tensor.copy_out(&mut output.bytes)?;
            }
        }
        Ok(())
    }

    /// The outputs; `None` for those not requested.
    pub fn into_outputs(self) -> Result<Vec<Option<Tensor>>> {
        let tensor = |output: Output| {
            drop(output.handle);
            Tensor::new(output.ty, output.bytes.freeze())
        };
        let outputs = self.outputs.into_iter();
        outputs
            .map(|output| output.map(tensor).transpose())
            .collect()
    }
}

fn start(handle: &Option<Handle>, plain: *mut u8) -> *mut u8 {
    handle
        .as_ref()
        .map_or(plain, |handle| handle.tensor.start())
}

/// The backend's tensor for plain memory at `start`, which outlives it; `None` if the backend works
/// in plain memory.
fn handle(
    backend: &dyn Backend,
    factories: &[HandleFactory],
    ty: &TensorType,
    start: *mut u8,
) -> Result<Option<Handle>> {
    let factory = preferred_factory(factories).or(factories.first());
    let Some(factory) = factory.filter(|_| ty.bytes() > 0) else {
        return Ok(None);
    };
    let memory = ImportedMemory::new(start, ty.bytes(), MemorySource::Malloc);
    let (tensor, copied) = match edge_strategy(&[], factories) {
        // SAFETY: the memory belongs to the tensor or the output that owns the handle, so it
        // outlives the handle.
        Some(EdgeStrategy::Export) => unsafe {
            (backend.import_tensor(&factory.id, ty, memory)?, false)
        },
        Some(_) => (backend.tensor_handle(&factory.id, ty)?, true),
        None => {
            let text = format!(
                "plain memory cannot pass to {} of {}",
                factory.id,
                backend.id()
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    };
    Ok(Some(Handle { tensor, copied }))
}

/// The tensor, copied if its bytes are not aligned as workloads require.
fn aligned(tensor: &Tensor) -> Result<Tensor> {
    if (tensor.bytes().as_ptr() as usize).is_multiple_of(ALIGNMENT) {
        return Ok(tensor.clone());
    }
    Tensor::new(
        tensor.ty().clone(),
        BufferMut::copy_of(tensor.bytes())?.freeze(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_aligned() {
        let whole = Tensor::from_slice([20], &[7i8; 20]).unwrap();
        let ty = TensorType::new(tenon_tensor::DataType::I8, [8]).unwrap();
        let part = Tensor::new(ty, whole.buffer().slice(3..11).unwrap()).unwrap();
        let again = aligned(&part).unwrap();
        assert_eq!(again.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(again, part);
    }
}
