//! The backend `CpuAcc`: fast kernels, with the vector instructions that are detected at run time
//! (AVX-512, AVX2, NEON or the target's baseline). f16 and bf16 are computed in f32 inside the kernels
//! (`floats`).
//!
//! Every matrix product is a blocked GEMM with one family of micro-kernels (`simd::gemm`,
//! `simd::tile`). Convolutions over images with the channels last (NHWC) are implicit GEMM: the im2col
//! rows are read through pointers and never stored. Weights are packed when compiling, in panels of 16
//! columns (`panels`), the same on every CPU.
//!
//! Only `simd` has unsafe code.

mod activation;
mod backend;
mod ceiling;
mod elementary;
mod floats;
mod ops;
mod panels;
mod signature;
mod simd;

pub use backend::CpuAcc;
pub use ceiling::{multiply_add_ceiling, sum_of_best_rates};
