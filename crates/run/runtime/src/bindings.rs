//! Inputs and outputs that stay bound between executions.

use crate::inputs::{check, check_type, unknown};
use crate::{ExecuteOptions, Model, Signature};
use tenon_backend::DeviceTensor;
use tenon_base::{Error, ErrorKind, Result};
use tenon_kernels::BoundPorts;
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// The inputs and outputs of a model, bound once and executed many times. An execution neither
/// allocates nor copies. A backend that imports the memory does so in the first execution only.
///
/// Tensors whose bytes are aligned to 64 are shared, not copied; Tenon's tensors are.
pub struct Bindings {
    model: Model,
    ports: BoundPorts,
}

impl Bindings {
    pub(crate) fn new(model: Model) -> Result<Self> {
        let ports = BoundPorts::new(model.inputs().len(), model.output_buffers()?);
        Ok(Self { model, ports })
    }

    /// Binds an input by name.
    pub fn set_input(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        let signatures = self.model.inputs();
        let index = position("input", name, signatures)?;
        check(&signatures[index], tensor)?;
        self.ports.set_input(index, tensor);
        Ok(())
    }

    /// Binds an input by name to a tensor in memory of a backend. Workloads of that backend read it there; before other
    /// kernels read it, it is copied to memory of the host.
    pub fn set_device_input(&mut self, name: &str, tensor: DeviceTensor) -> Result<()> {
        let signatures = self.model.inputs();
        let index = position("input", name, signatures)?;
        check_type(&signatures[index], tensor.ty())?;
        self.ports.set_device_input(index, tensor)
    }

    /// Takes an output of the last execution by name from the backend in whose memory it is; `None` if it is in memory
    /// of the host. It has to be [kept](Self::keep) before the execution. Until the next one its bytes, as
    /// [`output`](Self::output) returns them, are unspecified.
    pub fn take_output(&mut self, name: &str) -> Result<Option<DeviceTensor>> {
        let outputs = self.model.outputs();
        let index = position("output", name, outputs)?;
        let taken = self.ports.take_output(index, &outputs[index].ty);
        taken.map_err(|error| error.found(format_args!("output '{name}'")))
    }

    /// Executes on the bound tensors; an error when an input is not bound.
    pub fn execute(&mut self, options: ExecuteOptions<'_>) -> Result<()> {
        let signatures = self.model.inputs();
        let missing = self.ports.missing_inputs().filter_map(|index| {
            let signature = signatures.get(index)?;
            let text = format!("input '{}' is not bound", signature.name);
            Some(Error::new(ErrorKind::InvalidArgument, text).expected(&signature.ty))
        });
        if let Some(error) = Error::from_all(missing) {
            return Err(error);
        }
        self.model.execute_bound(&mut self.ports, options)
    }

    /// Leaves an output, by name, in memory of the backend that computes it: it is copied when it is read.
    pub fn keep(&mut self, output: &str) -> Result<()> {
        let output = position("output", output, self.model.outputs())?;
        self.ports.keep(output);
        Ok(())
    }

    /// Makes an output the input of the next execution, after each one, both by name. The value stays in memory of
    /// the backend if the same one computes and reads it; else it is in plain memory, whose buffers are exchanged. The
    /// first value is that of [`set_input`](Self::set_input). After an execution that failed, the input is as before it.
    pub fn feed(&mut self, output: &str, input: &str) -> Result<()> {
        let (outputs, inputs) = (self.model.outputs(), self.model.inputs());
        let from = position("output", output, outputs)?;
        let to = position("input", input, inputs)?;
        if outputs[from].ty != inputs[to].ty {
            let text = format!("output '{output}' cannot be input '{input}': their types differ");
            let error = Error::new(ErrorKind::InvalidArgument, text);
            return Err(error.expected(&inputs[to].ty).found(&outputs[from].ty));
        }
        self.ports.add_feed(from, to);
        Ok(())
    }

    /// Type and bytes of an output by position, after the last execution.
    pub fn output(&mut self, index: usize) -> Result<Option<(&TensorType, &[u8])>> {
        let Some(signature) = self.model.outputs().get(index) else {
            return Ok(None);
        };
        let bytes = self.ports.output(index)?;
        Ok(bytes.map(|bytes| (&signature.ty, bytes)))
    }

    /// Copies of all outputs, after the last execution.
    pub fn outputs(&mut self) -> Result<Vec<Tensor>> {
        let mut copies = Vec::new();
        for (index, signature) in self.model.outputs().iter().enumerate() {
            let bytes = self.ports.output(index)?.unwrap_or_default();
            copies.push(Tensor::new(
                signature.ty.clone(),
                BufferMut::copy_of(bytes)?.freeze(),
            )?);
        }
        Ok(copies)
    }
}

/// The position of a port.
fn position(what: &'static str, name: &str, ports: &[Signature]) -> Result<usize> {
    let index = ports.iter().position(|signature| signature.name == name);
    index.ok_or_else(|| unknown(what, name, ports))
}
