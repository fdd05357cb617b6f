//! tenon.LookUp of strings, with a table of the keys that executions share.

use super::super::{HostOperator, invalid};
use super::checked;
use std::collections::HashMap;
use tenon_base::{Result, bounded};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The position of each key.
pub(in super::super) struct KeyTable {
    keys: Tensor,
    positions: HashMap<Box<str>, usize>,
}

impl KeyTable {
    fn new(keys: &Tensor) -> Self {
        let texts = keys.strings().into_iter().flatten();
        Self {
            keys: keys.clone(),
            positions: texts.map(Box::from).zip(0..).collect(),
        }
    }

    /// Whether it is of these keys, in the same memory.
    fn is_of(&self, keys: &Tensor) -> bool {
        let [known, given] = [&self.keys, keys].map(Tensor::bytes);
        std::ptr::eq(known, given)
    }
}

impl HostOperator {
    /// The value of each string of X.
    pub(in super::super) fn look_up(&self, inputs: &[Option<&Tensor>]) -> Result<Tensor> {
        let &[Some(x), Some(keys), Some(values), Some(default)] = inputs else {
            return Err(invalid("tenon.LookUp takes four inputs"));
        };
        let made;
        let shared = self.keys.get_or_init(|| KeyTable::new(keys));
        let table = match shared.is_of(keys) {
            true => shared,
            false => {
                made = KeyTable::new(keys);
                &made
            }
        };
        let strings = x.strings().into_iter().flatten();
        let found = checked(strings, |text| table.positions.get(text).copied());
        if let (Some(values), Some(default)) = (values.strings(), default.strings()) {
            let values: Vec<&str> = values.collect();
            let default = default.last().unwrap_or_default();
            let text = |at: &Option<usize>| at.and_then(|at| values.get(at).copied());
            let texts: Vec<&str> = found.iter().map(|at| text(at).unwrap_or(default)).collect();
            return Tensor::from_strings(x.shape().clone(), &texts);
        }
        let ty = TensorType::new(values.dtype(), x.shape().clone())?;
        let size = values.dtype().bits() / 8;
        let element = |at: &Option<usize>| {
            let at = (*at)? * size;
            values.bytes().get(at..at + size)
        };
        let mut bytes: Vec<u8> = bounded::with_capacity("looked up values", ty.bytes())?;
        for at in &found {
            bytes.extend(element(at).unwrap_or(default.bytes()));
        }
        Tensor::new(ty, BufferMut::copy_of(&bytes)?.freeze())
    }

    /// Whether [`Self::look_up`] computes the operator.
    pub(in super::super) fn looks_up_strings(&self, inputs: &[Option<&Tensor>]) -> bool {
        let dtype = |index: usize| inputs.get(index).copied().flatten().map(Tensor::dtype);
        let is_whole = |dtype: DataType| dtype.bits().is_multiple_of(8);
        self.op.name == "tenon.LookUp"
            && dtype(0) == Some(DataType::String)
            && dtype(1) == dtype(0)
            && dtype(2).is_some_and(is_whole)
            && dtype(3) == dtype(2)
    }
}
