//! Inputs and outputs that stay bound from one execution to the next.

use crate::inputs::{check, unknown};
use crate::{ExecuteOptions, Model};
use tenon_base::{Error, ErrorKind, Result};
use tenon_kernels::BoundPorts;
use tenon_tensor::{BufferMut, Tensor, TensorType};

/// The inputs and outputs of a model, bound once and executed many times. An execution allocates
/// and copies nothing. A backend that makes tensors of memory of others does so in the first
/// execution, for all that follow.
///
/// Tensors are shared, not copied, when their bytes are aligned to 64 (those that Tenon makes are).
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

    /// Executes on what is bound; an error when an input is not.
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

    /// Type and bytes of an output by position, as the last execution left them.
    pub fn output(&self, index: usize) -> Option<(&TensorType, &[u8])> {
        let signature = self.model.outputs().get(index)?;
        Some((&signature.ty, self.ports.outputs().get(index)?))
    }

    /// A copy of every output, as the last execution left them.
    pub fn outputs(&self) -> Result<Vec<Tensor>> {
        let outputs = self.ports.outputs().iter().zip(self.model.outputs());
        let copy = |(bytes, signature): (&BufferMut, &crate::Signature)| {
            Tensor::new(signature.ty.clone(), BufferMut::copy_of(bytes)?.freeze())
        };
        outputs.map(copy).collect()
    }
}
