//! Structs shared with callers, as in the headers. Sizes and offsets are those of nrt 1.4;
//! `tests/c/layout.c` asserts them for the headers.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// Bytes of a tensor's name including the final NUL.
pub(crate) const NAME_BYTES: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstanceInfo {
    pub family: u32,
    pub size: u32,
    pub arch_name: [c_char; 16],
    pub device_revision: [c_char; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TensorInfo {
    pub name: [c_char; NAME_BYTES],
    pub usage: u32,
    pub size: usize,
    pub dtype: u32,
    pub shape: *mut u32,
    pub ndim: u32,
}

/// The header of a list of infos.
#[repr(C)]
pub(crate) struct TensorInfoArray {
    pub tensor_count: u64,
    pub tensor_array: [TensorInfo; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub maintenance: u64,
    pub detail: [c_char; 128],
    pub git_hash: [c_char; 64],
}

#[repr(C)]
pub(crate) struct Batch {
    pub tensor: *const c_void,
    pub ops: *const BatchOperation,
    pub num_ops: u32,
}

#[repr(C)]
pub(crate) struct BatchOperation {
    pub offset: u64,
    pub size: u64,
    pub buffer: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationInfo {
    pub physical_address: u64,
    pub size: u64,
    pub hbm_index: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemoryStats {
    pub bytes_used: u64,
    pub bytes_limit: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ModelInfo {
    pub vnc: u32,
}

#[repr(C)]
pub(crate) struct CollectiveComm {
    pub replica_group: *const u32,
    pub rank: u32,
    pub rank_n: u32,
    pub ctx_device_id: u32,
    pub ctx_device_count: u32,
    pub vnc: u32,
}

#[repr(C)]
pub(crate) struct TensorList {
    pub tensors: *const *const c_void,
    pub num_tensors: usize,
}

#[repr(C)]
pub(crate) struct UcodeImage {
    pub bin: *const u8,
    pub size: usize,
}

#[repr(C)]
pub(crate) struct UcodeInfo {
    pub iram: UcodeImage,
    pub dram: UcodeImage,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RequestError {
    pub seq_id: u64,
    pub error_code: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EventHeader {
    pub data_size: u64,
    pub kind: u32,
    pub reserved: [c_char; 52],
}

/// The header of a tensor's bytes in the payload of an event.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DebugTensor {
    pub prefix: [c_char; 512],
    pub logical_nc_id: u32,
    pub pipe: u32,
    pub tensor_dtype: [c_char; 16],
    pub tensor_shape: [u64; 8],
    pub tensor_data_size: u64,
    pub reserved: [c_char; 416],
}

macro_rules! layout {
    ($($type:ident $size:literal: $($field:ident $offset:literal),*;)*) => {
        $(
            const _: () = assert!(size_of::<$type>() == $size);
            $(const _: () = assert!(offset_of!($type, $field) == $offset);)*
        )*
    };
}

#[cfg(target_pointer_width = "64")]
layout! {
    InstanceInfo 32: family 0, size 4, arch_name 8, device_revision 24;
    TensorInfo 296: name 0, usage 256, size 264, dtype 272, shape 280, ndim 288;
    TensorInfoArray 8: tensor_count 0, tensor_array 8;
    Version 224: major 0, minor 8, patch 16, maintenance 24, detail 32, git_hash 160;
    Batch 24: tensor 0, ops 8, num_ops 16;
    BatchOperation 24: offset 0, size 8, buffer 16;
    AllocationInfo 24: physical_address 0, size 8, hbm_index 16;
    MemoryStats 16: bytes_used 0, bytes_limit 8;
    ModelInfo 4: vnc 0;
    CollectiveComm 32: replica_group 0, rank 8, rank_n 12, ctx_device_id 16, ctx_device_count 20, vnc 24;
    TensorList 16: tensors 0, num_tensors 8;
    UcodeImage 16: bin 0, size 8;
    UcodeInfo 32: iram 0, dram 16;
    RequestError 16: seq_id 0, error_code 8;
    EventHeader 64: data_size 0, kind 8, reserved 12;
    DebugTensor 1024: prefix 0, logical_nc_id 512, pipe 516, tensor_dtype 520, tensor_shape 536, tensor_data_size 600, reserved 608;
}
