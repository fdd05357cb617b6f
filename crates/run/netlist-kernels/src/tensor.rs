//! The tensors of netlist kernels.

use super::buffer_pool;
use std::sync::Mutex;
use tenon_base::{Error, ErrorKind, Result, bounded, pool};
use tenon_executor::Opaque;
use tenon_tensor::{ALIGNMENT, BufferMut, DataType, Tensor, TensorType};

/// Most elements of one tensor; more is a mistake in the netlist.
const MAX_ELEMENTS: usize = 1 << 31;

/// Elements of a chunk of a parallel loop; one thread is used for at most two.
const GRAIN: usize = 1 << 14;

/// `[t, rows, columns]` tiles of `[height, width]` elements. The elements are stored in row-major order,
/// `[t, rows * height, columns * width]`.
#[derive(Debug, Clone)]
pub struct TileTensor {
    tiles: [usize; 3],
    tile: [usize; 2],
    data: Tensor,
}

impl Opaque for TileTensor {
    const TYPE: &'static str = "!netlist.tensor";
}

impl TileTensor {
    /// A tensor whose elements `fill` writes; it receives zeros.
    pub fn build(
        tiles: [usize; 3],
        tile: [usize; 2],
        fill: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        let ty = tensor_type(tiles, tile)?;
        let buffer = buffer_pool::allocate_zeroed(ty.bytes())?;
        Self::of(tiles, tile, ty, buffer, fill)
    }

    /// A tensor whose elements `fill` writes all; it receives arbitrary values.
    pub(super) fn build_whole(
        tiles: [usize; 3],
        tile: [usize; 2],
        fill: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        let ty = tensor_type(tiles, tile)?;
        let buffer = buffer_pool::allocate(ty.bytes())?;
        Self::of(tiles, tile, ty, buffer, fill)
    }

    fn of(
        tiles: [usize; 3],
        tile: [usize; 2],
        ty: TensorType,
        mut buffer: BufferMut,
        fill: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        fill(buffer.as_slice_mut::<f32>().unwrap_or_default())?;
        let data = Tensor::new(ty, buffer.freeze())?;
        Ok(Self { tiles, tile, data })
    }

    /// A tensor of zeros.
    pub fn zeroed(tiles: [usize; 3], tile: [usize; 2]) -> Result<Self> {
        Self::build(tiles, tile, |_| Ok(()))
    }

    /// A tensor of f32 as tiles.
    ///
    /// # Errors
    /// A tensor of another element type, or of another count than the shape has.
    pub fn from_tensor(tiles: [usize; 3], tile: [usize; 2], data: &Tensor) -> Result<Self> {
        let ty = tensor_type(tiles, tile)?;
        if data.dtype() != DataType::F32 || data.shape().elements() != ty.elements() {
            let error = Error::new(
                ErrorKind::InvalidArgument,
                "the tensor differs in type or size from its tiles",
            );
            return Err(error.expected(ty).found(data.ty()));
        }
        // Backends require aligned memory: copied once here, not by each op that reads it.
        let aligned = (data.bytes().as_ptr() as usize).is_multiple_of(ALIGNMENT);
        let data = if aligned {
            data.reshaped(ty.shape().clone())?
        } else {
            Tensor::new(ty, BufferMut::copy_of(data.bytes())?.freeze())?
        };
        Ok(Self { tiles, tile, data })
    }

    /// Slices, rows and columns of tiles.
    pub fn tiles(&self) -> [usize; 3] {
        self.tiles
    }

    /// Height and width of a tile.
    pub fn tile(&self) -> [usize; 2] {
        self.tile
    }

    /// Slices, rows and columns of elements.
    pub fn shape(&self) -> [usize; 3] {
        let [t, rows, columns] = self.tiles;
        [t, rows * self.tile[0], columns * self.tile[1]]
    }

    /// The elements.
    pub fn values(&self) -> &[f32] {
        self.data().as_slice().unwrap_or_default()
    }

    /// The elements as a tensor.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// A tensor without elements, for an optional operand that is absent.
    pub(super) fn empty() -> Result<Self> {
        Self::zeroed([0; 3], [0; 2])
    }

    /// The tensor unless it is [`Self::empty`].
    pub(super) fn non_empty(&self) -> Option<&Self> {
        (self.tiles != [0; 3]).then_some(self)
    }

    /// Whether both have the same memory and tiles.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let start = |tensor: &Self| tensor.data().bytes().as_ptr();
        start(self) == start(other) && self.tiles == other.tiles && self.tile == other.tile
    }

    /// The same elements with other tiles and slices.
    pub fn reshaped(&self, tiles: [usize; 3], tile: [usize; 2]) -> Result<Self> {
        Self::from_tensor(tiles, tile, self.data())
    }

    /// A view of the tiles from index `first` on, which starts a row of tiles.
    pub(super) fn part(&self, first: usize, tiles: [usize; 3]) -> Result<Self> {
        if first == 0 && tiles == self.tiles {
            return Ok(self.clone());
        }
        let ty = tensor_type(tiles, self.tile)?;
        let start = first * self.tile[0] * self.tile[1] * size_of::<f32>();
        let bytes = self.data.buffer().slice(start..start + ty.bytes());
        let bytes =
            bytes.ok_or_else(|| wrong_shape("a view is out of the bounds of its tensor"))?;
        Self::from_tensor(tiles, self.tile, &Tensor::new(ty, bytes)?)
    }

    /// The shape as text.
    pub fn describe(&self) -> String {
        let [t, rows, columns] = self.tiles;
        let [height, width] = self.tile;
        match self.tile {
            [32, 32] => format!("[{t}, {rows}, {columns}] tiles"),
            _ => format!("[{t}, {rows}, {columns}] tiles of {height} by {width}"),
        }
    }
}

/// Checks the shape of an attribute when a kernel is bound: no extent is 0, and the elements are at most
/// [`MAX_ELEMENTS`], which bounds all that is allocated by that shape later.
pub(super) fn checked_shape(tiles: [usize; 3], tile: [usize; 2]) -> Result<TensorType> {
    if tiles.contains(&0) || tile.contains(&0) {
        let text = format!("a tensor of {tiles:?} tiles of {tile:?} elements is empty");
        return Err(Error::new(ErrorKind::InvalidProgram, text).expected("sizes from 1 on"));
    }
    tensor_type(tiles, tile)
}

fn tensor_type(tiles: [usize; 3], tile: [usize; 2]) -> Result<TensorType> {
    let [t, rows, columns] = tiles;
    let sizes = [t, rows, columns, tile[0], tile[1]];
    let elements = sizes
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        let text = format!("a tensor of {tiles:?} tiles is too large");
        return Err(Error::new(ErrorKind::OutOfMemory, text)
            .expected(format_args!("at most {MAX_ELEMENTS} elements")));
    }
    TensorType::new(DataType::F32, [t, rows * tile[0], columns * tile[1]])
}

/// Calls `body` with the index and the elements of each chunk of `to`, in parallel when it is large.
pub(super) fn for_each_chunk(
    to: &mut [f32],
    chunk: usize,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    for_each_chunk_of_terms(to, chunk, 1, body);
}

/// [`for_each_chunk`] where each element is computed from `terms` others.
pub(super) fn for_each_chunk_of_terms(
    to: &mut [f32],
    chunk: usize,
    terms: usize,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    if chunk == 0 {
        return;
    }
    let grain = GRAIN / terms.max(1);
    let group = (grain / chunk).max(1);
    if to.len() <= 2 * grain {
        to.chunks_mut(chunk)
            .enumerate()
            .for_each(|(index, chunk)| body(index, chunk));
        return;
    }
    let groups: Vec<Mutex<&mut [f32]>> = to.chunks_mut(group * chunk).map(Mutex::new).collect();
    pool::for_each(groups.len(), |index| {
        // Each group is locked once, by one thread: the lock makes the mutable borrow safe.
        if let Ok(mut elements) = groups[index].lock() {
            let chunks = elements.chunks_mut(chunk).enumerate();
            chunks.for_each(|(within, chunk)| body(index * group + within, chunk));
        }
    });
}

/// Applies an elementwise function.
pub(super) fn map(a: &TileTensor, f: impl Fn(f32) -> f32 + Sync) -> Result<TileTensor> {
    let from = a.values();
    TileTensor::build_whole(a.tiles(), a.tile(), |to| {
        for_each_chunk(to, GRAIN, |index, to| {
            let from = &from[index * GRAIN..][..to.len()];
            to.iter_mut().zip(from).for_each(|(to, &a)| *to = f(a));
        });
        Ok(())
    })
}

/// Applies an elementwise function of two operands of the same shape.
pub(super) fn zip(
    a: &TileTensor,
    b: &TileTensor,
    f: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<TileTensor> {
    same_shape(a, b)?;
    let (left, right) = (a.values(), b.values());
    TileTensor::build_whole(a.tiles(), a.tile(), |to| {
        for_each_chunk(to, GRAIN, |index, to| {
            let start = index * GRAIN;
            let (left, right) = (&left[start..][..to.len()], &right[start..][..to.len()]);
            let pairs = left.iter().zip(right);
            to.iter_mut()
                .zip(pairs)
                .for_each(|(to, (&a, &b))| *to = f(a, b));
        });
        Ok(())
    })
}

/// The accumulated gradient plus a new one; the new one where there is no sum yet.
pub(super) fn added_to(sum: Option<&TileTensor>, new: TileTensor) -> Result<TileTensor> {
    match sum {
        Some(sum) => zip(sum, &new, |sum, new| sum + new),
        None => Ok(new),
    }
}

/// An error unless both have the same tiles.
pub(super) fn same_shape(a: &TileTensor, b: &TileTensor) -> Result<()> {
    if a.tiles() == b.tiles() && a.tile() == b.tile() {
        return Ok(());
    }
    Err(wrong_shape("the operands differ in shape")
        .expected(a.describe())
        .found(b.describe()))
}

/// An empty vector with capacity for `count` elements.
pub(super) fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let what = format_args!("{count} elements");
    bounded::with_capacity_within(what, count, usize::MAX)
}

/// An operand of a shape that the op cannot take.
pub(super) fn wrong_shape(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// A tensor whose elements are their indices, as NumPy's `arange`.
#[cfg(test)]
pub(super) fn arange(tiles: [usize; 3], tile: [usize; 2]) -> TileTensor {
    TileTensor::build(tiles, tile, |to| {
        to.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
        Ok(())
    })
    .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_and_serial_loops_agree() {
        for columns in [1, 70] {
            let a = TileTensor::build([1, 1, columns], [32, 32], |to| {
                to.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
                Ok(())
            })
            .unwrap();
            let doubled = zip(&a, &a, |a, b| a + b).unwrap();
            let right = |(i, &v): (usize, &f32)| v == 2.0 * i as f32;
            assert!(doubled.values().iter().enumerate().all(right));
        }
    }

    #[test]
    fn huge_tensors_and_different_shapes_are_refused() {
        let huge = TileTensor::zeroed([usize::MAX, 2, 2], [32, 32]).unwrap_err();
        assert_eq!(huge.kind(), ErrorKind::OutOfMemory);
        let a = TileTensor::zeroed([1, 1, 2], [32, 32]).unwrap();
        let b = TileTensor::zeroed([1, 2, 1], [32, 32]).unwrap();
        assert!(zip(&a, &b, |a, _| a).is_err());
    }
}
