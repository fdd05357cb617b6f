//! Signals that end the process: the terminal is restored and unfinished files are removed first. A command that has
//! to finish its work receives the first one instead.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Starts a thread that waits for SIGHUP, SIGINT and SIGTERM. At the first one it restores the
/// terminal, removes unfinished files and ends the process by that signal.
pub fn watch() {
    let ignored = ignored();
    // Signals that the parent process (nohup, a shell) ignores stay ignored.
    let signals = [SIGHUP, SIGINT, SIGTERM].map(|signal| (signal, ignored >> (signal - 1) & 1));
    let watched = signals.iter().filter(|(_, ignored)| *ignored == 0);
    // Without handlers the process ends at once, as by default.
    let Ok(mut signals) = Signals::new(watched.map(|(signal, _)| signal)) else {
        return;
    };
    let wait = move || {
        for signal in signals.forever() {
            #[cfg(feature = "serve")]
            if receiver::is_passed(signal) {
                continue;
            }
            tenon_monitor::restore_terminal();
            tenon::files::remove_unfinished_files();
            let _ = emulate_default_handler(signal);
        }
    };
    let thread = std::thread::Builder::new().name("tenon signals".into());
    if thread.spawn(wait).is_err() {
        crate::output::complain(
            "warning: cannot start the signal thread: a signal may leave unfinished files",
        );
    }
}

#[cfg(feature = "serve")]
pub use receiver::receive;

/// The command that receives the first signal.
#[cfg(feature = "serve")]
mod receiver {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Mutex, PoisonError};

    static RECEIVER: Mutex<Option<Sender<()>>> = Mutex::new(None);

    /// The first SIGINT or SIGTERM from now on, which does not end the process; the second one does.
    pub fn receive() -> Receiver<()> {
        let (sender, receiver) = channel();
        *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// Passes a signal to the command, if one waits for it.
    pub fn is_passed(signal: i32) -> bool {
        let mut sender = RECEIVER.lock().unwrap_or_else(PoisonError::into_inner);
        let is_end = [SIGINT, SIGTERM].contains(&signal);
        is_end && sender.take().is_some_and(|sender| sender.send(()).is_ok())
    }
}

/// The ignored signals, bit 0 for signal 1 (proc(5), `SigIgn`).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
