//! Tensors of DLPack 1, as another library makes them: `DLManagedTensorVersioned` of dlpack.h.

use crate::arguments::bits;
use crate::caller::Caller;
use crate::objects::PortInfo;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tensors that were made, and those that were released.
pub static MADE: AtomicU64 = AtomicU64::new(0);
pub static RELEASED: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
pub struct ManagedTensor {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
    flags: u64,
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// Its elements, shape and strides.
type Owned = (Vec<u64>, Vec<i64>, Vec<i64>);

unsafe extern "C" fn release(tensor: *mut ManagedTensor) {
    // SAFETY: `Caller::managed_tensor` made both boxes, and the library releases a tensor once.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.context.cast::<Owned>()));
    }
    RELEASED.fetch_add(1, Ordering::SeqCst);
}

/// Releases a tensor that the library made.
///
/// # Safety
/// `tensor` was returned by `model_run_dlpack`, and not released.
pub unsafe fn release_output(tensor: *mut c_void) {
    let tensor = tensor.cast::<ManagedTensor>();
    // SAFETY: a tensor of the library (requirement).
    unsafe {
        assert!((*tensor).version[0] == 1 && (*tensor).ndim >= 0);
        let shape = std::slice::from_raw_parts((*tensor).shape, (*tensor).ndim as usize);
        assert!(shape.iter().all(|&extent| extent >= 0));
        (*tensor).deleter.expect("a deleter")(tensor);
    }
}

impl Caller<'_> {
    /// The tensor of a port, valid in most cases.
    pub fn managed_tensor(&mut self, port: &PortInfo, size: i64) -> *mut ManagedTensor {
        let fixed = |&extent: &i64| if extent < 0 { size } else { extent };
        let mut shape: Vec<i64> = port.extents.iter().map(fixed).collect();
        let elements: i64 = shape.iter().product();
        let bits = bits(port.code) as u8;
        let words = vec![0x3F3F_3F3F_3F3F_3F3Fu64; elements as usize * bits as usize / 64 + 2];
        let damage = self.damage(24);
        match damage {
            0 => shape.push(self.choices.pick(&[1, 0, -1])),
            1 => drop(shape.pop()),
            2 => shape
                .iter_mut()
                .for_each(|extent| *extent = self.choices.pick(&[0, -1, i64::MIN])),
            _ => {}
        }
        let mut strides = vec![1i64; shape.len()];
        for at in (1..shape.len()).rev() {
            strides[at - 1] = strides[at].wrapping_mul(shape[at]);
        }
        if damage == 3 {
            strides.reverse();
        }
        let code = match port.code {
            1..=3 => 2,
            4 => 4,
            13 | 15..=18 => 0,
            23 => 6,
            _ => 1,
        };
        let mut owned: Box<Owned> = Box::new((words, shape, strides));
        let ndim = match damage {
            4 => self.choices.pick(&[-1, i32::MIN, 0]),
            _ => owned.1.len() as i32,
        };
        let tensor = ManagedTensor {
            version: if damage == 5 { [2, 0] } else { [1, 1] },
            deleter: Some(release),
            flags: if damage == 13 {
                self.choices.below(8) as u64
            } else {
                0
            },
            data: if damage == 6 {
                null_mut()
            } else {
                owned.0.as_mut_ptr().cast()
            },
            device: if damage == 7 {
                [self.choices.below(16) as i32, 0]
            } else {
                [1, 0]
            },
            ndim,
            code: if damage == 8 {
                self.choices.below(256) as u8
            } else {
                code
            },
            bits: if damage == 9 {
                self.choices.pick(&[0, 1, 4])
            } else {
                bits
            },
            lanes: if damage == 10 {
                self.choices.pick(&[0, 2])
            } else {
                1
            },
            shape: if damage == 11 {
                null_mut()
            } else {
                owned.1.as_mut_ptr()
            },
            strides: if damage == 12 {
                null_mut()
            } else {
                owned.2.as_mut_ptr()
            },
            byte_offset: if damage == 14 {
                self.choices.pick(&[8, 1])
            } else {
                0
            },
            context: Box::into_raw(owned).cast(),
        };
        MADE.fetch_add(1, Ordering::SeqCst);
        Box::into_raw(Box::new(tensor))
    }
}
