//! The backend `CpuAcc`: the heavy operators on f32, fast, on CPUs with AVX-512, AVX2 or any other
//! vectors, found out at run time.
//!
//! Everything that multiplies matrices goes through one family of micro-kernels (`simd::tile`):
//! convolutions run over images whose channels lie together, as products whose rows are the windows
//! of the output pixels, never copied out. Weights are prepared when compiling, in panels of 16
//! columns (`panels`), the same on every CPU.
//!
//! Unsafe code is in `simd` alone.

mod activation;
mod backend;
mod ceiling;
mod ops;
mod panels;
mod signature;
mod simd;

pub use backend::CpuAcc;
pub use ceiling::{multiply_add_ceiling, sum_of_best_rates};
