//! The value of a state, with memory to grow.

use tenon_base::Result;
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

/// The value of a state: its elements are the first bytes of a buffer, which has space for more if it grows in place.
#[derive(Debug, Clone)]
pub(super) struct StateValue {
    ty: TensorType,
    buffer: Buffer,
}

/// Memory of values that grow is at least this large.
const MIN_CAPACITY: usize = 1 << 16;

impl StateValue {
    /// A value without space to grow, in the memory of `tensor`.
    pub fn of(tensor: &Tensor) -> Self {
        Self {
            ty: tensor.ty().clone(),
            buffer: tensor.buffer().clone(),
        }
    }

    /// A value in the first bytes of `buffer`, which has at least those of the type.
    pub fn in_buffer(ty: TensorType, buffer: Buffer) -> Self {
        Self { ty, buffer }
    }

    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The tensor, which shares the memory.
    pub fn tensor(&self) -> Result<Tensor> {
        let bytes = self.buffer.slice(0..self.ty.bytes());
        Tensor::new(
            self.ty.clone(),
            bytes.unwrap_or_else(|| self.buffer.clone()),
        )
    }

    /// The first `steps` steps along a dimension, if they are the first bytes.
    pub fn first_steps(&self, axis: usize, steps: usize) -> Result<Option<Self>> {
        let mut shape = self.ty.shape().to_vec();
        if shape[..axis].iter().any(|&extent| extent != 1) {
            return Ok(None);
        }
        shape[axis] = steps;
        Ok(Some(Self {
            ty: TensorType::new(self.ty.dtype(), shape)?,
            buffer: self.buffer.clone(),
        }))
    }

    /// Makes its memory its own, with at least `bytes` bytes. The value is copied if other sessions or tensors share it,
    /// or if the memory is too small: then into twice as much, but at most `limit` bytes.
    ///
    /// # Errors
    /// Not enough memory; the value is unchanged.
    pub fn reserve(&mut self, bytes: usize, limit: usize) -> Result<()> {
        if self.buffer.is_exclusive() && self.buffer.len() >= bytes {
            return Ok(());
        }
        let capacity = bytes.saturating_mul(2).max(MIN_CAPACITY);
        let capacity = capacity.min(limit).max(bytes);
        // Where memory is short, exactly what is needed.
        let memory = BufferMut::zeroed(capacity).or_else(|_| BufferMut::zeroed(bytes));
        let mut memory = memory?;
        let used = self.ty.bytes().min(bytes);
        memory[..used].copy_from_slice(&self.buffer[..used]);
        self.buffer = memory.freeze();
        Ok(())
    }

    /// Its memory, to be written behind the value; `None` if it is shared.
    pub fn into_memory(self) -> Option<BufferMut> {
        self.buffer.try_into_mut().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(elements: &[f32]) -> StateValue {
        StateValue::of(&Tensor::from_slice([1, elements.len()], elements).unwrap())
    }

    #[test]
    fn memory_that_is_not_shared_stays_where_it_is() {
        let mut state = value(&[1.0, 2.0]);
        state.reserve(12, 1 << 20).unwrap();
        let start = state.buffer.as_ptr();
        assert_eq!(state.buffer.len(), MIN_CAPACITY);
        state.reserve(MIN_CAPACITY, 1 << 20).unwrap();
        assert_eq!(state.buffer.as_ptr(), start);
        // Too small: twice as much as needed, with the value.
        state.reserve(MIN_CAPACITY + 4, 1 << 30).unwrap();
        assert_eq!(state.buffer.len(), 2 * MIN_CAPACITY + 8);
        // At most the limit, unless more is needed.
        let needed = 3 * MIN_CAPACITY;
        state.reserve(needed, needed + 1).unwrap();
        assert_eq!(state.buffer.len(), needed + 1);
        state.reserve(needed + 2, needed + 1).unwrap();
        assert_eq!(state.buffer.len(), needed + 2);
        let elements = state.tensor().unwrap();
        assert_eq!(elements.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        drop(elements);
        assert_eq!(state.into_memory().unwrap().len(), needed + 2);
    }

    #[test]
    fn a_shared_value_is_copied_before_it_is_written() {
        let original = value(&[1.0, 2.0]);
        let mut fork = original.clone();
        assert!(original.clone().into_memory().is_none());
        fork.reserve(16, 1 << 20).unwrap();
        let mut memory = fork.into_memory().unwrap();
        memory[0] = 7;
        let tensor = original.tensor().unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        let shorter = original.first_steps(1, 1).unwrap().unwrap();
        assert_eq!(shorter.tensor().unwrap().as_slice::<f32>().unwrap(), [1.0]);
        let rows = StateValue::of(&Tensor::from_slice([2, 2], &[1.0f32; 4]).unwrap());
        assert!(rows.first_steps(1, 1).unwrap().is_none());
    }
}
