//! The child of a fork: it has none of the library's threads, and starts new ones.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_base::pool;

/// Forks of this process and its parents since the first call.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of forks.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Has forks counted, and the thread pool of the child prepared.
pub fn register() {
    static ONCE: Once = Once::new();
    // SAFETY: the handler uses only atomics and locks that it does not wait for, as the child of a fork of a process with
    // several threads requires.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
    });
}

/// Runs in the child.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    pool::after_fork();
}
