//! Inputs and outputs that stay bound between executions.

use crate::{Outputs, RunOptions};
use std::sync::Arc;
use tenon_base::Result;
use tenon_tensor::{Tensor, TensorType};

/// The inputs and outputs of a model, bound once and used by many executions. An execution allocates
/// and copies nothing. Tensors whose memory is aligned to 64 bytes, as that of all tensors that Tenon
/// allocates, are shared with the caller instead of copied.
///
/// ```
/// use tenon::{Compiler, LoadOptions, RunOptions, Tensor};
///
/// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
/// # let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
/// let mut bindings = model.bind()?;
/// bindings.set_input("image", &Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?)?;
/// for _ in 0..3 {
///     bindings.run(RunOptions::new())?;
/// }
/// let (ty, bytes) = bindings.output(0).expect("the model has an output");
/// assert_eq!(bytes.len(), ty.bytes());
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Bindings {
    bindings: tenon_runtime::Bindings,
    names: Arc<[String]>,
}

impl Bindings {
    pub(crate) fn new(bindings: tenon_runtime::Bindings, names: Arc<[String]>) -> Self {
        Self { bindings, names }
    }

    /// Binds an input.
    ///
    /// # Errors
    /// An unknown name, or a tensor of another type than the input.
    pub fn set_input(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        self.bindings.set_input(name, tensor)
    }

    /// Executes on the bound tensors.
    ///
    /// # Errors
    /// An input that is not bound, and the errors of [`Model::run`](crate::Model::run).
    pub fn run(&mut self, options: RunOptions<'_>) -> Result<()> {
        options.with_runtime(|options| self.bindings.execute(options))
    }

    /// Type and bytes of an output after the last execution.
    pub fn output(&self, index: usize) -> Option<(&TensorType, &[u8])> {
        self.bindings.output(index)
    }

    /// A copy of every output after the last execution.
    pub fn outputs(&self) -> Result<Outputs> {
        let tensors = self.bindings.outputs()?;
        Ok(Outputs::new(self.names.clone(), tensors))
    }
}
