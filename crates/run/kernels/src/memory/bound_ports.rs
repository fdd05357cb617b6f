//! Inputs and outputs that stay bound between executions.

use super::resident::ResidentTensors;
use super::tensors::ImportedTensors;
use crate::Variables;
use crate::variables::Base;
use std::sync::Arc;
use tenon_backend::DeviceTensor;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// The caller's inputs and outputs, and their tensors in memory of backends: those imported from their memory, by the
/// first execution, and those whose values stay there.
pub struct BoundPorts {
    /// Declared before the memory that they refer to, so that they are dropped first.
    tensors: PortTensors,
    /// The variables of the program of the tensors.
    table: Option<Arc<Variables>>,
    inputs: Vec<Option<Input>>,
    outputs: Vec<BufferMut>,
    /// Outputs that are inputs of the next execution.
    feeds: Vec<(usize, usize)>,
}

/// The tensors of ports that live longer than an execution.
#[derive(Default)]
pub(super) struct PortTensors {
    /// Whether the caller's memory stays between executions.
    pub are_bound: bool,
    pub imported: ImportedTensors,
    pub resident: ResidentTensors,
    /// Tensors of the application that inputs are set to, until the next execution.
    pub given: Vec<(Base, DeviceTensor)>,
}

/// The memory of an input in an execution.
pub(super) enum PortBytes<'a> {
    Read(&'a [u8]),
    /// Of an input whose value may be in memory of a backend, from where it is copied when the host reads it.
    Write(&'a mut [u8]),
}

impl PortTensors {
    /// The value of an input is no longer that in memory of a backend.
    fn discard(&mut self, port: Base) {
        self.given.retain(|(given, _)| *given != port);
        self.resident.invalidate(port);
    }
}

impl PortBytes<'_> {
    pub fn len(&self) -> usize {
        match self {
            PortBytes::Read(bytes) => bytes.len(),
            PortBytes::Write(bytes) => bytes.len(),
        }
    }
}

/// The plain memory of an input.
enum Input {
    /// A tensor of the caller.
    Tensor(Tensor),
    /// The value of an output of the execution before, which may be in memory of a backend.
    Output(BufferMut),
}

impl BoundPorts {
    /// `inputs` inputs, none of which is set yet, and these outputs.
    pub fn new(inputs: usize, outputs: Vec<BufferMut>) -> Self {
        let mut tensors = PortTensors {
            are_bound: true,
            ..PortTensors::default()
        };
        // Inputs do not change until they are set again: copies of them in memory of backends stay.
        (0..inputs).for_each(|input| tensors.resident.add(input_base(input)));
        Self {
            tensors,
            table: None,
            inputs: (0..inputs).map(|_| None).collect(),
            outputs,
            feeds: Vec::new(),
        }
    }

    /// Sets an input by position; a position out of range is ignored.
    pub fn set_input(&mut self, index: usize, tensor: &Tensor) {
        // Imported tensors may refer to memory whose last owner is the old input.
        self.tensors.imported.clear();
        self.tensors.discard(input_base(index));
        if let Some(input) = self.inputs.get_mut(index) {
            *input = Some(Input::Tensor(tensor.clone()));
        }
    }

    /// Sets an input by position to a tensor in memory of a backend, of the input's type; a position out of range is
    /// ignored.
    pub fn set_device_input(&mut self, index: usize, tensor: DeviceTensor) -> Result<()> {
        self.tensors.imported.clear();
        self.tensors.discard(input_base(index));
        if let Some(input) = self.inputs.get_mut(index) {
            // For kernels of other backends and of the host.
            *input = Some(Input::Output(BufferMut::zeroed(tensor.ty().bytes())?));
            self.tensors.given.push((input_base(index), tensor));
        }
        Ok(())
    }

    /// Takes the value of an output of the last execution, of type `ty`, from the backend in whose memory it is. `None`
    /// if it is in plain memory.
    pub fn take_output(&mut self, index: usize, ty: &TensorType) -> Result<Option<DeviceTensor>> {
        if self.feeds.iter().any(|(output, _)| *output == index) {
            let text = "an output that is an input of the next execution is taken";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let port = self.output_base(index);
        Ok(self.tensors.resident.take(port, ty))
    }

    /// Makes the values of an output stay where they are computed, until they are read.
    pub fn keep(&mut self, output: usize) {
        let port = self.output_base(output);
        self.tensors.resident.add(port);
    }

    /// Makes the value of an output the input of the next execution, after each one. Both have the same size.
    pub fn add_feed(&mut self, output: usize, input: usize) {
        self.keep(output);
        self.feeds.push((output, input));
    }

    /// The positions of the inputs that are not set.
    pub fn missing_inputs(&self) -> impl Iterator<Item = usize> {
        let inputs = self.inputs.iter().enumerate();
        inputs
            .filter(|(_, input)| input.is_none())
            .map(|(index, _)| index)
    }

    /// The bytes of an output, as the last execution left them. If they are in memory of a backend, they are copied
    /// first; those of an output that was fed are the bytes of its input.
    pub fn output(&mut self, index: usize) -> Result<Option<&[u8]>> {
        let port = self.output_base(index);
        let feed = self.feeds.iter().find(|(output, _)| *output == index);
        let fed = feed.and_then(|&(_, input)| match self.inputs.get_mut(input) {
            Some(Some(Input::Output(bytes))) => Some((input_base(input), bytes)),
            _ => None,
        });
        let own = self.outputs.get_mut(index).map(|bytes| (port, bytes));
        let Some((port, bytes)) = fed.or(own) else {
            return Ok(None);
        };
        self.tensors.resident.read(port, bytes)?;
        Ok(Some(bytes))
    }

    /// The bytes of the inputs that are set, and of the outputs.
    pub fn bytes(
        &mut self,
    ) -> Result<(impl Iterator<Item = &[u8]>, impl Iterator<Item = &mut [u8]>)> {
        while let Some((port, tensor)) = self.tensors.given.last() {
            let input = self.inputs.get_mut(port.0 as usize - 1);
            if let Some(Some(Input::Output(bytes))) = input {
                tensor.copy_out(bytes)?;
            }
            self.tensors.given.pop();
        }
        let inputs = self.inputs.iter().flatten().map(|input| match input {
            Input::Tensor(tensor) => tensor.bytes(),
            Input::Output(bytes) => bytes,
        });
        Ok((inputs, bytes_mut(&mut self.outputs)))
    }

    /// The same for the program of `table`, and their tensors.
    pub(super) fn parts(
        &mut self,
        table: &Arc<Variables>,
    ) -> (
        impl Iterator<Item = PortBytes<'_>>,
        impl Iterator<Item = &mut [u8]>,
        &mut PortTensors,
    ) {
        let known = self.table.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, table)) {
            self.tensors.imported.clear();
            self.tensors.resident.tensors.clear();
            self.table = Some(table.clone());
        }
        let inputs = self.inputs.iter_mut().flatten().map(|input| match input {
            Input::Tensor(tensor) => PortBytes::Read(tensor.bytes()),
            Input::Output(bytes) => PortBytes::Write(bytes),
        });
        (inputs, bytes_mut(&mut self.outputs), &mut self.tensors)
    }

    /// After an execution: makes outputs the inputs of the next one, in memory of the backend where both are there, else by
    /// exchanging their plain memory.
    pub fn feed(&mut self) -> Result<()> {
        for &(output, input) in &self.feeds {
            let (from, to) = (self.output_base(output), input_base(input));
            let (Some(bytes), Some(plain)) =
                (self.outputs.get_mut(output), self.inputs.get_mut(input))
            else {
                continue;
            };
            let is_fed = self.tensors.resident.feed(from, to);
            if !is_fed {
                self.tensors.resident.read(from, bytes)?;
                self.tensors.resident.invalidate(from);
                self.tensors.resident.invalidate(to);
            }
            match plain {
                // The value is in memory of the backend; plain memory is there for when it is read.
                Some(Input::Output(_)) if is_fed => {}
                Some(Input::Output(plain)) => std::mem::swap(plain, bytes),
                _ => {
                    let other = BufferMut::zeroed(bytes.len())?;
                    *plain = Some(Input::Output(std::mem::replace(bytes, other)));
                }
            }
        }
        Ok(())
    }

    fn output_base(&self, output: usize) -> Base {
        Base((1 + self.inputs.len() + output) as u32)
    }
}

/// The memory region of an input.
fn input_base(input: usize) -> Base {
    Base(1 + input as u32)
}

fn bytes_mut(outputs: &mut [BufferMut]) -> impl Iterator<Item = &mut [u8]> {
    outputs.iter_mut().map(|output| &mut output[..])
}
