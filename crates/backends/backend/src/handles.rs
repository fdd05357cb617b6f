//! Tensor memory of backends: its properties, and the exchange of tensors between backends.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::Stream;
use std::fmt;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::dlpack::Device;

/// Sources of memory (backends 7.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the sources of backends 7.6")]
pub enum MemorySource {
    Malloc,
    DmaBuf,
    DmaBufProtected,
    Gralloc,
    /// Memory of the device of a handle factory, by its address there.
    Device,
}

impl MemorySource {
    /// Every source.
    pub const ALL: [MemorySource; 5] = [
        MemorySource::Malloc,
        MemorySource::DmaBuf,
        MemorySource::DmaBufProtected,
        MemorySource::Gralloc,
        MemorySource::Device,
    ];

    /// Its bit in [`MemorySources`].
    pub const fn bit(self) -> u32 {
        match self {
            MemorySource::Malloc => 1,
            MemorySource::DmaBuf => 2,
            MemorySource::DmaBufProtected => 4,
            MemorySource::Gralloc => 8,
            MemorySource::Device => 16,
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
    /// Whether the set contains `source`.
    pub fn contains(self, source: MemorySource) -> bool {
        self.0 & source.bit() != 0
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
    /// Its name; factories of the same name and device in several backends create the same kind of memory.
    pub id: String,
    /// Sources of memory that its tensors can be imported from.
    pub import: MemorySources,
    /// Sources of memory that its tensors can be exported as.
    pub export: MemorySources,
    /// Whether the CPU can access its tensors.
    pub map: bool,
    /// Whether its tensors have padding between elements, which excludes import and export.
    pub padding: bool,
    /// The device whose memory it is, as DLPack names it. Tensors are imported and exported as
    /// [`MemorySource::Device`] where the device is the same.
    pub device: Option<Device>,
}

/// How a tensor passes from its producer to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeStrategy {
    /// The consumer reads it in place.
    Direct,
    /// The consumer's tensor is imported from the producer's memory.
    Export,
    /// The CPU copies it.
    Copy,
}

impl HandleFactory {
    /// Whether tensors can pass between plain memory and the backend's memory.
    fn is_reachable(&self) -> bool {
        let plain = MemorySource::Malloc;
        let is_exchanged = self.import.contains(plain) && self.export.contains(plain);
        self.map || (is_exchanged && !self.padding)
    }
}

/// The preferred factory of a backend: the first whose tensors can pass from and to plain memory.
/// `None` if there is none, or if it works in plain memory.
pub fn preferred_factory(factories: &[HandleFactory]) -> Option<&HandleFactory> {
    factories.iter().find(|factory| factory.is_reachable())
}

/// How a consumer accesses a value of another backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrossingKind {
    /// It reads the memory of the producer.
    Shared,
    /// It imports the memory of the producer as a tensor.
    Import,
    /// The CPU copies it, or both backends do through plain memory.
    Copy,
}

impl CrossingKind {
    /// The kind of a crossing between backends with these preferences, by [`edge_strategy`]. An empty
    /// list means plain memory.
    pub fn between(producer: &[HandleFactory], consumer: &[HandleFactory]) -> Self {
        match edge_strategy(producer, consumer) {
            Some(EdgeStrategy::Direct) => CrossingKind::Shared,
            // A consumer of plain memory imports nothing: it reads exported tensors in place.
            Some(EdgeStrategy::Export) if consumer.is_empty() => CrossingKind::Shared,
            Some(EdgeStrategy::Export) => CrossingKind::Import,
            Some(EdgeStrategy::Copy) | None => CrossingKind::Copy,
        }
    }
}

impl fmt::Display for CrossingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CrossingKind::Shared => "shared",
            CrossingKind::Import => "import",
            CrossingKind::Copy => "copy",
        })
    }
}

/// The strategy for a tensor that passes from a producer to a consumer with these preferences: the
/// first possible one of the same memory, export and import, and copy (backends 7.7). `None`
/// if impossible. An empty list means plain memory, which supports all strategies.
pub fn edge_strategy(
    producer: &[HandleFactory],
    consumer: &[HandleFactory],
) -> Option<EdgeStrategy> {
    let first = |factories| preferred_factory(factories).or(factories.first());
    let Some(source) = first(producer) else {
        return match first(consumer) {
            None => Some(EdgeStrategy::Direct),
            Some(first) if first.import.contains(MemorySource::Malloc) && !first.padding => {
                Some(EdgeStrategy::Export)
            }
            Some(first) => first.map.then_some(EdgeStrategy::Copy),
        };
    };
    let is_same =
        |factory: &HandleFactory| factory.id == source.id && factory.device == source.device;
    if consumer.iter().any(is_same) {
        return Some(EdgeStrategy::Direct);
    }
    let plain = HandleFactory {
        id: String::new(),
        import: MemorySources(MemorySource::Malloc.bit()),
        export: MemorySources(MemorySource::Malloc.bit()),
        map: true,
        padding: false,
        device: None,
    };
    let target = first(consumer).unwrap_or(&plain);
    if common_source(source, target).is_some() && !source.padding && !target.padding {
        return Some(EdgeStrategy::Export);
    }
    (source.map && target.map).then_some(EdgeStrategy::Copy)
}

/// The first source that tensors of one factory are exported as and those of the other are imported from.
pub fn common_source(producer: &HandleFactory, consumer: &HandleFactory) -> Option<MemorySource> {
    let is_same_device = producer.device.is_some() && producer.device == consumer.device;
    let mut all = MemorySource::ALL.into_iter();
    all.find(|&source| {
        let in_both = producer.export.contains(source) && consumer.import.contains(source);
        in_both && (source != MemorySource::Device || is_same_device)
    })
}

/// Whether tensors can pass between plain memory and a backend with these preferences.
pub fn is_reachable(factories: &[HandleFactory]) -> bool {
    factories.is_empty() || preferred_factory(factories).is_some()
}

/// A tensor in a backend's memory.
///
/// # Safety
/// `start` must return the same address as long as the handle lives: null for a tensor without
/// bytes, else an address aligned to 64 at which the backend's own workloads can read and write the
/// tensor's bytes, all initialised, and which no other code accesses meanwhile. The CPU may access
/// that memory only if the backend's workloads run on the CPU or its factory exports `Malloc`;
/// kernels of other backends then read it in place.
pub unsafe trait TensorHandle: Send {
    /// Copies the elements in.
    fn copy_in(&mut self, bytes: &[u8]) -> Result<()>;

    /// Copies the elements out.
    fn copy_out(&self, bytes: &mut [u8]) -> Result<()>;

    /// Its address, as used by the backend's workloads.
    fn start(&self) -> *mut u8;

    /// Copies the elements in, as a command of a stream of the backend. Required of backends with streams.
    ///
    /// # Safety
    /// `bytes` must be valid for reads and not written until the stream is finished.
    unsafe fn enqueue_in(&mut self, stream: &mut dyn Stream, bytes: *const [u8]) -> Result<()> {
        let _ = (stream, bytes);
        Err(no_commands())
    }

    /// Copies the elements out, as a command of a stream of the backend. Required of backends with streams.
    ///
    /// # Safety
    /// `bytes` must be valid for writes and not accessed until the stream is finished.
    unsafe fn enqueue_out(&self, stream: &mut dyn Stream, bytes: *mut [u8]) -> Result<()> {
        let _ = (stream, bytes);
        Err(no_commands())
    }
}

fn no_commands() -> Error {
    let text = "the tensor cannot be copied by commands of a stream";
    Error::new(ErrorKind::Unsupported, text)
}

/// Memory to import as a tensor.
#[derive(Debug, Clone, Copy)]
pub struct ImportedMemory {
    /// Its address.
    pub start: *mut u8,
    /// Its size.
    pub bytes: usize,
    /// Its source.
    pub source: MemorySource,
    /// Whether the tensor is used in many executions, so that registering the memory is worth its time.
    pub is_long_lived: bool,
    /// Whether the tensor is not written.
    pub is_read_only: bool,
}

impl ImportedMemory {
    /// Memory for one execution, which may be written.
    pub fn new(start: *mut u8, bytes: usize, source: MemorySource) -> Self {
        Self {
            start,
            bytes,
            source,
            is_long_lived: false,
            is_read_only: false,
        }
    }
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
            device: None,
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
        let common = |export, import| {
            let (producer, consumer) =
                (factory("A", 0, export, true), factory("B", import, 0, true));
            common_source(&producer, &consumer)
        };
        assert_eq!(common(6, 12), Some(MemorySource::DmaBufProtected));
        assert_eq!(common(1, 2), None);
    }

    #[test]
    fn memory_of_a_device_passes_on_that_device_only() {
        let on = |id: &str, device: Option<i32>| HandleFactory {
            device: device.map(|index| Device { kind: 2, index }),
            ..factory(id, 16, 16, true)
        };
        let strategy = |a, b| edge_strategy(&[on("A", a)], &[on("B", b)]);
        assert_eq!(strategy(Some(0), Some(0)), Some(EdgeStrategy::Export));
        assert_eq!(strategy(Some(0), Some(1)), Some(EdgeStrategy::Copy));
        assert_eq!(strategy(None, None), Some(EdgeStrategy::Copy));
    }

    #[test]
    fn sources_are_listed_in_words() {
        assert_eq!(MemorySources(3).to_string(), "Malloc, DmaBuf");
        assert_eq!(MemorySources(0).to_string(), "none");
    }
}
