//! Inputs and outputs that stay bound between executions.

use super::tensors::ImportedTensors;
use crate::Variables;
use std::sync::Arc;
use tenon_tensor::{BufferMut, Tensor};

/// The caller's inputs and outputs, and the tensors that backends imported from their memory: the
/// first execution imports it, later ones reuse the tensors.
pub struct BoundPorts {
    /// Declared before the memory that it refers to, so that it is dropped first.
    pub(super) imported: ImportedTensors,
    /// The variables of the program that imported it.
    table: Option<Arc<Variables>>,
    inputs: Vec<Option<Tensor>>,
    outputs: Vec<BufferMut>,
}

impl BoundPorts {
    /// `inputs` inputs, none of which is set yet, and these outputs.
    pub fn new(inputs: usize, outputs: Vec<BufferMut>) -> Self {
        Self {
            imported: ImportedTensors::default(),
            table: None,
            inputs: vec![None; inputs],
            outputs,
        }
    }

    /// Sets an input by position; a position out of range is ignored.
    pub fn set_input(&mut self, index: usize, tensor: &Tensor) {
        // Imported tensors may refer to memory whose last owner is the old input.
        self.imported.clear();
        if let Some(input) = self.inputs.get_mut(index) {
            *input = Some(tensor.clone());
        }
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Option<Tensor>] {
        &self.inputs
    }

    /// The outputs, as the last execution left them.
    pub fn outputs(&self) -> &[BufferMut] {
        &self.outputs
    }

    /// The bytes of the inputs that are set, and of the outputs.
    pub fn bytes(&mut self) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &mut [u8]>) {
        let Self {
            inputs, outputs, ..
        } = self;
        (bytes(inputs), bytes_mut(outputs))
    }

    /// The same, and the tensors imported for the program of `table`.
    pub(super) fn parts(
        &mut self,
        table: &Arc<Variables>,
    ) -> (
        impl Iterator<Item = &[u8]>,
        impl Iterator<Item = &mut [u8]>,
        &mut ImportedTensors,
    ) {
        let known = self.table.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, table)) {
            self.imported.clear();
            self.table = Some(table.clone());
        }
        (
            bytes(&self.inputs),
            bytes_mut(&mut self.outputs),
            &mut self.imported,
        )
    }
}

fn bytes(inputs: &[Option<Tensor>]) -> impl Iterator<Item = &[u8]> {
    inputs.iter().flatten().map(Tensor::bytes)
}

fn bytes_mut(outputs: &mut [BufferMut]) -> impl Iterator<Item = &mut [u8]> {
    outputs.iter_mut().map(|output| &mut output[..])
}
