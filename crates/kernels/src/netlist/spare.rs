//! Memory that ops no longer need, for the next that want as much: an op in a loop takes what it
//! gave back a round ago, and the system is not asked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::Result;
use tenon_tensor::BufferMut;

/// Bytes that are kept at most in a process.
const MOST: usize = 256 << 20;
/// Shorter memory comes as fast from the allocator.
const LEAST: usize = 1 << 10;

#[derive(Default)]
struct Spare {
    by_length: HashMap<usize, Vec<BufferMut>>,
    bytes: usize,
}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

fn spare() -> MutexGuard<'static, Option<Spare>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of a length, whatever it holds.
pub(super) fn take(bytes: usize) -> Result<BufferMut> {
    if bytes >= LEAST
        && let Some(spare) = spare().as_mut()
        && let Some(buffer) = spare.by_length.get_mut(&bytes).and_then(Vec::pop)
    {
        spare.bytes -= bytes;
        return Ok(buffer);
    }
    BufferMut::zeroed(bytes)
}

/// Memory of zeros.
pub(super) fn take_zeroed(bytes: usize) -> Result<BufferMut> {
    let known = bytes >= LEAST && {
        let spare = spare();
        let lengths = spare.as_ref().map(|spare| &spare.by_length);
        lengths.is_some_and(|lengths| lengths.get(&bytes).is_some_and(|all| !all.is_empty()))
    };
    if !known {
        return BufferMut::zeroed(bytes);
    }
    let mut buffer = take(bytes)?;
    buffer.fill(0);
    Ok(buffer)
}

/// Takes memory back; where there is enough already, what was kept is let go.
pub(super) fn give(buffer: BufferMut) {
    let length = buffer.len();
    if !(LEAST..=MOST).contains(&length) {
        return;
    }
    let mut all = spare();
    let spare = all.get_or_insert_default();
    if spare.bytes + length > MOST {
        *spare = Spare::default();
    }
    spare.bytes += length;
    spare.by_length.entry(length).or_default().push(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths that no other test uses, for all share what is spare.
    #[test]
    fn what_is_given_is_taken_again() {
        let length = (1 << 16) + 64;
        let mut buffer = BufferMut::zeroed(length).unwrap();
        buffer[5] = 7;
        give(buffer);
        assert_eq!(take(length).unwrap()[5], 7);
        assert_eq!(take(length).unwrap()[5], 0);
        let mut buffer = BufferMut::zeroed(length).unwrap();
        buffer[5] = 7;
        give(buffer);
        assert!(take_zeroed(length).unwrap().iter().all(|&byte| byte == 0));
    }
}
