//! Inputs and outputs that stay bound between executions.

use crate::{Outputs, RunOptions};
use std::sync::Arc;
use tenon_backend::DeviceTensor;
use tenon_base::Result;
use tenon_tensor::{Tensor, TensorType};

/// The inputs and outputs of a model, bound once and used by many executions. An execution allocates
/// and copies nothing; inputs stay in memory of a backend that copied them there. Tensors whose memory
/// is aligned to 64 bytes, as that of all tensors that Tenon allocates, are shared with the caller
/// instead of copied.
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
/// let (ty, bytes) = bindings.output(0)?.expect("the model has an output");
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

    /// Binds an input to a tensor in memory of a backend. Workloads of that backend read it there; for other kernels it
    /// is copied to memory of the host. `examples/device_memory.rs` shows it.
    ///
    /// # Errors
    /// An unknown name, or a tensor of another type than the input.
    pub fn set_device_input(&mut self, name: &str, tensor: DeviceTensor) -> Result<()> {
        self.bindings.set_device_input(name, tensor)
    }

    /// Takes an output of the last execution from the backend in whose memory it is, which [`keep`](Self::keep) left
    /// there; `None` if it is in memory of the host. The next execution allocates another tensor; until then the bytes
    /// that [`output`](Self::output) returns for it are unspecified.
    ///
    /// # Errors
    /// An unknown name, and an output that is an input of the next execution ([`feed`](Self::feed)).
    pub fn take_output(&mut self, name: &str) -> Result<Option<DeviceTensor>> {
        self.bindings.take_output(name)
    }

    /// Executes on the bound tensors.
    ///
    /// # Errors
    /// An input that is not bound, and the errors of [`Model::run`](crate::Model::run).
    pub fn run(&mut self, options: RunOptions<'_>) -> Result<()> {
        options.with_runtime(|options| self.bindings.execute(options))
    }

    /// Leaves an output in memory of the backend that computes it, until it is read.
    ///
    /// # Errors
    /// An unknown name.
    pub fn keep(&mut self, output: &str) -> Result<()> {
        self.bindings.keep(output)
    }

    /// Makes an output the input of the next execution, after each one; [`set_input`](Self::set_input) sets the first
    /// value. If one backend computes and reads the value, it stays in its memory; otherwise it is in plain memory,
    /// whose buffers are exchanged. After an execution that failed, the input is as before it.
    ///
    /// # Errors
    /// An unknown name, and types that differ.
    pub fn feed(&mut self, output: &str, input: &str) -> Result<()> {
        self.bindings.feed(output, input)
    }

    /// Type and bytes of an output after the last execution; `None` for a position without an output. Bytes in memory
    /// of a backend are copied first.
    pub fn output(&mut self, index: usize) -> Result<Option<(&TensorType, &[u8])>> {
        self.bindings.output(index)
    }

    /// A copy of every output after the last execution.
    pub fn outputs(&mut self) -> Result<Outputs> {
        let tensors = self.bindings.outputs()?;
        Ok(Outputs::new(self.names.clone(), tensors))
    }
}
