//! The common part of all op kernels: operands, one result, and errors with the op's name and source
//! position.

use super::attributes::flag;
use super::tensor::TileTensor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::KernelLocation;
use tenon_executor::{Frame, Kernel, KernelDef, Label, Opaque, Severity, Signature, Site, Value};

/// The function of a bound kernel.
pub(super) type Compute = Box<dyn Fn(&[&TileTensor]) -> Result<TileTensor> + Send + Sync>;

/// A kernel of at least `operands` tensors and one result. `bind` reads the attributes.
pub(super) fn tensor_kernel(
    name: &'static str,
    operands: usize,
    bind: impl Fn(&Site<'_>) -> Result<Compute> + Send + Sync + 'static,
) -> KernelDef {
    let signature = Signature {
        operands: vec![TileTensor::TYPE; operands],
        variadic: true,
        results: vec![TileTensor::TYPE],
        functions: Some(0),
        ..Signature::default()
    };
    KernelDef::new(name, signature, move |site| {
        let node = site.attributes().optional("node");
        Ok(Box::new(TensorKernel {
            compute: bind(site)?,
            node: node.and_then(|node| node.as_str()).unwrap_or("").to_owned(),
            operator: name,
            has_warned: AtomicBool::new(false),
            cache: flag(site.attributes(), CONSTANT)?.then(ConstantCache::default),
        }))
    })
}

/// The attribute of kernels whose operand is the same in most runs, such as a parameter: the result is
/// cached.
const CONSTANT: &str = "constant";

/// The last operand of a function whose operand is the same in most runs, and its result.
#[derive(Default)]
pub(super) struct ConstantCache(Mutex<Option<(TileTensor, TileTensor)>>);

impl ConstantCache {
    /// The cached result when `operand` is the last one, else that of `make`.
    pub(super) fn get_or_compute(
        &self,
        operand: &TileTensor,
        make: impl FnOnce() -> Result<TileTensor>,
    ) -> Result<TileTensor> {
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, result)) = &*cache()
            && last.is_same(operand)
        {
            return Ok(result.clone());
        }
        let result = make()?;
        *cache() = Some((operand.clone(), result.clone()));
        Ok(result)
    }
}

struct TensorKernel {
    compute: Compute,
    node: String,
    operator: &'static str,
    /// Whether its first fault has been logged.
    has_warned: AtomicBool,
    /// Of a kernel with the attribute [`CONSTANT`].
    cache: Option<ConstantCache>,
}

impl Kernel for TensorKernel {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let result = frame.control().run(|| self.compute(frame));
        let result = result.map_err(|error| self.locate(error, frame))?;
        self.log_fault(frame, &result);
        frame.set(0, Value::opaque(result));
        Ok(())
    }

    fn label(&self) -> Label<'_> {
        Label {
            node: &self.node,
            operator: self.operator,
            ..Label::default()
        }
    }
}

impl TensorKernel {
    fn compute(&self, frame: &Frame<'_>) -> Result<TileTensor> {
        let operands: Vec<&TileTensor> = (0..frame.operands())
            .filter(|&index| !matches!(frame.operand(index), Value::Chain))
            .map(|index| frame.object(index))
            .collect::<Result<_>>()?;
        match (&self.cache, &operands[..]) {
            (Some(cache), [operand]) => cache.get_or_compute(operand, || (self.compute)(&operands)),
            _ => (self.compute)(&operands),
        }
    }

    /// Logs the first element that is outside the op's domain; execution continues (netlist 3.1).
    fn log_fault(&self, frame: &Frame<'_>, result: &TileTensor) {
        if self.has_warned.load(Ordering::Relaxed) {
            return;
        }
        let values = result.values();
        let found = match self.operator {
            "netlist.sqrt" => first(values, f32::is_nan),
            "netlist.reciprocal" => first(values, |value| {
                value.is_nan() | (value == f32::NEG_INFINITY)
            }),
            _ => None,
        };
        let Some(at) = found else {
            return;
        };
        self.has_warned.store(true, Ordering::Relaxed);
        let [_, rows, columns] = result.shape();
        let index = [at / columns / rows, at / columns % rows, at % columns];
        let text = format!("{} of element {index:?} is undefined", &self.operator[8..]);
        let warning = self.locate(Error::new(ErrorKind::ExecutionFailed, text), frame);
        let log = frame.host().log();
        log.write(Severity::Warning, format_args!("{warning}"));
    }

    fn locate(&self, error: Error, frame: &Frame<'_>) -> Error {
        at_op(error, frame.location(), &self.node)
    }
}

/// The first element for which `chosen` is true. Whole chunks are tested first, which vectorises: most
/// tensors have none.
fn first(values: &[f32], chosen: impl Fn(f32) -> bool) -> Option<usize> {
    const CHUNK: usize = 256;
    let any = |chunk: &[f32]| chunk.iter().fold(false, |any, &value| any | chosen(value));
    let chunk = values.chunks(CHUNK).position(any)?;
    let within = values[chunk * CHUNK..]
        .iter()
        .position(|&value| chosen(value))?;
    Some(chunk * CHUNK + within)
}

/// The error with the line of the netlist and the name of the op.
pub(super) fn at_op(error: Error, location: &KernelLocation, node: &str) -> Error {
    let mut location = match location {
        KernelLocation::FileLineCol { file, line, column } => {
            Location::file(file.as_str()).line_column(*line, *column)
        }
        _ => Location::default(),
    };
    if !node.is_empty() {
        location.node = Some(node.to_owned());
    }
    error.at(location)
}
