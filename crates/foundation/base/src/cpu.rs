//! CPU levels: sets of vector instructions, which of them the CPU has, and which the process uses.

use crate::{Error, ErrorKind, Location, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable that limits the vector instructions of a process.
pub const CPU_VARIABLE: &str = "TENON_CPU";

/// A set of vector instructions. Each level includes those below it.
///
/// ```
/// use tenon_base::CpuLevel;
///
/// assert_eq!("avx2".parse::<CpuLevel>().unwrap(), CpuLevel::Avx2);
/// assert!(CpuLevel::in_use() <= CpuLevel::native());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CpuLevel {
    /// The instructions of every CPU of the architecture: SSE2 on x86-64, NEON on aarch64.
    #[default]
    Baseline,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// The level in use as an index of [`CpuLevel::ALL`], or [`UNKNOWN`].
static IN_USE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

impl CpuLevel {
    /// Every level, in ascending order.
    pub const ALL: [Self; 3] = [Self::Baseline, Self::Avx2, Self::Avx512];

    /// Its name in flags, variables and packages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The highest level that this CPU supports.
    pub fn native() -> Self {
        static NATIVE: OnceLock<CpuLevel> = OnceLock::new();
        *NATIVE.get_or_init(detect)
    }

    /// The level that kernels of this process use: the highest that the CPU supports and neither
    /// [`CpuLevel::limit_to`] nor [`CPU_VARIABLE`] excludes. A value of the variable that is no
    /// level is ignored here; [`CpuLevel::from_environment`] reports it.
    #[inline]
    pub fn in_use() -> Self {
        match IN_USE.load(Ordering::Relaxed) {
            0 => Self::Baseline,
            1 => Self::Avx2,
            2 => Self::Avx512,
            _ => Self::Avx512.limit_to(),
        }
    }

    /// Whether kernels of this process may use AVX512-BF16, which CPUs of the highest level may have besides.
    pub fn has_bf16() -> bool {
        #[cfg(target_arch = "x86_64")]
        let has = is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        let has = false;
        has && Self::in_use() == Self::Avx512
    }

    /// Limits the instructions of all kernels that are bound from now on, in the whole process.
    /// Returns the level that is in use then.
    #[cold]
    pub fn limit_to(self) -> Self {
        let variable = Self::from_environment().ok().flatten();
        let level = Self::native()
            .min(variable.unwrap_or(Self::Avx512))
            .min(self);
        IN_USE.store(level as u8, Ordering::Relaxed);
        level
    }

    /// The limit in the environment, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the variable's value is no level.
    pub fn from_environment() -> Result<Option<Self>> {
        let Some(text) = std::env::var_os(CPU_VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let level = text.to_string_lossy().parse::<Self>();
        level
            .map(Some)
            .map_err(|error| error.at(Location::field(CPU_VARIABLE)))
    }
}

impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name of a level, or `native` for that of this CPU.
impl FromStr for CpuLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "native" {
            return Ok(Self::native());
        }
        let level = Self::ALL.into_iter().find(|level| level.name() == text);
        level.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(
                ErrorKind::InvalidArgument,
                format!("`{text}` is no CPU level: expected {names} or native"),
            )
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> CpuLevel {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => CpuLevel::Avx512,
        (true, false) => CpuLevel::Avx2,
        (false, _) => CpuLevel::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> CpuLevel {
    CpuLevel::Baseline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_parses_from_its_name() {
        for level in CpuLevel::ALL {
            assert_eq!(level.name().parse::<CpuLevel>().unwrap(), level);
        }
        assert_eq!("native".parse::<CpuLevel>().unwrap(), CpuLevel::native());
        let error = "sse9".parse::<CpuLevel>().unwrap_err();
        assert!(
            error.to_string().contains("baseline, avx2, avx512"),
            "{error}"
        );
    }

    #[test]
    fn a_limit_lowers_the_level_in_use() {
        assert_eq!(CpuLevel::Baseline.limit_to(), CpuLevel::Baseline);
        assert_eq!(CpuLevel::in_use(), CpuLevel::Baseline);
        CpuLevel::Avx512.limit_to();
        let variable = CpuLevel::from_environment().unwrap();
        let expected = CpuLevel::native().min(variable.unwrap_or(CpuLevel::Avx512));
        assert_eq!(CpuLevel::in_use(), expected);
    }
}
