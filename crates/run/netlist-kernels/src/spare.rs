//! Memory that ops no longer need, for the next that want as much: an op in a loop takes what it
//! gave back a round ago, and the system is not asked. What the host is given comes back too when
//! the host lets go of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::Result;
use tenon_tensor::BufferMut;

/// Bytes that are kept in any case; more only as long as programs had as many in use.
const KEPT: usize = 256 << 20;
/// Shorter memory comes as fast from the allocator.
const LEAST: usize = 1 << 10;

#[derive(Default)]
struct Spare {
    by_length: HashMap<usize, Shelf>,
    /// Bytes on all shelves.
    bytes: usize,
    /// Bytes that were taken and are not back yet, and the most of them since programs settled.
    lent: usize,
    most_lent: usize,
    /// How often memory was taken.
    takings: u64,
}

/// Memory of one length.
#[derive(Default)]
struct Shelf {
    buffers: Vec<BufferMut>,
    /// When some was wanted last.
    wanted: u64,
}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

fn spare() -> MutexGuard<'static, Option<Spare>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of a length, whatever it holds.
pub(super) fn take(bytes: usize) -> Result<BufferMut> {
    taken(bytes, |_| {})
}

/// Memory of zeros.
pub(super) fn take_zeroed(bytes: usize) -> Result<BufferMut> {
    taken(bytes, |used| used.fill(0))
}

/// Memory of zeros, or some that was used before and has been cleaned.
fn taken(bytes: usize, clean: impl FnOnce(&mut [u8])) -> Result<BufferMut> {
    if bytes < LEAST {
        return BufferMut::zeroed(bytes);
    }
    let buffer = match kept(bytes) {
        Some(mut used) => {
            clean(&mut used);
            used
        }
        None => BufferMut::zeroed(bytes)?,
    };
    Ok(buffer.recycled_by(give))
}

/// Counts memory as lent; some of that length, if there is.
fn kept(bytes: usize) -> Option<BufferMut> {
    let mut spare = spare();
    let spare = spare.get_or_insert_default();
    spare.takings += 1;
    spare.lent += bytes;
    spare.most_lent = spare.most_lent.max(spare.lent);
    let shelf = spare.by_length.entry(bytes).or_default();
    shelf.wanted = spare.takings;
    let buffer = shelf.buffers.pop()?;
    spare.bytes -= bytes;
    Some(buffer)
}

/// Takes memory back.
fn give(buffer: BufferMut) {
    let too_much = {
        let mut spare = spare();
        let spare = spare.get_or_insert_default();
        let length = buffer.len();
        spare.lent = spare.lent.saturating_sub(length);
        spare.bytes += length;
        spare
            .by_length
            .entry(length)
            .or_default()
            .buffers
            .push(buffer);
        spare.too_much()
    };
    // The system gets it while nobody waits.
    drop(too_much);
}

/// A program is done for good: what only it had in use is let go.
pub(super) fn settle() {
    let too_much = spare().as_mut().map(|spare| {
        spare.most_lent = spare.lent;
        spare.too_much()
    });
    drop(too_much);
}

impl Spare {
    /// Takes off the shelves what is more than should be kept, what was not wanted for longest
    /// first.
    fn too_much(&mut self) -> Vec<BufferMut> {
        let most = KEPT.max(self.most_lent);
        let mut taken = Vec::new();
        while self.bytes > most {
            let shelves = self.by_length.values_mut();
            let filled = shelves.filter(|shelf| !shelf.buffers.is_empty());
            let oldest = filled.min_by_key(|shelf| shelf.wanted);
            let Some(buffer) = oldest.and_then(|shelf| shelf.buffers.pop()) else {
                break;
            };
            self.bytes -= buffer.len();
            taken.push(buffer);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths that no other test uses, for all share what is spare.
    #[test]
    fn what_is_dropped_is_taken_again() {
        let length = (1 << 16) + 64;
        let mut buffer = take(length).unwrap();
        buffer[5] = 7;
        drop(buffer.freeze());
        assert_eq!(take(length).unwrap()[5], 7);
        assert!(take_zeroed(length).unwrap().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_was_not_wanted_for_longest_goes_first() {
        let of = |length| BufferMut::zeroed(length).unwrap();
        let mut spare = Spare::default();
        for (wanted, length) in [(2, KEPT / 2), (1, KEPT / 4), (3, KEPT / 2)] {
            let shelf = spare.by_length.entry(length).or_default();
            shelf.wanted = wanted;
            shelf.buffers.push(of(length));
            spare.bytes += length;
        }
        let taken: Vec<usize> = spare.too_much().iter().map(|gone| gone.len()).collect();
        assert_eq!((taken, spare.bytes), (vec![KEPT / 4], KEPT));
        // As much as was in use at once may wait to be used again.
        spare.most_lent = KEPT + 8;
        spare.bytes += 8;
        spare.by_length.entry(8).or_default().buffers.push(of(8));
        assert!(spare.too_much().is_empty());
    }
}
