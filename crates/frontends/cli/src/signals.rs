//! Signals that end the process: the terminal is restored and unfinished files are removed first.

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
        if let Some(signal) = signals.forever().next() {
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

/// The ignored signals, bit 0 for signal 1 (proc(5), `SigIgn`).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
