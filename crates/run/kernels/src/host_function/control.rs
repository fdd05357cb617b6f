//! Kernels of control flow: conditions, and lists of the results of iterations.

use super::{HostTensor, invalid};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{
    Frame, Kernel, KernelDef, Opaque, RestOperands, Shared, Signature, Value, kernel,
};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// A list of tensors: a sequence, an optional value, or the results of the iterations so far. Appending changes the
/// list: a program uses lists of results once, and others are not appended to.
pub struct TensorList {
    tensors: Mutex<Vec<Tensor>>,
    present: bool,
}

impl TensorList {
    /// A sequence, or an optional value that is present.
    pub fn new(tensors: Vec<Tensor>) -> Self {
        Self {
            tensors: Mutex::new(tensors),
            present: true,
        }
    }

    /// An optional value that is absent.
    pub fn absent() -> Self {
        Self {
            tensors: Mutex::default(),
            present: false,
        }
    }

    /// Whether it is present.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// The tensors, which share their bytes.
    pub fn tensors(&self) -> Vec<Tensor> {
        self.lock().clone()
    }

    /// The tensors in place.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Tensor>> {
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opaque for TensorList {
    const TYPE: &'static str = "!tenon.list";
}

pub(super) fn kernels() -> Vec<KernelDef> {
    let stack = Signature {
        operands: vec![TensorList::TYPE],
        variadic: true,
        results: vec![HostTensor::TYPE],
        functions: Some(0),
        ..Signature::default()
    };
    vec![
        kernel("tenon.truth", |tensor: &HostTensor| truth(&tensor.0))
            .doc("The element of a tensor of one truth value."),
        kernel("tenon.number", |number: i64| number_tensor(number))
            .doc("A tensor without dimensions of one i64."),
        kernel("tenon.true", true_tensor).doc("A tensor without dimensions, true."),
        kernel("tenon.continue", proceeds).doc(
            "Whether an iteration of this number follows: it is below the limit, and the condition, if there is one, is \
             true.",
        ),
        kernel("tenon.list", || Shared::new(TensorList::new(Vec::new()))).doc("An empty list."),
        kernel("tenon.append", append).doc("The list with one more tensor."),
        KernelDef::new("tenon.stack", stack, |site| {
            let dtype = site.attributes().string("dtype")?;
            let dtype = dtype
                .parse::<DataType>()
                .map_err(|_| invalid("an unknown data type").found(format!("'{dtype}'")))?;
            Ok(Box::new(Stack(dtype)))
        })
        .doc("The tensors of a list along a new first dimension; the extents of one, if there are none, are operands."),
    ]
}

/// The truth value of a tensor of one element.
fn truth(tensor: &Tensor) -> Result<bool> {
    match (tensor.dtype(), tensor.bytes()) {
        (DataType::Bool, [truth]) => Ok(*truth != 0),
        _ => {
            let error = Error::new(ErrorKind::InvalidArgument, "a condition is no truth value");
            Err(error
                .expected("one element of type bool")
                .found(tensor.ty()))
        }
    }
}

fn number_tensor(number: i64) -> Result<Value> {
    Ok(Value::opaque(HostTensor(Tensor::scalar(number)?)))
}

fn true_tensor() -> Result<Value> {
    Ok(Value::opaque(HostTensor(Tensor::from_bools([], &[true])?)))
}

fn proceeds(number: i64, limit: i64, condition: RestOperands<'_>) -> Result<bool> {
    if number >= limit {
        return Ok(false);
    }
    match condition.iter().next() {
        Some(condition) => {
            let condition = condition.downcast::<HostTensor>();
            let condition = condition.ok_or_else(|| invalid("a condition is no tensor"))?;
            truth(&condition.0)
        }
        None => Ok(true),
    }
}

fn append(list: Shared<TensorList>, tensor: &HostTensor) -> Result<Value> {
    let mut tensors = list.lock();
    tensors.try_reserve(1).map_err(|_| {
        let text = "no memory for the results of more iterations";
        Error::new(ErrorKind::OutOfMemory, text).found(tensors.len())
    })?;
    tensors.push(tensor.0.clone());
    drop(tensors);
    Ok(Value::Opaque(list.into_object()))
}

/// `tenon.stack`
struct Stack(DataType);

impl Stack {
    fn stacked(&self, frame: &Frame<'_>) -> Result<Tensor> {
        let list = frame.object::<TensorList>(0)?;
        let tensors = list.lock();
        let Some(first) = tensors.first() else {
            let row = (1..frame.operands()).map(|index| frame.read::<i64>(index));
            let extent = |extent: i64| {
                usize::try_from(extent).map_err(|_| invalid("a negative extent").found(extent))
            };
            let row = row.map(|size| size.and_then(extent));
            let shape = [Ok(0)].into_iter().chain(row);
            let shape = shape.collect::<Result<Vec<usize>>>()?;
            return Tensor::zeroed(TensorType::new(self.0, shape)?);
        };
        if let Some(other) = tensors.iter().find(|tensor| tensor.ty() != first.ty()) {
            let text = "the results of the iterations have different types";
            let error = Error::new(ErrorKind::InvalidArgument, text);
            return Err(error.expected(first.ty()).found(other.ty()));
        }
        if first.dtype() != self.0 {
            let error = invalid("the results of the iterations have another data type");
            return Err(error.expected(self.0).found(first.dtype()));
        }
        let shape = [tensors.len()]
            .into_iter()
            .chain(first.shape().iter().copied());
        let ty = TensorType::new(self.0, shape.collect::<Vec<usize>>())?;
        let mut bytes = BufferMut::zeroed(ty.bytes())?;
        let row = first.bytes().len();
        if row > 0 {
            for (part, tensor) in bytes.chunks_exact_mut(row).zip(tensors.iter()) {
                part.copy_from_slice(tensor.bytes());
            }
        }
        Tensor::new(ty, bytes.freeze())
    }
}

impl Kernel for Stack {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        let stacked = self.stacked(frame)?;
        frame.set(0, Value::opaque(HostTensor(stacked)));
        Ok(())
    }
}
