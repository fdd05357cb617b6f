//! Feature bits: features that a loader must support (neff 1.4).

use std::fmt;
use std::ops::BitOr;

/// The `feature_bits` of a header. Display names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FeatureBits(pub u64);

/// The bits with a documented name, and Tenon's own.
const NAMES: &[(u32, &str)] = &[
    (0, "bin-weights"),
    (1, "collectives-offset"),
    (2, "custom-ops"),
    (3, "coalesced-cc"),
    (10, "neff_feature_vnc"),
    (59, "tenon-host-functions"),
    (60, "tenon-symbols"),
    (61, "tenon-cpu-nodes"),
    (62, "tenon-host-program"),
];

impl FeatureBits {
    /// Tenon's own: a host program calls the subgraphs.
    pub const TENON_HOST_FUNCTIONS: Self = Self(1 << 59);
    /// Tenon's own: some sizes are known only when the model runs.
    pub const TENON_SYMBOLS: Self = Self(1 << 60);
    /// Tenon's own: several nodes, some of them functions of libraries in the package.
    pub const TENON_CPU_NODES: Self = Self(1 << 61);
    /// Tenon's own: engine program `sp` is a BEF host program.
    pub const TENON_HOST_PROGRAM: Self = Self(1 << 62);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set bits by name, lowest first; `bit N` where no name is documented.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..u64::BITS)
            .filter(move |bit| self.0 >> bit & 1 == 1)
            .map(|bit| {
                NAMES
                    .iter()
                    .find(|&&(known, _)| known == bit)
                    .map_or_else(|| format!("bit {bit}"), |&(_, name)| name.to_owned())
            })
    }

    /// The set bits without a documented name.
    pub fn without_name(self) -> Self {
        let named = NAMES.iter().fold(0, |bits, &(bit, _)| bits | 1 << bit);
        Self(self.0 & !named)
    }

    /// The bit of a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|&&(_, known)| known == name)
            .map(|&(bit, _)| Self(1 << bit))
    }
}

impl BitOr for FeatureBits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for FeatureBits {
    /// `0x400 (neff_feature_vnc)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)?;
        if self.0 != 0 {
            write!(f, " ({})", self.names().collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        let text = FeatureBits(0x209c00).to_string();
        assert_eq!(
            text,
            "0x209c00 (neff_feature_vnc, bit 11, bit 12, bit 15, bit 21)"
        );
        assert_eq!(FeatureBits::named("tenon-host-program").unwrap().0, 1 << 62);
        assert_eq!(FeatureBits::default().to_string(), "0x0");
    }
}
