//! The levels of vector instructions, and the products that each has.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::VectorOp;
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::products::ProductKind;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::floats::FloatType;
use tenon_backend::CpuLevel;

/// A level of vector instructions that the CPU has, chosen when the backend is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(super) level: CpuLevel,
    pub(super) quads: bool,
    pub(super) bf16_pairs: bool,
}

impl Level {
    /// The highest level that this process uses and `limit` allows.
    pub(crate) fn detect(limit: CpuLevel) -> Self {
        let level = CpuLevel::in_use().min(limit);
        // AVX-VNNI is of CPUs without AVX-512 as well, and not among the instructions of a lower level than the CPU's.
        #[cfg(target_arch = "x86_64")]
        let quads = match level {
            CpuLevel::Avx512 => is_x86_feature_detected!("avx512vnni"),
            CpuLevel::Avx2 => level == CpuLevel::native() && is_x86_feature_detected!("avxvnni"),
            CpuLevel::Baseline => false,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let quads = false;
        let bf16_pairs = level == CpuLevel::Avx512 && CpuLevel::has_bf16();
        Self {
            level,
            quads,
            bf16_pairs,
        }
    }

    /// The instructions without those that some CPUs of the level have.
    pub(crate) fn cpu(self) -> CpuLevel {
        self.level
    }

    /// Whether it is the target's baseline.
    pub(crate) fn is_baseline(self) -> bool {
        self.level == CpuLevel::Baseline
    }

    /// Whether there are the instructions of a product.
    pub(crate) fn has(self, product: ProductKind) -> bool {
        match product {
            ProductKind::Quads | ProductKind::SignedQuads => self.quads,
            ProductKind::Bf16Pairs => self.bf16_pairs,
            _ => true,
        }
    }

    /// The fastest product of bytes.
    pub(crate) fn product_of_bytes(self) -> ProductKind {
        if self.quads {
            ProductKind::Quads
        } else {
            ProductKind::Pairs
        }
    }

    /// The fastest product with weights of this type.
    pub(crate) fn product_of(self, weights: FloatType) -> ProductKind {
        match weights {
            FloatType::F32 => ProductKind::Floats,
            FloatType::F16 => ProductKind::WidenedF16,
            FloatType::Bf16 if self.bf16_pairs => ProductKind::Bf16Pairs,
            FloatType::Bf16 => ProductKind::WidenedBf16,
        }
    }

    /// The name that `tenon backends` prints.
    pub(crate) fn name(self) -> &'static str {
        match self.level {
            CpuLevel::Baseline if cfg!(target_arch = "aarch64") => "NEON",
            CpuLevel::Baseline => "portable vectors",
            CpuLevel::Avx2 => "AVX2",
            CpuLevel::Avx512 => "AVX-512",
        }
    }

    /// Runs `op` with the vectors of this level.
    #[inline]
    pub(crate) fn run<O: VectorOp>(self, op: O) -> O::Output {
        match self.level {
            // SAFETY: `detect` returns at most the level that the CPU was found to support.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx512 => unsafe { avx512::run(op) },
            // SAFETY: `detect` returns at most the level that the CPU was found to support.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx2 => unsafe { avx2::run(op) },
            // SAFETY: Rust's aarch64 targets with std require NEON.
            #[cfg(target_arch = "aarch64")]
            _ => unsafe { neon::run(op) },
            #[cfg(not(target_arch = "aarch64"))]
            _ => op.eval(super::Portable),
        }
    }
}
