//! Sequence numbers of requests, and execution units.

use crate::cores::MAX_CORES;
use std::fmt;

/// A unit of a core that executes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionUnit {
    /// Tensor to host.
    TensorRead,
    /// Host to tensor.
    TensorWrite,
    /// Tensor to tensor.
    TensorOperation,
    /// Models.
    Compute,
    /// Collective operations.
    Collectives,
}

impl ExecutionUnit {
    /// Every unit, in the order of the ids (nrt 1.3).
    pub const ALL: [Self; 5] = [
        Self::TensorRead,
        Self::TensorWrite,
        Self::TensorOperation,
        Self::Compute,
        Self::Collectives,
    ];

    /// The number of queues (nrt 1.5; one where that is unspecified).
    pub fn queues(self) -> u32 {
        match self {
            Self::Collectives => 3,
            Self::TensorOperation => 2,
            _ => 1,
        }
    }

    /// The name, for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::TensorRead => "tensor read",
            Self::TensorWrite => "tensor write",
            Self::TensorOperation => "tensor operation",
            Self::Compute => "compute",
            Self::Collectives => "collectives",
        }
    }
}

/// Bits of the position in a queue, the low bits.
const POSITION_BITS: u32 = 48;
/// Bits of the queue of a unit.
pub(super) const QUEUE_BITS: u32 = 2;
const UNIT_BITS: u32 = 3;

/// The sequence number of a request: 11 bits core, 3 bits unit, 2 bits queue, 48 bits position from
/// 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

const _: () = assert!(MAX_CORES.ilog2() + UNIT_BITS + QUEUE_BITS + POSITION_BITS == u64::BITS);

impl Sequence {
    pub(super) fn new(core: u32, unit: ExecutionUnit, queue: u32, position: u64) -> Self {
        let queue_id = (core << UNIT_BITS | unit as u32) << QUEUE_BITS | queue;
        Self(u64::from(queue_id) << POSITION_BITS | position)
    }

    /// The position in the queue, from 1.
    pub fn position(self) -> u64 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// Core, unit and queue; `None` for an unknown unit.
    pub(super) fn queue(self) -> Option<(u32, ExecutionUnit, u32)> {
        let id = (self.0 >> POSITION_BITS) as u32;
        let unit = id >> QUEUE_BITS & ((1 << UNIT_BITS) - 1);
        let unit = *ExecutionUnit::ALL.get(unit as usize)?;
        Some((
            id >> (QUEUE_BITS + UNIT_BITS),
            unit,
            id & ((1 << QUEUE_BITS) - 1),
        ))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue() {
            Some((core, unit, queue)) => {
                let (unit, position) = (unit.words(), self.position());
                write!(
                    f,
                    "request {position} of queue {queue}, {unit}, core {core}"
                )
            }
            None => write!(f, "{:#x}", self.0),
        }
    }
}
