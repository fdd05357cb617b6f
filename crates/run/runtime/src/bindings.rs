//! Inputs and outputs that stay bound between executions.

use crate::inputs::{check, unknown};
use crate::{ExecuteOptions, Model};
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
        let index = signatures
            .iter()
            .position(|signature| signature.name == name);
        let index = index.ok_or_else(|| unknown("input", name, signatures))?;
        check(&signatures[index], tensor)?;
        self.ports.set_input(index, tensor);
        Ok(())
    }

    /// Executes on the bound tensors; an error when an input is not bound.
    pub fn execute(&mut self, options: ExecuteOptions<'_>) -> Result<()> {
        let missing = self.ports.inputs().iter().zip(self.model.inputs());
        let missing = missing
            .filter(|(tensor, _)| tensor.is_none())
            .map(|(_, signature)| {
                let text = format!("input '{}' is not bound", signature.name);
                Error::new(ErrorKind::InvalidArgument, text).expected(&signature.ty)
            });
        if let Some(error) = Error::from_all(missing) {
            return Err(error);
        }
        self.model.execute_bound(&mut self.ports, options)
    }

    /// Type and bytes of an output by position, after the last execution.
    pub fn output(&self, index: usize) -> Option<(&TensorType, &[u8])> {
        let signature = self.model.outputs().get(index)?;
        Some((&signature.ty, self.ports.outputs().get(index)?))
    }

    /// Copies of all outputs, after the last execution.
    pub fn outputs(&self) -> Result<Vec<Tensor>> {
        let outputs = self.ports.outputs().iter().zip(self.model.outputs());
        let copy = |(bytes, signature): (&BufferMut, &crate::Signature)| {
            Tensor::new(signature.ty.clone(), BufferMut::copy_of(bytes)?.freeze())
        };
        outputs.map(copy).collect()
    }
}
