//! Tensors that libraries of one process share without a copy: [DLPack] 1.1, and its form before version 1.
//!
//! [DLPack]: https://dmlc.github.io/dlpack/latest/c_api.html

#![allow(unsafe_code, reason = "the memory of other libraries")]

use crate::{Buffer, BufferMut, DataType, Shape, Tensor, TensorType};
use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use tenon_base::{Error, ErrorKind, Result};

/// The version that exported tensors have.
const VERSION: Version = Version { major: 1, minor: 1 };

/// No code may write the elements.
const READ_ONLY: u64 = 1;

/// Each element of a type below 8 bits has a byte.
const PADDED: u64 = 4;

/// The greatest rank that is accepted.
const MAX_RANK: i32 = 64;

/// A device: a kind of the list `DLDeviceType`, and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Device {
    /// The kind.
    pub kind: i32,
    /// Its position among the devices of the kind.
    pub index: i32,
}

impl Device {
    /// Memory of the host.
    pub const CPU: Device = Device { kind: 1, index: 0 };

    /// Whether the CPU accesses its memory: `kDLCPU`, and pinned memory of the host, `kDLCUDAHost` and `kDLROCMHost`.
    pub fn is_host(self) -> bool {
        matches!(self.kind, 1 | 3 | 11)
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct RawTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: ElementType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct VersionedTensor {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut VersionedTensor)>,
    flags: u64,
    tensor: RawTensor,
}

/// `DLManagedTensor`, of libraries that do not know version 1.
#[repr(C)]
pub struct LegacyTensor {
    tensor: RawTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut LegacyTensor)>,
}

/// What an exported tensor refers to.
struct Context {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Box<dyn Any + Send + Sync>,
}

/// A tensor of this or another library, released when dropped.
pub struct DlpackTensor(Owned);

enum Owned {
    Versioned(NonNull<VersionedTensor>),
    Legacy(NonNull<LegacyTensor>),
}

// SAFETY: the creator allows access and release on any thread (`from_versioned`, `from_legacy`, `new`).
unsafe impl Send for DlpackTensor {}
// SAFETY: shared references only read the description.
unsafe impl Sync for DlpackTensor {}

impl DlpackTensor {
    /// The tensor of a type at an address of a device.
    ///
    /// # Safety
    /// Until `owner` is dropped, `start` must be the address of the type's bytes in memory of the device, which others may
    /// read, and write unless the tensor is `read_only`.
    ///
    /// # Errors
    /// A type that DLPack does not have.
    pub unsafe fn new(
        ty: &TensorType,
        device: Device,
        start: *mut u8,
        read_only: bool,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let dtype = element_type(ty.dtype()).ok_or_else(|| {
            let text = format!("DLPack has no type {}", ty.dtype());
            Error::new(ErrorKind::Unsupported, text).help("convert the tensor first")
        })?;
        let as_i64s = |values: &[usize]| values.iter().map(|&value| value as i64).collect();
        let mut context = Box::new(Context {
            shape: as_i64s(ty.shape()),
            strides: as_i64s(&ty.shape().strides()),
            _owner: Box::new(owner),
        });
        let tensor = RawTensor {
            data: start.cast(),
            device,
            ndim: ty.shape().len() as i32,
            dtype,
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let whole = Box::new(VersionedTensor {
            version: VERSION,
            context: Box::into_raw(context).cast(),
            deleter: Some(delete_versioned),
            flags: if read_only { READ_ONLY } else { 0 },
            tensor,
        });
        Ok(Self(Owned::Versioned(NonNull::from(Box::leak(whole)))))
    }

    /// Takes over a tensor of another library. Its version is checked by the functions that read it.
    ///
    /// # Safety
    /// `tensor` must point to a `DLManagedTensorVersioned` as its library made it, which no other code releases, with a
    /// deleter that may be called on any thread.
    pub unsafe fn from_versioned(tensor: NonNull<VersionedTensor>) -> Self {
        Self(Owned::Versioned(tensor))
    }

    /// Takes over a tensor of a library that does not know version 1.
    ///
    /// # Safety
    /// As for [`from_versioned`](Self::from_versioned), of a `DLManagedTensor`.
    pub unsafe fn from_legacy(tensor: NonNull<LegacyTensor>) -> Self {
        Self(Owned::Legacy(tensor))
    }

    /// Passes the tensor on; the receiver calls its deleter.
    ///
    /// # Errors
    /// A tensor of a library that does not know version 1.
    pub fn into_versioned(self) -> Result<NonNull<VersionedTensor>, Self> {
        match self.0 {
            Owned::Versioned(tensor) => {
                std::mem::forget(self);
                Ok(tensor)
            }
            Owned::Legacy(_) => Err(self),
        }
    }

    /// Passes the tensor on in the form before version 1, which has no mark of a read-only tensor.
    ///
    /// # Errors
    /// A tensor of another version.
    pub fn into_legacy(self) -> Result<NonNull<LegacyTensor>> {
        let tensor = match &self.0 {
            Owned::Legacy(tensor) => {
                let tensor = *tensor;
                std::mem::forget(self);
                return Ok(tensor);
            }
            Owned::Versioned(_) => self.tensor()?,
        };
        let tensor = RawTensor { ..*tensor };
        let whole = Box::new(LegacyTensor {
            tensor,
            context: Box::into_raw(Box::new(self)).cast(),
            deleter: Some(delete_legacy),
        });
        Ok(NonNull::from(Box::leak(whole)))
    }

    /// The device whose memory it is in.
    pub fn device(&self) -> Result<Device> {
        Ok(self.tensor()?.device)
    }

    /// Whether no code may write it.
    pub fn is_read_only(&self) -> bool {
        self.flags() & READ_ONLY != 0
    }

    /// The address of its first element.
    pub fn start(&self) -> Result<*mut u8> {
        let tensor = self.tensor()?;
        let offset = usize::try_from(tensor.byte_offset).map_err(|_| damaged("the offset"))?;
        Ok(tensor.data.cast::<u8>().wrapping_add(offset))
    }

    /// Its type.
    ///
    /// # Errors
    /// Types that Tenon does not have, and elements that are not contiguous in row-major order.
    pub fn ty(&self) -> Result<TensorType> {
        let ty = self.type_in_any_order()?;
        if let Some(strides) = self.strides(&ty)? {
            check_contiguous(&ty, strides)?;
        }
        Ok(ty)
    }

    /// Its type, of elements in any order.
    fn type_in_any_order(&self) -> Result<TensorType> {
        let tensor = self.tensor()?;
        let dtype = data_type(tensor.dtype).ok_or_else(|| {
            let ElementType { code, bits, lanes } = tensor.dtype;
            let found = format!("code {code} of {bits} bits and {lanes} lanes");
            Error::new(ErrorKind::Unsupported, "an unknown type of a DLPack tensor").found(found)
        })?;
        if dtype.bits() < 8 && self.flags() & PADDED != 0 {
            let text = format!("each {dtype} of the DLPack tensor has a byte");
            return Err(Error::new(ErrorKind::Unsupported, text).expected("packed elements"));
        }
        if !(0..=MAX_RANK).contains(&tensor.ndim) {
            let error = damaged("the rank").expected(format_args!("0 to {MAX_RANK}"));
            return Err(error.found(tensor.ndim));
        }
        let rank = tensor.ndim as usize;
        // SAFETY: the library that made the tensor gives the extents of all dimensions (`from_versioned`).
        let extents = unsafe { list(tensor.shape, rank) }.ok_or_else(|| damaged("the shape"))?;
        let extents: Result<Vec<usize>, _> = extents.iter().map(|&n| usize::try_from(n)).collect();
        let extents = extents.map_err(|_| damaged("a negative extent"))?;
        let ty = TensorType::new(dtype, Shape::new(&extents))?;
        if tensor.data.is_null() && ty.bytes() > 0 {
            return Err(damaged("the address"));
        }
        Ok(ty)
    }

    /// The strides in elements; `None` of contiguous elements.
    fn strides(&self, ty: &TensorType) -> Result<Option<&[i64]>> {
        let tensor = self.tensor()?;
        // SAFETY: the library that made the tensor gives the strides of all dimensions or none (`from_versioned`), and
        // the rank of `ty` is that of the tensor.
        Ok(unsafe { list(tensor.strides, ty.shape().len()) })
    }

    /// A contiguous copy of the tensor, whose elements may be in any order, in memory of the host.
    ///
    /// # Safety
    /// No code may write the elements meanwhile.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor); elements below 8 bits that are not contiguous.
    pub unsafe fn copied(&self) -> Result<Tensor> {
        let ty = self.type_in_any_order()?;
        self.expect_host()?;
        let strides = self.strides(&ty)?;
        let start = self.start()?.cast_const();
        let is_contiguous = strides.is_none_or(|strides| check_contiguous(&ty, strides).is_ok());
        if ty.bytes() == 0 {
            return Tensor::zeroed(ty);
        }
        if is_contiguous {
            // SAFETY: the library gives the tensor's bytes at its address (`from_versioned`), which no code writes.
            let source = unsafe { std::slice::from_raw_parts(start, ty.bytes()) };
            return Tensor::new(ty, BufferMut::copy_of(source)?.freeze());
        }
        let (Some(strides), true) = (strides, ty.dtype().bits() >= 8) else {
            return self.ty().and_then(Tensor::zeroed);
        };
        let mut copy = BufferMut::zeroed(ty.bytes())?;
        let size = ty.dtype().bits() / 8;
        let mut position = vec![0usize; ty.shape().len()];
        for element in copy.chunks_exact_mut(size) {
            let steps = position.iter().zip(strides);
            let offset = steps
                .map(|(&at, &stride)| stride.wrapping_mul(at as i64))
                .fold(0, i64::wrapping_add);
            let source = start.wrapping_offset((offset as isize).wrapping_mul(size as isize));
            // SAFETY: the library gives every element at its position times the strides (`from_versioned`); no code
            // writes it, and `element` is separate memory.
            unsafe {
                std::ptr::copy_nonoverlapping(source, element.as_mut_ptr(), size);
            }
            for (at, &extent) in position.iter_mut().zip(ty.shape().iter()).rev() {
                *at += 1;
                if *at < extent {
                    break;
                }
                *at = 0;
            }
        }
        Tensor::new(ty, copy.freeze())
    }

    fn expect_host(&self) -> Result<()> {
        let device = self.device()?;
        if device.is_host() {
            return Ok(());
        }
        let text = "a DLPack tensor is in memory of a device";
        let error = Error::new(ErrorKind::InvalidArgument, text).expected("memory of the host");
        Err(error.found(format_args!(
            "device {} of kind {}",
            device.index, device.kind
        )))
    }

    /// The tensor, in memory of the host. It shares its elements with the library that it came from; it is a copy where
    /// they are not aligned.
    ///
    /// # Safety
    /// Until the result and its clones are dropped, no code may write the elements.
    pub unsafe fn into_tensor(self) -> Result<Tensor> {
        let (ty, start) = (self.ty()?, self.start()?);
        self.expect_host()?;
        let (bytes, align) = (ty.bytes(), (ty.dtype().bits() / 8).clamp(1, 8));
        let Some(start) = NonNull::new(start).filter(|_| bytes > 0) else {
            return Tensor::zeroed(ty);
        };
        if !(start.as_ptr() as usize).is_multiple_of(align) {
            // SAFETY: the library gives the tensor's bytes at its address (`from_versioned`), which no code writes.
            let source = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) };
            return Tensor::new(ty, BufferMut::copy_of(source)?.freeze());
        }
        // SAFETY: the bytes are valid until the tensor of the other library is released (`from_versioned`), which is the
        // owner of the buffer, on any thread, and not written (requirement).
        let buffer = unsafe { Buffer::from_owner(start, bytes, self) };
        Tensor::new(ty, buffer)
    }

    fn flags(&self) -> u64 {
        match &self.0 {
            // SAFETY: the tensor lives as long as `self` (`from_versioned`).
            Owned::Versioned(tensor) => unsafe { tensor.as_ref() }.flags,
            Owned::Legacy(_) => 0,
        }
    }

    /// The description, of a known version: those of others may have another layout.
    fn tensor(&self) -> Result<&RawTensor> {
        match &self.0 {
            Owned::Versioned(whole) => {
                // SAFETY: the tensor lives as long as `self`; version, context and deleter have their place in every
                // version, and the other members are read after the version was checked.
                let version = unsafe { (*whole.as_ptr()).version };
                if version.major != VERSION.major {
                    let text = "a tensor of another major version of DLPack";
                    let error = Error::new(ErrorKind::Unsupported, text).expected(VERSION.major);
                    return Err(error.found(version.major));
                }
                // SAFETY: as above.
                Ok(unsafe { &(*whole.as_ptr()).tensor })
            }
            // SAFETY: the tensor lives as long as `self` (`from_legacy`).
            Owned::Legacy(whole) => Ok(unsafe { &(*whole.as_ptr()).tensor }),
        }
    }
}

impl Drop for DlpackTensor {
    fn drop(&mut self) {
        // SAFETY: this value alone releases the tensor, once (`from_versioned`, `from_legacy`).
        unsafe {
            match self.0 {
                Owned::Versioned(whole) => {
                    if let Some(deleter) = (*whole.as_ptr()).deleter {
                        deleter(whole.as_ptr());
                    }
                }
                Owned::Legacy(whole) => {
                    if let Some(deleter) = (*whole.as_ptr()).deleter {
                        deleter(whole.as_ptr());
                    }
                }
            }
        }
    }
}

impl Tensor {
    /// The tensor for another library, which may only read it; no element is copied.
    ///
    /// # Errors
    /// A type that DLPack does not have, such as strings.
    pub fn to_dlpack(&self) -> Result<DlpackTensor> {
        let start = self.bytes().as_ptr().cast_mut();
        // SAFETY: the bytes are valid for reads as long as the clone of the tensor lives.
        unsafe { DlpackTensor::new(self.ty(), Device::CPU, start, true, self.clone()) }
    }
}

/// Releases a tensor of [`DlpackTensor::new`].
unsafe extern "C" fn delete_versioned(tensor: *mut VersionedTensor) {
    // SAFETY: `new` made both boxes, and the holder of the tensor calls its deleter once.
    unsafe {
        let whole = Box::from_raw(tensor);
        drop(Box::from_raw(whole.context.cast::<Context>()));
    }
}

/// Releases a tensor of [`DlpackTensor::into_legacy`].
unsafe extern "C" fn delete_legacy(tensor: *mut LegacyTensor) {
    // SAFETY: `into_legacy` made both boxes, and the holder of the tensor calls its deleter once.
    unsafe {
        let whole = Box::from_raw(tensor);
        drop(Box::from_raw(whole.context.cast::<DlpackTensor>()));
    }
}

/// A list of `count` values; `None` for a null pointer, unless the list is empty.
///
/// # Safety
/// `start` is null, or `count` values are there during `'a`.
unsafe fn list<'a>(start: *const i64, count: usize) -> Option<&'a [i64]> {
    if count == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller guarantees the condition of this function.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, count) })
}

/// Strides of dimensions with one element, and of tensors without elements, have no meaning.
fn check_contiguous(ty: &TensorType, strides: &[i64]) -> Result<()> {
    let expected = ty.shape().strides();
    let extents = ty.shape().iter();
    let differs = |((&extent, &expected), &found): ((&usize, &usize), &i64)| {
        extent > 1 && i64::try_from(expected) != Ok(found)
    };
    if ty.elements() == 0 || !extents.zip(&expected).zip(strides).any(differs) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::InvalidArgument, "a tensor is not contiguous");
    let error = error.help("pass a contiguous copy");
    let error = error.expected(format_args!("strides {expected:?}"));
    Err(error.found(format_args!("strides {strides:?}")))
}

fn damaged(what: &str) -> Error {
    let text = format!("{what} of a DLPack tensor is not valid");
    Error::new(ErrorKind::InvalidArgument, text)
}

/// The codes of `DLDataTypeCode`, with the bits of one element.
const TYPES: &[(DataType, u8)] = &[
    (DataType::I2, 0),
    (DataType::I4, 0),
    (DataType::I8, 0),
    (DataType::I16, 0),
    (DataType::I32, 0),
    (DataType::I64, 0),
    (DataType::U2, 1),
    (DataType::U4, 1),
    (DataType::U8, 1),
    (DataType::U16, 1),
    (DataType::U32, 1),
    (DataType::U64, 1),
    (DataType::F16, 2),
    (DataType::F32, 2),
    (DataType::F64, 2),
    (DataType::BF16, 4),
    (DataType::C64, 5),
    (DataType::C128, 5),
    (DataType::Bool, 6),
    (DataType::F8E3M4, 7),
    (DataType::F8E4M3, 8),
    (DataType::F8E4M3Fn, 10),
    (DataType::F8E4M3FnUz, 11),
    (DataType::F8E5M2, 12),
    (DataType::F8E5M2FnUz, 13),
    (DataType::F8E8M0Fnu, 14),
    (DataType::F4E2M1Fn, 17),
];

fn element_type(dtype: DataType) -> Option<ElementType> {
    let &(_, code) = TYPES.iter().find(|(known, _)| *known == dtype)?;
    Some(ElementType {
        code,
        bits: dtype.bits() as u8,
        lanes: 1,
    })
}

fn data_type(ty: ElementType) -> Option<DataType> {
    let mut types = TYPES.iter().map(|&(dtype, _)| dtype);
    types.find(|&dtype| element_type(dtype) == Some(ty))
}

const _: () = assert!(size_of::<VersionedTensor>() == 80 && size_of::<LegacyTensor>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A tensor of another library, whose owner and description a test sees and changes.
    fn foreign(change: impl FnOnce(&mut VersionedTensor)) -> (DlpackTensor, Arc<Vec<f32>>) {
        let elements = Arc::new(vec![1f32, 2., 3., 4., 5., 6.]);
        let ty = TensorType::new(DataType::F32, [2, 3]).unwrap();
        let start = elements.as_ptr().cast_mut().cast();
        // SAFETY: the vector is the owner, and not written.
        let tensor =
            unsafe { DlpackTensor::new(&ty, Device::CPU, start, true, elements.clone()) }.unwrap();
        let mut raw = tensor.into_versioned().ok().unwrap();
        // SAFETY: the test alone holds the tensor.
        change(unsafe { raw.as_mut() });
        // SAFETY: as above; the deleter may be called on any thread.
        (unsafe { DlpackTensor::from_versioned(raw) }, elements)
    }

    fn into_tensor(tensor: DlpackTensor) -> Result<Tensor> {
        // SAFETY: the tests write no elements.
        unsafe { tensor.into_tensor() }
    }

    fn message(change: impl FnOnce(&mut VersionedTensor)) -> String {
        let (tensor, elements) = foreign(change);
        let text = into_tensor(tensor).unwrap_err().to_string();
        assert_eq!(Arc::strong_count(&elements), 1);
        text
    }

    #[test]
    fn elements_are_shared_and_released_once() {
        let (tensor, elements) = foreign(|_| ());
        assert!(tensor.is_read_only());
        assert_eq!(tensor.device().unwrap(), Device::CPU);
        let tensor = into_tensor(tensor).unwrap();
        assert_eq!(tensor.ty().to_string(), "f32[2, 3]");
        assert_eq!(tensor.bytes().as_ptr(), elements.as_ptr().cast());
        // On to a library of the older form, and back.
        let legacy = tensor.to_dlpack().unwrap().into_legacy().unwrap();
        drop(tensor);
        assert_eq!(Arc::strong_count(&elements), 2);
        // SAFETY: the test alone holds the tensor.
        let back = into_tensor(unsafe { DlpackTensor::from_legacy(legacy) }).unwrap();
        assert_eq!(back.as_slice::<f32>().unwrap(), elements.as_slice());
        drop(back);
        assert_eq!(Arc::strong_count(&elements), 1);
    }

    #[test]
    fn elements_in_another_order_are_copied() {
        // The transpose, and rows in reverse.
        let cases = [
            ([3, 2], [1, 3], 0, [1f32, 4., 2., 5., 3., 6.]),
            ([2, 3], [-3, 1], 12, [4., 5., 6., 1., 2., 3.]),
        ];
        for (shape, strides, offset, expected) in cases {
            let (tensor, elements) = foreign(|raw| {
                // SAFETY: the lists of two extents that `new` made.
                unsafe {
                    std::slice::from_raw_parts_mut(raw.tensor.shape, 2).copy_from_slice(&shape);
                    std::slice::from_raw_parts_mut(raw.tensor.strides, 2).copy_from_slice(&strides);
                }
                raw.tensor.byte_offset = offset;
            });
            // SAFETY: no code writes the elements.
            let copy = unsafe { tensor.copied() }.unwrap();
            assert_eq!(copy.as_slice::<f32>().unwrap(), expected);
            assert!(into_tensor(tensor).is_err());
            assert_eq!(Arc::strong_count(&elements), 1);
        }
        let (tensor, _elements) = foreign(|_| ());
        // SAFETY: as above.
        let copy = unsafe { tensor.copied() }.unwrap();
        assert_eq!(copy.as_slice::<f32>().unwrap(), [1., 2., 3., 4., 5., 6.]);
    }

    #[test]
    fn every_type_passes_both_ways() {
        for &dtype in DataType::ALL {
            let tensor = Tensor::zeroed(TensorType::new(dtype, [2, 0, 5]).unwrap()).unwrap();
            let Ok(shared) = tensor.to_dlpack() else {
                use DataType::{F32r, String, Tf32};
                assert!(matches!(dtype, F32r | String | Tf32), "{dtype}");
                continue;
            };
            assert_eq!(shared.ty().unwrap(), *tensor.ty());
        }
        let scalar = Tensor::scalar(7i64).unwrap().to_dlpack().unwrap();
        assert_eq!(into_tensor(scalar).unwrap().to_i64s(), Some(vec![7]));
    }

    #[test]
    fn an_offset_is_added_and_elements_that_are_not_aligned_are_copied() {
        let (tensor, elements) = foreign(|raw| {
            raw.tensor.byte_offset = 4;
            raw.tensor.ndim = 1;
            // SAFETY: the shape has two extents.
            raw.tensor.shape = unsafe { raw.tensor.shape.add(1) };
            raw.tensor.strides = std::ptr::null_mut();
        });
        let tensor = into_tensor(tensor).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), &elements[1..4]);
        let (tensor, elements) = foreign(|raw| {
            raw.tensor.byte_offset = 2;
            raw.tensor.ndim = 0;
        });
        let tensor = into_tensor(tensor).unwrap();
        assert_eq!(tensor.as_slice::<f32>().map(<[_]>::len), Some(1));
        assert_eq!(Arc::strong_count(&elements), 1);
    }

    #[test]
    fn strides_of_one_element_have_no_meaning() {
        let (tensor, _elements) = foreign(|raw| {
            // SAFETY: shape and strides have two values.
            unsafe {
                *raw.tensor.shape = 1;
                *raw.tensor.strides = -7;
            }
        });
        assert_eq!(tensor.ty().unwrap().to_string(), "f32[1, 3]");
    }

    #[test]
    fn damaged_tensors_are_refused_and_released() {
        assert_eq!(
            message(|raw| raw.version.major = 2),
            "a tensor of another major version of DLPack: expected 1, found 2"
        );
        assert_eq!(
            // SAFETY: there are two strides.
            message(|raw| unsafe { *raw.tensor.strides = 1 }),
            "a tensor is not contiguous: expected strides [3, 1], found strides [1, 1]; pass a contiguous copy"
        );
        assert_eq!(
            message(|raw| raw.tensor.device = Device { kind: 2, index: 1 }),
            "a DLPack tensor is in memory of a device: expected memory of the host, found device 1 of kind 2"
        );
        assert_eq!(
            message(|raw| raw.tensor.dtype.lanes = 4),
            "an unknown type of a DLPack tensor: found code 2 of 32 bits and 4 lanes"
        );
        assert_eq!(
            message(|raw| raw.tensor.ndim = -1),
            "the rank of a DLPack tensor is not valid: expected 0 to 64, found -1"
        );
        // SAFETY: there are two extents.
        assert!(message(|raw| unsafe { *raw.tensor.shape = -1 }).contains("negative extent"));
        // SAFETY: there are two extents.
        assert!(message(|raw| unsafe { *raw.tensor.shape = i64::MAX }).contains("larger than"));
        assert!(message(|raw| raw.tensor.shape = std::ptr::null_mut()).contains("the shape"));
        assert!(message(|raw| raw.tensor.data = std::ptr::null_mut()).contains("the address"));
        let padded = message(|raw| {
            raw.flags = PADDED;
            raw.tensor.dtype.code = 1;
            raw.tensor.dtype.bits = 4;
        });
        assert!(padded.contains("packed elements"), "{padded}");
    }
}
