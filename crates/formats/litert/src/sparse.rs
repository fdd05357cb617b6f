//! Sparse constants: the levels of TACO's format (Kjolstad et al., "The Tensor Algebra Compiler", 2017), each dense or
//! compressed, over the dimensions of a tensor and of the blocks that it is divided into.

use crate::model::{invalid, unsupported};
use crate::schema::tflite as schema;
use schema::{DimensionMetadata, DimensionType, SparseIndexVector, SparsityParameters};
use tenon_base::{Result, bounded};

/// The maximum number of levels.
const MAX_LEVELS: usize = 16;

/// Integers of a file.
enum Integers<'m> {
    I32(flatbuffers::Vector<'m, i32>),
    U16(flatbuffers::Vector<'m, u16>),
    U8(flatbuffers::Vector<'m, u8>),
}

impl Integers<'_> {
    fn get(&self, at: usize) -> Option<usize> {
        if at >= self.len() {
            return None;
        }
        match self {
            Self::I32(list) => usize::try_from(list.get(at)).ok(),
            Self::U16(list) => Some(list.get(at).into()),
            Self::U8(list) => Some(list.get(at).into()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::I32(list) => list.len(),
            Self::U16(list) => list.len(),
            Self::U8(list) => list.len(),
        }
    }
}

/// Which coordinates of a dimension have values.
enum Coordinates<'m> {
    All,
    /// Of node N those of `indices` from `segments[N]` to before `segments[N + 1]`.
    Compressed {
        segments: Integers<'m>,
        indices: Integers<'m>,
    },
}

/// One dimension in the order of storage.
struct Level<'m> {
    extent: usize,
    /// The bytes between neighbours in the dense tensor.
    stride: usize,
    coordinates: Coordinates<'m>,
}

/// The elements of a sparse tensor.
pub(crate) struct SparseTensor<'m, 'v> {
    levels: Vec<Level<'m>>,
    /// The values that are stored.
    values: &'v [u8],
    /// The bytes of an element.
    size: usize,
    /// The bytes of the dense tensor.
    dense: usize,
}

impl<'m, 'v> SparseTensor<'m, 'v> {
    /// Checks the parameters of a tensor of `shape` with elements of `size` bytes.
    pub fn new(
        parameters: SparsityParameters<'m>,
        shape: &[i64],
        size: usize,
        values: &'v [u8],
    ) -> Result<Self> {
        let order = naturals(parameters.traversal_order());
        let blocked = naturals(parameters.block_map());
        let metadata: Vec<_> = parameters.dim_metadata().into_iter().flatten().collect();
        let (rank, count) = (shape.len(), metadata.len());
        let is_order = |(order, blocked): (&[usize], &[usize])| {
            count <= MAX_LEVELS
                && order.len() == count
                && rank + blocked.len() == count
                && (0..count).all(|level| order.contains(&level))
                && (blocked.iter().enumerate())
                    .all(|(at, &axis)| axis < rank && !blocked[..at].contains(&axis))
        };
        let lists = order.as_deref().zip(blocked.as_deref());
        let Some((order, blocked)) = lists.filter(|&lists| is_order(lists)) else {
            return Err(invalid("the levels of a sparse tensor do not fit its shape")
                .expected(format_args!("each of {rank} dimensions, then each block, once; at most {MAX_LEVELS} levels"))
                .found(format_args!("{count} levels")));
        };
        let extents = natural_shape(shape)?;
        let mut blocks = vec![1; rank];
        for (at, &axis) in blocked.iter().enumerate() {
            let level = order.iter().position(|&level| level == rank + at);
            blocks[axis] = level.map_or(0, |level| natural(metadata[level].dense_size()));
            if blocks[axis] == 0 || extents[axis] % blocks[axis] != 0 {
                return Err(invalid("a block does not divide its dimension")
                    .expected(format_args!("a divisor of {}", extents[axis]))
                    .found(blocks[axis]));
            }
        }
        let (strides, dense) = strides(&extents, size)?;
        let mut levels = Vec::with_capacity(count);
        for (&axis, metadata) in order.iter().zip(metadata) {
            let (extent, stride) = if axis < rank {
                let block = blocks[axis];
                (extents[axis] / block, strides[axis].saturating_mul(block))
            } else {
                let axis = blocked[axis - rank];
                (blocks[axis], strides[axis])
            };
            levels.push(Level {
                extent,
                stride,
                coordinates: coordinates(metadata, extent)?,
            });
        }
        Ok(Self {
            levels,
            values,
            size,
            dense,
        })
    }

    /// The dense tensor, of at most `limit` bytes: zeros where no value is stored.
    pub fn dense(&self, limit: usize) -> Result<Vec<u8>> {
        let mut dense =
            bounded::with_capacity_within("a decoded sparse tensor", self.dense, limit)?;
        dense.resize(self.dense, 0);
        let mut read = 0;
        if self.dense > 0 {
            self.decode(0, 0, 0, &mut dense, &mut read)?;
        }
        if read * self.size != self.values.len() {
            return Err(
                invalid("the data of a sparse tensor does not fit its levels")
                    .expected(format_args!("{} bytes", read * self.size))
                    .found(self.values.len()),
            );
        }
        Ok(dense)
    }

    /// Decodes the part below node `node` of a level, which is at byte `to`. Every node takes values, indices or bounds
    /// of the file, so that the time is that of the file's size.
    fn decode(
        &self,
        level: usize,
        node: usize,
        to: usize,
        dense: &mut [u8],
        read: &mut usize,
    ) -> Result<()> {
        let Some(Level {
            extent,
            stride,
            coordinates,
        }) = self.levels.get(level)
        else {
            let from = node.saturating_mul(self.size);
            let value = self.values.get(from..from.saturating_add(self.size));
            let pair = value.zip(dense.get_mut(to..to + self.size));
            let (value, element) =
                pair.ok_or_else(|| invalid("a sparse tensor has less values than positions"))?;
            element.copy_from_slice(value);
            *read += 1;
            return Ok(());
        };
        match coordinates {
            Coordinates::All => (0..*extent).try_for_each(|at| {
                let child = node.saturating_mul(*extent).saturating_add(at);
                self.decode(level + 1, child, to + at * stride, dense, read)
            }),
            Coordinates::Compressed { segments, indices } => {
                let bounds = segments.get(node).zip(segments.get(node + 1));
                let (first, end) = bounds
                    .filter(|&(first, end)| first <= end && end <= indices.len())
                    .ok_or_else(|| invalid("the segments of a sparse tensor are invalid"))?;
                let mut next = 0;
                for child in first..end {
                    let at = indices.get(child).filter(|at| (next..*extent).contains(at));
                    let at = at.ok_or_else(|| {
                        invalid("the indices of a sparse tensor are invalid")
                            .expected(format_args!("ascending integers below {extent}"))
                    })?;
                    next = at + 1;
                    self.decode(level + 1, child, to + at * stride, dense, read)?;
                }
                Ok(())
            }
        }
    }
}

/// The coordinates of a level.
fn coordinates(metadata: DimensionMetadata<'_>, extent: usize) -> Result<Coordinates<'_>> {
    match metadata.format() {
        DimensionType::DENSE if natural(metadata.dense_size()) == extent => Ok(Coordinates::All),
        DimensionType::DENSE => Err(invalid("the size of a dense level does not fit the shape")
            .expected(extent)
            .found(metadata.dense_size())),
        DimensionType::SPARSE_CSR => {
            let segments = match metadata.array_segments_type() {
                SparseIndexVector::Int32Vector => metadata
                    .array_segments_as_int_32_vector()
                    .and_then(|it| it.values())
                    .map(Integers::I32),
                SparseIndexVector::Uint16Vector => metadata
                    .array_segments_as_uint_16_vector()
                    .and_then(|it| it.values())
                    .map(Integers::U16),
                _ => metadata
                    .array_segments_as_uint_8_vector()
                    .and_then(|it| it.values())
                    .map(Integers::U8),
            };
            let indices = match metadata.array_indices_type() {
                SparseIndexVector::Int32Vector => metadata
                    .array_indices_as_int_32_vector()
                    .and_then(|it| it.values())
                    .map(Integers::I32),
                SparseIndexVector::Uint16Vector => metadata
                    .array_indices_as_uint_16_vector()
                    .and_then(|it| it.values())
                    .map(Integers::U16),
                _ => metadata
                    .array_indices_as_uint_8_vector()
                    .and_then(|it| it.values())
                    .map(Integers::U8),
            };
            let (Some(segments), Some(indices)) = (segments, indices) else {
                return Err(invalid("a compressed level has no segments or no indices"));
            };
            Ok(Coordinates::Compressed { segments, indices })
        }
        other => Err(unsupported(format!(
            "format {} of a level is not supported",
            other.0
        ))),
    }
}

/// 0 for negative ones.
fn natural(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// `None` if an integer is negative, or above the number of levels.
fn naturals(list: Option<flatbuffers::Vector<'_, i32>>) -> Option<Vec<usize>> {
    let list = list.into_iter().flatten().take(MAX_LEVELS + 1);
    list.map(|value| usize::try_from(value).ok()).collect()
}

fn natural_shape(shape: &[i64]) -> Result<Vec<usize>> {
    let extents = shape.iter().map(|&extent| usize::try_from(extent).ok());
    let extents: Option<Vec<usize>> = extents.collect();
    extents.ok_or_else(|| invalid("the shape of a sparse tensor is not known"))
}

/// The strides in bytes, and the bytes of the dense tensor.
fn strides(extents: &[usize], size: usize) -> Result<(Vec<usize>, usize)> {
    let (mut strides, mut bytes) = (vec![0; extents.len()], size);
    for (stride, &extent) in strides.iter_mut().zip(extents).rev() {
        *stride = bytes;
        let product = bytes.checked_mul(extent);
        bytes = product.ok_or_else(|| {
            invalid("the shape of a sparse tensor is too large").found(format_args!("{extents:?}"))
        })?;
    }
    Ok((strides, bytes))
}

#[cfg(test)]
mod tests;
