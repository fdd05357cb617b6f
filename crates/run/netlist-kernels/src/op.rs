//! What all kernels of ops share: tensors in, one tensor out, the op's name and place.

use super::attributes::flag;
use super::tensor::TileTensor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::KernelLocation;
use tenon_executor::{Frame, Kernel, KernelDef, Label, Opaque, Severity, Signature, Site, Value};

/// What one place of a kernel computes.
pub(super) type Compute = Box<dyn Fn(&[&TileTensor]) -> Result<TileTensor> + Send + Sync>;

/// A kernel that makes a tensor of at least so many tensors. `bind` reads the attributes.
pub(super) fn tensor_kernel(
    name: &'static str,
    operands: usize,
    doc: &'static str,
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
            told: AtomicBool::new(false),
            kept: flag(site.attributes(), CONSTANT)?.then(Kept::default),
        }))
    })
    .doc(doc)
}

/// The attribute of kernels whose operand is the same in most runs, such as a parameter: what was
/// made of it is kept.
const CONSTANT: &str = "constant";

/// An operand that comes again in most runs, with what was made of it last.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<(TileTensor, TileTensor)>>);

impl Kept {
    /// What is made of an operand that was seen last time is what was made then.
    pub(super) fn made(
        &self,
        operand: &TileTensor,
        make: impl FnOnce() -> Result<TileTensor>,
    ) -> Result<TileTensor> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, made)) = &*kept()
            && before.is_same(operand)
        {
            return Ok(made.clone());
        }
        let made = make()?;
        *kept() = Some((operand.clone(), made.clone()));
        Ok(made)
    }
}

struct TensorKernel {
    compute: Compute,
    node: String,
    operator: &'static str,
    /// Whether its first fault was told.
    told: AtomicBool,
    /// Where its operand comes again.
    kept: Option<Kept>,
}

impl Kernel for TensorKernel {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let made = frame.control().run(|| self.made(frame));
        let made = made.map_err(|error| self.place(error, frame))?;
        self.tell_fault(frame, &made);
        frame.set(0, Value::opaque(made));
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
    fn made(&self, frame: &Frame<'_>) -> Result<TileTensor> {
        let operands: Vec<&TileTensor> = (0..frame.operands())
            .filter(|&index| !matches!(frame.operand(index), Value::Chain))
            .map(|index| frame.object(index))
            .collect::<Result<_>>()?;
        match (&self.kept, &operands[..]) {
            (Some(kept), [operand]) => kept.made(operand, || (self.compute)(&operands)),
            _ => (self.compute)(&operands),
        }
    }

    /// Logs the first element that is outside of what the op is defined for; the run goes on
    /// (facts 10.12).
    fn tell_fault(&self, frame: &Frame<'_>, made: &TileTensor) {
        if self.told.load(Ordering::Relaxed) {
            return;
        }
        let values = made.values();
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
        self.told.store(true, Ordering::Relaxed);
        let [_, rows, columns] = made.shape();
        let place = [at / columns / rows, at / columns % rows, at % columns];
        let text = format!("{} of element {place:?} has no value", &self.operator[8..]);
        let warning = self.place(Error::new(ErrorKind::ExecutionFailed, text), frame);
        let log = frame.host().log();
        log.write(Severity::Warning, format_args!("{warning}"));
    }

    fn place(&self, error: Error, frame: &Frame<'_>) -> Error {
        at_op(error, frame.location(), &self.node)
    }
}

/// The first element that is `chosen`. Most tensors have none, which takes whole vectors to see.
fn first(values: &[f32], chosen: impl Fn(f32) -> bool) -> Option<usize> {
    const CHUNK: usize = 256;
    let any = |chunk: &[f32]| chunk.iter().fold(false, |any, &value| any | chosen(value));
    let chunk = values.chunks(CHUNK).position(any)?;
    let within = values[chunk * CHUNK..]
        .iter()
        .position(|&value| chosen(value))?;
    Some(chunk * CHUNK + within)
}

/// The error with the line of the netlist and the op that it happened in.
pub(super) fn at_op(error: Error, place: &KernelLocation, node: &str) -> Error {
    let mut location = match place {
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
