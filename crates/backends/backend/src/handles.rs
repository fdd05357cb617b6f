//! Tensor memory of backends: what it can do, and how a tensor passes from one to another.

use std::fmt;
use tenon_base::Result;

/// Where memory comes from (facts, armnn.md 1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the sources of facts, armnn.md 1.2")]
pub enum MemorySource {
    Malloc,
    DmaBuf,
    DmaBufProtected,
    Gralloc,
}

impl MemorySource {
    /// Every source.
    pub const ALL: [MemorySource; 4] = [
        MemorySource::Malloc,
        MemorySource::DmaBuf,
        MemorySource::DmaBufProtected,
        MemorySource::Gralloc,
    ];

    /// Its bit in [`MemorySources`].
    pub const fn bit(self) -> u32 {
        match self {
            MemorySource::Malloc => 1,
            MemorySource::DmaBuf => 2,
            MemorySource::DmaBufProtected => 4,
            MemorySource::Gralloc => 8,
        }
    }

    /// The source of a bit.
    pub(crate) fn of_bit(bit: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|source| i64::from(source.bit()) == i64::from(bit))
    }
}

/// A set of memory sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySources(pub u32);

impl MemorySources {
    /// Whether `source` is among them.
    pub fn contains(self, source: MemorySource) -> bool {
        self.0 & source.bit() != 0
    }

    /// Whether there are some that `other` has too.
    pub fn intersects(self, other: MemorySources) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Display for MemorySources {
    /// `Malloc, DmaBuf`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = MemorySource::ALL
            .into_iter()
            .filter(|source| self.contains(*source))
            .map(|source| format!("{source:?}"))
            .collect();
        if names.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&names.join(", "))
        }
    }
}

/// A kind of tensor memory of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandleFactory {
    /// Its name; factories of several backends with the same name make the same memory.
    pub id: String,
    /// Memory of others that its tensors can be made of.
    pub import: MemorySources,
    /// Memory that others can take its tensors for.
    pub export: MemorySources,
    /// Whether the CPU can read and write its tensors.
    pub map: bool,
    /// Whether its tensors have padding between elements, so that none can be imported or exported.
    pub padding: bool,
}

/// How a tensor passes from its maker to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeStrategy {
    /// The user reads it where it lies.
    Direct,
    /// The user's memory is made of the maker's.
    Export,
    /// It is copied by the CPU.
    Copy,
}

impl HandleFactory {
    /// Whether tensors can pass from plain memory to its own and back.
    fn is_reachable(&self) -> bool {
        let plain = MemorySource::Malloc;
        let lent = self.import.contains(plain) && self.export.contains(plain);
        self.map || (lent && !self.padding)
    }
}

/// The kind of memory that a backend with these preferences has its tensors in: the first that
/// tensors can pass to and from. `None` when there is none, or when it works on plain memory.
pub fn preferred_factory(factories: &[HandleFactory]) -> Option<&HandleFactory> {
    factories.iter().find(|factory| factory.is_reachable())
}

/// How a tensor of the maker's memory passes to a user with these preferences: the first that holds
/// of the same memory, export into import, and copying (facts, armnn.md 2). `None` when nothing
/// does. No preferences stand for plain memory, which takes part in everything.
pub fn edge_strategy(maker: &[HandleFactory], user: &[HandleFactory]) -> Option<EdgeStrategy> {
    let first = |factories| preferred_factory(factories).or(factories.first());
    let Some(made) = first(maker) else {
        return match first(user) {
            None => Some(EdgeStrategy::Direct),
            Some(first) if first.import.contains(MemorySource::Malloc) && !first.padding => {
                Some(EdgeStrategy::Export)
            }
            Some(first) => first.map.then_some(EdgeStrategy::Copy),
        };
    };
    if user.iter().any(|factory| factory.id == made.id) {
        return Some(EdgeStrategy::Direct);
    }
    let plain = HandleFactory {
        id: String::new(),
        import: MemorySources(MemorySource::Malloc.bit()),
        export: MemorySources(MemorySource::Malloc.bit()),
        map: true,
        padding: false,
    };
    let taken = first(user).unwrap_or(&plain);
    if made.export.intersects(taken.import) && !made.padding && !taken.padding {
        return Some(EdgeStrategy::Export);
    }
    (made.map && taken.map).then_some(EdgeStrategy::Copy)
}

/// The first source that both sets have.
pub fn common_source(export: MemorySources, import: MemorySources) -> Option<MemorySource> {
    let mut all = MemorySource::ALL.into_iter();
    all.find(|&source| export.contains(source) && import.contains(source))
}

/// Whether tensors can pass from plain memory to a backend with these preferences and back.
pub fn is_reachable(factories: &[HandleFactory]) -> bool {
    factories.is_empty() || preferred_factory(factories).is_some()
}

/// A tensor in a backend's memory.
///
/// # Safety
/// `start` answers the same as long as the tensor is there: null for a tensor of no bytes, else an
/// address aligned to 64 from which the backend's own workloads can read and write as many
/// initialised bytes as the tensor has, and nobody else does meanwhile. The CPU reaches them there
/// only where the backend's workloads run on it, or its factory exports `Malloc`: kernels of others
/// then read them where they lie.
pub unsafe trait TensorHandle: Send {
    /// Writes its elements.
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()>;

    /// Reads its elements.
    fn copy_out(&self, bytes: &mut [u8]) -> Result<()>;

    /// Where it starts, as the backend's workloads see it.
    fn start(&self) -> *mut u8;
}

/// Memory of others that a tensor is made of.
#[derive(Debug, Clone, Copy)]
pub struct ImportedMemory {
    /// Where it starts.
    pub start: *mut u8,
    /// How many bytes there are.
    pub bytes: usize,
    /// What kind of memory it is.
    pub source: MemorySource,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factory(id: &str, import: u32, export: u32, map: bool) -> HandleFactory {
        HandleFactory {
            id: id.into(),
            import: MemorySources(import),
            export: MemorySources(export),
            map,
            padding: false,
        }
    }

    #[test]
    fn the_first_strategy_that_holds_is_taken() {
        let a = factory("A", 1, 1, true);
        let b = factory("B", 1, 2, true);
        let dark = factory("Dark", 2, 2, false);
        let one = |factory: &HandleFactory| vec![factory.clone()];
        assert_eq!(edge_strategy(&[], &[]), Some(EdgeStrategy::Direct));
        assert_eq!(
            edge_strategy(&one(&a), &[b.clone(), a.clone()]),
            Some(EdgeStrategy::Direct)
        );
        assert_eq!(
            edge_strategy(&one(&a), &one(&b)),
            Some(EdgeStrategy::Export)
        );
        assert_eq!(edge_strategy(&one(&b), &one(&a)), Some(EdgeStrategy::Copy));
        assert_eq!(edge_strategy(&one(&dark), &one(&a)), None);
        assert_eq!(edge_strategy(&[], &one(&a)), Some(EdgeStrategy::Export));
        assert_eq!(edge_strategy(&[], &one(&dark)), None);
        let mut padded = b.clone();
        padded.padding = true;
        assert_eq!(edge_strategy(&one(&a), &[padded]), Some(EdgeStrategy::Copy));
    }

    #[test]
    fn memory_that_plain_memory_cannot_pass_to_is_out_of_reach() {
        let dark = factory("Dark", 2, 2, false);
        let takes_plain = factory("TakesPlain", 1, 2, false);
        let both = factory("Both", 1, 1, false);
        let of = |one: HandleFactory| is_reachable(&[one]);
        assert!(is_reachable(&[]) && of(factory("Copied", 0, 0, true)) && of(both));
        assert!(!of(dark) && !of(takes_plain));
        let sources = |bits| MemorySources(bits);
        assert_eq!(
            common_source(sources(6), sources(12)),
            Some(MemorySource::DmaBufProtected)
        );
        assert_eq!(common_source(sources(1), sources(2)), None);
    }

    #[test]
    fn sources_are_listed_in_words() {
        assert_eq!(MemorySources(3).to_string(), "Malloc, DmaBuf");
        assert_eq!(MemorySources(0).to_string(), "none");
    }
}
