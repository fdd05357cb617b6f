//! The tensors of a subgraph: element type, shape, quantisation, data.

use crate::convert::Data;
use crate::model::{invalid, unsupported};
use crate::schema::tflite as schema;
use crate::sparse::SparseTensor;
use bytes::Bytes;
use schema::TensorType;
use tenon_base::{Error, Location, Result, bounded};
use tenon_onnx::proto::data_type;

/// Each element type with that of ONNX, and its bits.
#[rustfmt::skip]
const TYPES: &[(TensorType, i32, usize)] = &[
    (TensorType::FLOAT32,  data_type::FLOAT,    32),
    (TensorType::FLOAT16,  data_type::FLOAT16,  16),
    (TensorType::BFLOAT16, data_type::BFLOAT16, 16),
    (TensorType::FLOAT64,  data_type::DOUBLE,   64),
    (TensorType::INT8,     data_type::INT8,      8),
    (TensorType::INT16,    data_type::INT16,    16),
    (TensorType::INT32,    data_type::INT32,    32),
    (TensorType::INT64,    data_type::INT64,    64),
    (TensorType::UINT8,    data_type::UINT8,     8),
    (TensorType::UINT16,   data_type::UINT16,   16),
    (TensorType::UINT32,   data_type::UINT32,   32),
    (TensorType::UINT64,   data_type::UINT64,   64),
    (TensorType::BOOL,     data_type::BOOL,      8),
    (TensorType::INT4,     data_type::INT4,      4),
    (TensorType::UINT4,    data_type::UINT4,     4),
    (TensorType::INT2,     data_type::INT2,      2),
];

/// The maximum number of dimensions.
const MAX_RANK: usize = 64;

/// A tensor.
#[derive(Debug, Clone)]
pub(crate) struct TensorInfo {
    /// Its name in the file; may be empty and need not be unique.
    pub name: String,
    /// Its element type, that of ONNX.
    pub dtype: i32,
    /// The bits of an element.
    pub bits: usize,
    /// Its extents; -1 for one that is known only when the model runs.
    pub shape: Vec<i64>,
    pub quantisation: Option<Quantisation>,
    /// Its elements, when it is a constant.
    pub data: Option<Bytes>,
    /// A state, which the interpreter keeps between invocations.
    pub is_variable: bool,
}

/// The meaning of integers: scale times (integer - zero point), for all elements or for each position of a dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantisation {
    /// At least one.
    pub scales: Vec<f32>,
    /// As many as scales.
    pub zero_points: Vec<i64>,
    /// The dimension of several scales.
    pub axis: usize,
}

impl TensorInfo {
    /// Reads a tensor of the file. The bytes of a sparse one are subtracted from `decoded`, those that may be decoded.
    pub fn read(
        tensor: schema::Tensor<'_>,
        model: schema::Model<'_>,
        data: Data<'_>,
        decoded: &mut usize,
    ) -> Result<Self> {
        let name = tensor.name().unwrap_or_default().to_owned();
        let place = Location::field(format!("tensor '{name}'"));
        Self::read_parts(name, tensor, model, data, decoded).map_err(|error| error.at(place))
    }

    fn read_parts(
        name: String,
        tensor: schema::Tensor<'_>,
        model: schema::Model<'_>,
        data: Data<'_>,
        decoded: &mut usize,
    ) -> Result<Self> {
        let row = TYPES.iter().find(|row| row.0 == tensor.type_());
        let Some(&(_, dtype, bits)) = row else {
            return Err(unsupported_type(tensor.type_()));
        };
        if tensor.external_buffer() != 0 {
            return Err(unsupported("data in another file is not supported")
                .help("convert the model into one file"));
        }
        let shape = shape(tensor)?;
        let quantisation = Quantisation::read(tensor, &shape)?;
        let mut found = buffer(tensor, model, data)?;
        if let (Some(parameters), Some(values)) = (tensor.sparsity(), &found) {
            if bits < 8 {
                return Err(unsupported(
                    "a sparse tensor with elements of less than a byte is not supported",
                )
                .help("convert the model without sparsity, or with elements of i8"));
            }
            let sparse = SparseTensor::new(parameters, &shape, bits / 8, values)?;
            let dense = sparse.dense(*decoded)?;
            *decoded -= dense.len();
            found = Some(dense.into());
        }
        let mut info = Self {
            name,
            dtype,
            bits,
            shape,
            quantisation,
            data: None,
            is_variable: tensor.is_variable(),
        };
        if let Some(found) = found {
            let bytes = info.bytes()?;
            if found.len() != bytes {
                return Err(invalid("the data of a tensor does not fit its shape")
                    .expected(format_args!("{bytes} bytes"))
                    .found(found.len()));
            }
            info.data = Some(found);
        } else if !info.is_variable && info.elements() == Some(0) {
            info.data = Some(Bytes::new());
        }
        Ok(info)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements; `None` if an extent is not known.
    pub fn elements(&self) -> Option<usize> {
        let extents = self
            .shape
            .iter()
            .map(|&extent| usize::try_from(extent).ok());
        extents
            .into_iter()
            .try_fold(1usize, |product, extent| product.checked_mul(extent?))
    }

    /// The bytes of a constant of this type.
    fn bytes(&self) -> Result<usize> {
        let bits = self
            .elements()
            .and_then(|count| count.checked_mul(self.bits));
        let bits = bits.ok_or_else(|| {
            invalid("the shape of a constant tensor is too large or not known")
                .found(format_args!("{:?}", self.shape))
        })?;
        Ok(bits.div_ceil(8))
    }

    /// The quantisation, if elements are integers that represent real values.
    pub fn quantised(&self) -> Option<&Quantisation> {
        self.quantisation.as_ref()
    }

    /// The elements of a constant of integers or bool.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let data = self.data.as_deref()?;
        let ints: Vec<i64> = match self.dtype {
            data_type::INT64 => data
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| i64::from_le_bytes(*b))
                .collect(),
            data_type::INT32 => data
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| i32::from_le_bytes(*b).into())
                .collect(),
            data_type::INT16 => data
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| i16::from_le_bytes(*b).into())
                .collect(),
            data_type::INT8 => data.iter().map(|&b| i64::from(b as i8)).collect(),
            data_type::UINT8 | data_type::BOOL => data.iter().map(|&b| b.into()).collect(),
            _ => return None,
        };
        Some(ints)
    }

    /// A constant with its dimensions in another order; `None` for elements of less than a byte.
    pub fn permuted(&self, order: &[usize]) -> Result<Option<Self>> {
        let Some(data) = self.data.as_deref().filter(|_| self.bits >= 8) else {
            return Ok(None);
        };
        let size = self.bits / 8;
        let shape: Vec<usize> = self.shape.iter().map(|&extent| extent as usize).collect();
        let mut strides = vec![size; shape.len()];
        for axis in (1..shape.len()).rev() {
            // Of a tensor without elements the others can be of any size.
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
        }
        let extents: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let steps: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
        let mut moved = bounded::with_capacity_within("a constant", data.len(), usize::MAX)?;
        let mut position = vec![0usize; extents.len()];
        let mut at = 0;
        for _ in 0..data.len() / size {
            moved.extend_from_slice(&data[at..at + size]);
            for axis in (0..extents.len()).rev() {
                position[axis] += 1;
                at += steps[axis];
                if position[axis] < extents[axis] {
                    break;
                }
                at -= steps[axis] * extents[axis];
                position[axis] = 0;
            }
        }
        let quantisation = self.quantisation.clone().map(|it| it.permuted(order));
        Ok(Some(Self {
            shape: order.iter().map(|&axis| self.shape[axis]).collect(),
            data: Some(moved.into()),
            quantisation,
            ..self.clone()
        }))
    }
}

impl Quantisation {
    /// The parameters of a tensor; `None` for one without scales, and for one whose elements are no integers.
    fn read(tensor: schema::Tensor<'_>, shape: &[i64]) -> Result<Option<Self>> {
        let Some(parameters) = tensor.quantization() else {
            return Ok(None);
        };
        let is_integer = matches!(
            tensor.type_(),
            TensorType::INT2
                | TensorType::INT4
                | TensorType::UINT4
                | TensorType::INT8
                | TensorType::UINT8
                | TensorType::INT16
                | TensorType::UINT16
                | TensorType::INT32
                | TensorType::INT64
        );
        if !is_integer {
            return Ok(None);
        }
        if parameters.details_type() != 0 {
            return Err(unsupported(
                "quantisation with scales for blocks, or of a custom form, is not supported",
            ));
        }
        let scales: Vec<f32> = parameters.scale().into_iter().flatten().collect();
        if scales.is_empty() {
            return Ok(None);
        }
        let mut zero_points: Vec<i64> = parameters.zero_point().into_iter().flatten().collect();
        if zero_points.len() <= 1 {
            let all = zero_points.first().copied().unwrap_or(0);
            zero_points = vec![all; scales.len()];
        }
        let axis = if scales.len() == 1 {
            0
        } else {
            usize::try_from(parameters.quantized_dimension()).unwrap_or(usize::MAX)
        };
        let extent = shape.get(axis).copied().unwrap_or(0);
        let fits = scales.len() == 1 || extent == scales.len() as i64;
        if !fits || zero_points.len() != scales.len() {
            return Err(invalid("the scales of a tensor do not fit its shape")
                .expected("one, or as many as the extent of the quantised dimension")
                .found(format_args!(
                    "{} scales and {} zero points for dimension {axis} of {shape:?}",
                    scales.len(),
                    zero_points.len()
                )));
        }
        Ok(Some(Self {
            scales,
            zero_points,
            axis,
        }))
    }

    /// The same for a tensor with its dimensions in another order.
    pub fn permuted(mut self, order: &[usize]) -> Self {
        if self.scales.len() > 1 {
            let moved = order.iter().position(|&axis| axis == self.axis);
            self.axis = moved.unwrap_or(self.axis);
        }
        self
    }
}

/// The extents; -1 for those that are symbolic.
fn shape(tensor: schema::Tensor<'_>) -> Result<Vec<i64>> {
    let shape: Vec<i64> = tensor
        .shape()
        .into_iter()
        .flatten()
        .map(i64::from)
        .collect();
    let symbolic: Vec<i64> = tensor
        .shape_signature()
        .into_iter()
        .flatten()
        .map(i64::from)
        .collect();
    let shape = if symbolic.len() == shape.len() {
        symbolic
    } else {
        shape
    };
    if shape.len() > MAX_RANK || shape.iter().any(|&extent| extent < -1) {
        return Err(invalid("the shape of a tensor is invalid")
            .expected(format_args!("at most {MAX_RANK} extents, of at least -1"))
            .found(format_args!("{:?}", &shape[..shape.len().min(MAX_RANK)])));
    }
    Ok(shape)
}

/// The data of a tensor, inside the flatbuffer or behind it.
fn buffer(
    tensor: schema::Tensor<'_>,
    model: schema::Model<'_>,
    data: Data<'_>,
) -> Result<Option<Bytes>> {
    let index = tensor.buffer() as usize;
    // The first buffer is empty by definition.
    if index == 0 {
        return Ok(None);
    }
    let buffers = model.buffers();
    let count = buffers.map_or(0, |buffers| buffers.len());
    let Some(buffer) = buffers
        .filter(|_| index < count)
        .map(|buffers| buffers.get(index))
    else {
        return Err(invalid("the buffer of a tensor does not exist")
            .expected(format_args!("an index below {count}"))
            .found(index));
    };
    // 1 is a placeholder of converters, before the position is known.
    if buffer.offset() > 1 && buffer.size() > 0 {
        let range = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.size()).ok());
        let range = range.and_then(|(start, size)| Some(start..start.checked_add(size)?));
        let range = range.filter(|range| range.end <= data.file.len());
        return range
            .map(|range| Some(data.file.slice(range)))
            .ok_or_else(|| {
                invalid("the data of a tensor is outside the file")
                    .expected(format_args!("at most {} bytes", data.file.len()))
                    .found(format_args!(
                        "{} bytes from byte {}",
                        buffer.size(),
                        buffer.offset()
                    ))
            });
    }
    let bytes = buffer.data().map(|bytes| bytes.bytes()).unwrap_or_default();
    Ok((!bytes.is_empty()).then(|| data.flatbuffer.slice_ref(bytes)))
}

/// The error about an element type that Tenon does not import.
fn unsupported_type(dtype: TensorType) -> Error {
    match dtype.variant_name() {
        Some(name) => unsupported(format!("element type {name} is not supported")),
        None => invalid(format!("element type {} does not exist", dtype.0)),
    }
}
