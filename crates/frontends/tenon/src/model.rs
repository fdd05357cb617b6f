//! Loaded models.

use crate::inspect::ReferenceTime;
use crate::{
    AsyncOptions, Bindings, LoadOptions, Outputs, Priority, RunFuture, RunOptions, RunQueue,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tenon_backend::{BackendId, DeviceTensor, Registry};
use tenon_base::{Control, Location, Result};
use tenon_neff::{MemoryPlan, Package, PlacementReport};
use tenon_runtime::{DeviceMemory, Profile, Runtime, Substitution};
use tenon_tensor::size::Symbols;
use tenon_tensor::{ModelValue, Tensor, TensorType};

pub use tenon_runtime::{Dimension, Signature};

/// A loaded package, ready to run. Clones share it, and threads may run it at the same time.
///
/// ```no_run
/// use tenon::{Model, Tensor};
///
/// let model = Model::load("model.neff")?;
/// let x = Tensor::from_slice([1, 3], &[1.0f32, 2.0, 3.0])?;
/// let outputs = model.run(&[("x", &x)])?;
/// println!("{:?}", outputs.tensor("y")?.as_slice::<f32>());
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    pub(crate) model: tenon_runtime::Model,
    output_names: Arc<[String]>,
}

impl Model {
    /// Opens and loads a package with default options.
    ///
    /// # Errors
    /// A file that cannot be read or is no package, a package of another compiler, and one that needs
    /// unavailable backends or kernels. All problems of the program are reported together.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &LoadOptions::default())
    }

    /// Opens and loads a package.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let path = path.as_ref();
        let package = Package::open(path, &options.control)?;
        Self::from_package(&package, options).map_err(|error| error.at(Location::file(path)))
    }

    /// Loads an opened package. Its constants stay in the mapped file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_package(package: &Package, options: &LoadOptions) -> Result<Self> {
        static BUILT_IN: OnceLock<Runtime> = OnceLock::new();
        let built_in = || Runtime::new(tenon_builtin::registry(), tenon_builtin::kernels());
        let runtime = match &options.runtime {
            Some(runtime) => runtime,
            None => BUILT_IN.get_or_init(built_in),
        };
        let model = tenon_runtime::Model::load(runtime, package, &options.to_runtime())?;
        let outputs = model.outputs().iter();
        Ok(Self {
            output_names: outputs.map(|output| output.name.clone()).collect(),
            model,
        })
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// Names and types of the inputs, in order.
    pub fn inputs(&self) -> &[Signature] {
        self.model.inputs()
    }

    /// Names and types of the outputs, in order.
    pub fn outputs(&self) -> &[Signature] {
        self.model.outputs()
    }

    /// The dimensions that are known only when the model runs; none if all are fixed.
    pub fn symbols(&self) -> &Symbols {
        self.model.symbols()
    }

    /// The model for these sizes of its symbolic dimensions, which shares the constants. [`Self::run`] chooses it
    /// by the shapes of its inputs; bindings, profiles and raw memory need it.
    ///
    /// # Errors
    /// Unknown dimensions, dimensions without a size, sizes outside their ranges or that an operator refuses.
    pub fn at(&self, sizes: &[(&str, u64)]) -> Result<Self> {
        self.with_model(self.model.at(sizes)?)
    }

    /// The model for the shapes of these inputs, by name, and for `sizes` of the dimensions that they do not have.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn at_inputs(&self, inputs: &[(&str, &TensorType)], sizes: &[(&str, u64)]) -> Result<Self> {
        self.with_model(self.model.at_inputs(inputs, sizes)?)
    }

    fn with_model(&self, model: tenon_runtime::Model) -> Result<Self> {
        Ok(Self {
            output_names: self.output_names.clone(),
            model,
        })
    }

    /// The model's metadata: class labels, scaling of pictures (docs/package.md).
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.model.metadata()
    }

    /// The backend of each node, and why other backends did not take it.
    pub fn placement(&self) -> &PlacementReport {
        self.model.placement()
    }

    /// Unavailable backends that the package was compiled for. Their nodes run on other backends,
    /// usually slower.
    pub fn substitutions(&self) -> Vec<&Substitution> {
        self.model.substitutions()
    }

    /// The estimated time of nodes on the reference backend, one of `backends`, where it is over a
    /// tenth.
    pub fn reference_time(&self, backends: &Registry) -> Option<ReferenceTime> {
        ReferenceTime::estimate(self.placement(), self.model.costs().cloned(), backends)
    }

    /// Offsets and lifetimes of intermediate values in the arena; of the largest arena if the package
    /// has several subgraphs.
    pub fn memory_plan(&self) -> &MemoryPlan {
        self.model.memory_plan()
    }

    /// The memory that the model needs of each backend with separate memory; of one with symbolic dimensions after
    /// [`Self::at`].
    pub fn device_memory(&self) -> Vec<DeviceMemory> {
        self.model.device_memory()
    }

    /// Bytes of arenas that no execution uses at the moment.
    pub fn idle_bytes(&self) -> usize {
        self.model.idle_bytes()
    }

    /// An empty profile of this model, for [`RunOptions::profile()`].
    pub fn profile(&self) -> Profile {
        self.model.profile()
    }

    /// Executes on tensors by name.
    ///
    /// # Errors
    /// Missing or unknown inputs and inputs of another type, all together; a kernel that failed; inputs or outputs that
    /// are no tensors, which [`Self::run_values`] takes and returns.
    pub fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Outputs> {
        self.run_with(inputs, RunOptions::default())
    }

    /// Executes on tensors by name, with options.
    ///
    /// # Errors
    /// As [`Self::run`]; a passed deadline or cancellation.
    pub fn run_with(&self, inputs: &[(&str, &Tensor)], options: RunOptions<'_>) -> Result<Outputs> {
        let tensors = options.with_runtime(|options| self.model.run_with(inputs, options))?;
        Ok(Outputs::new(self.output_names.clone(), tensors))
    }

    /// Executes on values by name, which may be sequences of tensors or absent; returns the outputs in order.
    ///
    /// ```no_run
    /// use tenon::{Model, ModelValue, RunOptions, Tensor};
    ///
    /// let model = Model::load("model.neff")?;
    /// let frames = vec![Tensor::zeroed("f32[2, 3]".parse()?)?; 4];
    /// let outputs = model.run_values(&[("frames", &frames.into())], RunOptions::new())?;
    /// if let ModelValue::Sequence(tensors) = &outputs[0] {
    ///     println!("{} tensors", tensors.len());
    /// }
    /// # Ok::<(), tenon::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::run_with`].
    pub fn run_values(
        &self,
        inputs: &[(&str, &ModelValue)],
        options: RunOptions<'_>,
    ) -> Result<Vec<ModelValue>> {
        options.with_runtime(|options| self.model.run_values(inputs, options))
    }

    /// Runs several times and returns the outputs of each run. The runs are joined into executions along the first
    /// dimension where the model has a batch ([`Self::batch_dimension`]) and their other sizes are equal. Rows of a
    /// batch must not depend on each other.
    ///
    /// ```no_run
    /// # use tenon::{Model, Tensor};
    /// let model = Model::load("model.neff")?;
    /// let (a, b) = (Tensor::from_slice([1, 2], &[1.0f32, 2.0])?, Tensor::from_slice([3, 2], &[0.0f32; 6])?);
    /// let outputs = model.run_batch(&[&[("x", &a)], &[("x", &b)]])?;
    /// assert_eq!(outputs[1][0].shape()[0], 3);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::run`]; the inputs of all runs are checked first.
    pub fn run_batch(&self, runs: &[&[(&str, &Tensor)]]) -> Result<Vec<Outputs>> {
        self.run_batch_with(runs, &Control::default())
    }

    /// Runs several times, joined as in [`Self::run_batch`], with cancellation and deadline.
    ///
    /// # Errors
    /// As [`Self::run_batch`]; a passed deadline or cancellation.
    pub fn run_batch_with(
        &self,
        runs: &[&[(&str, &Tensor)]],
        control: &Control,
    ) -> Result<Vec<Outputs>> {
        let outputs = self.model.run_batch(runs, Some(control))?;
        let named = |tensors| Outputs::new(self.output_names.clone(), tensors);
        Ok(outputs.into_iter().map(named).collect())
    }

    /// The dimension along which [`Self::run_batch`] joins runs: a symbol that is the first dimension of all outputs
    /// and occurs otherwise only as the first dimension of inputs. `None` if it executes the runs one by one.
    pub fn batch_dimension(&self) -> Option<&str> {
        self.model.batch_dimension()
    }

    /// Executes on a thread of [`RunQueue::global`] and returns the outputs as a future. The
    /// execution is queued at once, not at the first poll.
    ///
    /// Dropping the future cancels the execution: one that waits is removed from the queue, one that
    /// runs stops at its next checkpoint.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Wake, Waker};
    /// # struct Unpark(std::thread::Thread);
    /// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark(); } }
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(output) => return output,
    /// #             Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// use tenon::{Compiler, LoadOptions, Priority, Tensor};
    ///
    /// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
    /// # let model = Compiler::new().compile_file(onnx)?.load(&LoadOptions::new())?;
    /// let image = Tensor::from_slice([1, 1, 8, 8], &[0.0f32; 64])?;
    /// let background = model.run_async([("image", image.clone())], Priority::Low);
    /// let urgent = model.run_async([("image", image)], Priority::High);
    /// // With an executor: urgent.await?
    /// let outputs = block_on(urgent)?;
    /// assert_eq!(outputs, block_on(background)?);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future reports the errors of [`Self::run`],
    /// [`QueueFull`](crate::ErrorKind::QueueFull) when too many executions wait, and
    /// [`Internal`](crate::ErrorKind::Internal) for a panic of the execution.
    pub fn run_async<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Tensor)>,
        priority: Priority,
    ) -> RunFuture {
        self.run_async_with(inputs, AsyncOptions::new().priority(priority))
    }

    /// Executes on a thread of [`RunQueue::global`], with options.
    ///
    /// # Errors
    /// As [`Self::run_async`]; a passed deadline or cancellation.
    pub fn run_async_with<N: Into<String>>(
        &self,
        inputs: impl IntoIterator<Item = (N, Tensor)>,
        options: AsyncOptions,
    ) -> RunFuture {
        RunQueue::global().run(self, inputs, options)
    }

    /// Executes on memory of the caller: inputs and outputs in order, each exactly the bytes of its
    /// type. Memory aligned to 64 bytes is used directly, other memory is copied. Allocates nothing
    /// except arenas of the first concurrent executions. After an error the contents of the outputs
    /// are unspecified.
    ///
    /// # Errors
    /// Memory of another size than its type; a kernel that failed.
    pub fn execute(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        self.execute_with(inputs, outputs, RunOptions::default())
    }

    /// Executes on memory of the caller, with options.
    ///
    /// # Errors
    /// As [`Self::execute`]; a passed deadline or cancellation.
    pub fn execute_with(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        options: RunOptions<'_>,
    ) -> Result<()> {
        options.with_runtime(|options| self.model.execute_with(inputs, outputs, options))
    }

    /// A tensor in memory of a backend, to be written by the application and bound as an input
    /// ([`Bindings::set_device_input`]).
    ///
    /// # Errors
    /// An unknown backend, one that computes in memory of the host, and memory that is exhausted.
    pub fn tensor_on(&self, backend: &BackendId, ty: &TensorType) -> Result<DeviceTensor> {
        self.model.tensor_on(backend, ty)
    }

    /// Inputs and outputs that stay bound between executions.
    pub fn bind(&self) -> Result<Bindings> {
        let bindings = self.model.bind()?;
        Ok(Bindings::new(bindings, self.output_names.clone()))
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.model.fmt(f)
    }
}
