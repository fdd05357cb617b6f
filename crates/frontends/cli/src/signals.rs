//! Signals that end the process: the terminal is restored and unfinished files are removed first. A command that has
//! to finish its work receives the first one instead.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// The command that receives the first signal.
static RECEIVER: Mutex<Option<Sender<i32>>> = Mutex::new(None);

/// Whether the parent process receives the signals of this one.
static IS_LEFT_TO_PARENT: AtomicBool = AtomicBool::new(false);

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
            if IS_LEFT_TO_PARENT.load(Ordering::Relaxed) || is_passed(signal) {
                continue;
            }
            #[cfg(feature = "serve")]
            if signal == SIGHUP && hangup::is_handled() {
                continue;
            }
            end_by(signal);
        }
    };
    let thread = std::thread::Builder::new().name("tenon signals".into());
    if thread.spawn(wait).is_err() {
        crate::output::complain(
            "warning: cannot start the signal thread: a signal may leave unfinished files",
        );
    }
}

/// The first SIGINT or SIGTERM from now on, which does not end the process; the second one does.
pub fn receive() -> Receiver<i32> {
    let (sender, receiver) = channel();
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    receiver
}

/// Ignores the signals from now on: a terminal sends them to the parent process as well, which ends this one.
pub fn leave_to_parent() {
    IS_LEFT_TO_PARENT.store(true, Ordering::Relaxed);
}

/// Restores the terminal, removes unfinished files and ends the process by a signal.
pub fn end_by(signal: i32) {
    tenon_monitor::restore_terminal();
    tenon::files::remove_unfinished_files();
    let _ = emulate_default_handler(signal);
}

/// Passes a signal to the command, if one waits for it.
fn is_passed(signal: i32) -> bool {
    let mut sender = RECEIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let is_end = [SIGINT, SIGTERM].contains(&signal);
    is_end
        && sender
            .take()
            .is_some_and(|sender| sender.send(signal).is_ok())
}

#[cfg(feature = "serve")]
pub use hangup::at_hangup;

/// What SIGHUP does instead of ending the process.
#[cfg(feature = "serve")]
mod hangup {
    use std::sync::{Mutex, PoisonError};

    type Action = Box<dyn Fn() + Send>;

    static ACTION: Mutex<Option<Action>> = Mutex::new(None);

    /// Runs an action at each SIGHUP, which no longer ends the process.
    pub fn at_hangup(action: impl Fn() + Send + 'static) {
        *ACTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
    }

    /// Runs the action, if there is one.
    pub fn is_handled() -> bool {
        let action = ACTION.lock().unwrap_or_else(PoisonError::into_inner);
        action.as_ref().map(|action| action()).is_some()
    }
}

/// The ignored signals, bit 0 for signal 1 (proc(5), `SigIgn`).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
